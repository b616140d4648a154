"""Light-weight statistics of the inputs of a join: how fast rows come, and when values are opened and closed.

Memory of a join that forgets closed values depends on four things: rate and distribution of rows, rate and distribution
of punctuations. Rates are counters. The distributions are learnt from a sample of values, chosen by the hash of the key,
so that all inputs of all shards look at the same values and no coin is needed.

Nothing here influences an answer, so it is not part of the state: a restored shard learns anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.metadata.batches import merged
from penstock.metadata.closed_set import ClosedSet
from penstock.metadata.residence import mean_residences
from penstock.model.batch import Batch, Int64s
from penstock.model.masks import booleans
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Field
from penstock.model.value_sets import one_of

#: Values whose life is recorded at a time, and finished lives remembered for each input.
SAMPLED_VALUES = 1024

_NEVER, _OPEN = -(2**63), -1
#: Columns of a value's record at one input.
_FIRST, _LAST, _COUNT, _CLOSED, _DELAY = range(5)
#: Spreads hashes again: their own bits already chose the shard.
_SPREAD = np.uint64(0x9FB21C651E98DF25)


class Ewma:
    """A mean that forgets: what is `half_life` updates old counts half.

    Examples
    --------
    >>> rate = Ewma(half_life=1)
    >>> for seen in (8.0, 8.0, 2.0):
    ...     rate.update(seen)
    >>> round(rate.value, 2)
    4.57
    """

    __slots__ = ("_decay", "_total", "_weight")

    def __init__(self, half_life: float = 30.0) -> None:
        self._decay = 0.5 ** (1.0 / half_life)
        self._total = self._weight = 0.0

    def update(self, value: float) -> None:
        self._total = self._total * self._decay + value
        self._weight = self._weight * self._decay + 1.0

    @property
    def value(self) -> float:
        """The mean; 0 before the first update."""
        return self._total / self._weight if self._weight else 0.0


@dataclass(frozen=True, slots=True)
class WatchedInput:
    """One input of a join: its key columns, and its window (None: without end)."""

    keys: tuple[str, ...]
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Lives:
    """Finished lives of sampled values in one input, one entry for each value.

    Parameters
    ----------
    lifespans
        From the first row to the end of the value in this input.
    delays
        From the first row to the moment when all other inputs had closed the value.
    rows
        Rows of the value in this input.
    """

    lifespans: Int64s
    delays: Int64s
    rows: Int64s

    def total_stay(self, window: int | None) -> float:
        """How long all rows of these values stay together: each first row as it was, the others evenly over the lifespan."""
        width, delays = inf if window is None else float(window), self.delays.astype(np.float64)
        others = mean_residences(width, self.lifespans.astype(np.float64), delays) * (self.rows - 1)
        return float((np.clip(delays, 0.0, width) + others).sum())


class JoinWatch:
    """Records lives of values at the inputs of one join in one shard.

    Values are recorded from the first punctuation on: without punctuations there is nothing to learn and nothing to pay.

    Parameters
    ----------
    capacity
        Values recorded at a time. When more are open, every other value is dropped from the sample.

    Examples
    --------
    >>> from penstock.model.value_sets import constant
    >>> watch = JoinWatch([WatchedInput(("a",)), WatchedInput(("b",))])
    >>> def rows(name, *keys_and_times):
    ...     keys, times = zip(*keys_and_times)
    ...     batch = pa.RecordBatch.from_pydict({name: list(keys)})
    ...     return Batch(batch, np.array(times), np.arange(len(times)))
    >>> watch.hear(0, Punctuation.of(("a",), a=constant(0)))
    >>> watch.see(0, rows("a", (7, 100)))
    >>> watch.see(1, rows("b", (7, 110), (8, 160)))
    >>> watch.hear(0, Punctuation.of(("a",), a=constant(7)))
    >>> watch.hear(1, Punctuation.of(("b",), b=constant(7)))
    >>> watch.lives(0).delays.tolist(), watch.lives(1).delays.tolist()
    ([35], [50])
    """

    def __init__(self, inputs: Sequence[WatchedInput], capacity: int = SAMPLED_VALUES) -> None:
        self.inputs = tuple(inputs)
        self.capacity = capacity
        ports = len(self.inputs)
        self.rows_seen, self.closings = [0] * ports, [0] * ports
        self.clocks = [_NEVER] * ports
        self._latest, self._began = 0, _NEVER
        self._pending: list[list[Punctuation]] = [[] for _ in range(ports)]
        self._limit = np.uint64(2**64 - 1)
        self._hashes: UInt64s = np.empty(0, np.uint64)
        self._keys: pa.RecordBatch | None = None
        self._times: npt.NDArray[np.int64] = np.empty((0, ports, 5), np.int64)
        self._earlier: list[ClosedSet] = []
        self._finished: list[list[Int64s]] = [[] for _ in range(ports)]
        self._is_learning = self._is_settled = False

    # -- elements -----------------------------------------------------------------------------------------------------

    def see(self, port: int, batch: Batch) -> None:
        """Rows come to an input."""
        if not batch.num_rows:
            return
        self.rows_seen[port] += batch.num_rows
        if self._is_learning:
            self._settle()
            self._record(port, batch)
        self._latest, self._is_settled = port, False
        self._began = self.clocks[port] if self.clocks[port] != _NEVER else int(batch.ts.min())
        self.clocks[port] = max(self.clocks[port], int(batch.ts.max()))

    def hear(self, port: int, mark: Punctuation) -> None:
        """A punctuation comes to an input; many between two batches are looked at together."""
        self.closings[port] += 1
        if mark.is_exploitable_for(self.inputs[port].keys) and not mark.is_end_of_stream:
            self._is_learning, self._is_settled = True, False
            self._pending[port].append(mark)

    @property
    def now(self) -> int:
        """Newest event time of all inputs."""
        return max(self.clocks)

    def _announced(self, port: int) -> int:
        """When punctuations heard since the last rows were made: they come behind the rows of a batch, but belong among them."""
        return (self._began + self.clocks[port]) // 2 if port == self._latest else self.now

    # -- learning -----------------------------------------------------------------------------------------------------

    def _record(self, port: int, batch: Batch) -> None:
        columns = [batch.column(key) for key in self.inputs[port].keys]
        hashes = hash_columns(columns, batch.num_rows)
        chosen = np.flatnonzero(hashes * _SPREAD <= self._limit)
        for column in columns:
            if column.null_count:
                chosen = chosen[booleans(column.is_valid())[chosen]]
        if not len(chosen):
            return
        order = chosen[np.argsort(hashes[chosen], kind="stable")]
        starts = np.flatnonzero(np.concatenate(([True], hashes[order][1:] != hashes[order][:-1])))
        values, ts = hashes[order][starts], batch.ts[order]
        self._open(values, [column.take(pa.array(order[starts])) for column in columns])
        at = np.searchsorted(self._hashes, values)
        life = self._times[at, port]
        is_first = life[:, _COUNT] == 0
        life[:, _FIRST] = np.where(
            is_first, np.minimum.reduceat(ts, starts), np.minimum(life[:, _FIRST], np.minimum.reduceat(ts, starts))
        )
        life[:, _LAST] = np.maximum(life[:, _LAST], np.maximum.reduceat(ts, starts))
        life[:, _COUNT] += np.diff(np.append(starts, len(order)))
        # A value that the others closed before its first row came is never stored.
        closed = self._closed_by_others(at, port)
        life[:, _DELAY] = np.where(is_first & (closed != _NEVER), 0, life[:, _DELAY])
        self._times[at, port] = life
        self._thin_out()

    def _open(self, values: UInt64s, columns: list[pa.Array]) -> None:
        """Records for values that have none."""
        if self._keys is None:
            names = [f"k{number}" for number in range(len(columns))]
            self._keys = pa.RecordBatch.from_arrays([column.slice(0, 0) for column in columns], names=names)
            fields = [Field(name, column.type) for name, column in zip(names, columns, strict=True)]
            self._earlier = [ClosedSet(fields) for _ in self.inputs]
            for port, mark in self._heard():
                self._earlier[port].add(mark)
        at = np.searchsorted(self._hashes, values)
        known = np.zeros(len(values), np.bool_)
        inside = at < len(self._hashes)
        known[inside] = self._hashes[at[inside]] == values[inside]
        fresh = np.flatnonzero(~known)
        if not len(fresh):
            return
        keys = [column.take(pa.array(fresh)).cast(kind.type) for column, kind in zip(columns, self._keys.schema, strict=True)]
        added = np.full((len(fresh), len(self.inputs), 5), _NEVER, np.int64)
        added[:, :, _COUNT], added[:, :, _DELAY] = 0, _OPEN
        for port, closed in enumerate(self._earlier):
            gone = closed.contains_array(keys if len(keys) > 1 else keys[0])
            added[gone, port, _CLOSED] = self.now
        self._merge(values[fresh], pa.RecordBatch.from_arrays(keys, schema=self._keys.schema), added)

    def _merge(self, hashes: UInt64s, keys: pa.RecordBatch, times: npt.NDArray[np.int64]) -> None:
        assert self._keys is not None
        joined = np.concatenate((self._hashes, hashes))
        self._keep(
            np.argsort(joined, kind="stable"), joined, pa.concat_batches([self._keys, keys]), np.concatenate((self._times, times))
        )

    def _keep(self, chosen: Int64s, hashes: UInt64s, keys: pa.RecordBatch, times: npt.NDArray[np.int64]) -> None:
        self._hashes, self._keys, self._times = hashes[chosen], keys.take(pa.array(chosen)), times[chosen]

    def _thin_out(self) -> None:
        """Halve the sample until it fits; what remains is what a smaller sample would have held from the start."""
        while len(self._hashes) > self.capacity:
            self._limit >>= np.uint64(1)
            assert self._keys is not None
            self._keep(np.flatnonzero(self._hashes * _SPREAD <= self._limit), self._hashes, self._keys, self._times)

    def _closed_by_others(self, at: Int64s, port: int) -> Int64s:
        """When the last of the other inputs closed each value; `_NEVER` if one has not."""
        closed = np.delete(self._times[at, :, _CLOSED], port, axis=1)
        result: Int64s = np.where((closed == _NEVER).any(axis=1), _NEVER, closed.max(axis=1, initial=_NEVER))
        return result

    # -- closings -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Look at the punctuations since the last rows, and retire values whose life is over."""
        if self._keys is None or self._is_settled:
            return
        self._is_settled = True
        for port, mark in self._heard():
            gone = mark.matches_batch(self._keys) & (self._times[:, port, _CLOSED] == _NEVER)
            self._times[gone, port, _CLOSED] = self._announced(port)
            self._earlier[port].add(mark)
        self._decide()
        self._retire()

    def _renamed(self, port: int, mark: Punctuation) -> Punctuation:
        names = {key: f"k{number}" for number, key in enumerate(self.inputs[port].keys)}
        known = mark.project(self.inputs[port].keys)
        assert known is not None
        return known.rename(names)

    def _heard(self) -> Iterator[tuple[int, Punctuation]]:
        """Punctuations since the last time, about keys `k0` … and, where they list values, about sampled ones only.

        They are also remembered, for sampled values that come later.
        """
        for port, marks in enumerate(self._pending):
            if len(self._earlier[port]) > 4 * self.capacity:
                self._earlier[port] = ClosedSet(self._earlier[port].fields)  # old values do not come any more
            for mark in merged(marks):
                sampled = self._sampled_part(self._renamed(port, mark))
                if sampled is not None:
                    yield port, sampled
            marks.clear()

    def _sampled_part(self, mark: Punctuation) -> Punctuation | None:
        restricted = mark.restricted
        if len(restricted) != 1 or len(mark.names) != 1:
            return mark
        ((name, pattern),) = restricted.items()
        if not pattern.values:
            return mark
        assert self._keys is not None
        kind = self._keys.schema.field(name).type
        values = [value for value in pattern.values if value is not None]
        column = pa.array(values, pa.int64() if pa.types.is_timestamp(kind) else kind)
        sampled = np.flatnonzero(hash_columns([column], len(values)) * _SPREAD <= self._limit)
        return mark.narrowed(name, one_of(values[at] for at in sampled.tolist())) if len(sampled) else None

    def _decide(self) -> None:
        """Delays of values that the others have closed, and of values whose rows have left by their window."""
        every = np.arange(len(self._hashes))
        for port, watched in enumerate(self.inputs):
            life = self._times[:, port]
            is_open = (life[:, _COUNT] > 0) & (life[:, _DELAY] == _OPEN)
            closed = self._closed_by_others(every, port)
            known = is_open & (closed != _NEVER)
            life[known, _DELAY] = np.maximum(closed[known] - life[known, _FIRST], 0)
            if watched.window is not None:
                past = is_open & ~known & (life[:, _LAST] < self.now - watched.window)
                life[past, _DELAY] = life[past, _LAST] - life[past, _FIRST] + watched.window

    def _retire(self) -> None:
        """A value is over when every input has closed it, or when its rows have left everywhere and none came since."""
        count, delay = self._times[:, :, _COUNT], self._times[:, :, _DELAY]
        decided = ((count == 0) | (delay != _OPEN)).all(axis=1) & (count > 0).any(axis=1)
        windows = [watched.window for watched in self.inputs if watched.window is not None]
        closed = (self._times[:, :, _CLOSED] != _NEVER).all(axis=1)
        newest = self._times[:, :, _LAST].max(axis=1, initial=_NEVER)
        idle = newest < self.now - max(windows, default=0) if windows else np.zeros(len(closed), np.bool_)
        over = decided & (closed | idle)
        # A value closed everywhere that never came teaches nothing.
        gone = over | (closed & (count == 0).all(axis=1))
        if not gone.any():
            return
        for port in range(len(self.inputs)):
            mine = over & (count[:, port] > 0)
            self._finish(port, self._times[mine, port])
        assert self._keys is not None
        self._keep(np.flatnonzero(~gone), self._hashes, self._keys, self._times)

    def _finish(self, port: int, lives: Int64s) -> None:
        if len(lives):
            recent = [*self._finished[port], lives]
            joined = np.concatenate(recent)[-self.capacity :]
            self._finished[port] = [joined]

    # -- results ------------------------------------------------------------------------------------------------------

    def lives(self, port: int) -> Lives:
        """The most recent finished lives of an input."""
        self._settle()
        found = self._finished[port]
        life = found[0] if found else np.empty((0, 5), np.int64)
        count = life[:, _COUNT]
        span = life[:, _LAST] - life[:, _FIRST]
        # Rows come evenly: the value ends one step behind its last row, not later than it was closed.
        even = np.where(count > 1, span + span // np.maximum(count - 1, 1), 0)
        told = np.where(life[:, _CLOSED] == _NEVER, even, life[:, _CLOSED] - life[:, _FIRST])
        return Lives(np.minimum(even, np.maximum(told, span)), life[:, _DELAY], count)

    def open_rows(self, port: int) -> tuple[int, int]:
        """Rows of sampled values whose fate is open, and those of them that are older than any value that was closed."""
        life = self._times[:, port]
        is_open = (life[:, _COUNT] > 0) & (life[:, _DELAY] == _OPEN)
        longest = int(self.lives(port).delays.max(initial=-1))
        overdue = is_open & (life[:, _FIRST] < self.now - longest)
        return int(life[is_open, _COUNT].sum()), int(life[overdue, _COUNT].sum())

    def counters(self) -> dict[str, int]:
        """Levels and running totals for reports; all of them may be added up over shards.

        `stay.i` over `stay_rows.i` is the mean time a row of input i stays in state, by the lives of sampled values.
        """
        found = {"shards": 1, "open_values": len(self._hashes)}
        for port, watched in enumerate(self.inputs):
            lives = self.lives(port)
            waiting, overdue = self.open_rows(port)
            found |= {
                f"rows.{port}": self.rows_seen[port],
                f"clock.{port}": self.clocks[port] if self.clocks[port] != _NEVER else 0,
                f"closings.{port}": self.closings[port],
                f"stay.{port}": round(lives.total_stay(watched.window)),
                f"stay_rows.{port}": int(lives.rows.sum()),
                f"open_rows.{port}": waiting,
                f"overdue_rows.{port}": overdue,
            }
        return found

    @property
    def open_values(self) -> int:
        """Values recorded at present."""
        return len(self._hashes)
