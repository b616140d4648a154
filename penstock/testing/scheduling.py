"""Scheduling strategies by hand: plans of few words, and queues to pick from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import Policy
from penstock.kernel.work import Item, PlannedOperator, Price, Terms, WaitingWork, WorkPlan
from penstock.model.batch import Batch

#: Of work, and of virtual time: a second.
UNIT_NS = 1_000_000_000


def per_unit(capacity: Any, selectivity: Any = 1.0, size: Any = 1) -> Price:
    """The price of an operator that does so many rows in a unit of time; exact if fractions are given."""
    return Price(0 * capacity, UNIT_NS / capacity, selectivity, size, 1 + 0 * capacity)


def operator(name: str, *prices: Price, to: str = "", entrances: tuple[int, ...] = (), answers: str = "") -> PlannedOperator:
    """An operator of a plan; consumers are written as `join.1 other`, port 0 needs none, answers are names of queries."""
    places = (place.partition(".") for place in to.split())
    consumers = tuple((consumer, int(port or 0)) for consumer, _, port in places)
    return PlannedOperator(name, prices or (per_unit(1.0),), consumers, entrances, tuple(answers.split()))


def line(name: str, *prices: Price, answers: str = "") -> list[PlannedOperator]:
    """A path of operators `name1`, `name2`, …; a query of its name, or the one given, is answered at its end."""
    count = len(prices)
    return [
        operator(
            f"{name}{at}",
            price,
            to=f"{name}{at + 1}" if at < count else "",
            entrances=(0,) if at == 1 else (),
            answers=(answers or name) if at == count else "",
        )
        for at, price in enumerate(prices, 1)
    ]


def plan_of(*operators: PlannedOperator, terms: dict[str, Terms] | None = None) -> WorkPlan:
    return WorkPlan(operators, terms or {})


def rows(count: int, ts: int = 0) -> Batch:
    """So many rows of one event time."""
    times = np.full(count, ts, np.int64)
    return Batch(pa.record_batch({"x": times}), times, np.arange(count, dtype=np.int64))


def waiting(plan: WorkPlan, **counts: int) -> WaitingWork:
    """Queues with so many rows each, in the order given; who comes first has waited longest."""
    work = WaitingWork(plan)
    for number, (name, count) in enumerate(counts.items()):
        work.add(name, Item(0, rows(count), number=number))
    return work


def picked(policy: Policy, plan: WorkPlan, **counts: int) -> str | None:
    """Which operator is picked when so many rows wait; the policy is told the plan before."""
    policy.plan(plan)
    choice = policy.pick(waiting(plan, **counts))
    return choice.operator if choice else None


def drained(policy: Policy, work: WaitingWork) -> list[str]:
    """The operators in the order in which items are picked when nothing comes out of them."""
    found = []
    while (choice := policy.pick(work)) is not None:
        work.take(choice)
        found.append(choice.operator)
    return found
