"""Who holds time back: a source partition that others of its stream wait for, or a stream that others of a query wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.lowering.jobs import Job
from penstock.model.elements import FOREVER, NEVER

#: What moves again within so many seconds is not worth a sentence.
_NOTICED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Stall:
    """Something that has stood still for some time, while what waits for it has gone on.

    Parameters
    ----------
    partition
        The source partition of the stream; None: the stream as a whole, for which `waiting` waits.
    promised
        How far it has come, for people; "" if it has brought nothing yet.

    Examples
    --------
    >>> print(Stall("bid", 2, 40.2, "12:00:03", "bid"))
    bid is held back by partition 2 of bid since 40 s (it has come to 12:00:03)
    >>> print(Stall("auction", None, 7.0, "", "hot_items"))
    hot_items is held back by auction since 7 s (it has brought nothing yet)
    """

    stream: str
    partition: int | None
    seconds: float
    promised: str
    waiting: str

    def __str__(self) -> str:
        who = self.stream if self.partition is None else f"partition {self.partition} of {self.stream}"
        how = f"it has come to {self.promised}" if self.promised else "it has brought nothing yet"
        return f"{self.waiting} is held back by {who} since {self.seconds:.0f} s ({how})"


@dataclass(frozen=True, slots=True)
class _Progress:
    """Who is waited for by whom, how far it has come, and how far those have that wait."""

    stream: str
    partition: int | None
    waiting: str
    promise: int
    furthest: int


@dataclass(frozen=True, slots=True)
class _Since:
    promise: int
    furthest: int
    seconds: float


class StallDetector:
    """Hears of every micro-batch how far streams and partitions have come, and remembers since when one stands still."""

    def __init__(self, job: Job) -> None:
        sources = [source for stage in job.stages for source in stage.sources]
        self._streams = {source.route.entry: source.prefix.stream.name for source in sources}
        self._is_clock = {source.prefix.stream.name: source.prefix.stream.has_clock_time for source in sources}
        self._readers = _readers(job, self._streams)
        self._since: dict[tuple[str, int | None, str], _Since] = {}

    def hear(
        self, entries: Mapping[str, Mapping[str, int]], holding: Mapping[str, Mapping[str, int]], seconds: float
    ) -> tuple[Stall, ...]:
        """Who holds something back for a while now.

        Parameters
        ----------
        entries
            Counters of entries, as reports have them.
        holding
            For entries the partition that others wait for.
        seconds
            When the report was made, by any clock that goes on.
        """
        positions = {(found.stream, found.partition, found.waiting): found for found in self._progress(entries, holding)}
        known, self._since = self._since, {}
        held = []
        for key, progress in positions.items():
            before = known.get(key)
            if before is None or before.promise != progress.promise:
                before = _Since(progress.promise, progress.furthest, seconds)
            self._since[key] = before
            lasted = seconds - before.seconds
            # Where everybody stands still nobody is to blame.
            if lasted >= _NOTICED_SECONDS and progress.furthest > before.furthest:
                held.append(Stall(progress.stream, progress.partition, lasted, self._text(progress), progress.waiting))
        return tuple(held)

    def _progress(self, entries: Mapping[str, Mapping[str, int]], holding: Mapping[str, Mapping[str, int]]) -> Iterator[_Progress]:
        for entry, found in holding.items():
            name = self._streams.get(entry)
            if name is None:
                continue  # its query is gone
            yield _Progress(name, found["partition"], name, found["promise"], found["furthest"])
        frontiers = {entry: counters["frontier"] for entry, counters in entries.items() if "frontier" in counters}
        for query, mine in self._readers.items():
            reached = {self._streams[entry]: frontiers[entry] for entry in mine if entry in frontiers}
            slowest = min(reached, key=lambda name: reached[name], default="")
            furthest = max(reached.values(), default=NEVER)
            if slowest and reached[slowest] < furthest < FOREVER:
                yield _Progress(slowest, None, query, reached[slowest], furthest)

    def _text(self, progress: _Progress) -> str:
        if progress.promise == NEVER:
            return ""
        if not self._is_clock[progress.stream]:
            return str(progress.promise)
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=progress.promise)).isoformat(" ", "seconds")


def _readers(job: Job, streams: Mapping[str, Any]) -> dict[str, list[str]]:
    """The entries that each query with several streams reads, by the operators it shares with nobody or with others."""
    found: dict[str, list[str]] = {}
    for stage in job.stages:
        for node in stage.graph.nodes:
            for entry in (source for source, _ in node.sources if source in streams):
                for query in sorted(node.queries):
                    found.setdefault(query, []).append(entry)
    return {query: mine for query, mine in found.items() if len({streams[entry] for entry in mine}) > 1}
