"""The rows of one join input: immutable runs sorted by (key hash, time), merged by size, dropped when useless.

A run is one state segment. Its index is its own order, so nothing but the rows is stored; hashes are computed again when a
shard is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.columnar.matching import occur, occur_behind, prefixes, sort_run
from penstock.kernel.contracts import State
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER
from penstock.model.punctuation import Punctuation

#: More runs than this are merged: probing costs one search per run and row.
MAX_RUNS = 8
#: Neighbours that have no more rows together are merged at once: a search costs as much for ten rows as for a thousand, and a
#: punctuation that takes a row from each of several runs has all of them written anew.
_FEW_ROWS = 1024


@dataclass(frozen=True)
class Run:
    """Sorted rows with the arrays a probe needs."""

    id: str
    batch: Batch
    hashes: UInt64s
    keys: tuple[pa.Array, ...]
    useful_until: Int64s
    last_use: int

    @property
    def num_rows(self) -> int:
        return self.batch.num_rows

    @cached_property
    def _prefixes(self) -> npt.NDArray[np.uint8]:
        """Made when the first punctuation asks: without any it is never needed."""
        return prefixes(self.hashes)

    def has(self, hashes: UInt64s) -> npt.NDArray[np.bool_]:
        """Which of these key hashes a row has."""
        return occur_behind(self._prefixes, self.hashes, hashes)


class Side:
    """Stored rows of one input."""

    def __init__(self, name: str, keys: Sequence[str], useful_until: Callable[[Int64s], Int64s]) -> None:
        self.name = name
        self.keys = tuple(keys)
        self._useful_until = useful_until
        self._runs: list[Run] = []
        self._next = 0
        self._horizon = -(2**63)
        self.expired = 0
        self.purged = 0

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def num_rows(self) -> int:
        return sum(run.num_rows for run in self._runs)

    @property
    def num_bytes(self) -> int:
        return sum(run.batch.rows.nbytes + 16 * run.num_rows for run in self._runs)

    def _needed(self, run: Run) -> npt.NDArray[np.bool_]:
        """Rows that may still be in a result; others are only not dropped yet."""
        needed: npt.NDArray[np.bool_] = run.useful_until >= self._horizon
        return needed

    def has(self, hashes: UInt64s) -> npt.NDArray[np.bool_]:
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

    def insert(self, batch: Batch, hashes: UInt64s) -> None:
        """Keep rows that are already in a run's order."""
        if not batch.num_rows:
            return
        self._append(batch, hashes)
        self._merge_small()

    def _append(self, batch: Batch, hashes: UInt64s) -> None:
        self._runs.append(self._run(f"{self.name}{self._next}", batch, hashes))
        self._next += 1

    def _run(self, name: str, batch: Batch, hashes: UInt64s) -> Run:
        useful = self._useful_until(batch.ts)
        keys = tuple(batch.column(key) for key in self.keys)
        return Run(name, batch, hashes, keys, useful, int(useful.max()))

    def _merge_small(self) -> None:
        """Keep few runs by merging the two smallest neighbours; each row is rewritten a logarithmic number of times."""
        while len(self._runs) > 1:
            sizes = [a.num_rows + b.num_rows for a, b in zip(self._runs, self._runs[1:], strict=False)]
            least = min(sizes)
            if least > _FEW_ROWS and len(self._runs) <= MAX_RUNS:
                return
            at = sizes.index(least)
            pair = self._runs[at : at + 2]
            hashes = np.concatenate([run.hashes for run in pair])
            times = np.concatenate([run.batch.ts for run in pair])
            chosen = np.flatnonzero(np.concatenate([run.useful_until for run in pair]) >= self._horizon)
            self.expired += len(hashes) - len(chosen)
            self._replace(at, 2, chosen[sort_run(hashes[chosen], times[chosen])])

    def _replace(self, at: int, count: int, rows: Int64s) -> None:
        """Put one run in the place of some neighbours: of all their rows the chosen ones, which are in a run's order."""
        gone = self._runs[at : at + count]
        del self._runs[at : at + count]
        if len(rows):
            hashes = gone[0].hashes if count == 1 else np.concatenate([run.hashes for run in gone])
            self._append(Batch.concat([run.batch for run in gone]).take(rows), hashes[rows])
            self._runs.insert(at, self._runs.pop())

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
                self.expired += run.num_rows
                self._replace(at, 1, np.empty(0, np.int64))
                continue
            keep = run.useful_until >= horizon
            useful = int(np.count_nonzero(keep))
            # Small runs hold rows of all ages, and are written anew with the next rows anyway.
            if useful * 4 < run.num_rows or (run.num_rows <= _FEW_ROWS and useful * 8 < run.num_rows * 7):
                self.expired += run.num_rows - useful
                self._replace(at, 1, np.flatnonzero(keep))
        return True

    def purge(self, useless: Callable[[Sequence[pa.Array]], npt.NDArray[np.bool_]], among: UInt64s | None = None) -> bool:
        """Drop rows whose key the predicate names; runs that lose rows are written anew.

        Parameters
        ----------
        among
            Hashes of all keys the predicate can name, where they are known: runs without them are not looked at.
        """
        before = self.purged
        for at in reversed(range(len(self._runs))):
            if among is not None and not self._runs[at].has(among).any():
                continue
            gone = useless(self._runs[at].keys)
            count = int(np.count_nonzero(gone))
            if count:
                self.purged += count
                self._replace(at, 1, np.flatnonzero(~gone))
        return self.purged > before

    def snapshot(self) -> State:
        meta: dict[str, Any] = {"next": self._next, "horizon": self._horizon, "expired": self.expired, "purged": self.purged}
        meta["runs"] = [run.id for run in self._runs]
        return State(meta, {run.id: run.batch.stored() for run in self._runs})

    def restore(self, state: State) -> None:
        meta: Mapping[str, Any] = state.meta
        self._next, self._horizon = meta["next"], meta["horizon"]
        self.expired, self.purged = meta["expired"], meta["purged"]
        self._runs = []
        for name in meta["runs"]:
            batch = Batch.restored(state.segments[name])
            hashes = hash_columns([batch.column(key) for key in self.keys], batch.num_rows)
            self._runs.append(self._run(name, batch, hashes))
