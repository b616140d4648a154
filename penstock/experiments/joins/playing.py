"""Play items through a join and tell what happened: the door for experiments and worked examples."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.experiments.joins.items import Int8s, Items, Output, Trace
from penstock.model.batch import Int64s


class Join(Protocol):
    """A join of numbered items."""

    def process(self, items: Items, fates: Int8s, start: int, stop: int) -> None:
        """Process some of the items, which follow those of the call before; their fates are written."""
        ...

    def finish(self) -> None:
        """Run the clean-up stage: the streams have ended."""
        ...

    def counters(self) -> dict[str, int]:
        """Totals and levels by name."""
        ...

    def stored(self) -> Int64s:
        """Stored tuples of each stream."""
        ...

    def output(self) -> Output:
        """All results and punctuations so far."""
        ...


def play(join: Join, items: Items, times: Int64s | None = None) -> Trace:
    """Join items and tell what happened.

    Parameters
    ----------
    join
        One that has processed nothing yet.
    times
        When state and counters are sampled, each time after all items up to then. None: after every item.

    Examples
    --------
    >>> from penstock.experiments.joins.items import Kind
    >>> from penstock.experiments.joins.pwjoin.config import PWJoinConfig
    >>> from penstock.experiments.joins.pwjoin.join import PWJoin
    >>> items = Items.of([(Kind.TUPLE, 0, 1, 180), (Kind.TUPLE, 1, 2, 180), (Kind.PUNCTUATION, 0, 3, 180),
    ...                   (Kind.TUPLE, 1, 4, 180), (Kind.HEARTBEAT, 0, 12, 0)])
    >>> trace = play(PWJoin(PWJoinConfig.within(10, 5), keep_results=True), items)
    >>> trace.results.tolist(), trace.marks.lows.tolist(), trace.marks.ts.tolist()
    ([[0, 1], [0, 3]], [180], [12])
    >>> trace.state.tolist()
    [[1, 0], [1, 1], [1, 0], [1, 0], [0, 0]]
    >>> trace.totals["purged"], trace.totals["purged_on_the_fly"], trace.totals["invalidated"]
    (1, 1, 1)
    """
    fates = np.zeros(len(items), np.int8)
    stops = np.arange(1, len(items) + 1) if times is None else np.searchsorted(items.ts, times, side="right")
    names, streams = list(join.counters()), len(join.stored())
    samples, state, start = [], [], 0
    for stop in stops.tolist():
        join.process(items, fates, start, stop)
        samples.append(list(join.counters().values()))
        state.append(join.stored())
        start = stop
    join.process(items, fates, start, len(items))
    join.finish()
    table = np.array(samples, np.int64).reshape(-1, len(names)).T.copy()
    output = join.output()
    return Trace(
        items.ts if times is None else times,
        dict(zip(names, table, strict=True)),
        np.array(state, np.int64).reshape(-1, streams),
        join.counters(),
        fates,
        output.results,
        output.result_items,
        output.marks,
    )
