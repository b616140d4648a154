"""Runs a policy over real queues, with operators that only multiply rows: what a kernel does, in twenty lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import HearsArrivals, Policy
from penstock.kernel.work import Choice, Item, PlannedOperator, Price, Queue, Terms, WaitingWork, WorkPlan
from penstock.model.batch import Batch
from penstock.model.elements import Element, Heartbeat
from penstock.model.punctuation import Punctuation

MS = 1_000_000


def rows(*ts_us: int) -> Batch:
    """Rows with these event times."""
    ts = np.array(ts_us, np.int64)
    return Batch(pa.record_batch({"x": pa.array(ts)}), ts, np.arange(len(ts), dtype=np.int64))


def operator(
    name: str,
    cost_ms: float | Sequence[float] = 1.0,
    to: str | Sequence[tuple[str, int]] = "",
    answers: Sequence[str] = (),
    entrances: Sequence[int] = (),
    selectivity: float = 1.0,
) -> PlannedOperator:
    """An operator with a price per row for each port; consumers are names of one letter, or places."""
    costs = [cost_ms] if isinstance(cost_ms, int | float) else cost_ms
    prices = tuple(Price(row_ns=cost * MS, selectivity=selectivity) for cost in costs)
    consumers = tuple((name, 0) for name in to) if isinstance(to, str) else tuple(to)
    return PlannedOperator(name, prices, consumers, tuple(entrances), tuple(answers))


@dataclass(frozen=True)
class Arrival:
    """An element from outside, at a time of the priced clock."""

    at_ms: float
    operator: str
    element: Element
    port: int = 0


@dataclass(frozen=True)
class Answered:
    query: str
    number: int
    ts_us: int
    at_ms: float
    is_late: bool


@dataclass
class Run:
    """What has happened.

    Parameters
    ----------
    chosen
        Operator, position, number of the arrival, rows.
    """

    answered: list[Answered] = field(default_factory=list)
    chosen: list[tuple[str, int, int, int]] = field(default_factory=list)
    marks: list[tuple[str, float]] = field(default_factory=list)

    @property
    def order(self) -> list[tuple[str, int]]:
        """Operators and arrivals of rows, without repetitions."""
        found: list[tuple[str, int]] = []
        for name, _, number, count in self.chosen:
            if count and (not found or found[-1] != (name, number)):
                found.append((name, number))
        return found

    def on_time(self, query: str) -> int:
        return sum(one.query == query and not one.is_late for one in self.answered)

    @property
    def late(self) -> set[int]:
        return {one.number for one in self.answered if one.is_late}


def drive(
    policy: Policy,
    plan: WorkPlan,
    arrivals: Sequence[Arrival],
    slice_rows: int = 1_000_000,
    saving: bool = False,
    fresh: object = None,
) -> Run:
    """Serve everything. With `saving`, each pick is made by a new policy (`fresh`) from the snapshot of the one before."""
    work, run = WaitingWork(plan), Run()
    operators = {one.id: one for one in plan.operators}
    policy.plan(plan)
    coming = sorted(enumerate(arrivals), key=lambda pair: pair[1].at_ms)
    work.now_ns = round(coming[0][1].at_ms * MS)
    while coming or work.waiting:
        while coming and (coming[0][1].at_ms * MS <= work.now_ns or not work.waiting):
            number, one = coming.pop(0)
            work.now_ns = max(work.now_ns, round(one.at_ms * MS))
            item = Item(one.port, one.element, work.now_ns, number)
            work.add(one.operator, item)
            if isinstance(policy, HearsArrivals):
                policy.on_arrival(one.operator, item, work.now_ns)
        if saving:
            assert callable(fresh)
            other = fresh()
            other.plan(plan)
            other.restore(json.loads(json.dumps(policy.snapshot())))
            policy = other
        choice = policy.pick(work)
        assert choice is not None
        _serve(work, operators[choice.operator], choice, slice_rows, plan, run)
    assert policy.pick(work) is None
    return run


def _serve(work: WaitingWork, one: PlannedOperator, choice: Choice, slice_rows: int, plan: WorkPlan, run: Run) -> None:
    assert choice.position in allowed(work.waiting[choice.operator])
    item = work.take(choice, slice_rows)
    run.chosen.append((one.id, choice.position, item.number, item.rows))
    work.now_ns += work.price_of(one.id, item) if item.rows else 0
    if not item.rows:
        run.marks.append((one.id, work.now_ns / MS))
    made = _made(item, one)
    if made is None:
        return
    if isinstance(made, Batch):
        for query in one.answers:
            for ts in made.ts.tolist():
                due = plan.terms_of(query).deadline_ns(ts, item.since_ns)
                run.answered.append(Answered(query, item.number, ts, work.now_ns / MS, due is not None and work.now_ns > due))
    for name, port in one.consumers:
        work.add(name, Item(port, made, item.since_ns, item.number))


def allowed(queue: Queue) -> list[int]:
    """Positions that may run next: the head, and rows that have only rows and promises about time or values in front of them."""
    found = []
    for position, item in enumerate(queue.items):
        if not position or isinstance(item.element, Batch):
            found.append(position)
        if not isinstance(item.element, Batch | Heartbeat | Punctuation):
            break
    return found


def _made(item: Item, one: PlannedOperator) -> Element | None:
    if not isinstance(item.element, Batch):
        return item.element if isinstance(item.element, Heartbeat) else None
    wanted = round(item.rows * one.prices[item.port].selectivity)
    return item.element.take(np.arange(wanted) * item.rows // max(wanted, 1)) if wanted else None


def plan_of(*operators: PlannedOperator, **terms: Terms) -> WorkPlan:
    return WorkPlan(operators, terms)


def within(ms: float, weight: float = 1.0) -> Terms:
    """Of use for so long after the arrival."""
    return Terms(weight, after_arrival_us=round(ms * 1_000))
