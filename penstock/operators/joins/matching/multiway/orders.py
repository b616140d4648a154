"""The order of a pipeline's probes: what the join asks of whoever decides it, and the policies of adaptive filters."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from penstock.columnar.hashing import UInt64s
from penstock.operators.filtering.contract import FilterOrder
from penstock.operators.filtering.policies.table import POLICIES
from penstock.operators.filtering.settings import OrderSettings
from penstock.operators.filtering.window import ProfileRows
from penstock.operators.joins.matching.multiway.graph import PipelinePlan


class ProbeOrder(Protocol):
    """Decides in which order the probes of one pipeline are made.

    The join asks for the order before each chunk of rows and shows, after it, what a sample of the dropped rows would have
    met at every probe. Answers never depend on the order, work does.
    """

    def order(self) -> Sequence[int]:
        """Numbers of all probes, the first one first."""
        ...

    def wanted(self, position: int) -> int:
        """Probes, as bits, to make for a sampled row that the probe at `position` dropped."""
        ...

    def observe(self, bits: UInt64s, known: UInt64s) -> object:
        """Learn from dropped rows: bit k of `bits` is set where probe k drops the row, of `known` where that was looked up."""
        ...

    def snapshot(self) -> Mapping[str, Any]:
        """JSON values from which `restore` goes on."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Makes the policy that some settings name for each pipeline of a join: `MJoin(…, orders=OrderBy(OrderSettings("sweep")))`.

    Examples
    --------
    >>> from penstock.operators.joins.matching.multiway.graph import JoinGraph
    >>> plan = JoinGraph.natural([["a"], ["b"], ["c"]]).plan(0)
    >>> OrderBy(OrderSettings("agreedy"))(plan).order()
    (0, 1)
    """

    settings: OrderSettings = field(default_factory=OrderSettings)

    def __call__(self, plan: PipelinePlan) -> LearnedOrder:
        ancestors, kind = plan.ancestors, POLICIES[self.settings.algorithm]
        # A policy that knows every bit may prefer a probe to its parents, which are then placed with it; one that asks for
        # few bits must know at which position a row was really dropped, so it is told what comes after what.
        after = None if kind.has_whole_rows else np.array([sum(1 << above for above in path) for path in ancestors], np.uint64)
        start = plan.repaired(range(len(ancestors)))
        return LearnedOrder(kind(len(ancestors), self.settings, start, after), ancestors)


class LearnedOrder:
    """An order of probes that a policy for filters keeps.

    In a tree each probe stands for the path to it: it costs what the whole path costs.
    """

    def __init__(self, policy: FilterOrder, ancestors: Sequence[Sequence[int]]) -> None:
        self.policy = policy
        self._costs = np.array([len(path) + 1.0 for path in ancestors])
        self._word = np.min_scalar_type((1 << len(ancestors)) - 1)

    def order(self) -> Sequence[int]:
        return self.policy.order()

    def wanted(self, position: int) -> int:
        return self.policy.wanted(position)

    def observe(self, bits: UInt64s, known: UInt64s) -> None:
        self.policy.observe(bits, known, self._costs)

    def snapshot(self) -> Mapping[str, Any]:
        rows = self.policy.window.content
        return {"policy": self.policy.snapshot(), "bits": self._packed(rows.bits), "known": self._packed(rows.known)}

    def restore(self, state: Mapping[str, Any]) -> None:
        bits, known = self._unpacked(state["bits"]), self._unpacked(state["known"])
        self.policy.restore(state["policy"], ProfileRows(bits, known, np.zeros(len(bits), np.int64)))

    def _packed(self, words: UInt64s) -> str:
        """Words as text, no wider than there are probes: it is written with every micro-batch."""
        return b64encode(words.astype(self._word).tobytes()).decode()

    def _unpacked(self, text: str) -> UInt64s:
        return np.frombuffer(b64decode(text), self._word).astype(np.uint64)
