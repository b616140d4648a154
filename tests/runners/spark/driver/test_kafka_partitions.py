"""Which partitions Kafka has, as Spark's progress tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import PARTITIONS
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.kafka_partitions import KafkaPartitions, asked_streams
from penstock.runners.spark.driver.reports import BatchReport

COLUMNS = "(k BIGINT, p INT, ts BIGINT, WATERMARK ts DELAY OF 0)"
TEXT = f"""
CREATE STREAM bid {COLUMNS} USING kafka OPTIONS (subscribe 'bids, offers') PARTITIONED BY p;
CREATE STREAM log {COLUMNS} USING kafka OPTIONS (subscribePattern 'log-.*') PARTITIONED BY p;
CREATE STREAM some {COLUMNS} USING kafka OPTIONS (assign '{{"bids": [1, 3]}}') PARTITIONED BY p;
CREATE STREAM sure {COLUMNS} USING kafka OPTIONS (subscribe 'bids') PARTITIONED BY p INTO 7 PARTITIONS;
CREATE STREAM one {COLUMNS} USING kafka OPTIONS (subscribe 'bids');
CREATE STREAM unread {COLUMNS} USING kafka OPTIONS (subscribe 'bids') PARTITIONED BY p;
""" + "".join(f"CREATE CQ of_{name} AS SELECT k FROM {name};\n" for name in ("bid", "log", "some", "sure", "one"))


def report(epoch: int, *offsets: Any) -> BatchReport:
    return BatchReport(epoch, 0, 0, spark={"sources": [{"endOffset": offset} for offset in offsets]})


def test_only_streams_whose_partitions_nobody_declares_are_watched() -> None:
    assert list(asked_streams(build_job(parse_application(TEXT), 2))) == ["bid", "log", "some"]


def test_new_partitions_of_a_topic_become_decisions_once(tmp_path: Path) -> None:
    control = ControlLog(tmp_path)
    streams = asked_streams(build_job(parse_application(TEXT), 2))
    watch = KafkaPartitions(streams, control, lambda: None)
    watch.hear(report(0, '{"bids": {"0": 5, "1": 0}, "offers": {"0": 1}}', '{"decisions": 3, "loop": -1}', None))
    watch.hear(report(1, '{"bids": {"0": 5, "1": 0}, "offers": {"0": 1}}'))
    watch.hear(report(2, {"bids": {"0": 9, "1": 4}, "offers": {"0": 1, "1": 0, "2": 0}}, {"log-a": {"0": 1, "1": 1, "2": 1}}))
    told = [(detail["stream"], detail["count"]) for kind, detail in control.read(0, len(control)) if kind == PARTITIONS]
    assert told == [("bid", 2), ("bid", 3), ("log", 3)]
    again = KafkaPartitions(streams, control, lambda: None)
    again.hear(report(3, '{"bids": {"0": 9, "1": 4}, "offers": {"0": 1, "1": 0, "2": 0}}'))
    assert len(control) == 3


def test_some_partitions_say_nothing_about_the_others(tmp_path: Path) -> None:
    control = ControlLog(tmp_path)
    streams = {"some": parse_application(TEXT).stream("some")}
    KafkaPartitions(streams, control, lambda: None).hear(report(0, '{"bids": {"1": 5, "3": 0}}'))
    assert len(control) == 0
