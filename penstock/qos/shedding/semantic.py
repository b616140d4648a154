"""Rows chosen by the value of a column: the lowest, the highest, those nearest to a centre or farthest from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, inf
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.coins import Floats
from penstock.model.batch import Batch
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.model.masks import Mask
from penstock.qos.shedding.exact_rate import SLACK
from penstock.qos.shedding.quantiles import QuantileSummary


@dataclass(frozen=True, slots=True)
class Cut:
    """Ranks below `threshold` are dropped, and of those equal to it the share `ties`."""

    threshold: float
    ties: float = 1.0


@dataclass(slots=True)
class _Range:
    """Least and greatest finite value seen, and their mean."""

    low: float = inf
    high: float = -inf
    total: float = 0.0
    count: int = 0

    def add(self, values: Floats) -> None:
        finite = values[np.isfinite(values)]
        if len(finite):
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
            self.total += float(finite.sum())
            self.count += len(finite)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


class SemanticShedder:
    """Drop the rows that a query misses least, by one numeric column.

    With `DropMode.QUANTILE` the share that is dropped is the share that was asked for, as long as values go on as they were:
    the condition comes from a summary of all values seen. With `DropMode.RANGE` it is a share of the range of values, and rows
    may be anything from none to all. In both modes never more than `capacity` of the rows are dropped since the first share,
    and those that mean least go first; rows without a value always pass.

    Parameters
    ----------
    preference
        Which rows, by which column.
    capacity
        Greatest share of the rows that may be dropped in all.
    seed
        Of the summary.
    carry
        Part of a row that is to be dropped in addition.

    Notes
    -----
    Differs from the book: quantiles are estimated, and rows equal to one are dropped in part, in order of arrival.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.2, semantic
    shedders (quantiles); section 10.6.4 (ranges of values).
    """

    def __init__(self, preference: DropPreference, capacity: float = 1.0, seed: int = 0, carry: float = 0.0) -> None:
        assert preference.column is not None
        self._column = preference.column
        self._preference = preference
        self._capacity = capacity
        self._summary = QuantileSummary(seed)
        self._range = _Range()
        #: Part of a row with the value of the threshold that is still to be dropped.
        self._carry = carry
        self._received = 0
        self._dropped = 0
        self._null_passed = 0
        self._cap_hits = 0

    def observe(self, batch: Batch) -> None:
        values = numbers(batch.column(self._column))
        known = values[~np.isnan(values)]
        self._range.add(known)
        if self._preference.mode is DropMode.QUANTILE:
            self._summary.add(known)

    def keep_mask(self, batch: Batch, share: float) -> Mask:
        keep = np.ones(batch.num_rows, np.bool_)
        self._received += batch.num_rows
        if share <= 0 or not batch.num_rows:
            return keep
        values = numbers(batch.column(self._column))
        self._null_passed += int(np.isnan(values).sum())
        ranks = self._ranks(values)
        keep[self._capped(self._chosen(ranks, self._cut(share)), ranks)] = False
        self._dropped += int((~keep).sum())
        return keep

    def _ranks(self, values: Floats) -> Floats:
        """What is dropped first has the least; NaN is never dropped."""
        kind = self._preference.kind
        if kind in (DropKind.CENTER, DropKind.OUTLIER):
            values = np.abs(values - self._center)
        return -values if kind in (DropKind.HIGHEST, DropKind.OUTLIER) else values

    @property
    def _center(self) -> float:
        given = self._preference.center
        return self._range.mean if given is None else given

    def _cut(self, share: float) -> Cut:
        return self._cut_of_range(share) if self._preference.mode is DropMode.RANGE else self._cut_of_rows(share)

    def _cut_of_rows(self, share: float) -> Cut:
        values, weights = self._summary.weighted()
        if not len(values):
            return Cut(-inf)
        ranks = self._ranks(values)
        order = np.argsort(ranks, kind="stable")
        ranks, upto = ranks[order], np.cumsum(weights[order])
        wanted = share * upto[-1]
        threshold = float(ranks[min(np.searchsorted(upto, wanted - SLACK), len(ranks) - 1)])
        first, last = (int(np.searchsorted(ranks, threshold, side)) for side in ("left", "right"))
        below = float(upto[first - 1]) if first else 0.0
        return Cut(threshold, min((wanted - below) / (float(upto[last - 1]) - below), 1.0))

    def _cut_of_range(self, share: float) -> Cut:
        seen = self._range
        if not seen.count:
            return Cut(-inf)
        width = seen.high - seen.low
        farthest = max(seen.high - self._center, self._center - seen.low)
        return Cut(
            {
                DropKind.LOWEST: seen.low + share * width,
                DropKind.HIGHEST: share * width - seen.high,
                DropKind.CENTER: share * width / 2,
                DropKind.OUTLIER: (share - 1) * farthest,
            }[self._preference.kind]
        )

    def _chosen(self, ranks: Floats, cut: Cut) -> Mask:
        chosen: Mask = ranks < cut.threshold
        equal = np.flatnonzero(ranks == cut.threshold)
        owed = cut.ties * len(equal) + self._carry
        number = min(floor(owed + SLACK), len(equal))
        self._carry = min(owed - number, 1.0)
        chosen[equal[:number]] = True
        return chosen

    def _capped(self, chosen: Mask, ranks: Floats) -> Mask:
        """No more than the capacity allows: those of least rank, and of equal ones the first."""
        allowed = max(floor(self._capacity * self._received + SLACK) - self._dropped, 0)
        places = np.flatnonzero(chosen)
        if len(places) <= allowed:
            return chosen
        self._cap_hits += len(places) - allowed
        capped = np.zeros(len(chosen), np.bool_)
        capped[places[np.argsort(ranks[places], kind="stable")[:allowed]]] = True
        return capped

    def counters(self) -> Mapping[str, int]:
        return {"null_passed": self._null_passed, "cap_hits": self._cap_hits}

    def snapshot(self) -> Mapping[str, Any]:
        seen = self._range
        return {
            "summary": self._summary.snapshot(), "range": [seen.low, seen.high, seen.total, seen.count] if seen.count else None,
            "carry": self._carry, "rows": [self._received, self._dropped, self._null_passed, self._cap_hits],
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        self._summary.restore(state["summary"])
        self._range = _Range(*state["range"]) if state["range"] is not None else _Range()
        self._carry = state["carry"]
        self._received, self._dropped, self._null_passed, self._cap_hits = state["rows"]


def numbers(column: pa.Array) -> Floats:
    """A numeric column; NaN where it has no value."""
    found: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found
