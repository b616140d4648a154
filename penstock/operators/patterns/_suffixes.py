"""Compiled: which bits of the classes of kept events no match can use any more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance
from penstock.model.elements import NEVER


class SuffixTables(NamedTuple):
    """Atoms that others must be followed by, numbered; `pairs` are an atom and the number of one that must follow it.

    Number g has types `[starts[g], starts[g + 1])`; of each, `forbidding` has the types after which none of it comes.
    """

    atoms: Any
    starts: Any
    forbidding: Any
    pairs: Any


@entrance
def cut_suffixes(  # pragma: no cover - compiled
    classes: Any, ts: Any, slots: Any, seen: Any, tables: SuffixTables, is_total: bool
) -> Any:
    """Take from the classes of kept events, by the slots of their traces, the bits of atoms whose successor cannot come.

    Returns
    -------
    how many bits were taken
    """
    count = len(tables.atoms)
    newest = np.full((len(seen), count), NEVER, np.int64)
    gone = np.full(len(seen), -1, np.int64)
    for row in range(len(classes)):
        slot = slots[row]
        if slot < 0:
            continue
        if gone[slot] < 0:
            gone[slot] = _gone(tables, seen[slot])
        for number in range(count if gone[slot] else 0):
            if (classes[row] >> tables.atoms[number]) & 1:
                newest[slot, number] = max(newest[slot, number], ts[row])
    taken = 0
    for row in range(len(classes)):
        slot = slots[row]
        if slot < 0 or not gone[slot]:
            continue
        for pair in range(len(tables.pairs)):
            atom, number = tables.pairs[pair, 0], tables.pairs[pair, 1]
            if not (classes[row] >> atom) & 1 or not (gone[slot] >> number) & 1:
                continue
            last = newest[slot, number]
            if ts[row] > last or (ts[row] == last and not is_total):
                classes[row] &= ~(np.int64(1) << atom)
                taken += 1
    return taken


@compiled
def _gone(tables: SuffixTables, seen: Any) -> Any:  # pragma: no cover - compiled
    """Numbers of the atoms for which no event can come after these types, as bits."""
    found = np.int64(0)
    for number in range(len(tables.atoms)):
        is_gone = True
        for at in range(tables.starts[number], tables.starts[number + 1]):
            is_forbidden = False
            for word in range(len(seen)):
                is_forbidden = is_forbidden or np.uint64(seen[word]) & tables.forbidding[at, word] != np.uint64(0)
            is_gone = is_gone and is_forbidden
        found |= np.int64(is_gone) << number
    return found
