"""`penstock demo overload` without Spark: the load, what contracts allow, timelines, the table and the picture."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.apps.overload.comparison import CONTRACTS, Outcome
from penstock.apps.overload.display import live_view, plain_line
from penstock.apps.overload.figure import best_of, draw
from penstock.apps.overload.load import STRICTEST_S, Capacity, Load, MeasuredSize, to_measure, without_loss
from penstock.apps.overload.results import outcome_json, outcome_rows
from penstock.apps.overload.timeline import Balance, Bound, EntryRows, Losing, Moment, Span, Timeline
from penstock.apps.reading import read_text
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.sheddable import sheddable_entries
from penstock.lowering.stages import build_job
from penstock.model.qos import Measure, Priority
from penstock.plan.catalog import Catalog
from penstock.qos.contract_meter import Promise
from penstock.runners.spark.driver.counters import ReaderCounts
from penstock.runners.spark.driver.run_history import BatchStatus
from penstock.runners.spark.driver.service import ServiceCounts
from penstock.workloads.playback import Playback

TEXT = read_text("overload")[0]
ENTRY = "tick@1.1"
MUST, BEST_EFFORT = Priority.MUST_SATISFY, Priority.BEST_EFFORT


def catalog_of(text: str) -> Catalog:
    return parse_application(text, "overload", now=0)


def feed_of(text: str) -> Playback:
    return Playback.from_text(dict(catalog_of(text).streams["tick"].source.options))


def losses_of(text: str) -> dict[str, float]:
    return {query.name: query.contract.max_relative_error for query in catalog_of(text).queries.values() if query.contract}


def test_rows_may_be_left_out_for_one_query_only_and_the_others_read_inputs_of_their_own() -> None:
    catalog = catalog_of(TEXT)
    contracts = {query.name: query.contract for query in catalog.queries.values() if query.contract}
    found = sheddable_entries(looped(build_job(catalog, 2)), contracts, {})
    assert [(each.queries, each.most) for each in found] == [(("puts",), 0.6)]
    promises = {name: promise for name, each in contracts.items() if (promise := each.of(Measure.LATENCY))}
    assert min(promise.graph.expected(0.0) for promise in promises.values()) == STRICTEST_S
    classes = {name: promise.priority for name, promise in promises.items()}
    assert classes == dict.fromkeys(("large_trades", "puts", "pace", "fresh_prices"), MUST) | {"exposure": BEST_EFFORT}


def test_without_loss_the_promises_stay() -> None:
    text = without_loss(TEXT)
    assert set(losses_of(text).values()) == {0.0}
    assert [query.contract.expectations for query in catalog_of(text).queries.values() if query.contract] == [
        query.contract.expectations for query in catalog_of(TEXT).queries.values() if query.contract
    ]


def test_the_feed_brings_the_load_that_is_told() -> None:
    load = Load(1_000, 24.0)
    feed = feed_of(load.of(TEXT))
    due = [feed.due(round(second * 1e6)) for second in (0, 6, 14, 24)]
    assert [later - before for before, later in pairwise(due)] == pytest.approx([6_000, 24_000, 10_000], abs=2)
    assert [load.rate_at(second) for second in (5.9, 6, 13.9, 14)] == [1_000, 3_000, 3_000, 1_000]


def test_what_is_measured_has_small_micro_batches_first_and_then_more_than_can_be_processed() -> None:
    text = to_measure(TEXT, 500, 20_000, 12.0)
    feed = feed_of(text)
    assert set(losses_of(text).values()) == {0.0}
    assert feed.due(6_000_000) == pytest.approx(6_000, abs=2)
    assert feed.due(13_000_000) > 1_000_000
    assert feed.max_rows_per_batch == 20_000


@given(st.floats(0.0, 1.0), st.floats(1e-6, 1e-3), st.floats(0.1, 1.0))
def test_three_times_the_usual_load_is_half_as_much_again_as_can_be_processed(fixed_s: float, row_s: float, part: float) -> None:
    sizes = [MeasuredSize(rows, fixed_s + row_s * rows, part * row_s * rows) for rows in (500, 20_000)]
    capacity = Capacity.between(*sizes)
    assert capacity.fixed_s == pytest.approx(fixed_s, abs=1e-9)
    load = Load.beyond(capacity, 30.0)
    assert 3 * load.rate == pytest.approx(1.5 * capacity.rows_per_second, abs=3)
    rows = 1.6 * capacity.rows_per_second
    assert rows * row_s + fixed_s == pytest.approx(max(1.6, fixed_s + 0.16), rel=1e-6)
    assert capacity.budget_s >= 0.2


def test_a_machine_whose_small_micro_batches_take_as_long_still_has_a_capacity() -> None:
    capacity = Capacity.between(MeasuredSize(500, 2.0, 1.0), MeasuredSize(20_000, 1.0, 0.5))
    assert capacity.rows_per_second == pytest.approx(20_000)


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 1)), max_size=20))
def test_shares_of_micro_batches_add_up_to_what_was_left_out(batches: list[tuple[int, float]]) -> None:
    line = Timeline("contracts", losing={ENTRY: Losing(("puts",), 0.6)})
    asked = shed = 0
    total = 0.0
    for rows, share in batches:
        asked, shed = asked + rows, shed + int(rows * share)
        total += line.left_out({ENTRY: EntryRows(asked, shed), "other": EntryRows(7, 7)}).get(ENTRY, 0.0) * rows
    assert total == pytest.approx(shed)


def moment(second: float, strategy: str = "auto", latency_s: float = 1.0, share: float = 0.0) -> Moment:
    return Moment(second, second + 0.9, 1_000, strategy, 0, {"puts": latency_s, "exposure": 2 * latency_s}, {ENTRY: share})


def run(name: str, broken_s: float, strategies: str = "aab", shed: int = 0) -> Timeline:
    promises = [
        Promise("puts", Measure.LATENCY, MUST, 5.0, 4.0, not broken_s, broken_s),
        Promise("puts", Measure.MEMORY, MUST, 5.0, 4.0, False, 99.0),
        Promise("exposure", Measure.LATENCY, BEST_EFFORT, 5.0, 8.0, True, 0.0),
    ]
    readers = [
        ReaderCounts("tick", ("puts",), 1_000, 880 - shed, 100, 15, 5, 0, shed=shed),
        ReaderCounts("tick", ("pace",), 1_000, 1_000, 0, 0, 0, 0),
    ]
    moments = [moment(float(place), kind, 1.0 + 2 * place, shed / 900) for place, kind in enumerate(strategies)]
    losing = {ENTRY: Losing(("puts",), 0.6)} if shed else {}
    bounds = [Bound("puts", 4.0, MUST), Bound("exposure", 8.0, BEST_EFFORT)]
    return Timeline(name, bounds, losing, moments, promises, readers, ["second 2.0: something was decided"])


def outcome(*runs: Timeline) -> Outcome:
    capacity = Capacity(0.2, 5e-5, 4e-5)
    return Outcome(capacity, Load.beyond(capacity, 3.0), list(runs), is_whole=True)


def test_a_strategy_lasts_until_another_one_begins() -> None:
    assert run("x", 0.0, "aabba").spans() == [Span("a", 0.0, 2.0), Span("b", 2.0, 4.0), Span("a", 4.0, 4.9)]
    assert Timeline("x").spans() == []


def test_the_table_has_seconds_of_broken_latencies_and_what_was_left_out() -> None:
    assert outcome_rows([run(CONTRACTS, 0.0, shed=90), run("segment", 13.4)]) == [
        ("promised", "4 s", "8 s", "", ""),
        ("", "MUST", "BEST EFFORT", "", ""),
        (CONTRACTS, "0 s", "0 s", "0 s", "10.0%"),
        ("segment", "13 s", "0 s", "13 s", "0.0%"),
    ]


def test_while_it_goes_on_one_sees_the_load_the_losses_and_who_is_late() -> None:
    line, found = run(CONTRACTS, 3.0, shed=90), outcome(run(CONTRACTS, 3.0))
    assert plain_line(line, found) == (
        "    3 s  8,750 rows/s come, 50% of what can be processed; strategy b, 10% of the rows of puts left out; answers after "
        "puts 5.0 s, exposure 10.0 s"
    )
    waiting = ServiceCounts("puts", 1.0, 12_345, 0, None, 0, None)
    console = Console(width=100, force_terminal=False)
    with console.capture() as shown:
        console.print(live_view(line, BatchStatus(1, 0, 0.0, 0, 0, 0, (), (), (), service=(waiting,)), found))
    (row,) = (each for each in shown.get().splitlines() if each.startswith("puts"))
    assert row.split() == ["puts", "4", "s", "MUST", "5.0", "s", "3", "s", "12,345"]


def test_every_row_is_accounted_for_or_the_balance_says_so() -> None:
    readers = list(run(CONTRACTS, 0.0, shed=90).readers)
    text = "2,000 read = 1,790 used + 100 not wanted + 15 late + 5 bad + 90 left out"
    assert str(Balance.of(readers)) == text
    wrong = Balance.of([*readers, ReaderCounts("tick", ("puts",), 1, 0, 0, 0, 0, 0)])
    assert not wrong.is_complete
    assert "2,001 read ≠ 1,790 used" in str(wrong)
    assert Balance.of([]).is_complete


def test_the_outcome_is_data_too() -> None:
    found = json.loads(json.dumps(outcome_json(outcome(run(CONTRACTS, 0.0, shed=90), run("segment", 13.4)), Path("overload.png"))))
    assert found["runs"]["segment"]["violation_s"] == {"puts": 13.4, "exposure": 0.0}
    assert found["runs"][CONTRACTS]["shed_share"] == 0.1
    assert found["runs"][CONTRACTS]["rows"]["is_complete"]
    assert found["runs"][CONTRACTS]["strategies"] == [["a", 0.0, 2.0], ["b", 2.0, 2.9]]
    assert found["is_whole"]


def test_the_picture_compares_with_the_best_of_the_other_runs(tmp_path: Path) -> None:
    best, worse = run("segment", 9.0), run("round_robin", 14.0)
    assert best_of([worse, best]) is best
    assert best_of([]) is None
    draw(outcome(run(CONTRACTS, 0.0, shed=90), worse, best), tmp_path / "all.png")
    draw(outcome(run(CONTRACTS, 3.0)), tmp_path / "alone.png")
    assert (tmp_path / "all.png").stat().st_size > (tmp_path / "alone.png").stat().st_size > 10_000
