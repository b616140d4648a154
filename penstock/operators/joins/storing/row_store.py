"""The rows of one join input: immutable runs sorted by (key hash, time), merged by size, dropped when useless.

A run is one state segment. Its index is its own order, so nothing but the rows is stored; hashes are computed again when a
shard is restored. What memory does not hold is spilled: a spilled run is a file that is mapped, with its hashes and lifetimes;
in memory stay the prefixes of its hashes, which tell of most keys that they do not occur in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
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
from penstock.operators.joins.storing.spilling import mapped

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
class Run:
    """Sorted rows with the arrays a probe needs.

    Parameters
    ----------
    last_use, mostly_useless
        No row is of use behind the first time, few are behind the second.
    """

    id: str
    batch: Batch
    hashes: UInt64s
    keys: tuple[pa.Array, ...]
    useful_until: Int64s
    last_use: int
    mostly_useless: int = FOREVER
    is_spilled: bool = False

    @cached_property
    def num_rows(self) -> int:
        return len(self.hashes)

    @cached_property
    def column_bytes(self) -> int:
        """Of the rows, wherever they are."""
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

    def spilled(self, directory: Path, key_names: Sequence[str]) -> Run:
        """The same rows in a file."""
        stored = self.batch.stored()
        extra = [pa.array(self.hashes, pa.uint64()), pa.array(self.useful_until, pa.int64())]
        fields = [*stored.schema, pa.field(_HASH, pa.uint64()), pa.field(_UNTIL, pa.int64())]
        rows = mapped(pa.RecordBatch.from_arrays([*stored.columns, *extra], schema=pa.schema(fields)), directory)
        *columns, hashes, until = rows.columns
        batch = Batch.restored(pa.RecordBatch.from_arrays(columns, schema=stored.schema.with_metadata(rows.schema.metadata)))
        keys = tuple(batch.column(name) for name in key_names)
        useless = int(np.quantile(self.useful_until, _MOSTLY, method="nearest"))
        found = Run(self.id, batch, hashes.to_numpy(), keys, until.to_numpy(), self.last_use, useless, is_spilled=True)
        found.__dict__["_prefixes"] = self._prefixes
        return found


@dataclass(slots=True)
class _Dead:
    """Rows of a run in a file that were purged: it stays as it is for a while."""

    rows: Mask
    count: int
    version: int


class RowStore:
    """Stored rows of one input.

    Parameters
    ----------
    useful_until
        Greatest time (or whatever the caller counts in) at which rows of the given batch can still have a partner.
    """

    def __init__(self, name: str, keys: Sequence[str], useful_until: Callable[[Batch], Int64s]) -> None:
        self.name = name
        self.keys = tuple(keys)
        self._useful_until = useful_until
        self._runs: list[Run] = []
        self._dead: dict[str, _Dead] = {}
        self._next = 0
        self._horizon = -(2**63)
        self.expired = 0
        self.purged = 0

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    # -- sizes --------------------------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        stored = sum(run.num_rows for run in self._runs)
        return stored - sum(dead.count for dead in self._dead.values()) if self._dead else stored

    @property
    def num_bytes(self) -> int:
        """In memory."""
        return sum(run.memory_bytes for run in self._runs) + sum(dead.rows.nbytes for dead in self._dead.values())

    @property
    def spillable_bytes(self) -> int:
        return sum(run.memory_bytes for run in self._runs if not run.is_spilled)

    @property
    def spilled_rows(self) -> int:
        return sum(run.num_rows for run in self._runs if run.is_spilled)

    @property
    def spilled_bytes(self) -> int:
        return sum(run.column_bytes for run in self._runs if run.is_spilled)

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
        for run in self._runs:
            here = run.has(hashes) & ~found
            if here.any():
                found[here] = occur(run.hashes[self._needed(run)], hashes[here])
        return found

    def holds(self, mark: Punctuation) -> bool:
        """Whether a row that may still be in a result matches the punctuation."""
        return any((mark.matches_batch(run.batch.rows) & self._needed(run)).any() for run in self._runs)

    def partners(self, hashes: UInt64s, low: Int64s, high: Int64s) -> Iterator[tuple[Run, Int64s, Int64s]]:
        """Rows with one of these ascending hashes and a time within its bounds: run, rows, numbers of the hashes; in pieces."""
        for run in tuple(self._runs):
            dead = self._dead.get(run.id)
            for rows, probes in run.pairs(hashes, low, high):
                if dead is None:
                    yield run, rows, probes
                else:
                    kept = ~dead.rows[rows]
                    yield run, rows[kept], probes[kept]

    # -- what comes ---------------------------------------------------------------------------------------------------

    def useful_until(self, batch: Batch) -> Int64s:
        return self._useful_until(batch)

    def insert(self, batch: Batch, hashes: UInt64s, useful_until: Int64s) -> None:
        """Keep rows that are already in a run's order."""
        if batch.num_rows:
            self._append(batch, hashes, useful_until)
            self._merge_small()

    def _append(self, batch: Batch, hashes: UInt64s, useful_until: Int64s) -> None:
        self._runs.append(self._run(f"{self.name}{self._next}", batch, hashes, useful_until))
        self._next += 1

    def _run(self, name: str, batch: Batch, hashes: UInt64s, useful_until: Int64s) -> Run:
        keys = tuple(batch.column(key) for key in self.keys)
        return Run(name, batch, hashes, keys, useful_until, int(useful_until.max()))

    def _merge_small(self) -> None:
        """Keep few runs by merging the two smallest neighbours; each row is rewritten a logarithmic number of times.

        Spilled runs stay as they are: they are large, and merging them would bring them back into memory.
        """
        while len(self._runs) > 1:
            at = smallest_neighbours([None if run.is_spilled else run.num_rows for run in self._runs])
            if at is None:
                return
            self._merge([at, at + 1])

    def _merge(self, places: Sequence[int]) -> None:
        """Make one run of some that are in memory, without what is useless."""
        runs = [self._runs[at] for at in places]
        hashes = np.concatenate([run.hashes for run in runs])
        times = np.concatenate([run.batch.ts for run in runs])
        needed = np.concatenate([self._needed(run) for run in runs])
        chosen = np.flatnonzero(needed)
        self.expired += len(hashes) - sum(self._dead[run.id].count for run in runs if run.id in self._dead) - len(chosen)
        self._replace(places, chosen[sort_run(hashes[chosen], times[chosen])])

    def _replace(self, places: Sequence[int], rows: Int64s) -> None:
        """Put one run in the place of some: of all their rows the chosen ones, which are in a run's order."""
        gone = [self._runs[at] for at in places]
        for at in sorted(places, reverse=True):
            self._dead.pop(self._runs[at].id, None)
            del self._runs[at]
        if len(rows):
            hashes, until = _together([run.hashes for run in gone]), _together([run.useful_until for run in gone])
            self._append(Batch.concat([run.batch for run in gone]).take(rows), hashes[rows], until[rows])
            self._runs.insert(min(places), self._runs.pop())

    # -- what goes ----------------------------------------------------------------------------------------------------

    def expire(self, horizon: int) -> bool:
        """Drop rows whose partners would have to be older than `horizon`; whole runs at once, others when most is useless.

        Returns whether the horizon has moved: rows that are of no use any more hold no punctuation back, dropped or not.
        `FOREVER` means that the other inputs have ended: nothing is needed any more, whatever its window.
        """
        if horizon <= self._horizon:
            return False
        self._horizon = horizon
        for at in reversed(range(len(self._runs))):
            run = self._runs[at]
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
        living = self.living(self._runs[at])
        left = keep if living is None else keep & living
        alive = len(keep) if living is None else int(np.count_nonzero(living))
        self.expired += alive - int(np.count_nonzero(left))
        self._replace([at], np.flatnonzero(left))

    def purge(self, useless: Callable[[Sequence[pa.Array]], Mask], among: UInt64s | None = None) -> bool:
        """Drop rows whose key the predicate names; runs that lose rows are written anew.

        Parameters
        ----------
        among
            Hashes of all keys the predicate can name, where they are known: runs without them are not looked at.
        """
        before = self.purged
        for at in reversed(range(len(self._runs))):
            run = self._runs[at]
            if among is not None and not run.has(among).any():
                continue
            gone = useless(run.keys)
            if run.is_spilled or run.id in self._dead:
                self._bury(at, gone)
            elif count := int(np.count_nonzero(gone)):
                self.purged += count
                self._replace([at], np.flatnonzero(~gone))
        return self.purged > before

    def _bury(self, at: int, gone: Mask) -> None:
        """Note that rows of a spilled run are gone; the file is written anew when most are."""
        run = self._runs[at]
        dead = self._dead.get(run.id) or _Dead(np.zeros(run.num_rows, np.bool_), 0, 0)
        together = dead.rows | gone
        count = int(np.count_nonzero(together))
        if count == dead.count:
            return
        self.purged += count - dead.count
        self._dead[run.id] = _Dead(together, count, dead.version + 1)
        if count > _MOSTLY * run.num_rows:
            self._replace([at], np.flatnonzero(~together))

    # -- memory -------------------------------------------------------------------------------------------------------

    def spill(self, directory: Path) -> bool:
        """Move everything that is in memory into one file; whether there was anything."""
        places = [at for at, run in enumerate(self._runs) if not run.is_spilled]
        if len(places) > 1:
            self._merge(places)
            places = [at for at, run in enumerate(self._runs) if not run.is_spilled]
        for at in places:
            self._runs[at] = self._runs[at].spilled(directory, self.keys)
        return bool(places)

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        meta: dict[str, Any] = {"next": self._next, "horizon": self._horizon, "expired": self.expired, "purged": self.purged}
        meta["runs"] = [run.id for run in self._runs]
        meta["spilled"] = [run.id for run in self._runs if run.is_spilled]
        meta["dead"] = {name: dead.version for name, dead in self._dead.items()}
        dead = {
            f"{name}-dead{found.version}": pa.RecordBatch.from_arrays([pa.array(found.rows)], schema=_DEAD)
            for name, found in self._dead.items()
        }
        return State(meta, {run.id: run.batch.stored() for run in self._runs} | dead)

    def restore(self, state: State, directory: Path | None = None) -> None:
        """Take a snapshot over; run by run, since together they may be more than memory holds."""
        meta: Mapping[str, Any] = state.meta
        self._next, self._horizon = meta["next"], meta["horizon"]
        self.expired, self.purged = meta["expired"], meta["purged"]
        self._runs, self._dead = [], {}
        for name in meta["runs"]:
            batch = Batch.restored(state.segments[name])
            hashes = hash_columns([batch.column(key) for key in self.keys], batch.num_rows)
            run = self._run(name, batch, hashes, self._useful_until(batch))
            # Without a place for files all rows stay in memory, those that have been purged too: merging drops them.
            self._runs.append(run.spilled(directory, self.keys) if directory is not None and name in meta["spilled"] else run)
        for name, version in meta["dead"].items():
            rows = state.segments[f"{name}-dead{version}"].column(0).to_numpy(zero_copy_only=False)
            self._dead[name] = _Dead(rows, int(np.count_nonzero(rows)), version)


def _together(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def smallest_neighbours(rows: Sequence[int | None], most: int = MAX_RUNS, few_rows: int = _FEW_ROWS) -> int | None:
    """Where two neighbours stand that are to be merged, by their numbers of rows; None of one: it is left alone.

    Parameters
    ----------
    most, few_rows
        They are merged if there are more than so many pieces, or if both have no more rows together.

    Examples
    --------
    >>> smallest_neighbours([None, 5_000, 600, 200]), smallest_neighbours([5_000, 600, None, 200])
    (2, None)
    """
    together = [None if one is None or other is None else one + other for one, other in pairwise(rows)]
    least = min((count for count in together if count is not None), default=None)
    if least is None or (least > few_rows and len(rows) - rows.count(None) <= most):
        return None
    return together.index(least)
