"""Shedding in a simulation: the controller looks at the rows that come, and gates in front of queues leave rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from zlib import crc32

from penstock.kernel.executor import Answer, Kernel
from penstock.kernel.work import Place
from penstock.model.batch import Batch
from penstock.model.drop_preferences import DropPreference
from penstock.model.qos import QoSSpecification
from penstock.qos.shedding.controller import LoadEstimate, SheddingController, SheddingSettings
from penstock.qos.shedding.feedback import FeedbackController
from penstock.qos.shedding.gate import Gate
from penstock.qos.shedding.load import LoadModel, OperatorFigures, Rates
from penstock.qos.shedding.paths import PathClusters
from penstock.qos.shedding.placement import Placement, QueryPath, error_per_path
from penstock.qos.shedding.sampling import EstimationPeriod, RateMonitor
from penstock.qos.shedding.table import make_shedder
from penstock.workloads.query_graphs import SECOND_NS, QueryGraph


@dataclass(frozen=True)
class Shedding:
    """What queries tolerate, and when to shed.

    Parameters
    ----------
    contracts
        By query.
    every_s
        Time between two estimations; None: as rates require.
    test_s
        What it costs an active shedder to look at a row, as placement reckons; the virtual clock does not.
    splits_errors
        Whether paths that meet in joins share what their query tolerates. As published each may lose all of it.
    by_feedback
        Whether to decide by the latency of answers, as the published prototype does, instead of by the load.
    """

    contracts: Mapping[str, QoSSpecification]
    settings: SheddingSettings = field(default_factory=SheddingSettings)
    every_s: float | None = None
    test_s: float = 0.0
    splits_errors: bool = True
    by_feedback: bool = False


def query_paths(sketch: QueryGraph, contracts: Mapping[str, QoSSpecification], splits_errors: bool = True) -> list[QueryPath]:
    """All ways from streams to answers; see `Shedding` for what they tolerate."""
    found = []
    for query in sketch.queries:
        ways = list(_ways(sketch, query.operator))
        contract = contracts.get(query.id, QoSSpecification())
        error = error_per_path(contract.max_relative_error, len(ways) if splits_errors else 1)
        found += [
            QueryPath(f"{query.id}/{number}", query.id, way, error, contract.max_latency, contract.drop)
            for number, way in enumerate(ways)
        ]
    return found


def _ways(sketch: QueryGraph, operator: str) -> Iterator[tuple[Place, ...]]:
    (mine,) = (each for each in sketch.operators if each.id == operator)
    for number, port in enumerate(mine.ports):
        if port.source in sketch.shares:
            yield ((operator, number),)
        else:
            for way in _ways(sketch, port.source):
                yield (*way, (operator, number))


def load_model(sketch: QueryGraph, paths: list[QueryPath], test_s: float) -> LoadModel:
    """The load of a sketch, whose prices are exact."""
    clusters = PathClusters()
    for path in paths:
        clusters.insert(path.id, path.steps)
    figures = {
        (operator.id, number): OperatorFigures(SECOND_NS / port.row_ns, port.selectivity)
        for operator in sketch.operators
        for number, port in enumerate(operator.ports)
    }
    return LoadModel(clusters, figures, test_s)


class SimulatedShedding:
    """Puts gates into a kernel, and turns them as the controller decides."""

    def __init__(self, shedding: Shedding, sketch: QueryGraph, kernel: Kernel) -> None:
        self._work = kernel.work
        self._sketch = sketch
        paths = query_paths(sketch, shedding.contracts, shedding.splits_errors)
        model = load_model(sketch, paths, shedding.test_s)
        shedders = Placement(model, paths).shedders()
        weights = {query.id: query.weight for query in sketch.queries}
        self._controller = SheddingController(model, shedders, paths, shedding.settings, weights)
        self._feedback = FeedbackController(model, shedders, paths) if shedding.by_feedback else None
        #: Greatest latency of each query since the last look, in seconds.
        self._measured: dict[str, float] = {}
        self._kernel = kernel
        self.gates: dict[Place, Gate] = {}
        for each in shedders:
            self._put_gate(each.place, each.drop, each.capacity)
        self._every_s = shedding.every_s
        self._latencies = self._latency_by_stream(paths)
        self._monitors = {stream: RateMonitor(latency) for stream, latency in self._latencies.items()}
        self._period = EstimationPeriod(min(self._latencies.values()))
        #: Rows that have come since the last look, by stream.
        self._came = dict.fromkeys(sketch.shares, 0)
        self._next_estimate_s = 0.0
        self._next_sample_s = 0.0
        self.estimates: list[tuple[float, LoadEstimate]] = []

    def _put_gate(self, place: Place, drop: DropPreference, capacity: float) -> None:
        self.gates[place] = self._kernel.gates[place] = Gate(make_shedder(drop, capacity, _seed(place)))

    def _latency_by_stream(self, paths: list[QueryPath]) -> dict[str, float]:
        """How soon what comes must be answered; a second where nobody says so."""
        found = dict.fromkeys(self._sketch.shares, inf)
        source = {(operator.id, at): port.source for operator in self._sketch.operators for at, port in enumerate(operator.ports)}
        for path in paths:
            stream = source[path.steps[0]]
            found[stream] = min(found[stream], inf if path.max_latency_s is None else path.max_latency_s)
        return {stream: 1.0 if latency == inf else latency for stream, latency in found.items()}

    def came(self, stream: str, rows: int) -> None:
        self._came[stream] += rows

    def look(self) -> None:
        """Sample rates and decide, if it is time to."""
        now_s = self._work.now_ns / SECOND_NS
        if now_s < self._next_sample_s:
            return
        for stream, monitor in self._monitors.items():
            monitor.add(now_s, self._came[stream])
            self._came[stream] = 0
        if now_s >= self._next_estimate_s:
            self._estimate(now_s)
        self._next_sample_s = now_s + (self._every_s or min(monitor.period_s for monitor in self._monitors.values()))

    def _estimate(self, now_s: float) -> None:
        consumers = self._sketch.consumers
        means = {stream: monitor.mean(self._latencies[stream]) for stream, monitor in self._monitors.items()}
        rates = {place: rate for stream, rate in means.items() for place in consumers[stream]}
        found = self._decided(rates)
        for place in found.shares.keys() - self.gates.keys():  # where a query is to stop no shedder may have been worth while
            self._put_gate(place, DropPreference(), 1.0)
        for place, gate in self.gates.items():
            if place in found.shares:
                gate.activate(found.shares[place])
            else:
                gate.deactivate()
        self.estimates.append((now_s, found))
        self._period.follow(found, rates)
        self._next_estimate_s = now_s + (self._every_s or self._period.period_s)

    def _decided(self, rates: Rates) -> LoadEstimate:
        if self._feedback is None:
            return self._controller.estimate(rates, self._waiting())
        measured, self._measured = self._measured, {}
        return self._feedback.look(rates, measured)

    def answered(self, answers: Sequence[Answer]) -> None:
        """Answers leave the kernel now."""
        for answer in answers:
            if isinstance(answer.element, Batch):
                latency_s = (self._work.now_ns - int(answer.element.ts.min()) * 1_000) / SECOND_NS
                self._measured[answer.output] = max(self._measured.get(answer.output, 0.0), latency_s)

    def _waiting(self) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for operator, queue in self._work.waiting.items():
            for item in queue.items:
                found[operator, item.port] = found.get((operator, item.port), 0) + item.rows
        return found


def _seed(place: Place) -> int:
    """Different coins for every place."""
    return crc32(repr(place).encode())
