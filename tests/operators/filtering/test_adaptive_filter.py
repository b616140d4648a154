"""The operator: the rows that pass are those of the plain conjunction, whatever happens to the order."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from flag_filters import drifting, flag_batch, flag_filters, flag_schema
from hypothesis import given, settings

from penstock.experiments.agreedy.tuple_at_a_time import play
from penstock.experiments.agreedy.workload import correlated
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.elements import Control, Heartbeat
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.policies.table import POLICIES, make_order
from penstock.operators.filtering.predicates import ExpressionPredicate, OnArrow, OnPandas, OnRows
from penstock.operators.filtering.settings import FilterSettings, Mode, OrderSettings
from penstock.operators.filtering.static import DropStatistics, histogram
from penstock.testing.checks import check_all, inputs
from penstock.testing.tapes import batch_cuts, reborn

ADAPTIVE = ("agreedy", "sweep", "independent", "local_swaps")


@st.composite
def conjunctions(draw: st.DrawFn):
    count = draw(st.integers(0, 5))
    rows = draw(st.integers(1, 60))
    answers = st.lists(st.sampled_from([True, True, False, None]), min_size=rows, max_size=rows)
    columns = [draw(answers) for _ in range(count)] or [[True] * rows]
    window = draw(st.integers(1, 10))
    order = OrderSettings(
        draw(st.sampled_from(list(POLICIES))), probability=draw(st.sampled_from([1.0, 0.5, 0.0])), window_rows=window,
        stage_rows=window, min_fill=draw(st.integers(1, window)), alpha=draw(st.sampled_from([1.0, 0.9])),
        move=draw(st.sampled_from(["rotate", "swap"])), check=draw(st.sampled_from(["stage_end", "continuous"])),
        seed=draw(st.integers(0, 9)),
    )  # fmt: skip
    chosen = FilterSettings(order, draw(st.integers(1, 20)), draw(st.integers(0, 99)), mode=draw(st.sampled_from(list(Mode))))
    cuts = sorted(draw(st.sets(st.integers(1, rows), max_size=4)) | {rows})
    forced = [draw(st.none() | st.permutations([f"f{i}" for i in range(count)])) for _ in cuts]
    return count, columns, chosen, cuts, forced


@given(scene=conjunctions(), restarts=st.booleans())
@settings(max_examples=80, deadline=None)
def test_output_is_the_plain_conjunction_for_every_order_chunk_and_restart(scene, restarts):
    count, columns, chosen, cuts, forced = scene

    def make() -> AdaptiveFilter:
        return AdaptiveFilter(flag_schema(max(count, 1)), flag_filters(count), chosen, "f")

    operator, whole, found, start = make(), flag_batch(columns), list[int](), 0
    for cut, order in zip(cuts, forced, strict=True):
        if order is not None:
            operator.on_control(Control(0, "filter_order", {"operator": "f", "order": order}))
            assert list(operator.order) == list(order)
        for batch in operator.on_batch(0, whole.slice(start, cut - start)):
            found += batch.pos.tolist()
        start = cut
        if restarts:
            operator = reborn(make, operator)
    expected = [place for place, row in enumerate(zip(*columns, strict=True)) if all(row)]
    assert found == expected


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_chunks_of_one_row_are_the_published_behaviour(algorithm: str):
    masks = correlated(22, 900, (0.25, 0.35, 0.45, 0.55))
    order = OrderSettings(algorithm, probability=0.2, window_rows=60, stage_rows=60, min_fill=20)
    policy = make_order(4, order, (3, 2, 1, 0))
    played = play(masks, policy, 7)
    one_by_one = FilterSettings(order, chunk_rows=1, seed=7, mode=Mode.SHARD)
    operator = AdaptiveFilter(flag_schema(4), flag_filters(4), one_by_one, order=["f3", "f2", "f1", "f0"])
    operator.on_batch(0, flag_batch([(masks >> i & 1 == 0).tolist() for i in range(4)]))
    counters = operator.counters()
    assert list(operator.policy.events) == played.events
    assert played.events
    assert sum(counters[f"evaluations:f{i}"] for i in range(4)) == played.base
    assert (counters["extra_evaluations"], counters["profiled"]) == (played.extra, played.profiled)


def eager(algorithm: str, mode: Mode = Mode.SHARD, **changes) -> FilterSettings:
    order = OrderSettings(algorithm, probability=0.5, window_rows=200, stage_rows=100, min_fill=100, **changes)
    return FilterSettings(order, 256, mode=mode)


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_the_order_follows_a_drift_and_saves_work(algorithm: str):
    batch = drifting()
    adaptive = AdaptiveFilter(flag_schema(4), flag_filters(4), eager(algorithm))
    fixed = AdaptiveFilter(flag_schema(4), flag_filters(4), eager("fixed"))
    (kept,), (expected,) = adaptive.on_batch(0, batch), fixed.on_batch(0, batch)
    assert kept.pos.tolist() == expected.pos.tolist()
    assert adaptive.order[0] == "f0"
    assert adaptive.policy.reorderings >= 2
    work = [sum(operator.counts.evaluations) for operator in (adaptive, fixed)]
    assert work[0] < 0.9 * work[1]


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_a_repeated_batch_profiles_decides_and_answers_alike(algorithm: str):
    def make() -> AdaptiveFilter:
        return AdaptiveFilter(flag_schema(4), flag_filters(4), eager(algorithm))

    batch, operator = drifting(), make()
    operator.on_batch(0, batch.slice(0, 2500))
    outcomes = []
    for _ in range(2):
        again = reborn(make, operator)
        out = [part.pos.tolist() for part in again.on_batch(0, batch.slice(2500, 1500))]
        state = again.snapshot()
        outcomes.append((out, state.meta, {key: part.to_pydict() for key, part in state.segments.items()}, again.order))
    assert outcomes[0] == outcomes[1]


def test_profiled_rows_do_not_depend_on_how_rows_are_cut():
    batch = drifting(2000)
    found = []
    for cuts in ([2000], [100, 700, 1200]):
        operator = AdaptiveFilter(flag_schema(4), flag_filters(4), eager("agreedy", Mode.GLOBAL))
        start = 0
        for length in cuts:
            operator.on_batch(0, batch.slice(start, length))
            start += length
        found.append(operator.report().rows)
    assert found[0].bits.tolist() == found[1].bits.tolist()
    assert found[0].ts.tolist() == found[1].ts.tolist()


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())])


def mixed_filters() -> list[Filter]:
    return [
        Filter("positive", ExpressionPredicate.of(parse("v > 0"), SCHEMA), 1.0),
        Filter("small", OnPandas(lambda k: k <= 3, ("k",)), 2.0),
        Filter("named", OnRows(lambda s: None if s is None else s.startswith("a"), ("s",)), 5.0, after=("positive",)),
        Filter("always", OnArrow(lambda rows: np.ones(rows.num_rows, bool)), 1.0, profilable=False),
    ]


@pytest.mark.parametrize("algorithm", [*ADAPTIVE, "fixed", "random"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_adaptive_filters_fulfil_the_shared_checks(algorithm: str, data):
    order = OrderSettings(algorithm, probability=1.0, window_rows=4, stage_rows=3, min_fill=2)
    chosen = FilterSettings(order, 2, mode=Mode.SHARD)
    check_all(
        lambda: AdaptiveFilter(SCHEMA, mixed_filters(), chosen), data.draw(inputs([SCHEMA])), [SCHEMA], data.draw(batch_cuts())
    )


def test_heartbeats_and_punctuations_pass():
    operator = AdaptiveFilter(SCHEMA, mixed_filters())
    assert list(operator.on_metadata(0, Heartbeat(4))) == [Heartbeat(4)]


def test_controls_for_other_filters_are_ignored():
    operator = AdaptiveFilter(flag_schema(2), flag_filters(2), label="mine")
    operator.on_control(Control(0, "filter_order", {"operator": "other", "order": ["f1", "f0"]}))
    operator.on_control(Control(0, "budget", {"ns": 3}))
    assert operator.order == ("f0", "f1")


def test_told_costs_change_the_order():
    filters = [Filter(f"f{i}", OnArrow(lambda column: column, (f"b{i}",))) for i in range(2)]
    rows = flag_batch([[False, True] * 50, [True, False] * 50])
    operator = AdaptiveFilter(flag_schema(2), filters, eager("agreedy", min_support=1), label="f")
    operator.on_control(Control(0, "filter_costs", {"operator": "f", "costs": {"f0": 10.0, "f1": 1.0}}))
    for start in range(0, 300, 100):
        operator.on_batch(0, Batch(rows.rows, rows.ts + start, rows.pos + start))
    assert operator.order == ("f1", "f0")


def test_counters_name_filters_and_positions():
    operator = AdaptiveFilter(flag_schema(2), flag_filters(2), FilterSettings(OrderSettings(probability=1.0), mode=Mode.SHARD))
    operator.on_batch(0, flag_batch([[True, False, True], [False, True, True]]))
    counters = operator.counters()
    assert (counters["arrived"], counters["passed"], counters["profiled"], counters["extra_evaluations"]) == (3, 1, 2, 1)
    assert (counters["evaluations:f0"], counters["drops:f0"], counters["evaluations@1"], counters["drops@1"]) == (3, 1, 2, 1)
    assert counters["window_fill"] == counters["state_rows"] == 2


def test_the_description_has_estimates_and_shares_of_time():
    ticks = iter(range(0, 10**9, 1000))
    operator = AdaptiveFilter(flag_schema(4), flag_filters(4), eager("agreedy"), clock=lambda: next(ticks))
    operator.on_batch(0, drifting())
    told = operator.describe()
    assert told["order"][0] == "f0"
    assert told["estimated"]["optimal"] <= told["estimated"]["greedy"] <= told["estimated"]["current"] / 0.8
    assert sum(told["time_shares"].values()) == pytest.approx(1.0)
    assert set(told["time_shares"]) == {"processing", "profiling", "window", "view", "violations"}
    assert told["events"][0]["left"] < told["events"][0]["right"]


def test_estimated_cost_is_near_the_true_one():
    masks = correlated(5, 40_000, (0.4, 0.4, 0.6, 0.6))
    batch = flag_batch([(masks >> i & 1 == 0).tolist() for i in range(4)])
    operator = AdaptiveFilter(flag_schema(4), flag_filters(4), FilterSettings(OrderSettings(probability=0.2), mode=Mode.SHARD))
    operator.on_batch(0, batch)
    truth = DropStatistics(histogram(masks, 4)).cost(operator.policy.order()) / len(masks)
    assert operator.describe()["estimated"]["current"] == pytest.approx(truth, rel=0.05)


def test_shards_with_other_data_find_other_orders():
    """Per-shard orders may differ legitimately; the answers do not care."""
    batch = drifting(6000)
    first, second = (AdaptiveFilter(flag_schema(4), flag_filters(4), eager("agreedy")) for _ in range(2))
    first.on_batch(0, batch.slice(0, 3000))
    second.on_batch(0, batch.slice(3000, 3000))
    assert first.order[0] == "f3"
    assert second.order[0] == "f0"
