"""Compile the operators' inner loops before the first demo, so that Spark's workers find them on disk."""

from __future__ import annotations

import pyarrow as pa

from penstock.apps.reading import read_catalog
from penstock.apps.table import EXAMPLES
from penstock.lowering.stages import build_job
from penstock.model.declarations import StreamDeclaration
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

#: Long enough that windows close and punctuations arrive: every loop is met with the types it will see.
_TICKS_PER_BATCH, _BATCHES = 4_000, 3


def warm_up() -> None:
    """Play a few seconds of every example in this process; what Numba compiles is kept beside the modules."""
    for name in EXAMPLES:
        catalog = read_catalog(name)
        runner = LocalRunner(build_job(catalog, shards=2))
        for start in range(0, _TICKS_PER_BATCH * _BATCHES, _TICKS_PER_BATCH):
            runner.run({stream.name: _rows(stream, start, start + _TICKS_PER_BATCH) for stream in catalog.streams.values()})
        runner.end()


def _rows(stream: StreamDeclaration, start: int, stop: int) -> list[pa.RecordBatch]:
    feed = Playback.from_text(dict(stream.source.options))
    return [batch for rows in feed.ranges(start, stop) for batch in feed.batches(rows, stream.schema.arrow)]


if __name__ == "__main__":
    warm_up()
