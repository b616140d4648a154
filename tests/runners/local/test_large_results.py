"""Results that do not fit into memory leave piece by piece: what is behind the join works on one before the next is made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.kernel import executor
from penstock.kernel.executor import Kernel
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.operators.joins import multiway_join
from penstock.operators.joins.matching import combinations
from penstock.operators.joins.matching.multiway import pipeline
from penstock.operators.joins.storing import row_store
from penstock.runners.local.runner import LocalRunner
from penstock.runners.shard import steps

STREAMS = "".join(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);\n" for name in "abc")
PAIRS = "FROM a [RANGE 1000], b [RANGE 1000] WHERE a.k = b.k"
QUERIES = {
    "rows": f"SELECT a.v AS x, b.v AS y {PAIRS}",
    "by_rows": "SELECT a.v AS x, b.v AS y FROM a [ROWS 5000], b [ROWS 5000] WHERE a.k = b.k",
    "grouped": f"SELECT a.k, count(*) AS n, sum(b.v) AS total {PAIRS} GROUP BY a.k",
    "left": "SELECT a.v AS x, b.v AS y FROM a [RANGE 1000] LEFT JOIN b [RANGE 1000] ON a.k = b.k",
    "three": "SELECT a.v AS x, b.v AS y, c.v AS z FROM a [RANGE 9], b [RANGE 9], c [RANGE 9] WHERE a.k = b.k AND b.v = c.v",
}
#: Rows of a piece, and how many of them may be under way at a time.
PIECE, UNDER_WAY = 1_000, 4


def rows(keys: list[int], ts: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": keys, "v": list(range(len(keys))), "ts": [ts] * len(keys)})


@pytest.fixture
def most_waiting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pieces are small, and the most rows that ever waited in queues are noted."""
    monkeypatch.setattr(row_store, "_MOST_PAIRS", PIECE)
    monkeypatch.setattr(combinations, "OUTPUT_ROWS", PIECE)
    monkeypatch.setattr(executor, "ANSWER_ROWS", PIECE)
    monkeypatch.setattr(pipeline, "_FIRST_SURVIVORS", 2)
    monkeypatch.setattr(pipeline, "_MOST_COMBOS", PIECE)
    monkeypatch.setattr(multiway_join, "OUTPUT_ROWS", PIECE)
    found, send = [0], Kernel._send

    def noting(self: Kernel, *given: Any) -> None:
        send(self, *given)
        found[0] = max(found[0], self.waiting_rows)

    monkeypatch.setattr(Kernel, "_send", noting)
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_all_answers_come_and_few_rows_wait(name: str, most_waiting: list[int]) -> None:
    catalog = parse_application(f"{STREAMS}CREATE CQ q AS {QUERIES[name]};")
    runner = LocalRunner(build_job(catalog, 2))
    keys = [1] * 300 + [2] * 20
    for ts, streams in ((1, "ac"), (2, "b")):
        runner.run({stream: rows(keys, ts) for stream in streams})
    runner.end()
    answers = runner.collected.rows("q")
    if name == "grouped":
        assert sorted(row["n"] for row in answers) == [400, 90_000]
    else:
        assert len(answers) == 90_400
    assert most_waiting[0] <= max(UNDER_WAY * PIECE, 2 * len(keys))


def test_the_host_takes_answers_before_all_are_made(most_waiting: list[int]) -> None:
    catalog = parse_application(f"{STREAMS}CREATE CQ q AS {QUERIES['rows']};")
    runner = LocalRunner(build_job(catalog, 1))
    runner.run({"a": rows([1] * 300, 1)})
    taken: list[int] = []
    given = runner.run

    def step_by_step(kernel: Kernel, stage: Any, shard: int, shards: int, packets: Any, now_ns: int, bound: Any) -> Any:
        whole = None
        for part in steps(kernel, stage, shard, shards, packets, now_ns, bound):
            taken.append(sum(batch.num_rows for _, batch in part.answers))
            whole = part
        return whole

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.runners.local.runner.step", step_by_step)
        given({"b": rows([1] * 300, 2)})
    assert sum(taken) == 90_000
    assert max(taken) <= UNDER_WAY * PIECE
