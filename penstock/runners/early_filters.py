"""Filters that packing tasks run before the exchange: made anew by every task, told what is decided, and asked what they saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernel.contracts import Steered, Timed
from penstock.kernel.packing import READ, ROW
from penstock.kernel.row_filters import EntryFilter, RowFilter, Unjudged, failed_alike
from penstock.lowering.prefix import PrefixFilter
from penstock.model.batch import Batch, Int64s, int64s
from penstock.runners.decisions import Decisions

#: Counters that are no totals, but levels of what an operator keeps; one that is made anew keeps nothing.
_LEVELS = ("state_rows", "state_bytes", "window_fill", "window_age", "epoch", "reorderings", "corrections", "scans")

_UNKNOWN, _PASSED, _REJECTED = 0, 1, 2


class EarlyFilter:
    """One filter in one task. Entries that share it ask about the same rows, of which each is judged once."""

    def __init__(self, given: PrefixFilter, decisions: Decisions, clock: Callable[[], int]) -> None:
        self.name = given.name
        self.operator: RowFilter = given.make()
        self._columns = [(f"{READ}{name}", name) for name in given.columns]
        if isinstance(self.operator, Timed):
            self.operator.use_clock(clock)
        for decision in decisions.of(given.name):
            self.operator.on_control(decision)
        self._verdicts: npt.NDArray[np.int8] = np.zeros(0, np.int8)
        self._failed: dict[int, str] = {}

    def begin(self, rows: int) -> None:
        """Other rows come, so many."""
        self._verdicts = np.zeros(rows, np.int8)
        self._failed = {}

    def filter_rows(self, rows: pa.RecordBatch, ts: Int64s, positions: Int64s, asked: Int64s) -> tuple[Int64s, list[Unjudged]]:
        numbers = int64s(rows.column(ROW))[asked]
        new = asked[self._verdicts[numbers] == _UNKNOWN]
        if len(new):
            self._judge(self._seen(rows, new), ts[new], positions[new], int64s(rows.column(ROW))[new])
        failed = [(int(asked[at]), self._failed[number]) for at, number in self._unjudged(numbers)]
        unjudged = [Unjudged(places, self.operator.failure, text) for places, text in failed_alike(failed)]
        return asked[self._verdicts[numbers] == _PASSED], unjudged

    def _seen(self, rows: pa.RecordBatch, asked: Int64s) -> pa.RecordBatch:
        names = [source for source, _ in self._columns]
        mine = rows.select(names).rename_columns([name for _, name in self._columns])
        return mine if len(asked) == rows.num_rows else mine.take(pa.array(asked))

    def _judge(self, rows: pa.RecordBatch, ts: Int64s, positions: Int64s, numbers: Int64s) -> None:
        found = self.operator.filter_rows(Batch(rows, ts, positions))
        self._verdicts[numbers] = _REJECTED
        self._verdicts[numbers[found.kept]] = _PASSED
        self._failed |= {int(numbers[at]): text for at, text in found.failed}

    def _unjudged(self, numbers: Int64s) -> Iterable[tuple[int, int]]:
        if not self._failed:
            return ()
        return ((at, number) for at, number in enumerate(numbers.tolist()) if number in self._failed)

    def counters(self) -> dict[str, int]:
        return {name: count for name, count in self.operator.counters().items() if name not in _LEVELS}


@dataclass(frozen=True, slots=True)
class _FilterChain:
    """The filters of an entry, one after the other."""

    filters: tuple[EarlyFilter, ...]

    def __call__(self, rows: pa.RecordBatch, ts: Int64s, positions: Int64s, asked: Int64s) -> tuple[Int64s, list[Unjudged]]:
        unjudged: list[Unjudged] = []
        for early_filter in self.filters:
            asked, more = early_filter.filter_rows(rows, ts, positions, asked)
            unjudged += more
        return asked, unjudged


class EarlyFilters:
    """All filters of one packing task."""

    def __init__(self, decisions: Decisions, clock: Callable[[], int]) -> None:
        self._decisions = decisions
        self._clock = clock
        self._rows = 0
        self._filters: dict[str, EarlyFilter] = {}

    def begin(self, rows: int) -> None:
        """Other rows come, so many: what was found about others says nothing about them."""
        self._rows = rows
        for early_filter in self._filters.values():
            early_filter.begin(rows)

    def of(self, filters: Sequence[PrefixFilter]) -> EntryFilter | None:
        """Those of an entry; None if it has none."""
        return _FilterChain(tuple(map(self._filter, filters))) if filters else None

    def _filter(self, given: PrefixFilter) -> EarlyFilter:
        if given.name not in self._filters:
            self._filters[given.name] = EarlyFilter(given, self._decisions, self._clock)
            self._filters[given.name].begin(self._rows)
        return self._filters[given.name]

    def driver_reports(self) -> dict[str, Any]:
        """What filters tell whoever decides about them; once per task."""
        return {name: each.operator.driver_report() for name, each in self._filters.items() if isinstance(each.operator, Steered)}

    def counters(self) -> dict[str, dict[str, int]]:
        """What filters have done in this task, by name."""
        return {name: each.counters() for name, each in self._filters.items()}


def add_up(total: dict[str, dict[str, int]], more: Mapping[str, Mapping[str, int]]) -> None:
    """Add counters of another task."""
    for name, counters in more.items():
        mine = total.setdefault(name, {})
        for counter, count in counters.items():
            mine[counter] = mine.get(counter, 0) + count
