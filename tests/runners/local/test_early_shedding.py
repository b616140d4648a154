"""Rows that packing leaves out: counted, repeatable, invisible to punctuations and frontiers, and never more wrong than missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidConfiguration, UserError
from penstock.kernel.packets import Packet
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.shedding import readers_of
from penstock.lowering.stages import build_job
from penstock.lowering.tuning import check_decision
from penstock.model.elements import SHED, Control
from penstock.runners.decisions import Decisions
from penstock.runners.local.runner import LocalRunner
from penstock.testing.soak import unaccounted

STREAMS = """
CREATE STREAM s (k BIGINT, a BIGINT, ts BIGINT, WATERMARK ts DELAY OF 20, UNIQUE (k)) ON LATE ROWS QUARANTINE;
CREATE STREAM o (k BIGINT, b BIGINT, ts BIGINT, WATERMARK ts DELAY OF 20);
"""
SAFE = {
    "select": "CREATE CQ q AS SELECT k, a FROM s WHERE a < 7;",
    "join": "CREATE CQ q AS SELECT s.k, s.a, o.b FROM s [RANGE 50], o [RANGE 50] WHERE s.k = o.k;",
    "two": "CREATE CQ p AS SELECT k, a FROM s WHERE a > 1;"
    "CREATE CQ q AS SELECT p.k, o.b FROM p [RANGE 30], o [RANGE 30] WHERE p.k = o.k;",
    "semi": "CREATE CQ q AS SELECT s.k, s.a FROM s [RANGE 50] SEMI JOIN o [RANGE 50] ON s.k = o.k;",
}
UNSAFE = {
    "DISTINCT": "CREATE CQ q AS SELECT DISTINCT a FROM s [RANGE 50];",
    "LEFT JOIN": "CREATE CQ q AS SELECT s.k, o.b FROM s [RANGE 50] LEFT JOIN o [RANGE 50] ON s.k = o.k;",
    "LEFT ANTI JOIN": "CREATE CQ q AS SELECT s.k FROM s [RANGE 50] ANTI JOIN o [RANGE 50] ON s.k = o.k;",
    "a window that counts rows": "CREATE CQ q AS SELECT s.k, o.b FROM s [ROWS 5], o [RANGE 50] WHERE s.k = o.k;",
    "FULL JOIN": "CREATE CQ p AS SELECT k, a FROM s WHERE a < 5;"
    "CREATE CQ q AS SELECT p.k, o.b FROM p [RANGE 50] FULL JOIN o [RANGE 50] ON p.k = o.k;",
    "MATCH_RECOGNIZE": "CREATE CQ q AS SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.a AS first "
    "ONE ROW PER MATCH PATTERN (A B) DEFINE B AS B.a > A.a);",
}


def job_of(queries: str, shards: int = 2) -> Job:
    return build_job(parse_application(STREAMS + queries), shards)


def entries_of(job: Job) -> list[str]:
    return [source.route.entry for stage in job.stages for source in stage.sources]


def rows(seed: int, number: int, disorder: int = 30) -> dict[str, pa.RecordBatch]:
    draw = np.random.default_rng(seed)
    ts = np.sort(draw.integers(0, 3 * number, number)) + draw.integers(-disorder, disorder + 1, number)
    s = pa.RecordBatch.from_pydict({"k": draw.permutation(number), "a": draw.integers(0, 9, number), "ts": ts})
    o = pa.RecordBatch.from_pydict({"k": draw.integers(0, number, number), "b": draw.integers(0, 9, number), "ts": np.sort(ts)})
    return {"s": s, "o": o}


def run(job: Job, inputs: dict[str, pa.RecordBatch], batches: int, shares: Sequence[float], encode: bool = True) -> LocalRunner:
    """Micro-batches of equal size; each decides the shares of all entries anew."""
    runner = LocalRunner(job, encode=encode)
    for turn in range(batches):
        size = {name: -(-table.num_rows // batches) for name, table in inputs.items()}
        share = shares[turn % len(shares)] if shares else None
        decided = (
            [] if share is None else [Control(turn, SHED, {"entry": name, "share": share, "seed": 7}) for name in entries_of(job)]
        )
        runner.run({name: table.slice(turn * size[name], size[name]) for name, table in inputs.items()}, decided)
    runner.end()
    return runner


def bag(found: Iterable[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in found)


@pytest.mark.parametrize("name", SAFE)
@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 50),
    batches=st.integers(1, 6),
    shares=st.lists(st.sampled_from([0.0, 0.2, 0.6, 1.0]), min_size=1, max_size=3),
)
def test_answers_are_among_those_of_all_rows_and_every_row_is_accounted_for(
    name: str, seed: int, batches: int, shares: list[float]
) -> None:
    """P1, P2 and P7."""
    job, inputs = job_of(SAFE[name]), rows(seed, 60)
    exact, shed = run(job, inputs, batches, ()), run(job, inputs, batches, shares)
    assert not bag(shed.collected.rows("q")) - bag(exact.collected.rows("q"))
    assert unaccounted(shed) == []
    report = shed.report()
    read, left_out = (sum(report[entry][kind] for entry in entries_of(job)) for kind in ("read", "shed"))
    assert read == sum(exact.report()[entry]["read"] for entry in entries_of(job))
    if set(shares[:batches]) == {0.0}:
        assert left_out == 0
        assert bag(shed.collected.rows("q")) == bag(exact.collected.rows("q"))
    if set(shares[:batches]) == {1.0}:
        assert not shed.collected.rows("q")
        assert all(report[entry]["used"] == 0 for entry in entries_of(job))


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 20))
def test_time_goes_on_as_if_nothing_had_been_left_out(seed: int) -> None:
    """Frontiers come from all rows, and with them what is late."""
    job, inputs = job_of(SAFE["select"]), rows(seed, 80)
    exact, shed = run(job, inputs, 5, ()), run(job, inputs, 5, (1.0,))
    for entry in entries_of(job):
        assert shed.report()[entry]["frontier"] == exact.report()[entry]["frontier"]
    assert shed.report()[entries_of(job)[0]]["late"] == 0


def test_a_repeated_micro_batch_loses_the_same_rows_however_they_are_cut() -> None:
    job, inputs = job_of(SAFE["select"]), rows(1, 500, disorder=5)
    found = [
        bag(run(job, inputs, batches, (0.3,), encode).collected.rows("q")) for batches, encode in ((1, True), (7, True), (7, False))
    ]
    assert found[0] == found[1] == found[2]


def test_a_share_holds_until_another_one_is_decided() -> None:
    job, inputs = job_of(SAFE["select"]), rows(1, 4_000)
    (entry,) = entries_of(job)
    runner = LocalRunner(job)
    quarters = [inputs["s"].slice(at * 1_000, 1_000) for at in range(4)]
    shed = []
    for quarter, decided in zip(quarters, ([], [0.25], [], [0.0]), strict=True):
        runner.run({"s": quarter}, [Control(0, SHED, {"entry": entry, "share": share}) for share in decided])
        shed.append(runner.report()[entry]["shed"])
    asked = [sum(a < 7 for a in quarter.column("a").to_pylist()) for quarter in quarters]
    assert shed[0] == 0
    assert shed[1] / asked[1] == pytest.approx(0.25, abs=0.05)
    assert (shed[2] - shed[1]) / asked[2] == pytest.approx(0.25, abs=0.05)
    assert shed[3] == shed[2]


def test_values_of_a_unique_column_are_closed_although_their_rows_are_left_out() -> None:
    """State that waits for partners of such rows goes, as if they had come."""
    job, inputs = job_of(SAFE["join"]), rows(3, 200)
    exact, shed = run(job, inputs, 4, ()), run(job, inputs, 4, (0.5,))
    assert sum(each.get("state_rows", 0) for each in shed.report().values()) <= sum(
        each.get("state_rows", 0) for each in exact.report().values()
    )


def test_rows_are_left_out_by_a_column_among_those_that_are_packed_together() -> None:
    job, inputs = job_of(SAFE["select"], shards=1), rows(1, 400, disorder=0)
    (entry,) = entries_of(job)
    runner = LocalRunner(job)
    for turn in range(20):
        decided = [Control(turn, SHED, {"entry": entry, "share": 0.25, "kind": "highest", "column": "a"})]
        runner.run({"s": inputs["s"].slice(20 * turn, 20)}, decided)
    runner.end()
    asked = [row["a"] for row in inputs["s"].to_pylist() if row["a"] < 7]
    left = [row["a"] for row in runner.collected.rows("q")]
    assert len(left) / len(asked) == pytest.approx(0.75, abs=0.04)
    assert np.mean(left) < np.mean(asked) - 0.5
    assert unaccounted(runner) == []


@pytest.mark.parametrize(("reason", "query"), UNSAFE.items())
def test_loss_that_would_make_answers_wrong_is_refused_unless_it_is_wanted(reason: str, query: str) -> None:
    job = job_of(query)
    entry = next(entry for entry in entries_of(job) if "q" in readers_of(job, entry))
    with pytest.raises(InvalidConfiguration, match=f"query 'q' reads '.*' and has {reason}: "):
        check_decision(job, Control(0, SHED, {"entry": entry, "share": 0.1}))
    check_decision(job, Control(0, SHED, {"entry": entry, "share": 0.1, "anywhere": True}))
    check_decision(job, Control(0, SHED, {"entry": entry, "share": 0.0}))


@pytest.mark.parametrize("name", SAFE)
def test_loss_that_only_makes_answers_missing_is_allowed(name: str) -> None:
    job = job_of(SAFE[name])
    for entry in entries_of(job):
        check_decision(job, Control(0, SHED, {"entry": entry, "share": 0.1, "seed": 3}))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"entry": "x"}, "there is no entry 'x'; it has "),
        ({"share": 1.5}, "is 1.5; give a number from 0 to 1"),
        ({"share": True}, "is True; give a number from 0 to 1"),
        ({"share": float("nan")}, "is nan; give a number from 0 to 1"),
        ({"seed": 0.5}, "is 0.5; give a whole number"),
        ({"kind": "lowest", "column": "b"}, "which does not exist; of numeric columns it has k, a."),
        ({"kind": "lowest"}, "to drop the lowest rows a shedder must know by which 'column'"),
        ({"kind": "loest", "column": "a"}, "no rows are 'loest' for a shedder; of kinds it has random, lowest"),
        (
            {"kind": "lowest", "column": "a", "mode": "rows"},
            "there is no mode 'rows' of shedding; of modes it has quantile, range.",
        ),
        ({"row": 1}, "shedding says which share of the rows of an entry is left out"),
    ],
)
def test_decisions_that_could_not_be_obeyed_are_refused(change: dict[str, Any], found: str) -> None:
    job = job_of(SAFE["select"])
    with pytest.raises(UserError) as error:
        check_decision(job, Control(0, SHED, {"entry": entries_of(job)[0], "share": 0.1, **change}))
    assert found in str(error.value)


def test_decisions_reach_tasks_as_text() -> None:
    decided = Decisions().followed_by(
        [(SHED, {"entry": "s", "share": 0.1, "anywhere": True}), (SHED, {"entry": "o", "share": 0.2})]
    )
    assert Decisions.from_text(decided.text) == decided
    assert decided.about(()).shed == decided.shed
    over = decided.followed_by([(SHED, {"entry": name, "share": 0}) for name in ("s", "o")])
    assert (over.shed, over.text) == ({}, "")


def test_counts_of_rows_left_out_travel_with_packets() -> None:
    packet = Packet("s", total=10, filtered=2, shed=3)
    assert Packet.decode(*packet.encode()) == packet
    assert Packet.decode(*Packet("s", total=10).encode()).shed == 0
