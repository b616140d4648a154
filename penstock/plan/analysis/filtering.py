"""Which conditions are worth ordering while a query runs, and what must precede what.

The rule is simple. Comparisons of columns stay with Catalyst: they are cheap there, and may prune partitions or be pushed into
the source. Conditions that call functions of Python cannot go there. Beside such a condition those that search texts (RLIKE, and
LIKE with more than a leading word) are kept back as well, because their place among the functions matters. Two or more of
them make an adaptive filter: profiling touches one rejected row in a hundred and asks at most every function once about it, so
it costs about a hundredth of the work, while a wrong order of two functions costs up to the whole work of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.expressions.intervals import can_be_true, implied
from penstock.expressions.nodes import Call, Column, Expr, Literal, conjuncts
from penstock.expressions.user_functions import applications, has_functions
from penstock.plan.analysis.null_rejection import rejects
from penstock.plan.nodes.filtering import Conjunct
from penstock.plan.nodes.relational import Select

#: Conditions from which on there is something to order.
FEWEST = 2


def is_search(expr: Expr) -> bool:
    """Whether the expression searches texts; LIKE 'word%' is a comparison, which sources can evaluate.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> [is_search(parse(text)) for text in ("a RLIKE 'x+'", "NOT a LIKE '%x%'", "a LIKE 'x%'", "a = 'x'")]
    [True, True, False, False]
    """
    if not isinstance(expr, Call):
        return False
    if expr.op == "like" and isinstance(expr.args[1], Literal):
        pattern = str(expr.args[1].value or "").removesuffix("%")
        return any(sign in pattern for sign in "%_")
    return expr.op == "rlike" or any(is_search(arg) for arg in expr.args)


def parted(node: Select) -> tuple[list[Expr], list[Expr]]:
    """Conditions for Catalyst, and those that are to be ordered; each once."""
    listed = list(dict.fromkeys(conjuncts(node.condition)))
    if not node.needs_python:
        return listed, []
    ordered = [part for part in listed if is_orderable(part)]
    return [part for part in listed if part not in ordered], ordered


def is_orderable(condition: Expr) -> bool:
    """Whether the place of a condition among others is worth finding."""
    return has_functions(condition) or is_search(condition)


def conjunction(conditions: Sequence[Expr]) -> tuple[Conjunct, ...]:
    """Conditions with what the functions they call declare."""
    return tuple(_conjunct(condition, conditions) for condition in conditions)


def _conjunct(condition: Expr, others: Sequence[Expr]) -> Conjunct:
    calls = applications(condition)
    costs = [call.function.cost for call in calls]
    known = [cost for cost in costs if cost is not None]
    guards = [guard for call in calls for guard in call.guards]
    after = [str(other) for other in others if other != condition and any(_implies(other, guard) for guard in guards)]
    return Conjunct(
        condition,
        str(condition),
        sum(known) if known and len(known) == len(costs) else None,
        tuple(after),
        all(call.function.profilable for call in calls),
    )


def _implies(condition: Expr, guard: Expr) -> bool:
    """Whether rows that meet the condition meet the guard too, as far as intervals tell."""
    if condition == guard:
        return True
    if isinstance(condition, Call) and condition.op == "or":
        return all(_implies(part, guard) for part in condition.args)
    if isinstance(condition, Call) and condition.op == "and" and any(_implies(part, guard) for part in condition.args):
        return True
    if has_functions(condition) or has_functions(guard):
        return False
    if (column := _required(guard)) is not None:
        return rejects(condition, {column})
    # An unknown guard is not met, but NOT of it is not true either: only what restricts the same columns says something.
    return implied(guard).keys() <= implied(condition).keys() and not can_be_true(
        Call("and", (condition, Call("not", (guard,)))), {}
    )


def _required(guard: Expr) -> str | None:
    """The column of `column IS NOT NULL`; None for other conditions."""
    match guard:
        case Call("not", (Call("is_null", (Column(name),)),)):
            return name
    return None
