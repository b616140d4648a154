"""Compiled loops of a key table: a hash table whose entries lead to chains of rows, newest first.

A key is a word of 64 bits: the value itself where it fits, else its hash. An entry of the table holds a key, the newest row with
it and that row's time: a probe that only asks whether a partner exists reads one entry in most cases. From each row a link leads
to the next older one with the same key. An entry counts only if it bears the present stamp, so that a table is emptied by
changing the stamp.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import entrance

#: Columns of the table.
KEY, HEAD, NEWEST, STAMP, WIDTH = 0, 1, 2, 3, 4
#: No row: the end of a chain, no match.
NONE = -1
#: Link of a row whose key is NULL: it is in no chain and matches nothing.
NULL_KEY = -2

_LEAST, _GREATEST = -(2**63), 2**63 - 1


@entrance
def entry_of(table: Any, stamp: int, key: Any) -> Any:  # pragma: no cover - compiled
    """Where a key stands in the table, or the empty entry where it belongs.

    The place is unsigned: of other numbers Numba asks whether they count from the end.
    """
    mask = np.uint64(len(table) - 1)
    word = np.uint64(key)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    at = (word >> np.uint64(31)) & mask
    while table[at, STAMP] == stamp and table[at, KEY] != key:
        at = (at + np.uint64(1)) & mask
    return at


@entrance
def insert_rows(
    table: Any, stamp: int, links: Any, ts: Any, keys: Any, start: int, stop: int
) -> int:  # pragma: no cover - compiled
    """Put rows into their chains and return how many entries are new; the table must have room for them.

    Rows come nearly in the order of time, so the place in a chain is near its head. Of equally old rows the later one is first.
    """
    new = 0
    for row in range(start, stop):
        if links[row] == NULL_KEY:
            continue
        at = entry_of(table, stamp, keys[row])
        is_new = table[at, STAMP] != stamp
        if is_new or ts[row] >= table[at, NEWEST]:
            new += is_new
            links[row] = NONE if is_new else table[at, HEAD]
            table[at, KEY], table[at, HEAD], table[at, NEWEST], table[at, STAMP] = keys[row], row, ts[row], stamp
            continue
        head = table[at, HEAD]
        while links[head] != NONE and ts[links[head]] > ts[row]:
            head = links[head]
        links[row] = links[head]
        links[head] = row
    return new


@entrance
def move_entries(old: Any, stamp: int, table: Any) -> None:  # pragma: no cover - compiled
    """Fill a larger table."""
    for i in range(len(old)):
        if old[i, STAMP] == stamp:
            at = entry_of(table, stamp, old[i, KEY])
            for column in range(WIDTH):
                table[at, column] = old[i, column]


@entrance
def later(at: Any, distance: Any) -> Any:  # pragma: no cover - compiled
    """`at + distance` within 64 bits: windows may be infinite."""
    if distance >= 0:
        return _GREATEST if at > _GREATEST - distance else at + distance
    return _LEAST if at < _LEAST - distance else at + distance


@entrance
def first_matches(
    table: Any, stamp: int, links: Any, ts: Any, keys: Any, key_links: Any, rows: Any, at: Any, before: int, after: int
) -> Any:  # pragma: no cover - compiled
    """For each of some rows of another window the newest partner from `before` before to `after` after a moment, or none.

    `keys` and `key_links` are the keys and links of all rows of that other window.
    """
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        out[i] = NONE
        if key_links[rows[i]] == NULL_KEY:
            continue
        place = entry_of(table, stamp, keys[rows[i]])
        low = later(at[i], -before)
        if table[place, STAMP] != stamp or table[place, NEWEST] < low:
            continue
        row = table[place, HEAD]
        high = later(at[i], after)
        if table[place, NEWEST] > high:
            row = links[row]
            while row != NONE and ts[row] > high:
                row = links[row]
            if row == NONE or ts[row] < low:
                continue
        out[i] = row
    return out


@entrance
def chain_pairs(first: Any, links: Any, ts: Any, at: Any, before: int) -> Any:  # pragma: no cover - compiled
    """All rows of each chain from its first match on, up to `before` before a moment: (number of the chain, row) pairs."""
    count = 0
    for i in range(len(first)):
        row, low = first[i], later(at[i], -before)
        while row != NONE and ts[row] >= low:
            count += 1
            row = links[row]
    owners = np.empty(count, np.int64)
    rows = np.empty(count, np.int64)
    place = 0
    for i in range(len(first)):
        row, low = first[i], later(at[i], -before)
        while row != NONE and ts[row] >= low:
            owners[place], rows[place] = i, row
            place += 1
            row = links[row]
    return owners, rows
