"""Rows that wait in front of the kernel until the batch they belong to has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from penstock.model.batch import Batch
from penstock.qos.scheduling.batching import Batching, IntelligentBatching
from penstock.runners.simulated.operators import plain_rows

#: Makes the batching of a stream, by how long its rows are of use in microseconds.
MakeBatching = Callable[[float], Batching]


@dataclass(slots=True)
class _Open:
    """The batch of one stream that has not ended: its rows, and when the first came."""

    batching: Batching
    rows: list[Batch] = field(default_factory=list)
    since_ns: int = 0

    @property
    def due_ns(self) -> float:
        return self.since_ns + self.batching.waits_us * 1_000 if self.rows else inf

    def take(self) -> Batch:
        rows, self.rows = self.rows, []
        return plain_rows(np.concatenate([batch.ts for batch in rows]), np.concatenate([batch.pos for batch in rows]))


#: Rows of a stream, by its number, that have become a batch, and when the first of them came.
Ended = tuple[int, Batch, int]


class OpenBatches:
    """Cut what comes on each stream.

    Parameters
    ----------
    validities_us
        How long rows of each stream are of use.
    """

    def __init__(self, make: MakeBatching, validities_us: Sequence[float]) -> None:
        self._validities_us = validities_us
        self._open = [_Open(make(validity)) for validity in validities_us]

    @property
    def goes_by_laxity(self) -> bool:
        """Whether it matters how long jobs can wait."""
        return any(isinstance(each.batching, IntelligentBatching) for each in self._open)

    def use_laxity(self, laxity_us: float | None) -> None:
        """How long jobs can wait on average; None: there are none, so it is what rows are of use."""
        for each, validity_us in zip(self._open, self._validities_us, strict=True):
            if isinstance(each.batching, IntelligentBatching):
                each.batching.laxity_us = validity_us if laxity_us is None else laxity_us

    def add(self, stream: int, rows: Batch, since_ns: int) -> Iterator[Ended]:
        """Rows come; what they end."""
        mine = self._open[stream]
        if mine.batching.cut(rows.ts) and mine.rows:
            yield self._end(stream)
        if not mine.rows:
            mine.since_ns = since_ns
        mine.rows.append(rows)

    @property
    def due_ns(self) -> float:
        """When the next batch has waited long enough."""
        return min(each.due_ns for each in self._open)

    def due(self, now_ns: int) -> Iterator[Ended]:
        for stream, each in enumerate(self._open):
            if each.due_ns <= now_ns:
                each.batching.close()
                yield self._end(stream)

    def idle(self, is_over: bool = False) -> Ended | None:
        """The oldest batch, ended because there is nothing else to do; where nothing more comes, whatever its rule."""
        able = [at for at, each in enumerate(self._open) if each.rows and (is_over or each.batching.closes_when_idle)]
        if not able:
            return None
        oldest = min(able, key=lambda at: self._open[at].since_ns)
        self._open[oldest].batching.close()
        return self._end(oldest)

    def _end(self, stream: int) -> Ended:
        return stream, self._open[stream].take(), self._open[stream].since_ns
