"""The planner: rates through the plan, what ends first, verdicts on contracts."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidModel
from penstock.kernel.work import PlannedOperator, Price, WorkPlan
from penstock.model.qos import Expectation, Interval, Measure, Priority, QoSGraph, QoSSpecification
from penstock.qos.capacity.application import Entrance, PlannedApplication, QueryParts, StateSize
from penstock.qos.capacity.batch_costs import BatchCosts
from penstock.qos.capacity.planning import CapacityPlan, Machine, Outcome

near = pytest.approx


def application(**changes: object) -> PlannedApplication:
    """Two queries: one that filters, and one that joins what is left with another stream, a round later."""
    work = WorkPlan(
        (
            PlannedOperator("Select1", (Price(0.0, 10_000.0, 0.25, 100),), (("Join2", 0),), (0,), ("cheap",)),
            PlannedOperator("Join2", (Price(0.0, 40_000.0, 0.5, 80), Price(0.0, 20_000.0, 2.0, 80)), (), (1,), ("dear",)),
        )
    )
    known = {
        "name": "shop", "work": work,
        "entrances": (Entrance("bid", ("Select1", 0)), Entrance("item", ("Join2", 1), 0.5)),
        "queries": {"cheap": QueryParts(("Select1",)), "dear": QueryParts(("Select1", "Join2"), 2)},
        "rates": {"bid": 8_000.0, "item": 2_000.0}, "costs": BatchCosts(0.2, 40e-6, 0.0, cores=2),
        "state": {"Join2": StateSize(1_000, 1e6)}, "measured_rates": {"bid": 4_000.0, "item": 1_000.0},
    }  # fmt: skip
    return PlannedApplication(**{**known, **changes})  # type: ignore[arg-type]


def contract(measure: Measure, *corners: float, **more: float) -> QoSSpecification:
    pieces = tuple(Interval(at, y, at + 1, y) for at, y in enumerate(corners))
    return QoSSpecification((Expectation(measure, QoSGraph(pieces), Priority.MUST_SATISFY),) if corners else (), **more)


def test_rows_flow_by_selectivity() -> None:
    flow = application().flow()
    assert flow.arriving == {("Select1", 0): 8_000.0, ("Join2", 1): 1_000.0, ("Join2", 0): 2_000.0}
    assert flow.leaving == {"Select1": 2_000.0, "Join2": 3_000.0}
    assert flow.work == near({"Select1": 0.08, "Join2": 0.1})


def test_a_plan_in_figures() -> None:
    plan = CapacityPlan(application(), Machine(cores=2))
    assert plan.row_s == near(40e-6)  # the mix of streams is as it was measured
    assert (plan.load, plan.highest_factor) == near((0.4, 2.5))
    server = plan.server()
    assert server is not None
    assert (server.batch_s, server.rows) == near((0.2 / 0.6, 10_000 * 0.2 / 0.6))
    assert plan.latency("dear") == near(server.latency_s + server.cycle_s)
    assert dict(plan.operator_loads()) == near({"Join2": 0.05, "Select1": 0.04})
    cheap, dear = plan.queries
    assert (cheap.rows_in, cheap.answers) == near((8_000, 2_000))
    assert cheap.state_bytes is None
    assert (dear.rows_in, dear.answers, dear.state_bytes) == near((9_000, 3_000, 2e6))
    assert plan.memory_bytes() == near(2e6 + server.rows * (8_000 * 100 + 1_000 * 80) / 10_000)


def test_more_cores_share_the_work_and_that_is_an_estimate() -> None:
    two, eight = (CapacityPlan(application(), Machine(cores=cores)) for cores in (2, 8))
    assert eight.load == near(two.load / 4)
    assert two.estimated == ()
    assert "8 cores" in eight.estimated[0]


def test_another_mix_of_streams_costs_what_its_operators_cost() -> None:
    plan = CapacityPlan(application().at({"BID": 0.0}), Machine(cores=2))
    # Without bids a row costs 10 of the 18 microseconds that operators took on average, at 2 cores.
    assert plan.row_s == near(40e-6 - 18e-6 / 2 + 10e-6 / 2)


def test_the_share_to_be_shed_under_overload() -> None:
    plan = CapacityPlan(application().at({"bid": 40_000.0, "item": 10_000.0}), Machine(cores=2))
    assert plan.is_overloaded
    assert (plan.load, plan.shed) == near((2.0, 0.5))
    assert [query.latency_s for query in plan.queries] == [None, None]
    assert plan.memory_bytes() is None
    half = CapacityPlan(application(), Machine(cores=2, kept_back=0.7))
    assert half.is_overloaded
    assert half.shed == near(1 - 0.3 / 0.4)


def test_what_ends_first() -> None:
    contracts = {"dear": contract(Measure.LATENCY, 2.0), "cheap": contract(Measure.LATENCY, 1.0)}
    plan = CapacityPlan(application(), Machine(cores=2, memory_bytes=3e6), contracts)
    limits = plan.limits()
    assert [limit.what for limit in limits] == ["memory", "mean latency of 'cheap'", "mean latency of 'dear'", "processor"]
    at = {limit.what: limit.factor for limit in limits}
    assert plan.memory_bytes(at["memory"]) == near(3e6)
    assert plan.latency("dear", at["mean latency of 'dear'"]) == near(2.0)
    assert at["processor"] == near(2.5)


def test_sources_may_limit_rows_first() -> None:
    plan = CapacityPlan(application(most_rows={"bid": 4_000.0}), Machine(cores=2))
    # 5,000 rows of both streams at most, for a micro-batch that takes 0.4 s with them.
    assert plan.highest_factor == near(5_000 / 0.4 / 10_000)
    assert plan.limits()[0].what == "rows that a micro-batch may take"


@pytest.mark.parametrize(
    ("wanted", "what", "outcome"),
    [
        (contract(Measure.LATENCY, 0.6), "mean latency", Outcome.MEETS),
        (contract(Measure.LATENCY, 0.6, 0.4), "mean latency", Outcome.VIOLATES),
        (contract(Measure.MEMORY, 4e5), "memory", Outcome.MEETS),
        (contract(Measure.MEMORY, 1e5), "memory", Outcome.VIOLATES),
        (contract(Measure.THROUGHPUT, 2_000.0), "throughput", Outcome.MEETS),
        (contract(Measure.THROUGHPUT, 2_001.0), "throughput", Outcome.VIOLATES),
        (contract(Measure.LATENCY, max_latency=0.6), "latency of 95 %", Outcome.VIOLATES),
    ],
)
def test_verdicts(wanted: QoSSpecification, what: str, outcome: Outcome) -> None:
    (verdict,) = CapacityPlan(application(), Machine(cores=2), {"cheap": wanted}).verdicts()
    assert (verdict.query, verdict.what, verdict.outcome) == ("cheap", what, outcome)


def test_estimates_need_a_margin_and_overload_meets_nothing() -> None:
    wanted = {"cheap": contract(Measure.LATENCY, 0.55)}
    guessed = CapacityPlan(application(estimated=("all",)), Machine(cores=2), wanted)
    assert [verdict.outcome for verdict in guessed.verdicts()] == [Outcome.UNCERTAIN]
    too_much = CapacityPlan(application().at({"bid": 80_000.0}), Machine(cores=2), wanted)
    (verdict,) = too_much.verdicts()
    assert (verdict.outcome, verdict.predicted) == (Outcome.OVERLOADED, None)
    assert verdict.up_to < 1


def test_a_bound_nothing_breaks_reaches_to_where_the_processor_ends() -> None:
    plan = CapacityPlan(application(), Machine(cores=2), {"cheap": contract(Measure.LATENCY, 1e9)})
    assert plan.verdicts()[0].up_to == near(plan.highest_factor)
    free = CapacityPlan(application(costs=BatchCosts(0.2, 0.0), work=WorkPlan(())), Machine(cores=2))
    assert free.highest_factor == inf


@given(factor=st.floats(1.0, 2.4), bound=st.floats(0.3, 5.0))
def test_latency_never_falls_as_all_rates_grow(factor: float, bound: float) -> None:
    plan = CapacityPlan(application(), Machine(cores=2), {"dear": contract(Measure.LATENCY, bound)})
    one, more = plan.latency("dear"), plan.latency("dear", factor)
    assert one is not None
    assert more is not None
    assert more >= one
    (verdict,) = plan.verdicts()
    assert (verdict.up_to > 1) == (one <= bound) or verdict.up_to == near(1, abs=1e-6)


def test_bad_figures_are_named() -> None:
    with pytest.raises(InvalidModel, match=r"stream 'bids', which no query reads; it has bid, item\. Did you mean 'bid'\?"):
        application().at({"bids": 1.0})
    with pytest.raises(InvalidModel, match=r"'rate of stream 'bid'' is -1\.0"):
        application().at({"bid": -1.0})
    with pytest.raises(InvalidModel, match="nobody knows how many rows of bid, item come"):
        CapacityPlan(application(rates={"bid": 0.0, "item": 0.0}), Machine(cores=2)).flow  # noqa: B018
    with pytest.raises(InvalidModel, match="0 cores"):
        Machine(cores=0)
    with pytest.raises(InvalidModel, match="'kept_back' is 1"):
        Machine(cores=1, kept_back=1.0)


@pytest.mark.parametrize("wanted", [{}, {"cheap": contract(Measure.LATENCY, 0.35)}, {"dear": contract(Measure.LATENCY, 0.8)}])
def test_the_least_number_of_cores_is_that_of_trying_all(wanted: dict[str, QoSSpecification]) -> None:
    busy = application().at({"bid": 40_000.0, "item": 10_000.0})

    def suffices(cores: int) -> bool:
        plan = CapacityPlan(busy, Machine(cores), wanted)
        return not plan.is_overloaded and all(verdict.outcome in (Outcome.MEETS, Outcome.UNCERTAIN) for verdict in plan.verdicts())

    found = CapacityPlan(busy, Machine(2), wanted).cores_needed()
    assert found == next(cores for cores in range(1, 200) if suffices(cores))


def test_no_number_of_cores_makes_a_micro_batch_free() -> None:
    wanted = {"cheap": contract(Measure.LATENCY, 0.1)}
    assert CapacityPlan(application(), Machine(2), wanted).cores_needed() is None


def test_high_load_warns_of_bursts() -> None:
    plans = [CapacityPlan(application().at({"bid": rate, "item": rate / 4}), Machine(2)) for rate in (8_000.0, 18_000.0, 40_000.0)]
    assert [plan.is_sensitive_to_bursts for plan in plans] == [False, True, False]
