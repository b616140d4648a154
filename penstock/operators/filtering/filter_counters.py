"""What a conjunction has done so far, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Rows after which older ones count half in the share of rejected rows.
_RECENT_ROWS = 1_000_000

_TOTALS = ("arrived", "passed", "failed", "profiled", "extra_evaluations", "profile_errors", "filters_changed", "taken_as_written")
_TIMES = ("processing", "profiling")


class FilterCounters:
    """Running totals, per filter and per position.

    Parameters
    ----------
    filters
        Their number.
    """

    def __init__(self, filters: int) -> None:
        self.totals = dict.fromkeys(_TOTALS, 0)
        self.evaluations = np.zeros(filters, np.int64)
        self.drops = np.zeros(filters, np.int64)
        self.evaluations_at = np.zeros(filters, np.int64)
        self.drops_at = np.zeros(filters, np.int64)
        #: Rows and rejected rows of late, for estimates.
        self.recent_rows = self.recent_drops = 0
        #: Nanoseconds; for reports only.
        self.times = dict.fromkeys(_TIMES, 0)

    def add(self, name: str, count: int) -> None:
        self.totals[name] += count

    def asked(self, number: int, position: int, rows: int, dropped: int) -> None:
        """A filter at a position has seen rows."""
        self.evaluations[number] += rows
        self.evaluations_at[position] += rows
        self.drops[number] += dropped
        self.drops_at[position] += dropped

    def chunk(self, rows: int, passed: int, failed: int) -> None:
        """A chunk is done."""
        self.add("arrived", rows)
        self.add("passed", passed)
        self.add("failed", failed)
        self.recent_rows += rows
        self.recent_drops += rows - passed - failed
        if self.recent_rows > _RECENT_ROWS:
            self.recent_rows //= 2
            self.recent_drops //= 2

    @property
    def dropped_share(self) -> float:
        """Share of the rows of late that was rejected."""
        return self.recent_drops / self.recent_rows if self.recent_rows else 0.0

    def counters(self, names: Sequence[str]) -> dict[str, int]:
        """All counts under plain names."""
        found = dict(self.totals)
        for number, name in enumerate(names):
            found[f"evaluations:{name}"] = int(self.evaluations[number])
            found[f"drops:{name}"] = int(self.drops[number])
            found[f"evaluations@{number}"] = int(self.evaluations_at[number])
            found[f"drops@{number}"] = int(self.drops_at[number])
        return found

    def snapshot(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("evaluations", "drops", "evaluations_at", "drops_at")}
        return {"totals": dict(self.totals), "recent": [self.recent_rows, self.recent_drops], "times": dict(self.times), **arrays}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.totals = dict.fromkeys(_TOTALS, 0) | dict(state["totals"])
        self.recent_rows, self.recent_drops = state["recent"]
        self.times = dict.fromkeys(_TIMES, 0) | dict(state["times"])
        for name in ("evaluations", "drops", "evaluations_at", "drops_at"):
            setattr(self, name, np.array(state[name], np.int64))
