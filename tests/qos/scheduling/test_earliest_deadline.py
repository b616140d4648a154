"""What must be answered first goes first."""

from __future__ import annotations

from penstock.kernel.work import Item, Terms, WaitingWork, WorkPlan
from penstock.model.elements import Element, Heartbeat
from penstock.qos.scheduling.earliest_deadline import EarliestDeadline
from penstock.testing.scheduling import UNIT_NS, drained, line, operator, per_unit, picked, plan_of, rows
from penstock.testing.scheduling_simulator import Arrival, Simulation

SECOND_US = 1_000_000
TERMS = {
    "alerts": Terms(after_event_us=2 * SECOND_US),
    "board": Terms(after_arrival_us=5 * SECOND_US),
    "both": Terms(after_event_us=9 * SECOND_US, after_arrival_us=3 * SECOND_US),
}


def order(plan: WorkPlan, *items: tuple[str, Element, int]) -> list[str]:
    """Items as operator, element, second of arrival."""
    policy, work = EarliestDeadline(), WaitingWork(plan)
    policy.plan(plan)
    for number, (name, element, second) in enumerate(items):
        work.add(name, Item(0, element, second * UNIT_NS, number))
    return drained(policy, work)


PLAN = plan_of(
    *(operator(name[0], answers=name) for name in ("report", "alerts", "board")), operator("2", answers="both"), terms=TERMS
)


def test_the_deadline_follows_the_event_time_or_the_arrival() -> None:
    old, new = rows(1, ts=5 * SECOND_US), rows(1, ts=8 * SECOND_US)
    assert order(PLAN, ("b", new, 3), ("a", old, 3)) == ["a", "b"]
    assert order(PLAN, ("b", old, 3), ("a", new, 9)) == ["b", "a"]
    assert order(PLAN, ("a", new, 8), ("2", old, 6)) == ["2", "a"]


def test_rows_from_the_future_are_no_younger_than_their_arrival() -> None:
    ahead = rows(1, ts=80 * SECOND_US)
    assert order(PLAN, ("b", rows(1), 3), ("a", ahead, 5)) == ["a", "b"]


def test_the_oldest_row_of_an_item_counts() -> None:
    mixed = rows(2, ts=8 * SECOND_US)
    mixed.ts[1] = 0
    assert order(PLAN, ("b", rows(1), 0), ("a", mixed, 9)) == ["a", "b"]


def test_what_has_no_deadline_comes_last_by_age() -> None:
    assert order(PLAN, ("r", rows(1), 0), ("b", rows(1), 9)) == ["b", "r"]
    assert order(PLAN, ("a", Heartbeat(1), 4), ("r", rows(1), 3), ("b", Heartbeat(1), 9)) == ["b", "r", "a"]


def test_what_is_said_about_rows_goes_with_the_rows_behind_it() -> None:
    policy, work = EarliestDeadline(), WaitingWork(PLAN)
    policy.plan(PLAN)
    items: list[tuple[str, Element]] = [("b", rows(1)), ("a", Heartbeat(1)), ("a", rows(1, ts=SECOND_US))]
    for name, element in items:
        work.add(name, Item(0, element))
    assert drained(policy, work) == ["a", "a", "b"]


def test_the_most_pressing_query_behind_an_operator_counts() -> None:
    plan = plan_of(
        operator("s", to="t u", entrances=(0,)),
        operator("t", answers="report board"),
        operator("u", answers="both"),
        operator("v", answers="late"),
        terms={**TERMS, "late": Terms(after_arrival_us=4 * SECOND_US)},
    )
    new = rows(1, ts=99 * SECOND_US)
    assert order(plan, *((name, new, 0) for name in "tuvs")) == ["u", "s", "v", "t"]
    policy = EarliestDeadline()
    policy.plan(plan)
    assert policy.explained() == [
        "'s': within 9 seconds after its event time and within 3 seconds after its arrival",
        "'t': within 5 seconds after its arrival",
        "'u': within 9 seconds after its event time and within 3 seconds after its arrival",
        "'v': within 4 seconds after its arrival",
    ]


def test_everything_is_in_time_if_it_can_be() -> None:
    terms = {"x": Terms(after_arrival_us=6 * SECOND_US), "y": Terms(after_arrival_us=3 * SECOND_US)}
    plan = plan_of(*line("x", per_unit(1.0), per_unit(1.0)), *line("y", per_unit(1.0), per_unit(1.0)), terms=terms)
    found = Simulation(EarliestDeadline(), plan)
    found.run(Arrival(second * UNIT_NS, name, 1) for name, second in [("x1", 0), ("y1", 1), ("x1", 2), ("y1", 5)])
    assert [(one.query, one.at_ns // UNIT_NS) for one in found.answered] == [("y", 3), ("x", 4), ("x", 6), ("y", 8)]


def test_nothing_is_picked_when_nothing_waits() -> None:
    assert picked(EarliestDeadline(), PLAN) is None
