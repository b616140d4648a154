"""The worked examples of the capacity model, to the printed digits."""

from __future__ import annotations

import numpy as np
import pytest
from target_plan import GLOBAL, HIERARCHICAL, TARGET, target_plan

from penstock.qos.capacity.conditions import condition_service, stop_probabilities
from penstock.qos.capacity.cycles import Station, cycle_of, exhaustive_wait, gated_wait, limit_recommended, limited_is_stable
from penstock.qos.capacity.distributions import Distribution, deterministic, exponential, uniform
from penstock.qos.capacity.plans import ModelPlan, PlanInput, PlanOperator
from penstock.qos.capacity.polled_plans import PolledPlan, push_up
from penstock.qos.capacity.quantiles import JoinWaits
from penstock.qos.capacity.queue_lengths import length_probabilities
from penstock.qos.capacity.single_server import SingleServer
from penstock.qos.capacity.vacations import Discipline, VacationServer
from penstock.qos.capacity.window_joins import HashCosts, window_rows

near = pytest.approx

#: Rates and service times of the published join experiments.
JOINS = {
    "5.1 first": ((100, 100), (1 / 209.4, 1 / 209.4)),
    "5.1 second": ((90, 90), (1 / 209.4, 1 / 209.4)),
    "5.2 first": ((200, 100), (1 / 440, 1 / 220)),
    "5.2 second": ((180, 90), (1 / 440, 1 / 220)),
    "5.2 third": ((150, 75), (1 / 440, 1 / 220)),
}


@pytest.mark.parametrize(
    ("load", "rows_per_s", "service", "expected"),
    [
        (0.8, 100, deterministic, (2.4, 5.813333, 0.03, 5.3333e-4)),
        (0.8, 100, exponential, (4, 20, 0.05, 2.5e-3)),
        (0.5, 10, deterministic, (0.75, 0.895833, 0.15, 5.8333e-3)),
        (0.5, 10, exponential, (1, 2, 0.2, 0.04)),
    ],
)
def test_one_server(load: float, rows_per_s: float, service: object, expected: tuple[float, ...]) -> None:
    server = SingleServer(load * rows_per_s, service(1 / rows_per_s))  # type: ignore[operator]
    found = (server.in_system, server.in_system_variance, server.latency, server.latency_variance)
    assert found == near(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "load", "wait", "queued", "in_system"),
    [
        ("5.1 first", 0.955110, 0.050804, 10.16074, 11.11585),
        ("5.1 second", 0.859599, 0.014619, 2.631425, 3.49102),
        ("5.2 first", 0.909091, 0.017045, 5.113636, 6.02273),
        ("5.2 second", 0.818182, 0.0076705, 2.071023, 2.88920),
        ("5.2 third", 0.681818, 0.0036526, 0.821834, 1.50365),
    ],
)
def test_published_joins(name: str, load: float, wait: float, queued: float, in_system: float) -> None:
    server = JoinWaits(*JOINS[name]).server
    assert (server.load, server.wait, server.queued, server.in_system) == near((load, wait, queued, in_system), rel=1e-4)


@pytest.mark.parametrize(
    ("name", "root", "factor", "exact", "tail"),
    [
        ("5.1 first", -19.0900, 0.97007, (0.03472, 0.11903, 0.23964, 0.36026), (0.03472, 0.11903, 0.23964, 0.36026)),
        ("5.1 second", -61.8393, 0.90631, (0.00961, 0.03564, 0.07288, 0.11011), (0.00962, 0.03564, 0.07288, 0.11011)),
        ("5.2 first", -54.6714, 0.93279, (0.01141, 0.04084, 0.08296, 0.12508), (0.01141, 0.04084, 0.08296, 0.12508)),
        ("5.2 second", -112.3942, 0.86578, (0.00486, 0.01920, 0.03969, 0.06018), (0.00488, 0.01920, 0.03969, 0.06018)),
        ("5.2 third", -206.3257, 0.76540, (0.00201, 0.00987, 0.02102, 0.03218), (0.00206, 0.00986, 0.02102, 0.03218)),
    ],
)
def test_quantiles_of_waits(name: str, root: float, factor: float, exact: tuple[float, ...], tail: tuple[float, ...]) -> None:
    waits = JoinWaits(*JOINS[name])
    shares = (0.5, 0.9, 0.99, 0.999)
    assert (waits.tail().root, waits.tail().factor) == near((root, factor), rel=1e-4)
    assert [waits.quantile(share) for share in shares] == near(exact, rel=1e-3, abs=6e-6)
    assert [waits.tail().quantile(share) for share in shares] == near(tail, rel=1e-3, abs=6e-6)
    assert [waits.exceeding(time) for time in exact] == near([1 - share for share in shares], rel=5e-3)


@pytest.mark.parametrize(
    ("name", "largest"),
    [("5.1 first", 0.016), ("5.1 second", 0.045), ("5.2 first", 0.022), ("5.2 second", 0.037), ("5.2 third", 0.054)],
)
def test_the_published_tail_is_an_approximation(name: str, largest: float) -> None:
    waits = JoinWaits(*JOINS[name])
    times = np.linspace(1e-5, 6 * waits.server.wait, 400)
    published = waits.server.load * np.exp(waits.tail().root * times)
    found = max(abs(waits.exceeding(time) - theirs) for time, theirs in zip(times, published, strict=True))
    assert found == near(largest, abs=1.5e-3)


def test_numbers_of_rows() -> None:
    assert length_probabilities(*JOINS["5.2 first"], 2) == near([0.09090909, 0.12432445, 0.11797961], rel=1e-6)
    assert length_probabilities(*JOINS["5.1 first"], 2) == near([0.04489016, 0.07177740, 0.07511596], rel=1e-6)
    assert JoinWaits(*JOINS["5.2 first"]).server.in_system_variance == near(36.1493, rel=1e-5)
    assert JoinWaits(*JOINS["5.1 first"]).server.in_system_variance == near(120.8263, rel=1e-5)
    assert JoinWaits(*JOINS["5.1 first"]).server.latency_variance == near(2.74276e-3, rel=1e-5)
    assert JoinWaits(*JOINS["5.2 first"]).server.latency_variance == near(3.3474e-4, rel=1e-4)


def test_several_conditions() -> None:
    assert stop_probabilities((0.1, 0.3, 0.5)) == near([0.90, 0.07, 0.03])
    service = condition_service((0.1, 0.3, 0.5), (1, 1, 1))
    assert (service.mean, service.second) == near((1.13, 1.45))
    shapes: list[Distribution] = [service, exponential(1.13), deterministic(1.13)]
    waits = [[SingleServer(load / 1.13, shape).wait for load in (0.5, 0.8, 0.9)] for shape in shapes]
    assert waits[0] == near([0.6416, 2.5664, 5.7743], rel=1e-4)
    assert waits[1] == near([1.13, 4.52, 10.17], rel=1e-6)
    assert waits[2] == near([0.565, 2.26, 5.085], rel=1e-6)
    assert waits[1][0] / waits[0][0] == near(1.76, abs=0.005)


_VACATIONS = {
    "exponential": (0.5, exponential(1), deterministic(0.5), exponential(1)),
    "loaded": (0.8, deterministic(1), deterministic(0.5), deterministic(3)),
    "light": (0.2, deterministic(1), exponential(1), deterministic(1)),
    "uniform": (0.3, uniform(1), deterministic(0), exponential(2)),
}


@pytest.mark.parametrize(
    ("name", "discipline", "empty", "wait", "busy", "cycle"),
    [
        ("exponential", Discipline.EXHAUSTIVE, 0.66667, 2.32143, 1.16667, 7.00000),
        ("exponential", Discipline.GATED, 0.42236, 4.05602, 1.28882, 4.46239),
        ("loaded", Discipline.EXHAUSTIVE, 0.09072, 3.76969, 13.8186, 18.9965),
        ("loaded", Discipline.GATED, 0.00028, 18.24994, 13.9994, 17.5042),
        ("light", Discipline.EXHAUSTIVE, 0.81873, 1.54827, 0.29532, 8.14582),
        ("light", Discipline.GATED, 0.74708, 2.42779, 0.31323, 6.19233),
        ("uniform", Discipline.EXHAUSTIVE, 0.62500, 2.28571, 0.85714, 7.61905),
        ("uniform", Discipline.GATED, 0.51262, 3.14286, 0.85714, 5.86229),
    ],
)
def test_vacations(name: str, discipline: Discipline, empty: float, wait: float, busy: float, cycle: float) -> None:
    served = VacationServer(*_VACATIONS[name], discipline)
    assert served.empty_share == near(empty, abs=6e-6)
    assert (served.wait, served.busy, served.service_cycle) == near((wait, busy, cycle), rel=3e-5)
    rate = served.rate
    assert served.served == near(rate * served.round)


@pytest.mark.parametrize(
    ("name", "wait", "empty"), [("exponential", 3.73829, 0.47039), ("loaded", 17.75009, 0.00041), ("light", 2.03349, 0.77598)]
)
def test_a_gate_behind_the_setup(name: str, wait: float, empty: float) -> None:
    served = VacationServer(*_VACATIONS[name], Discipline.GATED_AFTER_SETUP)
    assert served.wait == near(wait, rel=1e-5)
    assert served.empty_share == near(empty, abs=6e-6)


_LEAVES = [Station(*each) for each in (("a", 100, 0.002, 0.01), ("b", 50, 0.004, 0.02), ("c", 20, 0.01, 0.03))]


def test_the_cycle_of_three_operators() -> None:
    cycle = cycle_of(_LEAVES, is_light_corrected=False)
    assert (cycle.load, cycle.seconds) == near((0.6, 0.150))
    assert [cycle.busy(each) for each in _LEAVES] == near([0.03] * 3)
    assert [cycle.vacation(each) for each in _LEAVES] == near([0.11, 0.1, 0.09])
    assert [cycle.rows(each) for each in _LEAVES] == near([15, 7.5, 3])
    assert [gated_wait(each, cycle.seconds) for each in _LEAVES] == near([0.100250, 0.110500, 0.121250])
    assert [exhaustive_wait(each, cycle.seconds) for each in _LEAVES] == near([0.060250, 0.060500, 0.061250])
    assert (cycle.felt_gated, cycle.felt_exhaustive) == near((0.1555556, 0.1583333), rel=1e-6)
    assert [gated_wait(each, cycle.felt_gated) for each in _LEAVES] == near([0.103583, 0.113833, 0.124583], abs=5e-7)
    assert [exhaustive_wait(each, cycle.felt_exhaustive) for each in _LEAVES] == near([0.063583, 0.063833, 0.064583], abs=5e-7)


def test_a_limit_of_rows_on_a_visit() -> None:
    cycle = cycle_of(_LEAVES, is_light_corrected=False)
    assert [limited_is_stable(_LEAVES[0], cycle, most) for most in (14, 15, 16)] == [False, False, True]
    assert limit_recommended(_LEAVES[0], cycle) == 26


def test_weighted_turns() -> None:
    plan = ModelPlan(
        (
            PlanOperator("i", (PlanInput("a", 0.5e-3, 0.4),), 0.02),
            PlanOperator("j", (PlanInput("i", 2.5e-3),), 0.02),
            PlanOperator("x", (PlanInput("b", 2e-3),), 0.02),
        ),
        {"a": 200.0, "b": 200.0},
        {"q": "j", "r": "x"},
    )
    even = PolledPlan(plan, ("i", "x", "j"), is_refined=False, is_light_corrected=False)
    assert (even.cycle.load, even.cycle.seconds, even.wait("j")) == near((0.7, 0.2, 0.148125))
    weighted = PolledPlan(plan, ("i", "x", "i", "x", "j"), is_light_corrected=False)
    assert weighted.cycle.seconds == near(1 / 3)
    assert [weighted.cycle.vacation(weighted.stations[name]) for name in "ijx"] == near([0.13, 0.2467, 0.08], abs=5e-5)
    assert weighted.wait("j") == near(0.2298, abs=5e-5)


def _latency_at(polled: PolledPlan, operator: str) -> float:
    """Wait and service, averaged over the inputs of an operator, as the table has it."""
    rates = polled.plan.rates_in[operator]
    waits = sum(rate * polled.wait(operator, number) for number, rate in enumerate(rates)) / sum(rates)
    return waits + polled.plan.stations[operator].service


def _of_means(polled: PolledPlan) -> float:
    """Latency of the target if rows of both inputs of an operator waited as long."""
    out = polled.plan.rate_out
    low, left = out["O1"] / (out["O1"] + out["O2"]) * 1.0, out["O3"] * 0.308514 / out["O5"]
    low = out["O1"] * 0.30703 / out["O3"]
    at = {name: _latency_at(polled, name) for name in TARGET}
    return left * (low * at["O1"] + (1 - low) * at["O2"] + at["O3"]) + (1 - left) * at["O4"] + at["O5"]


def test_rates_of_the_target_plan() -> None:
    plan = target_plan(fill=False)
    entering = [sum(plan.rates_in[name]) for name in TARGET]
    assert entering == near([100, 100, 73.0414, 100, 58.6258], rel=1e-6)
    assert (plan.rate_out["O5"], plan.load) == near((18.0576, 0.0342517), rel=3e-6)
    assert push_up(plan) == TARGET
    filled = target_plan()
    assert filled.load == near(0.88, rel=1e-6)
    cycle = PolledPlan(filled, HIERARCHICAL, is_light_corrected=False).cycle
    assert (cycle.setups, cycle.seconds, cycle.felt_gated) == near((0.034516155, 0.287635, 0.29141), rel=1e-5)


@pytest.mark.parametrize(
    ("turns", "is_refined", "expected", "plan"),
    [
        (HIERARCHICAL, True, (0.14613, 0.14644, 0.00391, 0.14626, 0.00383), 0.15159),
        (GLOBAL, True, (0.14613, 0.14644, 0.07839, 0.14626, 0.08078), 0.25666),
        (HIERARCHICAL, False, (0.144234, 0.144541, 0.003727, 0.144369, 0.003559), 0.149360),
        (GLOBAL, False, (0.144234, 0.144541, 0.077353, 0.144369, 0.079633), 0.253224),
    ],
)
def test_the_target_plan(turns: tuple[str, ...], is_refined: bool, expected: tuple[float, ...], plan: float) -> None:
    polled = PolledPlan(target_plan(), turns, is_refined=is_refined, is_light_corrected=False)
    assert [_latency_at(polled, name) for name in TARGET] == near(expected, rel=1e-4, abs=6e-6)
    assert _of_means(polled) == near(plan, rel=1e-4)
    # Rows of both inputs of a join wait for different times, and the model keeps them apart.
    assert polled.latencies["target"] == near(plan, rel=1e-3)


def test_inputs_kept_apart_are_nearer_to_the_simulation_than_their_mean() -> None:
    polled, simulated = PolledPlan(target_plan(), GLOBAL, is_light_corrected=False), 0.25675
    found = polled.latencies["target"]
    assert found is not None
    assert abs(found - simulated) < abs(_of_means(polled) - simulated)


def test_the_cost_of_a_join() -> None:
    assert window_rows(100, seconds=10_000) == 1e6
    assert HashCosts(hash=1e-6, compare=2e-6).row(1e6, 500) == near(4.002e-3)
    assert HashCosts(hash=1e-6, compare=2e-6, kept_back=0.02).row(1e6, 500) == near(4.083673e-3, rel=1e-6)
