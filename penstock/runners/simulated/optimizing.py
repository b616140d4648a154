"""The run-time optimiser in a simulation: it looks at what is measured every few seconds and changes the strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.kernel.executor import Answer, Kernel
from penstock.model.batch import Batch
from penstock.model.elements import POLICY, Control
from penstock.model.qos import QoSSpecification
from penstock.qos.contract_meter import LOOK_SECONDS, ContractMeter, Promise, Served
from penstock.qos.optimizer.decision_table import PUBLISHED, DecisionTable
from penstock.qos.optimizer.optimizer import Action, Decision, Optimizer
from penstock.workloads.query_graphs import SECOND_NS


@dataclass(frozen=True)
class Optimizing:
    """What queries promise, and how often that is looked at.

    Parameters
    ----------
    contracts
        By query.
    decides
        Whether anything is changed; without it promises are only measured.
    """

    contracts: Mapping[str, QoSSpecification]
    table: DecisionTable = PUBLISHED
    every_s: float = LOOK_SECONDS
    decides: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """One look: what was measured, and what was decided."""

    at_s: float
    promises: tuple[Promise, ...]
    decision: Decision | None


class SimulatedOptimizer:
    """Measures queries of a kernel, and tells it what the optimiser decides."""

    def __init__(self, optimizing: Optimizing, kernel: Kernel, strategy: str) -> None:
        self._optimizing, self._kernel = optimizing, kernel
        began = dict.fromkeys(optimizing.contracts, 0.0)
        self._meter = ContractMeter(optimizing.contracts, began=began, look_s=optimizing.every_s, warm_up=0)
        self._optimizer = Optimizer(strategy, optimizing.table)
        self._next_s = 0.0
        self._answers = dict.fromkeys(optimizing.contracts, 0)
        self._latency_s = dict.fromkeys(optimizing.contracts, 0.0)
        self._operators = {query: self._operators_of(query) for query in optimizing.contracts}
        self.looks: list[Look] = []

    def _operators_of(self, query: str) -> list[str]:
        return [node.id for node in self._kernel.graph.nodes if query in node.queries]

    def answered(self, answers: Iterable[Answer], now_ns: int, delay_us: int) -> None:
        for answer in answers:
            if isinstance(answer.element, Batch) and answer.output in self._answers:
                ts = answer.element.ts
                self._answers[answer.output] += len(ts)
                self._latency_s[answer.output] += float(len(ts) * now_ns / SECOND_NS - (ts.sum() + len(ts) * delay_us) / 1e6)

    def look(self) -> None:
        """Measure and decide, if it is time to."""
        now_s = self._kernel.work.now_ns / SECOND_NS
        if now_s < self._next_s:
            return
        found = self._meter.hear(now_s, {query: self._served(query) for query in self._optimizing.contracts})
        self._answers = dict.fromkeys(self._answers, 0)
        self._latency_s = dict.fromkeys(self._latency_s, 0.0)
        if found is not None:
            if self._meter.crosses_boundary(now_s, self._optimizing.every_s):
                self._optimizer.expects_anew()
            decision = self._optimizer.decide(found, {}) if self._optimizing.decides else None
            if decision is not None and decision.action is Action.SWITCH:
                self._kernel.decide(Control(0, POLICY, {"name": decision.strategy}))
            self.looks.append(Look(now_s, self._meter.promises, decision))
        self._next_s = now_s + self._optimizing.every_s

    def _served(self, query: str) -> Served:
        waiting = [queue for name in self._operators[query] if (queue := self._kernel.work.waiting.get(name)) is not None]
        memory = sum(queue.memory for queue in waiting)
        oldest = min((queue.head.since_ns for queue in waiting), default=self._kernel.work.now_ns)
        answers = self._answers[query]
        latency = self._latency_s[query] / answers if answers else 0.0
        return Served(answers, latency, memory, (self._kernel.work.now_ns - oldest) / SECOND_NS)
