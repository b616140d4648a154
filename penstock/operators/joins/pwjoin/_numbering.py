"""Hashes to places in a book of keys."""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin._compiled import entry


@entry
def number_keys(hashes: Any, table: Any, known: Any, number: Any, places: Any, first: Any) -> Any:
    """Find each hash in the table of known ones, or append it; returns how many are known then.

    `first` gets the row of each new hash, in the order they are appended.
    """
    mask = len(table) - 1
    start = number
    for row in range(len(hashes)):
        slot = hashes[row] & mask
        while table[slot] >= 0 and known[table[slot]] != hashes[row]:
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = number
            known[number] = hashes[row]
            first[number - start] = row
            number += 1
        places[row] = table[slot]
    return number


@entry
def fill(table: Any, known: Any) -> None:
    """Put known hashes into an empty table."""
    mask = len(table) - 1
    for place in range(len(known)):
        slot = known[place] & mask
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = place
