"""What holds for all strategies, on random plans with random arrivals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from json import dumps, loads
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.contracts import HearsArrivals, Policy
from penstock.kernel.work import Choice, Item, Price, Terms, WaitingWork, WorkPlan
from penstock.qos.scheduling.table import POLICIES, make_policy
from penstock.testing.scheduling import UNIT_NS, operator, per_unit, plan_of, waiting
from penstock.testing.scheduling_simulator import Arrival, Simulation

NAMES = [*POLICIES, "path round_robin", "query round_robin"]
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "threshold": {"memory": 200, "upper": 60, "lower": 20},
    "round_robin": {"slices": 2},
    "path round_robin": {"over": "paths", "slices": 3},
    "query round_robin": {"over": "queries"},
    "weighted_round_robin": {"weights": {"q0": 3}},
}


def made(name: str, **more: Any) -> Policy:
    return make_policy(name.split()[-1], {**SETTINGS.get(name, {}), **more})


def add_ons() -> st.SearchStrategy[dict[str, Any]]:
    """Help against starvation."""
    return st.fixed_dictionaries(
        {}, optional={"oldest_every": st.integers(0, 4), "max_age": st.sampled_from(["1 second", "3 seconds"])}
    )


@st.composite
def plans(draw: st.DrawFn, least: int = 1) -> WorkPlan:
    """Operators of two ports that feed later ones; some let nothing pass, make rows, cost nothing or are reached by nothing."""
    count = draw(st.integers(least, 6))
    price = st.builds(
        per_unit, st.sampled_from([0.5, 1.0, 3.0, 7.0]), st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), st.sampled_from([1, 10, 1000])
    )
    price |= st.sampled_from([Price(0, 0, 1, 0, 1), Price(1000, 0, 1, 10, 0)])
    operators = []
    for at in range(count):
        later = [other for other in range(at + 1, count) if draw(st.booleans())][:2]
        operators.append(
            operator(
                f"o{at}",
                draw(price),
                draw(price),
                to=" ".join(f"o{other}.{draw(st.integers(0, 1))}" for other in later),
                entrances=(0, 1)[: draw(st.integers(0, 2)) if at else 1],
                answers="" if later else f"q{at}",
            )
        )
    terms = st.builds(Terms, st.sampled_from([1.0, 2.0]), st.sampled_from([None, 10**6]), st.sampled_from([None, 2 * 10**6]))
    return plan_of(*operators, terms={f"q{at}": draw(terms) for at in range(count)})


@st.composite
def arrivals(draw: st.DrawFn, plan: WorkPlan) -> list[Arrival]:
    """At entrances, and a few anywhere: leftovers of another strategy, or of another plan."""
    found = []
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.sampled_from(plan.operators))
        found.append(Arrival(draw(st.integers(0, 8)) * UNIT_NS, at.id, draw(st.integers(0, 5)), draw(st.integers(0, 1))))
    return found


def total(simulation: Simulation) -> Counter[str]:
    """Rows that each operator has served, which do not depend on who picks; neither do answers."""
    found = Counter[str]()
    for one in simulation.served:
        found[one.operator] += one.rows
    for answered in simulation.answered:
        found[answered.query] += answered.rows
    return +found


@settings(deadline=None)
@given(st.data(), st.sampled_from(NAMES), add_ons())
def test_everything_is_served_whoever_picks(data: st.DataObject, name: str, more: dict[str, Any]) -> None:
    plan = data.draw(plans())
    coming = data.draw(arrivals(plan))
    simulation, by_age = Simulation(made(name, **more), plan), Simulation(made("fifo"), plan)
    simulation.run(coming)
    by_age.run(coming)
    assert not simulation.work.waiting
    assert total(simulation) == total(by_age)


@dataclass
class Switching:
    """Another strategy after every few picks; queues stay as they are."""

    names: list[str]
    picks: int = 0

    def plan(self, plan: WorkPlan) -> None:
        self.current = plan

    def pick(self, work: WaitingWork) -> Choice | None:
        if self.picks % 3 == 0:
            self.policy = made(self.names[self.picks // 3 % len(self.names)])
            self.policy.plan(self.current)
        self.picks += 1
        return self.policy.pick(work)

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None: ...


@settings(deadline=None)
@given(st.data(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=6))
def test_everything_is_served_when_strategies_change(data: st.DataObject, names: list[str]) -> None:
    plan = data.draw(plans())
    coming = data.draw(arrivals(plan))
    simulation, by_age = Simulation(Switching(names), plan), Simulation(made("fifo"), plan)
    simulation.run(coming)
    by_age.run(coming)
    assert total(simulation) == total(by_age)


@dataclass
class Restarting:
    """A policy that is replaced before each pick by one that was told the plan and restored from JSON."""

    name: str
    more: dict[str, Any]
    is_restored_first: bool

    def plan(self, plan: WorkPlan) -> None:
        self.current, self.policy = plan, made(self.name, **self.more)
        self.policy.plan(plan)

    def on_arrival(self, operator: str, item: Item, now_ns: int) -> None:
        if isinstance(self.policy, HearsArrivals):
            self.policy.on_arrival(operator, item, now_ns)

    def pick(self, work: WaitingWork) -> Choice | None:
        state = loads(dumps(self.policy.snapshot()))
        self.policy = made(self.name, **self.more)
        if self.is_restored_first:
            self.policy.restore(state)
            self.policy.plan(self.current)
        else:
            self.policy.plan(self.current)
            self.policy.restore(state)
        # Queues may be listed in any order.
        shuffled = WaitingWork(self.current)
        shuffled.now_ns, shuffled.memory = work.now_ns, work.memory
        shuffled.waiting = dict(sorted(work.waiting.items(), reverse=True))
        return self.policy.pick(shuffled)

    def snapshot(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None: ...


@settings(deadline=None)
@given(st.data(), st.sampled_from(NAMES), add_ons(), st.booleans())
def test_a_replay_picks_the_same_from_any_snapshot_and_any_order_of_queues(
    data: st.DataObject, name: str, more: dict[str, Any], is_restored_first: bool
) -> None:
    plan = data.draw(plans())
    coming = data.draw(arrivals(plan))
    simulation = Simulation(made(name, **more), plan)
    again = Simulation(Restarting(name, more, is_restored_first), plan)
    simulation.run(coming)
    again.run(coming)
    assert simulation.served == again.served


@settings(deadline=None)
@given(st.data(), st.sampled_from(NAMES))
def test_operators_may_come_and_go_and_queues_stay(data: st.DataObject, name: str) -> None:
    before, after = data.draw(plans(least=3)), data.draw(plans(least=2))
    policy = made(name)
    policy.plan(before)
    work = waiting(before, **{operator.id: 2 for operator in before.operators})
    for _ in range(data.draw(st.integers(0, 4))):
        choice = policy.pick(work)
        assert choice is not None
        work.take(choice, 1)
    for operator_ in before.operators:
        if operator_.id not in {one.id for one in after.operators}:
            work.drop(operator_.id)
    work.replan(after)
    policy.plan(after)
    while work.waiting:
        choice = policy.pick(work)
        assert choice is not None
        work.take(choice)
    assert policy.pick(work) is None


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_picked_when_nothing_waits_or_nothing_is_there(name: str) -> None:
    for operators in ((), (operator("a", entrances=(0,)),)):
        plan = plan_of(*operators)
        policy = made(name)
        assert policy.snapshot() is not None
        policy.plan(plan)
        assert policy.pick(WaitingWork(plan)) is None
        policy.restore({})
        assert policy.pick(WaitingWork(plan)) is None


@pytest.mark.parametrize("name", NAMES)
def test_leftovers_inside_a_path_are_served_although_its_entrance_is_empty(name: str) -> None:
    """The segment of `shared` alone is part of a larger one; something that another path has left there is served all the same."""
    slow, fast = per_unit(1.0), per_unit(1.0, 0.1)
    plan = plan_of(
        operator("a", fast, to="shared.0", entrances=(0,), answers="q"),
        operator("b", slow, to="shared.1", entrances=(0,)),
        operator("shared", per_unit(0.5), per_unit(0.5), answers="q"),
    )
    policy = made(name)
    policy.plan(plan)
    choice = policy.pick(waiting(plan, shared=1))
    assert choice == Choice("shared")
