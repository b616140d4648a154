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

from penstock.columnar.compiling import njit
from penstock.columnar.hashing import UInt64s, byte_layout, fixed_words, mixed
from penstock.model.batch import Int64s

_LEAST, _GREATEST = np.int64(-(2**63)), np.int64(2**63 - 1)
_MOST = np.uint64(2**64 - 1)
_LARGE_GROUP = 32
#: Of the values that do not occur one in so many has the prefix of one that does.
_PREFIX_BITS_PER_ROW = 16


def sort_run(hashes: UInt64s, ts: Int64s) -> Int64s:
    """Order of a run: by hash, then time, then place.

    Sorting by hash alone is vectorised and groups are small, so they are put in order afterwards.
    """
    order: Int64s = np.argsort(hashes)
    _sort_groups(order, hashes, ts)
    return order


@njit(cache=True)
def _sort_groups(order: Any, hashes: Any, ts: Any) -> None:
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and hashes[order[end]] == hashes[order[start]]:
            end += 1
        if end - start > _LARGE_GROUP:
            members = np.sort(order[start:end])
            order[start:end] = members[np.argsort(ts[members], kind="mergesort")]
        elif end - start > 1:
            _insertion_sort(order, ts, start, end)
        start = end


@njit(cache=True)
def _insertion_sort(order: Any, ts: Any, start: Any, end: Any) -> None:
    for i in range(start + 1, end):
        row = order[i]
        j = i
        while j > start and (ts[order[j - 1]] > ts[row] or (ts[order[j - 1]] == ts[row] and order[j - 1] > row)):
            order[j] = order[j - 1]
            j -= 1
        order[j] = row


@njit(cache=True)
def newest_and_place(ts: Any, pos: Any, batch_ts: Any, batch_pos: Any, rows: Any) -> None:
    """Fold one more part into combined rows: the newest time, and a position that names the combination."""
    for i in range(len(rows)):
        row = rows[i]
        ts[i] = max(ts[i], batch_ts[row])
        pos[i] = mixed(pos[i], batch_pos[row])


def shifted(ts: Int64s, distance: int) -> Int64s:
    """`ts + distance`, staying within 64 bits: windows may be infinite."""
    if distance >= 0:
        return np.where(ts > _GREATEST - distance, _GREATEST, ts + np.int64(min(distance, int(_GREATEST))))
    return np.where(ts < _LEAST - distance, _LEAST, ts + np.int64(distance))


@njit(cache=True)
def _reach(hashes: Any, start: Any, h: Any) -> Any:
    """First index from `start` on whose hash is at least `h`: steps that double, then halve, so short ways are cheap."""
    end = len(hashes)
    if start >= end or hashes[start] >= h:
        return start
    low, step = start, 1
    while low + step < end and hashes[low + step] < h:
        low += step
        step *= 2
    high = min(low + step, end)
    while high - low > 1:
        mid = (low + high) >> 1
        if hashes[mid] < h:
            low = mid
        else:
            high = mid
    return high


@njit(cache=True)
def occur(values: Any, wanted: Any) -> Any:
    """Which wanted values occur among sorted ones; wanted values that mostly ascend are found in short steps."""
    found = np.zeros(len(wanted), np.bool_)
    at = 0
    for i in range(len(wanted)):
        if i == 0 or wanted[i] < wanted[i - 1]:
            at = 0
        at = _reach(values, at, wanted[i])
        found[i] = at < len(values) and values[at] == wanted[i]
    return found


def prefixes(hashes: UInt64s) -> npt.NDArray[np.uint8]:
    """Which prefixes occur among sorted hashes, a bit each: so many that most values that do not occur are told by them."""
    bits = max(int(len(hashes) - 1).bit_length() + _PREFIX_BITS_PER_ROW.bit_length() - 1, 3)
    found = np.zeros(1 << (bits - 3), np.uint8)
    _set_prefixes(found, hashes, np.uint64(64 - bits))
    return found


@njit(cache=True)
def _set_prefixes(found: Any, hashes: Any, shift: Any) -> None:
    for i in range(len(hashes)):
        prefix = hashes[i] >> shift
        found[prefix >> np.uint64(3)] |= np.uint8(1) << np.uint8(prefix & np.uint64(7))


def occur_behind(known: npt.NDArray[np.uint8], values: UInt64s, wanted: UInt64s) -> npt.NDArray[np.bool_]:
    """The same as `occur`, by their prefixes first: a search in a large run misses the processor's cache at every step.

    Examples
    --------
    >>> values = np.array([3, 2**60, 2**63], np.uint64)
    >>> occur_behind(prefixes(values), values, np.array([2**60, 5, 2**63 + 1, 3], np.uint64)).tolist()
    [True, False, False, True]
    """
    found = have_prefix(known, wanted)
    candidates = np.flatnonzero(found)
    if len(candidates):
        found[candidates] = occur(values, wanted[candidates])
    return found


def have_prefix(known: npt.NDArray[np.uint8], wanted: UInt64s) -> npt.NDArray[np.bool_]:
    """Which values may occur, as their prefixes do."""
    found: npt.NDArray[np.bool_] = _have_prefix(known, wanted, np.uint64(64 - (len(known).bit_length() + 2)))
    return found


@njit(cache=True)
def _have_prefix(known: Any, wanted: Any, shift: Any) -> Any:
    found = np.empty(len(wanted), np.bool_)
    for i in range(len(wanted)):
        prefix = wanted[i] >> shift
        found[i] = (known[prefix >> np.uint64(3)] >> np.uint8(prefix & np.uint64(7))) & np.uint8(1)
    return found


@njit(cache=True)
def _first_at(ts: Any, start: Any, end: Any, least: Any) -> Any:
    """First index in [start, end) whose time is at least `least`; the times ascend."""
    while start < end:
        mid = (start + end) >> 1
        if ts[mid] < least:
            start = mid + 1
        else:
            end = mid
    return start


@njit(cache=True)
def find_pairs(run_hashes: Any, run_ts: Any, hashes: Any, low: Any, high: Any, begin: Any, resume: Any, most: Any) -> Any:
    """Pairs (run row, probe row) of equal hash with low ≤ run ts ≤ high, the bounds being the probe row's.

    Both sides ascend by hash, the run also by time within a hash, so this is a merge. Returns two index arrays, ascending by
    probe row, of at most `most` pairs, and where to go on: a probe row (behind the last one: nothing is left) and a run row.

    Parameters
    ----------
    begin, resume
        Where to begin: 0 and -1, or what the call before has returned.
    """
    capacity = min(max(len(hashes) * 2, 1024), most)
    left = np.empty(capacity, np.int64)
    right = np.empty(capacity, np.int64)
    found = 0
    start = 0
    end = 0
    for i in range(begin, len(hashes)):
        h = hashes[i]
        if start == end or run_hashes[start] != h:
            start = _reach(run_hashes, end, h)
            if start >= len(run_hashes):
                break
            end = start
            if run_hashes[start] != h:
                continue
            end = _reach(run_hashes, start, h + np.uint64(1)) if h != _MOST else len(run_hashes)
        first = resume if i == begin and resume >= 0 else _first_at(run_ts, start, end, low[i])
        for j in range(first, end):
            if run_ts[j] > high[i]:
                break
            if found == capacity:
                if capacity == most:
                    return left, right, i, j
                capacity = min(capacity * 2, most)
                left = _grown(left, capacity)
                right = _grown(right, capacity)
            left[found] = j
            right[found] = i
            found += 1
    return left[:found], right[:found], len(hashes), -1


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
