"""Compares how queries are served with what their contracts promise, at regular looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.model.qos import Measure, Priority, QoSSpecification
from penstock.qos.optimizer.scores import Observation

#: Seconds between two looks.
LOOK_SECONDS = 3.0
_WARM_UP = 2
#: A look ahead is shorter than the time between two looks by this factor at least.
_LESS = 0.9


@dataclass(frozen=True, slots=True)
class Served:
    """One query in one micro-batch.

    Parameters
    ----------
    answers, latency_s
        New answers, and their mean latency.
    queue_bytes, oldest_s
        What waits for its operators, and for how long the oldest has; queues of shared operators count for each query.
    """

    answers: int
    latency_s: float
    queue_bytes: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of a contract, as it stood at the last look.

    Parameters
    ----------
    broken_s
        Seconds since the run began in which it was not kept.
    """

    query: str
    measure: Measure
    priority: Priority
    measured: float
    expected: float
    is_kept: bool
    broken_s: float

    def __str__(self) -> str:
        signs = ("≥", "<") if self.measure is Measure.THROUGHPUT else ("≤", ">")
        sign = signs[0] if self.is_kept else signs[1]
        return f"{self.measure.value} {amount(self.measure, self.measured)} {sign} {amount(self.measure, self.expected)}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def amount(measure: Measure, value: float) -> str:
    """A value with its unit.

    Examples
    --------
    >>> amount(Measure.LATENCY, 1.234), amount(Measure.MEMORY, 2.5e6), amount(Measure.THROUGHPUT, 1200.0)
    ('1.23 s', '2.5 MB', '1,200/s')
    """
    if measure is Measure.LATENCY:
        return f"{value:.2f} s"
    if measure is Measure.MEMORY:
        return f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value / 1e3:,.1f} kB"
    return f"{value:,.0f}/s"


@dataclass(slots=True)
class _Since:
    """Of one query since the last look."""

    answers: int = 0
    latency_sum: float = 0.0
    queue_bytes: int = 0
    oldest_s: float = 0.0


class ContractMeter:
    """Measures of all queries with contracts.

    Parameters
    ----------
    contracts, importance
        By query; queries without importance have 1.
    began
        When each query began, in seconds of any clock; those that are not there begin when they are first heard of.
    warm_up
        Micro-batches that count for nothing: in the first ones workers start and loops are compiled.
    """

    def __init__(
        self, contracts: Mapping[str, QoSSpecification], importance: Mapping[str, float] | None = None,
        began: Mapping[str, float] | None = None, look_s: float = LOOK_SECONDS, warm_up: int = _WARM_UP,
    ) -> None:  # fmt: skip
        self.contracts = {query: contract for query, contract in contracts.items() if contract.expectations}
        self.began = dict(began or {})
        self._importance = importance or {}
        self._look_s, self._warm_up = look_s, warm_up
        self._looked: float | None = None
        self._heard: float | None = None
        self._batches = 0
        self._since: dict[str, _Since] = {query: _Since() for query in self.contracts}
        self._broken: dict[tuple[str, Measure], float] = {}
        self.promises: tuple[Promise, ...] = ()

    def hear(self, now_s: float, served: Mapping[str, Served]) -> list[Observation] | None:
        """A micro-batch; what is found if it is time for a look, else None."""
        if not self.contracts:
            return None
        self._batches += 1
        if self._looked is None or self._batches <= self._warm_up:
            self._looked = self._heard = now_s
        for query in self.contracts:
            self.began.setdefault(query, now_s)
            if query in served and self._batches > self._warm_up:
                self._add(self._since[query], served[query])
        pause, self._heard = now_s - (self._heard or now_s), now_s
        past = now_s - self._looked
        if past < self._look_s:
            return None
        # A change has an effect on the micro-batch after the next one at the earliest.
        found = self._observations(now_s, past, min(pause, _LESS * self._look_s))
        self._looked = now_s
        self._since = {query: _Since() for query in self.contracts}
        self.promises = tuple(self._promise(item, past) for item in found)
        return found

    @staticmethod
    def _add(since: _Since, served: Served) -> None:
        since.answers += served.answers
        since.latency_sum += served.answers * served.latency_s
        since.queue_bytes, since.oldest_s = served.queue_bytes, served.oldest_s

    def _observations(self, now_s: float, past: float, lookahead: float) -> list[Observation]:
        found = []
        for query, contract in self.contracts.items():
            for expectation in contract.expectations:
                measured = self._measured(self._since[query], expectation.measure, past)
                if measured is not None:
                    at = now_s - self.began[query]
                    found.append(Observation(query, expectation, measured, at, lookahead, self._importance.get(query, 1.0)))
        return found

    @staticmethod
    def _measured(since: _Since, measure: Measure, past: float) -> float | None:
        if measure is Measure.MEMORY:
            return float(since.queue_bytes)
        if measure is Measure.THROUGHPUT:
            return since.answers / past
        if since.answers:
            return since.latency_sum / since.answers
        # Without an answer there is no latency; what waits is at least as late as it is old.
        return since.oldest_s if since.oldest_s else None

    def _promise(self, item: Observation, past: float) -> Promise:
        is_kept = not item.expectation.is_violated(item.measured, item.at)
        broken = self._broken.get(item.key, 0.0) + (0.0 if is_kept else past)
        self._broken[item.key] = broken
        return Promise(item.query, item.expectation.measure, item.priority, item.measured, item.expected, is_kept, broken)

    def crosses_boundary(self, now_s: float, past: float) -> bool:
        """Whether some contract has begun to expect something else within the last seconds."""
        for query, contract in self.contracts.items():
            at = now_s - self.began.get(query, now_s)
            for expectation in contract.expectations:
                if any(at - past < boundary <= at for boundary in expectation.graph.boundaries):
                    return True
        return False
