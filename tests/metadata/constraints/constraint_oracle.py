"""Slow, obvious judges of constraint reasoning: consistency, matches and possible continuations by their definitions."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product

from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.model.event_patterns import And, Atom, EventOrder, EventPattern, Or, Seq

#: A trace is a list of groups of simultaneous events; an event here is the name of its type.
Trace = list[tuple[str, ...]]


def is_consistent(trace: Trace, rules: ConstraintSet) -> bool:
    """Whether a complete trace obeys every constraint, by definition."""
    events = [(time, name) for time, group in enumerate(trace) for name in group]
    present = {name for _, name in events}
    for order in rules.orders():
        if any(b == order.first and a == order.second and t < u for (t, a), (u, b) in product(events, events)):
            return False
    return all(not clause.body <= present or clause.head in present for clause in rules.clauses())


def is_consistent_total(trace: Trace, rules: ConstraintSet) -> bool:
    """The same when every event has its own place."""
    return all(len(group) == 1 for group in trace) and is_consistent(trace, rules)


def keeps_order(prefix: Trace, rules: ConstraintSet) -> bool:
    """Whether a beginning of a trace obeys the order constraints; what must occur may still come."""
    return is_consistent(prefix, ConstraintSet(rules.key, rules.event_types, tuple(order.source for order in rules.orders())))


def residuals(pattern: EventPattern | None, group: tuple[str, ...]) -> set[EventPattern | None]:
    """What may be left of a pattern after simultaneous events, taking any of them or none; None: nothing is left."""
    return _residuals(pattern, tuple(sorted(set(group))))


@lru_cache(maxsize=200_000)
def _residuals(pattern: EventPattern | None, group: tuple[str, ...]) -> set[EventPattern | None]:
    if pattern is None:
        return {None}
    if isinstance(pattern, Atom):
        return {pattern} | ({None} if set(pattern.types) & set(group) else set())
    if isinstance(pattern, Or):
        return {pattern} | {left for part in pattern.parts for left in _residuals(part, group)}
    if isinstance(pattern, Seq):
        rest = pattern.parts[1:]
        return {_put_together(Seq, (left, *rest)) for left in _residuals(pattern.parts[0], group)}
    assert isinstance(pattern, And)
    return {_put_together(And, left) for left in product(*(_residuals(part, group) for part in pattern.parts))}


def _put_together(kind, parts):
    left = tuple(part for part in parts if part is not None)
    if not left:
        return None
    return left[0] if len(left) == 1 else kind(left)


def can_match(prefix: Trace, pattern: EventPattern, rules: ConstraintSet, order: EventOrder) -> bool:
    """Whether some consistent trace that begins with the prefix matches: a search through all continuations.

    Continuations that lead to the same types seen and the same rest of the pattern are the same for all that follows, so
    that the search ends although continuations have any length.
    """
    alphabet = rules.event_types
    sizes = range(1, 2 if order is EventOrder.TOTAL else len(alphabet) + 1)
    groups = [group for size in sizes for group in combinations(alphabet, size)]
    starts: set[tuple[frozenset[str], EventPattern | None]] = {(frozenset(), pattern)}
    for group in prefix:
        starts = {move for state in starts for move in _moves(state, group, rules)}
    waiting = list(starts)
    found = set(waiting)
    for state in waiting:
        if state[1] is None and _is_complete(state[0], rules):
            return True
        for group in groups:
            for move in _moves(state, group, rules):
                if move not in found:
                    found.add(move)
                    waiting.append(move)
    return False


def _moves(state, group, rules):
    seen, rest = state
    for order in rules.orders():
        if order.first in group and order.second in seen:
            return
    now = seen | set(group)
    if any(clause.head is None and clause.body <= now for clause in rules.clauses()):
        return
    for left in residuals(rest, group):
        yield now, left


def _is_complete(seen, rules):
    return all(not clause.body <= seen or clause.head in seen for clause in rules.clauses())


def all_matches(pattern: EventPattern, events: list[tuple[int, str, frozenset[int]]]) -> set[frozenset[tuple[int, int]]]:
    """All matches by definition: each a set of (atom, event); an event is (time, type, atoms whose predicates it passes)."""
    numbering = {id(leaf): number for number, leaf in enumerate(_atoms(pattern))}
    return {frozenset(binding) for binding, _, _ in _matches(pattern, events, numbering)}


def _atoms(pattern):
    if isinstance(pattern, Atom):
        yield pattern
    else:
        for part in pattern.parts:
            yield from _atoms(part)


def _matches(pattern, events, numbering):
    if isinstance(pattern, Atom):
        atom = numbering[id(pattern)]
        return [(((atom, i),), t, t) for i, (t, kind, passed) in enumerate(events) if kind in pattern.types and atom in passed]
    parts = [_matches(part, events, numbering) for part in pattern.parts]
    if isinstance(pattern, Or):
        return [match for part in parts for match in part]
    found = [((), None, None)]
    for part in parts:
        found = [
            (one + other, s if a is None else min(a, s), e if b is None else max(b, e))
            for one, a, b in found
            for other, s, e in part
            if isinstance(pattern, And) or b is None or b < s
        ]
    return found
