"""What a shard tells the driver about its filters, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.operators.filtering.window import ProfileRows

#: Decisions about filters, as kinds of control elements.
ORDER, COSTS = "filter_order", "filter_costs"


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Profiled rows and measured calls since the last report.

    Parameters
    ----------
    operator
        Label of the adaptive filter.
    version
        What was asked of profiled rows; those of a policy without whole rows are good for this version only.
    rows
        In the policy's numbers.
    samples
        For each filter the calls measured: rows and seconds.
    now
        Newest event time seen, so that profiles grow old without new ones; None when there was none.
    rows_in, drops
        Rows seen and rejected.
    """

    operator: str
    version: int
    rows: ProfileRows
    samples: Sequence[Sequence[tuple[int, float]]]
    now: int | None
    rows_in: int
    drops: int

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "version": self.version,
            "bits": self.rows.bits.tolist(),
            "known": self.rows.known.tolist(),
            "ts": self.rows.ts.tolist(),
            "samples": [[list(sample) for sample in calls] for calls in self.samples],
            "now": self.now,
            "rows_in": self.rows_in,
            "drops": self.drops,
        }

    @classmethod
    def from_json(cls, coded: Mapping[str, Any]) -> ShardReport:
        rows = ProfileRows(np.array(coded["bits"], np.uint64), np.array(coded["known"], np.uint64), np.array(coded["ts"], np.int64))
        samples = [[(int(count), float(seconds)) for count, seconds in calls] for calls in coded["samples"]]
        return cls(
            coded["operator"], coded["version"], rows, samples, coded["now"], coded["rows_in"], coded["drops"]
        )  # fmt: skip
