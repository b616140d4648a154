"""Compiled: the same as `_loops` where every set fits one machine word, which is nearly always and several times as fast.

Helpers take single arrays, or are pasted into the loops: to hand a tuple of arrays to a function costs more than what most of
these functions do.
"""

# ruff: noqa: SIM110 - any() over a generator does not compile

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance, inlined
from penstock.metadata.constraints._loops import (
    ABSENCE,
    CONTRADICTS,
    ENDED,
    EXHAUSTED,
    FAILED,
    GLOBAL,
    JOINT,
    LIVE,
    LOCAL,
    REFUTED,
    TOO_LATE,
)
from penstock.metadata.constraints.tables import ConditionTables, Int64s, Words

_ONE = np.uint64(1)
_NONE = np.uint64(0)


class NarrowTables(NamedTuple):
    """`ConditionTables` with one word for each set; `minus` and `local` keep one row per partition.

    `watched` are the types that can fail something, `leaf_type` the type of each real leaf.
    """

    plus: Words
    minus: Words
    local: Words
    kill: Words
    before: Words
    leaves: Words
    parent: Int64s
    disjunction: Int64s
    sinks: Words
    of_type: Words
    terms: Words
    joint_present: Words
    joint_absent: Words
    joint_partitions: Words
    joint_terms: Words
    joint_start: Int64s
    joint_index: Int64s
    terminal: np.uint64
    exclusive: Words
    order: Words
    watched: np.uint64
    leaf_type: Int64s


def narrow_tables(tables: ConditionTables, triggers: int, leaf_type: Int64s) -> NarrowTables | None:
    """The tables in their narrow form, or None if some set needs more than one word."""
    widths = (tables.plus, tables.kill, tables.before, tables.joint_terms)
    if any(table.shape[-1] > 1 for table in widths):
        return None
    rows = {}
    for name, table in tables._asdict().items():
        rows[name] = np.ascontiguousarray(table[..., 0]) if table.dtype == np.uint64 else table
    return NarrowTables(**{**rows, "terminal": tables.terminal[0]}, watched=np.uint64(triggers), leaf_type=leaf_type)


@compiled
def bit(member: int) -> Any:  # pragma: no cover - compiled
    return _ONE << np.uint64(member)


@compiled
def narrow_matched(before: Any, leaves: Any, disjunction: Any, passed: Any, matched: Any) -> Any:  # pragma: no cover - compiled
    """Leaves matched after simultaneous events that pass the predicates of `passed`, all events together."""
    left = passed & ~matched
    after = matched
    leaf = 0
    while left:
        if left & _ONE and not before[leaf] & ~matched:
            after |= bit(leaf)
        left >>= _ONE
        leaf += 1
    if after != matched:
        for number in range(len(leaves) - 1, 0, -1):
            if not leaves[number] & ~after:
                after |= bit(disjunction[number])
    return after


@compiled
def narrow_single(minus: Any, local: Any, kind: int, seen: Any, matched: Any) -> Any:  # pragma: no cover - compiled
    """Partitions that fail for want of an earlier type or of a matched leaf."""
    failed = _NONE
    for number in range(minus.shape[1]):
        if minus[kind, number] & ~seen or local[kind, number] & ~matched:
            failed |= bit(number)
    return failed


@compiled
def narrow_joint(present: Any, absent: Any, joint: int, seen: Any, dead: Any) -> bool:  # pragma: no cover - compiled
    """Whether a joint condition holds."""
    return not (present[joint] & ~seen or absent[joint] & ~(dead & ~seen))


@compiled
def narrow_settled(parent: Any, disjunction: Any, terms: Any, failed: Any, alive: Any) -> Any:  # pragma: no cover - compiled
    """Failed partitions and live terms with all that follows from them."""
    count = len(parent)
    if len(terms):
        used = _NONE
        for term in range(len(terms)):
            if alive & bit(term):
                if terms[term] & failed:
                    alive &= ~bit(term)
                else:
                    used |= terms[term]
        for number in range(count):
            if not used & bit(number):
                failed |= bit(number)
        return failed, alive
    for number in range(count - 1, 0, -1):
        # The first branch of a disjunction has the lowest number, so all its branches are known by then.
        is_first, all_failed = True, True
        for other in range(1, count):
            if disjunction[other] == disjunction[number]:
                is_first &= other >= number
                all_failed &= failed & bit(other) != _NONE
        if is_first and all_failed:
            failed |= bit(parent[number])
    for number in range(1, count):
        if failed & bit(parent[number]):
            failed |= bit(number)
    return failed, alive


@compiled
def narrow_has_future(leaf_type: Any, sinks: Any, dead: Any, failed: Any) -> bool:  # pragma: no cover - compiled
    """Whether some leaf in which a match of a live partition may end can still get an event."""
    gone = _NONE
    for leaf in range(len(leaf_type)):
        if dead & bit(leaf_type[leaf]):
            gone |= bit(leaf)
    for number in range(len(sinks)):
        if not failed & bit(number) and sinks[number] & ~gone:
            return True
    return False


@compiled
def narrow_broken(exclusive: Any, order: Any, kind: int, seen: Any, together: Any) -> int:  # pragma: no cover - compiled
    """What an event breaks, given types seen before its group and in it; of two that contradict each other the later tells."""
    lower = together & (bit(kind) | (bit(kind) - _ONE))
    found = CONTRADICTS if exclusive[kind] & (seen | lower) else 0
    return found | TOO_LATE if order[kind] & seen else found


@inlined
def narrow_asked(  # pragma: no cover - compiled
    tables: Any, kind: int, seen: Any, matched: Any, dead: Any, failed: Any, alive: Any
) -> Any:
    """Failed partitions and live terms once an event of a type has come, before anything is concluded."""
    failed |= tables.plus[kind] | narrow_single(tables.minus, tables.local, kind, seen, matched)
    for at in range(tables.joint_start[kind], tables.joint_start[kind + 1]):
        joint = tables.joint_index[at]
        if narrow_joint(tables.joint_present, tables.joint_absent, joint, seen, dead):
            failed |= tables.joint_partitions[joint]
            alive &= ~tables.joint_terms[joint]
    return failed, alive


@inlined
def narrow_concluded(  # pragma: no cover - compiled
    tables: Any, exhaustion: bool, bank: Any, slot: int, dead: Any, moved: bool, failed: Any, alive: Any
) -> bool:
    """Write down what follows for a live trace; whether more has failed than before, or the trace is exhausted."""
    has_failed = False
    if failed != bank.failed[slot, 0] or alive != bank.alive[slot, 0]:
        moved = True
        failed, alive = narrow_settled(tables.parent, tables.disjunction, tables.terms, failed, alive)
        has_failed = failed != bank.failed[slot, 0]
        bank.failed[slot, 0], bank.alive[slot, 0] = failed, alive
    over = failed & _ONE != _NONE
    if not over and exhaustion and moved and bank.had_match[slot]:
        over = not narrow_has_future(tables.leaf_type, tables.sinks, dead, failed)
    if over:
        bank.status[slot] = EXHAUSTED if bank.had_match[slot] else FAILED
        has_failed |= bank.had_match[slot]
    return has_failed


@inlined
def narrow_due(  # pragma: no cover - compiled
    tables: Any, reason: int, kind: int, seen: Any, matched: Any, dead: Any, failed: Any, alive: Any
) -> Any:
    """Failed partitions and live terms with what the conditions of one kind say of an event."""
    if reason == GLOBAL:
        failed |= tables.plus[kind]
    elif reason == JOINT:
        for at in range(tables.joint_start[kind], tables.joint_start[kind + 1]):
            joint = tables.joint_index[at]
            if narrow_joint(tables.joint_present, tables.joint_absent, joint, seen, dead):
                failed |= tables.joint_partitions[joint]
                alive &= ~tables.joint_terms[joint]
    else:
        own = tables.of_type[kind]
        for number in range(len(tables.parent)):
            if reason == ABSENCE:
                missing = tables.minus[kind, number] & ~seen
            else:
                missing = tables.local[kind, number] & ~matched & (~own if reason == LOCAL else own)
            if missing:
                failed |= bit(number)
    return failed, alive


@inlined
def narrow_blame(  # pragma: no cover - compiled
    tables: Any, kinds: Any, start: int, stop: int, seen: Any, matched: Any, dead: Any, failed: Any, alive: Any, tally: Any
) -> None:
    """Count a trace that failed with a group of events, at the event and the kind of condition that did it; see `blame_group`."""
    trigger, found = kinds[stop - 1], REFUTED
    for event in range(start, stop):
        for reason in range(REFUTED):
            if not failed & _ONE:
                failed, alive = narrow_due(tables, reason, kinds[event], seen, matched, dead, failed, alive)
                failed, alive = narrow_settled(tables.parent, tables.disjunction, tables.terms, failed, alive)
                if failed & _ONE:
                    trigger, found = kinds[event], reason
    tally[trigger, found] += 1


@compiled
def _blame(  # pragma: no cover - compiled
    tables: Any, slots: Any, times: Any, kinds: Any, bank: Any, outcome: Any, starts: Any, then: Any, failed: int, tally: Any
) -> None:
    """Count the traces that failed with the groups that begin there; `then` are terms alive before, and types gone."""
    for one in range(failed):
        start = starts[one]
        slot, stop, seen = slots[start], start, outcome.earlier[start, 0]
        while stop < len(slots) and slots[stop] == slot and times[stop] == times[start]:
            seen |= bit(kinds[stop])
            stop += 1
        lost, hoped, dead = outcome.failing[start, 0], then[one, 0], then[one, 1]
        narrow_blame(tables, kinds, start, stop, seen, bank.matched[slot, 0], dead, lost, hoped, tally)


@entrance
def follow_all_narrow(  # pragma: no cover - compiled
    tables: Any,
    slots: Any,
    times: Any,
    kinds: Any,
    passed: Any,
    bank: Any,
    exhaustion: bool,
    refuted: Any,
    outcome: Any,
    tally: Any,
) -> None:
    """All events of a batch, those of a trace together and in order of time; see `TraceBank.advance`."""
    # What fails a trace is looked up behind the loop, which the many arrays of that would slow down.
    starts, then = np.empty(len(slots), np.int64), np.empty((len(slots), 2), np.uint64)
    failed = _follow(tables, slots, times, kinds, passed, bank, exhaustion, refuted, outcome, starts, then)
    _blame(tables, slots, times, kinds, bank, outcome, starts, then, failed, tally)


@compiled
def _follow(  # pragma: no cover - compiled
    tables: Any,
    slots: Any,
    times: Any,
    kinds: Any,
    passed: Any,
    bank: Any,
    exhaustion: bool,
    refuted: Any,
    outcome: Any,
    starts: Any,
    then: Any,
) -> int:
    before, after, broken, known, failing, held = outcome
    start, failures = 0, 0
    while start < len(slots):
        slot, time = slots[start], times[start]
        earlier, hoped = bank.seen[slot, 0], bank.alive[slot, 0]
        stop, types, taken, dead = start, _NONE, _NONE, bank.dead[slot, 0]
        while stop < len(slots) and slots[stop] == slot and times[stop] == time:
            types |= bit(kinds[stop])
            taken |= passed[stop] & tables.of_type[kinds[stop]]
            dead |= tables.kill[kinds[stop]]
            stop += 1
        for event in range(start, stop):
            broken[event] = narrow_broken(tables.exclusive, tables.order, kinds[event], earlier, types)
            before[event] = bank.status[slot]
            known[event, 0], failing[event, 0], held[event, 0] = earlier, bank.failed[slot, 0], bank.matched[slot, 0]
        if bank.status[slot] == ENDED:
            # What comes now is no part of the trace.
            after[start:stop] = ENDED
            start = stop
            continue
        seen = earlier | types
        moved = dead != bank.dead[slot, 0]
        bank.seen[slot, 0], bank.dead[slot, 0] = seen, dead
        if bank.status[slot] == LIVE:
            matched = narrow_matched(tables.before, tables.leaves, tables.disjunction, taken, bank.matched[slot, 0])
            moved |= matched != bank.matched[slot, 0]
            bank.matched[slot, 0] = matched
            bank.had_match[slot] |= not tables.leaves[0] & ~matched
            failed, alive = bank.failed[slot, 0], bank.alive[slot, 0]
            for event in range(start, stop if types & tables.watched else start):
                failed, alive = narrow_asked(tables, kinds[event], seen, matched, dead, failed, alive)
            if len(refuted) and refuted[start] and not bank.had_match[slot]:
                failed |= _ONE
            narrow_concluded(tables, exhaustion, bank, slot, dead, moved, failed, alive)
        if types & tables.terminal:
            bank.status[slot] = ENDED
        for event in range(start, stop):
            after[event] = bank.status[slot]
        if before[start] == LIVE and after[start] == FAILED:
            starts[failures], then[failures, 0], then[failures, 1] = start, hoped, dead
            failures += 1
        start = stop
    return failures
