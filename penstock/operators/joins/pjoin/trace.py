"""Lists of items through the join, without rows: what experiments measure.

`run_items(config, items, samples)` is the door: it drives the same engine and compiled loops as the operator, and returns a
`Trace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.model.batch import Int64s
from penstock.model.value_sets import Pattern

Kinds = npt.NDArray[np.int8]

#: Kinds of item: a tuple; a punctuation on its key; both inputs are idle now; a request for punctuations.
TUPLE, PUNCTUATION, IDLE, REQUEST = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Items:
    """Items of both streams in one global order.

    Parameters
    ----------
    kind
        `TUPLE`, `PUNCTUATION`, `IDLE` or `REQUEST`.
    stream
        0 or 1; of no meaning for idle times and requests.
    key
        The key of a tuple, or the constant a punctuation closes.
    ts
        Time of arrival in any unit, not descending: for samples and time thresholds.
    patterns
        Item number to pattern, for punctuations that are no constants.
    controls
        Item number to changes of the configuration that take effect before it.

    Examples
    --------
    >>> Items.of([(TUPLE, 0, 5), (TUPLE, 1, 5), (PUNCTUATION, 0, 5)]).ts
    array([0, 1, 2])
    """

    kind: Kinds
    stream: Kinds
    key: Int64s
    ts: Int64s
    patterns: Mapping[int, Pattern] = field(default_factory=dict)
    controls: Mapping[int, Mapping[str, object]] = field(default_factory=dict)

    @classmethod
    def of(cls, items: list[tuple[int, int, int]]) -> Items:
        """(kind, stream, key) one by one, each at its own number as time."""
        table = np.array(items, np.int64).reshape(-1, 3)
        return cls(table[:, 0].astype(np.int8), table[:, 1].astype(np.int8), table[:, 2].copy(), np.arange(len(table)))

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened, at sampled times and as a whole.

    Parameters
    ----------
    samples
        The sampled times; without samples the time of every item.
    state_rows
        Rows stored per stream, shape (samples, 2): memory, disk and purge buffer together.
    counters
        Cumulative counters by name, one value per sample: `results` (output tuples), `propagated` (output punctuations),
        `suppressed` (punctuations whose values the output had announced), `punctuations_in`, `probe_comparisons`,
        `purge_scanned`, `purged`, `purged_on_the_fly`, `inserts`, `buffered`, `tuples_spilled`, `tuples_reread`,
        `disk_joins`, `index_tests`, `purges`; and the level `memory_rows`.
    totals
        The same at the very end, after the clean-up stage; with `tuples`, `violations`, `redundant`, `trusted` besides.
    pairs
        Item numbers of the partners of each result, shape (results, 2), in order of output; empty unless kept.
    pair_item
        The item after which each result came out; the number of items for the clean-up stage.
    announced
        Item numbers of the punctuations that left, in order of output.
    announced_key
        The key that each of them closes if it left as a constant, as values of expanded lists do; else -1.
    announced_item
        The item after which each of them left.
    announced_ts
        The time of that item.
    announced_after
        How many results had come out before.
    """

    samples: Int64s
    state_rows: Int64s
    counters: Mapping[str, Int64s]
    totals: Mapping[str, int]
    pairs: Int64s
    pair_item: Int64s
    announced: Int64s
    announced_key: Int64s
    announced_item: Int64s
    announced_ts: Int64s
    announced_after: Int64s

    @property
    def work(self) -> Int64s:
        """Probe comparisons and rows scanned by purges, per sample: the measure of cost."""
        return self.counters["probe_comparisons"] + self.counters["purge_scanned"]

    @property
    def total_work(self) -> int:
        return self.totals["probe_comparisons"] + self.totals["purge_scanned"]
