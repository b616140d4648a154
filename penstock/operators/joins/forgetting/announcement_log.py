"""Announcements as segments of state: a micro-batch writes what it has announced, not all that is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.metadata.announcements import Announcements
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.operators.segments import SegmentLog

_TEXTS = pa.schema({"text": pa.large_string()})
#: What was noted may be so many values more than twice what is known: ranges grow together, and then few are left of many.
_SPARE = 1024


class AnnouncementLog:
    """Announcements, and what has been added to them since the last snapshot, and before.

    Parameters
    ----------
    name
        Distinguishes the logs of one operator in its snapshot.
    schema
        Of the attributes that are spoken about.

    Examples
    --------
    >>> from penstock.model.value_sets import constant
    >>> schema = Schema.of(item=pa.int64())
    >>> log = AnnouncementLog("closed", schema)
    >>> [log.add_beyond(Punctuation.of(("item",), item=constant(item))) is not None for item in (1, 5, 1)]
    [True, True, False]
    >>> known = AnnouncementLog("closed", schema).restore(*log.snapshot())
    >>> known.contains({"item": 5}), known.contains({"item": 2})
    (True, False)
    """

    def __init__(self, name: str, schema: Schema) -> None:
        self.schema, self.known = schema, Announcements(schema)
        self._log = SegmentLog(name)
        self._fresh: list[Punctuation] = []
        #: Values that were noted since the last snapshot, and before, as far as the log still has them.
        self._fresh_values = self._noted = 0
        self._has_shrunk = False

    def add_beyond(self, mark: Punctuation) -> Punctuation | None:
        """Remember what is new of a punctuation; returns it."""
        fresh = self.known.beyond(mark)
        if fresh is None or fresh.is_empty:
            return None
        self.known.add(fresh)
        self.note(fresh)
        return fresh

    def note(self, mark: Punctuation) -> None:
        """Something new was added to what is known."""
        self._fresh.append(mark)
        self._fresh_values += max((pattern.num_values for pattern in mark.patterns if pattern.has_values), default=1)

    def prune(self, gone: Announcements) -> None:
        """Forget what others cover; everything is written anew."""
        self.known.prune(gone)
        self._has_shrunk = True

    def snapshot(self) -> tuple[dict[str, Any], Mapping[str, pa.RecordBatch]]:
        """The record and the segments."""
        entries = self.known.entries
        # Values that lie close together become few ranges: then all of them are less than what is new.
        is_less = self._fresh_values > entries or self._noted + self._fresh_values > 2 * entries + _SPARE
        if self._has_shrunk or is_less:
            self._log.clear()
            self._add([json.dumps(self.known.to_json(), separators=(",", ":"))])
            self._noted = entries
        elif self._fresh:
            self._add([json.dumps([mark.to_json()], separators=(",", ":")) for mark in self._fresh])
            self._noted += self._fresh_values
        self._fresh, self._fresh_values, self._has_shrunk = [], 0, False
        return {"next": self._log.next, "noted": self._noted}, self._log.stored()

    def _add(self, texts: Sequence[str]) -> None:
        """A new segment, together with those before it that are not much larger: so there are few, and each is rewritten seldom."""
        rows = pa.RecordBatch.from_arrays([pa.array(texts, pa.large_string())], schema=_TEXTS)
        for number in reversed(list(self._log)):
            if self._log[number].nbytes > 2 * rows.nbytes:
                break
            rows = pa.concat_batches([self._log[number], rows])
            self._log.drop(number)
        self._log.add(rows)

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> Announcements:
        """Take a snapshot over; what was known."""
        self._log.reload(meta["next"], segments)
        self._noted, self._fresh, self._fresh_values, self._has_shrunk = meta["noted"], [], 0, False
        self.known = Announcements(self.schema)
        for number in self._log:
            for text in self._log[number].column(0).to_pylist():
                self.known.add_json(json.loads(text))
        return self.known
