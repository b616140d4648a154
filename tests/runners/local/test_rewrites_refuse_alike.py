"""Rewrites change neither answers nor the rows that are refused; a promise is kept or broken whatever a query reads."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

COLUMNS = pa.schema({"k": pa.int64(), "x": pa.int64(), "y": pa.int64(), "mark": pa.string(), "ts": pa.int64()})
_NAMES = ("k", "x", "y")
#: Queries over `a`; `{}` takes a condition that rejects some rows, or none.
QUERIES = (
    "SELECT k FROM a WHERE {0}",
    "SELECT x + 1 AS z FROM a WHERE {0}",
    "SELECT k, x, y FROM a WHERE {0}",
    "SELECT x, count(*) AS n FROM a [RANGE 4] WHERE {0} GROUP BY x",
    "SELECT x, count(*) AS n FROM (SELECT x, ts FROM a WHERE {0}) t [RANGE 4] GROUP BY x",
    "SELECT DISTINCT x FROM a [RANGE 4] WHERE {0}",
    "SELECT x FROM a WHERE {0} UNION ALL SELECT y AS x FROM b",
    "SELECT z FROM (SELECT x AS z FROM a UNION ALL SELECT y AS z FROM b) t",
    "SELECT a.x AS x, b.y AS y FROM a [RANGE 4], b [RANGE 4] WHERE a.x = b.x AND {1}",
    "SELECT a.x AS x FROM a [RANGE 4] LEFT JOIN b [RANGE 4] ON a.y = b.x WHERE {1}",
)
ELEMENTS = ("", "UNIQUE (k), ", "ORDERED (k), ", "CLUSTERED (y), ", "CLUSTERED (k) WITHIN 2 ROWS, ", "UNIQUE (y), ")
CLAUSES = (
    "",
    " PUNCTUATIONS FROM mark",
    " PUNCTUATIONS FROM mark ON (k)",
    " PUNCTUATIONS FROM mark ON (k, y)",
    " PUNCTUATE k WHEN y = 3",
)


@dataclass(frozen=True)
class Case:
    """An application and the rows of its two streams."""

    element: str
    clause: str
    query: str
    condition: bool
    rows: tuple[dict[str, Any], ...]
    shards: int = 2
    required: bool = False
    policy: str = "QUARANTINE"

    @property
    def text(self) -> str:
        y = "y BIGINT NOT NULL" if self.required else "y BIGINT"
        columns = f"k BIGINT, x BIGINT, {y}, mark STRING, ts BIGINT"
        first = f"CREATE STREAM a ({columns}, {self.element}WATERMARK ts DELAY OF 3){self.clause} ON VIOLATION {self.policy};"
        second = "CREATE STREAM b (k BIGINT, x BIGINT, y BIGINT, mark STRING, ts BIGINT, WATERMARK ts DELAY OF 3);"
        wanted = ("x > 1", "a.x > 1") if self.condition else ("ts = ts", "a.ts = a.ts")
        return f"{first}\n{second}\nCREATE CQ q AS {self.query.format(*wanted)};"


def _row(k: int | None = None, x: int | None = 2, y: int | None = 0, mark: str | None = None, ts: int = 0) -> dict[str, Any]:
    return {"k": k, "x": x, "y": y, "mark": mark, "ts": ts}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    clause = draw(st.sampled_from(CLAUSES))
    small = st.one_of(st.none(), st.integers(0, 3))
    marks = st.builds(lambda name, value: json.dumps({name: value}), st.sampled_from(_NAMES), st.integers(0, 3))
    rows, now = [], 0
    for _ in range(draw(st.integers(1, 16))):
        now += draw(st.integers(-4, 4))
        is_mark = "FROM mark" in clause and draw(st.integers(0, 4)) == 0
        rows.append(_row(None, None, None, draw(marks), now) if is_mark else _row(draw(small), draw(small), draw(small), None, now))
    return Case(
        draw(st.sampled_from(ELEMENTS)), clause, draw(st.sampled_from(QUERIES)), draw(st.booleans()), tuple(rows),
        draw(st.integers(1, 3)), draw(st.booleans()), draw(st.sampled_from(["QUARANTINE", "TRUST"])),
    )  # fmt: skip


def played(case: Case, optimise: bool) -> tuple[Counter[str], set[tuple[str, str, int]]]:
    """Answers, and refused rows by stream, reason and position."""
    runner = LocalRunner(build_job(parse_application(case.text), case.shards, optimise=optimise))
    plain = [row for row in case.rows if row["mark"] is None]
    for at in range(0, len(case.rows), 5):
        mine, other = case.rows[at : at + 5], plain[at : at + 5]
        runner.run({name: pa.RecordBatch.from_pylist(list(rows), COLUMNS) for name, rows in (("a", mine), ("b", other))})
    runner.end()
    refused = {(item.stream, item.reason, position) for item in runner.collected.refused for position in item.batch.pos.tolist()}
    return Counter(map(str, runner.collected.timed("q"))), refused


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
@example(case=Case("", CLAUSES[1], QUERIES[0], False, (_row(mark='{"y": 1}'), _row(k=1, y=1))))
@example(case=Case("", CLAUSES[1], QUERIES[3], False, (_row(mark='{"y": 1}'), _row(k=1, y=1))))
@example(case=Case("", CLAUSES[2], QUERIES[3], False, (_row(mark='{"y": 1}'), _row(k=1, y=1))))
@example(case=Case("", "", QUERIES[3], False, (_row(k=1, y=None), _row(k=1, y=1)), required=True))
def test_rewrites_change_no_answer_and_refuse_the_same_rows(case: Case) -> None:
    answers, refused = played(case, optimise=False)
    better_answers, better_refused = played(case, optimise=True)
    assert better_answers == answers
    # A filter that a rewrite brings to the source rejects its rows before anybody asks what else is wrong with them.
    rejected = {at for at, row in enumerate(case.rows) if case.condition and not (row["x"] or 0) > 1}
    assert {item for item in refused if not (item[0] == "a" and item[2] in rejected)} <= better_refused <= refused


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("query", ["SELECT k, x FROM a", "SELECT x FROM a", "SELECT x FROM a UNION ALL SELECT x FROM b"])
@pytest.mark.parametrize("element", ["UNIQUE (k), ", "ORDERED (k), "])
def test_a_promise_about_a_column_is_watched_whatever_the_query_reads(element: str, query: str, shards: int) -> None:
    rows = [_row(k=key, ts=ts) for ts, key in enumerate([1, 2, 3, 4, 5, 1])]
    _, refused = played(Case(element, "", query, False, tuple(rows), shards), optimise=True)
    assert refused == {("a", "punctuation-violated", 5)}


def test_a_promise_that_no_shard_can_watch_is_named() -> None:
    grouped = Case("UNIQUE (k), ", "", "SELECT x, count(*) AS n FROM a [RANGE 4] GROUP BY x", False, ())
    (said,) = build_job(parse_application(grouped.text), 2).unwatched
    assert "UNIQUE (k) of a is not checked by query q" in said
    plain = Case("UNIQUE (k), ", "", "SELECT x FROM a", False, ())
    assert build_job(parse_application(plain.text), 2).unwatched == ()
