"""Streams that close their values in a published arrival pattern, as feeds that can be replayed by offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import Flags, integers, uniforms
from penstock.workloads.contracts import Marks, Options
from penstock.workloads.segments import BLOCK_SEGMENTS, USELESS, ArrivalPattern, Dice, Order

_STREAMS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Punctuated(ColumnarWorkload):
    """Streams `a`, `b`, `c` and `d`, made to be joined on `key`; columns id, key, value, ts.

    Tuples come in segments; with `marks` the last row of a segment is a punctuation that closes the segment's value. A stream
    has its own options in its declaration, so patterns and rates may differ between streams. Every source partition
    announces every value, and is grammatical by itself.

    Parameters
    ----------
    pattern
        `unique`, `cluster-[order]-[size]`, `punct-[order]-[size]-[match percentage]`, or `uniform-[keys]`, which closes
        nothing; see `ArrivalPattern`.
    lockstep
        Whether the streams end their segments together: they share arrival times, lengths of segments and random orders.
    useless
        Share of punctuations that speak of values no tuple has.

    Notes
    -----
    Any row can be made alone, so lengths are not drawn one after the other: a block of 50 segments has exactly the expected
    number of tuples, one in each segment and the others spread at random. That is the Poisson law under the condition that
    every block is met exactly; streams therefore drift apart by less than a block. The experiments, which need the drift,
    use `make_items`.

    Examples
    --------
    >>> rows = Punctuated("unique").generate("a", 0, 1, 0, 3, Options(marks=Marks.CONSTANT))
    >>> rows.column("key").to_pylist(), rows.column("mark").to_pylist()
    ([0, None, 1], [None, '{"key": 0}', None])
    """

    name: ClassVar[str] = "punctuated"
    default_rate: ClassVar[float] = 500.0

    pattern: str = "punct-asc-40-40"
    lockstep: bool = False
    useless: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.useless <= 1.0:
            raise InvalidOption(f"{self.useless} is no share of punctuations; it must be between 0 and 1", "useless")
        ArrivalPattern.parse(self.pattern)

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        has_marks = ArrivalPattern.parse(self.pattern).announces
        return {
            name: StreamShape(_columns(name), "key", "ts", clock=self.name if self.lockstep else name, has_marks=has_marks)
            for name in _STREAMS
        }

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        return {
            "id": index,
            "key": self._plan(stream, options).keys(index),
            "value": uniforms(options.seed, f"{stream} value", index),
        }

    def _plan(self, stream: str, options: Options) -> _Blocks:
        # Lengths and orders that streams share are drawn in the name of the workload.
        shared = self.name if self.lockstep else stream
        return _Blocks(ArrivalPattern.parse(self.pattern), Dice(options.seed, stream, shared))

    def mark_flags(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> Flags:
        pattern = ArrivalPattern.parse(self.pattern)
        if pattern.mean_tuples + 1 < 2 * partitions:
            raise InvalidOption(
                f"{partitions} source partitions announcing every value leave no room for rows when a value closes every "
                f"{pattern.mean_tuples} rows; use {2 * partitions - 1} or more, or fewer partitions",
                "pattern",
            )
        first, last = self._ended(stream, offsets, partitions, options)
        if options.marks is Marks.RANGE:
            return last // BLOCK_SEGMENTS > first // BLOCK_SEGMENTS
        return last > first

    def _ended(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> tuple[Int64s, Int64s]:
        """Segments that end with the rows of these offsets: from the first on, without the last."""
        plan = self._plan(stream, options)
        return plan.segments(offsets * partitions), plan.segments((offsets + 1) * partitions)

    def mark_texts(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> pa.Array:
        first, last = self._ended(stream, offsets, partitions, options)
        plan = self._plan(stream, options)
        if options.marks is Marks.RANGE:
            return _range_texts(*plan.block_bounds(first // BLOCK_SEGMENTS, self.useless))
        counts = last - first
        segments = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        closed = plan.pattern.closed(plan.dice, segments, self.useless)
        return _list_texts(closed, counts)


def _columns(stream: str) -> Schema:
    return Schema.of(id=pa.int64(), key=pa.int64(), value=pa.float64(), ts=TIMESTAMP).named(f"punctuated.{stream}")


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Rows in blocks of 50 segments; the last row of a segment is the place of its punctuation."""

    pattern: ArrivalPattern
    dice: Dice

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return BLOCK_SEGMENTS * (self.pattern.mean_tuples + 1)

    def ends(self, blocks: Int64s) -> Int64s:
        """Row of the block behind each segment, a line per block."""
        spread = BLOCK_SEGMENTS * (self.pattern.mean_tuples - 1)
        coins = (blocks[:, np.newaxis] * spread + np.arange(spread, dtype=np.int64)).ravel()
        segment = integers(self.dice.seed, f"{self.dice.order} spread", coins, BLOCK_SEGMENTS)
        line = np.repeat(np.arange(len(blocks)) * BLOCK_SEGMENTS, spread)
        surplus = np.bincount(line + segment, minlength=len(blocks) * BLOCK_SEGMENTS).reshape(-1, BLOCK_SEGMENTS)
        result: Int64s = np.cumsum(2 + surplus, axis=1)
        return result

    def segments(self, index: Int64s) -> Int64s:
        """Segment of each row."""
        blocks, line = np.unique(index // self.rows, return_inverse=True)
        # One sorted array for all blocks, so that one search finds every row.
        edges = (self.ends(blocks) + np.arange(len(blocks), dtype=np.int64)[:, np.newaxis] * self.rows).ravel()
        found = np.searchsorted(edges, line * self.rows + index % self.rows, side="right")
        result: Int64s = blocks[line] * BLOCK_SEGMENTS + found - line * BLOCK_SEGMENTS
        return result

    def keys(self, index: Int64s) -> Int64s:
        """Value of each row."""
        blocks, line = np.unique(index // self.rows, return_inverse=True)
        whole = (blocks[:, np.newaxis] * self.rows + np.arange(self.rows, dtype=np.int64)).ravel()
        made = self.pattern.keys(self.dice, whole, self.segments(whole))
        result: Int64s = made[line * self.rows + index % self.rows]
        return result

    def block_bounds(self, block: Int64s, useless: float) -> tuple[Int64s, Int64s]:
        """Smallest and largest value of whole blocks, moved away where they are to be useless."""
        first = block * BLOCK_SEGMENTS
        last = first + BLOCK_SEGMENTS - 1
        edges = np.stack([-last, -first] if self.pattern.order is Order.DESC else [first, last])
        edges += np.where(self.pattern.closed(self.dice, first, useless) >= USELESS // 2, USELESS, 0)
        return edges[0], edges[1]


def _list_texts(values: Int64s, counts: Int64s) -> pa.Array:
    """A constant where one value is closed, a list where several are."""
    texts = pa.array(values).cast(pa.string())
    edges = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(edges, texts), ", ")
    is_list = pa.array(counts > 1)
    before = pc.if_else(is_list, '{"key": [', '{"key": ')
    return pc.binary_join_element_wise(before, joined, pc.if_else(is_list, "]}", "}"), "")


def _range_texts(low: Int64s, high: Int64s) -> pa.Array:
    lows, highs = (pa.array(ends).cast(pa.string()) for ends in (low, high))
    return pc.binary_join_element_wise('{"key": {"range": [', lows, ", ", highs, '], "bounds": "[]"}}', "")
