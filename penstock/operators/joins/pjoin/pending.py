"""The punctuation set of one input: announced, not yet propagated. With the tuples' pids it is the punctuation index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.batch import Int64s
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import Pattern
from penstock.operators.joins.pjoin import _disk_loops, layout
from penstock.operators.joins.pjoin.core import Core

#: Which of some rows match a punctuation that speaks of other columns than the key.
MatchRows = Callable[[int, Punctuation, Int64s], Mask]


@dataclass(frozen=True, slots=True)
class Whole:
    """A punctuation that is no constant on the key."""

    seq: int
    pid: int
    mark: Punctuation


@dataclass(frozen=True, slots=True)
class Released:
    """What may leave, in order of arrival: key numbers of constants, or one whole punctuation."""

    seqs: Int64s
    kids: Int64s
    mark: Punctuation | None = None


class Pending:
    """Punctuations of one input in order of arrival, each with a pid that its tuples are charged to.

    A tuple is charged to the first punctuation that matches it, when the index is built; a punctuation leaves when nothing
    is charged to it *and* nothing to an earlier one that overlaps it: tuples of both are charged to the earlier alone.

    Parameters
    ----------
    names
        Key columns of this input.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, Algorithms 1 and 2, both corrected: counts
    are kept and the search stops at the first match; overlapping punctuations wait for each other.
    """

    def __init__(self, side: int, names: Sequence[str]) -> None:
        self.side = side
        self.names = tuple(names)
        self.built = -1
        self._kids: Int64s = np.empty(0, np.int64)
        self._seqs: Int64s = np.empty(0, np.int64)
        self._pids: Int64s = np.empty(0, np.int64)
        self._whole: list[Whole] = []
        self._spare: Int64s = np.empty(0, np.int64)
        self._used_pids = 0

    def __len__(self) -> int:
        return len(self._kids) + len(self._whole)

    # -- arrival ------------------------------------------------------------------------------------------------------

    def add_keys(self, core: Core, kids: Int64s, first_seq: int) -> None:
        """Constants, one for each key number; no number comes twice."""
        core.keys.records.pending[kids] += 1
        self._kids = np.concatenate([self._kids, kids])
        self._seqs = np.concatenate([self._seqs, np.arange(first_seq, first_seq + len(kids))])
        self._pids = np.concatenate([self._pids, self._new_pids(core, len(kids))])

    def add_whole(self, core: Core, mark: Punctuation, seq: int) -> None:
        self._whole.append(Whole(seq, int(self._new_pids(core, 1)[0]), mark))

    def _new_pids(self, core: Core, number: int) -> Int64s:
        kept = max(len(self._spare) - number, 0)
        reused, self._spare = self._spare[kept:], self._spare[:kept]
        start, self._used_pids = self._used_pids, self._used_pids + number - len(reused)
        core.reserve_pids(self._used_pids)
        return np.concatenate([reused, np.arange(start, self._used_pids)])

    def patterns(self, mark: Punctuation) -> list[Pattern]:
        """The patterns of the key columns."""
        return [mark.pattern(name) for name in self.names]

    def _is_on_keys(self, mark: Punctuation) -> bool:
        return set(mark.restricted) <= set(self.names)

    # -- index --------------------------------------------------------------------------------------------------------

    def build(self, core: Core, match_rows: MatchRows, scans: bool) -> None:
        """Charge tuples without punctuation to the first of the punctuations not yet indexed that matches them."""
        for kids, pids, whole in self._new():
            if whole is None:
                self._charge(core, kids, pids, scans)
            elif self._is_on_keys(whole.mark):
                matched = np.flatnonzero(core.keys.matching(self.patterns(whole.mark)))
                if scans:  # every tuple without punctuation is tested once, however many keys match
                    core.add(layout.INDEX_TESTS, int(core.book[layout.NULLS + self.side]))
                self._charge(core, matched, np.full(len(matched), whole.pid), False, not scans)
            else:
                self._charge_rows(core, whole, match_rows)
        self.built = max([self.built, *self._seqs[-1:].tolist(), *(whole.seq for whole in self._whole[-1:])])

    def _charge(self, core: Core, kids: Int64s, pids: Int64s, scans: bool, counts: bool = True) -> None:
        tests = core.book[layout.INDEX_TESTS]
        _disk_loops.index_keys(core.slots, core.keys.records, core.counts, core.book, self.side, kids, pids, scans)
        if not counts:
            core.book[layout.INDEX_TESTS] = tests

    def _charge_rows(self, core: Core, whole: Whole, match_rows: MatchRows) -> None:
        slots = _disk_loops.unindexed_slots(core.slots, self.side)
        core.add(layout.INDEX_TESTS, len(slots))
        slots = slots[core.keys.matching(self.patterns(whole.mark))[core.slots.kid[slots]]]
        if len(slots):
            chosen = slots[match_rows(self.side, whole.mark, core.slots.row[slots])]
            _disk_loops.index_slots(core.slots, core.counts, core.book, self.side, chosen, whole.pid)

    def _new(self) -> Iterator[tuple[Int64s, Int64s, Whole | None]]:
        """What is not indexed, in order of arrival; constants between two whole ones together."""
        start = int(np.searchsorted(self._seqs, self.built, side="right"))
        for whole in (whole for whole in self._whole if whole.seq > self.built):
            stop = int(np.searchsorted(self._seqs, whole.seq))
            if stop > start:
                yield self._kids[start:stop], self._pids[start:stop], None
            yield np.empty(0, np.int64), np.empty(0, np.int64), whole
            start = stop
        if start < len(self._seqs):
            yield self._kids[start:], self._pids[start:], None

    # -- propagation --------------------------------------------------------------------------------------------------

    def release(self, core: Core, is_wanted: Callable[[Punctuation], bool] | None = None) -> list[Released]:
        """Remove and return what may leave; with `is_wanted` only what the other input has announced too."""
        counts = core.counts[self.side]
        free = (counts[self._pids] == 0) & (self._seqs <= self.built)
        if is_wanted is not None:
            free &= core.is_closed(1 - self.side, self._kids)
        held = counts[self._pids] > 0
        holding = [whole for whole in self._whole if counts[whole.pid] > 0]
        for whole in holding:
            if free.any():
                matched = core.keys.matching(self.patterns(whole.mark))[self._kids]
                free &= ~(matched & (self._seqs > whole.seq))
        ready = [whole for whole in self._whole if self._is_ready(core, whole, holding, held, is_wanted)]
        return self._removed(core, free, ready) if ready or free.any() else []

    def _is_ready(
        self, core: Core, whole: Whole, holding: list[Whole], held: Mask, is_wanted: Callable[[Punctuation], bool] | None
    ) -> bool:
        if whole.seq > self.built or core.counts[self.side, whole.pid] > 0:
            return False
        if is_wanted is not None and not is_wanted(whole.mark):
            return False
        if any(earlier.seq < whole.seq and earlier.mark.overlaps(whole.mark) for earlier in holding):
            return False
        earlier_keys = self._kids[held & (self._seqs < whole.seq)]
        if not len(earlier_keys):
            return True
        return not core.keys.matching(self.patterns(whole.mark))[earlier_keys].any()

    def _removed(self, core: Core, free: Mask, ready: list[Whole]) -> list[Released]:
        kids, seqs = self._kids[free], self._seqs[free]
        core.keys.records.pending[kids] -= 1
        wholes = np.array([whole.pid for whole in ready], np.int64)
        self._spare = np.concatenate([self._spare, self._pids[free], wholes])
        kept = ~free
        self._kids, self._seqs, self._pids = self._kids[kept], self._seqs[kept], self._pids[kept]
        self._whole = [whole for whole in self._whole if whole not in ready]
        released, start = list[Released](), 0
        for whole in ready:
            stop = int(np.searchsorted(seqs, whole.seq))
            if stop > start:
                released.append(Released(seqs[start:stop], kids[start:stop]))
            released.append(Released(np.array([whole.seq]), np.empty(0, np.int64), whole.mark))
            start = stop
        return released if start == len(seqs) else [*released, Released(seqs[start:], kids[start:])]

    # -- state --------------------------------------------------------------------------------------------------------

    def renumber(self, numbers: Int64s) -> None:
        """Follow the key table."""
        self._kids = numbers[self._kids]

    @property
    def keys(self) -> tuple[Int64s, Int64s]:
        """Key numbers and arrival numbers of the constants."""
        return self._kids, self._seqs

    @property
    def wholes(self) -> list[Whole]:
        return list(self._whole)

    def reload(self, core: Core, kids: Int64s, seqs: Int64s, wholes: Sequence[tuple[int, Punctuation]], built: int) -> None:
        """Become what was pending; pids are given anew, and the caller builds the index up to `built`."""
        self.add_keys(core, kids, 0)
        self._seqs = seqs
        for seq, mark in wholes:
            self.add_whole(core, mark, seq)
        self.built = built

    def rebuild(self, core: Core, match_rows: MatchRows) -> None:
        """Charge every tuple again to the first indexed punctuation that matches it: pids are derived, not stored."""
        built, self.built = self.built, -1
        tests = core.book[layout.INDEX_TESTS]
        hidden = (self._kids, self._seqs, self._pids, self._whole)
        indexed = self._seqs <= built
        self._kids, self._seqs, self._pids = self._kids[indexed], self._seqs[indexed], self._pids[indexed]
        self._whole = [whole for whole in self._whole if whole.seq <= built]
        self.build(core, match_rows, scans=False)
        self._kids, self._seqs, self._pids, self._whole = hidden
        self.built, core.book[layout.INDEX_TESTS] = built, tests
