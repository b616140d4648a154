"""Rows that a stream declares to be trusted although they contradict a punctuation."""

from __future__ import annotations

import pyarrow as pa

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
