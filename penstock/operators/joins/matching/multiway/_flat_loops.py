"""Compiled loops of a multiway join without paths: each probe is one pass, and only what passes it is written down.

What is probed is a row, or a pair of a row and a partner in the lead, the input that all paths go through. It is an entry of three
numbers: the place of the row in its batch, the row of the lead (-1 without lead), and its place among all entries. Of what a probe
drops a sample is kept, by the coin of the entry: a hash of the row's position and of how many partners came before in the lead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar._key_table import HEAD, NEWEST, NONE, NULL_KEY, STAMP, entry_of, later
from penstock.columnar.compiling import entrance
from penstock.columnar.hashing import mixed

_FEWEST = 1024


@entrance
def _finds(table: Any, stamp: int, links: Any, ts: Any, key: Any, low: Any, high: Any) -> Any:  # pragma: no cover - compiled
    """Whether a window has a row with this key in a span of time."""
    place = entry_of(table, stamp, key)
    if table[place, STAMP] != stamp or table[place, NEWEST] < low:
        return False
    if table[place, NEWEST] <= high:
        return True
    row = links[table[place, HEAD]]
    while row != NONE and ts[row] > high:
        row = links[row]
    return row != NONE and ts[row] >= low


@entrance
def _longer(entries: Any, count: int) -> Any:  # pragma: no cover - compiled
    """Room for one entry more."""
    if count < len(entries):
        return entries
    room = np.empty((2 * count, 3), np.int64)
    room[:count] = entries
    return room


@entrance
def probe_pairs(
    rows: Any, at: Any, coins: Any, starts: Any, first: Any, lead_links: Any, lead_ts: Any, lead_before: int, share: float,
    table: Any, stamp: int, links: Any, ts: Any, keys: Any, key_links: Any, has_nulls: bool, from_lead: bool,
    before: int, after: int,
) -> Any:  # fmt: skip  # pragma: no cover - compiled
    """The first probe of each pair of a row and a partner in the lead: what passes, a sample of the rest, how many there are.

    `first` is the newest partner of each row, -1 where it has none; the others follow by links. `starts` is filled with the
    place of each row's first pair.
    """
    passing, sample = np.empty((_FEWEST, 3), np.int64), np.empty((_FEWEST, 3), np.int64)
    passed, sampled, total = 0, 0, 0
    partners = np.empty(len(lead_ts), np.int64)
    for i in range(len(rows)):
        lead, oldest, count = first[i], later(at[i], -lead_before), 0
        # A chain is followed step by step, probes can overlap: together they would wait for each other.
        while lead != NONE and lead_ts[np.uint64(lead)] >= oldest:
            partners[count] = lead
            count += 1
            lead = lead_links[np.uint64(lead)]
        low, high = later(at[i], -before), later(at[i], after)
        starts[i] = total
        for k in range(count):
            start = partners[k] if from_lead else rows[i]
            is_null = has_nulls and key_links[start] == NULL_KEY
            if not is_null and _finds(table, stamp, links, ts, keys[np.uint64(start)], low, high):
                passing = _longer(passing, passed)
                passing[passed, 0], passing[passed, 1], passing[passed, 2] = i, partners[k], total + k
                passed += 1
            elif share > 0 and mixed(coins[i], k) / 2.0**63 < share:
                sample = _longer(sample, sampled)
                sample[sampled, 0], sample[sampled, 1], sample[sampled, 2] = i, partners[k], total + k
                sampled += 1
        total += count
    return passing[:passed], sample[:sampled], total


@entrance
def probe_entries(
    entries: Any, rows: Any, at: Any, coins: Any, starts: Any, share: float,
    table: Any, stamp: int, links: Any, ts: Any, keys: Any, key_links: Any, has_nulls: bool, from_lead: bool,
    before: int, after: int,
) -> Any:  # fmt: skip  # pragma: no cover - compiled
    """A further probe: the entries that pass, in the place of those given, and a sample of the rest."""
    sample = np.empty((_FEWEST, 3), np.int64)
    passed, sampled = 0, 0
    for k in range(len(entries)):
        i, lead = entries[k, 0], entries[k, 1]
        start = lead if from_lead else rows[i]
        low, high = later(at[i], -before), later(at[i], after)
        is_null = has_nulls and key_links[start] == NULL_KEY
        if not is_null and _finds(table, stamp, links, ts, keys[np.uint64(start)], low, high):
            entries[passed, 0], entries[passed, 1], entries[passed, 2] = i, lead, entries[k, 2]
            passed += 1
        elif share > 0 and mixed(coins[i], entries[k, 2] - starts[i]) / 2.0**63 < share:
            sample = _longer(sample, sampled)
            sample[sampled, 0], sample[sampled, 1], sample[sampled, 2] = i, lead, entries[k, 2]
            sampled += 1
    return entries[:passed], sample[:sampled]
