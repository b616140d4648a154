"""Scopes that a stream carries reach the join that spills."""

from __future__ import annotations

import pyarrow as pa

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner

TEXT = """
CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);
CREATE CQ q AS SELECT {hint} a.k, b.ts FROM a, b WHERE a.k = b.k;
"""


def played(hint: str) -> LocalRunner:
    catalog = parse_application(TEXT.format(hint=hint))
    runner = LocalRunner(build_job(catalog, 2), encode=True)
    schema = catalog.stream("b").schema.arrow
    runner.run({"a": pa.RecordBatch.from_pydict({"k": list(range(60)), "ts": [0] * 60})})
    for step in range(6):
        first, ts = 10 * step, 2 * step + 1
        announced = {"ts": ts, "mark": f'{{"$next": 60, "k": {{"range": [{first}, {first + 9}]}}}}'}
        runner.run({"b": pa.RecordBatch.from_pylist([announced], schema=schema)})
        rows = [{"k": first + at % 10, "ts": ts + 1} for at in range(60)]
        runner.run({"b": pa.RecordBatch.from_pylist(rows, schema=schema)})
    return runner


def test_a_join_that_spills_uses_the_scopes_of_a_stream_and_answers_the_same() -> None:
    spilling, plain = played("/*+ PJOIN(memory_rows = 40, buckets = 4) */"), played("")
    counted = spilling.report()["WindowJoin1"]
    assert counted["tuples_spilled"] > 0
    assert counted["tuples_fetched"] > 0
    assert counted["scope_violations"] == 0
    for runner in (spilling, plain):
        runner.end()
    first, second = (sorted(map(str, runner.collected.rows("q"))) for runner in (spilling, plain))
    assert first == second
    assert len(first) == 360
