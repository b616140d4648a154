"""Contracts on the driver: what is measured is compared with what was promised, and what follows from that is decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.lowering.jobs import Job
from penstock.model.qos import Measure, Priority
from penstock.model.service import ChosenPolicy
from penstock.qos.contract_meter import amount
from penstock.qos.optimizer.decision_table import DEFAULT, DecisionTable
from penstock.qos.optimizer.optimizer import Action, Decision, Optimizer, Shedding
from penstock.qos.optimizer.scores import Observation
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.latency import BatchClock
from penstock.runners.spark.driver.losses import Losses
from penstock.runners.spark.driver.policies import Policies
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.service import ServiceMeter, contract_meter

#: What a run knows about its contracts, beside the checkpoint's other records.
CONTRACTS = "contracts"
#: What the history calls the look after a change.
EFFECT = "effect"
_CHANGES = (Action.SWITCH, Action.SHED, Action.RESTORE)


class ContractController(Listener):
    """Hears the reports of micro-batches, looks at all contracts every few seconds, and decides.

    Parameters
    ----------
    has_budget
        Whether work can wait: without a budget all of it is done in every micro-batch, and no order of work is better.
    losses
        Who decides about loss hears whether latencies that must be kept are kept.
    """

    name = "penstock-contracts"

    def __init__(
        self, job: Job, checkpoint: Checkpoint, report: Callable[[], BatchReport | None], has_budget: Callable[[], bool],
        losses: Losses,
    ) -> None:  # fmt: skip
        super().__init__(report)
        self._job, self._checkpoint, self._has_budget, self._losses = job, checkpoint, has_budget, losses
        self._policies = Policies(checkpoint)
        known = checkpoint.recall(CONTRACTS) or {}
        self._meter = contract_meter(job, known.get("began"))
        self._clock, self._service = BatchClock(), ServiceMeter()
        self._optimizer = Optimizer("", DEFAULT)
        if "optimizer" in known:
            self._optimizer.restore(known["optimizer"])
        #: The strategy that this class has named last.
        self._own = known.get("own", "")
        self._shedding: dict[str, Shedding] = {}
        self._last: Decision | None = None
        self._looked_s = time.time()

    @property
    def is_needed(self) -> bool:
        return bool(self._meter.contracts)

    def hear(self, report: BatchReport) -> None:
        times = self._clock.hear(self._job, report)
        self._service.hear(self._job, report, times.latency_ms)
        now_s = times.began.timestamp() + report.duration_ms / 1000
        found = self._meter.hear(now_s, self._service.served)
        if found is not None:
            self._look(found, report, now_s)

    def _look(self, found: Sequence[Observation], report: BatchReport, now_s: float) -> None:
        if self._meter.crosses_boundary(now_s, now_s - self._looked_s):
            self._optimizer.expects_anew()
        if self._losses.controller is not None:
            self._losses.controller.correct(any(map(_is_late, found)), now_s - self._looked_s)
        self._looked_s = now_s
        self._optimizer.strategy = report.policy
        self._optimizer.table = self._table(report.policy)
        decision = self._optimizer.decide(found, self._shedding)
        if decision.action is Action.CANNOT and self._meter.contracts[decision.query].max_relative_error:
            # What is lost is decided from micro-batch to micro-batch, and said, elsewhere.
            decision = replace(decision, action=Action.KEEP, reason=f"{decision.reason.split(';')[0]}; rows are left out for it")
        if decision.action is Action.SWITCH:
            self._own = decision.strategy
            self._policies.wish(ChosenPolicy(decision.strategy))
        if self._last is not None and self._last.action in _CHANGES:
            self._checkpoint.history.append({"action": EFFECT, "at_ms": round(now_s * 1000), "measured": list(map(_told, found))})
        if self._is_news(decision):
            self._note(decision, found, report, now_s)
        self._last = decision
        self._remember()

    def _table(self, current: str) -> DecisionTable:
        """Strategies to choose from: the present one alone where another would change nothing, or is not wanted."""
        chosen = self._policies.current
        is_chosen_by_hand = chosen is not None and chosen.name != self._own
        if self._has_budget() and not is_chosen_by_hand:
            return DEFAULT
        ranks = {measure: {**row, current: row.get(current, 0.0)} for measure, row in DEFAULT.ranks.items()}
        return DecisionTable(ranks, (current,))

    def _is_news(self, decision: Decision) -> bool:
        """Whether something is decided, or something else is broken than at the last look."""
        if decision.action not in (Action.KEEP, Action.CANNOT):
            return True
        before = self._last
        return before is None or before.action is not decision.action or _keys(before) != _keys(decision)

    def _note(self, decision: Decision, found: Sequence[Observation], report: BatchReport, now_s: float) -> None:
        entry = {
            "at_ms": round(now_s * 1000),
            "epoch": report.epoch,
            "action": decision.action.value,
            "strategy": decision.strategy,
            "before": report.policy,
            "query": decision.query,
            "reason": decision.reason,
            "measured": [_told(item) for item in found],
            "scores": {name: round(value, 4) for name, value in decision.scores.items()},
        }
        self._checkpoint.history.append(entry)

    def _remember(self) -> None:
        known = {"began": self._meter.began, "own": self._own, "optimizer": self._optimizer.snapshot()}
        self._checkpoint.remember(CONTRACTS, known)


def _is_late(item: Observation) -> bool:
    return item.is_violated and item.expectation.measure is Measure.LATENCY and item.priority is Priority.MUST_SATISFY


def _keys(decision: Decision) -> set[Any]:
    return {item.key for item in decision.violated}


def _told(item: Observation) -> Mapping[str, Any]:
    measure = item.expectation.measure
    return {
        "query": item.query,
        "measure": measure.value,
        "measured": round(item.measured, 4),
        "expected": round(item.expected, 4),
        "class": item.priority.value,
        "is_kept": not item.is_violated,
        "text": f"{measure.value} {amount(measure, item.measured)}, promised {amount(measure, item.expected)}",
    }
