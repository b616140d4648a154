"""What queries that were added in mid-stream must have answered, by the offsets of the micro-batch they began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from changing import LATER, MORE
from driver import application
from victim import bag_of

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.runners.local.runner import LocalRunner
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.checkpoints.editions import Editions
from penstock.workloads.playback import Playback


def first_batch_of(checkpoint: Path, query: str) -> int:
    """The first micro-batch that knew a query."""
    editions = Editions(Checkpoint(checkpoint))
    last = max(int(path.name) for path in (checkpoint / "spark" / "offsets").glob("[0-9]*") if path.name.isdigit())
    return next(epoch for epoch in range(last + 1) if query in editions.at(epoch).edition.catalog.queries)


def tick_before(checkpoint: Path, epoch: int) -> int:
    """How far the feed of the left stream had come when a micro-batch began."""
    return int(_offsets(checkpoint, epoch - 1)["stream_lefts"]["tick"])


def _offsets(checkpoint: Path, epoch: int) -> dict[str, Any]:
    lines = (checkpoint / "spark" / "offsets" / str(epoch)).read_text().splitlines()[2:]
    return {name: json.loads(offset) for name, _, offset in (line.partition(":") for line in lines)}


def later_answers(query: str, tick: int) -> list[tuple[object, ...]]:
    """Answers to the rows of the feeds from a tick on."""
    text = application("/nowhere") + LATER.format(output="/nowhere") + MORE.format(output="/nowhere")
    catalog = parse_application(text)
    runner = LocalRunner(build_job(catalog, 2, ["per_key", "per_count", "more"]))
    rows = {}
    for name in ("lefts", "others"):
        stream = catalog.streams[name]
        feed = Playback.from_text(stream.source.options)
        rows[name] = [batch for part in feed.ranges(tick, feed.total) for batch in feed.batches(part, stream.schema.arrow)]
    runner.run(rows)
    runner.end()
    return bag_of(pa.Table.from_batches([batch.rows for batch in runner.collected.answers[query]]))
