"""Constraints of a whole event query: with its window, its key, and what ends its traces."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.conditions import ConditionOptions, FailingConditions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.exact import ExactReasoner
from penstock.metadata.constraints.registration import Registration, register
from penstock.metadata.constraints.worth import estimated_work, worthwhile
from penstock.model.event_patterns import LastRun

OnStaticUnsat: TypeAlias = Literal["error", "empty"]


def registered(
    query: EventQuery,
    constraints: ConstraintSet,
    options: ConditionOptions | None = None,
    on_static_unsat: OnStaticUnsat = "error",
) -> Registration:
    """The query with its constraints, as the search uses them.

    Under a window a trace is forgotten when it has been silent for as long as the window, so that state stays bounded even if
    some traces never end; what was not seen then tells nothing.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "X"), (prior("B", "X"),))
    >>> [str(entry) for entry in registered(EventQuery(seq("A", "B"), ("id",), within=5), rules).conditions.entries]
    ['X fails the query: B is not matched yet and no B comes after a X by prior(B, X)']
    """
    known, chosen = constraints.extended(sorted(query.terminal)), options or ConditionOptions()
    chosen = replace(chosen, absences=chosen.absences and not is_forgetful(query))
    found = register(query.pattern, known, query.key, query.order, query.reuse, on_static_unsat, chosen)
    if not chosen.is_thrifty or not found.conditions.joint:
        return found
    return replace(found, conditions=worthwhile(query, found.conditions, watched_types(query, found)))


def why_unwatched(query: EventQuery, registration: Registration) -> str:
    """Why constraints are not watched for a query, or "" if they are.

    They are wherever more than time depends on them: where an alternative never matches, or a match waits for an absence that they
    may settle or for a longest list that they may end.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "X"), (prior("B", "X"),))
    >>> for pattern in (seq("A", "B"), seq("B")):
    ...     query = EventQuery(pattern, ("id",), terminal=("A",))
    ...     print(why_unwatched(query, registered(query, rules)) or "watched")
    watched
    constraints are not watched: for a trace that would add the work of 0.5 events and spare that of 0.5
    """
    decides = registration.verdict.proofs or settling_types(query, registration.conditions) or query.last_run is LastRun.MAXIMAL
    # Constraints that nobody vouches for are watched to see whether they hold.
    if decides or registration.conditions.is_exact or not registration.constraints.is_trusted:
        return ""
    work = estimated_work(query, registration.conditions, watched_types(query, registration))
    amounts = f"add the work of {work.added:.1f} events and spare that of {work.spared:.1f}"
    return "" if work.pays else f"constraints are not watched: for a trace that would {amounts}"


def reasoner_for(query: EventQuery, conditions: FailingConditions) -> ExactReasoner | None:
    """Who refutes the rest of the query after every event; None where the tables of the conditions are to suffice."""
    if not conditions.is_exact:
        return None
    return ExactReasoner(conditions.theory, conditions.graph, query.order, query.reuse, not is_forgetful(query))


def is_forgetful(query: EventQuery) -> bool:
    """Whether traces are forgotten when they leave the window, rather than at their end or after a silence."""
    return query.trace_ttl is None and query.within is not None


def settling_types(query: EventQuery, conditions: FailingConditions) -> list[int]:
    """For each type that must be absent at the end of a match, a set: types after which it cannot come any more."""
    theory = conditions.theory
    trailing = {absence.number for term in query.terms for absence in term.absences if not absence.before}
    names = sorted({kind for number in trailing for kind in query.absences[number].types})
    every = range(len(theory.names))
    found = []
    for code in (theory.code[name] for name in names):
        tells = sum(1 << x for x in every if theory.kills[x] >> code & 1 or theory.excludes(x, code))
        # A type that always comes after one that tells the same tells nothing new.
        found.append(sum(1 << x for x in every if tells >> x & 1 and not conditions.sure_before(x) & tells))
    return found


def watched_types(query: EventQuery, registration: Registration) -> frozenset[str]:
    """Types whose events the search must see because of constraints; some of them the query does not name."""
    conditions = registration.conditions.condensed()
    wanted = conditions.relevant
    for settling in settling_types(query, conditions):
        wanted |= settling
    return frozenset(conditions.theory.members(wanted))
