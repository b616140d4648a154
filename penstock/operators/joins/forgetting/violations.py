"""Rows of a window join that contradict a punctuation of their own input, and how long such punctuations are remembered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidPlan, PunctuationViolated
from penstock.metadata.announcements import Announcements
from penstock.metadata.closed_set import ClosedSet
from penstock.model.batch import Batch
from penstock.model.declarations import RowPolicy
from penstock.model.elements import Quarantined
from penstock.model.masks import Mask
from penstock.operators.joins.forgetting.announcement_log import AnnouncementLog

#: Values and intervals remembered unless told otherwise. A micro-batch stores those that are new; what more of them cost is
#: memory, and a row that is looked up among texts.
MOST_MARKERS = 100_000


class Judged(NamedTuple):
    """Rows that keep the promises of their input, rows that break one and are used nevertheless, and what is refused."""

    good: Batch
    trusted: Batch
    refused: tuple[Quarantined, ...] = ()


def judge(policy: RowPolicy, port: int, batch: Batch, wrong: Mask) -> Judged:
    """What becomes of the rows in `wrong`, which match a punctuation of their input that came before them.

    `error` raises, so that nothing of the batch is used; `quarantine` refuses the rows; `trust` lets them join what is
    stored, without being stored.
    """
    if not wrong.any():
        return Judged(batch, batch.slice(0, 0))
    breaking, good = batch.filter(wrong), batch.filter(~wrong)
    if policy is RowPolicy.TRUST:
        return Judged(good, breaking)
    first = breaking.rows.slice(0, 1).to_pylist()[0]
    text = f"{breaking.num_rows} rows of input {port} match a punctuation that came before them, first {first}"
    if policy is RowPolicy.ERROR:
        advice = "repair the source, or choose to quarantine or trust such rows"
        raise PunctuationViolated(f"{text}; {advice}", f"join, position {int(breaking.pos[0])}")
    return Judged(good, breaking.slice(0, 0), (Quarantined(breaking, "punctuation-violated", text),))


def closed_mask(closed: ClosedSet, columns: Sequence[pa.Array]) -> Mask:
    """Which rows have a closed key."""
    if not len(columns[0]) or not (len(closed) or closed.has_ended):
        return np.zeros(len(columns[0]), np.bool_)
    return closed.contains_array(columns)


class MarkerLimit:
    """Bounds the values a join remembers as closed, by forgetting the oldest.

    When half of the limit is reached, everything known is written down; when the limit is passed, that part is forgotten
    and what is left is written down. So the newest values stay, at least half of the limit unless more come at once.
    Forgetting is safe: rows of a forgotten value are joined and stored as if nothing had been said about it, and a
    punctuation that is repeated may be passed on again.

    Parameters
    ----------
    most
        Most values and intervals remembered.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 6.6: there, markers stay for ever.

    Examples
    --------
    >>> from penstock.model.value_sets import constant
    >>> from penstock.model.punctuation import Punctuation
    >>> from penstock.model.schema import Schema
    >>> schema, limit = Schema.of(item=pa.int64()), MarkerLimit(4)
    >>> log = AnnouncementLog("closed", schema)
    >>> for item in (10, 20, 30, 40, 50):
    ...     is_new = log.add_beyond(Punctuation.of(("item",), item=constant(item)))
    ...     limit.bound([log])
    >>> [log.known.contains({"item": item}) for item in (10, 20, 30, 40, 50)], limit.evicted
    ([False, False, False, True, True], 3)
    """

    def __init__(self, most: int) -> None:
        if most < 2:
            raise InvalidPlan(f"max_drop_markers is {most}; a join must remember at least 2 values")
        self.most = most
        self.evicted = 0
        self._old: list[Announcements] = []
        #: The same as a segment of state, and how often it has changed.
        self._stored: pa.RecordBatch | None = None
        self._version = 0

    def bound(self, logs: Sequence[AnnouncementLog]) -> None:
        """Forget in place what is too much; the logs are the same at each call."""
        entries = _entries(logs)
        if entries > self.most:
            self._forget(logs, self._old)
            if _entries(logs) > self.most:
                self._forget(logs, _copies(logs))
            self.evicted += entries - _entries(logs)
            self._set_old([])
        if not self._old and _entries(logs) > self.most // 2:
            self._set_old(_copies(logs))

    def _set_old(self, old: list[Announcements]) -> None:
        self._old = old
        self._version += 1
        texts = pa.array([json.dumps(known.to_json(), separators=(",", ":")) for known in old], pa.large_string())
        self._stored = pa.RecordBatch.from_arrays([texts], ["text"])

    def _forget(self, logs: Sequence[AnnouncementLog], old: Sequence[Announcements]) -> None:
        for log, gone in zip(logs, old, strict=False):  # none is old yet when all of them came at once
            log.prune(gone)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        """State that `restore` takes over; what was written down is stored once, not with every micro-batch."""
        segments = {f"markers-{self._version}": self._stored} if self._old and self._stored is not None else {}
        return {"most": self.most, "evicted": self.evicted, "version": self._version}, segments

    def restore(self, coded: dict[str, Any], logs: Sequence[AnnouncementLog], segments: Mapping[str, pa.RecordBatch]) -> None:
        self.most, self.evicted, self._version = coded["most"], coded["evicted"], coded["version"]
        self._stored, self._old = segments.get(f"markers-{self._version}"), []
        if self._stored is not None:
            old = zip(self._stored.column(0).to_pylist(), logs, strict=False)
            self._old = [Announcements.from_json(json.loads(text), log.schema) for text, log in old]


def _entries(logs: Sequence[AnnouncementLog]) -> int:
    return sum(log.known.entries for log in logs)


def _copies(logs: Sequence[AnnouncementLog]) -> list[Announcements]:
    return [Announcements.from_json(log.known.to_json(), log.schema) for log in logs]
