"""Rows between the begin and the end of a query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.kernel.contracts import State
from penstock.model.batch import Batch
from penstock.model.elements import Elements
from penstock.model.windows import Lifespan
from penstock.operators.base import Stateless


class Lifetime(Stateless):
    """Keep rows whose time lies within the life of the query. Every punctuation passes: fewer rows break no promise.

    Operators with windows look at the life themselves; this one stands over sources that none of them reads.
    """

    def __init__(self, life: Lifespan) -> None:
        self._life = life
        self._outside_life = 0

    def on_batch(self, port: int, batch: Batch) -> Elements:
        inside = self._life.holds(batch.ts)
        self._outside_life += int(np.count_nonzero(~inside))
        return (batch.filter(inside),) if inside.any() else ()

    def snapshot(self) -> State:
        return State({"outside_life": self._outside_life})

    def restore(self, state: State) -> None:
        self._outside_life = state.meta["outside_life"]

    def counters(self) -> Mapping[str, int]:
        return {**super().counters(), "outside_life": self._outside_life}
