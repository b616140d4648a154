"""What strategies with weights and deadlines cannot do anything with; told where it is declared, not in a shard."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from penstock.errors import InvalidDeclaration
from penstock.kernel.work import Terms, WorkPlan
from penstock.qos.scheduling.trees import trees


def check_validity(strategy: str, terms: Iterable[Terms]) -> None:
    """Refuse a strategy that goes by deadlines where no query has a validity. Where one has, answers of the others can wait.

    Examples
    --------
    >>> check_validity("deadline", [Terms(weight=3)])
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidDeclaration: plan.declaration  'deadline' goes by deadlines, but no query says how long its answers are \
of use; write for example VALID FOR INTERVAL 5 SECONDS before AS, or choose a strategy without deadlines, such as 'auto'
    """
    if not any(each.has_validity for each in terms):
        raise InvalidDeclaration(
            f"'{strategy}' goes by deadlines, but no query says how long its answers are of use; write for example VALID FOR "
            "INTERVAL 5 SECONDS before AS, or choose a strategy without deadlines, such as 'auto'"
        )


def check_plan(plan: WorkPlan) -> None:
    """Refuse terms and graphs without meaning: those that nobody has parsed or built of operators.

    Examples
    --------
    >>> check_plan(WorkPlan((), {"alerts": Terms(weight=0)}))
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidDeclaration: plan.declaration  query 'alerts' has weight 0; it must be a number > 0
    """
    for query, terms in plan.terms.items():
        _check_terms(query, terms)
    _check_graph(plan)


def _check_terms(query: str, terms: Terms) -> None:
    if not (isfinite(terms.weight) and terms.weight > 0):
        raise InvalidDeclaration(f"query '{query}' has weight {terms.weight}; it must be a number > 0")
    for micros in (terms.after_event_us, terms.after_arrival_us):
        if micros is not None and micros <= 0:
            raise InvalidDeclaration(f"query '{query}' has a validity of {micros} µs; it must be > 0")


def _check_graph(plan: WorkPlan) -> None:
    positions = {operator.id: position for position, operator in enumerate(plan.operators)}
    reached = {operator.id for operator in plan.operators if operator.entrances}
    for position, operator in enumerate(plan.operators):
        consumers = [name for name, _ in operator.consumers if name in positions]
        for name in consumers:
            if positions[name] <= position:
                raise InvalidDeclaration(f"'{operator.id}' feeds '{name}', which stands before it: the operators form a circle")
        if not consumers and not operator.answers:
            raise InvalidDeclaration(f"nobody reads what '{operator.id}' makes, and it answers no query")
        if operator.id not in reached:
            raise InvalidDeclaration(f"no row can reach '{operator.id}'")
        reached.update(consumers)


def repeated_places(plan: WorkPlan) -> list[str]:
    """Operators that rows of one entrance reach on several ways. They are reckoned once for each way but run once, so what is
    reckoned is not exact there.
    """
    found: dict[str, None] = {}
    for tree in trees(plan):
        names = [step.operator for step in tree.walk()]
        found.update(dict.fromkeys(name for name in names if names.count(name) > 1))
    return list(found)
