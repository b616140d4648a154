"""What happened in a simulation: latencies, queue memory, output and decisions, in all and second by second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.kernel.contracts import ServesTogether
from penstock.kernel.executor import Answer, Kernel
from penstock.kernel.work import Item, Place
from penstock.model.batch import Batch, Int64s
from penstock.qos.shedding.controller import LoadEstimate
from penstock.runners.simulated.optimizing import Look

if TYPE_CHECKING:
    from penstock.runners.simulated.simulation import Simulation

Floats = npt.NDArray[np.float64]

_SECOND = 1e9

#: Strategies that choose rows and run them through all operators.
ROWS_ALL_THE_WAY = frozenset({"fifo"})


class TraceWriter:
    """Notes what happens, cheaply: everything is added up at the end."""

    def __init__(self, simulation: Simulation, kernel: Kernel) -> None:
        self._simulation, self._kernel = simulation, kernel
        self._outputs = {query.id: number for number, query in enumerate(simulation.sketch.queries)}
        self._operators = {operator.id: number for number, operator in enumerate(simulation.sketch.operators)}
        self._steps: list[tuple[int, int, int, int, int, int, int]] = []
        self._answers: list[tuple[int, int, Batch]] = []
        self._decided: list[int] = []
        #: What is served as one where a strategy runs rows all the way.
        self._served_as_one = "rows" if simulation.policy in ROWS_ALL_THE_WAY else ""
        self._last: object = None
        self._mode = ""
        self._switched: list[int] = []

    def is_decision(self, operator: str, item: Item, now: int) -> bool:
        """Whether the strategy turns to other rows, or to another path, segment or operator, whatever it serves as one.

        Rows that go on to the next operator of the same path or segment are no decision.
        """
        served: object = self._served_as_one
        policy = self._kernel.policy  # another one, if the optimiser has said so
        if isinstance(policy, ServesTogether):
            mode, together = policy.serving
            if mode != self._mode:
                self._switched += [now] if self._mode else []
                self._mode = mode
            served = (mode, together) if together is not None else served
        token = (served or operator, item.number)
        if token == self._last:
            return False
        self._last = token
        self._decided.append(now)
        return True

    def note(self, operator: str, item: Item, began: int, now: int, held: int, came: int, came_ns: int) -> None:
        """A piece of work: memory of queues when it began, that of what came meanwhile, and the same times how long it waited."""
        self._steps.append((began, now, held, came, came_ns, self._operators[operator], item.since_ns))

    def answered(self, answers: Iterable[Answer], now: int) -> None:
        self._answers += [(self._outputs[item.output], now, item.element) for item in answers if isinstance(item.element, Batch)]

    def done(self, now: int, interrupts: int, batches: int) -> Trace:
        pieces = [batch for _, _, batch in self._answers]
        rows = np.array([batch.num_rows for batch in pieces], np.int64)
        none = [np.empty(0, np.int64)]
        head = np.array([(output, made) for output, made, _ in self._answers], np.int64).reshape(-1, 2)
        return Trace(
            self._simulation,
            now,
            np.repeat(head[:, 0], rows),
            np.repeat(head[:, 1], rows),
            np.concatenate([batch.ts for batch in pieces] or none),
            np.concatenate([batch.pos for batch in pieces] or none),
            np.array(self._steps, np.int64).reshape(-1, 7),
            np.array(self._decided, np.int64),
            np.array(self._switched, np.int64),
            interrupts,
            batches,
        )


@dataclass(frozen=True)
class Trace:
    """What happened, as arrays.

    Parameters
    ----------
    until_ns
        When the last piece of work was done.
    query, made_ns, ts_us, pos
        Of every row of every answer: number of the query, when it was made, event time and position.
    steps
        Pieces of work: begin, end, memory of queues at the begin, of what came meanwhile, and that times how long it waited;
        number of the operator, and since when the rows were waiting.
    decided_ns, switched_ns
        When the strategy turned to something else, and when it changed its mode.
    interrupts
        How often new jobs made a strategy that schedules jobs compare them.
    batches
        Pieces in which the rows came to the kernel.
    shed
        Rows left out in front of operators, by place.
    estimates
        Of the load, and what was decided, with the time in seconds.
    looks
        Of the optimiser.
    """

    simulation: Simulation
    until_ns: int
    query: Int64s
    made_ns: Int64s
    ts_us: Int64s
    pos: Int64s
    steps: Int64s
    decided_ns: Int64s
    switched_ns: Int64s
    interrupts: int
    batches: int
    shed: Mapping[Place, int] = field(default_factory=dict)
    estimates: tuple[tuple[float, LoadEstimate], ...] = ()
    looks: tuple[Look, ...] = ()

    @property
    def inputs(self) -> int:
        """Rows that came."""
        return int(self.simulation.traffic.rows.sum())

    @property
    def seconds(self) -> float:
        return self.until_ns / _SECOND

    @property
    def decisions(self) -> int:
        return len(self.decided_ns)

    @property
    def switches(self) -> int:
        return len(self.switched_ns)

    # -- latency --------------------------------------------------------------------------------------------------------

    @cached_property
    def latency_s(self) -> Floats:
        """Of every row of every answer, from its arrival."""
        arrived: Int64s = self.ts_us + self.simulation.traffic.delay_us
        found: Floats = (self.made_ns - arrived * 1_000) / _SECOND
        return found

    @property
    def latency_per_output(self) -> float:
        """Mean over the rows of answers."""
        return float(self.latency_s.mean()) if len(self.latency_s) else 0.0

    @property
    def latency_per_input(self) -> float:
        """Mean over the queries, each with the weight of the rows that came in for it."""
        found = self.latency_by_query()
        traffic, sketch = self.simulation.traffic, self.simulation.sketch
        came = dict(zip(sketch.shares, np.bincount(traffic.stream, traffic.rows, len(sketch.shares)).tolist(), strict=True))
        reached = sketch.outputs_per_row
        rows = {
            query.id: sum(number for stream, number in came.items() if reached[stream][query.operator] > 0)
            for query in sketch.queries
            if query.id in found
        }
        return sum(rows[query] * latency for query, latency in found.items()) / sum(rows.values()) if found else 0.0

    def latency_by_query(self) -> dict[str, float]:
        """Mean over the answers of each query; those without any are left out."""
        queries = self.simulation.sketch.queries
        rows = np.bincount(self.query, minlength=len(queries))
        sums = np.bincount(self.query, self.latency_s, minlength=len(queries))
        return {queries[at].id: float(sums[at] / rows[at]) for at in np.flatnonzero(rows).tolist()}

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.latency_s, percent)) if len(self.latency_s) else 0.0

    def longest_wait_s(self, operators: Iterable[str], until_s: float = inf) -> float:
        """For how long none of some operators was served although something waited for one of them."""
        numbers = [at for at, operator in enumerate(self.simulation.sketch.operators) if operator.id in set(operators)]
        mine = self.steps[np.isin(self.steps[:, 5], numbers) & (self.steps[:, 0] < until_s * _SECOND)]
        before = np.concatenate([[0], mine[:-1, 1]])
        return float((mine[:, 0] - np.maximum(before, mine[:, 6])).max(initial=0) / _SECOND)

    # -- memory ---------------------------------------------------------------------------------------------------------

    @property
    def peak_memory(self) -> int:
        """Most bytes in queues; what is being served counts until it is done."""
        return int((self.steps[:, 2] + self.steps[:, 3]).max(initial=0))

    @property
    def mean_memory(self) -> float:
        """Over the time from the first arrival to the last piece of work."""
        began, ended, held, _, came_ns = self.steps.T[:5]
        return float((held * (ended - began).astype(np.float64) + came_ns).sum() / max(self.until_ns, 1))

    # -- second by second -----------------------------------------------------------------------------------------------

    def output_per(self, seconds: float = 1.0) -> Int64s:
        """Rows of answers in every stretch of time."""
        return np.bincount((self.made_ns // round(seconds * _SECOND)).astype(np.int64), minlength=self._stretches(seconds))

    def latency_per(self, seconds: float = 1.0) -> Floats:
        """Mean latency of the answers in every stretch of time; NaN where there are none."""
        at = (self.made_ns // round(seconds * _SECOND)).astype(np.int64)
        rows = np.bincount(at, minlength=self._stretches(seconds)).astype(np.float64)
        sums = np.bincount(at, self.latency_s, minlength=self._stretches(seconds))
        found: Floats = np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0)
        return found

    def memory_per(self, seconds: float = 1.0) -> Int64s:
        """Most bytes in queues in every stretch of time, by the pieces of work that end there."""
        found = np.zeros(self._stretches(seconds), np.int64)
        np.maximum.at(found, self.steps[:, 1] // round(seconds * _SECOND), self.steps[:, 2] + self.steps[:, 3])
        return found

    def _stretches(self, seconds: float) -> int:
        return int(self.until_ns // round(seconds * _SECOND)) + 1

    def output_share(self, spans: Iterable[tuple[float, float]]) -> float:
        """Of the answers, those made within some spans of time, in seconds."""
        made = self.made_ns / _SECOND
        within = sum(int(((made >= start) & (made < stop)).sum()) for start, stop in spans)
        return within / len(made) if len(made) else 0.0

    def peak_output(self, seconds: float, until_s: float) -> float:
        """Rows of answers in the busiest stretch of time over the mean, as long as rows come."""
        counts = self.output_per(seconds)[: round(until_s / seconds)]
        return float(counts.max() / counts.mean()) if counts.sum() else 0.0

    # -- quality of service ---------------------------------------------------------------------------------------------

    @cached_property
    def in_time(self) -> Mapping[str, float]:
        """Of each query's answers, those made before what they are made of was of no more use; queries without answers left out."""
        sketch = self.simulation.sketch
        validity_ns = np.array([self.simulation.validity_ns(query.id) for query in sketch.queries], np.float64)
        on_time = (self.made_ns - self.ts_us * 1_000.0) <= validity_ns[self.query]
        rows = np.bincount(self.query, minlength=len(sketch.queries))
        good = np.bincount(self.query, on_time.astype(np.float64), minlength=len(sketch.queries))
        return {sketch.queries[at].id: float(good[at] / rows[at]) for at in np.flatnonzero(rows).tolist()}

    @property
    def score(self) -> float:
        """Mean of `in_time`, weighted as queries are."""
        weights = {query.id: query.weight for query in self.simulation.sketch.queries}
        total = sum(weights[query] for query in self.in_time)
        return sum(weights[query] * share for query, share in self.in_time.items()) / total if total else 0.0

    def answer_bag(self) -> Int64s:
        """Queries and positions of all rows of answers, sorted: equal for two strategies that give the same answers."""
        order = np.lexsort((self.pos, self.query))
        return np.stack([self.query[order], self.pos[order]])
