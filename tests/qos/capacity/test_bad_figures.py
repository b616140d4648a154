"""What cannot be reckoned with is refused, with its name and what to do."""

from __future__ import annotations

from math import inf, nan

import pytest

from penstock.errors import InvalidModel, Overloaded
from penstock.qos.capacity.conditions import condition_service
from penstock.qos.capacity.cycles import Station, cycle_of
from penstock.qos.capacity.distributions import deterministic, mixture, of_moments
from penstock.qos.capacity.plans import ModelPlan, PlanInput, PlanOperator
from penstock.qos.capacity.polled_plans import PolledPlan
from penstock.qos.capacity.quantiles import JoinWaits
from penstock.qos.capacity.single_server import SingleServer
from penstock.qos.capacity.vacations import VacationServer
from penstock.qos.capacity.window_joins import HashCosts, window_rows


@pytest.mark.parametrize("value", [-1.0, nan, inf, -inf])
def test_a_figure_that_is_none_is_named(value: float) -> None:
    with pytest.raises(InvalidModel, match="'rate'"):
        SingleServer(value, deterministic(0.1))
    with pytest.raises(InvalidModel, match="'time'"):
        deterministic(value)
    with pytest.raises(InvalidModel, match="'service of join'"):
        Station("join", 1.0, value, 0.0)
    with pytest.raises(InvalidModel, match="selectivity of input 0 of operator 'a'"):
        ModelPlan((PlanOperator("a", (PlanInput("s", 0.1, value),)),), {"s": 1.0}, {"q": "a"})
    with pytest.raises(InvalidModel, match="'compare'"):
        HashCosts(1e-6, value)


def test_a_second_moment_below_the_square_of_the_mean_is_refused_unless_rounding_made_it() -> None:
    with pytest.raises(InvalidModel, match=r"'second'.*raw second moment"):
        of_moments(1.0, 0.9)
    assert of_moments(1.0, 1.0 - 1e-12).second == 1.0


def test_too_much_load_is_named_with_what_must_be_shed() -> None:
    with pytest.raises(Overloaded, match=r"(?s)operator 'slow'.*needs 200.0 %.*shed at least 50.0 %"):
        cycle_of([Station("slow", 20.0, 0.1, 0.01), Station("quick", 1.0, 0.1, 0.01)])
    with pytest.raises(Overloaded, match=r"(?s)all operators together.*needs 120.0 %"):
        cycle_of([Station("one", 6.0, 0.1, 0.01), Station("other", 6.0, 0.1, 0.01)])
    with pytest.raises(Overloaded, match=r"has 50.0 %"):
        cycle_of([Station("one", 6.0, 0.1, 0.01)], kept_back=0.5)
    with pytest.raises(Overloaded, match="the operator"):
        SingleServer(10.0, deterministic(0.1))


def _plan(*operators: PlanOperator, queries: dict[str, str] | None = None) -> ModelPlan:
    return ModelPlan(operators, {"s": 1.0}, queries or {"q": operators[-1].id})


def test_plans_with_holes_name_the_operator() -> None:
    one, other = PlanOperator("a", (PlanInput("b", 0.1),)), PlanOperator("b", (PlanInput("a", 0.1),))
    with pytest.raises(InvalidModel, match=r"input 0 of operator 'a' reads operator 'b'.*no cycles"):
        _plan(one, other)
    with pytest.raises(InvalidModel, match="reads 'r', which is neither a stream nor an operator"):
        _plan(PlanOperator("a", (PlanInput("r", 0.1),)))
    with pytest.raises(InvalidModel, match="nothing reads operator 'a'"):
        _plan(PlanOperator("a", (PlanInput("s", 0.1),)), PlanOperator("b", (PlanInput("s", 0.1),)))
    with pytest.raises(InvalidModel, match="query 'q' is answered at operator 'c', which is not there"):
        _plan(PlanOperator("a", (PlanInput("s", 0.1),)), queries={"q": "c"})
    with pytest.raises(InvalidModel, match="'a' is there twice"):
        _plan(PlanOperator("a", (PlanInput("s", 0.1),)), PlanOperator("a", (PlanInput("s", 0.1),)))


def test_turns_must_name_all_operators() -> None:
    plan = _plan(PlanOperator("a", (PlanInput("s", 0.1),)))
    with pytest.raises(InvalidModel, match="operator 'a' has no turn"):
        PolledPlan(plan, ())
    with pytest.raises(InvalidModel, match="operator 'z' has a turn"):
        PolledPlan(plan, ("a", "z"))


def test_windows_need_a_size() -> None:
    with pytest.raises(InvalidModel, match="whole number"):
        window_rows(1.0, rows=2.5)
    with pytest.raises(InvalidModel, match="neither a length of time nor a number of rows"):
        window_rows(1.0)


def test_shares_are_shares() -> None:
    with pytest.raises(InvalidModel, match="from 0 to 1"):
        condition_service((1.5,), (1.0,))
    with pytest.raises(InvalidModel, match="1 selectivities and 2 costs"):
        condition_service((0.5,), (1.0, 1.0))
    with pytest.raises(InvalidModel, match="weights"):
        mixture([(0.0, deterministic(1.0))])
    with pytest.raises(InvalidModel, match="from 0 to below 1"):
        JoinWaits((1.0,), (0.1,)).quantile(1.0)
    with pytest.raises(InvalidModel, match="kept_back"):
        HashCosts(1e-6, 1e-6, kept_back=1.0)


def test_a_stream_without_rows_costs_nothing_and_counts_nowhere() -> None:
    plan = ModelPlan(
        (PlanOperator("a", (PlanInput("s", 1e-3),), 0.01), PlanOperator("b", (PlanInput("t", 1e-3),), 0.01)),
        {"s": 100.0, "t": 0.0},
        {"p": "a", "q": "b"},
    )
    alone = ModelPlan((plan.operators[0],), {"s": 100.0}, {"p": "a"})
    both, one = PolledPlan(plan, ("a", "b"), is_light_corrected=False), PolledPlan(alone, ("a",), is_light_corrected=False)
    assert both.cycle.seconds == one.cycle.seconds
    assert both.latencies == {"p": one.latencies["p"], "q": None}


def test_a_query_that_lets_nothing_pass_has_no_latency_and_needs_memory() -> None:
    plan = _plan(
        PlanOperator("a", (PlanInput("s", 1e-3, 0.0),), 0.01, kept_rows=10.0), PlanOperator("b", (PlanInput("a", 1e-3),), 0.01)
    )
    polled = PolledPlan(plan, ("a", "b"))
    assert polled.latencies == {"q": None}
    assert polled.memory_rows > 10.0


def test_more_rows_out_than_in_and_less_than_a_row_in_a_cycle_keep_waits_positive() -> None:
    plan = _plan(PlanOperator("a", (PlanInput("s", 1e-3, 3.0),), 1e-3), PlanOperator("b", (PlanInput("a", 1e-3, 0.1),), 1e-3))
    polled = PolledPlan(plan, ("a", "b"), is_refined=False)
    assert polled.cycle.is_light
    assert polled.wait("b") >= 0.001


def test_without_setups_the_operators_are_one_server() -> None:
    plan = _plan(PlanOperator("a", (PlanInput("s", 0.1),)))
    polled = PolledPlan(plan, ("a",))
    assert polled.cycle.seconds == 0.0
    assert polled.wait("a") == pytest.approx(SingleServer(1.0, deterministic(0.1)).wait)


def test_practically_no_load_waits_for_nothing() -> None:
    assert JoinWaits((1e-12,), (1e-3,)).quantile(0.999) == 0.0
    assert VacationServer(0.0, deterministic(0.1), deterministic(0.1), deterministic(1.0)).queued == 0.0
