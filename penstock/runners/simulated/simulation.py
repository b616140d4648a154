"""Rows that enter while operators work: a kernel, a strategy, and a clock that moves by what work is said to cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from penstock.kernel.executor import Kernel
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Control
from penstock.qos.scheduling.table import make_policy
from penstock.runners.simulated.graphs import graph_of, prices_of, terms_of
from penstock.runners.simulated.operators import APART, plain_rows
from penstock.runners.simulated.trace import Trace, TraceWriter
from penstock.workloads.query_graphs import QueryGraph


@dataclass(frozen=True)
class Traffic:
    """What enters: pages of rows, each at one moment and from one stream.

    Parameters
    ----------
    at_us, stream, rows
        When each page comes, the number of its stream, and how many rows it has; by time.
    ts_us
        Event times of all rows, page by page.
    delay_us
        How long after its event time a row arrives; its page may come later still.
    """

    at_us: Int64s
    stream: Int64s
    rows: Int64s
    ts_us: Int64s
    delay_us: int = 0

    @classmethod
    def of(cls, times_us: Mapping[str, Int64s], page_rows: int = 1, delay_us: int = 0) -> Traffic:
        """Pages of equal size, at these times of each stream; the rows were made so long before."""
        at = np.concatenate(list(times_us.values()))
        stream = np.repeat(np.arange(len(times_us)), [len(times) for times in times_us.values()])
        order = np.lexsort((stream, at))
        at, stream = at[order], stream[order]
        return cls(at, stream, np.full(len(at), page_rows), np.repeat(at - delay_us, page_rows), delay_us)

    def pages(self, page_memory: Int64s) -> list[tuple[int, int, Batch, int]]:
        """Time in nanoseconds, stream, rows and memory of each page; memory is told by stream and row."""
        edges = np.concatenate([[0], np.cumsum(self.rows)])
        pos = np.empty(len(self.ts_us), np.int64)
        of_row = np.repeat(self.stream, self.rows)
        for number in range(len(page_memory)):
            mine = of_row == number
            pos[mine] = number * APART + np.arange(int(mine.sum()))
        memory = page_memory[self.stream] * self.rows
        return [
            (at * 1_000, stream, plain_rows(self.ts_us[first:last], pos[first:last]), held)
            for at, stream, first, last, held in zip(
                self.at_us.tolist(), self.stream.tolist(), edges[:-1].tolist(), edges[1:].tolist(), memory.tolist(), strict=True
            )
        ]


@dataclass(frozen=True)
class Simulation:
    """A strategy serves queries under a load.

    Parameters
    ----------
    policy, parameters
        The strategy by name.
    decision_ns
        What it costs whenever the strategy turns to another object: an operator, a segment or a path, for other rows.

    Examples
    --------
    >>> from penstock.workloads.query_sets import simple_paths
    >>> sketch = simple_paths(1)
    >>> times = {stream: np.arange(0, 10_000_000, 1_000_000) for stream in sketch.shares}
    >>> run = Simulation(sketch, Traffic.of(times), "path_capacity").run()
    >>> run.inputs, run.seconds > 1.0
    (80, True)
    """

    sketch: QueryGraph
    traffic: Traffic
    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    decision_ns: int = 0

    def validity_ns(self, query: str) -> float:
        """How long after its event time an answer is of use."""
        seconds = terms_of(self.sketch)[query].after_event_us
        return inf if seconds is None else seconds * 1_000.0

    def run(self) -> Trace:
        """Until all that has come is answered."""
        return _Host(self).run()


class _Host:
    """The kernel with what is around it."""

    def __init__(self, simulation: Simulation) -> None:
        sketch = simulation.sketch
        self.decision_ns = simulation.decision_ns
        parameters = dict(simulation.parameters)
        self.kernel = Kernel(graph_of(sketch), lambda name, _: make_policy(name, parameters), simulation.policy, clock=lambda: 0)
        self.tell(prices_of(sketch, round(float(simulation.traffic.rows.mean())) if len(simulation.traffic.rows) else 1))
        self.streams = list(sketch.shares)
        sizes = {operator.id: [port.row_bytes for port in operator.ports] for operator in sketch.operators}
        entering = [sum(sizes[name][port] for name, port in sketch.consumers[stream]) for stream in self.streams]
        self.pages = simulation.traffic.pages(np.array(entering, np.int64))
        self.writer = TraceWriter(simulation, self.kernel.policy)

    def tell(self, control: Control) -> None:
        self.kernel.feed((), (control,), now_ns=0)

    def run(self) -> Trace:
        work, pages, at, entered = self.kernel.work, self.pages, 0, len(self.pages)
        while True:
            while at < entered and pages[at][0] <= work.now_ns:
                self.enter(at)
                at += 1
            if work.waiting:
                at = self.serve(at)
            elif at < entered:
                work.now_ns = pages[at][0]
            else:
                return self.writer.done(work.now_ns)

    def enter(self, at: int) -> None:
        since_ns, stream, rows, _ = self.pages[at]
        self.kernel._enter(self.streams[stream], rows, since_ns)

    def serve(self, at: int) -> int:
        """One piece of work; what comes meanwhile counts as memory from the moment it comes."""
        kernel, work = self.kernel, self.kernel.work
        began, held = work.now_ns, work.memory
        choice = kernel.policy.pick(work)
        assert choice is not None
        item = work.waiting[choice.operator].items[choice.position]
        if self.writer.is_decision(kernel.policy, choice.operator, item, began):
            work.now_ns += self.decision_ns
        for _ in kernel.serve(choice):
            pass  # it stops where a host might take answers
        now, pages, came, came_ns = work.now_ns, self.pages, 0, 0
        later = at
        while later < len(pages) and pages[later][0] <= now:
            came += pages[later][3]
            came_ns += pages[later][3] * (now - pages[later][0])
            later += 1
        self.writer.note(choice.operator, item, began, now, held, came, came_ns)
        answers = kernel.take()[0]
        if answers:
            self.writer.answered(answers, now)
        for page in range(at, later):
            self.enter(page)
        return later
