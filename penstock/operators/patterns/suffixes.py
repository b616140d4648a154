"""Events that no later one can complete, dropped although their trace lives on."""

from __future__ import annotations

import numpy as np

from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.tables import to_words, words_of
from penstock.metadata.constraints.theory import Theory
from penstock.metadata.constraints.violations import ViolationDetector
from penstock.model.batch import Int64s
from penstock.model.event_patterns import Atom, EventOrder, Strategy
from penstock.model.pattern_terms import Term
from penstock.operators.patterns._suffixes import SuffixTables, cut_suffixes
from penstock.operators.patterns.trace_states import Sets


class SuffixCut:
    """Finds kept events of a query that lack a successor for good.

    Where every match that has an event for atom m also has a later one for atom n, and constraints tell that no n comes any more,
    an event is of use at m only if one of the kept events at n is later. Both may go on to match with others: the trace lives.

    Parameters
    ----------
    query, conditions
        What is sought, and the constraints its traces obey.

    Notes
    -----
    An n that comes in spite of the constraints would give another answer in the batch of the m than in a later one: `guarded`
    are the atoms whose events must not be used when they come too late. `[ding2008]` drops whole traces only.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.queries import registered
    >>> from penstock.model.event_patterns import seq
    >>> query = EventQuery(seq("A", "B", "C"), ("id",), within=9)
    >>> rules = ConstraintSet(("id",), ("A", "B", "C", "X"), (prior("B", "X"),))
    >>> cut = SuffixCut(query, registered(query, rules).conditions)
    >>> kept = np.array([0b001, 0b010, 0b001])  # an A, a B and an A of one trace that has seen A, B and X
    >>> cut.cut(kept, np.array([1, 2, 3]), np.zeros(3, np.int64), np.array([[0b1011]], np.uint64)), kept
    (1, array([1, 2, 0]))
    """

    def __init__(self, query: EventQuery, conditions: FailingConditions) -> None:
        self._is_total = query.order is EventOrder.TOTAL
        theory, detector = conditions.theory, ViolationDetector(conditions.theory)
        pairs = _useful_pairs(query, theory, detector) if _is_followed(query) else []
        later = sorted({second for _, second in pairs})
        types = [[theory.code[name] for name in query.atoms[number].types] for number in later]
        self.guarded = sum(1 << number for number in later)
        self._tables = SuffixTables(
            np.array(later, np.int64),
            np.cumsum([0, *map(len, types)]).astype(np.int64),
            to_words([detector.order[code] for codes in types for code in codes], words_of(conditions)),
            np.array([(first, later.index(second)) for first, second in pairs], np.int64).reshape(-1, 2),
        )

    def cut(self, classes: Int64s, ts: Int64s, slots: Int64s, seen: Sets) -> int:
        """Take bits of no use from the classes of kept events, given slots of their traces and types these have seen."""
        return int(cut_suffixes(classes, ts, slots, seen, self._tables, self._is_total)) if self.guarded else 0


def _is_followed(query: EventQuery) -> bool:
    """Whether single events can be dropped: no run leans on them, no complete match waits, and no silence is counted by them."""
    waits = any(not absence.before for term in query.terms for absence in term.absences)
    return query.strategy is Strategy.ANY and query.trace_ttl is None and not waits


def _useful_pairs(query: EventQuery, theory: Theory, detector: ViolationDetector) -> list[tuple[int, int]]:
    """Atoms, and those that follow in every match, for which it can happen that the second comes no more but the first did."""
    found = []
    for first, one in enumerate(query.atoms):
        for second in sorted(_always_later(query, first)):
            other = query.atoms[second]
            can_end = all(detector.order[theory.code[name]] for name in other.types)
            if can_end and not _is_always_before(theory, one, other):
                found.append((first, second))
    return found


def _is_always_before(theory: Theory, one: Atom, other: Atom) -> bool:
    """Whether constraints put all events of one atom before those of another: then none is left without a successor."""
    return all(theory.kills[theory.code[late]] >> theory.code[early] & 1 for early in one.types for late in other.types)


def _always_later(query: EventQuery, atom: int) -> set[int]:
    """Atoms that follow an atom in every term that has it."""
    sets = [_later(term, term.leaves.index(atom)) for term in query.terms if atom in term.leaves]
    return set.intersection(*sets) if sets else set()


def _later(term: Term, place: int) -> set[int]:
    found: set[int] = set()
    waiting = [place]
    for each in waiting:  # grows while it is walked
        for follower in term.successors[each]:
            if term.leaves[follower] not in found:
                found.add(term.leaves[follower])
                waiting.append(follower)
    return found
