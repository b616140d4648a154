"""Run a list of items through the join: the fast door for experiments, over the same engine as the operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import PunctuationViolated
from penstock.model.batch import Int64s
from penstock.model.declarations import RowPolicy
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.operators.joins.pjoin import layout
from penstock.operators.joins.pjoin.config import PJoinConfig
from penstock.operators.joins.pjoin.engine import Engine
from penstock.operators.joins.pjoin.trace import IDLE, PUNCTUATION, REQUEST, TUPLE, Items, Trace

_SCHEMA = Schema.of(key=pa.int64())


def run_items(
    config: PJoinConfig,
    items: Items,
    samples: Int64s | None = None,
    *,
    keep_pairs: bool = False,
    finish: bool = True,
) -> Trace:
    """Join two streams of keys and tell what happened.

    Parameters
    ----------
    config
        How the join works.
    items
        Both streams in one order; rows are item numbers.
    samples
        Times at which state and counters are sampled, each after all items up to then. None: after every item.
    keep_pairs
        Return the results too, not only their number.
    finish
        Run the clean-up stage at the end; samples never include it.

    Examples
    --------
    >>> items = Items.of([(TUPLE, 0, 5), (TUPLE, 1, 5), (PUNCTUATION, 1, 5), (TUPLE, 0, 6)])
    >>> trace = run_items(PJoinConfig.published(1), items, keep_pairs=True)
    >>> trace.pairs.tolist(), trace.state_rows.tolist()
    ([[0, 1]], [[1, 0], [1, 1], [0, 1], [1, 1]])
    """
    run = ItemRun(config)
    run.feed(items)
    if finish:
        run.finish()
    return run.trace(samples, keep_pairs)


class ItemRun:
    """A run that can be fed piece by piece, for measurements of time; item numbers go on."""

    def __init__(self, config: PJoinConfig) -> None:
        self.engine = Engine(config, (_SCHEMA, _SCHEMA), (("key",), ("key",)), self)
        self.engine.recycles_keys = False
        self.item = 0
        self._ts: list[Int64s] = []
        self._history: list[Int64s] = []
        self._pairs: list[tuple[Int64s, Int64s, int]] = []
        self._sources: list[int] = []
        self._announced: list[tuple[int, int, int, int, int]] = []
        self._last = np.zeros((1, layout.BOOK_FIELDS - layout.STORED0), np.int64)
        self._now = 0
        self._refused = {"violations": 0, "trusted": 0}

    # -- host ---------------------------------------------------------------------------------------------------------

    def emit(self, left: Int64s, right: Int64s) -> None:
        self._pairs.append((left, right, self.item))

    def announce_keys(self, side: int, kids: Int64s, seqs: Int64s) -> Sequence[Punctuation]:
        keys = self.engine.core.keys.columns[0].to_numpy()[kids]
        for seq, key in zip(seqs.tolist(), keys.tolist(), strict=True):
            self._announce(seq, key)
        return ()

    def announce(self, side: int, mark: Punctuation, seq: int, on_keys: bool) -> None:
        self._announce(seq, -1)

    def _announce(self, seq: int, key: int) -> None:
        results = int(self.engine.core.book[layout.RESULTS])
        self._announced.append((self._sources[seq], key, self.item, self._now, results))

    def relocated(self, side: int, slots: Int64s) -> None:
        """Rows are numbers: there is nothing to move."""

    def fetched(self, side: int, slots: Int64s) -> None:
        """Rows are numbers: there is nothing to move."""

    def completed(self, bucket: int, most_chunks: int = 1) -> None:
        """Nothing is kept for it."""

    def match_rows(self, side: int, mark: Punctuation, rows: Int64s) -> Mask:
        return np.ones(len(rows), np.bool_)

    # -- items --------------------------------------------------------------------------------------------------------

    def feed(self, items: Items) -> None:
        """Process more items."""
        start = sum(map(len, self._ts))
        history = np.zeros((len(items), layout.BOOK_FIELDS - layout.STORED0), np.int64)
        self._ts.append(items.ts)
        self._history.append(history)
        kids = self.engine.intern([pa.array(items.key)])
        sides = items.stream.astype(np.int64)
        for first, last in _runs(items):
            if first in items.controls:
                self.engine.configure(self.engine.config.changed(items.controls[first]))
            while first < last:
                stop = self._stop(items, first, last)
                self.item, self._now = start + first, int(items.ts[stop - 1])
                if items.kind[first] == TUPLE:
                    self._tuples(items, sides, kids, slice(first, stop), start, history)
                else:
                    self._mark(items, first, kids)
                self.engine.advance(self._now)
                history[stop - 1] = self.engine.core.book[layout.STORED0 :]
                first = stop
        self.item = start + len(items)
        self._last = history[-1:] if len(items) else self._last

    def _stop(self, items: Items, first: int, last: int) -> int:
        """The end of a run, or the item at which a propagation is due."""
        due = self.engine.next_propagation
        if due is None:
            return last
        return min(last, first + 1 + int(np.searchsorted(items.ts[first:last], due)))

    def _tuples(self, items: Items, sides: Int64s, kids: Int64s, part: slice, start: int, history: Int64s) -> None:
        chosen = np.arange(part.start, part.stop)
        wrong = self.engine.violates(sides[part], kids[part])
        trusted = np.zeros(len(chosen), np.bool_)
        if wrong.any():
            self._refused["violations"] += int(wrong.sum())
            policy = self.engine.config.on_violation
            if policy is RowPolicy.ERROR:
                at = part.start + int(np.argmax(wrong))
                raise PunctuationViolated(f"tuple {items.key[at]} matches a punctuation before it", f"item {start + at}")
            if policy is RowPolicy.TRUST:
                trusted = wrong
                self._refused["trusted"] += int(wrong.sum())
            else:
                chosen, trusted = chosen[~wrong], trusted[~wrong]
        filled = np.zeros((len(chosen), history.shape[1]), np.int64)
        self.engine.accept(sides[chosen], kids[chosen], chosen + start, items.ts[chosen], trusted, filled)
        # A refused tuple changes nothing: it sees what the one before it left.
        seen = np.searchsorted(chosen, np.arange(part.start, part.stop), side="right")
        before = history[part.start - 1 : part.start] if part.start else self._last
        history[part] = np.concatenate([before, filled])[seen]

    def _mark(self, items: Items, at: int, kids: Int64s) -> None:
        kind, side = items.kind[at], int(items.stream[at])
        if kind == IDLE:
            self.engine.idle()
        elif kind == REQUEST:
            self.engine.request()
        elif kind == PUNCTUATION and self.engine.config.uses_punctuations:
            pattern = items.patterns.get(at)
            # So many arrival numbers at most are given; values that were closed before take none.
            self._sources += [self.item] * (max(len(pattern.values), 1) if pattern else 1)
            if pattern is None:
                self.engine.announce_keys(side, kids[at : at + 1])
            else:
                self.engine.announce(side, Punctuation(("key",), (pattern,)))
            del self._sources[self.engine.next_seq :]

    def finish(self) -> None:
        """Run the clean-up stage."""
        self.engine.finish()

    # -- trace --------------------------------------------------------------------------------------------------------

    def trace(self, samples: Int64s | None = None, keep_pairs: bool = False) -> Trace:
        """What has happened so far."""
        ts = np.concatenate(self._ts)
        history = np.concatenate([np.zeros_like(self._last), *self._history])
        at = np.searchsorted(ts, samples, side="right") if samples is not None else np.arange(1, len(ts) + 1)
        sampled = history[at]
        counters = {name: sampled[:, 3 + place] for place, name in enumerate(layout.COUNTERS)}
        counters["memory_rows"] = sampled[:, 2]
        totals = self.engine.core.counters | self._refused | {"tuples": self.engine.tuples_in}
        knowledge = self.engine.knowledge
        totals["redundant"] = knowledge.redundant + sum(known.redundant for known in knowledge.closed)
        pairs = self._pairs if keep_pairs else []
        left, right = (np.concatenate([part[side] for part in pairs] or [np.empty(0, np.int64)]) for side in (0, 1))
        announced = np.array(self._announced, np.int64).reshape(-1, 5)
        return Trace(
            ts if samples is None else samples,
            sampled[:, :2],
            counters,
            totals,
            np.stack([left, right], axis=1),
            self._pair_items(pairs),
            *announced.T,
        )

    def _pair_items(self, pairs: list[tuple[Int64s, Int64s, int]]) -> Int64s:
        """The item that produced each pair: of pairs found in memory the later partner, else the item of the event."""
        parts = [np.maximum(np.maximum(left, right), item) for left, right, item in pairs]
        return np.concatenate([*parts, np.empty(0, np.int64)])


def _runs(items: Items) -> list[tuple[int, int]]:
    """Maximal runs of tuples; every other item alone; a change of the configuration begins a run."""
    number = len(items)
    if not number:
        return []
    begins = np.ones(number, np.bool_)
    begins[1:] = (items.kind[1:] != TUPLE) | (items.kind[:-1] != TUPLE)
    begins[[at for at in items.controls if 0 < at < number]] = True
    starts = np.flatnonzero(begins)
    return list(zip(starts.tolist(), np.append(starts[1:], number).tolist(), strict=True))
