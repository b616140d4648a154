"""What is measured of queries with contracts, look by look."""

from __future__ import annotations

import pytest

from penstock.model.qos import Expectation, Measure, Priority, QoSGraph, QoSSpecification
from penstock.qos.contract_meter import ContractMeter, Served

MUST = Priority.MUST_SATISFY


def contract(**bounds: float) -> QoSSpecification:
    items = [Expectation(Measure(name), QoSGraph.of((0, bound, 0, bound)), MUST) for name, bound in bounds.items()]
    return QoSSpecification(tuple(items))


def warm(meter: ContractMeter) -> ContractMeter:
    """The first micro-batches count for nothing."""
    for at in (-1, 0):
        assert meter.hear(at, {"q": Served(1, 99.0, 10**9, 99.0)}) is None
    return meter


def test_latency_is_the_mean_of_all_answers_between_two_looks() -> None:
    meter = warm(ContractMeter({"q": contract(latency=2)}))
    assert meter.hear(1, {"q": Served(10, 1.0, 0, 0)}) is None
    assert meter.hear(2, {"q": Served(30, 3.0, 0, 0)}) is None
    (found,) = meter.hear(4, {}) or ()
    assert found.measured == pytest.approx(2.5)
    (promise,) = meter.promises
    assert (promise.is_kept, promise.broken_s, str(promise)) == (False, 4, "latency 2.50 s > 2.00 s")


def test_without_answers_what_waits_tells_the_latency() -> None:
    meter = warm(ContractMeter({"q": contract(latency=2)}))
    assert [item.measured for item in meter.hear(3, {"q": Served(0, 0, 5, 1.5)}) or ()] == [1.5]
    assert meter.hear(6, {"q": Served(0, 0, 0, 0)}) == []
    assert meter.promises == ()


def test_memory_is_what_waits_now_and_throughput_all_answers_per_second() -> None:
    meter = warm(ContractMeter({"q": contract(memory=2e6, throughput=10)}))
    meter.hear(1, {"q": Served(12, 1, 9_000_000, 0)})
    memory, throughput = meter.hear(4, {"q": Served(12, 1, 1_000_000, 0)}) or ()
    assert (memory.measured, throughput.measured) == (1e6, 6)
    assert [str(promise) for promise in meter.promises] == ["memory 1.0 MB ≤ 2.0 MB", "throughput 6/s < 10/s"]


def test_time_in_which_a_promise_was_broken_adds_up() -> None:
    meter = warm(ContractMeter({"q": contract(latency=2)}))
    for at, latency in ((3, 1.0), (6, 3.0), (9, 4.0), (12, 1.0)):
        meter.hear(at, {"q": Served(1, latency, 0, 0)})
    assert meter.promises[0].broken_s == 6
    assert meter.promises[0].is_kept


def test_a_graph_counts_from_the_start_of_its_query() -> None:
    graph = QoSGraph.of((0, 10, 5, 10), (5, 1, 5, 1))
    tight = QoSSpecification((Expectation(Measure.LATENCY, graph, MUST),))
    meter = ContractMeter({"old": tight, "new": tight}, began={"old": -100.0, "new": 0.0})
    warm(meter)
    found = meter.hear(3, {name: Served(1, 5, 0, 0) for name in ("old", "new")}) or []
    assert [item.expected for item in found] == [1, 10]
    assert not meter.crosses_boundary(3, 3)
    assert meter.crosses_boundary(6, 3)


def test_queries_without_promises_are_not_looked_at() -> None:
    meter = warm(ContractMeter({"q": QoSSpecification(max_relative_error=0.1)}))
    assert meter.hear(10, {"q": Served(1, 1, 1, 1)}) is None
