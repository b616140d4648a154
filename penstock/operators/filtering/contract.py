"""What every policy that keeps an order of filters is, and what all of them share.

A policy numbers its filters from 0. The host asks `order()`, sends rows through the filters in that order, asks `wanted`
which further filters to try on a profiled row, and hands the answers to `observe`. The rows that pass never depend on a
policy; the work does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidConfiguration
from penstock.operators.filtering.settings import MOST_FILTERS, OrderSettings, refuse_unless
from penstock.operators.filtering.window import Int64s, ProfileRows, ProfileWindow, UInt64s

Floats = npt.NDArray[np.float64]
Order = tuple[int, ...]

#: Changes of the order that are remembered for people.
LOG_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class Reordering:
    """One change of an order.

    Parameters
    ----------
    at
        Place of the profiled row that caused it; -1 when it came from outside.
    row, column
        The violated position and the position of the filter that beats it.
    left, right
        The two sides of the comparison that failed.
    """

    at: int
    old: Order
    new: Order
    row: int
    column: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Violation:
    """The comparison that failed first."""

    row: int
    column: int
    left: float
    right: float


FROM_OUTSIDE = Violation(-1, -1, 0.0, 0.0)


class FilterOrder(ABC):
    """Keeps an order of filters.

    Parameters
    ----------
    filters
        Their number, at most 64.
    settings
        Thresholds; each policy reads those that concern it.
    order
        To start with; by number, guards first, when not given.
    after
        For each filter the set of filters (as bits) that must precede it; the policy never breaks it.
    """

    #: Whether a profile row says something about every filter, and stays good when the order changes.
    has_whole_rows: ClassVar[bool] = True

    def __init__(
        self,
        filters: int,
        settings: OrderSettings | None = None,
        order: Sequence[int] | None = None,
        after: UInt64s | None = None,
    ) -> None:
        if filters > MOST_FILTERS:
            text = f"{filters} filters; an adaptive filter orders at most {MOST_FILTERS}, combine some of them by AND"
            raise InvalidConfiguration(text, "configuration of an adaptive filter")
        self.filters = filters
        self.settings = settings or OrderSettings()
        self._least_rows = self.settings.least_rows
        self.after = np.zeros(filters, np.uint64) if after is None else np.asarray(after, np.uint64)
        self.window = ProfileWindow(self.settings.kept_rows, self.settings.max_age)
        first = arranged(range(filters), self.after) if order is None else checked_order(order, self.after)
        self._order = np.array(first, np.int64)
        #: Number of the order in force, and of what is asked of profiled rows under it.
        self.epoch = self.version = 0
        #: Orders left, single repairs (one change of the order may need several), scans of the window.
        self.reorderings = self.corrections = self.scans = 0
        self.events: deque[Reordering] = deque(maxlen=LOG_LENGTH)
        #: Nanoseconds, for reports; no decision depends on it.
        self.clock: Callable[[], int] | None = None
        self.spent = {"window": 0, "view": 0, "violations": 0}
        self._all = np.uint64((1 << filters) - 1)

    # -- what a host calls --------------------------------------------------------------------------------------------

    def order(self) -> Order:
        """Filters by position."""
        return tuple(self._order.tolist())

    @abstractmethod
    def wanted(self, position: int) -> int:
        """Filters, as bits, to try on a profiled row that the filter at `position` rejected."""

    def observe(self, bits: UInt64s, known: UInt64s, costs: Floats, ts: Int64s | None = None, at: int | Sequence[int] = -1) -> bool:
        """Take in profiled rows in order of arrival, then compare once; True when the order has changed.

        Parameters
        ----------
        bits
            Bit k is set when filter k rejects the row; every row is rejected by one at least.
        known
            Which bits are known. Rows that lack what the policy needs are passed over.
        costs
            Time of each filter per row, in any unit, greater than 0.
        ts
            Event times, for windows bounded by age.
        at
            Place of the last row, for the log.
        """
        rows = self._usable(ProfileRows(bits, known, np.zeros(len(bits), np.int64) if ts is None else ts))
        before = self.order()
        if ts is not None and len(ts):
            self.expire(int(ts.max()))
        found = self._learn(rows, costs) if len(rows) else None
        if found is None or self.order() == before:
            return False
        self._changed(before, found, at if isinstance(at, int) else at[-1])
        return True

    def observe_each(self, bits: UInt64s, known: UInt64s, costs: Floats, at: Sequence[int]) -> int:
        """Take in rows one by one, comparing after each, up to the first that changes the order or what is asked.

        The published behaviour, for experiments; `observe` with single rows does the same, slower.

        Returns
        -------
        int
            Rows taken in; the caller profiles the others anew, under what is asked now.
        """
        rows = ProfileRows(bits, known, np.zeros(len(bits), np.int64))
        quiet = 0 if self.window.max_age is not None or self.window.rows is None else self._quiet(rows, costs)
        if quiet < len(bits):
            single = slice(quiet, quiet + 1)
            self.observe(bits[single], known[single], costs, at=at[quiet])
            quiet += 1
        return quiet

    def expire(self, now: int) -> None:
        """Time passes: forget what is too old."""
        gone = self.window.expire(now)
        if len(gone):
            self._forget(gone)

    def set_order(self, order: Sequence[int]) -> None:
        """Obey an order from outside."""
        before = self.order()
        self._order = np.array(checked_order(order, self.after), np.int64)
        if self.order() != before:
            self._restart()
            self._changed(before, FROM_OUTSIDE, -1)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """JSON values; the window's rows are stored apart."""
        return {
            "order": list(self.order()),
            "epoch": self.epoch,
            "version": self.version,
            "repairs": [self.reorderings, self.corrections, self.scans],
            "newest_ts": self.window.newest_ts,
            **self._details(),
        }

    def restore(self, state: Mapping[str, Any], rows: ProfileRows) -> None:
        """Become what was snapshot; counts are derived from the rows."""
        self._order = np.array(state["order"], np.int64)
        self.epoch, self.version = state["epoch"], state["version"]
        self.reorderings, self.corrections, self.scans = state["repairs"]
        self.window.clear()
        self.window.push(rows)
        self.window.newest_ts = state["newest_ts"]
        self._adopt(state)
        self._recount()

    def mirror(self) -> dict[str, Any]:
        """What a shard must know to profile for a policy that lives elsewhere."""
        return {"order": list(self.order()), "epoch": self.epoch, "version": self.version, **self._details()}

    def follow(self, told: Mapping[str, Any]) -> None:
        """Become the mirror of a policy that lives elsewhere."""
        self._order = np.array(checked_order(told["order"], self.after), np.int64)
        self.epoch, self.version = told["epoch"], told["version"]
        self._adopt(told)
        self._restart()

    # -- what policies fill in ----------------------------------------------------------------------------------------

    def _usable(self, rows: ProfileRows) -> ProfileRows:
        """Rows that say what this policy needs to know."""
        return rows

    @abstractmethod
    def _learn(self, rows: ProfileRows, costs: Floats) -> Violation | None:
        """Count rows, compare, and repair the order; returns what was violated first."""

    def _quiet(self, rows: ProfileRows, costs: Floats) -> int:
        """Take in leading rows that, one by one, change nothing; their number. Policies that cannot tell take in none."""
        return 0

    def _forget(self, words: UInt64s) -> None:  # noqa: B027 - not every policy counts
        """Rows have left the window."""

    def _restart(self) -> None:
        """The order was changed from outside."""
        self._recount()

    def _recount(self) -> None:  # noqa: B027 - not every policy counts
        """Derive counts from the window."""

    def _details(self) -> dict[str, Any]:
        """What a policy remembers besides order and window."""
        return {}

    def _adopt(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most policies have no details
        """Inverse of `_details`."""

    def _changed(self, before: Order, found: Violation, at: int) -> None:
        self.epoch += 1
        self.version += 1
        self.reorderings += 1
        self.events.append(Reordering(at, before, self.order(), found.row, found.column, found.left, found.right))

    def _now(self) -> int:
        return 0 if self.clock is None else self.clock()

    def _lap(self, part: str, since: int) -> int:
        """Book the time since then on a part of the bookkeeping."""
        if self.clock is None:
            return 0
        now = self.clock()
        self.spent[part] += now - since
        return now

    def _later(self, position: int) -> int:
        """All filters behind a position, as bits."""
        return sum(1 << int(number) for number in self._order[position + 1 :])


class Windowed(FilterOrder):
    """A policy whose counts follow the window."""

    def _quiet(self, rows: ProfileRows, costs: Floats) -> int:
        history = np.concatenate([self.window.bits, rows.bits])
        room = self.window.rows
        assert room is not None  # `observe_each` does not ask otherwise
        quiet = self._count_quietly(history, len(self.window), room, costs)
        self.window.push(ProfileRows(rows.bits[:quiet], rows.known[:quiet], rows.ts[:quiet]))
        return quiet

    @abstractmethod
    def _count_quietly(self, history: UInt64s, held: int, room: int, costs: Floats) -> int:
        """Count rows behind the first `held` as they enter a window of `room` rows; stop before one that changes the order."""


class WholeRows(Windowed):
    """A policy that asks every filter about a profiled row."""

    def wanted(self, position: int) -> int:
        return self._later(position)

    def _usable(self, rows: ProfileRows) -> ProfileRows:
        whole = (rows.known & self._all) == self._all
        if whole.all():
            return rows
        return ProfileRows(rows.bits[whole], rows.known[whole], rows.ts[whole])


def checked_order(order: Sequence[int] | range, after: UInt64s) -> Order:
    """The order, if it is one and respects what must precede what."""
    found = tuple(int(number) for number in order)
    refuse_unless(sorted(found) == list(range(len(after))), "order", found, f"be a permutation of 0 to {len(after) - 1}")
    done = 0
    for number in found:
        refuse_unless(not int(after[number]) & ~done, "order", found, f"place filter {number} after those that guard it")
        done |= 1 << number
    return found


def arranged(order: Sequence[int], after: UInt64s) -> Order:
    """The order with as few changes as guards need: each filter waits until those that must precede it are placed.

    Examples
    --------
    >>> arranged((2, 0, 1), np.array([0, 0, 2], np.uint64))
    (0, 1, 2)
    """
    left, done = [int(number) for number in order], 0
    found: list[int] = []
    while left:
        ready = next((number for number in left if not int(after[number]) & ~done), None)
        if ready is None:
            raise InvalidConfiguration(f"filters {left} guard each other in a circle", "configuration of an adaptive filter")
        found.append(ready)
        left.remove(ready)
        done |= 1 << ready
    return tuple(found)
