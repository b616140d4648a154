"""Strategies that look at single operators: by age, by release of memory, by the slope of a progress chart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.kernel.work import Item, WaitingWork
from penstock.model.elements import Heartbeat
from penstock.qos.scheduling.chain import Chain
from penstock.qos.scheduling.fifo import Fifo
from penstock.qos.scheduling.greedy import Greedy
from penstock.testing.scheduling import UNIT_NS, drained, line, operator, per_unit, picked, plan_of, rows, waiting
from penstock.testing.scheduling_simulator import Arrival, Simulation

#: G3: the own capacities are 1, 1.5, 2.5, 1, 4, that of the whole path is 2.
G3 = [per_unit(*numbers) for numbers in [(10, 0.9), (9, 5 / 6), (7.5, 2 / 3), (5, 0.8), (4, 0.5)]]
ABC = plan_of(operator("a"), operator("b"), operator("c"))


def test_fifo_serves_what_came_first() -> None:
    policy = Fifo()
    policy.plan(ABC)
    assert drained(policy, waiting(ABC, b=1, c=1, a=1)) == ["b", "c", "a"]


def test_fifo_looks_at_the_time_before_the_number() -> None:
    policy, work = Fifo(), WaitingWork(ABC)
    policy.plan(ABC)
    for name, since, number in [("a", 5, 1), ("b", 4, 3), ("c", 4, 2)]:
        work.add(name, Item(0, Heartbeat(1), since, number))
    assert drained(policy, work) == ["c", "b", "a"]


def test_fifo_runs_what_came_first_through_to_its_answers() -> None:
    plan = plan_of(*line("x", per_unit(1.0), per_unit(1.0)), *line("y", per_unit(2.0), per_unit(2.0)))
    found = Simulation(Fifo(), plan)
    found.run([Arrival(0, "x1", 2), Arrival(0, "y1", 1), Arrival(UNIT_NS, "x1", 1)])
    assert [one.operator for one in found.served] == ["x1", "x2", "x1", "x2", "y1", "y2", "x1", "x2"]


def test_greedy_serves_by_the_release_of_the_operator_itself() -> None:
    plan = plan_of(*line("p", *G3))
    policy = Greedy()
    policy.plan(plan)
    assert drained(policy, waiting(plan, p1=1, p2=1, p3=1, p5=1)) == ["p5", "p3", "p2", "p1"]
    assert len(policy.explained()) == 5


def test_chain_serves_by_the_segment_and_in_it_by_age() -> None:
    plan = plan_of(*line("p", *G3), *line("q", per_unit(1.9)), *line("r", per_unit(2.1)))
    policy = Chain()
    policy.plan(plan)
    assert drained(policy, waiting(plan, q1=1, p5=1, p1=1, r1=1, p3=1)) == ["r1", "p5", "p1", "p3", "q1"]


def test_of_one_age_what_has_come_furthest_goes_first() -> None:
    plan = plan_of(*line("p", *G3))
    policy, work = Chain(), WaitingWork(plan)
    policy.plan(plan)
    for name in ("p1", "p4", "p2"):
        work.add(name, Item(0, rows(1)))
    assert drained(policy, work) == ["p4", "p2", "p1"]


def test_an_operator_that_several_inputs_reach_has_the_mean_of_its_slopes() -> None:
    plan = plan_of(
        operator("a", per_unit(10.0, 0.1), to="j.0", entrances=(0,)),
        operator("b", per_unit(10.0, 0.1), to="j.1", entrances=(0,)),
        operator("j", per_unit(1.0), per_unit(3.0), answers="q"),
        *line("less", per_unit(1.9)),
        *line("more", per_unit(2.1)),
    )
    for policy in (Chain(), Greedy()):
        policy.plan(plan)
        assert drained(policy, waiting(plan, less1=1, j=1, more1=1, a=1)) == ["a", "more1", "j", "less1"]
        assert any("the mean of" in text for text in policy.explained())


@pytest.mark.parametrize(
    ("rate_of_a", "rate_of_b", "order"),
    [
        (0, 0, ["a", "more1", "j", "less1"]),
        (70, 70, ["a", "more1", "j", "less1"]),
        # Nobody knows how much comes on the other path: as much, then.
        (70, 0, ["a", "more1", "j", "less1"]),
        (90, 10, ["a", "more1", "less1", "j"]),
        (10, 90, ["a", "j", "more1", "less1"]),
    ],
)
@pytest.mark.parametrize("make", [Chain, Greedy])
def test_in_this_mean_a_slope_counts_by_the_rows_that_arrive_on_its_path(
    make: type[Chain] | type[Greedy], rate_of_a: float, rate_of_b: float, order: list[str]
) -> None:
    plan = plan_of(
        operator("a", replace(per_unit(10.0, 0.1), rate=rate_of_a), to="j.0", entrances=(0,)),
        operator("b", replace(per_unit(10.0, 0.1), rate=rate_of_b), to="j.1", entrances=(0,)),
        operator("j", per_unit(1.0), per_unit(3.0), answers="q"),
        *line("less", per_unit(1.9)),
        *line("more", per_unit(2.1)),
    )
    policy = make()
    policy.plan(plan)
    assert drained(policy, waiting(plan, less1=1, j=1, more1=1, a=1)) == order


def test_nothing_is_picked_when_nothing_waits() -> None:
    for policy in (Fifo(), Greedy(), Chain()):
        assert picked(policy, ABC) is None
        assert policy.snapshot() == {}
