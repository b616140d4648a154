"""Compiled loops of the multiway join: a hash table whose entries lead to chains of rows, newest first.

An entry of the table holds a key's hash, the newest row with it and that row's time: a probe that only asks whether a partner
exists reads one entry in most cases. From each row a link leads to the next older one with the same hash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])

#: Columns of the table.
HASH, HEAD, NEWEST, WIDTH = 0, 1, 2, 4
#: No row: the end of a chain, an empty entry, no match.
NONE = -1
#: Link of a row whose key is NULL: it is in no chain and matches nothing.
NULL_KEY = -2


def compiled(loop: Loop) -> Loop:
    """Compile once and keep the result beside the module, without losing the signature."""
    return cast(Loop, njit(cache=True)(loop))


@compiled
def _entry(table: Any, key: Any) -> Any:  # pragma: no cover - compiled
    """Where a hash stands in the table, or the empty entry where it belongs; hashes are well mixed."""
    mask = len(table) - 1
    at = key & mask
    while table[at, HEAD] != NONE and table[at, HASH] != key:
        at = (at + 1) & mask
    return at


@compiled
def insert_rows(table: Any, links: Any, ts: Any, hashes: Any, start: int, stop: int) -> int:  # pragma: no cover - compiled
    """Put rows into their chains and return how many entries are new; the table must have room for them.

    Rows come nearly in the order of time, so the place in a chain is near its head. Of equally old rows the later one is first.
    """
    new = 0
    for row in range(start, stop):
        if links[row] == NULL_KEY:
            continue
        at = _entry(table, hashes[row])
        head = table[at, HEAD]
        if head == NONE or ts[row] >= table[at, NEWEST]:
            new += head == NONE
            links[row] = head
            table[at, HASH], table[at, HEAD], table[at, NEWEST] = hashes[row], row, ts[row]
            continue
        while links[head] != NONE and ts[links[head]] > ts[row]:
            head = links[head]
        links[row] = links[head]
        links[head] = row
    return new


@compiled
def move_entries(old: Any, table: Any) -> None:  # pragma: no cover - compiled
    """Fill a larger table."""
    for i in range(len(old)):
        if old[i, HEAD] != NONE:
            at = _entry(table, old[i, HASH])
            for column in range(WIDTH):
                table[at, column] = old[i, column]


@compiled
def first_matches(table: Any, links: Any, ts: Any, hashes: Any, absent: Any, low: Any, high: Any) -> Any:  # pragma: no cover
    """The newest row with each hash that is not older than `low` nor newer than `high`; none where `absent`."""
    out = np.empty(len(hashes), np.int64)
    for i in range(len(hashes)):
        out[i] = NONE
        if absent[i]:
            continue
        at = _entry(table, hashes[i])
        row = table[at, HEAD]
        if row == NONE or table[at, NEWEST] < low[i]:
            continue
        if table[at, NEWEST] > high[i]:
            row = links[row]
            while row != NONE and ts[row] > high[i]:
                row = links[row]
            if row == NONE or ts[row] < low[i]:
                continue
        out[i] = row
    return out


@compiled
def chain_pairs(first: Any, links: Any, ts: Any, low: Any) -> Any:  # pragma: no cover - compiled
    """All rows of each chain from its first match on that are not older than `low`: (number of the chain, row) pairs."""
    count = 0
    for i in range(len(first)):
        row = first[i]
        while row != NONE and ts[row] >= low[i]:
            count += 1
            row = links[row]
    owners = np.empty(count, np.int64)
    rows = np.empty(count, np.int64)
    at = 0
    for i in range(len(first)):
        row = first[i]
        while row != NONE and ts[row] >= low[i]:
            owners[at], rows[at] = i, row
            at += 1
            row = links[row]
    return owners, rows
