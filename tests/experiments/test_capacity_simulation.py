"""Whole plans: the model against the simulation, on plans drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.experiments.capacity.setup import HIERARCHICAL, target_plan
from penstock.experiments.capacity.simulation import Polling, at_random
from penstock.qos.capacity.cycles import cycle_of
from penstock.qos.capacity.plans import ModelPlan, PlanInput, PlanOperator
from penstock.qos.capacity.polled_plans import PolledPlan, push_up


@st.composite
def plans(draw: st.DrawFn) -> ModelPlan:
    """Trees of up to twelve operators over at least ten streams, at a load between 0.6 and 0.9."""
    load, seed = draw(st.floats(0.6, 0.9)), draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)
    operators, rates, queries = list[PlanOperator](), dict[str, float](), dict[str, str]()
    for tree in range(draw(st.integers(5, 7))):
        heads = []
        for leaf in range(2):
            stream, name = f"s{tree}.{leaf}", f"o{tree}.{leaf}"
            rates[stream] = float(random.uniform(50, 200))
            port = PlanInput(stream, float(random.uniform(0.2, 1.0)), float(random.uniform(0.3, 1.0)))
            operators.append(PlanOperator(name, (port,), float(random.uniform(1e-3, 3e-3))))
            heads.append(name)
        ports = tuple(PlanInput(name, float(random.uniform(0.2, 2.0)), float(random.uniform(0.1, 0.5))) for name in heads)
        operators.append(PlanOperator(f"o{tree}.join", ports, float(random.uniform(1e-3, 3e-3))))
        queries[f"q{tree}"] = f"o{tree}.join"
    drawn = ModelPlan(tuple(operators), rates, queries)
    return _costing(drawn, load)


def _costing(plan: ModelPlan, load: float) -> ModelPlan:
    """The same with service times that make up a load."""
    factor = load / plan.load
    slower = tuple(
        PlanOperator(
            each.id, tuple(PlanInput(port.source, port.service * factor, port.selectivity) for port in each.inputs), each.setup
        )
        for each in plan.operators
    )
    return ModelPlan(slower, plan.rates, plan.queries)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(plan=plans(), is_exhaustive=st.booleans(), seed=st.integers(0, 1000))
def test_latency_of_plans_drawn_at_random(plan: ModelPlan, is_exhaustive: bool, seed: int) -> None:
    turns = push_up(plan)
    polled = PolledPlan(plan, turns, is_exhaustive)
    assume(not polled.cycle.is_light)
    served = Polling(plan, turns, is_exhaustive).run(at_random(plan, 2_000.0, seed), 2_000.0, seed, 50.0)
    assert served.cycle_s == pytest.approx(polled.cycle.seconds, rel=0.05)
    assert served.mean_latency == pytest.approx(polled.mean_latency(), rel=0.05)


@settings(max_examples=30, deadline=None)
@given(plan=plans(), factor=st.floats(1.01, 1.1))
def test_work_is_conserved_and_more_of_anything_never_makes_leaves_wait_less(plan: ModelPlan, factor: float) -> None:
    polled = PolledPlan(plan, push_up(plan), is_light_corrected=False)
    cycle, stations = polled.cycle, polled.stations
    assert sum(cycle.busy(each) + each.setup for each in stations.values()) == pytest.approx(cycle.seconds, rel=1e-9)
    assert sum(cycle.busy(each) for each in stations.values()) == pytest.approx(plan.load * cycle.seconds, rel=1e-9)
    more = PolledPlan(plan.scaled(factor), push_up(plan), is_light_corrected=False)
    for query, latency in polled.latencies.items():
        found = more.latencies[query]
        assert found is not None
        assert latency is not None
        assert found >= latency * (1 - 1e-9)
    for operator in plan.operators:
        rows = sum(plan.rates_in[operator.id])
        waits = [polled.wait(operator.id, number) for number in range(len(operator.inputs))]
        assert polled.queued(operator.id) <= rows * max(waits) * (1 + 1e-12)


@given(plan=plans())
@settings(max_examples=20, deadline=None)
def test_the_cycle_solves_the_published_equations(plan: ModelPlan) -> None:
    """A vacation is all that the other operators do in a cycle: one linear equation for each operator."""
    stations = list(PolledPlan(plan, push_up(plan)).stations.values())
    cycle = cycle_of(stations, is_light_corrected=False)
    loads, setups = np.array([each.load for each in stations]), np.array([each.setup for each in stations])
    # B = load × (V + U + B), and V is the sum of U + B of all others.
    count = len(stations)
    others = np.ones((count, count)) - np.eye(count)
    equations = np.eye(count) * (1 - loads)[:, None] - loads[:, None] * others
    busy = np.linalg.solve(equations, loads * setups.sum())
    assert [cycle.busy(each) for each in stations] == pytest.approx(busy.tolist(), rel=1e-9)


def test_streams_that_feed_several_operators_make_all_of_them_wait_longer() -> None:
    """A row that comes at eight operators at once brings its work in one piece."""
    operators = tuple(PlanOperator(f"o{number}", (PlanInput("s", 1e-3),), 2e-4) for number in range(8))
    plan = ModelPlan(operators, {"s": 100.0}, {each.id: each.id for each in operators})
    turns = tuple(each.id for each in operators)
    served = Polling(plan, turns).run(at_random(plan, 20_000.0, 1), 20_000.0, 1, 100.0)
    polled = PolledPlan(plan, turns)
    apart = cycle_of(list(polled.stations.values()))
    assert plan.simultaneous == pytest.approx(100 * (64 - 8) * 1e-6)
    assert polled.cycle.felt_gated > 1.3 * apart.felt_gated
    assert served.mean_latency > 1.1 * apart.felt_gated / 2


def test_setups_that_are_left_out_make_latency_at_low_load_shorter() -> None:
    plan = target_plan(0.5)
    served = Polling(plan, HIERARCHICAL).run(at_random(plan, 3_000.0, 1), 3_000.0, 1, 100.0)
    plain = PolledPlan(plan, HIERARCHICAL, is_light_corrected=False)
    corrected = PolledPlan(plan, HIERARCHICAL)
    assert corrected.mean_latency() <= plain.mean_latency()
    assert corrected.mean_latency() == pytest.approx(served.mean_latency, rel=0.03)
