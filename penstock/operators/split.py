"""One stream to several, by conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.model.batch import Batch
from penstock.model.elements import Elements, Routed
from penstock.operators.base import Stateless


class Split(Stateless):
    """A row goes to every output whose condition holds; to `default` if none does, or else it is counted as unmatched."""

    def __init__(self, input_schema: pa.Schema, branches: Sequence[tuple[str, Expr]], default: str = "") -> None:
        self.branches = tuple(branches)
        self.default = default
        self._unmatched = 0

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if not batch.num_rows:
            return ()
        routed: list[Routed] = []
        matched = np.zeros(batch.num_rows, np.bool_)
        for output, condition in self.branches:
            chosen = mask(condition, batch.rows)
            matched |= chosen
            if chosen.any():
                routed.append(Routed(output, batch.filter(chosen)))
        if not matched.all():
            if self.default:
                routed.append(Routed(self.default, batch.filter(~matched)))
            else:
                self._unmatched += int((~matched).sum())
        return routed

    def snapshot(self) -> State:
        return State({"unmatched": self._unmatched})

    def restore(self, state: State) -> None:
        self._unmatched = state.meta["unmatched"]

    def counters(self) -> Mapping[str, int]:
        return {"state_rows": 0, "state_bytes": 0, "unmatched": self._unmatched}
