"""Simulations: answers that no strategy changes, clocks that only prices move, and measures that can be checked by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.batch import Batch, Int64s
from penstock.qos.scheduling.table import POLICIES
from penstock.runners.simulated.operators import Passing, plain_rows
from penstock.runners.simulated.simulation import Simulation, Traffic
from penstock.workloads.phases import waves
from penstock.workloads.poisson import Poisson
from penstock.workloads.query_graphs import OperatorSketch, PortSketch, QueryGraph, QuerySketch
from penstock.workloads.query_sets import published_queries, random_graph, simple_paths

_SECOND = 1_000_000_000


def _path(*operators: tuple[float, float], validity_s: float | None = None) -> QueryGraph:
    """One stream, and operators one behind the other: seconds for a row, and the share they pass."""
    names = ["s", *(f"o{at}" for at in range(len(operators)))]
    made = tuple(
        OperatorSketch(name, "select", (PortSketch(source, cost * _SECOND, share, 10),))
        for name, source, (cost, share) in zip(names[1:], names, operators, strict=False)
    )
    validity = {} if validity_s is None else {"s": validity_s}
    return QueryGraph(made, (QuerySketch("q", names[-1]),), {"s": 1.0}, validity)


def _at(*seconds: float, rows: int = 1, delay_s: float = 0.0) -> Traffic:
    return Traffic.of({"s": np.array([round(second * 1e6) for second in seconds])}, rows, round(delay_s * 1e6))


def _poisson(sketch: QueryGraph, load: float, seconds: float, seed: int = 1, page_rows: int = 1) -> Traffic:
    rates = sketch.rates(load)
    waving = {name: waves(rate / page_rows, seconds / 3, 1) for name, rate in rates.items()}
    return Traffic.of({name: Poisson(waving[name], seed + at).times(seconds) for at, name in enumerate(rates)}, page_rows)


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0.0, 3.0), cuts=st.lists(st.integers(1, 7), max_size=20))
def test_an_exact_share_passes_however_rows_are_cut(share: float, cuts: list[int]) -> None:
    whole, cut = Passing("a", (share,)), Passing("a", (share,))
    rows = np.arange(sum(cuts))
    together = _passed(whole, [rows])
    assert together == _passed(cut, np.split(rows, np.cumsum(cuts))[:-1])
    assert abs(len(together) - share * len(rows)) <= 1.0 + 1e-9


def _passed(operator: Passing, pieces: list[Int64s]) -> list[int]:
    found = [element for piece in pieces for element in operator.on_batch(0, plain_rows(piece, piece))]
    return [pos for batch in found if isinstance(batch, Batch) for pos in batch.pos.tolist()]


def test_an_operator_goes_on_where_another_stood() -> None:
    one, other, rows = Passing("a", (0.3,)), Passing("a", (0.3,)), np.arange(50)
    _passed(one, [rows[:9]])
    other.restore(one.snapshot())
    assert _passed(one, [rows]) == _passed(other, [rows])


def test_latency_is_waiting_and_work() -> None:
    run = Simulation(_path((2.0, 1.0), (1.0, 1.0)), _at(0.0, 1.0, 20.0), "path_capacity").run()
    assert run.latency_s.tolist() == pytest.approx([3.0, 5.0, 3.0])
    assert run.latency_per_output == run.latency_per_input == pytest.approx(11 / 3)
    assert run.seconds == pytest.approx(23.0)
    assert run.percentile(100) == pytest.approx(5.0)


def test_what_comes_meanwhile_and_what_is_served_count_as_memory() -> None:
    run = Simulation(_path((4.0, 1.0)), _at(0.0, 1.0), "round_robin").run()
    assert run.peak_memory == 20
    assert run.mean_memory == pytest.approx((4 * 10 + 3 * 10 + 4 * 10) / 8)
    assert run.memory_per(1.0).tolist() == [0, 0, 0, 0, 20, 0, 0, 0, 10]


def test_decisions_cost_time_and_are_made_once_for_a_path() -> None:
    sketch, traffic = _path((1.0, 1.0), (1.0, 1.0)), _at(0.0, 10.0)
    run = Simulation(sketch, traffic, "path_capacity", decision_ns=_SECOND // 2).run()
    assert run.decisions == 2
    assert run.latency_s.tolist() == pytest.approx([2.5, 2.5])
    assert Simulation(sketch, traffic, "round_robin", decision_ns=_SECOND // 2).run().decisions == 4


def test_output_is_counted_second_by_second_and_by_span() -> None:
    run = Simulation(_path((1.0, 1.0)), _at(0.0, 0.1, 0.2, 9.0), "round_robin").run()
    assert run.output_per(2.0).tolist() == [1, 2, 0, 0, 0, 1]
    assert run.output_share([(0.0, 2.5), (9.5, 11.0)]) == pytest.approx(0.75)
    assert run.peak_output(2.0, until_s=4.0) == pytest.approx(2 / 1.5)
    assert run.latency_per(5.0)[0] == pytest.approx((1.0 + 1.9 + 2.8) / 3)


def test_the_score_weighs_queries_and_counts_from_event_time() -> None:
    fast, slow = _path((1.0, 1.0), validity_s=2.0), _path((1.0, 1.0), validity_s=0.9)
    assert Simulation(fast, _at(0.0, 0.5, 30.0), "round_robin").run().score == 1.0
    assert Simulation(slow, _at(0.0, 0.5), "round_robin").run().score == 0.0
    assert Simulation(fast, _at(10.0, 11.0, 12.0, delay_s=1.5), "round_robin").run().score == 0.0
    assert Simulation(fast, _at(10.0, 10.0, delay_s=0.5), "round_robin").run().score == 0.5


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("make", [simple_paths, published_queries, random_graph])
def test_no_strategy_changes_an_answer(name: str, make: Callable[[int], QueryGraph]) -> None:
    sketch = make(3)
    traffic = _poisson(sketch, 0.9, 300.0 if make is simple_paths else 5.0, page_rows=5)
    expected = Simulation(sketch, traffic, "round_robin").run()
    run = Simulation(sketch, traffic, name, needed(name)).run()
    assert np.array_equal(run.answer_bag(), expected.answer_bag())
    assert run.latency_s.min() > 0
    assert len(run.query) > 10


def needed(name: str) -> dict[str, str]:
    """Parameters that a strategy has no default for."""
    return {parameter.name: "1 MB" for parameter in POLICIES[name].parameters if parameter.default is ...}


def test_joins_make_answers_of_both_sides() -> None:
    sides = tuple(OperatorSketch(name, "select", (PortSketch(name[1:], 1e6, 1.0, 10),)) for name in ("os1", "os2"))
    join = OperatorSketch("j", "join", (PortSketch("os1", 1e6, 2.0, 10), PortSketch("os2", 1e6, 0.5, 10)))
    sketch = QueryGraph((*sides, join), (QuerySketch("q", "j"),), {"s1": 0.5, "s2": 0.5}, {})
    times = np.arange(40) * 100_000
    run = Simulation(sketch, Traffic.of({"s1": times, "s2": times + 50_000}), "round_robin").run()
    assert np.bincount(run.pos >> 40).tolist() == [80, 20]


def test_equal_simulations_are_equal() -> None:
    sketch = simple_paths(2)
    simulation = Simulation(sketch, _poisson(sketch, 0.8, 100.0), "path_capacity", decision_ns=1_000_000)
    one, other = simulation.run(), replace(simulation).run()
    assert np.array_equal(one.made_ns, other.made_ns)
    assert np.array_equal(one.steps, other.steps)
