"""Whether watching constraints pays: work it adds against work it spares, estimated before the first event.

The unit is what a search without constraints does for one event. Nothing is known of the data then, so a trace is taken to have one
event of each type, and each condition to be met by every second trace. The shares below were measured on the orders of
`benchmarks.patterns`, with patterns of one to three events that end with a type, within a window or after a silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.explanations import Explanation
from penstock.metadata.constraints.theory import Theory
from penstock.model.event_patterns import Lists, Strategy

#: Work of watching an event that is searched anyway, and of bringing and watching one that only constraints need.
_WATCHED, _BROUGHT = 0.2, 0.3
#: The same where silence ends traces: their keys are compared with those of the kept events then.
_WATCHED_SILENCE = _BROUGHT_SILENCE = 0.4
#: Probability that an observation is made in a trace.
_LIKELY = 0.5


@dataclass(frozen=True, slots=True)
class WatchEstimate:
    """Work per trace, in events searched without constraints, that watching adds and that it spares."""

    added: float
    spared: float

    @property
    def pays(self) -> bool:
        return self.spared > self.added


def estimated_work(query: EventQuery, conditions: FailingConditions, watched: Iterable[str]) -> WatchEstimate:
    """What watching adds and spares for each trace.

    Parameters
    ----------
    watched
        Types whose events the search sees because of constraints.

    Notes
    -----
    It spares twice. Events of a trace that has not matched yet are kept without a search, where no run grows and no silence is
    counted; and those of a trace that has failed are not looked at, of which a window would have dropped half all the same.
    """
    own, other = _shares(query)
    events, triggers = len(query.atoms), conditions.condensed().triggers.bit_count()
    brought = len({*watched} - query.types - {*query.terminal})
    rests = events - 1 if _may_rest(query) else 0
    failing = (1 - (1 - _LIKELY) ** triggers) * events
    is_in_window = query.trace_ttl is None and query.within is not None
    return WatchEstimate(own * events + other * brought, rests + (failing / 2 if is_in_window else failing))


def _shares(query: EventQuery) -> tuple[float, float]:
    has_silence = query.trace_ttl is not None or query.within is not None
    return (_WATCHED_SILENCE, _BROUGHT_SILENCE) if has_silence else (_WATCHED, _BROUGHT)


def worthwhile(query: EventQuery, conditions: FailingConditions, watched: Iterable[str]) -> FailingConditions:
    """The conditions without joint ones that are estimated to cost more than they spare."""
    found, (own, other) = [item.explanation for item in conditions.joint], _shares(query)
    completes = {item: _LIKELY**item.size for item in found}
    costs = {name: own if name in query.types or name in query.terminal else other for name in watched}
    return conditions.watching(worth_watching(found, conditions.theory, costs, completes, len(query.atoms)))


def worth_watching(
    found: Iterable[Explanation],
    theory: Theory,
    costs: Mapping[str, float],
    completes: Mapping[Explanation, float],
    work_left: float,
) -> list[Explanation]:
    """Explanations whose expected gain exceeds the cost of watching for them; those of one observation always are.

    Parameters
    ----------
    costs
        Work per trace of looking at the events of a type.
    completes
        Probability that an explanation becomes true before the trace ends; 0 if unknown.
    work_left
        Work that a trace still causes when it becomes true, in the same unit.

    Examples
    --------
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> theory = Theory(ConstraintSet((), ("A", "B"), ()))
    >>> pair = Explanation(0b11, 0)
    >>> worth_watching([pair], theory, {"A": 1, "B": 1}, {pair: 0.5}, work_left=10)
    [Explanation(present=3, absent=0)]
    >>> worth_watching([pair], theory, {"A": 9, "B": 9}, {pair: 0.5}, work_left=10)
    []
    """
    kept = []
    for item in found:
        cost = sum(costs.get(name, 0.0) for name in theory.members(item.present | item.absent))
        if item.size == 1 or completes.get(item, 0.0) * work_left > cost:
            kept.append(item)
    return kept


def _may_rest(query: EventQuery) -> bool:
    enumerates = any(atom.is_repeated for atom in query.atoms) and query.lists is Lists.ENUMERATE
    return query.strategy is Strategy.ANY and query.trace_ttl is None and not enumerates
