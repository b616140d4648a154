"""Rows left out in front of an operator, where only some of the queries of an entry may lose any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.looped import looped
from penstock.lowering.loss_paths import entrance, query_paths, shedders
from penstock.lowering.stages import build_job
from penstock.model.elements import SHED, Control
from penstock.runners.local.runner import LocalRunner
from penstock.runners.queue_shedding import place_name
from penstock.testing.soak import unaccounted

STREAMS = """
CREATE STREAM s (k BIGINT, a BIGINT, ts BIGINT, WATERMARK ts DELAY OF 20) ON LATE ROWS QUARANTINE;
CREATE STREAM o (k BIGINT, b BIGINT, ts BIGINT, WATERMARK ts DELAY OF 20);
"""
#: The last one may lose rows, the others share its entries and may not.
QUERIES = {
    "groups": (
        "CREATE CQ exact AS SELECT k, COUNT(*) AS n FROM s [RANGE 50] GROUP BY k;",
        "CREATE CQ loose WITH QOS (LOSS <= 90 PERCENT) AS SELECT k, COUNT(*) AS n FROM s [RANGE 20] GROUP BY k;",
    ),
    "joins": (
        "CREATE CQ exact AS SELECT s.k, o.b FROM s [RANGE 50], o [RANGE 50] WHERE s.k = o.k;",
        "CREATE CQ loose WITH QOS (LOSS <= 90 PERCENT) AS SELECT s.k, o.b FROM s [RANGE 20], o [RANGE 20] WHERE s.k = o.k;",
    ),
    "read again": (
        "CREATE CQ exact AS SELECT k, COUNT(*) AS n FROM s [RANGE 5] GROUP BY k;",
        "CREATE CQ loose WITH QOS (LOSS <= 90 PERCENT) AS SELECT n, COUNT(*) AS m FROM exact [RANGE 20] GROUP BY n;",
    ),
}


def job_of(name: str, shards: int = 2) -> Job:
    return looped(build_job(parse_application(STREAMS + "".join(QUERIES[name])), shards))


def places_of(job: Job) -> list[str]:
    paths = query_paths(job, job.contracts)
    _, placed = shedders(job, paths, {}, 1e-6, 1)
    return [place_name(each.place) for each in placed]


def rows(seed: int, number: int) -> dict[str, pa.RecordBatch]:
    draw = np.random.default_rng(seed)
    ts = np.sort(draw.integers(0, 3 * number, number)) + draw.integers(-30, 31, number)
    s = pa.RecordBatch.from_pydict({"k": draw.integers(0, 9, number), "a": draw.integers(0, 9, number), "ts": ts})
    o = pa.RecordBatch.from_pydict({"k": draw.integers(0, 9, number), "b": draw.integers(0, 9, number), "ts": np.sort(ts)})
    return {"s": s, "o": o}


def run(job: Job, inputs: dict[str, pa.RecordBatch], batches: int, shares: Sequence[float], restarts: bool = False) -> LocalRunner:
    runner = LocalRunner(job, encode=True)
    for turn in range(batches):
        share = shares[turn % len(shares)] if shares else 0.0
        decided = [Control(turn, SHED, {"entry": name, "share": share, "seed": 7}) for name in places_of(job)]
        pieces = {}
        for name, table in inputs.items():
            size = -(-table.num_rows // batches)
            pieces[name] = table.slice(turn * size, size)
        runner.run(pieces, decided)
        if restarts:
            runner.restore(runner.snapshot())
    runner.end()
    return runner


def bag(runner: LocalRunner, query: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in runner.collected.rows(query))


@pytest.mark.parametrize("name", QUERIES)
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 50), batches=st.integers(1, 5), share=st.sampled_from([0.0, 0.3, 1.0]), shards=st.integers(1, 3))
def test_only_the_query_that_allows_it_loses_rows_and_they_are_counted(
    name: str, seed: int, batches: int, share: float, shards: int
) -> None:
    job, inputs = job_of(name, shards), rows(seed, 60)
    places = places_of(job)
    assert places
    assert not {place.partition("#")[0] for place in places} & {source.route.entry for source in job.stages[0].sources}
    exact, shed = run(job, inputs, batches, ()), run(job, inputs, batches, [share])
    assert bag(shed, "exact") == bag(exact, "exact")
    assert unaccounted(shed) == []
    report, before = shed.report(), exact.report()
    lost = {node: report[node].get("shed", 0) for node in {place.partition("#")[0] for place in places}}
    for node, number in lost.items():
        assert report[node]["rows_in"] + number == before[node]["rows_in"]
    if share == 0.0:
        assert not any(lost.values())
        assert bag(shed, "loose") == bag(exact, "loose")
    if share == 1.0:
        assert not shed.collected.rows("loose")
    if name == "joins":
        assert not bag(shed, "loose") - bag(exact, "loose")


@pytest.mark.parametrize("name", QUERIES)
def test_restarts_do_not_change_which_rows_are_left_out(name: str) -> None:
    job, inputs = job_of(name), rows(3, 200)
    once, again = run(job, inputs, 6, [0.4, 0.0, 0.7]), run(job, inputs, 6, [0.4, 0.0, 0.7], restarts=True)
    assert bag(once, "loose") == bag(again, "loose")
    places = {place.partition("#")[0] for place in places_of(job)}
    assert {node: once.report()[node].get("shed", 0) for node in places} == {
        node: again.report()[node].get("shed", 0) for node in places
    }


def test_the_share_is_met_where_rows_have_no_positions_of_their_own() -> None:
    """Results of a grouping are rows without one; a coin of a place must not be the same for all of them."""
    job = job_of("read again")
    (place,) = places_of(job)
    node = place.partition("#")[0]
    runner = run(job, rows(1, 4_000), 8, [0.3])
    lost, left = runner.report()[node].get("shed", 0), runner.report()[node]["rows_in"]
    assert lost / (lost + left) == pytest.approx(0.3, abs=0.05)


def test_an_entry_that_only_loose_queries_read_loses_rows_before_the_shuffle() -> None:
    text = STREAMS + "CREATE CQ loose WITH QOS (LOSS <= 20 PERCENT) AS SELECT k, COUNT(*) AS n FROM s [RANGE 20] GROUP BY k;"
    job = looped(build_job(parse_application(text), 2))
    paths = query_paths(job, job.contracts)
    _, (found,) = shedders(job, paths, {}, 1e-6, 1)
    assert found.place == entrance(job.stages[0].sources[0].route.entry)
    assert found.capacity == pytest.approx(0.2)


def test_queries_behind_one_entry_that_allow_different_losses_lose_both_before_and_behind_it() -> None:
    text = STREAMS + "".join(
        f"CREATE CQ q{percent} WITH QOS (LOSS <= {percent} PERCENT) AS SELECT k, COUNT(*) AS n FROM s [RANGE {percent}] GROUP BY k;"
        for percent in (10, 40)
    )
    job = looped(build_job(parse_application(text), 2))
    paths = query_paths(job, job.contracts)
    _, found = shedders(job, paths, {}, 1e-6, 1)
    entry = job.stages[0].sources[0].route.entry
    capacities = {each.place[0]: (each.capacity, {path.partition("/")[0] for path in each.paths}) for each in found}
    assert capacities.pop(entry) == (pytest.approx(0.1), {"q10", "q40"})
    ((rest, queries),) = capacities.values()
    assert (rest, queries) == (pytest.approx(0.3), {"q40"})
