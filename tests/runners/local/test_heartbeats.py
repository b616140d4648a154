"""Heartbeats from outside are checked before a shard hears of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.apps.tuning import send_heartbeat
from penstock.errors import InvalidConfiguration, UserError
from penstock.language.application import parse_application
from penstock.lowering.heartbeats import heartbeat
from penstock.lowering.stages import build_job
from penstock.lowering.tuning import check_decision
from penstock.model.elements import Control
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint

TEXT = """
CREATE STREAM s (k BIGINT, part INT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 1 SECOND) PARTITIONED BY part;
CREATE STREAM n (k BIGINT, at BIGINT, WATERMARK at DELAY OF 1);
CREATE STREAM unread (k BIGINT);
CREATE CQ q AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k;
CREATE CQ r AS SELECT k, COUNT(*) AS n FROM n [RANGE 10] GROUP BY k;
"""
JOB = build_job(parse_application(TEXT), 2)


@pytest.mark.parametrize(
    ("stream", "moment", "ts"),
    [
        ("s", "1970-01-01T00:00:10Z", 10_000_000),
        ("S", "1970-01-01T01:00:10+01:00", 10_000_000),
        ("s", "1970-01-01 00:00:10.5", 10_500_000),
        ("s", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000),
        ("s", 7, 7),
        ("n", "42", 42),
        ("n", -42, -42),
    ],
)
def test_times_are_read_in_the_unit_of_the_stream(stream: str, moment: Any, ts: int) -> None:
    assert heartbeat(JOB, stream, moment).detail == {"stream": stream.lower(), "ts": ts, "partition": None}


@pytest.mark.parametrize(
    ("stream", "moment", "partition", "message"),
    [
        ("t", "1970-01-01", None, "no query reads a stream 't'"),
        ("unread", "1970-01-01", None, "no query reads a stream 'unread'"),
        ("s", "yesterday", None, "'yesterday' is no time; write ISO text"),
        ("s", 1 << 62, None, "out of range"),
        ("n", "1970-01-01", None, "no whole number"),
        ("n", 1 << 63, None, "out of range"),
        ("s", 0, 65_536, "0 to 65,535"),
        ("n", 0, 1, "declares no PARTITIONED BY"),
    ],
)
def test_what_cannot_be_meant_is_refused(stream: str, moment: Any, partition: int | None, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        heartbeat(JOB, stream, moment, partition)


@pytest.mark.parametrize(
    ("kind", "detail", "message"),
    [
        ("clock", {"us": 5}, "only the host decides"),
        ("heartbeat", {}, "is no heartbeat"),
        ("heartbeat", {"stream": "s", "ts": "1970-01-01"}, "is no heartbeat"),
        ("heartbeat", {"stream": "s", "ts": 5, "partition": "all"}, "is no heartbeat"),
        ("heartbeat", {"stream": "t", "ts": 5}, "no query reads"),
        ("partitions", {"stream": "s", "count": 0}, "no number of its partitions"),
        ("partitions", {"stream": "n", "count": 2}, "no number of its partitions"),
    ],
)
def test_a_decision_that_no_shard_could_obey_is_never_written(kind: str, detail: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        check_decision(JOB, Control(0, kind, detail))


def test_legal_decisions_pass() -> None:
    for kind, detail in (("heartbeat", {"stream": "S", "ts": 5}), ("partitions", {"stream": "s", "count": 3}), ("continue", {})):
        check_decision(JOB, Control(0, kind, detail))


def test_the_command_writes_a_decision_into_the_log_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text(TEXT)
    place = Checkpoint(tmp_path / "checkpoint")
    with pytest.raises(UserError, match="checkpoint of no run"):
        send_heartbeat(str(file), "s", "1970-01-01T00:00:10Z", 2, place.directory)
    place.fixed_at_first_start("shards", 2)
    place.fixed_at_first_start("now_us", 0)
    place.settle_edition(Edition.first("app", TEXT, 0))
    assert send_heartbeat(str(file), "s", "1970-01-01T00:00:10Z", 2, place.directory) == 0
    assert place.control.read(0, 1) == [("heartbeat", {"stream": "s", "ts": 10_000_000, "partition": 2})]
