"""Compiled: what a group of simultaneous events of one trace does to its failing conditions.

Sets are tuples of words, so that a query of few types has its sets in registers. Helpers take single arrays, or are pasted into
the loops: to hand a tuple of arrays to a function costs more than what most of these functions do.
"""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled, inlined
from penstock.columnar.word_sets import (
    added,
    common,
    differs,
    has,
    is_empty,
    is_within,
    load,
    meets,
    removed,
    union,
    up_to,
    without,
)

#: What may still come of a trace: a match, none ever, none any more, nothing because its last event came.
LIVE, FAILED, EXHAUSTED, ENDED = 0, 1, 2, 3

#: What an event broke.
CONTRADICTS, TOO_LATE = 1, 2

#: Kinds of conditions that fail a trace, in the order in which they are asked for the one that did: a type that was seen, another
#: that was not, a leaf without event, the leaf of the event's own type, several observations together, a proof.
GLOBAL, ABSENCE, LOCAL, REFLEXIVE, JOINT, REFUTED = 0, 1, 2, 3, 4, 5
#: Their names by number.
REASONS = ("global", "absence", "local", "reflexive", "joint", "exact")


@compiled
def broken_by(exclusive: Any, order: Any, kind: int, seen: Any, together: Any) -> int:  # pragma: no cover - compiled
    """What an event breaks, given types seen before its group and in it; of two that contradict each other the later tells."""
    found = CONTRADICTS if meets(load(exclusive, kind, seen), union(seen, up_to(together, kind))) else 0
    return found | TOO_LATE if meets(load(order, kind, seen), seen) else found


@compiled
def matched_by(before: Any, leaves: Any, disjunction: Any, passed: Any, matched: Any) -> Any:  # pragma: no cover - compiled
    """Leaves matched after simultaneous events that pass the predicates of `passed`, all events together."""
    left, after = without(passed, matched), matched
    if is_empty(left):
        return matched
    for leaf in range(len(before)):
        if has(left, leaf) and is_within(load(before, leaf, matched), matched):
            after = added(after, leaf)
    if differs(after, matched):
        for number in range(len(leaves) - 1, 0, -1):
            if is_within(load(leaves, number, after), after):
                after = added(after, disjunction[number])
    return after


@compiled
def failed_alone(minus: Any, local: Any, partitions: int, kind: int, seen: Any, matched: Any) -> Any:  # pragma: no cover - compiled
    """Partitions that fail with an event for want of an earlier type or of a matched leaf."""
    failed = without(seen, seen)
    for number in range(partitions):
        cell = kind * partitions + number
        if not (is_within(load(minus, cell, seen), seen) and is_within(load(local, cell, matched), matched)):
            failed = added(failed, number)
    return failed


@compiled
def holds_jointly(present: Any, absent: Any, order: Any, joint: int, seen: Any) -> bool:  # pragma: no cover - compiled
    """Whether all types of a joint condition were seen, or can no longer come although they never came."""
    if not is_within(load(present, joint, seen), seen):
        return False
    awaited = load(absent, joint, seen)
    if is_empty(awaited):
        return True
    for kind in range(len(order)):
        if has(awaited, kind) and (has(seen, kind) or not meets(load(order, kind, seen), seen)):
            return False
    return True


@compiled
def settled(parent: Any, disjunction: Any, terms: Any, failed: Any, alive: Any) -> Any:  # pragma: no cover - compiled
    """Failed partitions and live terms with all that follows from them."""
    count = len(parent)
    if len(terms):
        used = without(failed, failed)
        for term in range(len(terms)):
            if has(alive, term):
                parts = load(terms, term, failed)
                if meets(parts, failed):
                    alive = removed(alive, term)
                else:
                    used = union(used, parts)
        for number in range(count):
            if not has(used, number):
                failed = added(failed, number)
        return failed, alive
    for number in range(count - 1, 0, -1):
        # The first branch of a disjunction has the lowest number, so all its branches are known by then.
        is_first, all_failed = True, True
        for other in range(1, count):
            if disjunction[other] == disjunction[number]:
                is_first &= other >= number
                all_failed &= has(failed, other)
        if is_first and all_failed:
            failed = added(failed, parent[number])
    for number in range(1, count):
        if has(failed, parent[number]):
            failed = added(failed, number)
    return failed, alive


@compiled
def has_future(leaf_type: Any, order: Any, sinks: Any, seen: Any, failed: Any) -> bool:  # pragma: no cover - compiled
    """Whether some leaf in which a match of a live partition may end can still get an event."""
    for number in range(len(sinks)):
        if not has(failed, number):
            ends = load(sinks, number, failed)
            for leaf in range(len(leaf_type)):
                if has(ends, leaf) and not meets(load(order, leaf_type[leaf], seen), seen):
                    return True
    return False


@inlined
def failed_with(tables: Any, kind: int, seen: Any, matched: Any, failed: Any, alive: Any) -> Any:  # pragma: no cover - compiled
    """Failed partitions and live terms once an event of a type has come, before anything is concluded."""
    alone = failed_alone(tables.minus, tables.local, len(tables.parent), kind, seen, matched)
    failed = union(failed, union(load(tables.plus, kind, failed), alone))
    for at in range(tables.joint_start[kind], tables.joint_start[kind + 1]):
        joint = tables.joint_index[at]
        if holds_jointly(tables.joint_present, tables.joint_absent, tables.order, joint, seen):
            failed = union(failed, load(tables.joint_partitions, joint, failed))
            alive = without(alive, load(tables.joint_terms, joint, alive))
    return failed, alive


@inlined
def failed_because(  # pragma: no cover - compiled
    tables: Any, reason: int, kind: int, seen: Any, matched: Any, failed: Any, alive: Any
) -> Any:
    """Failed partitions and live terms with what the conditions of one kind say of an event."""
    if reason == GLOBAL:
        failed = union(failed, load(tables.plus, kind, failed))
    elif reason == JOINT:
        for at in range(tables.joint_start[kind], tables.joint_start[kind + 1]):
            joint = tables.joint_index[at]
            if holds_jointly(tables.joint_present, tables.joint_absent, tables.order, joint, seen):
                failed = union(failed, load(tables.joint_partitions, joint, failed))
                alive = without(alive, load(tables.joint_terms, joint, alive))
    else:
        own, count = load(tables.of_type, kind, matched), len(tables.parent)
        for number in range(count):
            if reason == ABSENCE:
                missing = without(load(tables.minus, kind * count + number, seen), seen)
            else:
                missing = without(load(tables.local, kind * count + number, matched), matched)
                missing = without(missing, own) if reason == LOCAL else common(missing, own)
            if not is_empty(missing):
                failed = added(failed, number)
    return failed, alive


@inlined
def blame(  # pragma: no cover - compiled
    tables: Any, kinds: Any, start: int, stop: int, seen: Any, matched: Any, failed: Any, alive: Any, tally: Any
) -> None:
    """Count a trace that failed with a group of events, at the event and the kind of condition that did it.

    `failed` and `alive` are those before the group. What no condition explains was proved; the last event counts.
    """
    trigger, found = kinds[stop - 1], REFUTED
    for event in range(start, stop):
        for reason in range(REFUTED):
            if not has(failed, 0):
                failed, alive = failed_because(tables, reason, kinds[event], seen, matched, failed, alive)
                failed, alive = settled(tables.parent, tables.disjunction, tables.terms, failed, alive)
                if has(failed, 0):
                    trigger, found = kinds[event], reason
    tally[trigger, found] += 1
