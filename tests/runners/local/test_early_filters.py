"""Filters that run before rows cross: answers and refused rows are those of the same filters in shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.testing.soak import unaccounted

STREAMS = """
CREATE FUNCTION mix(v BIGINT, salt BIGINT) RETURNS BIGINT
  USING python OPTIONS (callable 'sql_functions:hashed', kind 'arrow', cost '1e-6');
CREATE FUNCTION fussy(v BIGINT) RETURNS DOUBLE USING python OPTIONS (callable 'sql_functions:fussy', cost '1e-6');
CREATE STREAM s (k BIGINT{unique}, a BIGINT NOT NULL, b BIGINT, ts BIGINT, part BIGINT, off BIGINT, mark STRING,
  WATERMARK ts DELAY OF 1000{constraint}) ON BAD ROWS QUARANTINE ON VIOLATION QUARANTINE
  PUNCTUATIONS FROM mark ON (b) PARTITIONED BY part POSITION off;
CREATE STREAM other (b BIGINT, n BIGINT, ts BIGINT, WATERMARK ts DELAY OF 1000);
"""
HINT = "/*+ ORDER(probability = 1.0, min_fill = 5, chunk_rows = 7, window_rows = 20, on_error = 'dead_letter') */"
CONDITIONS = (
    "mix(k, 1) < 70 AND mix(b, 2) < 90",
    "mix(k, 1) < 70",
    "mix(k, 1) < 100 AND fussy(a) > 0 AND a < 6",
    "fussy(b) > 0 AND mix(k + a, 3) < 110",
    "mix(7, 1) < 0 OR mix(k, 3) < 64",
)
SHAPES = (
    "CREATE CQ q AS SELECT {hint} k, a + 1 AS c FROM s WHERE {where};",
    "CREATE CQ q AS SELECT {hint} b, COUNT(*) AS n, SUM(a) AS c FROM s [RANGE 50] WHERE {where} GROUP BY b;",
    "CREATE CQ few AS SELECT {hint} k, b FROM s WHERE {where};"
    "CREATE CQ q AS SELECT f.k, o.n FROM few f [RANGE 20], other o [RANGE 20] WHERE f.b = o.b;",
    "CREATE CQ few AS SELECT {hint} k, a, b FROM s WHERE {where};"
    "CREATE CQ q AS SELECT b, COUNT(*) AS n FROM few [RANGE 50] WHERE mix(b, 5) < 100 GROUP BY b;",
    "CREATE CQ few AS SELECT {hint} k, a, b FROM s WHERE {where}; CREATE CQ q AS SELECT k, mix(k, 9) AS m FROM few WHERE a <> 3;"
    "CREATE CQ r AS SELECT DISTINCT b FROM few [RANGE 30];",
)
SMALL = st.none() | st.integers(0, 8)


@dataclass(frozen=True)
class Case:
    """A query, rows of both streams, and how they are cut into micro-batches and tasks."""

    text: str
    rows: pa.RecordBatch
    others: pa.RecordBatch
    cuts: tuple[int, ...]
    tasks: int
    shards: int
    is_looped: bool

    def inputs(self) -> Iterator[dict[str, list[pa.RecordBatch]]]:
        bounds = sorted({0, self.rows.num_rows, *(cut for cut in self.cuts if cut < self.rows.num_rows)})
        for start, stop in pairwise(bounds):
            size = -(-(stop - start) // self.tasks)
            pieces = [self.rows.slice(at, min(size, stop - at)) for at in range(start, stop, size)]
            yield {"s": pieces, "other": [self.others.slice(start, stop - start)]}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    where, shape = draw(st.sampled_from(CONDITIONS)), draw(st.sampled_from(SHAPES))
    size, is_unique = draw(st.integers(1, 60)), draw(st.booleans())
    k = draw(st.lists(st.integers(0, 40) if is_unique else SMALL, min_size=size, max_size=size))
    if is_unique and shape != SHAPES[0]:  # entries with other keys do not watch what is unique, and say so
        k = draw(st.permutations(range(size)))
    columns: dict[str, Any] = {
        "k": k,
        **{name: draw(st.lists(SMALL, min_size=size, max_size=size)) for name in ("a", "b")},
        "ts": [None if coin == 0 else number + coin for number, coin in enumerate(draw(_coins(size)))],
        # That a value comes again in another partition is not seen where the first row is one that nobody wants.
        "part": [0 if is_unique else coin % 3 for coin in draw(_coins(size))],
        "off": list(range(size)),
        "mark": [None] * size,
    }
    for at in draw(st.lists(st.integers(0, size - 1), max_size=2)):
        columns["mark"][at] = '{"b": ' + str(draw(st.integers(9, 12))) + "}"
    types = [pa.int64()] * 6 + [pa.string()]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(each, kind) for each, kind in zip(columns.values(), types, strict=True)], list(columns)
    )
    number = np.arange(size)
    others = pa.RecordBatch.from_pydict({"b": number % 9, "n": number, "ts": number})
    hint = HINT if " AND " in where else ""
    declared = STREAMS.format(unique="", constraint=", UNIQUE (k)" if is_unique else "")
    return Case(
        declared + shape.format(hint=hint, where=where), rows, others, tuple(draw(st.lists(st.integers(1, 50), max_size=4))),
        draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.booleans()),
    )  # fmt: skip


def _coins(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 9), min_size=size, max_size=size)


def played(case: Case, filters_early: bool) -> LocalRunner:
    job = build_job(parse_application(case.text), case.shards, filters_early=filters_early)
    runner = LocalRunner(looped(job) if case.is_looped else job, encode=True, clock=lambda: 0)
    for given_rows in case.inputs():
        runner.run(given_rows)
    runner.end()
    return runner


def found(runner: LocalRunner) -> dict[str, list[str]]:
    return {query: sorted(map(repr, runner.collected.timed(query))) for query in runner.job.outputs}


def refused(runner: LocalRunner) -> dict[int, str]:
    """Reasons by position; an entry that several queries read refuses for each of them."""
    return {int(pos): item.reason for item in runner.collected.refused for pos in item.batch.pos}


@given(cases())
@settings(max_examples=60, deadline=None)
def test_filters_before_the_exchange_change_neither_answers_nor_refused_rows(case: Case) -> None:
    before, behind = played(case, filters_early=True), played(case, filters_early=False)
    assert any(source.prefix.filters for stage in before.job.stages for source in stage.sources)
    assert found(before) == found(behind)
    ours, theirs = refused(before), refused(behind)
    # A row that the query does not want is filtered, and one that it cannot judge has failed, whatever they violate.
    assert ours.keys() <= theirs.keys()
    assert all(ours.get(pos) == reason for pos, reason in theirs.items() if reason != "punctuation-violated")
    assert unaccounted(before) == []
