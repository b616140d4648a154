"""What the inputs of a join have announced about their next rows, and what that says about stored keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.metadata.scoped import coded, decoded
from penstock.model.batch import Int64s
from penstock.model.masks import Mask
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation
from penstock.operators.joins.pjoin import layout
from penstock.operators.joins.pjoin.core import Core

_NONE = np.empty(0, np.int64)


class Scopes:
    """Positive scopes of both sides: "each of the next N rows matches".

    A stored tuple of one side is *cold* while the next rows of the other side cannot have its key, else *hot*. Answers never
    depend on it: a row that breaks a scope finds its partners on disk, later. Keys of tuples on disk stay in memory, so hot
    and cold are exact, without the bounds and sketches that pieces of a state with unknown keys would need.

    Parameters
    ----------
    core
        Owner of the keys.
    schemas, keys
        Attributes of both sides, and the names of the key columns.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 32.
    """

    def __init__(self, core: Core, schemas: Sequence[Schema], keys: Sequence[tuple[str, ...]]) -> None:
        self._core = core
        self._schemas = tuple(schemas)
        self._keys = tuple(keys)
        self._said: list[ScopedPunctuation | None] = [None, None]
        #: Rows outside the pattern of a certain scope that held for them.
        self.violations = 0

    def announce(self, side: int, scope: ScopedPunctuation) -> None:
        """A side says what its next rows are; a scope that says nothing ends the one before."""
        if scope.is_positive:
            patterns = tuple(pattern.normalised(self._schemas[side]) for pattern in scope.patterns)
            self._said[side] = None if scope.says_nothing else replace(scope, patterns=patterns)

    def see(self, side: int, rows: pa.RecordBatch) -> None:
        """Rows of a side come and use its scope up."""
        scope = self._said[side]
        if scope is None or not rows.num_rows:
            return
        inside = rows.num_rows if scope.rows is None else min(scope.rows, rows.num_rows)
        if scope.is_exact:
            self.violations += inside - int(np.count_nonzero(scope.may_match(rows.slice(0, inside))))
        left = scope.after(inside)
        self._said[side] = None if left.rows == 0 else left

    def is_known(self, side: int) -> bool:
        """Whether tuples of this side are known to be hot or cold."""
        return self._said[1 - side] is not None

    def hot_keys(self, side: int) -> Mask:
        """Which keys the next rows of the other side may have."""
        scope, keys = self._said[1 - side], self._core.keys
        if scope is None:
            return np.ones(keys.number, np.bool_)
        hot = np.zeros(keys.number, np.bool_)
        for pattern in scope.patterns:
            hot |= keys.matching([pattern.pattern(name) for name in self._keys[1 - side]])
        return hot

    def hot_buckets(self, side: int) -> Int64s:
        """Buckets with hot tuples of a side on disk, those first of whose keys the largest share is hot.

        None if there are more buckets than rows in scope: these need not even so many.
        """
        scope, keys = self._said[1 - side], self._core.keys
        if scope is None:
            return _NONE
        away = keys.records.chain[layout.AWAY + side, : keys.number] >= 0
        bucket_of = keys.records.bucket[: keys.number]
        hot = np.bincount(bucket_of[away & self.hot_keys(side)], minlength=keys.buckets)
        share = hot / np.maximum(np.bincount(bucket_of[away], minlength=keys.buckets), 1)
        found: Int64s = np.argsort(-share, kind="stable")[: np.count_nonzero(hot)]
        return _NONE if scope.rows is not None and scope.rows < len(found) else found

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {"said": [None if scope is None else coded(scope) for scope in self._said], "violations": self.violations}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._said = [None if scope is None else decoded(scope) for scope in saved["said"]]
        self.violations = saved["violations"]
