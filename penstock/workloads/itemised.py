"""Punctuated streams item by item in one global order: the input of the published experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.workloads.arrivals import MICROS
from penstock.workloads.coins import Flags, Floats, happens, integers, uniforms
from penstock.workloads.segments import ArrivalPattern, Dice

Kinds = npt.NDArray[np.uint8]

#: Kinds of item.
TUPLE, PUNCTUATION = 0, 1


@dataclass(frozen=True, slots=True)
class Items:
    """Tuples and punctuations of several streams, by time; ties by stream, then by position.

    Parameters
    ----------
    kinds
        `TUPLE` or `PUNCTUATION`.
    streams
        Number of the stream of each item, from 0.
    keys
        Value of a tuple, or the value a punctuation closes.
    times_us
        Microseconds since the start, never decreasing.
    """

    kinds: Kinds
    streams: Int64s
    keys: Int64s
    times_us: Int64s

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def tuples(self) -> int:
        """Number of tuples."""
        return int((self.kinds == TUPLE).sum())

    @property
    def punctuations(self) -> int:
        """Number of punctuations."""
        return len(self) - self.tuples

    def first(self, count: int) -> Items:
        """The first items."""
        return Items(self.kinds[:count], self.streams[:count], self.keys[:count], self.times_us[:count])

    def of_stream(self, stream: int) -> Items:
        """The items of one stream."""
        return self.take(self.streams == stream)

    def without_punctuations(self) -> Items:
        """The tuples alone."""
        return self.take(self.kinds == TUPLE)

    def take(self, picked: Flags | Int64s) -> Items:
        """The items that a mask or their numbers pick."""
        return Items(self.kinds[picked], self.streams[picked], self.keys[picked], self.times_us[picked])


@dataclass(frozen=True, slots=True)
class PunctuatedStream:
    """One stream of an experiment.

    Parameters
    ----------
    pattern
        Its values and punctuations, as `ArrivalPattern` or in its notation.
    gap_ms
        Mean time between tuples; gaps are exponential.
    announces
        Whether it has punctuations. Without them the tuples are the same.
    useless_fraction
        Share of punctuations that speak of a value no tuple has, instead of the value that is finished.
    stale_fraction, stale_distance
        Share of tuples that have a value finished long ago instead, `stale_distance` to twice as many values before their
        own. Only for streams without punctuations; such tuples can be dropped once a partner has closed the value.
    """

    pattern: ArrivalPattern | str
    gap_ms: float = 2.0
    announces: bool = True
    useless_fraction: float = 0.0
    stale_fraction: float = 0.0
    stale_distance: int = 0

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise InvalidOption(f"a mean gap of {self.gap_ms} ms is no gap; it must be greater than 0", "gap_ms")
        for name in ("useless_fraction", "stale_fraction"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidOption(f"{getattr(self, name)} is no share; it must be between 0 and 1", name)
        if self.stale_fraction and (self.announces or self.stale_distance < 1):
            raise InvalidOption("stale values need a stream without punctuations, and a distance", "stale_fraction")

    @property
    def shape(self) -> ArrivalPattern:
        """The pattern, read."""
        return ArrivalPattern.parse(self.pattern) if isinstance(self.pattern, str) else self.pattern


def make_items(streams: Sequence[PunctuatedStream], seconds: float, seed: int = 1, lockstep: bool = False) -> Items:
    """Play streams for a while; equal arguments give equal items, and a longer time only adds items.

    Parameters
    ----------
    lockstep
        Whether all streams end their segments at the same time, and have the same order where it is random. A segment then
        takes the mean of the times the streams would need for it.

    Notes
    -----
    A punctuation has the time of the last tuple before it. It takes no time of its own, so the rate of tuples does not
    depend on the number of punctuations.

    Examples
    --------
    >>> items = make_items([PunctuatedStream("unique"), PunctuatedStream("unique")], seconds=0.01)
    >>> items.of_stream(0).keys.tolist()[:6], items.of_stream(0).kinds.tolist()[:6]
    ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    """
    if not streams or seconds <= 0:
        raise InvalidOption("items need at least one stream and a time greater than 0", "items")
    drafts = [_draft(stream, Dice(seed, f"items {at}", "items" if lockstep else ""), seconds) for at, stream in enumerate(streams)]
    if lockstep:
        drafts = _aligned(drafts)
    parts = [_items(draft, at) for at, draft in enumerate(drafts)]
    merged = _merged(parts)
    return merged.first(int(np.searchsorted(merged.times_us, round(seconds * MICROS), side="right")))


@dataclass(frozen=True, slots=True)
class _Draft:
    """Tuples of a stream: whole segments, more than asked for."""

    stream: PunctuatedStream
    dice: Dice
    lengths: Int64s
    gaps_us: Floats

    @property
    def segment(self) -> Int64s:
        """Segment of each tuple."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int64), self.lengths)


def _draft(stream: PunctuatedStream, dice: Dice, seconds: float) -> _Draft:
    shape = stream.shape
    expected = seconds * 1e3 / stream.gap_ms
    # Far more than chance can ask for; what is too much is cut off by time.
    wanted = 1.1 * expected + 20.0 * np.sqrt(expected) + 200.0
    lengths = shape.lengths(dice, np.arange(int(wanted / shape.mean_tuples) + 2, dtype=np.int64))
    coins = uniforms(dice.seed, dice.purpose("gap"), np.arange(int(lengths.sum()), dtype=np.int64))
    return _Draft(stream, dice, lengths, -np.log1p(-coins) * (stream.gap_ms * 1e3))


def _aligned(drafts: list[_Draft]) -> list[_Draft]:
    """Stretch the gaps of each segment so that it takes the same time in every stream."""
    count = min(len(draft.lengths) for draft in drafts)
    taken = [np.bincount(draft.segment, draft.gaps_us)[:count] for draft in drafts]
    common = np.mean(taken, axis=0)
    return [_stretched(draft, common / own) for draft, own in zip(drafts, taken, strict=True)]


def _stretched(draft: _Draft, factors: Floats) -> _Draft:
    lengths = draft.lengths[: len(factors)]
    return replace(draft, lengths=lengths, gaps_us=draft.gaps_us[: int(lengths.sum())] * np.repeat(factors, lengths))


def _items(draft: _Draft, number: int) -> Items:
    """The tuples, and behind each segment its punctuation."""
    stream, segment = draft.stream, draft.segment
    times = np.rint(np.cumsum(draft.gaps_us)).astype(np.int64)
    keys = _with_stale(draft, stream.shape.keys(draft.dice, np.arange(len(segment), dtype=np.int64), segment))
    tuples = Items(np.full(len(keys), TUPLE, np.uint8), np.full(len(keys), number, np.int64), keys, times)
    if not (stream.announces and stream.shape.announces):
        return tuples
    ends = np.cumsum(draft.lengths)
    closed = stream.shape.closed(draft.dice, np.arange(len(ends), dtype=np.int64), stream.useless_fraction)
    return Items(
        np.insert(tuples.kinds, ends, PUNCTUATION),
        np.insert(tuples.streams, ends, number),
        np.insert(keys, ends, closed),
        np.insert(times, ends, times[ends - 1]),
    )


def _with_stale(draft: _Draft, keys: Int64s) -> Int64s:
    distance = draft.stream.stale_distance
    if not draft.stream.stale_fraction:
        return keys
    seed, index = draft.dice.seed, np.arange(len(keys), dtype=np.int64)
    is_stale = happens(seed, draft.dice.purpose("stale"), index, draft.stream.stale_fraction)
    # In the beginning no value is that old yet.
    is_stale &= keys >= 2 * distance
    return np.where(is_stale, keys - distance - integers(seed, draft.dice.purpose("age"), index, distance), keys)


def _merged(parts: list[Items]) -> Items:
    kinds, streams, keys, times = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("kinds", "streams", "keys", "times_us")
    )
    # The parts stand in order of stream and position, and the sort keeps that order where times are equal.
    return Items(kinds, streams, keys, times).take(np.argsort(times, kind="stable"))
