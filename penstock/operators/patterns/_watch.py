"""Compiled: new events against the traces under watch in one pass, where no two are simultaneous and sets fit one word.

What is done here in one loop is otherwise done by `cut_traces`, `follow_all`, `read_verdict` and `judge`, one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance, inlined
from penstock.metadata.constraints._loops import CONTRADICTS, ENDED, EXHAUSTED, FAILED, LIVE, TOO_LATE
from penstock.metadata.constraints._narrow_loops import (
    narrow_asked,
    narrow_blame,
    narrow_concluded,
    narrow_matched,
)
from penstock.operators.patterns._traces import HOPELESS, MOVED, UNMATCHED, place_of, probed
from penstock.operators.patterns.tables import TERMINAL

_ONE, _NONE = np.uint64(1), np.uint64(0)


class NewRows(NamedTuple):
    """Rows in order of time: key, type, class, time, and leaves whose conditions each meets."""

    keys: Any
    kinds: Any
    classes: Any
    ts: Any
    passed: Any


class Traces(NamedTuple):
    """The table of traces, with room for new ones: index and keys, whether each is over, its last event; see `TraceIndex`."""

    places: Any
    values: Any
    is_over: Any
    last: Any
    bank: Any
    #: The state of a trace without events.
    start: Any


class Rules(NamedTuple):
    """What does not change: failing conditions, leaves by type, bits of all leaves and of those whose events must not come too
    late, and whether traces can be exhausted. `tally` is where traces that fail are counted, see `TraceBank`.
    """

    tables: Any
    leaves: Any
    every: int
    guarded: int
    exhaustion: bool
    tally: Any


class Findings(NamedTuple):
    """What a pass writes down, for each row: slot, bits lost and early, status before and after, types before, what it breaks.

    `told` goes by slot; `first` are rows that start a trace, `ended` slots of traces that ended or are over, with the status
    before, `failing` rows that fail a trace, with branches failed and terms alive before it, and types gone `then`.
    """

    slots: Any
    masked: Any
    early: Any
    before: Any
    after: Any
    earlier: Any
    broken: Any
    told: Any
    first: Any
    ended: Any
    ended_before: Any
    failing: Any
    then: Any


def new_findings(rows: int, size: int) -> Findings:
    """Room for what is found about so many rows and traces."""
    slots, first, ended, failing = (np.empty(rows, np.int64) for _ in range(4))
    masked, early = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    before, after, broken, ended_before = (np.empty(rows, np.uint8) for _ in range(4))
    earlier, then, told = np.empty((rows, 1), np.uint64), np.empty((rows, 3), np.uint64), np.zeros(size + rows + 1, np.uint8)
    return Findings(slots, masked, early, before, after, earlier, broken, told, first, ended, ended_before, failing, then)


@entrance
def watch_rows(rows: NewRows, traces: Traces, rules: Rules, size: int, found: Findings) -> Any:  # pragma: no cover - compiled
    """Take in new rows.

    Returns
    -------
    traces started and ended, events of traces that were given up, traces that failed and were exhausted, leaves probed
    """
    return _watch(rows, traces, rules, size, found)


@compiled
def _watch(rows: NewRows, traces: Traces, rules: Rules, size: int, found: Findings) -> Any:  # pragma: no cover - compiled
    number, ended, skipped, failed, exhausted, probes = size, 0, 0, 0, 0, 0
    bank, values, places, is_over = traces.bank, traces.values, traces.places, traces.is_over
    for row in range(len(rows.keys)):
        place = place_of(places, values, rows.keys[row])
        slot: Any = np.int64(places[place])
        if slot < 0 or is_over[slot]:
            slot = number
            places[place], values[slot], is_over[slot], found.first[slot - size] = slot, rows.keys[row], False, row
            _start(bank, traces.start, slot)
            number += 1
        found.slots[row] = slot
        before, lost, hoped = bank.status[slot], _NONE, _NONE
        if before == LIVE:
            lost, hoped = bank.failed[slot, 0], bank.alive[slot, 0]
            probes += probed(rules.leaves, bank.matched[slot, 0], lost)
        found.before[row], found.earlier[row, 0] = before, bank.seen[slot, 0]
        found.broken[row] = _broken(rules.tables, rows.kinds[row], bank.seen[slot, 0])
        _limit(rows, rules, bank, slot, row, found)
        skipped += int(before != LIVE)
        if _advance(rules.tables, rules.exhaustion, bank, slot, rows.kinds[row], rows.passed[row]):
            found.told[slot] |= MOVED
        after = bank.status[slot]
        found.after[row] = after
        if before == LIVE and after == FAILED:
            # What failed it is looked up behind the loop, which the many arrays of that would slow down.
            found.failing[failed], found.then[failed, 0] = row, lost
            found.then[failed, 1], found.then[failed, 2] = hoped, bank.dead[slot, 0]
            failed += 1
        exhausted += int(before == LIVE and after == EXHAUSTED)
        is_over[slot] = rows.classes[row] & TERMINAL != 0
        if is_over[slot] or (after == ENDED and before != ENDED):
            # Of a trace that no silence ends nobody asks for its last event before that.
            traces.last[slot] = rows.ts[row]
            found.ended[ended], found.ended_before[ended] = slot, before
            ended += 1
    for row in range(len(rows.keys)):
        slot = found.slots[row]
        if not bank.had_match[slot]:
            is_hopeless = is_over[slot] or bank.status[slot] == ENDED or bank.failed[slot, 0] & _ONE != _NONE
            found.told[slot] |= UNMATCHED | (HOPELESS if is_hopeless else 0)
    for one in range(failed):
        row = found.failing[one]
        seen, matched = found.earlier[row, 0] | _ONE << np.uint64(rows.kinds[row]), bank.matched[found.slots[row], 0]
        lost, hoped, dead = found.then[one, 0], found.then[one, 1], found.then[one, 2]
        narrow_blame(rules.tables, rows.kinds, row, row + 1, seen, matched, dead, lost, hoped, rules.tally)
    return number - size, ended, skipped, failed, exhausted, probes


@inlined
def _broken(tables: Any, kind: int, seen: Any) -> Any:  # pragma: no cover - compiled
    """What an event breaks, given the types seen before it."""
    contradicts = tables.exclusive[kind] & (seen | _ONE << np.uint64(kind)) != _NONE
    return (CONTRADICTS if contradicts else 0) | (TOO_LATE if tables.order[kind] & seen else 0)


@inlined
def _start(bank: Any, start: Any, slot: int) -> None:  # pragma: no cover - compiled
    bank.seen[slot, 0], bank.matched[slot, 0], bank.failed[slot, 0] = start.seen[0, 0], start.matched[0, 0], start.failed[0, 0]
    bank.alive[slot, 0], bank.dead[slot, 0] = start.alive[0, 0], start.dead[0, 0]
    bank.status[slot], bank.had_match[slot] = start.status[0], start.had_match[0]


@inlined
def _limit(rows: NewRows, rules: Rules, bank: Any, slot: int, row: int, found: Findings) -> None:  # pragma: no cover - compiled
    """Bits of a row's class that are of no use any more, or of none yet."""
    bits = rows.classes[row] & rules.every
    if bits and bank.status[slot] != LIVE:
        found.masked[row] = bits
    if found.broken[row] & TOO_LATE:
        found.masked[row] |= bits & rules.guarded
    leaves, kind = rules.leaves, rows.kinds[row]
    for at in range(leaves.starts[kind], leaves.starts[kind + 1] if bits else 0):
        bit = bits & np.int64(1) << leaves.atoms[at]
        if leaves.partitions[at] >= 0 and (bank.failed[slot, 0] >> np.uint64(leaves.partitions[at])) & _ONE:
            found.masked[row] |= bit
        if leaves.before[at] & ~bank.matched[slot, 0]:
            found.early[row] |= bit


@inlined
def _advance(tables: Any, exhaustion: bool, bank: Any, slot: int, kind: int, passed: Any) -> bool:  # pragma: no cover - compiled
    """Apply one event to a trace; whether something failed by it, or the trace is exhausted. See `follow_all_narrow`."""
    if bank.status[slot] == ENDED:
        return False  # what comes now is no part of the trace
    own = _ONE << np.uint64(kind)
    seen, dead = bank.seen[slot, 0] | own, bank.dead[slot, 0] | tables.kill[kind]
    moved, is_moved = dead != bank.dead[slot, 0], False
    bank.seen[slot, 0], bank.dead[slot, 0] = seen, dead
    if bank.status[slot] == LIVE:
        taken = passed & tables.of_type[kind]
        matched = bank.matched[slot, 0]
        if taken & ~matched:
            matched = narrow_matched(tables.before, tables.leaves, tables.disjunction, taken, matched)
            moved |= matched != bank.matched[slot, 0]
            bank.matched[slot, 0] = matched
            bank.had_match[slot] |= not tables.leaves[0] & ~matched
        failed, alive = bank.failed[slot, 0], bank.alive[slot, 0]
        if own & tables.watched:
            failed, alive = narrow_asked(tables, kind, seen, matched, dead, failed, alive)
        is_moved = narrow_concluded(tables, exhaustion, bank, slot, dead, moved, failed, alive)
    if own & tables.terminal:
        bank.status[slot] = ENDED
    return is_moved
