"""Windows, joins, unions and patterns that go on by the clock when a stream, or one of its partitions, brings nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.model.elements import CLOCK, HEARTBEAT, PARTITIONS, Control
from penstock.model.schema import TIMESTAMP
from penstock.runners.local.runner import LocalRunner

SECOND = 1_000_000
COLUMNS = "(k BIGINT, kind STRING, part INT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 2 SECONDS)"
SCHEMA = pa.schema({"k": pa.int64(), "kind": pa.string(), "part": pa.int32(), "ts": TIMESTAMP})
STREAMS = f"""
CREATE STREAM s {COLUMNS} PARTITIONED BY part IDLE AFTER INTERVAL 10 SECONDS;
CREATE STREAM t {COLUMNS} IDLE AFTER INTERVAL 10 SECONDS;
CREATE STREAM clicks (k BIGINT);
"""
QUERIES = {
    "counts": "SELECT window_start() AS since, COUNT(*) AS n FROM s [RANGE 5 SECONDS]",
    "alone": "SELECT s.k, t.kind FROM s [RANGE 5 SECONDS] LEFT JOIN t [RANGE 5 SECONDS] ON s.k = t.k",
    "united": "SELECT k, COUNT(*) AS n FROM both [RANGE 5 SECONDS] GROUP BY k",
    "missing": "EVENT SEQ(A a, !(B b)) FROM s TYPE kind WHERE [k] WITHIN 4 SECONDS RETURN a.k AS k",
    "visits": "SELECT k, COUNT(*) AS n FROM clicks [RANGE 1 MINUTE] GROUP BY k",
}
BOTH = "CREATE CQ both AS SELECT k FROM s UNION ALL SELECT k FROM t;\n"


@cache
def job(names: tuple[str, ...] = tuple(QUERIES), shards: int = 2, is_looped: bool = False) -> Job:
    queries = "".join(f"CREATE CQ {name} AS {QUERIES[name]};\n" for name in names)
    found = build_job(parse_application(STREAMS + (BOTH if "united" in names else "") + queries), shards)
    return looped(found) if is_looped else found


def rows(*found: tuple[int, str, int, float]) -> pa.RecordBatch:
    """(key, type, partition, second)."""
    columns = list(zip(*found, strict=True)) if found else [[], [], [], []]
    times = [int(second * SECOND) for second in columns[3]]
    arrays = [
        *(pa.array(column, kind) for column, kind in zip(columns[:3], SCHEMA.types[:3], strict=True)),
        pa.array(times, TIMESTAMP),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def clock(second: float) -> Control:
    return Control(0, CLOCK, {"us": int(second * SECOND)})


def test_windows_close_when_one_partition_or_all_of_them_bring_nothing() -> None:
    runner = LocalRunner(job(("counts",)))
    runner.run({"s": rows((1, "A", 0, 1.0), (1, "A", 1, 1.0))}, [clock(1000)])
    runner.run({"s": rows((1, "A", 0, 9.0))}, [clock(1005)])
    assert runner.collected.rows("counts") == []
    runner.run({}, [clock(1010)])  # partition 1 is idle
    assert [row["n"] for row in runner.collected.rows("counts")] == [2]
    runner.run({}, [clock(1015)])  # and now the stream
    assert len(runner.collected.rows("counts")) == 1
    runner.run({}, [clock(1018)])
    assert [row["n"] for row in runner.collected.rows("counts")] == [2, 1]


@pytest.mark.parametrize("is_looped", [False, True])
@pytest.mark.parametrize(("query", "expected"), [("alone", [{"k": 1, "kind": None}]), ("united", [{"k": 1, "n": 1}])])
def test_an_idle_stream_holds_back_no_join_and_no_union(query: str, expected: list[dict[str, Any]], is_looped: bool) -> None:
    runner = LocalRunner(job((query,), is_looped=is_looped))
    runner.run({}, [clock(1000)])
    runner.run({"s": rows((1, "A", 0, 1.0), (2, "A", 0, 20.0))}, [clock(1009)])
    assert runner.collected.rows(query) == []
    runner.run({}, [clock(1010)])
    assert runner.collected.rows(query) == expected
    runner.run({"t": rows((1, "B", 0, 1.0), (1, "B", 0, 30.0))})  # it comes back
    assert [item.reason for item in runner.collected.refused] == ["late"]


def test_what_does_not_come_is_found_missing_by_the_clock() -> None:
    runner = LocalRunner(job(("missing",)))
    runner.run({"s": rows((1, "A", 0, 1.0))}, [clock(1000)])
    runner.run({}, [clock(1015)])
    assert runner.collected.rows("missing") == []
    runner.run({}, [clock(1017)])
    assert runner.collected.rows("missing") == [{"k": 1}]


def test_windows_over_the_time_of_arrival_close_by_the_clock() -> None:
    runner = LocalRunner(job(("visits",)))
    arrived = pa.RecordBatch.from_arrays([pa.array([7, 7]), pa.array([5 * SECOND] * 2, TIMESTAMP)], names=["k", "ts"])
    runner.run({"clicks": arrived}, [clock(5)])
    runner.run({}, [clock(59.9)])
    assert runner.collected.rows("visits") == []
    runner.run({}, [clock(60)])
    assert runner.collected.rows("visits") == [{"k": 7, "n": 2}]


def test_a_heartbeat_closes_windows() -> None:
    runner = LocalRunner(job(("counts",)))
    runner.run({"s": rows((1, "A", 0, 1.0), (1, "A", 1, 1.0))})
    runner.run({}, [Control(0, HEARTBEAT, {"stream": "s", "ts": 5 * SECOND})])
    assert [row["n"] for row in runner.collected.rows("counts")] == [2]


def test_partitions_are_known_before_the_rows_of_the_micro_batch_that_tells_them() -> None:
    runner = LocalRunner(job(("counts",)))
    told = Control(0, PARTITIONS, {"stream": "s", "count": 2})
    runner.run({"s": rows((1, "A", 0, 1.0), (1, "A", 0, 30.0))}, [told])
    assert runner.collected.rows("counts") == []
    runner.run({"s": rows((1, "A", 1, 2.0), (1, "A", 1, 30.0))})
    assert [row["n"] for row in runner.collected.rows("counts")] == [2]
    assert runner.collected.refused == []


steps = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.lists(st.tuples(st.integers(1, 2), st.sampled_from("AB"), st.integers(0, 1), st.integers(-2, 2)), max_size=2),
        st.lists(st.tuples(st.integers(1, 2), st.sampled_from("AB"), st.just(0), st.integers(-2, 2)), max_size=2),
        st.booleans(),
    ),
    max_size=8,
)


def played(events: Sequence[Any], shards: int, is_looped: bool, restarts: int) -> tuple[dict[str, list[str]], list[str]]:
    """Answers and refused rows: rows come about when they are made, and the clock is heard with some of the micro-batches."""
    runner = LocalRunner(job(shards=shards, is_looped=is_looped), encode=shards > 1)
    now = 100
    for number, (passed, left, right, is_heard) in enumerate(events):
        now += passed
        made = [rows(*((k, kind, part, now + shift) for k, kind, part, shift in found)) for found in (left, right)]
        runner.run({"s": made[0], "t": made[1]}, [clock(now)] if is_heard else [])
        if restarts >> number & 1:
            runner.restore(runner.snapshot())
    for _ in range(6):  # nothing comes any more, and everything is decided all the same
        now += 5
        runner.run({}, [clock(now)])
    answers = {name: sorted(map(str, runner.collected.timed(name))) for name in QUERIES}
    return answers, sorted(
        f"{item.stream} {item.reason} {pos}" for item in runner.collected.refused for pos in item.batch.pos.tolist()
    )


@given(events=steps, shards=st.integers(2, 3), is_looped=st.booleans(), restarts=st.integers(0, 255))
@settings(max_examples=25, deadline=None)
def test_answers_depend_on_what_the_clock_said_and_on_nothing_else(
    events: Any, shards: int, is_looped: bool, restarts: int
) -> None:
    assert played(events, shards, is_looped, restarts) == played(events, 1, False, 0)


@given(events=steps)
@settings(max_examples=25, deadline=None)
def test_in_the_end_every_row_used_is_in_some_answer(events: Any) -> None:
    """Windows of 5 s: those of the last rows close too, although nothing follows them."""
    runner = LocalRunner(job(("counts",)))
    now = 100
    for passed, left, _, is_heard in events:
        now += passed
        runner.run({"s": rows(*((k, kind, part, now + shift) for k, kind, part, shift in left))}, [clock(now)] if is_heard else [])
    for _ in range(6):
        now += 5
        runner.run({}, [clock(now)])
    used = sum(counters["used"] for name, counters in runner.report().items() if name.startswith("s@"))
    assert sum(row["n"] for row in runner.collected.rows("counts")) == used
