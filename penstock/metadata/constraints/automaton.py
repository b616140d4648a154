"""The query as a deterministic automaton with its failing conditions folded in: one look-up per event.

A state is a set of matched leaves that can arise; a *class* of events is a type together with the leaves of that type whose
own predicates the event passes. `next_state[state, class]` is where an event leads, `fails[state, class]` the partitions that
fail with it: conditions on the type alone, and local conditions on the leaves unmatched in the state it leads to. Conditions on
what was *not* seen before depend on the trace and stay a mask test (`minus` of the tables).

Under timestamp order the automaton holds for groups of one event; larger groups take `penstock.metadata.constraints._loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
import numpy.typing as npt

from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.exact import TraceEvent, newly_matched
from penstock.metadata.constraints.tables import Words, to_words

#: With more states the tables do not fit a cache; bit operations are then better.
MOST_STATES = 4096


@dataclass(frozen=True, slots=True)
class EventClass:
    """A type, and the leaves of that type that an event of the class can match."""

    event_type: int
    leaves: int


@dataclass(frozen=True, slots=True)
class FusedAutomaton:
    """Tables over states and classes.

    Attributes
    ----------
    states
        Matched leaves of each state; state 0 is the start.
    classes
        What each class stands for.
    next_state, accepts
        State reached, and the real leaves newly matched on the way.
    fails
        Partitions that fail; one word per 64 partitions.
    is_complete
        States in which the whole query is matched.
    """

    states: tuple[int, ...]
    classes: tuple[EventClass, ...]
    next_state: npt.NDArray[np.int32]
    accepts: Words
    fails: Words
    is_complete: npt.NDArray[np.bool_]

    def class_of(self, event_type: int, leaves: int) -> int:
        """Number of the class of an event that passes the predicates of these leaves."""
        return self.classes.index(EventClass(event_type, leaves))


def fused_automaton(
    conditions: FailingConditions, with_predicates: Iterable[int] | None = None, most_states: int = MOST_STATES
) -> FusedAutomaton | None:
    """The automaton of a query, or None if it has more states than allowed.

    Parameters
    ----------
    with_predicates
        Leaves with predicates of their own, which an event of their type may fail; all leaves by default.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.registration import register
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "X"), (prior("A", "X"),))
    >>> automaton = fused_automaton(register(seq("A", "B"), rules, ("id",)).conditions, with_predicates=())
    >>> automaton.next_state.tolist()
    [[1, 0, 0], [1, 2, 1], [2, 2, 2]]
    >>> automaton.fails[:, :, 0].tolist()
    [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    """
    graph = conditions.graph
    wanted = graph.real_leaves if with_predicates is None else sum(1 << leaf for leaf in with_predicates)
    classes = tuple(_classes(conditions, wanted))
    number = {graph.completed(0): 0}
    rows: list[list[int]] = []
    waiting = list(number)
    for matched in waiting:  # grows while it is walked
        row = []
        for kind in classes:
            after = newly_matched(graph, matched, [TraceEvent(kind.event_type, kind.leaves)])
            if after not in number:
                if len(number) >= most_states:
                    return None
                number[after] = len(number)
                waiting.append(after)
            row.append(number[after])
        rows.append(row)
    states = tuple(number)
    return FusedAutomaton(
        states,
        classes,
        np.array(rows, np.int32),
        _table(rows, lambda state, _, after: states[after] & ~states[state] & graph.real_leaves, graph.leaf_count),
        _table(rows, lambda _, kind, after: _failed(conditions, classes[kind], states[after]), len(graph.partitions)),
        np.array([graph.is_matched(matched) for matched in states], np.bool_),
    )


def _classes(conditions: FailingConditions, with_predicates: int) -> Iterable[EventClass]:
    graph = conditions.graph
    for number, name in enumerate(conditions.theory.names):
        leaves = [1 << leaf for leaf, kind in enumerate(graph.types) if kind == name]
        always = sum(leaf for leaf in leaves if not leaf & with_predicates)
        maybe = [leaf for leaf in leaves if leaf & with_predicates]
        for chosen in chain.from_iterable(combinations(maybe, size) for size in range(len(maybe), -1, -1)):
            yield EventClass(number, always | sum(chosen))


def _table(rows: list[list[int]], entry: Callable[[int, int, int], int], width: int) -> Words:
    """A set for each state and class, from the state, the class and the state reached."""
    found = [[entry(state, kind, after) for kind, after in enumerate(row)] for state, row in enumerate(rows)]
    return np.stack([to_words(row, width) for row in found])


def _failed(conditions: FailingConditions, kind: EventClass, matched: int) -> int:
    failed = conditions.plus[kind.event_type]
    for partition, leaves in enumerate(conditions.local[kind.event_type]):
        if leaves & ~matched:
            failed |= 1 << partition
    return failed
