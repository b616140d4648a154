"""When constraints are watched: where that spares more work than it adds, and wherever more than time depends on them."""

import pytest

from penstock.expressions.event_queries import EventQuery
from penstock.metadata.constraints.clauses import exclusive, never, prior
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import registered, why_unwatched
from penstock.metadata.constraints.worth import estimated_work
from penstock.model.event_patterns import LastRun, Strategy, absent, atom, either, seq

TYPES = ("A", "B", "C", "X", "Y", "Z")


def reason(pattern, *constraints, is_trusted=True, options=None, **given):
    query = EventQuery(pattern, ("id",), **{"terminal": ("Z",), **given})
    rules = ConstraintSet(("id",), TYPES, constraints, is_trusted)
    return why_unwatched(query, registered(query, rules, options, "empty"))


@pytest.mark.parametrize(
    ("pattern", "constraints", "given"),
    [
        # An event that is a match by itself waits for nothing.
        (seq("A"), [prior("A", "X")], {}),
        (seq("A"), [], {"within": 9}),
        # Nothing fails, and every event is looked at all the same.
        (seq("A", "B"), [prior("X", "Y")], {"strategy": Strategy.NEXT}),
        (seq("A", "B"), [prior("X", "Y")], {"trace_ttl": 9, "terminal": ()}),
    ],
)
def test_where_nothing_is_spared_constraints_are_not_watched(pattern, constraints, given):
    assert "constraints are not watched" in reason(pattern, *constraints, **given)


@pytest.mark.parametrize(
    ("pattern", "constraints", "given"),
    [
        # Events wait for a match without being searched, or traces fail early.
        (seq("A", "B", "C"), [], {}),
        (seq("A", "B"), [exclusive("X", "B")], {}),
        (seq("A", "B", "C"), [exclusive("X", "B"), exclusive("Y", "C")], {"strategy": Strategy.NEXT}),
        # More than time depends on them.
        (seq("A", absent("B", "n")), [prior("B", "X")], {"within": 9}),
        (either("A", "B"), [never("B")], {}),
        (atom("A", "a", "+"), [prior("A", "X")], {"strategy": Strategy.NEXT, "last_run": LastRun.MAXIMAL}),
        (seq("A"), [prior("A", "X")], {"is_trusted": False}),
        (seq("A"), [prior("A", "X")], {"options": ConditionOptions(exact=True)}),
    ],
)
def test_constraints_are_watched(pattern, constraints, given):
    assert reason(pattern, *constraints, **given) == ""


def test_types_that_only_constraints_name_add_work_and_conditions_spare_it():
    query = EventQuery(seq("A", "B"), ("id",), terminal=("Z",))

    def work(*constraints):
        conditions = registered(query, ConstraintSet(("id",), TYPES, constraints)).conditions
        return estimated_work(query, conditions, conditions.theory.members(conditions.relevant))

    few, more = work(exclusive("X", "B")), work(exclusive("X", "B"), exclusive("Y", "A"))
    assert more.added - few.added == pytest.approx(0.3)
    assert few.spared < more.spared < 3
