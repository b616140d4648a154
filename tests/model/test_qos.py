"""Quality-of-service graphs: the worked example and what is refused."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.errors import InvalidDeclaration
from penstock.model.qos import Expectation, Measure, Priority, QoSGraph, QoSSpecification

MEMORY = QoSGraph.of((0, 10e6, 500, 10e6), (500, 1e6, 1000, 1e6))


def test_g12_values_inside_between_and_outside_of_intervals() -> None:
    graph = QoSGraph.of((0, 1, 100, 1), (200, 2, 300, 3))
    assert [graph.expected(x) for x in (50, 150, 200, 250, 400, -5)] == [1, 1.5, 2, 2.5, 3, 1]


def test_g12_where_intervals_meet_the_later_one_counts() -> None:
    assert [MEMORY.expected(x) for x in (499.9, 500, 2000)] == [10e6, 1e6, 1e6]


def test_g12_a_lookahead_sees_a_violation_before_the_step() -> None:
    memory = Expectation(Measure.MEMORY, MEMORY, Priority.BEST_EFFORT)
    assert not memory.is_violated(5e6, 498.5)
    assert memory.is_violated(5e6, 498.5, lookahead=2)
    assert memory.relative_violation(5e6, 498.5, lookahead=2) == pytest.approx(4.0)


def test_less_throughput_and_more_latency_are_violations_and_equality_is_none() -> None:
    flat = QoSGraph.of((0, 100, 600, 100))
    throughput = Expectation(Measure.THROUGHPUT, flat, Priority.MUST_SATISFY)
    latency = Expectation(Measure.LATENCY, flat, Priority.MUST_SATISFY)
    assert [throughput.is_violated(value, 1) for value in (99, 100, 101)] == [True, False, False]
    assert [latency.is_violated(value, 1) for value in (99, 100, 101)] == [False, False, True]


def test_an_expectation_of_nothing_is_violated_by_anything() -> None:
    nothing = Expectation(Measure.LATENCY, QoSGraph.of((0, 0, 1, 0)), Priority.DONT_CARE)
    assert nothing.relative_violation(1, 0) == float("inf")
    assert not nothing.is_violated(0, 0)


def test_classes_weigh_as_published() -> None:
    assert [priority.weight for priority in Priority] == [1, 0.5, 0.01]


@pytest.mark.parametrize(
    ("intervals", "text"),
    [
        ([], "at least one"),
        ([(5, 1, 4, 1)], "ends before it begins"),
        ([(0, -1, 4, 1)], "negative"),
        ([(0, 1, 4, 1), (3, 1, 9, 1)], "overlap"),
    ],
)
def test_impossible_graphs_are_refused(intervals: list[tuple[float, ...]], text: str) -> None:
    with pytest.raises(InvalidDeclaration, match=text):
        QoSGraph.of(*intervals)


def test_a_measure_given_twice_and_an_impossible_error_are_refused() -> None:
    memory = Expectation(Measure.MEMORY, MEMORY, Priority.BEST_EFFORT)
    assert QoSSpecification((memory,)).of(Measure.MEMORY) is memory
    assert QoSSpecification((memory,)).of(Measure.LATENCY) is None
    with pytest.raises(InvalidDeclaration, match="twice"):
        QoSSpecification((memory, memory))
    with pytest.raises(InvalidDeclaration, match="from 0 to 1"):
        QoSSpecification(max_relative_error=2)


@given(x=st.floats(-100, 1100, allow_nan=False))
def test_expected_values_stay_within_those_of_the_corners(x: float) -> None:
    assert 1e6 <= MEMORY.expected(x) <= 10e6
