"""What share of the window join's time is the pipe: the same data, in and out, through a kernel that computes nothing.

The identity kernel gets the join's two inputs through the same packing, exchange and state store, and hands back as many rows
of the same width as the join does. What it needs is what any operator would need.

    python -m benchmarks.pipe [--batches 12]
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.common import Timing, main, session, timed
from benchmarks.window_join import ROWS, WARM_UP, ours, sides
from penstock.language.application import parse_query
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.batch import Batch
from penstock.model.elements import Elements, End, Metadata
from penstock.operators.base import Stateless
from penstock.plan.catalog import Catalog
from penstock.runners.spark.data_path.pipeline import build_pipeline, direct_answers
from penstock.runners.spark.dataframes.composing import Leaf
from penstock.runners.spark.dataframes.inputs import input_of

_TEXT = """
CREATE CQ answer AS SELECT l.key, l.id, l.value, l.ts, r.id AS id_r, r.value AS value_r, r.ts AS ts_r
FROM left l [RANGE 15 SECONDS], right r [RANGE 15 SECONDS] WHERE l.key = r.key
"""


class Repeat(Stateless):
    """Every row as often as the join would return it on average, under the join's schema; remembers nothing."""

    def __init__(self, times: float, output_schema: pa.Schema) -> None:
        self.times = times
        self.output_schema = output_schema

    def on_batch(self, port: int, batch: Batch) -> Elements:
        chosen = (np.arange(int(batch.num_rows * self.times)) / self.times).astype(np.int64)
        rows = batch.take(np.minimum(chosen, batch.num_rows - 1))
        by_type = {column.type: column for column in rows.rows.columns}
        columns = [by_type.get(item.type, pa.nulls(rows.num_rows, item.type)) for item in self.output_schema]
        return (Batch(pa.RecordBatch.from_arrays(columns, schema=self.output_schema), rows.ts, rows.pos),)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        return () if isinstance(mark, End) or port else (mark,)


def identity(spark: SparkSession, batches: int, times: float) -> Timing:
    frames = dict(zip(("left", "right"), sides(spark, batches, "bigint"), strict=True))
    catalog = Catalog("pipe")
    for name, frame in frames.items():
        leaf = input_of("pipe", name, frame)
        assert isinstance(leaf, Leaf)
        catalog.add_stream(leaf.declaration)
    catalog.add_query(parse_query(_TEXT, catalog))
    job = _without_join(build_job(catalog, 2), times)
    pipeline = build_pipeline(job, lambda stream: frames[stream.name], None, uuid.uuid4().hex)
    return timed("identity kernel", direct_answers(pipeline.frame), 2 * ROWS)


def _without_join(job: Job, times: float) -> Job:
    """The same job with the join's place taken by `Repeat`."""
    stage = job.stages[0]
    nodes = tuple(
        replace(node, make=partial(Repeat, times, node.make.args[3])) if node.id.startswith("WindowJoin") else node
        for node in stage.graph.nodes
    )
    return replace(job, stages=(replace(stage, graph=replace(stage.graph, nodes=nodes)),))


def run() -> Mapping[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=12)
    batches = parser.parse_args().batches
    spark = session()
    ours(spark, WARM_UP, "bigint")
    joined = ours(spark, batches, "bigint")
    through = identity(spark, batches, joined.output_rows / (2 * ROWS * batches))
    share = joined.rows_per_second / through.rows_per_second
    return {"ratio": round(share, 3), "pipe_share_of_join": round(share, 3), "join": joined.shown(), "identity": through.shown()}


if __name__ == "__main__":
    main("pipe", run)
