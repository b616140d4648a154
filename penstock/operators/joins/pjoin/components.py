"""The components of PJoin: purge, relocation, disk join, index building, propagation. Events decide when each runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np

from penstock.model.batch import Int64s
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.operators.joins.pjoin import layout
from penstock.operators.joins.pjoin.config import Access, DiskJoin, PJoinConfig
from penstock.operators.joins.pjoin.core import Core
from penstock.operators.joins.pjoin.knowledge import Knowledge
from penstock.operators.joins.pjoin.pending import Pending, Released
from penstock.operators.joins.pjoin.scopes import Scopes

#: This part of the memory is left free when hot tuples are fetched, and made free when cold ones leave.
_SPARE = 8
#: Fetching leaves so many chunks of a bucket as they are: reading all of them to make one is for joins that read them anyway.
_MOST_CHUNKS = 4


class Host(Protocol):
    """What the join asks of the one who owns the rows."""

    def emit(self, left: Int64s, right: Int64s) -> None:
        """Results: rows of the first and of the second side."""
        ...

    def announce_keys(self, side: int, kids: Int64s, seqs: Int64s) -> Sequence[Punctuation]:
        """Constants of a side leave, given by key numbers; returns them in the names of the first side if they were made."""
        ...

    def announce(self, side: int, mark: Punctuation, seq: int, on_keys: bool) -> None:
        """Any other leaves; one on the keys alone is in the names of the first side, else in those of its own."""
        ...

    def relocated(self, side: int, slots: Int64s) -> None:
        """The tuples in these slots are on disk now."""
        ...

    def fetched(self, side: int, slots: Int64s) -> None:
        """The tuples in these slots are in memory again."""
        ...

    def completed(self, bucket: int, most_chunks: int = 1) -> None:
        """A disk join has completed a bucket; rows that are not stored any more may go.

        More chunks than `most_chunks` of a side are put together.
        """
        ...

    def match_rows(self, side: int, mark: Punctuation, rows: Int64s) -> Mask:
        """Which stored rows match a punctuation that speaks of other columns than the key."""
        ...


class Components:
    """Everything that can listen to an event."""

    def __init__(
        self, config: PJoinConfig, core: Core, knowledge: Knowledge, scopes: Scopes, pending: Sequence[Pending], host: Host
    ) -> None:
        self.scopes = scopes
        self.config = config
        self.core = core
        self.knowledge = knowledge
        self.pending = tuple(pending)
        self.host = host

    # -- state purge and relocation -----------------------------------------------------------------------------------

    def purge(self, side: int, closed: Sequence[Int64s]) -> None:
        """Remove what `side` has made useless on the other side, since the last purge by closing the given keys."""
        by_key = self.config.purge_access is Access.INDEX
        self.core.purge(1 - side, np.concatenate(closed) if by_key else None)

    def relocate(self, limit: int) -> None:
        """Move tuples to disk until fewer than `limit` are in memory: what is cold, then memory portions, the largest first.

        Portions of a side of which nothing is announced go before those of which only hot tuples are left.
        """
        self._flush_cold(limit - limit // _SPARE)
        while self.core.in_memory >= limit:
            unknown = self._unknown()
            side, _, moved = self.core.relocate(unknown or (0, 1))
            self.host.relocated(side, moved)

    def _unknown(self) -> list[int]:
        """Sides with tuples in memory of which nobody has said whether they are needed next."""
        sizes = self.core.sizes(layout.MEMORY)
        return [side for side in (0, 1) if sizes[side].any() and not self.scopes.is_known(side)]

    def _flush_cold(self, limit: int) -> None:
        """Move what the next rows cannot need to disk, buckets with most of it first, until fewer than `limit` are in memory."""
        for side in (0, 1):
            if self.scopes.is_known(side) and self.core.in_memory >= limit:
                cold = ~self.scopes.hot_keys(side)
                sizes = self.core.tuples_by_bucket(layout.MEMORY + side, cold)
                for bucket in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
                    if self.core.in_memory >= limit:
                        self.host.relocated(side, self.core.flush(side, bucket, cold))

    def prefetch(self, side: int, limit: int) -> None:
        """Bring what the next rows may need of a side into memory before they come, as far as there is room.

        What is cold makes room for it, then what may or may not be needed. Some room stays free for the rows to come.
        """
        buckets, hot = self.scopes.hot_buckets(side), self.scopes.hot_keys(side)
        sizes = self.core.tuples_by_bucket(layout.DISK + side, hot)
        most = limit - limit // _SPARE - 1
        room = max(most - int(sizes[buckets].sum()), 0)
        if not sizes[buckets].any():
            return
        self._flush_cold(room + 1)
        while self.core.in_memory > room and (unknown := self._unknown()):
            other, _, moved = self.core.relocate(unknown)
            self.host.relocated(other, moved)
        for bucket in buckets.tolist():
            if sizes[bucket] and self.core.in_memory + sizes[bucket] <= most:
                self._fetch(side, bucket, hot)

    def _fetch(self, side: int, bucket: int, hot: Mask) -> None:
        """Left-over joins of the bucket are finished first: it is read anyway, and its history then needs no more care."""
        self._finish(bucket)
        moved = self.core.fetch(side, bucket, hot)
        if len(moved):
            self.host.fetched(side, moved)
        self.host.completed(bucket, _MOST_CHUNKS)

    # -- disk join ----------------------------------------------------------------------------------------------------

    def spilled_buckets(self) -> Int64s:
        """Buckets with anything on disk or in a purge buffer."""
        away = self.core.sizes(layout.DISK) + self.core.sizes(layout.BUFFER)
        return np.flatnonzero(away.sum(axis=0))

    def worthwhile(self) -> Mask:
        """Buckets whose disk join promises enough; if joins are partial, by the side whose disk portion would probe."""
        rows = self.core.lists[:, :, layout.SIZE].sum(axis=0)
        enough = np.maximum(self.config.activation_share * rows, self.config.activation_least)
        in_full = self.config.disk_join is DiskJoin.FULL
        promised = self.core.expected_yield(in_full)
        if in_full:
            promised = promised.sum(axis=0)
        worth: Mask = promised >= enough
        return worth

    def join_worthwhile(self) -> None:
        """Use a pause: the disk joins that promise enough."""
        worth = self.worthwhile()
        if self.config.disk_join is DiskJoin.FULL:
            self.complete(np.flatnonzero(worth))
            return
        for side, bucket in zip(*(part.tolist() for part in np.nonzero(worth)), strict=True):
            mine, theirs = self.core.probe_away(side, bucket)
            if len(mine):
                self.host.emit(*((mine, theirs) if side == 0 else (theirs, mine)))

    def complete(self, buckets: Int64s) -> None:
        """Finish the left-over joins of whole buckets, and free what waited for them."""
        for bucket in buckets.tolist():
            self._finish(bucket)
            self.host.completed(bucket)

    def _finish(self, bucket: int) -> None:
        left, right = self.core.left_over(bucket)
        if len(left):
            self.host.emit(left, right)
        self.core.settle(bucket)

    # -- index and propagation ----------------------------------------------------------------------------------------

    def build_index(self) -> None:
        """Charge tuples to new punctuations."""
        for pending in self.pending:
            pending.build(self.core, self.host.match_rows, self.config.purge_access is Access.SCAN)

    def propagate(self, is_paired: bool) -> None:
        """Let punctuations go that nothing is charged to, in order of arrival; paired: only those both inputs announced."""
        free: list[tuple[int, Released]] = []
        for side, pending in enumerate(self.pending):
            wanted = partial(self._is_closed_by_other, side) if is_paired else None
            free += [(side, released) for released in pending.release(self.core, wanted)]
        for side, released in sorted(free, key=lambda found: int(found[1].seqs[0])):
            self._let_go(side, released)

    def _is_closed_by_other(self, side: int, mark: Punctuation) -> bool:
        return self.knowledge.covers(1 - side, self.knowledge.renamed(mark, side, 1 - side))

    def _let_go(self, side: int, released: Released) -> None:
        """Pass punctuations on, except what the output has announced already."""
        if released.mark is None:
            fresh = ~self.knowledge.is_announced(released.kids)
            kids = released.kids[fresh]
            self.core.add(layout.SUPPRESSED, len(fresh) - len(kids))
            self.core.add(layout.PROPAGATED, len(kids))
            if len(kids):
                self.knowledge.announce_keys(kids, self.host.announce_keys(side, kids, released.seqs[fresh]))
            return
        mark = released.mark
        on_keys = set(mark.restricted) <= set(self.pending[side].names)
        key_part = Punctuation(self.pending[0].names, tuple(self.pending[side].patterns(mark)))
        if not self.knowledge.announce(key_part, on_keys):
            self.core.add(layout.SUPPRESSED)
            return
        self.core.add(layout.PROPAGATED)
        self.host.announce(side, key_part if on_keys else mark, int(released.seqs[0]), on_keys)
