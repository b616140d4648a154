"""Orders obey the process they come from, except those that are told to leave it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from penstock.errors import InvalidOption
from penstock.metadata.constraints.theory import Theory
from penstock.metadata.constraints.violations import ViolationDetector
from penstock.metadata.constraints.workflows.workflow import order_fulfilment
from penstock.model.batch import int64s
from penstock.testing.constraint_reference import group_violations
from penstock.workloads.contracts import Options
from penstock.workloads.orders import Orders
from penstock.workloads.orders_stories import DEVIATIONS, KINDS, ORDERS_PER_CYCLE, Story

OPTIONS = Options(rate=100.0)
ROWS = 24_000


def complete_orders(workload: Orders) -> dict[int, list[str]]:
    """Steps of the orders that come in and end within the rows made; what customers look at is left out."""
    events: dict[int, list[str]] = defaultdict(list)
    rows = workload.generate("event", 0, 1, 0, ROWS, OPTIONS).to_pylist()
    for row in rows:
        if row["kind"] != "ViewStatus":
            events[row["order_id"]].append(row["kind"])
    # An order of the last cycle may not be complete.
    last = max(events) - 3 * ORDERS_PER_CYCLE * workload.concurrent
    return {order: seen for order, seen in events.items() if order < last}


def story_of(workload: Orders, order: int) -> Story:
    return Story(int(workload.stories(np.array([order // ORDERS_PER_CYCLE]), OPTIONS)[0]))


@pytest.fixture(scope="module")
def detector() -> ViolationDetector:
    theory = Theory(order_fulfilment().constraints())
    return ViolationDetector(theory, (1 << len(theory.names)) - 1)


def violations(detector: ViolationDetector, steps: list[str]) -> list[str]:
    code = {name: number for number, name in enumerate(detector.theory.names)}
    found, seen = [], 0
    for step in steps:
        found += group_violations(detector, seen, 1 << code[step])
        seen |= 1 << code[step]
    return [str(each) for each in (*found, *detector.on_end(seen, False))]


def test_orders_that_do_not_deviate_satisfy_every_constraint_of_the_workflow(detector: ViolationDetector) -> None:
    workload = Orders(concurrent=50, deviating=0.0, rejected=0.2)
    orders = complete_orders(workload)
    assert len(orders) > 800
    assert {story_of(workload, order) for order in orders} == {Story.REGULAR, Story.REJECTED}
    assert {steps[-1] for steps in orders.values()} == {"FinishOrder", "CancelOrder", "RejectOrder"}
    for order, steps in orders.items():
        assert violations(detector, steps) == [], order


@pytest.mark.parametrize("story", DEVIATIONS)
def test_orders_that_deviate_break_a_constraint(story: Story, detector: ViolationDetector) -> None:
    workload = Orders(concurrent=50, deviating=1.0)
    found = [steps for order, steps in complete_orders(workload).items() if story_of(workload, order) is story]
    assert len(found) > 30
    assert all(violations(detector, steps) for steps in found)


def test_the_share_of_deviating_orders_is_as_given() -> None:
    runs = Orders(deviating=0.1, rejected=0.05).stories(np.arange(100_000), OPTIONS)
    assert np.isin(runs, DEVIATIONS).mean() == pytest.approx(0.1, rel=0.05)
    assert (runs == Story.REJECTED).mean() == pytest.approx(0.05, rel=0.05)


def test_quotes_and_invoices_have_a_price_and_nothing_else_has() -> None:
    rows = Orders().generate("event", 0, 1, 0, ROWS, OPTIONS).to_pylist()
    assert {row["kind"] for row in rows} == set(KINDS)
    assert {row["kind"] for row in rows if row["price"] is not None} == {"GenerateQuote", "GenerateInvoice"}


def test_rows_arrive_shuffled_within_the_bound_and_keep_their_times() -> None:
    ordered = Orders().generate("event", 0, 1, 0, 1_000, OPTIONS)
    shuffled = Orders(disorder_rows=50).generate("event", 0, 1, 0, 1_000, OPTIONS)
    times = int64s(shuffled.column("ts"))
    behind = np.maximum.accumulate(times) - times
    assert 200_000 < behind.max() < 50 * 10_000
    assert sorted(shuffled.to_pylist(), key=lambda row: row["ts"]) == ordered.to_pylist()
    pieces = [Orders(disorder_rows=50).generate("event", part, 2, 0, 500, OPTIONS).to_pylist() for part in range(2)]
    assert [row for pair in zip(*pieces, strict=True) for row in pair] == shuffled.to_pylist()


@pytest.mark.parametrize(("name", "value"), [("concurrent", 0), ("deviating", 1.5), ("disorder_rows", -1)])
def test_impossible_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidOption, match=name):
        Orders(**{name: value})  # type: ignore[arg-type]
