"""Scopes that a stream carries speak of rows that come next: joins answer the same, and let none of them pass."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

TEXT = """
CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);
CREATE CQ q AS SELECT {hint} a.k, b.ts FROM a, b WHERE a.k = b.k;
CREATE CQ said AS SELECT punctuation FROM PUNCTUATIONS OF q;
"""


def played(hint: str, has_scopes: bool) -> LocalRunner:
    catalog = parse_application(TEXT.format(hint=hint))
    runner = LocalRunner(build_job(catalog, 2), encode=True)
    schema = catalog.stream("b").schema.arrow
    runner.run({"a": pa.RecordBatch.from_pydict({"k": list(range(60)), "ts": [0] * 60})})
    for step in range(6):
        first, ts = 10 * step, 2 * step + 1
        announced = {"ts": ts, "mark": f'{{"$next": 60, "k": {{"range": [{first}, {first + 9}]}}}}'}
        if has_scopes:
            runner.run({"b": pa.RecordBatch.from_pylist([announced], schema=schema)})
        rows = [{"k": first + at % 10, "ts": ts + 1} for at in range(60)]
        runner.run({"b": pa.RecordBatch.from_pylist(rows, schema=schema)})
    runner.end()
    return runner


@pytest.mark.parametrize("hint", ["", "/*+ PJOIN(memory_bytes = 1) */"])
def test_scopes_change_no_answer_and_go_no_further(hint: str) -> None:
    told, plain = played(hint, has_scopes=True), played(hint, has_scopes=False)
    for query in ("q", "said"):
        first, second = (sorted(map(str, runner.collected.rows(query))) for runner in (told, plain))
        assert first == second
    assert len(told.collected.rows("q")) == 360
