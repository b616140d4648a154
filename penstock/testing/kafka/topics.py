"""Topics of a broker, filled and read through Spark and the client of Kafka that its connector brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.testing.damage.messages import Message, frame

_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"


class Topic:
    """One topic.

    Parameters
    ----------
    spark
        A session that has the connector.
    servers
        Address of the broker.
    """

    def __init__(self, spark: Any, servers: str, name: str) -> None:
        self._spark = spark
        self._jvm = spark._jvm
        self._servers = servers
        self.name = name

    def create(self, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        kinds = self._jvm.org.apache.kafka.clients.admin
        topic = kinds.NewTopic(self.name, partitions, self._jvm.java.lang.Short.parseShort("1"))
        topic.configs({name: str(value) for name, value in (settings or {}).items()})
        self._administer(lambda admin: admin.createTopics(self._jvm.java.util.Collections.singletonList(topic)).all().get())

    def grow(self, partitions: int) -> None:
        """More partitions than before."""
        wanted = {self.name: self._jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(partitions)}
        self._administer(lambda admin: admin.createPartitions(wanted).all().get())

    def send(self, sent: Sequence[Message], folder: Path) -> None:
        """Many messages, by Spark; each partition gets its own in their order. Their times are the broker's."""
        file = folder / f"{self.name}.parquet"
        pq.write_table(frame(list(sent)), file)
        writer = self._spark.read.parquet(str(file)).coalesce(1).write.format("kafka")
        writer.option("kafka.bootstrap.servers", self._servers).option("topic", self.name).save()
        file.unlink()

    def send_together(self, sent: Sequence[Message], is_committed: bool = True) -> None:
        """Few messages as one transaction, with their times; one that is not committed stays in the log, for nobody."""
        producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(
            self._settings(
                {"transactional.id": f"penstock-{self.name}", "key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}
            )
        )
        try:
            producer.initTransactions()
            producer.beginTransaction()
            for message in sent:
                producer.send(self._record(message))
            if is_committed:
                producer.commitTransaction()
            else:
                producer.flush()
                producer.abortTransaction()
        finally:
            producer.close()

    def read(self, folder: Path) -> pa.Table:
        """What Spark alone finds in the topic: partition, offset and value."""
        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers)
        found = reader.option("subscribe", self.name).option("kafka.isolation.level", "read_committed").load()
        path = folder / f"{self.name}-read"
        found.select("partition", "offset", "value").write.mode("overwrite").parquet(str(path))
        return pq.read_table(path)

    def _record(self, message: Message) -> Any:
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord(
            self.name, message.partition, message.time_ms, message.key, message.value
        )
        for name, value in message.headers:
            record.headers().add(name, value)
        return record

    def _settings(self, more: Mapping[str, str] | None = None) -> Any:
        settings = self._jvm.java.util.Properties()
        for name, value in {"bootstrap.servers": self._servers, **(more or {})}.items():
            settings.setProperty(name, value)
        return settings

    def _administer(self, task: Any) -> None:
        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._settings())
        try:
            task(admin)
        finally:
            admin.close()
