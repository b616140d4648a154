"""Remembers what micro-batches of a run cost, so that capacity can be planned with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.kernel.work import Price
from penstock.runners.prices import figures

#: What a checkpoint calls it.
RECORD = "costs"
#: The first micro-batches of a run, in which workers start and loops are compiled; and how many of the others are kept.
_WARM_UP, _KEPT = 4, 300
#: The first ones of a run that goes on with what an earlier one has remembered.
_WARM_UP_AGAIN = 2
#: How much of earlier rates counts beside the newest one.
_FADING = 0.95


class CostHistory:
    """Rows and time of micro-batches, rates of streams, shares that filters let pass, and state of operators.

    Parameters
    ----------
    cores, shards
        Of the run.
    known
        What an earlier run of the checkpoint had remembered; of other queries, or on other cores, it means nothing.
    plan
        Tells one set of queries from another.

    Examples
    --------
    >>> history = CostHistory(2, 2, "a")
    >>> for number in range(6):
    ...     history.hear(100, {"s@0": ("s", 100 * number, 50 * number)}, {}, number * 0.5, 0.2)
    >>> found = history.to_json({})
    >>> found["batches"], found["rates"], found["shares"]
    ([[100, 0.2], [100, 0.2]], {'s': 200.0}, {'s@0': 0.5})
    """

    def __init__(self, cores: int, shards: int, plan: str, known: Mapping[str, Any] | None = None) -> None:
        self._cores, self._shards, self._plan = cores, shards, plan
        self._batches: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        if known is not None and (known["cores"], known["shards"], known["plan"]) == (cores, shards, plan):
            self._batches.extend((int(rows), float(seconds)) for rows, seconds in known["batches"])
        self._warm_up = _WARM_UP_AGAIN if self._batches else _WARM_UP
        self._heard = 0
        self._at_s: float | None = None
        self._read: dict[str, int] = {}
        self._rows: dict[str, float] = {}
        self._seconds = 0.0
        self._shares: dict[str, float] = {}
        self._state: dict[str, tuple[int, int]] = {}

    def hear(
        self,
        rows: int,
        entries: Mapping[str, tuple[str, int, int]],
        state: Mapping[str, tuple[int, int]],
        at_s: float,
        seconds: float,
    ) -> None:
        """Take in one micro-batch; others may have passed since the last one.

        Parameters
        ----------
        rows
            Of all streams.
        entries
            Stream, rows read and rows used since the checkpoint began, by entry.
        state
            Rows and bytes by operator.
        at_s, seconds
            When it began, and how long it took.
        """
        self._heard += 1
        self._state = {name: size for name, size in state.items() if any(size)}
        self._shares = {entry: used / read for entry, (_, read, used) in entries.items() if read}
        if self._heard > self._warm_up:
            self._count(entries, at_s)
            if rows:  # one without rows only sends others round
                self._batches.append((rows, round(seconds, 4)))
        self._read = {entry: read for entry, (_, read, _) in entries.items()}
        self._at_s = at_s

    def _count(self, entries: Mapping[str, tuple[str, int, int]], at_s: float) -> None:
        """Rows of each stream since the last micro-batch; a stream with several entries counts once."""
        if self._at_s is None or at_s <= self._at_s:
            return
        came: dict[str, int] = {}
        for entry, (stream, read, _) in entries.items():
            came[stream] = max(came.get(stream, 0), read - self._read.get(entry, 0))
        self._rows = {stream: _FADING * self._rows.get(stream, 0.0) + rows for stream, rows in came.items()}
        self._seconds = _FADING * self._seconds + at_s - self._at_s

    @property
    def batches(self) -> int:
        """How many are remembered."""
        return len(self._batches)

    def to_json(self, prices: Mapping[str, Sequence[Price]]) -> dict[str, Any]:
        """As a checkpoint keeps it.

        Parameters
        ----------
        prices
            What operators take, by input.
        """
        rates = {stream: round(rows / self._seconds, 3) for stream, rows in self._rows.items()} if self._seconds else {}
        return {
            "cores": self._cores,
            "shards": self._shards,
            "plan": self._plan,
            "batches": [list(each) for each in self._batches],
            "rates": rates,
            "shares": {entry: round(share, 6) for entry, share in self._shares.items()},
            "state": {name: list(size) for name, size in self._state.items()},
            "prices": {name: [figures(price) for price in known] for name, known in prices.items()},
        }
