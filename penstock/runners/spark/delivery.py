"""What the driver does with a micro-batch: it is computed once, whatever becomes of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.kernel.packets import Packet, PacketKind
from penstock.runners.spark.answer_files import AnswerFiles, Targets
from penstock.runners.spark.failures import in_short
from penstock.runners.spark.loop import NOTHING, Loop
from penstock.runners.spark.pipeline import Pipeline, answers
from penstock.runners.spark.processor import FILE
from penstock.runners.spark.sinks import DriverSink, ShardSink, Sink, SparkSink

Sinks = Mapping[str, Sequence[Sink]]


def shard_targets(sinks: Sinks) -> Targets:
    """Where shards write themselves."""
    found = {query: tuple(sink.files for sink in mine if isinstance(sink, ShardSink)) for query, mine in sinks.items()}
    return {query: files for query, files in found.items() if files}


def leaving(sinks: Sinks) -> frozenset[str]:
    """Queries whose answers leave the tasks."""
    return frozenset(query for query, mine in sinks.items() if not all(isinstance(sink, ShardSink) for sink in mine))


def only_for_spark(sinks: Sinks) -> str:
    """The only query, if its only destination is one that only Spark can write: then it gets plain columns."""
    if len(sinks) != 1:
        return ""
    ((query, mine),) = sinks.items()
    return query if len(mine) == 1 and isinstance(mine[0], SparkSink) else ""


class Delivery:
    """Called by Spark with every micro-batch."""

    def __init__(self, pipeline: Pipeline, sinks: Sinks, loop: Loop) -> None:
        self._pipeline = pipeline
        self._loop = loop
        self._served = {
            query: [sink for sink in mine if not isinstance(sink, SparkSink | ShardSink)] for query, mine in sinks.items()
        }
        self._framed = {query: [sink for sink in mine if isinstance(sink, SparkSink)] for query, mine in sinks.items()}
        self._files = shard_targets(sinks)
        #: The newest micro-batch that was delivered, and whether something went round from it.
        self.last: tuple[int, bool] = (NOTHING, False)

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        try:
            self._deliver(frame, epoch)
        except (Py4JError, PySparkException) as failure:
            raise in_short(failure) from None

    def _deliver(self, frame: DataFrame, epoch: int) -> None:
        if self._pipeline.direct:
            self._framed[self._pipeline.direct][0].write_frame(epoch, answers(self._pipeline, frame, self._pipeline.direct))
            self.last = (epoch, False)
        elif any(self._framed.values()):
            self._keep(frame, epoch)
        else:
            self._serve(epoch, frame.toArrow())

    def _keep(self, frame: DataFrame, epoch: int) -> None:
        """With destinations that only Spark can write the batch is kept, because it is read more than once."""
        kept = frame.persist()
        try:
            only = [query for query, sinks in self._framed.items() if sinks and not self._served[query]]
            # A header without `e` is a report.
            owner = f.coalesce(
                f.when(f.get_json_object("header", "$.k") == "output", f.get_json_object("header", "$.e")), f.lit("")
            )
            self._serve(epoch, kept.where(~owner.isin(only)).toArrow())
            for query, sinks in self._framed.items():
                for sink in sinks:
                    sink.write_frame(epoch, answers(self._pipeline, kept, query))
        finally:
            kept.unpersist()

    def _serve(self, epoch: int, rows: pa.Table) -> None:
        heads = [json.loads(text) if text else {} for text in rows.column("header").to_pylist()]
        bodies = rows.column("body")
        found: dict[str, list[pa.RecordBatch]] = {}
        written: dict[tuple[str, int], list[str]] = {}
        around = []
        for at, head in enumerate(heads):
            kind = head.get("k")
            if kind == PacketKind.OUTPUT:
                packet = Packet.decode(rows.column("header")[at].as_py(), bodies[at].as_py())
                assert packet.batch is not None
                found.setdefault(packet.entry, []).append(packet.batch.rows)
            elif kind == FILE:
                written.setdefault((head["e"], head["n"]), []).append(head["f"])
            elif kind is not None:
                around.append(at)
        if around:
            self._loop.write(epoch, rows.take(pa.array(around)))
        for (query, number), files in self._directories():
            files.put_in_place(epoch, written.get((query, number), ()))
        for query, sinks in self._served.items():
            self._hand_over(epoch, query, sinks, found.get(query, []))
        self.last = (epoch, bool(around))

    def _directories(self) -> Iterator[tuple[tuple[str, int], AnswerFiles]]:
        for query, targets in self._files.items():
            yield from (((query, number), files) for number, files in enumerate(targets))

    def _hand_over(self, epoch: int, query: str, sinks: Sequence[DriverSink], batches: Sequence[pa.RecordBatch]) -> None:
        if sinks:
            schema = self._pipeline.job.outputs[query].arrow
            table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
            for sink in sinks:
                sink.write(epoch, table)
