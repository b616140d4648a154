"""Rows that enter while operators work: a kernel, a strategy, and a clock that moves by what work is said to cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from penstock.kernel.executor import Kernel
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import Control
from penstock.qos.scheduling.checks import check_plan
from penstock.qos.scheduling.job_scheduler import SchedulesJobs
from penstock.qos.scheduling.table import make_policy
from penstock.runners.simulated.graphs import graph_of, prices_of, terms_of
from penstock.runners.simulated.open_batches import Ended, MakeBatching, OpenBatches
from penstock.runners.simulated.operators import APART, plain_rows
from penstock.runners.simulated.optimizing import Optimizing, SimulatedOptimizer
from penstock.runners.simulated.shedding import Shedding, SimulatedShedding
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
    interrupt_ns
        What it costs a strategy that schedules jobs to value new ones, by their number: whenever rows come, all that these set
        going; with strategies that go operator by operator, whenever rows reach one.
    batching
        Cuts what comes into batches, by how long rows of the stream are of use in microseconds; None: pages are batches.
    shedding
        Leaves rows out under overload; None: every row is served.
    optimizing
        Looks at promises and changes the strategy; None: nobody does.

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
    interrupt_ns: Callable[[int], float] | None = None
    batching: MakeBatching | None = None
    shedding: Shedding | None = None
    optimizing: Optimizing | None = None

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
        self.simulation = simulation
        parameters = dict(simulation.parameters)
        graph = graph_of(sketch)
        check_plan(graph.work_plan({node.id: node.prices for node in graph.nodes}))
        self.kernel = Kernel(graph, lambda name, _: make_policy(name, parameters), simulation.policy, clock=lambda: 0)
        self.tell(prices_of(sketch, round(float(simulation.traffic.rows.mean())) if len(simulation.traffic.rows) else 1))
        self.streams = list(sketch.shares)
        sizes = {operator.id: [port.row_bytes for port in operator.ports] for operator in sketch.operators}
        entering = [sum(sizes[name][port] for name, port in sketch.consumers[stream]) for stream in self.streams]
        self.pages = simulation.traffic.pages(np.array(entering, np.int64))
        self.writer = TraceWriter(simulation, self.kernel)
        #: Of rows of each stream: how long they are of use, and all the work they set going.
        self.validities_ns = [sketch.validity_s.get(stream, inf) * 1e9 for stream in self.streams]
        self.work_ns = [sketch.work_ns[stream] for stream in self.streams]
        validities_us = [found / 1_000 for found in self.validities_ns]
        self.batches = OpenBatches(simulation.batching, validities_us) if simulation.batching is not None else None
        self.jobs = self.kernel.policy if isinstance(self.kernel.policy, SchedulesJobs) else None
        self.places = [sum(rows > 0 for rows in sketch.outputs_per_row[stream].values()) for stream in self.streams]
        #: By how many new jobs the strategy has been interrupted since it was last asked, and how often in all.
        self.new_jobs: list[int] = []
        self.interrupts = 0
        self.admitted = 0
        self.shedding = SimulatedShedding(simulation.shedding, sketch, self.kernel) if simulation.shedding is not None else None
        asked = simulation.optimizing
        self.optimizer = SimulatedOptimizer(asked, self.kernel, simulation.policy) if asked is not None else None

    def tell(self, control: Control) -> None:
        self.kernel.feed((), (control,), now_ns=0)

    def run(self) -> Trace:
        work, pages, at, entered = self.kernel.work, self.pages, 0, len(self.pages)
        while True:
            while at < entered and pages[at][0] <= work.now_ns:
                self.enter(at)
                at += 1
            self.end_due_batches()
            if self.shedding is not None:
                self.shedding.look()
            if self.optimizer is not None:
                self.optimizer.look()
            if work.waiting or self.end_idle_batch(at == entered):
                at = self.serve(at)
            elif at < entered:
                work.now_ns = round(min(pages[at][0], self.next_due_ns))
            else:
                return self.done()

    def done(self) -> Trace:
        trace = self.writer.done(self.kernel.work.now_ns, self.interrupts, self.admitted)
        if self.optimizer is not None:
            trace = replace(trace, looks=tuple(self.optimizer.looks))
        if self.shedding is None:
            return trace
        shed = {place: gate.counters()["shed"] for place, gate in self.shedding.gates.items()}
        return replace(trace, shed=shed, estimates=tuple(self.shedding.estimates))

    def enter(self, at: int) -> None:
        since_ns, stream, rows, _ = self.pages[at]
        if self.shedding is not None:
            self.shedding.came(self.streams[stream], rows.num_rows)
        if self.batches is None:
            self.admit((stream, rows, since_ns))
        else:
            for ended in self.batches.add(stream, rows, since_ns):
                self.admit(ended)

    def admit(self, ended: Ended) -> None:
        stream, rows, since_ns = ended
        self.kernel._enter(self.streams[stream], rows, since_ns)
        self.admitted += 1
        if self.jobs is not None:
            entering = len(self.simulation.sketch.consumers[self.streams[stream]])
            self.interrupt(entering if self.jobs.goes_operator_by_operator else self.places[stream])
        if self.batches is not None and self.batches.goes_by_laxity:
            self.batches.use_laxity(self.mean_laxity_us())

    @property
    def next_due_ns(self) -> float:
        return inf if self.batches is None else self.batches.due_ns

    def end_due_batches(self) -> None:
        for ended in self.batches.due(self.kernel.work.now_ns) if self.batches is not None else ():
            self.admit(ended)

    def end_idle_batch(self, is_over: bool) -> bool:
        ended = self.batches.idle(is_over) if self.batches is not None else None
        if ended is not None:
            self.admit(ended)
        return ended is not None

    def mean_laxity_us(self) -> float | None:
        """Of what waits, as far as it can still be in time: until its first row is of no more use, all its work taken away."""
        now, found = self.kernel.work.now_ns, []
        for queue in self.kernel.work.waiting.values():
            for item in queue.items:
                if item.rows:
                    assert isinstance(item.element, Batch)
                    stream = int(item.element.pos[0]) // APART
                    laxity = item.oldest_us * 1_000 + self.validities_ns[stream] - now - self.work_ns[stream] * item.rows
                    found += [laxity / 1_000] if 0 <= laxity < inf else []
        return sum(found) / len(found) if found else None

    def serve(self, at: int) -> int:
        """One piece of work; what comes meanwhile counts as memory from the moment it comes."""
        kernel, work = self.kernel, self.kernel.work
        began, held = work.now_ns, work.memory
        choice = kernel.policy.pick(work)
        assert choice is not None
        item = work.waiting[choice.operator].items[choice.position]
        if self.writer.is_decision(choice.operator, item, began):
            work.now_ns += self.simulation.decision_ns
        work.now_ns += self.valuing_ns()
        items = self.count_items() - 1
        for _ in kernel.serve(choice):
            pass  # it stops where a host might take answers
        if self.jobs is not None and self.jobs.goes_operator_by_operator and (new := self.count_items() - items) > 0:
            self.interrupt(new)
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
            if self.optimizer is not None:
                self.optimizer.answered(answers, now, self.simulation.traffic.delay_us)
            if self.shedding is not None:
                self.shedding.answered(answers)
        for page in range(at, later):
            self.enter(page)
        return later

    def interrupt(self, jobs: int) -> None:
        self.interrupts += 1
        self.new_jobs.append(jobs)

    def valuing_ns(self) -> int:
        """For the new jobs since the last call."""
        price, jobs = self.simulation.interrupt_ns, self.new_jobs
        self.new_jobs = []
        return round(sum(price(number) for number in jobs)) if price is not None else 0

    def count_items(self) -> int:
        return sum(len(queue.items) for queue in self.kernel.work.waiting.values())
