"""How many partitions the topics of a stream have: Kafka is asked before a run begins, and Spark's progress tells of new ones.

Without it a partition that brings nothing would not be waited for, and its first rows would come too late for what others promised.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from penstock.lowering.jobs import Job
from penstock.model.declarations import StreamDeclaration
from penstock.model.elements import PARTITIONS
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport

_PREFIX = "kafka."
#: How long a broker may take to answer; Spark itself complains about one that does not.
_PATIENCE = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}


def asked_streams(job: Job) -> dict[str, StreamDeclaration]:
    """Streams that are read and of which only Kafka knows how many partitions they have."""
    read = {source.prefix.stream.name: source.prefix.stream for stage in job.stages for source in stage.sources}
    return {
        name: stream
        for name, stream in read.items()
        if stream.source.format.lower() == "kafka" and stream.partition_column and not stream.known_partitions
    }


class KafkaPartitions(Listener):
    """Writes `partitions` decisions: at the start what brokers say, then what the offsets of micro-batches show.

    Parameters
    ----------
    streams
        Those to be watched, by name.
    report
        The newest micro-batch, or None.
    """

    name = "penstock-kafka"

    def __init__(
        self, streams: Mapping[str, StreamDeclaration], control: ControlLog, report: Callable[[], BatchReport | None]
    ) -> None:
        super().__init__(report)
        self._streams = streams
        self._control = control
        self._known = decided_partitions(control)

    def hear(self, report: BatchReport) -> None:
        """Learn the partitions of topics from what a micro-batch has read up to."""
        offsets = [_offsets(source.get("endOffset")) for source in report.spark.get("sources", ())]
        for name, stream in self._streams.items():
            mine = [parts for found in offsets for topic, parts in found.items() if _reads(stream, topic)]
            self._tell(name, max(map(_count, mine), default=0))

    def _tell(self, stream: str, count: int) -> None:
        if count > self._known.get(stream, 0):
            self._known[stream] = count
            self._control.append(PARTITIONS, {"stream": stream, "count": count})


def decided_partitions(control: ControlLog) -> dict[str, int]:
    """Partitions that the log already tells, by stream."""
    found: dict[str, int] = {}
    for kind, detail in control.read(0, len(control)):
        if kind == PARTITIONS:
            found[detail["stream"]] = max(found.get(detail["stream"], 0), detail["count"])
    return found


def ask_partitions(spark: SparkSession, streams: Mapping[str, StreamDeclaration], control: ControlLog) -> None:
    """Decide before the first micro-batch which partitions are waited for; who cannot be asked is left to the rows."""
    known = decided_partitions(control)
    for name, stream in streams.items():
        try:
            count = _asked(spark, stream)
        except Exception as failure:  # no connector, no broker, no right to ask: reading will say what is wrong, if it is
            text = f"the topics of stream '{name}' could not be asked for their partitions ({_reason(failure)})"
            warnings.warn(f"{text}; those that rows show are waited for, or declare INTO n PARTITIONS", stacklevel=2)
            continue
        if count > known.get(name, 0):
            control.append(PARTITIONS, {"stream": name, "count": count})


def _reason(failure: Exception) -> str:
    """The cause in one line: the innermost one where Java tells several.

    Examples
    --------
    >>> _reason(Exception("An error occurred\\n: a.Wrapped: b.Timeout: no node\\n\\tat x\\nCaused by: b.Timeout: no node"))
    'b.Timeout: no node'
    """
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return [lines[0], *causes][-1].strip()


def _asked(spark: SparkSession, stream: StreamDeclaration) -> int:
    """The most partitions of any topic of the stream."""
    options = {name.lower(): text for name, text in stream.source.options.items()}
    if "assign" in options:
        return max(map(_count, json.loads(options["assign"]).values()), default=0)
    jvm: Any = spark._jvm
    settings = jvm.java.util.Properties()
    for name, text in {**_PATIENCE, **_settings(stream.source.options)}.items():
        settings.setProperty(name, text)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        names = _topics(options) or [name for name in admin.listTopics().names().get() if _reads(stream, name)]
        wanted = jvm.java.util.ArrayList()
        for name in names:
            wanted.add(name)
        described = admin.describeTopics(wanted).allTopicNames().get()
        return max((described[name].partitions().size() for name in names), default=0)
    finally:
        admin.close()


def _settings(options: Mapping[str, str]) -> dict[str, str]:
    """What Spark hands on to Kafka."""
    return {name[len(_PREFIX) :]: text for name, text in options.items() if name.lower().startswith(_PREFIX)}


def _topics(options: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in options.get("subscribe", "").split(",") if name.strip()]


def _reads(stream: StreamDeclaration, topic: str) -> bool:
    """Whether all partitions of a topic are the stream's, also new ones."""
    options = {name.lower(): text for name, text in stream.source.options.items()}
    if "subscribepattern" in options:
        return re.fullmatch(options["subscribepattern"], topic) is not None
    return topic in _topics(options)


def _offsets(text: Any) -> dict[str, list[int]]:
    """Partitions by topic in an offset of Kafka's, as Spark's progress shows it; nothing for other sources.

    Examples
    --------
    >>> _offsets('{"bids": {"0": 17, "1": 0}}'), _offsets('{"tick": 7}'), _offsets(None)
    ({'bids': [0, 1]}, {}, {})
    """
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    if not isinstance(found, Mapping):
        return {}
    topics = {topic: parts for topic, parts in found.items() if isinstance(parts, Mapping)}
    return {topic: [int(part) for part in parts] for topic, parts in topics.items() if all(part.isdigit() for part in parts)}


def _count(partitions: Sequence[int]) -> int:
    """Partitions 0 … n - 1, if it is these; some of them alone say nothing about the others."""
    return len(partitions) if sorted(partitions) == list(range(len(partitions))) else 0
