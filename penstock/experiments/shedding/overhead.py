"""What shedding itself costs: E-LS-6 and 7."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from queue import SimpleQueue
from threading import Thread
from time import process_time

import numpy as np
import pyarrow as pa

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import is_increasing, middle, spread_of
from penstock.experiments.shedding.setup import STATEMENTS
from penstock.kernel.work import Place
from penstock.model.batch import Batch
from penstock.qos.shedding.allocation import InGroups, Ranking, by_weight
from penstock.qos.shedding.controller import LoadEstimate, SheddingController, SheddingSettings
from penstock.qos.shedding.exact_rate import ExactRate
from penstock.qos.shedding.gate import Gate
from penstock.qos.shedding.load import LoadModel, OperatorFigures
from penstock.qos.shedding.paths import PathClusters
from penstock.qos.shedding.placement import Placement, QueryPath
from penstock.qos.shedding.sampling import EstimationPeriod

_SHEDDERS, _QUERIES = 1_000, 100


def _controller(paths: int, ranking: Ranking) -> tuple[SheddingController, dict[Place, float]]:
    """Paths that share nothing, with errors and prices that differ; and rates of load 1.2."""
    draw = np.random.default_rng(7)
    all_paths = [
        QueryPath(f"q{at}", f"q{at}", ((f"o{at}", 0),), float(draw.uniform(0.05, 0.5)), float(draw.uniform(0.5, 2.0)))
        for at in range(paths)
    ]
    clusters, figures = PathClusters(), dict[Place, OperatorFigures]()
    for path in all_paths:
        clusters.insert(path.id, path.steps)
        figures[path.steps[0]] = OperatorFigures(float(draw.uniform(500, 5_000)))
    model = LoadModel(clusters, figures)
    rates = {place: 1.2 / paths * figure.capacity for place, figure in figures.items()}
    settings = SheddingSettings(ranking=ranking)
    return SheddingController(model, Placement(model, all_paths).shedders(), all_paths, settings), rates


def _timed(ranking: Ranking, turns: int) -> tuple[list[float], LoadEstimate]:
    """Milliseconds of an estimation that has to shed, and what it decided."""
    found = []
    for _ in range(turns):
        controller, rates = _controller(_SHEDDERS, ranking)
        began = process_time()
        estimate = controller.estimate(rates)
        found.append(1_000 * (process_time() - began))
    return found, estimate


def _share_while_quiet(turns: int) -> list[float]:
    """Part of a processor that estimations take at a steady load of 0.5."""
    found = []
    for _ in range(turns):
        controller, rates = _controller(_QUERIES, by_weight)
        rates = {place: rate * 0.5 / 1.2 for place, rate in rates.items()}
        period, took, passed = EstimationPeriod(latency_s=0.6), 0.0, 0.0
        while passed < 10.0:
            began = process_time()
            period.follow(controller.estimate(rates), rates)
            took += process_time() - began
            passed += period.period_s
        found.append(took / passed)
    return found


def control(settings: Settings) -> ReproductionOutcome:
    """E-LS-6: estimations and allocations."""
    turns = max(settings.repetitions, 3)
    (greedy, by_weights), (grouped, by_groups) = _timed(by_weight, turns), _timed(InGroups(), turns)
    quiet = _share_while_quiet(turns)
    active = [len(by_weights.shares), len(by_groups.shares)]
    claims = (
        STATEMENTS["E-LS-6a"].judged("E-LS-6a", float(np.median(greedy)) < 5, f"{middle(greedy)} ms", ms=greedy),
        STATEMENTS["E-LS-6b"].judged(
            "E-LS-6b", float(np.median(grouped)) < 5 and active[1] <= active[0],
            f"{middle(grouped)} ms; {active[1]} active against {active[0]}", ms=grouped, active=active,
        ),
        STATEMENTS["E-LS-6c"].judged(
            "E-LS-6c", float(np.median(quiet)) < 0.005, f"{100 * float(np.median(quiet)):.3g} %", share=quiet
        ),
    )  # fmt: skip
    both = np.array([greedy, grouped]).T
    panel = Panel(
        "order of activation", "processor time of an allocation (ms)",
        (Series(f"{_SHEDDERS} shedders", range(2), *spread_of(both)),), "bars", ("by weight", "in groups"),
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Cost of deciding what is shed", (panel,)))


# -- where a shedder is built in --------------------------------------------------------------------------------------------

_BATCH_ROWS, _BATCHES = 1_000, 400
_SHARES = (0.1, 0.3, 0.5, 0.6, 0.9)


def _select(batch: Batch) -> Batch:
    """The operator behind the shedder: half of the rows."""
    return batch.filter(batch.column("value").to_numpy() < 0.5)


def _own_queue(batches: list[Batch], share: float) -> None:
    """A drop operator with a queue of its own in front of the operator's queue."""
    gate, first, second = _gate(share), deque[Batch](), deque[Batch]()
    for batch in batches:
        first.append(batch)
        second.append(gate.admit(first.popleft()))
        _select(second.popleft())


def _on_dequeue(batches: list[Batch], share: float) -> None:
    """Inside the operator: doomed rows wait in its queue, and are copied out of it."""
    gate, queue = _gate(share), deque[Batch]()
    for batch in batches:
        queue.append(batch.slice(0, batch.num_rows))
        _select(gate.admit(queue.popleft()))


def _own_thread(batches: list[Batch], share: float) -> None:
    """A drop operator without a queue that a thread of its own runs at every arrival."""
    gate, arrived, queue = _gate(share), SimpleQueue[Batch | None](), SimpleQueue[Batch | None]()

    def work() -> None:
        while (batch := arrived.get()) is not None:
            queue.put(gate.admit(batch))
        queue.put(None)

    thread = Thread(target=work)
    thread.start()
    for each in (*batches, None):
        arrived.put(each)
        if each is not None and (found := queue.get()) is not None:
            _select(found)
    thread.join()


def _before_queue(batches: list[Batch], share: float) -> None:
    """A gate in front of the operator's queue."""
    gate, queue = _gate(share), deque[Batch]()
    for batch in batches:
        queue.append(gate.admit(batch))
        _select(queue.popleft())


def _without(batches: list[Batch], share: float) -> None:
    queue = deque[Batch]()
    for batch in batches:
        queue.append(batch)
        _select(queue.popleft())


def _gate(share: float) -> Gate:
    found = Gate(ExactRate(seed=1))
    if share:
        found.activate(share)
    return found


WAYS: Mapping[str, Callable[[list[Batch], float], None]] = {
    "own queue": _own_queue,
    "on dequeue": _on_dequeue,
    "own thread": _own_thread,
    "before the queue": _before_queue,
    "no shedder": _without,
}
_OURS, _NONE = "before the queue", "no shedder"


@cache
def _speeds(settings: Settings) -> dict[tuple[str, float], list[float]]:
    """Thousands of rows per second, by way and share; ways take turns, so that a busy moment hits all of them."""
    values = np.random.default_rng(1).random(_BATCH_ROWS * _BATCHES)
    places = np.arange(len(values))
    batches = [
        Batch(pa.RecordBatch.from_pydict({"value": values[mine]}), mine, mine) for mine in np.split(places, _BATCHES)
    ]  # fmt: skip
    found: dict[tuple[str, float], list[float]] = {}
    for _ in range(max(settings.repetitions, 3)):
        for share in (0.0, *_SHARES):
            for name, way in WAYS.items():
                began = process_time()
                way(batches, share)
                found.setdefault((name, share), []).append(len(values) / 1_000 / (process_time() - began))
    return found


def ways(settings: Settings) -> ReproductionOutcome:
    """E-LS-7: five ways to build a shedder in."""
    found = _speeds(settings)
    medians = {place: float(np.median(speeds)) for place, speeds in found.items()}
    shedding = [name for name in WAYS if name != _NONE]
    relative = [medians[_OURS, share] / max(medians[name, share] for name in shedding) for share in (0.3, 0.6, 0.9)]
    growth = [medians[_OURS, share] for share in (0.1, 0.5, 0.9)]
    idle = medians[_OURS, 0.0] / medians[_NONE, 0.0]
    grown = " / ".join(f"{each:,.0f}" for each in growth)
    claims = (
        STATEMENTS["E-LS-7a"].judged(
            "E-LS-7a", min(relative) > 0.9, f"{' / '.join(f'{each:.2f}' for each in relative)} of the fastest", ratio=relative
        ),
        STATEMENTS["E-LS-7b"].judged(
            "E-LS-7b", is_increasing(growth), f"{grown} thousand rows per second", speed=growth
        ),
        STATEMENTS["E-LS-7c"].judged("E-LS-7c", idle > 0.9, f"{idle:.2f} times as many", ratio=idle),
    )  # fmt: skip
    shares = (0.0, *_SHARES)
    percent = [100 * share for share in shares]
    series = tuple(
        Series(name, percent, *spread_of(np.array([found[name, share] for share in shares]).T)) for name in WAYS
    )  # fmt: skip
    panel = Panel("dropped rows (%)", "thousand rows per CPU second", series, "markers")
    return ReproductionOutcome(claims, Drawing("Five ways to build a shedder in", (panel,)))
