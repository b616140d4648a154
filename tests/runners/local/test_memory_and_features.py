# ruff: noqa: E501 - a query stays on its line
"""A limit of memory beside every other feature of joins: the same answers from files, in several shards, over restarts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.memory import MemorySharing

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);\n"
    for name in "abc"
)
QUERIES = {
    "begin_end": "CREATE CQ q BEGIN 3 END 40 AS SELECT a.v AS x, b.v AS y FROM a [RANGE 9], b [RANGE 9] WHERE a.k=b.k;",
    "begin_end_rows": "CREATE CQ q BEGIN 3 END 40 AS SELECT a.v AS x, b.v AS y FROM a [ROWS 9], b [ROWS 5] WHERE a.k=b.k;",
    "framed": "CREATE CQ q BEGIN 0 AS SELECT a.v AS x, b.v AS y FROM a [RANGE 6, ADVANCE 3], b [RANGE 6, ADVANCE 3] WHERE a.k=b.k;",
    "full": "CREATE CQ q AS SELECT a.v AS x, b.v AS y FROM a [RANGE 6] FULL JOIN b [RANGE 4] ON a.k=b.k;",
    "full_punct": "CREATE CQ q AS SELECT a.v AS x, b.v AS y FROM a FULL JOIN b ON a.k=b.k;",
    "semi": "CREATE CQ q AS SELECT a.v AS x FROM a SEMI JOIN b ON a.k=b.k;",
    "anti": "CREATE CQ q AS SELECT a.v AS x FROM a [RANGE 5] ANTI JOIN b [RANGE 5] ON a.k=b.k;",
    "approx": "CREATE CQ q AS SELECT /*+ APPROXIMATE(recall = 1) */ a.v AS x, b.v AS y FROM a [RANGE 9], b [RANGE 9] WHERE a.k=b.k;",
    "spread": "CREATE CQ q AS SELECT /*+ PWJOIN(spread = TRUE, memory_bytes = 300) */ a.v AS x, b.v AS y FROM a [ROWS 9], b [ROWS 5] WHERE a.k=b.k;",
    "three": "CREATE CQ q AS SELECT a.v AS x, c.v AS y FROM a, b, c WHERE a.k=b.k AND b.k=c.k;",
    "over": "CREATE CQ j AS SELECT a.k, a.v AS x, b.v AS y FROM a, b WHERE a.k=b.k; CREATE CQ q AS SELECT j.x AS x, c.v AS y FROM j, c WHERE j.k=c.k;",
    "union": "CREATE CQ u AS SELECT k, v FROM a UNION ALL SELECT k, v FROM c; CREATE CQ q AS SELECT u.v AS x, b.v AS y FROM u [RANGE 9], b [RANGE 9] WHERE u.k=b.k;",
    "multi": "CREATE CQ q AS SELECT a.v AS x, c.v AS y FROM a [RANGE 9], b [RANGE 9], c [RANGE 9] WHERE a.k=b.k AND b.v=c.v;",
    "grouped": "CREATE CQ q AS SELECT a.k AS x, count(*) AS y FROM a, b WHERE a.k=b.k GROUP BY a.k;",
}


def answers(text: str, limit: int | None, shards: int) -> list[str]:
    catalog = parse_application(STREAMS + text)
    job = build_job(catalog, shards)
    runner = LocalRunner(job, encode=True, memory=None if limit is None else MemorySharing(job, limit, 200))
    schema = catalog.stream("a").schema.arrow
    for ts in range(1, 50):
        first = ts // 12 * 11
        closing = [{"ts": ts, "mark": f'{{"k": {{"range": [0, {first + 10}]}}}}'}] if ts % 12 == 11 else []
        inputs = {}
        for port, name in enumerate("abc"):
            rows = [{"k": (ts * 7 + port * 3 + at) % 11 + first, "v": ts * 10 + at, "ts": ts} for at in range(4)]
            inputs[name] = pa.RecordBatch.from_pylist([*rows, *closing], schema=schema)
        runner.run(inputs)
        if limit is not None and ts % 5 == 0:
            runner.restore(runner.snapshot())
    runner.end()
    assert not runner.collected.refused
    return sorted(map(str, runner.collected.rows("q")))


@pytest.mark.parametrize("name", QUERIES)
def test_a_limit_of_memory_changes_no_answer(name: str) -> None:
    expected = answers(QUERIES[name], None, 1)
    assert answers(QUERIES[name], 3_000, 3) == expected != []
