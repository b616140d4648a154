"""What an application must answer: its whole input at once, in process, without a crash, a budget or a restart."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback


def undisturbed(text: str, inputs: Mapping[str, pa.RecordBatch] | None = None, ends: bool = True) -> LocalRunner:
    """The runner after all rows; streams that are not given must be feeds with an end.

    Examples
    --------
    >>> runner = undisturbed('''
    ...     CREATE STREAM s (id BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
    ...     USING feed OPTIONS (workload 'pairs', stream 'left', total '5');
    ...     CREATE CQ even AS SELECT id FROM s WHERE id % 2 = 0;''')
    >>> [row["id"] for row in runner.collected.rows("even")]
    [0, 2, 4]
    """
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, 3))
    runner.run({**_played(catalog, inputs or {}), **(inputs or {})})
    if ends:
        runner.end()
    return runner


def _played(catalog: Catalog, given: Mapping[str, pa.RecordBatch]) -> dict[str, list[pa.RecordBatch]]:
    """Rows of every feed, source partition by source partition."""
    rows: dict[str, list[pa.RecordBatch]] = {}
    for stream in catalog.streams.values():
        if stream.name not in given:
            feed = Playback.from_text(stream.source.options)
            ranges = feed.ranges(0, feed.total)
            rows[stream.name] = [batch for part in ranges for batch in feed.batches(part, stream.schema.arrow)]
    return rows
