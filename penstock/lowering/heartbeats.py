"""Heartbeats that a user or a program sends to a running application, checked before a shard hears of them."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.errors import InvalidConfiguration, suggestion
from penstock.kernel.damage import CALENDAR
from penstock.lowering.jobs import Job
from penstock.model.declarations import MOST_PARTITIONS, StreamDeclaration
from penstock.model.elements import CLOCK, HEARTBEAT, PARTITIONS, Control

#: Integers beyond leave no room for windows.
_MOST_TIME = 1 << 62


def heartbeat(job: Job, stream: str, moment: datetime | int | str, partition: int | None = None) -> Control:
    """A decision that says: nothing older than `moment` comes from a stream, or from one partition of it.

    Raises
    ------
    InvalidConfiguration
        When no query reads such a stream, or the time or the partition cannot be one of it.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> from penstock.lowering.stages import build_job
    >>> catalog = parse_application('''
    ...   CREATE STREAM s (k BIGINT, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 1 MINUTE);
    ...   CREATE CQ q AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k''')
    >>> heartbeat(build_job(catalog, 2), "S", "1970-01-01T00:01:00Z").detail
    {'stream': 's', 'ts': 60000000, 'partition': None}
    """
    declared = _declared(job, stream)
    if partition is not None and not (0 <= partition < (MOST_PARTITIONS if declared.partition_column else 1)):
        limit = f"0 to {MOST_PARTITIONS - 1:,}" if declared.partition_column else "it has one, 0: it declares no PARTITIONED BY"
        raise InvalidConfiguration(f"there is no source partition {partition}; {limit}", f"stream '{declared.name}'")
    ts = _clock_time(declared, moment) if declared.has_clock_time else _number(declared, moment)
    return Control(0, HEARTBEAT, {"stream": declared.name, "ts": ts, "partition": partition})


def check_time(job: Job, decision: Control) -> None:
    """Refuse a decision about time or partitions that entries could not obey; other kinds are not looked at."""
    detail = decision.detail
    if decision.kind == CLOCK:
        raise InvalidConfiguration("what time it is only the host decides; send a heartbeat instead", "clock")
    if decision.kind == HEARTBEAT:
        stream, ts, partition = (detail.get(name) for name in ("stream", "ts", "partition"))
        if not isinstance(stream, str) or not isinstance(ts, int) or not isinstance(partition, int | None):
            example = '{"stream": "bid", "ts": 1767225600000000}'
            raise InvalidConfiguration(f"{dict(detail)} is no heartbeat; write for example {example}", "heartbeat")
        heartbeat(job, stream, ts, partition)
    if decision.kind == PARTITIONS:
        declared, count = _declared(job, str(detail.get("stream"))), detail.get("count")
        if not isinstance(count, int) or not 1 <= count <= (MOST_PARTITIONS if declared.partition_column else 1):
            raise InvalidConfiguration(f"{count} is no number of its partitions", f"stream '{declared.name}'")


def _declared(job: Job, stream: str) -> StreamDeclaration:
    streams = {source.prefix.stream.name: source.prefix.stream for stage in job.stages for source in stage.sources}
    for name, declared in streams.items():
        if name.lower() == stream.lower():
            return declared
    raise InvalidConfiguration(f"no query reads a stream '{stream}'; {suggestion(stream, list(streams))}", "heartbeat")


def _clock_time(stream: StreamDeclaration, moment: datetime | int | str) -> int:
    """Microseconds since 1970; UTC where no zone is given."""
    found = moment
    if isinstance(found, str):
        try:
            found = datetime.fromisoformat(found)
        except ValueError:
            raise InvalidConfiguration(
                f"'{moment}' is no time; write ISO text such as 2026-01-31T12:00:00Z", f"heartbeat of stream '{stream.name}'"
            ) from None
    if isinstance(found, datetime):
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        since = aware - datetime(1970, 1, 1, tzinfo=UTC)
        found = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    low, high = CALENDAR
    return _within(stream, found, low, high)


def _number(stream: StreamDeclaration, moment: datetime | int | str) -> int:
    try:
        found = moment if isinstance(moment, int) else int(str(moment))
    except ValueError:
        raise InvalidConfiguration(
            f"'{moment}' is no whole number, and the time of the stream is one", f"heartbeat of stream '{stream.name}'"
        ) from None
    return _within(stream, found, -_MOST_TIME, _MOST_TIME)


def _within(stream: StreamDeclaration, ts: int, low: int, high: int) -> int:
    if not low <= ts <= high:
        raise InvalidConfiguration(
            f"{ts} is out of range; no row of the stream can have that time", f"heartbeat of stream '{stream.name}'"
        )
    return ts
