"""A query meets the constraints of its process: static check, failing conditions, and what its author should know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from penstock.errors import InvalidConstraint, NeverMatches
from penstock.metadata.constraints.clauses import Never
from penstock.metadata.constraints.conditions import ConditionOptions, FailingConditions, failing_conditions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.query_graph import QueryGraph, query_graph
from penstock.metadata.constraints.statics import StaticVerdict, refute, static_check
from penstock.metadata.constraints.theory import Theory, bits
from penstock.model.event_patterns import EventOrder, EventPattern, atom, types_of


@dataclass(frozen=True, slots=True)
class Registration:
    """A query with its verdict and its tables.

    Attributes
    ----------
    notices
        Sentences for the author: branches that never match, contradictory constraints, circles of order.
    is_active
        Whether constraints may end traces; without a key there are no traces.
    """

    pattern: EventPattern
    constraints: ConstraintSet
    order: EventOrder
    verdict: StaticVerdict
    conditions: FailingConditions
    notices: tuple[str, ...]
    is_active: bool

    @property
    def theory(self) -> Theory:
        return self.conditions.theory

    @property
    def graph(self) -> QueryGraph:
        return self.conditions.graph


def register(
    pattern: EventPattern,
    constraints: ConstraintSet,
    key: Iterable[str],
    order: EventOrder = EventOrder.TIMESTAMP,
    reuse: bool = True,
    on_static_unsat: Literal["error", "empty"] = "error",
    options: ConditionOptions | None = None,
) -> Registration:
    """Check a pattern against constraints and compile its failing conditions.

    Parameters
    ----------
    key
        Attributes on which all events of a match agree. Constraints hold within one key; with none they are not used.
    on_static_unsat
        What to do with a query that can never match: refuse it with the proof, or run it as the empty answer.

    Raises
    ------
    NeverMatches
        No consistent trace matches the pattern.
    InvalidConstraint
        The constraints speak of traces with another key.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("order_id",), ("Finish", "Cancel"), (exclusive("Finish", "Cancel"),))
    >>> register(seq("Finish", "Cancel"), rules, key=["order_id"])
    Traceback (most recent call last):
    penstock.errors.NeverMatches: constraints.never-matches  SEQ(Finish, Cancel) can never match:
      Finish and Cancel never occur together by exclusive(Finish, Cancel)
    """
    given = tuple(key)
    is_active = bool(given)
    notices: list[str] = []
    if not is_active:
        notices.append("the query has no key, so its events make no traces: constraints are not used")
        constraints = replace(constraints, key=(), constraints=())
    elif set(given) != set(constraints.key):
        raise InvalidConstraint(
            f"the constraints hold for traces with one value of ({', '.join(constraints.key)}), "
            f"the query looks at ({', '.join(given)}); give both the same key"
        )
    known = constraints.extended(sorted(types_of(pattern)))
    theory, graph = Theory(known), query_graph(pattern)
    verdict = static_check(theory, graph, order, reuse)
    if not verdict.is_satisfiable and on_static_unsat == "error":
        raise NeverMatches(f"{pattern} can never match:\n" + "\n".join(f"  {proof}" for proof in verdict.proofs))
    conditions = failing_conditions(theory, graph, verdict, options)
    notices += _query_notices(pattern, verdict) + constraint_notices(known, order)
    return Registration(pattern, known, order, verdict, conditions, tuple(notices), is_active)


def constraint_notices(constraints: ConstraintSet, order: EventOrder = EventOrder.TIMESTAMP) -> list[str]:
    """What is odd about constraints alone: types that can never occur, and circles of order.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive, prior, require
    >>> rules = (require("A", "B"), exclusive("A", "B"), prior("C", "D"), prior("D", "C"))
    >>> for notice in constraint_notices(ConstraintSet((), ("A", "B", "C", "D"), rules)):
    ...     print(notice)
    never(A) follows: A needs B by require(A, B); A and B never occur together by exclusive(A, B)
    prior runs in a circle: C, D, C; these types can only occur together at one time, if at all
    """
    theory = Theory(constraints)
    notices = []
    for name in theory.names:
        proof = refute(theory, query_graph(atom(name)), 1, order=order)
        # Whoever writes NEVER knows it.
        if proof is not None and proof.used != (Never(name),):
            notices.append(f"never({name}) follows: {proof}")
    for circle in _order_circles(theory):
        names = ", ".join(theory.names[number] for number in (*circle, circle[0]))
        notices.append(f"prior runs in a circle: {names}; these types can only occur together at one time, if at all")
    return notices


def _query_notices(pattern: EventPattern, verdict: StaticVerdict) -> list[str]:
    notices = []
    if not verdict.is_satisfiable:
        notices.append(f"{pattern} can never match; its answer is empty: {'; '.join(map(str, verdict.proofs))}")
    elif verdict.proofs:
        notices.append(f"some alternatives of {pattern} can never match: {'; '.join(map(str, verdict.proofs))}")
    return notices


def _order_circles(theory: Theory) -> list[tuple[int, ...]]:
    """One shortest circle of at least two types for each type that stands in one, each circle once."""
    # Types that exclude each other are in no order, whatever is said of it: the ends of a process, say.
    followers = [
        [second for second, killed in enumerate(theory.kills) if killed >> first & 1 and not theory.excludes(first, second)]
        for first in range(len(theory.names))
    ]
    found: dict[int, tuple[int, ...]] = {}
    covered = 0
    for start in range(len(theory.names)):
        if covered >> start & 1:
            continue
        circle = _shortest_circle(followers, start)
        if circle:
            mask = sum(1 << number for number in circle)
            covered |= mask
            found[mask] = circle
    return list(found.values())


def _shortest_circle(followers: list[list[int]], start: int) -> tuple[int, ...]:
    came = {start: -1}
    waiting = [start]
    for node in waiting:  # grows while it is walked: breadth first
        for after in followers[node]:
            if after == start and node != start:
                path = [node]
                while came[path[-1]] >= 0:
                    path.append(came[path[-1]])
                return tuple(reversed(path))
            if after not in came:
                came[after] = node
                waiting.append(after)
    return ()


def terminal_types(registration: Registration) -> list[str]:
    """Types whose events end a trace."""
    return [registration.theory.names[number] for number in bits(registration.theory.terminals)]
