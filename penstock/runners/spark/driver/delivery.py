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
from penstock.runners.spark.checkpoints.editions import Editions
from penstock.runners.spark.data_path.answer_files import AnswerFiles
from penstock.runners.spark.data_path.failures import in_short
from penstock.runners.spark.data_path.local_properties import TIME_PROPERTY, decisions_property, edition_property
from penstock.runners.spark.data_path.loop import NOTHING, Loop
from penstock.runners.spark.data_path.pipeline import answers, direct_answers
from penstock.runners.spark.data_path.processor import FILE
from penstock.runners.spark.data_path.sinks import DriverSink, ShardSink, SparkSink
from penstock.runners.spark.driver.deployment import Deployment, Deployments
from penstock.runners.spark.driver.losses import Losses


class Delivery:
    """Called by Spark with every micro-batch: binds it to the edition and the decisions it belongs to, computes it, and hands
    the answers over.

    Parameters
    ----------
    editions
        Tells what a micro-batch belongs to.
    base
        The edition with which the run begins; tasks know that one by themselves.
    losses
        Tells what a micro-batch leaves out.
    """

    def __init__(self, editions: Editions, deployments: Deployments, base: Deployment, loop: Loop, losses: Losses) -> None:
        self._editions = editions
        self._losses = losses
        self._deployments = deployments
        self._base = base
        self._loop = loop
        #: Local properties as they were last set.
        self._properties: dict[str, str] = {}
        #: The edition of the newest micro-batch.
        self.current = base
        #: The newest micro-batch that was delivered, and whether something went round from it.
        self.last: tuple[int, bool] = (NOTHING, False)

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        try:
            self._bind(frame, epoch)
            self._deliver(frame, epoch)
        except (Py4JError, PySparkException) as failure:
            raise in_short(failure) from None

    def _bind(self, frame: DataFrame, epoch: int) -> None:
        """This runs in the thread of Java that will start the job, so its tasks get what is set here."""
        context, run = self._editions.at(epoch), self._base.host.run
        self.current = self._deployments.of(context.edition)
        is_base = self.current.edition.number == self._base.edition.number
        decided = context.decisions.about(self.current.early_filters).leaving_out(self._losses.of(epoch, context))
        properties = {
            edition_property(run): "" if is_base else self.current.encoded_parts,
            decisions_property(run): decided.text,
            TIME_PROPERTY: str(context.planned_ms),
        }
        for name, text in properties.items():
            if self._properties.get(name) != text:
                frame.sparkSession.sparkContext.setLocalProperty(name, text)
        self._properties = properties

    def _deliver(self, frame: DataFrame, epoch: int) -> None:
        framed = {query: [sink for sink in mine if isinstance(sink, SparkSink)] for query, mine in self.current.sinks.items()}
        direct = self._base.direct
        if direct:
            framed[direct][0].write_frame(epoch, direct_answers(frame))
            self.last = (epoch, False)
        elif any(framed.values()):
            self._keep(frame, epoch, framed)
        else:
            self._serve(epoch, frame.toArrow())

    def _keep(self, frame: DataFrame, epoch: int, framed: Mapping[str, Sequence[SparkSink]]) -> None:
        """With destinations that only Spark can write the batch is kept, because it is read more than once."""
        kept = frame.persist()
        try:
            served = self._served()
            only = [query for query, sinks in framed.items() if sinks and not served[query]]
            # A header without `e` is a report.
            owner = f.coalesce(
                f.when(f.get_json_object("header", "$.k") == "output", f.get_json_object("header", "$.e")), f.lit("")
            )
            self._serve(epoch, kept.where(~owner.isin(only)).toArrow())
            for query, sinks in framed.items():
                for sink in sinks:
                    sink.write_frame(epoch, answers(self.current.job, kept, query))
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
        for query, sinks in self._served().items():
            self._hand_over(epoch, query, sinks, found.get(query, []))
        self.last = (epoch, bool(around))

    def _served(self) -> dict[str, list[DriverSink]]:
        """Sinks of the driver itself."""
        return {
            query: [sink for sink in mine if not isinstance(sink, SparkSink | ShardSink)]
            for query, mine in self.current.sinks.items()
        }

    def _directories(self) -> Iterator[tuple[tuple[str, int], AnswerFiles]]:
        for query, targets in self.current.host.files.items():
            yield from (((query, number), files) for number, files in enumerate(targets))

    def _hand_over(self, epoch: int, query: str, sinks: Sequence[DriverSink], batches: Sequence[pa.RecordBatch]) -> None:
        if sinks:
            schema = self.current.job.outputs[query].arrow
            table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
            for sink in sinks:
                sink.write(epoch, table)
