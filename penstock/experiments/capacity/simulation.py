"""A plan served row by row on a virtual clock: what the model predicts, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from penstock.experiments.capacity._loops import SERVED, WAITED, poll
from penstock.experiments.contracts import Floats
from penstock.qos.capacity.plans import ModelPlan

#: Random numbers, used in turn; an odd number, so that they meet operators in other combinations every time.
_COINS = (1 << 20) + 7


@dataclass(frozen=True)
class Served:
    """What a simulation has counted.

    Parameters
    ----------
    waits
        Mean time in the queue, by operator and input.
    latency, greatest
        Mean and greatest latency of each query, in seconds; queries without answers are not there.
    answers
        Of each query.
    """

    waits: Mapping[tuple[str, int], float]
    latency: Mapping[str, float]
    greatest: Mapping[str, float]
    answers: Mapping[str, float]
    cycle_s: float

    @property
    def mean_latency(self) -> float:
        """Of all answers."""
        return sum(self.latency[query] * rows for query, rows in self.answers.items()) / sum(self.answers.values())


@dataclass(frozen=True)
class Polling:
    """Operators that take turns.

    Parameters
    ----------
    limits
        Most rows of an operator on a visit.
    """

    plan: ModelPlan
    turns: Sequence[str]
    is_exhaustive: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)

    def run(self, arrivals: Mapping[str, Floats], seconds: float, seed: int, warm_up: float) -> Served:
        """Serve rows that come at these times, in seconds.

        Parameters
        ----------
        warm_up
            Rows that come before are not counted.
        """
        plan = self.plan
        names = [operator.id for operator in plan.operators]
        number_of = {name: number for number, name in enumerate(names)}
        first = np.cumsum([0, *(len(operator.inputs) for operator in plan.operators)])
        inputs = [(operator.id, at, port) for operator in plan.operators for at, port in enumerate(operator.inputs)]
        streams = {stream: number for number, stream in enumerate(plan.rates)}
        readers = [[(number_of[name], first[number_of[name]] + at) for name, at in plan.consumers[each]] for each in names]
        queries = list(plan.queries)
        query_of = np.full(len(names), -1, np.int64)
        for query, name in plan.queries.items():
            query_of[number_of[name]] = queries.index(query)
        totals, answers = np.zeros((len(inputs), 2)), np.zeros((len(queries), 3))
        cycle = poll(
            np.array([number_of[name] for name in self.turns]), np.array([operator.setup for operator in plan.operators]),
            np.array([self.limits.get(name, 0) for name in names]), self.is_exhaustive, first[:-1].astype(np.int64),
            np.array([len(operator.inputs) for operator in plan.operators]),
            np.array([streams.get(port.source, -1) for _, _, port in inputs]), np.array([port.service for _, _, port in inputs]),
            np.array([port.selectivity for _, _, port in inputs]),
            np.cumsum([0, *map(len, readers)]), np.array([*chain.from_iterable(readers), (0, 0)], np.int64), query_of,
            np.concatenate([arrivals[stream] for stream in streams]), np.cumsum([0, *(len(arrivals[name]) for name in streams)]),
            seconds, warm_up, np.random.default_rng(seed).random(_COINS), totals, answers,
        )  # fmt: skip
        waits = {
            (name, at): totals[row, WAITED] / totals[row, SERVED] for row, (name, at, _) in enumerate(inputs) if totals[row, SERVED]
        }
        found = {query: row for query, row in zip(queries, answers.tolist(), strict=True) if row[0]}
        return Served(
            waits, {query: row[1] / row[0] for query, row in found.items()}, {query: row[2] for query, row in found.items()},
            {query: row[0] for query, row in found.items()}, float(cycle),
        )  # fmt: skip


def at_random(plan: ModelPlan, seconds: float, seed: int) -> dict[str, Floats]:
    """Arrivals without memory, at the rates of a plan."""
    random = np.random.default_rng(seed)
    found: dict[str, Floats] = {}
    for stream, rate in plan.rates.items():
        rows = round(rate * seconds + 6 * (rate * seconds) ** 0.5 + 10)
        times = np.cumsum(random.exponential(1 / rate, rows)) if rate else np.zeros(0)
        found[stream] = times[times < seconds]
    return found
