"""The rows of a join input of which must be known whether they have found a partner.

Runs are immutable, so what changes about their rows stands in a small segment beside each: one bit for each debt, written
anew only when it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import UInt64s
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER
from penstock.operators.joins.storing.debts import Bools, Debts
from penstock.operators.joins.storing.row_store import RowStore, Run

_FLAGS = pa.schema({"settled": pa.bool_()})


class PreservedRows(RowStore):
    """Stored rows and their debts.

    Parameters
    ----------
    debts_of
        The debts of rows with given times, all open.
    until_settled
        Rows whose debts are settled are of no use: semi and anti joins answer with each row once. Otherwise they stay to
        find further partners.
    """

    def __init__(
        self,
        name: str,
        keys: tuple[str, ...],
        useful_until: Callable[[Batch], Int64s],
        debts_of: Callable[[Int64s], Debts],
        until_settled: bool,
    ) -> None:
        super().__init__(name, keys, useful_until)
        self._debts_of = debts_of
        self.until_settled = until_settled
        #: What the rows of each run owe.
        self._owing: dict[str, Debts] = {}
        self.decided = 0

    # -- rows ---------------------------------------------------------------------------------------------------------

    def insert_with(self, batch: Batch, hashes: UInt64s, useful_until: Int64s, debts: Debts) -> None:
        """`insert`, with debts that may be settled already."""
        if batch.num_rows:
            self._append(batch, hashes, useful_until)
            self._adopt(self._pieces[-1], debts)
            self._merge_small()

    def _adopt(self, run: Run, debts: Debts) -> None:
        debts.version, debts.oldest = int(debts.settled.any()), None
        self._owing[run.id] = debts

    def _replace(self, places: Sequence[int], rows: Int64s) -> None:
        debts = Debts.joined([self._owing.pop(self._pieces[at].id) for at in places])
        super()._replace(places, rows)
        if len(rows):
            self._adopt(self._pieces[min(places)], debts.chosen(rows))

    @property
    def num_bytes(self) -> int:
        return super().num_bytes + sum(debts.num_bytes for debts in self._owing.values())

    # -- debts --------------------------------------------------------------------------------------------------------

    @property
    def owed(self) -> int:
        """Open debts."""
        return sum(int(np.count_nonzero(~debts.settled)) for debts in self._owing.values())

    @property
    def oldest(self) -> int:
        """Least time of a row with an open debt; `FOREVER` when there is none."""
        return min(map(self._oldest_of, self._pieces), default=FOREVER)

    def _oldest_of(self, run: Run) -> int:
        debts = self._owing[run.id]
        if debts.oldest is None:
            opened = run.batch.ts[debts.open_rows()]
            debts.oldest = int(opened.min()) if len(opened) else FOREVER
        return debts.oldest

    def settle(self, run: Run, rows: Int64s, numbers: Int64s | None) -> tuple[Int64s, Int64s | None]:
        """Rows of a run have found partners; returns those (and their windows) that had none before."""
        debts = self._owing[run.id]
        return debts.owners(debts.settle(debts.places(rows, numbers)))

    def take_overdue(self, horizon: int) -> Iterator[tuple[Batch, Int64s, Int64s | None]]:
        """Settle debts whose time has passed; yields rows, and their windows, that found no partner."""
        if horizon > self._horizon:
            yield from self._take(lambda run, debts: debts.overdue(horizon))

    def take_closed(
        self, closed: Callable[[Sequence[pa.Array]], Bools], among: UInt64s | None
    ) -> Iterator[tuple[Batch, Int64s, Int64s | None]]:
        """Settle debts of rows whose key can have no partner any more; both arguments are as in `purge`."""

        def choose(run: Run, debts: Debts) -> Int64s:
            if among is not None and not run.has(among).any():
                return np.empty(0, np.int64)
            return np.flatnonzero(debts.spread(closed(run.keys)) & ~debts.settled)

        yield from self._take(choose)

    def _take(self, choose: Callable[[Run, Debts], Int64s]) -> Iterator[tuple[Batch, Int64s, Int64s | None]]:
        for run in self._pieces:
            debts = self._owing[run.id]
            places = choose(run, debts)
            if len(places):
                debts.settle(places)
                yield run.batch, *debts.owners(places)

    def compact(self) -> None:
        """Drop settled rows where they are of no use; whole runs at once, others when most is settled."""
        for at in reversed(range(len(self._pieces))) if self.until_settled else ():
            run = self._pieces[at]
            opened, living = self._owing[run.id].open_rows(), self.living(run)
            total = run.num_rows
            if living is not None:
                opened, total = opened & living, int(np.count_nonzero(living))
            left = np.flatnonzero(opened)
            if len(left) * 4 < total:
                self.decided += total - len(left)
                self._replace([at], left)

    # -- what holds punctuations back ---------------------------------------------------------------------------------

    def _needed(self, run: Run) -> Bools:
        needed = super()._needed(run)
        return needed & self._owing[run.id].open_rows() if self.until_settled else needed

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        rows = super().snapshot()
        changed = {name: debts for name, debts in self._owing.items() if debts.version}
        flags = {
            f"{name}.{debts.version}": pa.RecordBatch.from_arrays([pa.array(debts.settled)], schema=_FLAGS)
            for name, debts in changed.items()
        }
        versions = {name: debts.version for name, debts in changed.items()}
        return State({**rows.meta, "versions": versions, "decided": self.decided}, {**rows.segments, **flags})

    def restore(self, state: State, directory: Path | None = None) -> None:
        super().restore(state, directory)
        meta: Mapping[str, Any] = state.meta
        self.decided = meta["decided"]
        self._owing = {}
        for run in self._pieces:
            debts = self._owing[run.id] = self._debts_of(run.batch.ts)
            if version := meta["versions"].get(run.id, 0):
                stored = state.segments[f"{run.id}.{version}"].column(0)
                # A copy: what Arrow hands out cannot be written to.
                debts.settled, debts.version = stored.to_numpy(zero_copy_only=False).copy(), version
