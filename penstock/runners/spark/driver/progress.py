"""What Spark tells of a query's micro-batches, read once each: turning it into values takes much longer than asking what is new."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeAlias

from penstock.runners.spark.driver.reports import BatchReport, read_report

#: Tells one message from the others: the number of the micro-batch and when it began.
_Name: TypeAlias = tuple[int, str]
#: As many messages as Spark keeps.
_KEPT = 100


class Progress:
    """Reads the messages of one Spark query; any thread may ask."""

    def __init__(self, query: Any) -> None:
        self._query = query._jsq
        self._lock = threading.Lock()
        self._seen: deque[tuple[_Name, BatchReport | None]] = deque(maxlen=_KEPT)
        #: The newest message that somebody has asked for by itself; those before it may not have been read.
        self._last: tuple[_Name, Mapping[str, Any], BatchReport | None] | None = None

    @property
    def last(self) -> Mapping[str, Any] | None:
        """The newest message."""
        newest = self._newest()
        return None if newest is None else newest[0]

    @property
    def last_report(self) -> BatchReport | None:
        """What the shards reported with the newest message, if they did anything."""
        newest = self._newest()
        return None if newest is None else newest[1]

    def reports(self) -> list[BatchReport]:
        """Of all micro-batches that Spark remembers and in which shards did anything."""
        with self._lock:
            known = {name for name, _ in self._seen}
            fresh = []
            for message in reversed(self._query.recentProgress()):
                if _name(message) in known:
                    break
                fresh.append(message)
            for message in reversed(fresh):
                self._read(message)
            return [report for _, report in self._seen if report is not None]

    def _newest(self) -> tuple[Mapping[str, Any], BatchReport | None] | None:
        message = self._query.lastProgress()
        if message is None:
            return None
        with self._lock:
            name = _name(message)
            if self._last is None or self._last[0] != name:
                values = json.loads(message.json())
                self._last = name, values, read_report(values)
            return self._last[1:]

    def _read(self, message: Any) -> None:
        name = _name(message)
        if self._last is not None and self._last[0] == name:
            self._seen.append((name, self._last[2]))
        else:
            self._seen.append((name, read_report(json.loads(message.json()))))


def _name(message: Any) -> _Name:
    return int(message.batchId()), str(message.timestamp())
