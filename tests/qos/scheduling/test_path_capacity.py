"""Path capacity with capacities computed by hand."""

from __future__ import annotations

import pytest

from penstock.kernel.contracts import OperatorView
from penstock.qos.scheduling.path_capacity import PathCapacity, path_capacities


def view(
    name: str, downstream: str, capacity: float, selectivity: float = 1.0, waiting: int = 1, leaf: bool = False
) -> OperatorView:
    return OperatorView(name, waiting, waiting, tuple(downstream), leaf, capacity, selectivity)


#: G8 of the scheduling specification: A → B → {C | D → E}.
G8 = [
    view("A", "B", 10, 0.5, leaf=True),
    view("B", "CD", 5, 0.8),
    view("C", "", 2, 0.5),
    view("D", "E", 20, 0.1),
    view("E", "", 1, 0.5),
]


def test_the_capacity_of_a_simple_path_is_one_over_the_time_a_row_needs() -> None:
    path = [view("a", "b", 4, 0.5, leaf=True), view("b", "", 2)]
    assert path_capacities(path)["a"] == pytest.approx(1 / (1 / 4 + 0.5 / 2))


def test_g8_a_branching_path_counts_every_selectivity_of_its_shared_part() -> None:
    assert path_capacities(G8)["A"] == pytest.approx(50 / 23)
    assert set(path_capacities(G8).values()) == {path_capacities(G8)["A"]}


def test_the_faster_path_is_served_first_and_inside_it_what_is_nearest_to_the_answer() -> None:
    slow = [view("s", "t", 1, leaf=True), view("t", "", 1)]
    fast = [view("f", "g", 8, leaf=True), view("g", "", 8)]
    both = [slow[0], fast[0], slow[1], fast[1]]
    assert PathCapacity().pick(both) == "g"
    assert PathCapacity().pick([slow[0], fast[0], slow[1], view("g", "", 8, waiting=0)]) == "f"
    idle = [slow[0], view("f", "g", 8, waiting=0, leaf=True), slow[1], view("g", "", 8, waiting=0)]
    assert PathCapacity().pick(idle) == "t"


def test_a_shared_operator_belongs_to_the_best_of_its_paths() -> None:
    join = [view("slow", "j", 1, leaf=True), view("fast", "j", 100, leaf=True), view("j", "", 10)]
    capacities = path_capacities(join)
    assert capacities["slow"] == pytest.approx(1 / 1.1)
    assert capacities["j"] == capacities["fast"] == pytest.approx(1 / 0.11)


def test_operators_that_ended_are_no_longer_counted() -> None:
    assert path_capacities(G8[:4])["A"] == pytest.approx(1 / (0.1 + 0.1 + 0.4 * (0.5 + 0.05)))


def test_nothing_is_picked_when_nothing_waits() -> None:
    assert PathCapacity().pick([view("a", "", 1, waiting=0, leaf=True)]) is None


def test_it_remembers_nothing() -> None:
    assert PathCapacity().snapshot() == {}
