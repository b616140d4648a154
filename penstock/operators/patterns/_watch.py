"""Compiled: new events against the traces under watch, and what that means for the search; all in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance, inlined
from penstock.columnar.word_sets import added, common, differs, has, is_within, load, meets, store, union
from penstock.operators.patterns._constraints import (
    ENDED,
    EXHAUSTED,
    FAILED,
    LIVE,
    TOO_LATE,
    blame,
    broken_by,
    failed_with,
    has_future,
    matched_by,
    settled,
)
from penstock.operators.patterns._traces import HOPELESS, MOVED, UNMATCHED
from penstock.operators.patterns.tables import TERMINAL


class NewEvents(NamedTuple):
    """Events by trace: those of a trace in order of time, simultaneous ones side by side and of equal rank.

    Attributes
    ----------
    rows, slots, rank, kinds
        Of each event: its row, its trace, its group, its type.
    passed
        Leaves whose own conditions each event meets.
    ts, classes
        Of each row.
    refuted
        Whether somebody has proved that no match comes of the trace after the group an event begins; or empty.
    """

    rows: Any
    slots: Any
    rank: Any
    kinds: Any
    passed: Any
    ts: Any
    classes: Any
    refuted: Any


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


class WatchRules(NamedTuple):
    """What does not change: failing conditions, leaves by type, bits of all leaves and of those whose events must not come too
    late, and whether traces can be exhausted. `tally` is where traces that fail are counted, see `TraceStates`.
    """

    tables: Any
    leaves: LeafTables
    every: int
    guarded: int
    exhaustion: bool
    tally: Any


class Findings(NamedTuple):
    """What a pass writes down.

    Attributes
    ----------
    before, after, broken, earlier
        Of each event: status of its trace before and after its group, what it breaks, types seen before the group.
    masked, early
        For each row bits of its class that are of no use any more, and those that are of none yet.
    told
        What is told of each trace of new events, with a last entry for no trace.
    ended, ended_before, ended_at
        Traces whose last event came: slot, status before its group, and its time.
    failing, then
        First events of groups that fail a trace, with partitions failed and terms alive before.
    """

    before: Any
    after: Any
    broken: Any
    earlier: Any
    masked: Any
    early: Any
    told: Any
    ended: Any
    ended_before: Any
    ended_at: Any
    failing: Any
    then: Any


def new_findings(events: int, rows: int, traces: int, words: int) -> Findings:
    """Room for what is found."""
    before, after, broken, ended_before = (np.empty(events, np.uint8) for _ in range(4))
    ended, ended_at, failing = (np.empty(events, np.int64) for _ in range(3))
    masked, early, told = np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(traces + 1, np.uint8)
    earlier, then = np.empty((events, words), np.uint64), np.empty((2 * events, words), np.uint64)
    return Findings(before, after, broken, earlier, masked, early, told, ended, ended_before, ended_at, failing, then)


@entrance
def watch_events(events: NewEvents, states: Any, rules: WatchRules, found: Findings) -> Any:  # pragma: no cover - compiled
    """Apply new events to their traces.

    Returns
    -------
    traces ended, events of traces that were given up, traces that failed and were exhausted, leaves probed
    """
    return _watch(events, states, rules, found)


@compiled
def _watch(events: NewEvents, states: Any, rules: WatchRules, found: Findings) -> Any:  # pragma: no cover - compiled
    ended, skipped, failures, exhausted, probes = 0, 0, 0, 0, 0
    tables, none = rules.tables, rules.tables.none
    start, number = 0, len(events.slots)
    while start < number:
        slot, rank, stop = events.slots[start], events.rank[start], start + 1
        while stop < number and events.slots[stop] == slot and events.rank[stop] == rank:
            stop += 1
        before, seen = states.status[slot], load(states.seen, slot, none)
        matched, lost = load(states.matched, slot, none), load(states.failed, slot, none)
        types, passed, is_over = none, none, False
        for event in range(start, stop):
            kind = events.kinds[event]
            types = added(types, kind)
            passed = union(passed, common(load(events.passed, event, none), load(tables.of_type, kind, none)))
            is_over |= events.classes[events.rows[event]] & TERMINAL != 0
        for event in range(start, stop):
            found.before[event] = before
            store(found.earlier, event, seen)
            found.broken[event] = broken_by(tables.exclusive, tables.order, events.kinds[event], seen, types)
            _limit(events, rules, event, before, matched, lost, found)
        if before == LIVE:
            probes += (stop - start) * _probed(rules.leaves, matched, lost)
        else:
            skipped += stop - start
        is_refuted = len(events.refuted) > 0 and events.refuted[start]
        if before == LIVE:
            # What fails a trace is looked up behind the loop, which the many arrays of that would slow down.
            store(found.then, 2 * failures, lost)
            store(found.then, 2 * failures + 1, load(states.alive, slot, none))
        if before != ENDED:
            _apply(tables, rules.exhaustion, events, start, stop, states, slot, types, passed, is_refuted)
        after = states.status[slot]
        found.after[start:stop] = after
        if before == LIVE:
            if after in (EXHAUSTED, ENDED) or differs(lost, load(states.failed, slot, none)):
                found.told[slot] |= MOVED
            exhausted += int(after == EXHAUSTED)
            if after == FAILED:
                found.failing[failures] = start
                failures += 1
        if is_over or (after == ENDED and before != ENDED):
            found.ended[ended], found.ended_before[ended] = slot, before
            found.ended_at[ended] = events.ts[events.rows[start]]
            ended += 1
        start = stop
    for one in range(failures):
        _blame(events, states, rules, found, one)
    return ended, skipped, failures, exhausted, probes


@inlined
def _apply(  # pragma: no cover - compiled
    tables: Any,
    exhaustion: bool,
    events: NewEvents,
    start: int,
    stop: int,
    states: Any,
    slot: int,
    types: Any,
    passed: Any,
    is_refuted: bool,
) -> None:
    """Apply simultaneous events to a trace that has not ended: match first, then ask the tables."""
    earlier = load(states.seen, slot, types)
    seen = union(earlier, types)
    store(states.seen, slot, seen)
    if states.status[slot] == LIVE:
        held = load(states.matched, slot, types)
        matched = matched_by(tables.before, tables.leaves, tables.disjunction, passed, held)
        store(states.matched, slot, matched)
        had_match = states.had_match[slot] or is_within(load(tables.leaves, 0, matched), matched)
        states.had_match[slot] = had_match
        lost, hoped = load(states.failed, slot, types), load(states.alive, slot, types)
        failed, alive = lost, hoped
        if meets(types, tables.triggers):
            for event in range(start, stop):
                failed, alive = failed_with(tables, events.kinds[event], seen, matched, failed, alive)
        if is_refuted and not had_match:
            failed = added(failed, 0)
        is_moved = differs(failed, lost) or differs(alive, hoped)
        if is_moved:
            failed, alive = settled(tables.parent, tables.disjunction, tables.terms, failed, alive)
            store(states.failed, slot, failed)
            store(states.alive, slot, alive)
        is_given_up = has(failed, 0)
        # Nothing new can be said of the end of matches while nothing has changed.
        if not is_given_up and exhaustion and had_match and (is_moved or differs(matched, held) or differs(seen, earlier)):
            is_given_up = not has_future(tables.leaf_type, tables.order, tables.sinks, seen, failed)
        if is_given_up:
            states.status[slot] = EXHAUSTED if had_match else FAILED
    if meets(types, tables.terminals):
        states.status[slot] = ENDED


@inlined
def _probed(leaves: LeafTables, matched: Any, failed: Any) -> Any:  # pragma: no cover - compiled
    """How many leaves of a live trace an event is offered to: all that have what must come before them, whatever their type."""
    count: Any = 0
    if len(leaves.enabled):
        place = np.int64(matched[0]) | np.int64(failed[0]) >> 1 << leaves.width
        count = np.int64(leaves.enabled[place & (len(leaves.enabled) - 1)])
    else:
        for at in range(len(leaves.before)):
            is_failed = leaves.partitions[at] >= 0 and has(failed, leaves.partitions[at])
            if not is_failed and is_within(load(leaves.before, at, matched), matched):
                count += 1
    return count


@inlined
def _limit(  # pragma: no cover - compiled
    events: NewEvents, rules: WatchRules, event: int, status: int, matched: Any, failed: Any, found: Findings
) -> None:
    """Bits of a row's class that are of no use any more, or of none yet."""
    row, kind = events.rows[event], events.kinds[event]
    bits = events.classes[row] & rules.every
    if status != LIVE:
        found.masked[row] = bits
    if found.broken[event] & TOO_LATE:
        found.masked[row] |= bits & rules.guarded
    leaves = rules.leaves
    for at in range(leaves.starts[kind], leaves.starts[kind + 1] if bits else 0):
        bit = bits & np.int64(1) << leaves.atoms[at]
        if leaves.partitions[at] >= 0 and has(failed, leaves.partitions[at]):
            found.masked[row] |= bit
        if not is_within(load(leaves.before, at, matched), matched):
            found.early[row] |= bit


@compiled
def _blame(events: NewEvents, states: Any, rules: WatchRules, found: Findings, one: int) -> None:  # pragma: no cover - compiled
    """Count a trace that failed with a group."""
    start = found.failing[one]
    slot, stop, seen = events.slots[start], start, load(found.earlier, start, rules.tables.none)
    while stop < len(events.slots) and events.slots[stop] == slot and events.rank[stop] == events.rank[start]:
        seen = added(seen, events.kinds[stop])
        stop += 1
    matched = load(states.matched, slot, seen)
    lost, hoped = load(found.then, 2 * one, seen), load(found.then, 2 * one + 1, seen)
    blame(rules.tables, events.kinds, start, stop, seen, matched, lost, hoped, rules.tally)


@entrance
def judge_traces(slots: Any, is_over: Any, states: Any, told: Any) -> None:  # pragma: no cover - compiled
    """Tell of the traces of new events which have not matched, and which of those never will."""
    for slot in slots:
        if not states.had_match[slot]:
            is_hopeless = is_over[slot] or states.status[slot] == ENDED or (states.failed[slot, 0] & 1) != 0
            told[slot] |= UNMATCHED | (HOPELESS if is_hopeless else 0)


@entrance
def unfold(events: NewEvents, tables: Any, states: Any, seen: Any, matched: Any) -> None:  # pragma: no cover - compiled
    """Put for each event the types seen and leaves matched after its group, as if no trace were ever given up."""
    none = tables.none
    types, leaves, start = none, none, 0
    while start < len(events.slots):
        slot, stop, passed = events.slots[start], start, none
        if start == 0 or slot != events.slots[start - 1]:
            types, leaves = load(states.seen, slot, none), load(states.matched, slot, none)
        while stop < len(events.slots) and events.slots[stop] == slot and events.rank[stop] == events.rank[start]:
            types = added(types, events.kinds[stop])
            passed = union(passed, common(load(events.passed, stop, none), load(tables.of_type, events.kinds[stop], none)))
            stop += 1
        leaves = matched_by(tables.before, tables.leaves, tables.disjunction, passed, leaves)
        for event in range(start, stop):
            store(seen, event, types)
            store(matched, event, leaves)
        start = stop
