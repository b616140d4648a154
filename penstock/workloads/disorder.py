"""What goes wrong on the way: delays, late rows, duplicates, null keys and malformed rows, each a coin per row."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.workloads.coins import Flags, happens, integers

#: Longest delay a coin can draw: 32 random bits of microseconds, more than an hour.
LONGEST_US = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Disorder:
    """Faults of a stream. Arrival order and offsets stay as they are; event times and values suffer.

    Parameters
    ----------
    bound_us
        A row's event time lies up to this much before its arrival, as if it had been delayed on the way. A row is then
        never more than `bound_us` older than the newest row before it: the bound a stream may declare.
    late_fraction
        Share of rows delayed by more: by twice the bound plus `late_us` to twice `late_us`.
    late_us
        Least excess of a late row. It is then more than the bound older than the row before it, if that one is not late
        itself and came less than `late_us` ago; at the very start rows are less late, as no event time lies before it.
    duplicate_fraction
        Share of rows that repeat the row before them in their source partition, event time included.
    null_fraction
        Share of rows whose key is NULL.
    bad_fraction
        Share of rows without event time: the one thing a typed row can lack so that it has no place in the stream.
    seed
        Of the coins.

    Examples
    --------
    >>> shaken = Disorder(bound_us=50, seed=1).event_times(np.arange(0, 1000, 100), np.arange(10))
    >>> bool((shaken <= np.arange(0, 1000, 100)).all() and (np.maximum.accumulate(shaken) - shaken <= 50).all())
    True
    """

    bound_us: int = 0
    late_fraction: float = 0.0
    late_us: int = 10_000_000
    duplicate_fraction: float = 0.0
    null_fraction: float = 0.0
    bad_fraction: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name.endswith("_fraction") and not 0 <= value <= 1:
                raise InvalidOption(f"{value} is not a share of rows; it must be between 0 and 1", item.name)
            if item.name.endswith("_us") and not 0 <= value <= LONGEST_US:
                raise InvalidOption(f"{value} µs is no possible delay; it must be between 0 and {LONGEST_US} µs", item.name)

    def event_times(self, arrivals: Int64s, index: Int64s) -> Int64s:
        """When the rows that arrive at these times happened; not before time 0."""
        if not self.bound_us and not self.late_fraction:
            return arrivals
        times: Int64s = arrivals - integers(self.seed, "delay", index, self.bound_us + 1)
        if self.late_fraction:
            late = happens(self.seed, "late", index, self.late_fraction)
            delay = 2 * self.bound_us + self.late_us + integers(self.seed, "excess", index, self.late_us + 1)
            times = np.where(late, arrivals - delay, times)
        result: Int64s = np.maximum(times, 0)
        return result

    def originals(self, index: Int64s, stride: int, fixed: Flags) -> Int64s:
        """Index of the row whose content each row shows: its own, or that of the row before it in its partition.

        Parameters
        ----------
        index
            Rows of one source partition, each `stride` after the one before, from any place on.
        fixed
            Rows that neither are nor have duplicates.
        """
        if not self.duplicate_fraction:
            return index
        before = index - stride
        repeats = happens(self.seed, "duplicate", index, self.duplicate_fraction)
        # The row before must show itself, or a duplicate would be the only copy of what it repeats.
        repeats &= ~happens(self.seed, "duplicate", before, self.duplicate_fraction)
        return np.where(repeats & (before >= 0) & ~fixed, before, index)

    def null_keys(self, index: Int64s) -> Flags:
        return happens(self.seed, "null", index, self.null_fraction)

    def bad_rows(self, index: Int64s) -> Flags:
        return happens(self.seed, "bad", index, self.bad_fraction)
