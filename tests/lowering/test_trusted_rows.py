"""Rows that a stream declares to be trusted although they contradict a punctuation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

TEXT = """
CREATE STREAM a (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) USING feed PUNCTUATIONS FROM mark ON VIOLATION TRUST;
CREATE STREAM b (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) USING feed PUNCTUATIONS FROM mark ON VIOLATION TRUST;
CREATE CQ joined AS SELECT a.k, a.ts AS left_ts, b.ts AS right_ts FROM a, b WHERE a.k = b.k;
"""


def rows(*found: tuple[int | None, int, str | None]) -> pa.RecordBatch:
    names = {"k": pa.int64(), "ts": pa.int64(), "mark": pa.string()}
    columns = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, names.values(), strict=True)], names=list(names)
    )


def test_a_trusted_row_joins_what_is_there_and_is_not_kept_for_ever() -> None:
    runner = LocalRunner(build_job(parse_application(TEXT), 1))
    runner.run({"a": rows((1, 0, None), (2, 1, None)), "b": rows((2, 1, None))})
    runner.run({"a": rows((None, 2, '{"k": 1}')), "b": rows((None, 2, '{"k": 1}'))})
    # Both sides have closed 1: this row breaks the promise of its stream, and nothing could ever remove it from the state.
    runner.run({"a": rows((1, 3, None)), "b": rows((2, 3, None))})
    join = next(counters for name, counters in runner.report().items() if "Join" in name)
    assert join["violations"] == 1
    assert join["state_rows"] == 3
    answers = [tuple(row.values()) for row in runner.collected.rows("joined")]
    assert sorted(answers) == [(2, 1, 1), (2, 1, 3)]


def played(query: str, shards: int = 2, more: str = "") -> LocalRunner:
    """Both streams close 1 and then send it again; 2 keeps the promise."""
    streams, _ = TEXT.split("CREATE CQ")
    runner = LocalRunner(build_job(parse_application(f"{streams}{more}CREATE CQ q AS {query};"), shards))
    runner.run({"a": rows((1, 0, None), (2, 1, None)), "b": rows((2, 1, None))})
    runner.run({"a": rows((None, 2, '{"k": 1}')), "b": rows((None, 2, '{"k": 1}'))})
    runner.run({"a": rows((1, 3, None)), "b": rows((1, 3, None), (2, 3, None))})
    return runner


def state_rows(runner: LocalRunner) -> int:
    return sum(counters.get("state_rows", 0) for name, counters in runner.report().items() if "Join" in name and "@" not in name)


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("LEFT JOIN", [(1, 0, None), (1, 3, None), (2, 1, 1), (2, 1, 3)]),
        ("RIGHT JOIN", [(None, None, 3), (2, 1, 1), (2, 1, 3)]),
        ("FULL JOIN", [(None, None, 3), (1, 0, None), (1, 3, None), (2, 1, 1), (2, 1, 3)]),
    ],
)
def test_a_trusted_row_of_an_outer_join_is_answered_at_once_and_not_kept(join: str, expected: list[Any]) -> None:
    runner = played(f"SELECT a.k, a.ts AS x, b.ts AS y FROM a {join} b ON a.k = b.k")
    assert state_rows(runner) == 3
    found = [tuple(row.values()) for row in runner.collected.rows("q")]
    assert sorted(found, key=str) == sorted(expected, key=str)
    runner.end()
    assert len(runner.collected.rows("q")) == len(expected)


@pytest.mark.parametrize(("join", "expected"), [("SEMI JOIN", [(2, 1)]), ("ANTI JOIN", [(1, 0), (1, 3)])])
def test_a_trusted_row_of_a_semi_or_anti_join_is_decided_at_once(join: str, expected: list[Any]) -> None:
    runner = played(f"SELECT a.k, a.ts AS x FROM a {join} b ON a.k = b.k")
    assert sorted(tuple(row.values()) for row in runner.collected.rows("q")) == expected
    runner.end()
    assert len(runner.collected.rows("q")) == len(expected)


HINTS = ["", "/*+ PJOIN */", "/*+ XJOIN */", "/*+ PWJOIN */", "/*+ WJOIN */", "/*+ APPROXIMATE(recall = 1) */"]


@pytest.mark.parametrize("hint", HINTS)
def test_every_variant_of_a_join_takes_trusted_rows(hint: str) -> None:
    runner = played(f"SELECT {hint} a.k, a.ts AS x, b.ts AS y FROM a, b WHERE a.k = b.k")
    runner.end()
    assert {(2, 1, 1), (2, 1, 3)} <= {tuple(row.values()) for row in runner.collected.rows("q")}
    assert runner.collected.refused == []


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("JOIN", [(1, 0, 4)]),
        ("LEFT JOIN", [(1, 0, 4), (1, 3, None)]),
        ("FULL JOIN", [(1, 0, 4), (1, 3, None)]),
        ("RIGHT JOIN", [(1, 0, 4)]),
    ],
)
def test_a_trusted_row_meets_what_is_stored_and_no_later_row(join: str, expected: list[Any]) -> None:
    """Only a has closed 1, so that its first row waits for b; the second one, which should not have come, does not."""
    streams, _ = TEXT.split("CREATE CQ")
    text = f"{streams}CREATE CQ q AS SELECT a.k, a.ts AS x, b.ts AS y FROM a {join} b ON a.k = b.k;"
    runner = LocalRunner(build_job(parse_application(text), 2))
    runner.run({"a": rows((1, 0, None), (None, 2, '{"k": 1}'))})
    runner.run({"a": rows((1, 3, None))})
    runner.run({"b": rows((1, 4, None))})
    assert next(counters["violations"] for name, counters in runner.report().items() if name.startswith("WindowJoin")) == 1
    runner.end()
    assert sorted(tuple(row.values()) for row in runner.collected.rows("q")) == expected


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "ANTI JOIN"])
@pytest.mark.parametrize("column", ["k", "n"])
def test_trust_reaches_joins_over_queries_in_the_same_stage_and_in_the_next(kind: str, column: str) -> None:
    """The group of 1 is reported and closed; the row that comes nevertheless makes another group of it at the end."""
    more = "CREATE CQ groups AS SELECT k, count(*) AS n FROM a GROUP BY k;"
    runner = played(f"SELECT g.k FROM groups g {kind} b ON g.{column} = b.k", more=more)
    runner.end()
    assert sorted(row["k"] for row in runner.collected.rows("groups")) == [1, 1, 2]
    assert runner.collected.refused == []
    trusted = [counters.get("violations", 0) + counters.get("trusted", 0) for counters in runner.report().values()]
    assert sum(trusted) >= 2  # at the entry of a, and behind the grouping
