"""How many rows a micro-batch has, before any of them is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Figures in offsets that are no places in a stream.
_NOT_PLACES = ("began_us", "timestamp")
#: Offsets that count files or versions, of which each has another number of rows.
_UNEVEN = ("logOffset", "reservoirVersion", "snapshot-id")
#: How much of the newest figure counts.
_NEWEST = 0.5


class Arrivals:
    """Learns how many rows of each stream lie between two offsets, or come in a second where offsets do not tell.

    Parameters
    ----------
    names
        What Spark calls the source of each stream.

    Examples
    --------
    >>> arrivals = Arrivals({"bid": "bid"})
    >>> for offset, rows in [(0, 0), (1000, 1000), (3000, 2000)]:
    ...     found = arrivals.expected({"bid": json.dumps({"topic": {"0": offset}})}, since_s=1.0)
    ...     arrivals.hear({"bid": rows})
    >>> arrivals.expected({"bid": '{"topic": {"0": 9000}}'}, since_s=1.0)
    {'bid': 6000.0}
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._offsets: dict[str, Any] = {}
        #: Of the micro-batch that was asked about last: how far its offsets reach, and how long it gathered.
        self._distance: dict[str, float | None] = {}
        self._since_s = 0.0
        self._per_distance: dict[str, float] = {}
        self._per_second: dict[str, float] = {}

    def expected(self, offsets: Mapping[str, str], since_s: float) -> dict[str, float]:
        """Rows of each stream in the micro-batch that begins.

        Parameters
        ----------
        offsets
            Where it ends, by source, as Spark has written them.
        since_s
            Since the one before was planned.
        """
        self._since_s = since_s
        found = {}
        for stream, name in self._names.items():
            after = _read(offsets.get(name))
            self._distance[stream] = distance = _distance(self._offsets.get(stream), after)
            self._offsets[stream] = after
            rate = self._per_distance.get(stream)
            found[stream] = self._per_second.get(stream, 0.0) * since_s if distance is None or rate is None else distance * rate
        return found

    @property
    def learnt(self) -> dict[str, dict[str, float]]:
        return {"per_distance": dict(self._per_distance), "per_second": dict(self._per_second)}

    def go_on(self, learnt: Mapping[str, Mapping[str, float]], offsets: Mapping[str, str]) -> None:
        """Go on with what another one has learnt; `offsets` are those of the last micro-batch."""
        self._per_distance, self._per_second = dict(learnt.get("per_distance", {})), dict(learnt.get("per_second", {}))
        self._offsets = {stream: _read(offsets.get(name)) for stream, name in self._names.items()}

    def hear(self, arrived: Mapping[str, int]) -> None:
        """Rows that the micro-batch had which was asked about last."""
        for stream, rows in arrived.items():
            distance = self._distance.get(stream)
            if distance:
                _even(self._per_distance, stream, rows / distance)
            if self._since_s > 0:
                _even(self._per_second, stream, rows / self._since_s)


def _even(known: dict[str, float], stream: str, new: float) -> None:
    before = known.get(stream)
    known[stream] = new if before is None else before + _NEWEST * (new - before)


def _read(offset: str | None) -> Any:
    """An offset as Spark has written it; None for a source that has none yet, for which Spark writes a dash.

    Examples
    --------
    >>> _read('{"0": 5}'), _read("-"), _read(None)
    ({'0': 5}, None, None)
    """
    try:
        return None if offset is None else json.loads(offset)
    except ValueError:
        return None


def _distance(before: Any, after: Any) -> float | None:
    """By how much the numbers in an offset have grown; None where that says nothing of rows.

    Examples
    --------
    >>> _distance({"t": {"0": 5, "1": 7}}, {"t": {"0": 6, "1": 9, "2": 4}}), _distance(3, 8)
    (7.0, 5.0)
    >>> _distance({"logOffset": 1}, {"logOffset": 2})
    """
    if after is None or before is None:
        return None
    if isinstance(after, bool) or isinstance(before, bool):
        return None
    if isinstance(after, int | float) and isinstance(before, int | float):
        return float(after - before)
    if isinstance(after, dict) and isinstance(before, dict):
        if any(name in after for name in _UNEVEN):
            return None
        parts = [_distance(before.get(name, 0), each) for name, each in after.items() if name not in _NOT_PLACES]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None
    return None
