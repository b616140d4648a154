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

    def completed(self, bucket: int) -> None:
        """A disk join has completed a bucket; rows that are not stored any more may go."""
        ...

    def match_rows(self, side: int, mark: Punctuation, rows: Int64s) -> Mask:
        """Which stored rows match a punctuation that speaks of other columns than the key."""
        ...


class Components:
    """Everything that can listen to an event."""

    def __init__(self, config: PJoinConfig, core: Core, knowledge: Knowledge, pending: Sequence[Pending], host: Host) -> None:
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
        """Move memory portions to disk, the largest first, until fewer tuples than `limit` are in memory."""
        while self.core.in_memory >= limit:
            side, _, moved = self.core.relocate()
            self.host.relocated(side, moved)

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
            left, right = self.core.left_over(bucket)
            if len(left):
                self.host.emit(left, right)
            self.core.settle(bucket)
            self.host.completed(bucket)

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
