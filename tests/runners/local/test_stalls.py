"""Whoever holds time back is named."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.stalls import StallDetector

COLUMNS = "(k BIGINT, part INT, ts BIGINT, WATERMARK ts DELAY OF 0)"
TEXT = f"""
CREATE STREAM s {COLUMNS} PARTITIONED BY part INTO 3 PARTITIONS;
CREATE STREAM t {COLUMNS};
CREATE CQ pairs AS SELECT s.k FROM s [RANGE 10], t [RANGE 10] WHERE s.k = t.k;
"""


class Watched:
    """An application and its watch; micro-batches come every ten seconds."""

    def __init__(self) -> None:
        job = build_job(parse_application(TEXT), 2)
        self.runner = LocalRunner(job)
        self.watch = StallDetector(job)
        self.seconds = 0.0

    def batch(self, **rows: list[tuple[int, int]]) -> list[str]:
        """(partition, time) by stream; what is said."""
        self.runner.run({name: self._rows(found) for name, found in rows.items()})
        self.seconds += 10
        kernel = next(iter(self.runner.kernels.values()))
        found = kernel.report()
        return [str(held) for held in self.watch.hear(found["entries"], found["holding"], self.seconds)]

    def _rows(self, found: list[tuple[int, int]]) -> pa.RecordBatch:
        columns: dict[str, Any] = {"k": [1] * len(found), "part": [part for part, _ in found], "ts": [ts for _, ts in found]}
        return pa.RecordBatch.from_pydict(columns, pa.schema({"k": pa.int64(), "part": pa.int32(), "ts": pa.int64()}))


def test_a_partition_that_others_wait_for_is_named_and_since_when() -> None:
    watched = Watched()
    assert watched.batch(s=[(0, 5), (1, 5), (2, 5)], t=[(0, 5)]) == []
    assert watched.batch(s=[(0, 15), (1, 15)], t=[(0, 15)]) == []
    assert "s is held back by partition 2 of s since 10 s (it has come to 5)" in watched.batch(s=[(0, 25), (1, 25)], t=[(0, 25)])
    assert "s is held back by partition 2 of s since 20 s (it has come to 5)" in watched.batch(s=[(0, 35), (1, 35)], t=[(0, 35)])
    assert watched.batch(s=[(0, 45), (1, 45), (2, 45)], t=[(0, 45)]) == []


def test_a_partition_that_is_known_and_never_came_is_named() -> None:
    watched = Watched()
    watched.batch(s=[(0, 5), (1, 5)], t=[(0, 5)])
    said = watched.batch(s=[(0, 15), (1, 15)], t=[(0, 15)])
    assert "s is held back by partition 2 of s since 10 s (it has brought nothing yet)" in said


def test_a_stream_that_others_of_its_query_wait_for_is_named() -> None:
    watched = Watched()
    watched.batch(s=[(0, 5), (1, 5), (2, 5)], t=[(0, 4)])
    watched.batch(s=[(0, 15), (1, 15), (2, 15)])
    assert watched.batch(s=[(0, 25), (1, 25), (2, 25)]) == ["pairs is held back by t since 20 s (it has come to 4)"]


def test_where_everything_stands_still_nobody_is_to_blame() -> None:
    watched = Watched()
    watched.batch(s=[(0, 5), (1, 4), (2, 5)], t=[(0, 4)])
    assert watched.batch() == []
    assert watched.batch() == []
