"""Find the pairs of an equi-join between a sorted run and a batch, with a bound on the distance in time.

A run is a set of rows sorted by (hash, ts). Equal hashes are only candidates: `equal_keys` confirms them on the key columns
themselves, unless the hash of the key is one-to-one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.columnar.hashing import UInt64s, byte_layout, fixed_words
from penstock.model.batch import Int64s

_LEAST, _GREATEST = np.int64(-(2**63)), np.int64(2**63 - 1)


def sort_run(hashes: UInt64s, ts: Int64s) -> Int64s:
    """Order of a run: by hash, then time."""
    order: Int64s = np.lexsort((ts, hashes))
    return order


def shifted(ts: Int64s, distance: int) -> Int64s:
    """`ts + distance`, staying within 64 bits: windows may be infinite."""
    if distance >= 0:
        return np.where(ts > _GREATEST - distance, _GREATEST, ts + np.int64(min(distance, int(_GREATEST))))
    return np.where(ts < _LEAST - distance, _LEAST, ts + np.int64(distance))


@njit(cache=True)
def _first(hashes: Any, ts: Any, start: Any, h: Any, t: Any) -> Any:
    """Smallest index ≥ start with (hash, ts) ≥ (h, t)."""
    lo, hi = start, len(hashes)
    while lo < hi:
        mid = (lo + hi) >> 1
        if hashes[mid] < h or (hashes[mid] == h and ts[mid] < t):
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True)
def find_pairs(run_hashes: Any, run_ts: Any, hashes: Any, low: Any, high: Any, order: Any) -> Any:
    """Pairs (run row, probe row) of equal hash with low ≤ run ts ≤ high, the bounds being the probe row's.

    `order` visits the probe rows by hash, so that the search only moves forward. Returns two index arrays.
    """
    capacity = max(len(hashes) * 2, 1024)
    left = np.empty(capacity, np.int64)
    right = np.empty(capacity, np.int64)
    found = 0
    start = 0
    last = np.uint64(0)
    for i in order:
        h = hashes[i]
        if h != last:
            start = _first(run_hashes, run_ts, start, h, _LEAST)
            last = h
        if start >= len(run_hashes):
            break
        if run_hashes[start] != h:
            continue
        j = _first(run_hashes, run_ts, start, h, low[i])
        while j < len(run_hashes) and run_hashes[j] == h and run_ts[j] <= high[i]:
            if found == capacity:
                capacity *= 2
                left = _grown(left, capacity)
                right = _grown(right, capacity)
            left[found] = j
            right[found] = i
            found += 1
            j += 1
    return left[:found], right[:found]


@njit(cache=True)
def _grown(array: Any, capacity: Any) -> Any:
    larger = np.empty(capacity, np.int64)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
def _equal_bytes(offsets_a: Any, data_a: Any, rows_a: Any, offsets_b: Any, data_b: Any, rows_b: Any, out: Any) -> None:
    for k in range(len(rows_a)):
        if not out[k]:
            continue
        a, b = offsets_a[rows_a[k]], offsets_b[rows_b[k]]
        length = offsets_a[rows_a[k] + 1] - a
        if length != offsets_b[rows_b[k] + 1] - b:
            out[k] = False
            continue
        for j in range(length):
            if data_a[a + j] != data_b[b + j]:
                out[k] = False
                break


def is_one_to_one(columns: Sequence[pa.Array]) -> bool:
    """Whether equal hashes prove equal keys: one fixed-width column, because every step of its hash can be undone."""
    return len(columns) == 1 and fixed_words(columns[0].slice(0, 0)) is not None


def equal_keys(a: Sequence[pa.Array], rows_a: Int64s, b: Sequence[pa.Array], rows_b: Int64s) -> npt.NDArray[np.bool_]:
    """Which candidate pairs have equal keys. NULLs never reach a join, so they are not looked at."""
    out = np.ones(len(rows_a), np.bool_)
    for left, right in zip(a, b, strict=True):
        words = fixed_words(left)
        if words is not None:
            other = fixed_words(right)
            assert other is not None
            out &= words[rows_a] == other[rows_b]
        else:
            _equal_bytes(*byte_layout(left), rows_a, *byte_layout(right), rows_b, out)
    return out
