"""The driver's part of an adaptive filter: one profile window for all shards, one order for all shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.model.elements import Control
from penstock.operators.filtering.contract import Floats
from penstock.operators.filtering.costs import CostModel
from penstock.operators.filtering.descriptors import Arrangement, Filter
from penstock.operators.filtering.estimates import Estimates, estimates
from penstock.operators.filtering.policies.table import make_order
from penstock.operators.filtering.reports import COSTS, ORDER, ShardReport
from penstock.operators.filtering.settings import FilterSettings, Mode
from penstock.operators.filtering.window import ProfileRows

#: Shards that repair orders themselves hear of costs that have changed by more than this factor.
_NEWS = 1.25
#: Changes of the order that are remembered for people.
_SHOWN_CHANGES = 8


class Orderer:
    """Decides the order of an adaptive filter from the reports of its shards.

    `absorb` takes the reports of one micro-batch, `decide` gives the control to send, if there is something new. A
    micro-batch that is repeated is absorbed once: what it says is already known.

    Parameters
    ----------
    filters, settings, order
        As for the `AdaptiveFilter` of the same label.

    Examples
    --------
    >>> from penstock.operators.filtering.predicates import OnArrow
    >>> from penstock.operators.filtering.settings import OrderSettings
    >>> filters = [Filter(name, OnArrow(lambda rows: rows), declared_cost=1.0) for name in ("a", "b")]
    >>> orderer = Orderer(filters, FilterSettings(OrderSettings(min_fill=2)), label="f")
    >>> rows = ProfileRows(np.array([2, 2], np.uint64), np.array([3, 3], np.uint64), np.array([1, 2]))
    >>> orderer.absorb(0, [ShardReport("f", 0, rows, [[], []], 2, 100, 50)])
    >>> orderer.decide().detail["mirror"]["order"]
    [1, 0]
    >>> orderer.decide() is None
    True
    """

    def __init__(
        self,
        filters: Sequence[Filter],
        settings: FilterSettings | None = None,
        label: str = "filter",
        order: Sequence[str] | None = None,
    ) -> None:
        self.settings = settings or FilterSettings()
        self.label = label
        self.arrangement = Arrangement(tuple(filters))
        first = None if order is None else self.arrangement.started(order)
        self.policy = make_order(len(self.arrangement.free), self.settings.order, first, self.arrangement.free_guards)
        self.costs = CostModel([item.declared_cost for item in filters], self.settings.chunk_rows, self.settings.trimmed)
        self._last_batch = -1
        self._sent_version = 0
        self._sent_costs: dict[str, float] = {}
        self._rows = self._drops = 0
        self._changes: list[tuple[int, list[str]]] = []

    def absorb(self, batch: int, reports: Iterable[ShardReport]) -> None:
        """Take in what the shards say about a micro-batch; again only if its number is new."""
        if batch <= self._last_batch:
            return
        self._last_batch = batch
        mine = [report for report in reports if report.operator == self.label]
        for report in mine:
            self._rows += report.rows_in
            self._drops += report.drops
            for number, calls in enumerate(report.samples):
                for count, seconds in calls:
                    self.costs.add(number, count, seconds)
        for now in (report.now for report in mine if report.now is not None):
            self.policy.expire(now)
        rows = ProfileRows.concat([report.rows for report in mine if self._is_good(report)])
        if len(rows):
            order = np.argsort(rows.ts, kind="stable")
            if self.policy.observe(rows.bits[order], rows.known[order], self._costs(), rows.ts[order], at=batch):
                self._changes = [*self._changes, (batch, list(self.order))][-_SHOWN_CHANGES:]

    def _is_good(self, report: ShardReport) -> bool:
        return self.policy.has_whole_rows or report.version == self.policy.version

    def _costs(self) -> Floats:
        return self.costs.estimates(is_measured=True)[list(self.arrangement.free)]

    def decide(self) -> Control | None:
        """The control that tells shards what has changed since the last one; None when nothing has."""
        costs = dict(zip(self.arrangement.names, self.costs.estimates(is_measured=True).tolist(), strict=True))
        detail: dict[str, Any] = {"operator": self.label, "costs": costs}
        if self.policy.version != self._sent_version:
            self._sent_version, self._sent_costs = self.policy.version, costs
            return Control(self.policy.epoch, ORDER, {**detail, "mirror": self.policy.mirror()})
        if self.settings.mode is Mode.BOTH and self._rows and self._are_news(costs):
            self._sent_costs = costs
            return Control(self.policy.epoch, COSTS, detail)
        return None

    def _are_news(self, costs: Mapping[str, float]) -> bool:
        """Whether shards that decide by costs should hear them."""
        sent = self._sent_costs
        return any(name not in sent or not sent[name] / _NEWS <= cost <= sent[name] * _NEWS for name, cost in costs.items())

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the filters by position."""
        return tuple(self.arrangement.names[number] for number in self.arrangement.whole(self.policy.order()))

    def estimates(self) -> Estimates | None:
        """What the current, the greedy and the optimal order cost."""
        return estimates(self.policy, self._costs(), self._drops / self._rows if self._rows else 0.0)

    def describe(self) -> dict[str, Any]:
        """The state of affairs for people, as `AdaptiveFilter.describe` tells it."""
        guess = self.estimates()
        return {
            "order": list(self.order),
            "epoch": self.policy.epoch,
            "reorderings": self.policy.reorderings,
            "changes": list(self._changes),
            "cost_per_row": dict(zip(self.arrangement.names, self.costs.estimates(is_measured=True).tolist(), strict=True)),
            "estimated": None if guess is None else {"current": guess.current, "greedy": guess.greedy, "optimal": guess.optimal},
        }

    def snapshot(self) -> dict[str, Any]:
        """JSON values, to be stored with the number of the micro-batch."""
        rows = self.policy.window.content
        return {
            "batch": self._last_batch,
            "told": self._sent_version,
            "told_costs": dict(self._sent_costs),
            "seen": [self._rows, self._drops],
            "changes": list(self._changes),
            "policy": self.policy.snapshot(),
            "costs": self.costs.snapshot(),
            "window": [rows.bits.tolist(), rows.known.tolist(), rows.ts.tolist()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        bits, known, ts = state["window"]
        rows = ProfileRows(np.array(bits, np.uint64), np.array(known, np.uint64), np.array(ts, np.int64))
        self.policy.restore(state["policy"], rows)
        self.costs.restore(state["costs"])
        self._last_batch, self._sent_version = state["batch"], state["told"]
        self._sent_costs = dict(state.get("told_costs", {}))
        self._rows, self._drops = state["seen"]
        self._changes = [(batch, list(names)) for batch, names in state.get("changes", ())]
