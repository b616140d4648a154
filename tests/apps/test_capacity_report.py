"""What `penstock plan` says of contracts, overload and bursts."""

from __future__ import annotations

import json

import pytest

from penstock.apps.capacity_report import CapacityReport
from penstock.kernel.work import PlannedOperator, Price, WorkPlan
from penstock.model.qos import Expectation, Measure, Priority, QoSGraph, QoSSpecification
from penstock.qos.capacity.application import Entrance, PlannedApplication, QueryParts
from penstock.qos.capacity.batch_costs import BatchCosts
from penstock.qos.capacity.planning import CapacityPlan, Machine


def report(rate: float, estimated: tuple[str, ...] = (), **bounds: float) -> CapacityReport:
    work = WorkPlan((PlannedOperator("Project1", (Price(row_ns=10_000),), entrances=(0,), answers=("q",)),))
    app = PlannedApplication(
        "app", work, (Entrance("s", ("Project1", 0)),), {"q": QueryParts(("Project1",))}, {"s": rate},
        BatchCosts(0.2, 25e-6, cores=2, estimated=estimated),
    )  # fmt: skip
    expectations = tuple(
        Expectation(Measure(name), QoSGraph.of((0, bound, 1, bound)), Priority.MUST_SATISFY) for name, bound in bounds.items()
    )
    return CapacityReport(CapacityPlan(app, Machine(2), {"q": QoSSpecification(expectations)}), "measured")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (report(10_000, latency=0.5), "q: meets mean latency at most 500 ms (400 ms predicted; up to 1.60 times the rates)"),
        (report(10_000, latency=0.3), "q: violates mean latency at most 300 ms (400 ms predicted; at any rate)"),
        (report(10_000, ("the cost of a row",), latency=0.45), "q: may violate mean latency at most 450 ms (400 ms predicted"),
        (report(80_000, latency=0.5), "q: cannot meet mean latency at most 500 ms (more rows come than can be processed"),
        (report(10_000, throughput=12_000), "q: violates throughput at least 12,000.0/s (10,000.0/s predicted)"),
        (report(10_000, memory=1e6), "q: meets memory at most 1.0 MB (0.3 MB predicted"),
        (report(80_000), "OVERLOADED: rows need 200.0 % of the time"),
        (report(80_000), "to keep up, drop 50.0 % of the rows or give it more cores; most work: Project1 40.0 %"),
        (report(80_000), "needed: 5 cores"),
        (report(36_000), "at this load bursts make latency much longer than predicted"),
        (report(10_000, latency=0.3), "no number of cores suffices"),
    ],
)
def test_a_line_of_the_plan(found: CapacityReport, said: str) -> None:
    assert said in str(found)


@pytest.mark.parametrize("rate", [10_000, 80_000])
def test_the_same_as_data_holds_nothing_that_is_no_number(rate: float) -> None:
    found = json.loads(json.dumps(report(rate, latency=0.5).to_json(), allow_nan=False))
    assert found["is_overloaded"] == (rate == 80_000)
    assert [verdict["outcome"] for verdict in found["verdicts"]] == ["overloaded" if rate == 80_000 else "meets"]
