"""The rows of one join input: immutable runs sorted by (key hash, time), merged by size, dropped when useless.

A run is one state segment. Its index is its own order, so nothing but the rows is stored; hashes are computed again when a
shard is restored. What memory does not hold is spilled: a spilled run is a file that is mapped, with its hashes and lifetimes;
in memory stay the prefixes of its hashes, which tell of most keys that they do not occur in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.columnar.matching import find_pairs, have_prefix, occur, occur_behind, prefixes, sort_run
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.operators.joins.storing.pieces import Piece, PieceStore, mapped

#: More runs than this are merged: probing costs one search per run and row.
MAX_RUNS = 8
#: Neighbours that have no more rows together are merged at once: a search costs as much for ten rows as for a thousand, and a
#: punctuation that takes a row from each of several runs has all of them written anew.
_FEW_ROWS = 1024
#: Pairs are handed on in pieces of at most this many: those of one key may be more than memory holds.
_MOST_PAIRS = 1 << 20
#: A spilled run is written anew when this share of its rows is useless; until then they are skipped.
_MOSTLY = 0.75
#: Bytes that stay in memory for each spilled row, and what a row in memory costs beside its columns.
_SPILLED_BYTES, _INDEX_BYTES = 2, 16
_HASH, _UNTIL = "_hash", "_until"
_DEAD = pa.schema({"dead": pa.bool_()})


@dataclass(frozen=True)
class Run(Piece):
    """Sorted rows with the arrays a probe needs.

    Parameters
    ----------
    last_use, mostly_useless
        No row is of use behind the first time, few are behind the second.
    """

    hashes: UInt64s
    keys: tuple[pa.Array, ...]
    useful_until: Int64s
    last_use: int
    mostly_useless: int = FOREVER

    @cached_property
    def column_bytes(self) -> int:
        size: int = self.batch.rows.nbytes
        return size + _INDEX_BYTES * self.num_rows

    @property
    def memory_bytes(self) -> int:
        return _SPILLED_BYTES * self.num_rows if self.is_spilled else self.column_bytes

    @cached_property
    def _prefixes(self) -> npt.NDArray[np.uint8]:
        """Made when the first punctuation asks: without any it is needed only where rows are in a file."""
        return prefixes(self.hashes)

    def has(self, hashes: UInt64s) -> Mask:
        """Which of these key hashes a row has."""
        return occur_behind(self._prefixes, self.hashes, hashes)

    def pairs(self, hashes: UInt64s, low: Int64s, high: Int64s) -> Iterator[tuple[Int64s, Int64s]]:
        """Rows with one of these ascending hashes and a time within its bounds: (row, number of the hash) in pieces."""
        asked: Int64s | None = None
        if self.is_spilled:
            asked = np.flatnonzero(have_prefix(self._prefixes, hashes))
            hashes, low, high = hashes[asked], low[asked], high[asked]
        at, row = 0, -1
        while at < len(hashes):
            rows, probes, at, row = find_pairs(self.hashes, self.batch.ts, hashes, low, high, at, row, _MOST_PAIRS)
            if len(rows):
                yield rows, probes if asked is None else asked[probes]


@dataclass(slots=True)
class _Dead:
    """Rows of a run in a file that were purged: it stays as it is for a while."""

    rows: Mask
    count: int
    version: int


class RowStore(PieceStore[Run]):
    """Stored rows of one input.

    Parameters
    ----------
    useful_until
        Greatest time (or whatever the caller counts in) at which rows of the given batch can still have a partner.
    """

    def __init__(self, name: str, keys: Sequence[str], useful_until: Callable[[Batch], Int64s]) -> None:
        super().__init__(name, MAX_RUNS, _FEW_ROWS)
        self.keys = tuple(keys)
        self.useful_until = useful_until
        self._dead: dict[str, _Dead] = {}
        self.purged = 0

    @property
    def num_rows(self) -> int:
        stored = sum(run.num_rows for run in self._pieces)
        return stored - sum(dead.count for dead in self._dead.values()) if self._dead else stored

    @property
    def num_bytes(self) -> int:
        return super().num_bytes + sum(dead.rows.nbytes for dead in self._dead.values())

    # -- what is there ------------------------------------------------------------------------------------------------

    def living(self, run: Run) -> Mask | None:
        """Rows that have not been purged; None: all."""
        dead = self._dead.get(run.id)
        return None if dead is None else ~dead.rows

    def _needed(self, run: Run) -> Mask:
        """Rows that may still be in a result; others are only not dropped yet."""
        needed: Mask = run.useful_until >= self._horizon
        living = self.living(run)
        return needed if living is None else needed & living

    def has(self, hashes: UInt64s) -> Mask:
        """Which of these key hashes a row has that may still be in a result."""
        found = np.zeros(len(hashes), np.bool_)
        for run in self._pieces:
            here = run.has(hashes) & ~found
            if here.any():
                found[here] = occur(run.hashes[self._needed(run)], hashes[here])
        return found

    def holds(self, mark: Punctuation) -> bool:
        """Whether a row that may still be in a result matches the punctuation."""
        return any((found & self._needed(run)).any() for run, found in self.matching(mark))

    def matching(self, mark: Punctuation) -> Iterator[tuple[Run, Mask]]:
        """Rows that match the punctuation and have not been purged, run by run."""
        for run in self._pieces:
            found, living = mark.matches_batch(run.batch.rows), self.living(run)
            yield run, found if living is None else found & living

    def partners(self, hashes: UInt64s, low: Int64s, high: Int64s) -> Iterator[tuple[Run, Int64s, Int64s]]:
        """Rows with one of these ascending hashes and a time within its bounds: run, rows, numbers of the hashes; in pieces."""
        for run in tuple(self._pieces):
            dead = self._dead.get(run.id)
            for rows, probes in run.pairs(hashes, low, high):
                if dead is None:
                    yield run, rows, probes
                else:
                    kept = ~dead.rows[rows]
                    yield run, rows[kept], probes[kept]

    # -- what comes ---------------------------------------------------------------------------------------------------

    def insert(self, batch: Batch, hashes: UInt64s, useful_until: Int64s) -> None:
        """Keep rows that are already in a run's order."""
        if batch.num_rows:
            self._append(batch, hashes, useful_until)
            self._merge_small()

    def _append(self, batch: Batch, hashes: UInt64s, useful_until: Int64s) -> None:
        self._pieces.append(self._run(self._new_name(), batch, hashes, useful_until))

    def _run(self, name: str, batch: Batch, hashes: UInt64s, useful_until: Int64s) -> Run:
        keys = tuple(batch.column(key) for key in self.keys)
        return Run(name, batch, hashes, keys, useful_until, int(useful_until.max()))

    def _merge(self, places: Sequence[int]) -> None:
        runs = [self._pieces[at] for at in places]
        hashes = np.concatenate([run.hashes for run in runs])
        times = np.concatenate([run.batch.ts for run in runs])
        needed = np.concatenate([self._needed(run) for run in runs])
        chosen = np.flatnonzero(needed)
        self.expired += len(hashes) - sum(self._dead[run.id].count for run in runs if run.id in self._dead) - len(chosen)
        self._replace(places, chosen[sort_run(hashes[chosen], times[chosen])])

    def _replace(self, places: Sequence[int], rows: Int64s) -> None:
        """Put one run in the place of some: of all their rows the chosen ones, which are in a run's order."""
        gone = [self._pieces[at] for at in places]
        for run in gone:
            self._dead.pop(run.id, None)
        made: list[Run] = []
        if len(rows):
            hashes, until = _together([run.hashes for run in gone]), _together([run.useful_until for run in gone])
            batch = Batch.concat([run.batch for run in gone]).take(rows)
            made.append(self._run(self._new_name(), batch, hashes[rows], until[rows]))
        self._put(places, made)

    # -- what goes ----------------------------------------------------------------------------------------------------

    def expire(self, horizon: int) -> bool:
        """Drop rows whose partners would have to be older than `horizon`; whole runs at once, others when most is useless.

        Returns whether the horizon has moved: rows that are of no use any more hold no punctuation back, dropped or not.
        `FOREVER` means that the other inputs have ended: nothing is needed any more, whatever its window.
        """
        if horizon <= self._horizon:
            return False
        self._horizon = horizon
        for at in reversed(range(len(self._pieces))):
            run = self._pieces[at]
            if run.last_use < horizon or horizon == FOREVER:
                self._rewrite(at, np.zeros(run.num_rows, np.bool_))
            elif not run.is_spilled:
                self._expire_in_memory(at, run, horizon)
            elif run.mostly_useless < horizon:
                self._rewrite(at, run.useful_until >= horizon)
        return True

    def _expire_in_memory(self, at: int, run: Run, horizon: int) -> None:
        keep = run.useful_until >= horizon
        useful = int(np.count_nonzero(keep))
        # Small runs hold rows of all ages, and are written anew with the next rows anyway.
        if useful * 4 < run.num_rows or (run.num_rows <= _FEW_ROWS and useful * 8 < run.num_rows * 7):
            self._rewrite(at, keep)

    def _rewrite(self, at: int, keep: Mask) -> None:
        """Drop all rows of a run but those to keep, as expired."""
        living = self.living(self._pieces[at])
        left = keep if living is None else keep & living
        alive = len(keep) if living is None else int(np.count_nonzero(living))
        self.expired += alive - int(np.count_nonzero(left))
        self._replace([at], np.flatnonzero(left))

    def purge(self, useless: Callable[[Sequence[pa.Array]], Mask], among: UInt64s | None = None) -> None:
        """Drop rows whose key the predicate names; runs that lose rows are written anew.

        Parameters
        ----------
        among
            Hashes of all keys the predicate can name, where they are known: runs without them are not looked at.
        """
        for at in reversed(range(len(self._pieces))):
            run = self._pieces[at]
            if among is not None and not run.has(among).any():
                continue
            gone = useless(run.keys)
            if run.is_spilled or run.id in self._dead:
                self._bury(at, gone)
            elif count := int(np.count_nonzero(gone)):
                self.purged += count
                self._replace([at], np.flatnonzero(~gone))

    def _bury(self, at: int, gone: Mask) -> None:
        """Note that rows of a spilled run are gone; the file is written anew when most are."""
        run = self._pieces[at]
        dead = self._dead.get(run.id) or _Dead(np.zeros(run.num_rows, np.bool_), 0, 0)
        together = dead.rows | gone
        count = int(np.count_nonzero(together))
        if count == dead.count:
            return
        self.purged += count - dead.count
        self._dead[run.id] = _Dead(together, count, dead.version + 1)
        if count > _MOSTLY * run.num_rows:
            self._replace([at], np.flatnonzero(~together))

    def _spilled(self, piece: Run, directory: Path) -> Run:
        stored = piece.batch.stored()
        extra = [pa.array(piece.hashes, pa.uint64()), pa.array(piece.useful_until, pa.int64())]
        fields = [*stored.schema, pa.field(_HASH, pa.uint64()), pa.field(_UNTIL, pa.int64())]
        rows = mapped(pa.RecordBatch.from_arrays([*stored.columns, *extra], schema=pa.schema(fields)), directory)
        *columns, hashes, until = rows.columns
        batch = Batch.restored(pa.RecordBatch.from_arrays(columns, schema=stored.schema.with_metadata(rows.schema.metadata)))
        keys = tuple(batch.column(name) for name in self.keys)
        useless = int(np.quantile(piece.useful_until, _MOSTLY, method="nearest"))
        found = Run(piece.id, batch, hashes.to_numpy(), keys, until.to_numpy(), piece.last_use, useless, is_spilled=True)
        found.__dict__["_prefixes"] = piece._prefixes
        return found

    # -- state --------------------------------------------------------------------------------------------------------

    def _piece(self, name: str, batch: Batch) -> Run:
        hashes = hash_columns([batch.column(key) for key in self.keys], batch.num_rows)
        return self._run(name, batch, hashes, self.useful_until(batch))

    def snapshot(self) -> State:
        stored = super().snapshot()
        versions = {name: dead.version for name, dead in self._dead.items()}
        dead = {
            f"{name}-dead{found.version}": pa.RecordBatch.from_arrays([pa.array(found.rows)], schema=_DEAD)
            for name, found in self._dead.items()
        }
        return State({**stored.meta, "purged": self.purged, "dead": versions}, {**stored.segments, **dead})

    def restore(self, state: State, directory: Path | None = None) -> None:
        # Without a place for files rows that have been purged are in memory too: merging drops them.
        super().restore(state, directory)
        meta: Mapping[str, Any] = state.meta
        self.purged, self._dead = meta["purged"], {}
        for name, version in meta["dead"].items():
            rows = state.segments[f"{name}-dead{version}"].column(0).to_numpy(zero_copy_only=False)
            self._dead[name] = _Dead(rows, int(np.count_nonzero(rows)), version)


def _together(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
