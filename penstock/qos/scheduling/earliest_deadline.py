"""What must be answered first goes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.kernel.work import Choice, Queue, Terms, WaitingWork, WorkPlan
from penstock.model.durations import duration_text
from penstock.qos.scheduling.queries import served_queries


class EarliestDeadline:
    """Serve the queue whose first rows must be answered first; what nobody waits for by a certain time comes last, by age.

    As long as everything can be in time, it is. Under overload it serves what is already late; choose it where queries say how
    long their answers are of use and load is below capacity. It needs no prices.

    Notes
    -----
    The deadline is that of the most pressing query behind the operator, for the oldest row of the first item with rows.

    References
    ----------
    [liu1973] Liu, Layland. Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment. Journal of the ACM 20(1),
    1973.

    Examples
    --------
    >>> from penstock.kernel.work import Item, PlannedOperator
    >>> from penstock.model.elements import Heartbeat
    >>> terms = {"alerts": Terms(after_arrival_us=1_000), "report": Terms(after_arrival_us=9_000)}
    >>> operators = (PlannedOperator("a", answers=("report",)), PlannedOperator("b", answers=("alerts",)))
    >>> policy, work = EarliestDeadline(), WaitingWork(WorkPlan(operators, terms))
    >>> policy.plan(WorkPlan(operators, terms))
    >>> for name in "ab":
    ...     work.add(name, Item(0, Heartbeat(1)))
    >>> policy.pick(work)
    Choice(operator='b', position=0)
    """

    def __init__(self) -> None:
        #: The most pressing terms of the queries an operator works for.
        self._terms: dict[str, Terms] = {}
        self._places: dict[str, int] = {}

    def plan(self, plan: WorkPlan) -> None:
        queries = served_queries(plan)
        self._places = {operator.id: -place for place, operator in enumerate(plan.operators)}
        self._terms = {name: _most_pressing(plan.terms_of(query) for query in queries[name]) for name in self._places}

    def pick(self, work: WaitingWork) -> Choice | None:
        if not work.waiting:
            return None
        return Choice(min(work.waiting.values(), key=self._rank).operator)

    def _rank(self, queue: Queue) -> tuple[bool, int, int, int, int]:
        head, terms, place = queue.items[0], self._terms[queue.operator], self._places[queue.operator]
        # What is said about rows has no deadline, but rows behind it wait for it.
        first = head if head.rows else next((item for item in queue.items if item.rows), head)
        # The event time of rows is looked up only if it matters.
        deadline = terms.deadline_ns(first.oldest_us if terms.after_event_us is not None else 0, first.since_ns)
        return deadline is None, deadline or 0, head.since_ns, head.number, place

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Everything is in the queues."""

    def explained(self) -> Sequence[str]:
        return [f"'{name}': {_terms_text(terms)}" for name, terms in self._terms.items()]


def _most_pressing(terms: Iterable[Terms]) -> Terms:
    found = list(terms)
    after_event = (one.after_event_us for one in found if one.after_event_us is not None)
    after_arrival = (one.after_arrival_us for one in found if one.after_arrival_us is not None)
    return Terms(after_event_us=min(after_event, default=None), after_arrival_us=min(after_arrival, default=None))


def _terms_text(terms: Terms) -> str:
    event, arrival = terms.after_event_us, terms.after_arrival_us
    found = [] if event is None else [f"within {duration_text(event)} after its event time"]
    found += [] if arrival is None else [f"within {duration_text(arrival)} after its arrival"]
    return " and ".join(found) or "by no deadline"
