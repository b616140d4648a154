"""Compiled: which trace each new event belongs to, and which of the rows the search must see."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance, inlined
from penstock.operators.patterns.tables import NAMED, TERMINAL

#: What is told of a trace: no match can come of it, none has come of it, its kept events are to be looked at again.
HOPELESS, UNMATCHED, MOVED = 1, 2, 4

_MIX = np.uint64(0x9E3779B97F4A7C15)


class KeyedTraces(NamedTuple):
    """The table of traces with room for new ones: index by key, and by slot the key, whether it is over, its last event.

    Where no silence ends a trace `last` may be empty.
    """

    places: Any
    keys: Any
    is_over: Any
    last: Any


class TraceEnds(NamedTuple):
    """What ends a trace beside an event of a terminal type.

    Attributes
    ----------
    ttl
        Silence that does, or negative.
    breaks
        Only events with one of these bits in their class break a silence; negative: all.
    is_total
        Whether every event is a group for itself.
    """

    ttl: int
    breaks: int
    is_total: bool


class Placed(NamedTuple):
    """Traces of events: slot and group of each, rows that start a trace, slots of traces that fell silent."""

    slots: Any
    rank: Any
    first: Any
    silent: Any


@inlined
def place_of(places: Any, values: Any, key: Any) -> Any:  # pragma: no cover - compiled
    """Where the index has a key, or has room for it."""
    mask = len(places) - 1
    place = np.int64((np.uint64(key) * _MIX) >> np.uint64(32)) & mask
    while places[place] >= 0 and values[places[place]] != key:
        place = (place + 1) & mask
    return place


@entrance
def index_slots(places: Any, values: Any, is_over: Any) -> None:  # pragma: no cover - compiled
    """Enter the slots of traces that are not over."""
    for slot in range(len(is_over)):
        if not is_over[slot]:
            places[place_of(places, values, values[slot])] = slot


@entrance
def by_moment(rows: Any, ts: Any, keys: Any) -> Any:  # pragma: no cover - compiled
    """Rows, given in order of time, with simultaneous ones of one key side by side and otherwise in their order."""
    order = rows.copy()
    start = 0
    while start < len(rows):
        stop = start + 1
        while stop < len(rows) and ts[rows[stop]] == ts[rows[start]]:
            stop += 1
        if stop - start > 2:
            order[start:stop] = rows[start:stop][np.argsort(keys[rows[start:stop]], kind="mergesort")]
        start = stop
    return order


@entrance
def place_events(  # pragma: no cover - compiled
    rows: Any, ts: Any, keys: Any, classes: Any, traces: KeyedTraces, ends: TraceEnds, placed: Placed, size: int, progress: Any
) -> None:
    """Find the trace of each event; a key without trace, or whose trace has ended, gets the next slot.

    Parameters
    ----------
    rows
        Of each event, in order of time, simultaneous ones of one key side by side.
    size
        Slots there were before the first event.
    progress
        Events placed, traces started and traces fallen silent. Stops early when there is no room for another trace, to go on later.
    """
    _place(rows, ts, keys, classes, traces, ends, placed, size, progress)


@compiled
def _place(  # pragma: no cover - compiled
    rows: Any, ts: Any, keys: Any, classes: Any, traces: KeyedTraces, ends: TraceEnds, placed: Placed, size: int, progress: Any
) -> None:
    places, values, is_over, last = traces
    slots, rank, first, silent = placed
    number = size + progress[1]
    for event in range(progress[0], len(rows)):
        row = rows[event]
        key, now = keys[row], ts[row]
        if event and not ends.is_total and now == ts[rows[event - 1]] and key == keys[rows[event - 1]]:
            slot, rank[event] = slots[event - 1], rank[event - 1]
        else:
            rank[event] = event
            place = place_of(places, values, key)
            slot = np.int64(places[place])
            is_silent = slot >= 0 and ends.ttl >= 0 and not is_over[slot] and now - last[slot] > ends.ttl
            if slot < 0 or is_silent or is_over[slot]:
                if number == len(is_over):
                    progress[0], progress[1] = event, number - size
                    return
                if is_silent:
                    is_over[slot], silent[progress[2]] = True, slot
                    progress[2] += 1
                slot = number
                places[place], values[slot], is_over[slot], first[slot - size] = slot, key, False, row
                if ends.ttl >= 0:
                    last[slot] = now
                number += 1
        if ends.ttl >= 0 and (ends.breaks < 0 or classes[row] & ends.breaks):
            last[slot] = now
        if classes[row] & TERMINAL:
            is_over[slot] = True
        slots[event] = slot
    progress[0], progress[1] = len(rows), number - size


@entrance
def sift(  # pragma: no cover - compiled
    classes: Any, masked: Any, early: Any, slots: Any, told: Any, ignored: int, may_rest: bool
) -> Any:
    """Take what is of no use from the classes of new rows; which rows are to be searched, and which only to be kept.

    Parameters
    ----------
    ignored
        Bits of a class that alone are no reason to look at a row; negative: every row is looked at.
    may_rest
        Whether rows of traces that have not matched yet need only be kept, where a leaf can take them.
    """
    searched, resting = np.empty(len(classes), np.int64), np.empty(len(classes), np.int64)
    looked_at, kept = 0, 0
    for row in range(len(classes)):
        classes[row] &= ~masked[row]
        found = told[slots[row]]
        if found & HOPELESS or (ignored >= 0 and not classes[row] & ~ignored):
            continue
        if not may_rest or not found & UNMATCHED:
            searched[looked_at] = row
            looked_at += 1
        elif classes[row] & ~(early[row] | NAMED | TERMINAL):
            classes[row] &= ~early[row]
            resting[kept] = row
            kept += 1
    return searched[:looked_at], resting[:kept]
