"""Compiled: which trace each new event belongs to, and what the reasoner's verdict means for its class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance, inlined
from penstock.metadata.constraints._loops import ENDED, EXHAUSTED, FAILED, LIVE, TOO_LATE
from penstock.operators.patterns.tables import NAMED, TERMINAL

#: What is told of a trace: no match can come of it, none has come of it, its kept events are to be looked at again.
HOPELESS, UNMATCHED, MOVED = 1, 2, 4

_MIX = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)


class Cut(NamedTuple):
    """New events in order of trace and time, and the parts of traces they make.

    `slots` and `rank` are those of events, simultaneous ones having one rank. Of each part: its slot, its first and last event,
    the time of the trace's last event, and whether the trace ends in it. `extra` are rows that start a trace after another one
    of the same key; their slots are the highest.
    """

    slots: Any
    rank: Any
    part_slots: Any
    first: Any
    last: Any
    last_ts: Any
    ended: Any
    extra: Any


class LeafTables(NamedTuple):
    """Leaves of the reasoner by type: those of type k are `[starts[k], starts[k + 1])`; atom, branch or -1, leaves before.

    `enabled` tells how many leaves take events, given which are matched and which branches failed; no rows: that is to be counted.
    `width` is the number of leaves, those that stand for alternatives too.
    """

    starts: Any
    atoms: Any
    partitions: Any
    before: Any
    enabled: Any
    width: int


@inlined
def probed(leaves: LeafTables, matched: Any, failed: Any) -> Any:  # pragma: no cover - compiled
    """How many leaves of a live trace an event is offered to: all that have what must come before them, whatever their type."""
    count: Any = 0
    if len(leaves.enabled):
        place = matched | failed >> _ONE << np.uint64(leaves.width)
        count = np.int64(leaves.enabled[np.int64(place) & (len(leaves.enabled) - 1)])
    else:
        for at in range(len(leaves.before)):
            is_failed = leaves.partitions[at] >= 0 and (failed >> np.uint64(leaves.partitions[at])) & _ONE != np.uint64(0)
            if not is_failed and not leaves.before[at] & ~matched:
                count += 1
    return count


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
def find_slots(keys: Any, places: Any, values: Any, is_over: Any, slots: Any, first: Any) -> Any:  # pragma: no cover - compiled
    """Put the slot of each row's key. A key without trace gets the next one; `first` are the rows that start a trace."""
    return _find(keys, places, values, is_over, slots, first)


@compiled
def _find(keys: Any, places: Any, values: Any, is_over: Any, slots: Any, first: Any) -> Any:  # pragma: no cover - compiled
    known = len(is_over)
    number = known
    for row in range(len(keys)):
        place = place_of(places, values, keys[row])
        slot = places[place]
        if slot < 0 or (slot < known and is_over[slot]):
            slot = number
            places[place], values[slot], first[slot - known] = slot, keys[row], row
            number += 1
        slots[row] = slot
    return number - known


@entrance
def move_keys(keys: Any, places: Any, values: Any, first_slot: int) -> None:  # pragma: no cover - compiled
    """Give keys that have a trace another one."""
    for number in range(len(keys)):
        places[place_of(places, values, keys[number])] = first_slot + number
        values[first_slot + number] = keys[number]


@entrance
def cut_traces(  # pragma: no cover - compiled
    order: Any, found: Any, ts: Any, classes: Any, lasts: Any, number: int, ttl: int, breaks: int, is_total: bool
) -> Any:
    """New events cut into traces as `split_traces` does, where a key may have a trace that goes on.

    Parameters
    ----------
    order, found
        Rows by slot and time, and the slot of each row's key: that of its trace, or a new one.
    lasts, number
        Time of the last event of each trace there is, and slots after those of all keys.
    ttl, breaks
        Silence that ends a trace, or negative; only events with one of the bits `breaks` in their class break it, negative: all.
    """
    events = len(order)
    slots, rank = np.empty(events, np.int64), np.empty(events, np.int64)
    part_slots, first, last = np.empty(events, np.int64), np.empty(events, np.int64), np.empty(events, np.int64)
    last_ts, ended, extra = np.empty(events, np.int64), np.zeros(events, np.bool_), np.empty(events, np.int64)
    cut = Cut(slots, rank, part_slots, first, last, last_ts, ended, extra)
    parts, extras = _cut(order, found, ts, classes, lasts, number, ttl, breaks, is_total, cut)
    return Cut(slots, rank, part_slots[:parts], first[:parts], last[:parts], last_ts[:parts], ended[:parts], extra[:extras])


@compiled
def _cut(  # pragma: no cover - compiled
    order: Any, found: Any, ts: Any, classes: Any, lasts: Any, number: int, ttl: int, breaks: int, is_total: bool, cut: Cut
) -> Any:
    slots, rank, part_slots, first, last, last_ts, ended, extra = cut
    known, part, extras, finished = len(lasts), -1, 0, False
    for i in range(len(order)):
        row = order[i]
        slot, now = found[row], ts[row]
        is_next = i == 0 or slot != found[order[i - 1]]
        rank[i] = rank[i - 1] if not (is_next or is_total) and now == ts[order[i - 1]] else i
        is_silent = not is_next and ttl >= 0 and now - last_ts[part] > ttl
        if is_next or is_silent or (finished and rank[i] != rank[i - 1]):
            if is_silent:
                ended[part] = True
            goes_on = is_next and slot < known and not (ttl >= 0 and now - lasts[slot] > ttl)
            part += 1
            first[part], finished = i, False
            last_ts[part] = lasts[slot] if goes_on else now
            part_slots[part] = slot
            if not goes_on and not (is_next and slot >= known):
                part_slots[part], extra[extras] = number + extras, row
                extras += 1
        slots[i], last[part] = part_slots[part], i
        if ttl < 0 or breaks < 0 or classes[row] & breaks:
            last_ts[part] = now
        if classes[row] & TERMINAL:
            finished, ended[part] = True, True
    return part + 1, extras


@entrance
def read_verdict(  # pragma: no cover - compiled
    order: Any,
    slots: Any,
    classes: Any,
    kinds: Any,
    leaves: LeafTables,
    every: int,
    guarded: int,
    outcome: Any,
    masked: Any,
    early: Any,
) -> Any:
    """Put the bits of each row's class that are of no use any more, or of none yet, where its row is.

    Returns
    -------
    events of traces that were given up, traces that failed and were exhausted now, and leaves that events were offered to
    """
    return _read(order, slots, classes, kinds, leaves, every, guarded, outcome, masked, early)


@compiled
def _read(  # pragma: no cover - compiled
    order: Any,
    slots: Any,
    classes: Any,
    kinds: Any,
    leaves: LeafTables,
    every: int,
    guarded: int,
    outcome: Any,
    masked: Any,
    early: Any,
) -> Any:
    before, after, failing, held = outcome.before, outcome.after, outcome.failing, outcome.matched
    skipped, failed, exhausted, probes, counted = 0, 0, 0, 0, -1
    for i in range(len(order)):
        row = order[i]
        bits = classes[row] & every
        if before[i] != LIVE:
            skipped += 1
            masked[row] = bits
        elif before[i] == LIVE and after[i] != LIVE and slots[i] != counted:
            counted = slots[i]
            failed += int(after[i] == FAILED)
            exhausted += int(after[i] == EXHAUSTED)
        if before[i] == LIVE:
            probes += probed(leaves, held[i, 0], failing[i, 0])
        if outcome.broken[i] & TOO_LATE:
            masked[row] |= bits & guarded
        if bits:
            for at in range(leaves.starts[kinds[row]], leaves.starts[kinds[row] + 1]):
                bit = bits & np.int64(1) << leaves.atoms[at]
                if leaves.partitions[at] >= 0 and (failing[i, 0] >> np.uint64(leaves.partitions[at])) & _ONE:
                    masked[row] |= bit
                if leaves.before[at] & ~held[i, 0]:
                    early[row] |= bit
    return skipped, failed, exhausted, probes


@entrance
def judge(cut: Cut, bank: Any, outcome: Any) -> Any:  # pragma: no cover - compiled
    """What is told of the traces of new events, by slot, with a last entry for no trace; nothing is told of the others."""
    told = np.zeros(len(bank.status) + 1, np.uint8)
    _judge(cut, bank, outcome, told)
    return told


@compiled
def _judge(cut: Cut, bank: Any, outcome: Any, told: Any) -> None:  # pragma: no cover - compiled
    for part in range(len(cut.part_slots)):
        slot, first = cut.part_slots[part], cut.first[part]
        is_moved = outcome.before[first] == LIVE and (bank.status[slot] == EXHAUSTED or bank.status[slot] == ENDED)
        for word in range(bank.failed.shape[1]):
            is_moved = is_moved or outcome.failing[first, word] != bank.failed[slot, word]
        if is_moved:
            told[slot] |= MOVED
        if not bank.had_match[slot]:
            is_hopeless = cut.ended[part] or bank.status[slot] == ENDED or bank.failed[slot, 0] & _ONE != np.uint64(0)
            told[slot] |= UNMATCHED | (HOPELESS if is_hopeless else 0)


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
