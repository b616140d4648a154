"""Numbers of matches that follow from their events, whoever found them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import hash_columns, mix_positions
from penstock.model.batch import Batch, Int64s
from penstock.operators.patterns._events import hash_matches


def match_ids(starts: Int64s, atoms: Int64s, rows: Int64s, stored: Batch, names: Sequence[str]) -> Int64s:
    """A number for each match, made of the times and some columns of its events and of the atoms that took them.

    Positions are left out: each host counts them in its own way, and the same rows shall have the same matches everywhere.
    Matches that differ in nothing that is shown have the same events time by time, so they are decided together; here they
    are told apart by counting.

    Parameters
    ----------
    starts, atoms, rows
        Match m takes rows `rows[starts[m] : starts[m + 1]]` of `stored` at the atoms beside them.
    names
        Columns of the events that tell them apart: keys and whatever is shown.

    Examples
    --------
    >>> stored = Batch(pa.RecordBatch.from_pydict({"id": [7, 7, 8, 8, 8]}), np.array([1, 2, 1, 2, 2]), np.arange(5))
    >>> taken = np.array([0, 1, 2, 3, 2, 4])
    >>> ids = match_ids(np.array([0, 2, 4, 6]), np.array([0, 1, 0, 1, 0, 1]), taken, stored, ["id"])
    >>> len(set(ids.tolist()))
    3
    >>> again = Batch(stored.rows, stored.ts, stored.pos + 100)
    >>> bool((match_ids(np.array([0, 2]), np.array([0, 1]), taken[:2], again, ["id"]) == ids[:1]).all())
    True
    """
    if len(rows) < stored.num_rows:
        return _told_apart(hash_matches(starts, atoms, _identities(rows, stored, names)))
    # Lists share events.
    return _told_apart(hash_matches(starts, atoms, _identities(np.arange(stored.num_rows), stored, names)[rows]))


def _identities(rows: Int64s, stored: Batch, names: Sequence[str]) -> Int64s:
    # All columns in one call: a call costs more than the few rows of most answers.
    taken = stored.rows.select(list(names)).take(pa.array(rows))
    return hash_columns([pa.array(stored.ts[rows]), *taken.columns], len(rows)).view(np.int64)


def _told_apart(ids: Int64s) -> Int64s:
    """The numbers, of which equal ones are made different."""
    order = np.argsort(ids, kind="stable")
    repeats = np.concatenate([[False], ids[order][1:] == ids[order][:-1]])
    if not repeats.any():
        return ids
    places = np.arange(len(ids))
    nth = places - np.maximum.accumulate(np.where(repeats, 0, places))
    again = order[repeats]
    different = ids.copy()
    different[again] = mix_positions(ids[again], nth[repeats])
    return different
