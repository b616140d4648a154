"""The input of a queue at which rows may be shed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.model.batch import Batch
from penstock.qos.shedding.contracts import Shedder


class Gate:
    """Counts the rows that come to a queue, and leaves a share of them out while it is active.

    It stands in front of the queue: rows that are dropped never wait. While it is not active it costs a test per batch.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from penstock.qos.shedding.exact_rate import ExactRate
    >>> rows = Batch(pa.RecordBatch.from_pydict({"n": range(10)}), np.arange(10), np.arange(10))
    >>> gate = Gate(ExactRate())
    >>> gate.admit(rows).num_rows
    10
    >>> gate.activate(0.3)
    >>> gate.admit(rows).num_rows
    7
    >>> dict(gate.counters())
    {'received': 20, 'enqueued': 17, 'shed': 3}
    """

    def __init__(self, shedder: Shedder) -> None:
        self._shedder = shedder
        self._share = 0.0
        self._received = 0
        self._shed = 0

    def activate(self, share: float) -> None:
        """From now on this share is dropped; the plan and what waits stay as they are."""
        self._share = share

    def deactivate(self) -> None:
        self._share = 0.0

    def admit(self, batch: Batch) -> Batch:
        """The rows that may go on; punctuations and everything else that is no row never come here."""
        self._received += batch.num_rows
        self._shedder.observe(batch)
        if not self._share:
            return batch
        kept = batch.filter(self._shedder.keep_mask(batch, self._share))
        self._shed += batch.num_rows - kept.num_rows
        return kept

    def counters(self) -> Mapping[str, int]:
        totals = {"received": self._received, "enqueued": self._received - self._shed, "shed": self._shed}
        return {**totals, **self._shedder.counters()}

    def snapshot(self) -> Mapping[str, Any]:
        return {"share": self._share, "rows": [self._received, self._shed], "shedder": self._shedder.snapshot()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._share = state["share"]
        self._received, self._shed = state["rows"]
        self._shedder.restore(state["shedder"])
