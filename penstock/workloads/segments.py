"""Punctuated segments: which values a stream's tuples have between two punctuations, and which value is closed then."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.workloads.coins import Flags, Floats, happens, hashes, integers, uniforms

#: Segments whose values change places when the order is random; also the segments of one block of a feed.
BLOCK_SEGMENTS = 50

#: Values beyond the closing one that the other tuples of a segment may have.
LOOK_AHEAD = 10

#: Distance of a value that no tuple has from the value that was to be closed.
USELESS = 1 << 40

_NOTATION = re.compile(r"unique|uniform-(\d+)|cluster-(asc|desc|random)-(\d+)|punct-(asc|desc|random)-(\d+)-(\d+)")


class Order(StrEnum):
    """Order in which values are closed."""

    ASC = "asc"
    DESC = "desc"
    #: Ascending blocks of 50 values, in random order inside a block.
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Dice:
    """Names of the coins of a stream: equal names give equal streams.

    Parameters
    ----------
    stream
        Name of the stream.
    order
        Name of a random order of values, for streams that share it; the stream's own if empty.
    """

    seed: int
    stream: str
    order: str = ""

    def purpose(self, what: str) -> str:
        return f"{self.stream} {what}"


@dataclass(frozen=True, slots=True)
class ArrivalPattern:
    """How the values of a stream follow one another and when they are closed.

    Parameters
    ----------
    order
        Order in which values are closed.
    mean_tuples
        Mean number of tuples between two punctuations, Poisson distributed, at least 1.
    match_percent
        Mean share of the tuples of a segment that have the value closed at its end, Poisson distributed; 100 is exact. The
        others have one of the next ten values.
    is_exact
        Whether every segment has exactly `mean_tuples` tuples.
    uniform_keys
        If not 0, values are uniform over so many and nothing is ever closed.

    References
    ----------
    [ding2004] Ding, Rundensteiner. Evaluating Window Joins over Punctuated Streams. CIKM 2004, §5.1 and §6.1.

    Examples
    --------
    >>> ArrivalPattern.parse("punct-asc-100-40").match_percent
    40
    >>> [ArrivalPattern.parse(text).mean_tuples for text in ("unique", "cluster-random-20")]
    [1, 20]
    """

    order: Order = Order.ASC
    mean_tuples: int = 40
    match_percent: int = 40
    is_exact: bool = False
    uniform_keys: int = 0

    def __post_init__(self) -> None:
        if self.mean_tuples < 1:
            raise InvalidOption(f"a segment of {self.mean_tuples} tuples is empty; it must have at least 1", "pattern")
        if not 1 <= self.match_percent <= 100:
            raise InvalidOption(f"{self.match_percent} percent cannot match; the share is between 1 and 100", "pattern")

    @classmethod
    def parse(cls, text: str) -> ArrivalPattern:
        """Read `unique`, `cluster-[order]-[size]`, `punct-[order]-[size]-[match percentage]` or `uniform-[keys]`."""
        found = _NOTATION.fullmatch(text.strip().lower())
        if found is None:
            raise InvalidOption(
                f"'{text}' is no arrival pattern; write unique, cluster-asc-20, punct-random-100-40 (order asc, desc or "
                f"random, tuples per punctuation, percentage that match it) or uniform-15000 (no punctuations)",
                "pattern",
            )
        keys, cluster_order, cluster_size, order, size, match = found.groups()
        if keys:
            return cls(uniform_keys=max(int(keys), 1))
        if cluster_order:
            return cls(Order(cluster_order), int(cluster_size), 100)
        if order:
            return cls(Order(order), int(size), int(match))
        return cls(Order.ASC, 1, 100, is_exact=True)

    @property
    def announces(self) -> bool:
        """Whether values are ever closed."""
        return not self.uniform_keys

    def lengths(self, dice: Dice, segment: Int64s) -> Int64s:
        """Tuples of each segment, drawn independently."""
        if self.is_exact:
            return np.full(len(segment), self.mean_tuples, np.int64)
        return np.maximum(poissons(dice.seed, dice.purpose("length"), segment, float(self.mean_tuples)), 1)

    def values(self, dice: Dice, segment: Int64s) -> Int64s:
        """The value closed at the end of each segment."""
        if self.order is Order.ASC:
            return segment
        if self.order is Order.DESC:
            return -segment
        blocks, row = np.unique(segment // BLOCK_SEGMENTS, return_inverse=True)
        inside = blocks[:, np.newaxis] * BLOCK_SEGMENTS + np.arange(BLOCK_SEGMENTS, dtype=np.int64)
        coins = hashes(dice.seed, f"{dice.order or dice.stream} order", inside.ravel()).reshape(inside.shape)
        order = np.argsort(coins, axis=1, kind="stable")
        result: Int64s = blocks[row] * BLOCK_SEGMENTS + order[row, segment % BLOCK_SEGMENTS]
        return result

    def keys(self, dice: Dice, index: Int64s, segment: Int64s) -> Int64s:
        """Value of each tuple.

        Parameters
        ----------
        index
            Number of each tuple in its stream, source of its coins.
        segment
            Segment of each tuple, ascending and with all tuples of every segment.
        """
        if self.uniform_keys:
            return integers(dice.seed, dice.purpose("key"), index, self.uniform_keys)
        ahead = 1 + integers(dice.seed, dice.purpose("ahead"), index, LOOK_AHEAD)
        ahead[self._matching(dice, index, segment)] = 0
        return self.values(dice, segment + ahead)

    def _matching(self, dice: Dice, index: Int64s, segment: Int64s) -> Flags:
        """Which tuples have the value of their segment: the given share of each segment, at random places."""
        if self.match_percent == 100:
            return np.ones(len(index), np.bool_)
        different, starts, lengths = np.unique(segment, return_index=True, return_counts=True)
        percent = poissons(dice.seed, dice.purpose("match"), different, float(self.match_percent))
        matches = np.rint(np.minimum(percent, 100) / 100.0 * lengths).astype(np.int64)
        order = np.lexsort((hashes(dice.seed, dice.purpose("place"), index), segment))
        rank = np.arange(len(index)) - np.repeat(starts, lengths)
        flags = np.empty(len(index), np.bool_)
        flags[order] = rank < np.repeat(matches, lengths)
        return flags

    def closed(self, dice: Dice, segment: Int64s, useless_fraction: float) -> Int64s:
        """The value each punctuation speaks of: a share of them of values no tuple has."""
        values = self.values(dice, segment)
        return np.where(happens(dice.seed, dice.purpose("useless"), segment, useless_fraction), values + USELESS, values)


@cache
def _poisson_steps(mean: float) -> Floats:
    """Cumulative probabilities of 0, 1, 2, … up to where nothing is left."""
    counts = range(int(mean + 12.0 * math.sqrt(mean)) + 24)
    steps = np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in counts])
    steps.setflags(write=False)
    return steps


def poissons(seed: int, purpose: str, index: Int64s, mean: float) -> Int64s:
    """Poisson distributed numbers by index, from the inverse of the distribution.

    Examples
    --------
    >>> numbers = poissons(1, "length", np.arange(10_000), 4.0)
    >>> float(numbers.mean().round(1)), float(numbers.var().round(1))
    (4.0, 4.0)
    """
    return np.searchsorted(_poisson_steps(mean), uniforms(seed, purpose, index), side="right")
