"""Compiled: groups of simultaneous events against the failing conditions, many traces in one pass.

`follow_group` is the whole test for one group; a loop of an engine may call it for itself.
"""

# ruff: noqa: SIM110 - all() and any() over a generator do not compile

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import entrance

LIVE, FAILED, EXHAUSTED, ENDED = 0, 1, 2, 3

#: What an event broke.
CONTRADICTS, TOO_LATE = 1, 2

#: Kinds of conditions that fail a trace, in the order in which they are asked for the one that did: a type that was seen, another
#: that was not, a leaf without event, the leaf of the event's own type, several observations together, a proof.
GLOBAL, ABSENCE, LOCAL, REFLEXIVE, JOINT, REFUTED = 0, 1, 2, 3, 4, 5

_ONE = np.uint64(1)


@entrance
def has(row: Any, member: int) -> bool:  # pragma: no cover - compiled
    return bool((row[member >> 6] >> np.uint64(member & 63)) & _ONE)


@entrance
def put(row: Any, member: int) -> None:  # pragma: no cover - compiled
    row[member >> 6] |= _ONE << np.uint64(member & 63)


@entrance
def is_within(row: Any, other: Any) -> bool:  # pragma: no cover - compiled
    for word in range(len(row)):
        if row[word] & ~other[word]:
            return False
    return True


@entrance
def meets(row: Any, other: Any) -> bool:  # pragma: no cover - compiled
    for word in range(len(row)):
        if row[word] & other[word]:
            return True
    return False


@entrance
def complete(tables: Any, matched: Any) -> None:  # pragma: no cover - compiled
    """Set the virtual leaves of branches that are matched, inner ones first."""
    for number in range(len(tables.parent) - 1, 0, -1):
        if is_within(tables.leaves[number], matched):
            put(matched, tables.disjunction[number])


@entrance
def match_group(tables: Any, passed: Any, matched: Any) -> None:  # pragma: no cover - compiled
    """Match leaves whose predicates one of the events passes; leaves matched by this very group enable nothing yet."""
    earlier = matched.copy()
    gained = False
    for event in range(len(passed)):
        for word in range(len(earlier)):
            left = passed[event, word] & ~earlier[word]
            while left:
                lowest = left & (~left + _ONE)
                left ^= lowest
                leaf = word * 64
                while lowest > _ONE:
                    lowest >>= _ONE
                    leaf += 1
                if is_within(tables.before[leaf], earlier):
                    put(matched, leaf)
                    gained = True
    if gained and len(tables.parent) > 1:
        complete(tables, matched)


@entrance
def violated(tables: Any, kinds: Any, event: int, seen: Any) -> int:  # pragma: no cover - compiled
    """What one event of a group breaks, given the types seen before the group; of two simultaneous ones the later numbered."""
    kind = kinds[event]
    found = 0
    if meets(tables.exclusive[kind], seen):
        found |= CONTRADICTS
    for other in range(len(kinds)):
        if kinds[other] <= kind and has(tables.exclusive[kind], kinds[other]):
            found |= CONTRADICTS
    if meets(tables.order[kind], seen):
        found |= TOO_LATE
    return found


@entrance
def ask(tables: Any, kind: int, seen: Any, matched: Any, dead: Any, failed: Any, alive: Any) -> bool:  # pragma: no cover - compiled
    """Put partitions and terms that an event fails into `failed` and out of `alive`; whether anything changed."""
    changed = False
    for word in range(len(failed)):
        if tables.plus[kind, word] & ~failed[word]:
            failed[word] |= tables.plus[kind, word]
            changed = True
    for number in range(len(tables.parent)):
        if has(failed, number):
            continue
        if not (is_within(tables.minus[kind, number], seen) and is_within(tables.local[kind, number], matched)):
            put(failed, number)
            changed = True
    for at in range(tables.joint_start[kind], tables.joint_start[kind + 1]):
        changed |= ask_joint(tables, tables.joint_index[at], seen, dead, failed, alive)
    return changed


@entrance
def ask_joint(tables: Any, joint: int, seen: Any, dead: Any, failed: Any, alive: Any) -> bool:  # pragma: no cover - compiled
    if not is_within(tables.joint_present[joint], seen):
        return False
    for word in range(len(seen)):
        if tables.joint_absent[joint, word] & ~(dead[word] & ~seen[word]):
            return False
    changed = False
    for word in range(len(failed)):
        if tables.joint_partitions[joint, word] & ~failed[word]:
            failed[word] |= tables.joint_partitions[joint, word]
            changed = True
    for word in range(len(alive)):
        if tables.joint_terms[joint, word] & alive[word]:
            alive[word] &= ~tables.joint_terms[joint, word]
            changed = True
    return changed


@entrance
def settle(tables: Any, failed: Any, alive: Any) -> None:  # pragma: no cover - compiled
    """What follows from failed partitions, by terms or by the tree."""
    count = len(tables.parent)
    if count == 1 and len(tables.terms) == 0:
        return
    if len(tables.terms):
        used = np.zeros(len(failed), np.uint64)
        for term in range(len(tables.terms)):
            if has(alive, term):
                if meets(tables.terms[term], failed):
                    alive[term >> 6] &= ~(_ONE << np.uint64(term & 63))
                else:
                    used |= tables.terms[term]
        for number in range(count):
            if not has(used, number):
                put(failed, number)
        return
    settle_tree(tables, failed)


@entrance
def settle_tree(tables: Any, failed: Any) -> None:  # pragma: no cover - compiled
    count = len(tables.parent)
    for number in range(count - 1, 0, -1):
        # The first branch of a disjunction has the lowest number, so all its branches are known by then.
        is_first, all_failed = True, True
        for other in range(1, count):
            if tables.disjunction[other] == tables.disjunction[number]:
                is_first &= other >= number
                all_failed &= has(failed, other)
        if is_first and all_failed:
            put(failed, tables.parent[number])
    for number in range(1, count):
        if has(failed, tables.parent[number]):
            put(failed, number)


@entrance
def has_no_future(tables: Any, dead_leaves: Any, failed: Any) -> bool:  # pragma: no cover - compiled
    """Whether every leaf in which a match of a live partition may end can no longer get an event."""
    for number in range(len(tables.parent)):
        if not has(failed, number) and not is_within(tables.sinks[number], dead_leaves):
            return False
    return True


@entrance
def leaves_of_types(tables: Any, types: Any, result: Any) -> None:  # pragma: no cover - compiled
    for kind in range(len(tables.of_type)):
        if has(types, kind):
            for word in range(len(result)):
                result[word] |= tables.of_type[kind, word]


@entrance
def follow_group(  # pragma: no cover - compiled
    tables: Any,
    kinds: Any,
    passed: Any,
    seen: Any,
    matched: Any,
    failed: Any,
    alive: Any,
    dead: Any,
    status: int,
    had_match: bool,
    exhaustion: bool,
    is_refuted: bool,
) -> tuple[int, bool]:
    """Apply simultaneous events to one trace: match, then ask the tables; returns the status and whether it ever matched.

    `is_refuted`: somebody has proved that no match comes of the trace, unless it has matched.
    """
    ends = False
    if status == ENDED:
        return status, had_match  # what comes now is no part of the trace
    for event in range(len(kinds)):
        put(seen, kinds[event])
        ends |= has(tables.terminal, kinds[event])
        for word in range(len(dead)):
            dead[word] |= tables.kill[kinds[event], word]
    if status == LIVE:
        match_group(tables, passed, matched)
        had_match |= is_within(tables.leaves[0], matched)
        changed = False
        for event in range(len(kinds)):
            changed |= ask(tables, kinds[event], seen, matched, dead, failed, alive)
        if changed:
            settle(tables, failed, alive)
        if is_refuted and not had_match:
            put(failed, 0)
        over = has(failed, 0)
        if not over and had_match and exhaustion:
            gone = np.zeros(len(matched), np.uint64)
            leaves_of_types(tables, dead, gone)
            over = has_no_future(tables, gone, failed)
        if over:
            status = EXHAUSTED if had_match else FAILED
    return (ENDED if ends else status), had_match


@entrance
def lacks(tables: Any, reason: int, kind: int, number: int, seen: Any, matched: Any) -> bool:  # pragma: no cover - compiled
    """Whether a partition fails with an event for want of an earlier type, of other leaves, or of leaves of the event's type."""
    if reason == ABSENCE:
        return not is_within(tables.minus[kind, number], seen)
    for word in range(len(matched)):
        left = tables.local[kind, number, word] & ~matched[word]
        own = left & tables.of_type[kind, word]
        if (own if reason == REFLEXIVE else left & ~own) != 0:
            return True
    return False


@entrance
def blame(  # pragma: no cover - compiled
    tables: Any, kind: int, seen: Any, matched: Any, dead: Any, failed: Any, alive: Any
) -> int:
    """Put what an event fails into `failed` and out of `alive`, condition by condition; the kind that fails the query, or -1."""
    for reason in range(REFUTED):
        if reason == GLOBAL:
            for word in range(len(failed)):
                failed[word] |= tables.plus[kind, word]
        elif reason == JOINT:
            for at in range(tables.joint_start[kind], tables.joint_start[kind + 1]):
                ask_joint(tables, tables.joint_index[at], seen, dead, failed, alive)
        else:
            for number in range(len(tables.parent)):
                if lacks(tables, reason, kind, number, seen, matched):
                    put(failed, number)
        settle(tables, failed, alive)
        if has(failed, 0):
            return reason
    return -1


@entrance
def blame_group(  # pragma: no cover - compiled
    tables: Any, kinds: Any, seen: Any, matched: Any, dead: Any, failed: Any, alive: Any, tally: Any
) -> None:
    """Count a trace that fails with a group, at the event and the kind of condition that did it.

    `failed` and `alive` are those before the group, and are used up. What no condition explains was proved; the last event counts.
    """
    for event in range(len(kinds)):
        reason = blame(tables, kinds[event], seen, matched, dead, failed, alive)
        if reason >= 0:
            tally[kinds[event], reason] += 1
            return
    tally[kinds[len(kinds) - 1], REFUTED] += 1


@entrance
def follow_all(  # pragma: no cover - compiled
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
    before, after, broken, earlier, failing, held = outcome
    failed, alive = np.empty(failing.shape[1], np.uint64), np.empty(bank.alive.shape[1], np.uint64)
    start = 0
    while start < len(slots):
        stop = start + 1
        while stop < len(slots) and slots[stop] == slots[start] and times[stop] == times[start]:
            stop += 1
        slot = slots[start]
        alive[:] = bank.alive[slot]
        for event in range(start, stop):
            broken[event] = violated(tables, kinds[start:stop], event - start, bank.seen[slot])
            before[event] = bank.status[slot]
            for word in range(earlier.shape[1]):
                earlier[event, word] = bank.seen[slot, word]
            for word in range(failing.shape[1]):
                failing[event, word] = bank.failed[slot, word]
            for word in range(held.shape[1]):
                held[event, word] = bank.matched[slot, word]
        bank.status[slot], bank.had_match[slot] = follow_group(
            tables,
            kinds[start:stop],
            passed[start:stop],
            bank.seen[slot],
            bank.matched[slot],
            bank.failed[slot],
            bank.alive[slot],
            bank.dead[slot],
            bank.status[slot],
            bank.had_match[slot],
            exhaustion,
            len(refuted) > 0 and refuted[start],
        )
        after[start:stop] = bank.status[slot]
        if before[start] == LIVE and after[start] == FAILED:
            failed[:] = failing[start]
            blame_group(tables, kinds[start:stop], bank.seen[slot], bank.matched[slot], bank.dead[slot], failed, alive, tally)
        start = stop


@entrance
def unfold(  # pragma: no cover - compiled
    tables: Any, slots: Any, times: Any, kinds: Any, passed: Any, bank: Any, seen: Any, matched: Any
) -> None:
    """Put for each event the types seen and leaves matched after its group, as if no trace were ever given up."""
    types, leaves = np.zeros(seen.shape[1], np.uint64), np.zeros(matched.shape[1], np.uint64)
    start = 0
    while start < len(slots):
        stop = start + 1
        while stop < len(slots) and slots[stop] == slots[start] and times[stop] == times[start]:
            stop += 1
        if start == 0 or slots[start] != slots[start - 1]:
            types[:], leaves[:] = bank.seen[slots[start]], bank.matched[slots[start]]
        for event in range(start, stop):
            put(types, kinds[event])
        match_group(tables, passed[start:stop], leaves)
        for event in range(start, stop):
            seen[event, :], matched[event, :] = types, leaves
        start = stop
