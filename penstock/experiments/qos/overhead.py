"""What looking and deciding cost: E-QS-4."""

from __future__ import annotations

import time

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import middle
from penstock.experiments.qos.setup import STATEMENTS, promise
from penstock.model.qos import Measure, Priority, QoSSpecification
from penstock.qos.contract_meter import LOOK_SECONDS, ContractMeter, Served
from penstock.qos.optimizer.optimizer import Optimizer

_QUERIES, _LOOKS = (1, 10, 100, 300), 40


def overhead(settings: Settings) -> ReproductionOutcome:
    """E-QS-4: processor time of a look at all queries, with a decision, over the time between two looks."""
    turns = np.array([[_share(number) for number in _QUERIES] for _ in range(settings.repetitions)])
    shares = turns[:, _QUERIES.index(100)].tolist()
    claims = (STATEMENTS["E-QS-4"].judged("E-QS-4", float(np.median(shares)) < 1.0, f"{middle(shares)} %", percent=shares),)
    median = np.median(turns, axis=0).tolist()
    series = Series("look and decide", _QUERIES, median, (turns.min(axis=0).tolist(), turns.max(axis=0).tolist()))
    panel = Panel("queries", "processor time of one core (%)", (series,), "markers")
    return ReproductionOutcome(claims, Drawing("Looking and deciding every three seconds", (panel,)))


def _share(queries: int) -> float:
    """Percent of one processor."""
    promises = (
        promise(Measure.LATENCY, Priority.MUST_SATISFY, (0, 1, 1, 1)),
        promise(Measure.MEMORY, Priority.BEST_EFFORT, (0, 1e6, 1, 1e6)),
    )
    names = [f"q{number}" for number in range(queries)]
    meter = ContractMeter({name: QoSSpecification(promises) for name in names}, warm_up=0)
    optimizer = Optimizer("segment")
    rng = np.random.default_rng(queries)
    latency, memory = rng.uniform(0, 2, (_LOOKS, queries)), rng.integers(0, 2_000_000, (_LOOKS, queries))
    began = time.process_time()
    for at in range(_LOOKS):
        served = {name: Served(1, float(latency[at, number]), int(memory[at, number]), 0.0) for number, name in enumerate(names)}
        found = meter.hear(at * LOOK_SECONDS, served)
        if found is not None:
            optimizer.decide(found, {})
    return (time.process_time() - began) / (_LOOKS * LOOK_SECONDS) * 100
