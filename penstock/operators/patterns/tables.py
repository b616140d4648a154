"""The automaton of a term as arrays: what the compiled loops read.

States of the automaton are the sets of leaves that have an event (order ideals of the term, as bit masks over places);
an event's class is the set of leaves whose type and own conditions it meets. From state s the leaves `enabled[s]` may take
an event. Reasoners over constraints add to these tables which classes make a state hopeless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.errors import InvalidEventPattern
from penstock.expressions.event_queries import EventQuery
from penstock.model.batch import Int64s
from penstock.model.event_patterns import LastRun, Strategy
from penstock.model.pattern_terms import Term
from penstock.operators.patterns.conditions import PatternCondition, PatternConditions

#: Bits of an event's class beside those of leaves: its type is named by the query, or ends a trace.
NAMED, TERMINAL = 1 << 61, 1 << 62
#: A row's type matters to constraints; only while it waits.
WATCHED = 1 << 60
#: Leaves a query may have, absences included: one bit each.
MOST_LEAVES = 60
#: Terms with more leaves than this compute what is enabled instead of looking it up.
_MOST_LOOKED_UP = 12
#: Stands for a missing WITHIN: longer than any stretch between events, and added to or taken from a time it stays within 64 bits.
_ENDLESS = 2**62

ANY, NEXT, PARTITION, STRICT = range(4)
_STRATEGIES = {Strategy.ANY: ANY, Strategy.NEXT: NEXT, Strategy.PARTITION: PARTITION, Strategy.STRICT: STRICT}


class Watched(NamedTuple):
    """What constraints need to see: names of types by number, and those that matter."""

    types: tuple[str, ...]
    relevant: frozenset[str]


class SearchRules(NamedTuple):
    """Numbers of a query that hold for all its terms."""

    atoms: int
    within: int
    has_window: bool
    strategy: int
    reuse: bool
    maximal: bool
    most_runs: int


class TermTables(NamedTuple):
    """A term. Lists of lists are flat, list k being `items[starts[k] : starts[k + 1]]`; `place` counts the term's leaves.

    `edges` are pairs (earlier, later); `before` and `after` name places, `tests` programs. For growing runs a condition
    is a row of `conditions`: program, places bound, places closed (masks), place iterated or -1, whether it needs a
    previous event.
    """

    atoms: Any  # atom of each place
    is_repeated: Any
    predecessors: Any  # mask per place
    successors: Any  # mask per place
    edges: Any
    edge_starts: Any  # edges by their later place
    next_starts: Any  # edges by their earlier place
    next_edges: Any
    sinks: Any
    enabled: Any
    tests: Any
    test_starts: Any
    conditions: Any
    absences: Any  # bit of each absence in a class
    after: Any
    after_starts: Any
    before: Any
    before_starts: Any
    absent_tests: Any
    absent_test_starts: Any
    is_trailing: bool
    slots: Any  # first cell, place, column or -1, is float, is before


def rules_of(query: EventQuery) -> SearchRules:
    if len(query.atoms) + len(query.absences) > MOST_LEAVES:
        raise InvalidEventPattern(f"the pattern has more than {MOST_LEAVES} events; split the query")
    return SearchRules(
        len(query.atoms),
        _ENDLESS if query.within is None else query.within,
        query.within is not None,
        _STRATEGIES[query.strategy],
        query.reuse,
        query.last_run is LastRun.MAXIMAL,
        query.most_runs,
    )


def tables_of(term: Term, query: EventQuery, conditions: PatternConditions) -> TermTables:
    """The arrays of one term."""
    place = {atom: index for index, atom in enumerate(term.leaves)}
    mine = [each for each in conditions.across if each.bound <= set(place) and each.program >= 0]
    edges = [(earlier, later) for later, places in enumerate(term.predecessors) for earlier in places]
    edge_starts = _starts([len(places) for places in term.predecessors])
    next_edges = sorted(range(len(edges)), key=lambda number: edges[number][0])
    tests = [_tested_at(index, mine, place) for index in range(len(term.leaves))]
    absent_tests = [[each.program for each in mine if each.absent == absence.number] for absence in term.absences]
    slots = [
        (4 * number, place[slot.variable], slot.column, slot.is_float, slot.is_before)
        for number, slot in enumerate(conditions.translation.slots)
        if slot.variable in place
    ]
    return TermTables(
        _ints(term.leaves),
        np.array([query.atoms[atom].is_repeated for atom in term.leaves], np.bool_),
        _ints([_mask(places) for places in term.predecessors]),
        _ints([_mask(places) for places in term.successors]),
        _ints(edges).reshape(-1, 2),
        edge_starts,
        _starts([len(places) for places in term.successors]),
        _ints(next_edges),
        _ints(term.sinks),
        _enabled(term),
        *_flat(tests),
        _ints([_row(each, place) for each in mine if each.absent < 0]).reshape(-1, 5),
        _ints([len(query.atoms) + absence.number for absence in term.absences]),
        *_flat([absence.after for absence in term.absences]),
        *_flat([absence.before for absence in term.absences]),
        *_flat(absent_tests),
        any(not absence.before for absence in term.absences),
        _ints(slots).reshape(-1, 5),
    )


def _tested_at(index: int, mine: list[PatternCondition], place: dict[int, int]) -> list[int]:
    """Conditions complete when a match, put together from its end, reaches this place."""
    positive = [each for each in mine if each.absent < 0]
    return [each.program for each in positive if min((place[atom] for atom in each.bound), default=0) == index]


def _row(each: PatternCondition, place: dict[int, int]) -> tuple[int, ...]:
    bound, closed = (_mask([place[atom] for atom in atoms]) for atoms in (each.bound, each.closed))
    return each.program, bound, closed, place.get(each.iterated, -1), int(each.needs_previous)


def _enabled(term: Term) -> Int64s:
    size = len(term.leaves)
    if size > _MOST_LOOKED_UP:
        return np.zeros(0, np.int64)
    states = np.arange(1 << size)
    result = np.zeros(1 << size, np.int64)
    for index, places in enumerate(term.predecessors):
        needed = _mask(places)
        result |= ((states & needed) == needed).astype(np.int64) << index
    return result


def _mask(places: Sequence[int]) -> int:
    return sum(1 << place for place in places)


def _ints(items: Any) -> Int64s:
    return np.array(items, np.int64)


def _starts(lengths: Sequence[int]) -> Int64s:
    return np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))]).astype(np.int64)


def _flat(lists: Sequence[Sequence[int]]) -> tuple[Int64s, Int64s]:
    return _ints([item for each in lists for item in each]), _starts([len(each) for each in lists])
