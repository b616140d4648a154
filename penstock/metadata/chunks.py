"""Hot and cold pieces of a join's state: what a scope says about memory and disk.

A join that keeps part of its state on disk cuts it into chunks and remembers of each the least and greatest key, a sketch
of its keys and its newest time. A scoped punctuation of the partner tells which keys its next rows can have: chunks that
hold none of them are *cold*, go to disk first and stay there; chunks on disk that may hold one are *hot* and are fetched
before they are asked for. Answers never depend on it: a row outside the announced pattern fetches what it needs.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, chapter 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.hashing import UInt64s, hash_columns
from penstock.model.batch import Int64s
from penstock.model.masks import Mask, comparable
from penstock.model.patterns import Pattern, between
from penstock.model.scalars import plain
from penstock.model.scoped import ScopedPunctuation

#: Bits of a sketch for each different key, and bits set for each: about one false hit in 200.
_BITS_PER_KEY, _PROBES = 16, 3


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A set of key hashes that may claim too much and never too little (a Bloom filter)."""

    bits: Mask

    @classmethod
    def of(cls, hashes: UInt64s) -> Sketch:
        size = 1 << max(int(_BITS_PER_KEY * len(hashes)) - 1, 63).bit_length()
        bits: Mask = np.zeros(size, np.bool_)
        bits[_places(hashes, size)] = True
        return cls(bits)

    def may_hold(self, hashes: UInt64s) -> Mask:
        """Which of the hashes may be in the set."""
        found: Mask = np.ones(len(hashes), np.bool_)
        for bit in _places(hashes, len(self.bits)).T:
            found &= self.bits[bit]
        return found


def _places(hashes: UInt64s, size: int) -> Int64s:
    """Bits of each hash: different parts of it, as it is well mixed."""
    shifts = np.arange(_PROBES, dtype=np.uint64) * np.uint64(20)
    result: Int64s = ((hashes[:, None] >> shifts) & np.uint64(size - 1)).astype(np.int64)
    return result


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is known of a piece of state without reading it.

    Parameters
    ----------
    lo, hi
        Least and greatest key; None when all keys are NULL, which join nothing.
    distinct
        Number of different keys.
    max_ts
        Newest event time: with the window it says when the whole chunk can be deleted.
    """

    id: str
    rows: int
    num_bytes: int
    lo: Any
    hi: Any
    distinct: int
    sketch: Sketch
    max_ts: int
    is_spilled: bool = False

    @property
    def span(self) -> Pattern:
        """The keys between the least and the greatest one."""
        return between(self.lo, self.hi)

    def spilled(self, is_spilled: bool = True) -> Chunk:
        """The same chunk at its other place."""
        return replace(self, is_spilled=is_spilled)


def summarise(name: str, keys: pa.Array, ts: Int64s, num_bytes: int, is_spilled: bool = False) -> Chunk:
    """The summary of a piece of state.

    Examples
    --------
    >>> chunk = summarise("c0", pa.array([100, 2000, 2000]), np.array([5, 9, 7]), 48)
    >>> chunk.lo, chunk.hi, chunk.distinct, chunk.max_ts
    (100, 2000, 2, 9)
    """
    values = pc.unique(comparable(keys).drop_null())
    bounds = pc.min_max(values)
    lo, hi = plain(bounds["min"]), plain(bounds["max"])
    sketch = Sketch.of(hash_columns([values], len(values)))
    return Chunk(name, len(keys), num_bytes, lo, hi, len(values), sketch, int(ts.max(initial=-(2**63))), is_spilled)


def hot_mask(chunks: Sequence[Chunk], scope: ScopedPunctuation | None, key: str) -> Mask:
    """Which chunks the next rows of the partner may need.

    Parameters
    ----------
    scope
        What the partner has announced about its next rows; None or a scope that says nothing: all chunks are hot.
    key
        The partner's join attribute, as the scope names it.

    Examples
    --------
    >>> from penstock.model.punctuation import Punctuation
    >>> chunks = [summarise(str(a), pa.array([a]), np.array([0]), 16) for a in (100, 2000, 2001, 5000)]
    >>> scope = ScopedPunctuation.next_rows(5000, Punctuation.of(("A",), A=between(2000, lo_inclusive=False)))
    >>> hot_mask(chunks, scope, "A").tolist()
    [False, False, True, True]
    """
    if scope is None or scope.says_nothing:
        return np.array([chunk.distinct > 0 for chunk in chunks], np.bool_)
    return np.array([share_in_scope(chunk, scope, key) > 0 for chunk in chunks], np.bool_)


def share_in_scope(chunk: Chunk, scope: ScopedPunctuation, key: str) -> float:
    """Estimated share of a chunk's keys that rows in scope may have; 0 only if none of them can come."""
    if not chunk.distinct:
        return 0.0
    if not scope.is_positive:
        stated = [pattern.pattern(key) for pattern in scope.patterns if pattern.is_exploitable_for([key])]
        return 0.0 if any(chunk.span.issubset(pattern) for pattern in stated) else 1.0
    return min(sum(_share(chunk, pattern) for pattern in scope.alternatives(key)), 1.0)


def _share(chunk: Chunk, pattern: Pattern) -> float:
    if pattern.values:
        listed = [value for value in pattern.values if value is not None and chunk.span.matches(value)]
        if not listed:
            return 0.0
        found = chunk.sketch.may_hold(_hashed(listed, chunk.lo))
        return float(np.count_nonzero(found)) / chunk.distinct
    if not chunk.span.overlaps(pattern):
        return 0.0
    return _overlap(chunk, pattern) if pattern.is_range else 1.0


def _hashed(values: Sequence[Any], example: Any) -> UInt64s:
    """Hashes as the chunk's own keys have them: a number is hashed as a float where the keys are floats."""
    as_float = isinstance(example, float)
    column = pa.array([float(value) for value in values] if as_float else list(values))
    return hash_columns([column], len(values))


def _overlap(chunk: Chunk, pattern: Pattern) -> float:
    """Share of the chunk's span that the range covers, where keys can be measured; never 0."""
    shared = chunk.span & pattern
    numeric = all(isinstance(bound, int | float) for bound in (chunk.lo, chunk.hi))
    if not numeric or not shared.is_range or chunk.hi <= chunk.lo:
        return 1.0 / chunk.distinct if shared.values else 1.0
    return max(float(shared.hi - shared.lo) / float(chunk.hi - chunk.lo), 1.0 / chunk.distinct)


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do with chunks: flush these, in this order; fetch these, in this order; delete these."""

    flush: tuple[str, ...] = ()
    prefetch: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def expired(chunks: Iterable[Chunk], window: int | None, horizon: int) -> tuple[str, ...]:
    """Chunks none of whose rows can find a partner any more: `max_ts + window` lies before the partners' horizon."""
    if window is None:
        return ()
    return tuple(chunk.id for chunk in chunks if chunk.max_ts + window < horizon)


@dataclass(slots=True)
class HotCold:
    """Which chunks of one join input belong in memory, given what the partner has announced.

    Parameters
    ----------
    key
        The partner's join attribute.
    limit_bytes
        Memory for the chunks of this input.
    window
        The input's window; None: none.

    Attributes
    ----------
    violations
        Rows of the partner outside the pattern of a scope that held for them.
    fetches
        Chunks that had to be read while a row waited for them.
    """

    key: str
    limit_bytes: int
    window: int | None = None
    scope: ScopedPunctuation | None = None
    violations: int = 0
    fetches: int = 0
    prefetched: int = 0
    flushed_bytes: int = 0
    _held: dict[str, Chunk] = field(default_factory=dict)

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        return tuple(self._held.values())

    @property
    def memory_bytes(self) -> int:
        return sum(chunk.num_bytes for chunk in self._held.values() if not chunk.is_spilled)

    def add(self, chunk: Chunk) -> None:
        self._held[chunk.id] = chunk

    def drop(self, names: Iterable[str]) -> None:
        for name in names:
            self._held.pop(name, None)

    def announce(self, scope: ScopedPunctuation) -> Moves:
        """A scope of the partner begins (or, saying nothing, ends): cold chunks make room for hot ones on disk."""
        self.scope = None if scope.says_nothing else scope
        return self._settled()

    def advance(self, horizon: int) -> Moves:
        """The partners will send nothing older: chunks that are wholly out of the window go, unread."""
        gone = expired(self._held.values(), self.window, horizon)
        self.drop(gone)
        return Moves(delete=gone)

    def see(self, rows: pa.RecordBatch) -> tuple[str, ...]:
        """Rows of the partner come: the chunks on disk they need now, which then count as being in memory.

        Rows are counted against the scope; those outside its pattern break it, are counted, and are served all the same.
        """
        if self.scope is not None:
            inside = rows.num_rows if self.scope.rows is None else min(self.scope.rows, rows.num_rows)
            if self.scope.is_exact:
                self.violations += inside - int(np.count_nonzero(self.scope.may_match(rows.slice(0, inside))))
            left = self.scope.after(inside)
            self.scope = None if left.rows == 0 else left
        needed = self._needed(rows.column(self.key))
        self.fetches += len(needed)
        self._place(needed, is_spilled=False)
        return needed

    def relieve(self) -> Moves:
        """Too much is in memory: what to flush, cold chunks first."""
        return Moves(flush=self._flush(self.memory_bytes - self.limit_bytes, keep=()))

    def _needed(self, keys: pa.Array) -> tuple[str, ...]:
        values = pc.unique(comparable(keys).drop_null())
        if not len(values):
            return ()
        hashes = hash_columns([values], len(values))
        spilled = (chunk for chunk in self._held.values() if chunk.is_spilled and chunk.distinct)
        # The bounds rule out most of what the sketch would claim by mistake.
        return tuple(chunk.id for chunk in spilled if (chunk.span.matches_array(values) & chunk.sketch.may_hold(hashes)).any())

    def _settled(self) -> Moves:
        if self.scope is None:
            return Moves()
        wanted = self._prefetchable(self.scope)
        missing = sum(chunk.num_bytes for chunk in wanted) + self.memory_bytes - self.limit_bytes
        flushed = self._flush(missing, keep=(), only_cold=True)
        fetched, room = [], self.limit_bytes - self.memory_bytes
        for chunk in wanted:
            if chunk.num_bytes <= room:
                room -= chunk.num_bytes
                fetched.append(chunk.id)
        self.prefetched += len(fetched)
        self._place(fetched, is_spilled=False)
        return Moves(flush=flushed, prefetch=tuple(fetched))

    def _prefetchable(self, scope: ScopedPunctuation) -> list[Chunk]:
        """Hot chunks on disk, most selective first: those of which most will be used per byte read."""
        shares = {chunk.id: share_in_scope(chunk, scope, self.key) for chunk in self._held.values() if chunk.is_spilled}
        hot = [self._held[name] for name, share in shares.items() if share > 0]
        return sorted(hot, key=lambda chunk: (-shares[chunk.id], chunk.num_bytes, chunk.id))

    def _flush(self, excess: int, keep: Iterable[str], only_cold: bool = False) -> tuple[str, ...]:
        """Chunks that free so many bytes: cold ones first, large before small, then the hot ones least likely to be used."""
        if excess <= 0:
            return ()
        inside = [chunk for chunk in self._held.values() if not chunk.is_spilled and chunk.id not in set(keep)]
        shares = {chunk.id: self._share(chunk) for chunk in inside}
        candidates = [chunk for chunk in inside if not only_cold or shares[chunk.id] == 0]
        chosen: list[str] = []
        for chunk in sorted(candidates, key=lambda chunk: (shares[chunk.id], -chunk.num_bytes, chunk.id)):
            if excess <= 0:
                break
            chosen.append(chunk.id)
            excess -= chunk.num_bytes
            self.flushed_bytes += chunk.num_bytes
        self._place(chosen, is_spilled=True)
        return tuple(chosen)

    def _share(self, chunk: Chunk) -> float:
        return 1.0 if self.scope is None else share_in_scope(chunk, self.scope, self.key)

    def _place(self, names: Iterable[str], is_spilled: bool) -> None:
        for name in names:
            self._held[name] = self._held[name].spilled(is_spilled)
