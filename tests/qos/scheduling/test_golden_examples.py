"""The worked examples of the literature over virtual time, recomputed exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from penstock.kernel.contracts import Policy
from penstock.kernel.work import Choice, WaitingWork, WorkPlan
from penstock.qos.scheduling.capacities import path_capacity, paths
from penstock.qos.scheduling.chain import Chain
from penstock.qos.scheduling.fifo import Fifo
from penstock.qos.scheduling.greedy import Greedy
from penstock.qos.scheduling.greedy_segment import GreedySegment
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.round_robin import RoundRobin
from penstock.qos.scheduling.segment import Segment
from penstock.qos.scheduling.simple_segment import SimpleSegment
from penstock.testing.scheduling import UNIT_NS, line, operator, per_unit, plan_of
from penstock.testing.scheduling_simulator import Arrival, Simulation

#: G1: rows of a tuple, so that all parts of tuples are whole rows.
TUPLE = 25


def table_6_1() -> WorkPlan:
    select = per_unit(Fraction(TUPLE), Fraction(1, 5))
    join = per_unit(Fraction(TUPLE, 5), Fraction(4, 5))
    return plan_of(
        operator("O1", select, to="O3.0", entrances=(0,)),
        operator("O2", select, to="O3.1", entrances=(0,)),
        operator("O3", join, join, answers="q"),
    )


INPUTS = [(1, "O1"), (2, "O2"), (3, "O1"), (3, "O2"), (10, "O1")]

Column = tuple[list[float], dict[int, int]]
#: Memory at t = 1…10 in tuples, and latency of what leaves by time of leaving, up to t = 10.
FIFO: Column = ([1.0, 1.2, 3.0, 2.2, 2.0, 1.2, 1.0, 0.2, 0.0, 1.0], {3: 2, 5: 3, 7: 4, 9: 6})
CHAIN: Column = ([1.0, 1.2, 2.4, 1.6, 0.8, 0.6, 0.4, 0.2, 0.0, 1.0], {6: 5, 7: 5, 8: 5, 9: 6})
TABLE_6_2: Mapping[str, tuple[Policy, Column]] = {
    "fifo": (Fifo(), FIFO),
    "chain": (Chain(), CHAIN),
    "segment": (Segment(), CHAIN),
    "greedy": (Greedy(), CHAIN),
    "greedy_segment": (GreedySegment(), CHAIN),
    "path_capacity": (PathCapacity(), (FIFO[0], {3: 2, 5: 2, 7: 5, 9: 6})),
    "round_robin": (RoundRobin(), ([1.0, 1.2, 2.4, 2.2, 1.4, 0.6, 0.4, 0.2, 0.0, 1.0], {4: 3, 7: 5, 8: 5, 9: 6})),
}


def run(policy: Policy, plan: WorkPlan, *arrivals: tuple[int, str], size: int = 1) -> Simulation:
    simulation = Simulation(policy, plan)
    simulation.run(Arrival(at * UNIT_NS, name, size) for at, name in arrivals)
    return simulation


@pytest.mark.parametrize("name", TABLE_6_2)
def test_g1_tables_6_1_and_6_2(name: str) -> None:
    policy, (memory, latencies) = TABLE_6_2[name]
    simulation = run(policy, table_6_1(), *INPUTS, size=TUPLE)
    assert [simulation.memory_at(t * UNIT_NS) / TUPLE for t in range(1, 11)] == memory
    answered = [one for one in simulation.answered if one.at_ns <= 10 * UNIT_NS]
    assert {one.at_ns // UNIT_NS: one.latency_ns // UNIT_NS for one in answered} == latencies
    assert {one.rows for one in simulation.answered} == {4}


def test_g1_means_as_printed() -> None:
    assert round(sum(FIFO[0][:9]) / 9, 4) == 1.3111
    assert round(sum(CHAIN[0][:9]) / 9, 4) == 0.9111
    assert [sum(column.values()) / 4 for column in (FIFO[1], CHAIN[1])] == [3.75, 5.25]


def test_g1_both_paths_have_capacity_one_half() -> None:
    assert [path_capacity(tree) * UNIT_NS / TUPLE for tree in paths(table_6_1())] == [Fraction(1, 2)] * 2


class ByName:
    """Serves what comes first in a list."""

    def __init__(self, *order: str) -> None:
        self._order = order

    def plan(self, plan: WorkPlan) -> None: ...

    def pick(self, work: WaitingWork) -> Choice | None:
        return next((Choice(name) for name in self._order if name in work.waiting), None)

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None: ...


def test_g2_releasing_faster_needs_less_memory() -> None:
    plan = plan_of(*line("A", per_unit(1.0, 1.0, 2)), *line("B", per_unit(0.5, 1.0, 2)))
    inputs = [(t, name) for t in range(5) for name in ("A1", "B1")]
    for policy in (ByName("A1", "B1"), Greedy(), Chain(), Segment(), PathCapacity()):
        found = run(policy, plan, *inputs)
        assert (max(found.waiting_memory.values()), found.peak) == (10, 12)
    found = run(ByName("B1", "A1"), plan, *inputs)
    assert (max(found.waiting_memory.values()), found.peak) == (14, 16)


def test_g6_the_order_by_capacity_has_the_least_latency_per_input_and_that_by_answers_per_answer() -> None:
    plan = plan_of(*line("a", per_unit(4.0)), *line("b", per_unit(2.0)), *line("c", per_unit(1.0)))
    found = run(PathCapacity(), plan, (0, "c1"), (0, "b1"), (0, "a1"))
    assert sum(one.latency_ns for one in found.answered) == 2.75 * UNIT_NS
    swapped = run(ByName("c1", "b1", "a1"), plan, (0, "c1"), (0, "b1"), (0, "a1"))
    assert sum(one.latency_ns for one in swapped.answered) == 4.25 * UNIT_NS


def test_g6_capacity_is_not_best_for_answers() -> None:
    plan = plan_of(*line("a", per_unit(Fraction(10), Fraction(1, 10))), *line("b", per_unit(Fraction(5))))
    means = []
    for policy in (PathCapacity(), PathAnswers()):
        found = Simulation(policy, plan, quantum_ns=2 * UNIT_NS)
        found.run([Arrival(0, "a1", 10), Arrival(0, "b1", 10)])
        latencies = sum(one.rows * one.latency_ns for one in found.answered)
        means.append(Fraction(latencies, sum(one.rows for one in found.answered) * UNIT_NS))
    assert means == [Fraction(31, 11), Fraction(23, 11)]


def g7() -> tuple[WorkPlan, list[Arrival]]:
    """Rows of a tuple: 40."""
    plan = plan_of(
        *line("X", per_unit(40.0), per_unit(40.0)),
        *line("Y", per_unit(Fraction(40), Fraction(3, 5)), per_unit(Fraction(3))),
    )
    return plan, [Arrival(0, "X1", 40), Arrival(0, "Y1", 40), Arrival(UNIT_NS, "X1", 40)]


@pytest.mark.parametrize("policy", [Segment(), Chain()])
def test_g7_segments_are_not_strictly_optimal(policy: Policy) -> None:
    plan, arrivals = g7()
    found = Simulation(policy, plan)
    found.run(arrivals)
    assert [found.memory_at(t * UNIT_NS) / 40 for t in range(5)] == [2, 3, 2, 2, 1]
    better = Simulation(Script("Y1", "X1", "X2", "X1", "X2", *["Y2"] * 8), plan)
    better.run(arrivals)
    assert (found.peak / 40, better.peak / 40) == (3.0, 2.6)


class Script(ByName):
    """Serves what is written, in this order."""

    def pick(self, work: WaitingWork) -> Choice | None:
        first, self._order = self._order[0], self._order[1:]
        return Choice(first)


def test_g10_operators_of_equal_segments_do_not_interleave() -> None:
    plan = plan_of(*line("A", *[per_unit(1.0)] * 4), *line("E", *[per_unit(1.0)] * 4))
    for policy in (Segment(), SimpleSegment(), GreedySegment(), PathCapacity(), PathAnswers()):
        found = Simulation(policy, plan)
        # Of each path two rows: one goes through all operators, then the other, then those of the other path.
        found.run(Arrival(0, name, 1) for name in ("E1", "A1", "E1", "A1"))
        assert [one.operator for one in found.served] == ["A1", "A2", "A3", "A4"] * 2 + ["E1", "E2", "E3", "E4"] * 2
