"""Nexmark: people register, offer auctions and bid, in the mix and with the skew of the reference generator."""

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
from penstock.workloads import nexmark_texts as texts
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import Flags, Floats, integers, uniforms
from penstock.workloads.contracts import Marks, Options

#: Of fifty events the first is a person, three are auctions, the others bids.
CYCLE, AUCTIONS, BIDS = 50, 3, 46
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
#: How far ahead of the newest person or auction an event may point: as if the two had been swapped on the way.
LEAD = 10
#: The first of so many auctions is hot, the first of so many people sells and the second bids more than others.
_HOT_STRIDE = 100
#: Auctions after which closed sellers are announced.
_BLOCK = 100

_PERSON = Schema.of(
    id=pa.int64(), name=pa.string(), email=pa.string(), city=pa.string(), state=pa.string(), date_time=TIMESTAMP
).named("nexmark.person")
_AUCTION = Schema.of(
    id=pa.int64(), item_name=pa.string(), description=pa.string(), initial_bid=pa.int64(), reserve=pa.int64(),
    date_time=TIMESTAMP, expires=TIMESTAMP, seller=pa.int64(), category=pa.int64(),
).named("nexmark.auction")  # fmt: skip
_BID = Schema.of(
    auction=pa.int64(), bidder=pa.int64(), price=pa.int64(), channel=pa.string(), url=pa.string(), date_time=TIMESTAMP
).named("nexmark.bid")


@dataclass(frozen=True)
class Nexmark(ColumnarWorkload):
    """Streams `person`, `auction` and `bid`; ids are dense and unique from 1000 on.

    The clock ticks once per event of any stream, so `rate` and `total` count events: of fifty one is a person, three
    are auctions and 46 are bids. An auction expires after a random time, on average that in which `in_flight` auctions
    begin. A bid names the hot auction, which is the first of the last hundred, or one of the last `in_flight` and the
    next ten; sellers and bidders are chosen among people in the same way. So a bid may come before its auction, or
    after it has expired.

    With `marks` every source partition of `bid` says every few cycles which auctions have left the reach of bids:
    after auction n no bid names an auction below n - `in_flight`. `range` says it as a range, `constant` as a list. The
    announcement takes the place of a bid. With `seller_marks` the stream `auction` says in the same way which people
    will offer nothing more; that announcement takes the place of an auction, and ids stay dense.

    Parameters
    ----------
    in_flight
        Auctions that bids are drawn from.
    active_people
        People that sellers and bidders are drawn from.
    hot_auction_ratio, hot_seller_ratio, hot_bidder_ratio
        All but one of so many events name the hot auction, seller or bidder; 1: nothing is hot.
    cycles_per_mark
        Cycles of fifty events between two announcements in `bid`.
    seller_marks
        How many of a hundred rows of `auction` are announcements; a multiple of the number of source partitions, which
        must divide a hundred. All streams of a run need the same value. 0: none.

    Notes
    -----
    Differs from the reference: no filler text to reach a size in bytes, and coins are hashes of the row's number.

    References
    ----------
    [tucker2008] Tucker, Tufte, Papadimos, Maier. NEXMark: A Benchmark for Queries over Data Streams. OGI 2008, and the
    generator of the public Nexmark suite for Flink.

    Examples
    --------
    >>> bids = Nexmark(in_flight=10).generate("bid", 0, 1, 0, 2_300, Options(marks=Marks.RANGE))
    >>> bids.column("mark").drop_null().to_pylist()[0]
    '{"auction": {"range": [1000, 1004], "bounds": "[)"}}'
    """

    name: ClassVar[str] = "nexmark"
    default_rate: ClassVar[float] = 10_000.0

    in_flight: int = 100
    active_people: int = 1_000
    hot_auction_ratio: int = 2
    hot_seller_ratio: int = 4
    hot_bidder_ratio: int = 4
    cycles_per_mark: int = 5
    seller_marks: int = 0

    def __post_init__(self) -> None:
        for name in ("in_flight", "active_people", "hot_auction_ratio", "hot_seller_ratio", "hot_bidder_ratio", "cycles_per_mark"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"{getattr(self, name)} is too few; it must be at least 1", name)
        if not 0 <= self.seller_marks < _BLOCK:
            raise InvalidOption(
                f"{self.seller_marks} of {_BLOCK} rows cannot be announcements; choose 0 to {_BLOCK - 1}", "seller_marks"
            )

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {
            "person": StreamShape(_PERSON, "id", "date_time", clock=self.name, ticks=CYCLE),
            "auction": StreamShape(
                _AUCTION, "id", "date_time", clock=self.name, ticks=CYCLE, rows=AUCTIONS, first=1, has_marks=self.seller_marks > 0
            ),
            "bid": StreamShape(
                _BID, "auction", "date_time", clock=self.name, ticks=CYCLE, rows=BIDS, first=1 + AUCTIONS, has_marks=True
            ),
        }

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        if stream == "person":
            return self._people(index, options)
        return self._auctions(index, options) if stream == "auction" else self._bids(index, options)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _people(self, index: Int64s, options: Options) -> Columns:
        seed = options.seed
        return {
            "id": index + FIRST_ID,
            "name": texts.chosen(texts.names(), seed, "name", index),
            "email": texts.chosen(texts.emails(), seed, "email", index),
            "city": texts.chosen(texts.cities(), seed, "city", index),
            "state": texts.chosen(texts.states(), seed, "state", index),
        }

    def _auctions(self, index: Int64s, options: Options) -> Columns:
        if self.seller_marks and options.marks is Marks.NONE:
            raise InvalidOption("announcements of closed sellers need the option marks, 'range' or 'constant'", "seller_marks")
        seed = options.seed
        initial = _prices(uniforms(seed, "initial bid", index))
        begins = self._event_times(self.shape("auction"), index, options)
        return {
            "id": self._auctions_before(index) + FIRST_ID,
            "item_name": texts.chosen(texts.items(), seed, "item", index),
            "description": texts.chosen(texts.descriptions(), seed, "description", index),
            "initial_bid": initial,
            "reserve": initial + _prices(uniforms(seed, "reserve", index)),
            "expires": pa.array(begins + self._lengths(index, options)).view(TIMESTAMP),
            "seller": self._someone("seller", index // AUCTIONS, index, self.hot_seller_ratio, 0, options),
            "category": FIRST_CATEGORY + integers(seed, "category", index, CATEGORIES),
        }

    def _bids(self, index: Int64s, options: Options) -> Columns:
        seed, cycle = options.seed, index // BIDS
        last = self._newest_auction(cycle)
        least = np.maximum(last - self.in_flight, 0)
        drawn = least + (uniforms(seed, "auction", index) * (last - least + 1 + LEAD)).astype(np.int64)
        is_hot = integers(seed, "hot auction", index, self.hot_auction_ratio) > 0
        stride = min(_HOT_STRIDE, self.in_flight)
        channel = texts.channel_numbers(seed, index)
        return {
            "auction": np.where(is_hot, last // stride * stride, drawn) + FIRST_ID,
            "bidder": self._someone("bidder", cycle, index, self.hot_bidder_ratio, 1, options),
            "price": _prices(uniforms(seed, "price", index)),
            "channel": texts.channels().take(channel),
            "url": texts.urls().take(channel),
        }

    def _auctions_before(self, row: Int64s) -> Int64s:
        """How many rows before these are auctions and not announcements."""
        offered = _BLOCK - self.seller_marks
        result: Int64s = row // _BLOCK * offered + np.minimum(row % _BLOCK, offered)
        return result

    def _newest_auction(self, cycle: Int64s) -> Int64s:
        """The newest auction, counted from 0, when the bids of a cycle are made."""
        return self._auctions_before((cycle + 1) * AUCTIONS) - 1

    def _lengths(self, index: Int64s, options: Options) -> Int64s:
        """How long auctions run: at least a millisecond, on average until `in_flight` more have begun."""
        arrivals, ticks = options.arrivals(self.name), self.shape("auction").tick_of(index)
        horizon = arrivals.at(ticks + self.in_flight * CYCLE // AUCTIONS) - arrivals.at(ticks)
        result: Int64s = 1_000 + (uniforms(options.seed, "length", index) * (2 * horizon)).astype(np.int64)
        return result

    def _someone(self, role: str, newest: Int64s, index: Int64s, ratio: int, place: int, options: Options) -> Int64s:
        """The hot person of the last hundred, or one of the active ones and the next ten, by id."""
        active = np.minimum(newest + 1, self.active_people)
        drawn = newest + 1 - active + (uniforms(options.seed, role, index) * (active + LEAD)).astype(np.int64)
        stride = min(_HOT_STRIDE, self.active_people)
        is_hot = integers(options.seed, f"hot {role}", index, ratio) > 0
        return np.where(is_hot, newest // stride * stride + place, drawn) + FIRST_ID

    # -- announcements ------------------------------------------------------------------------------------------------

    def mark_flags(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> Flags:
        if stream == "auction":
            self._check_seller_marks(partitions)
            result: Flags = offsets * partitions % _BLOCK >= _BLOCK - self.seller_marks
            return result
        rows = self._rows_per_mark(partitions)
        step = offsets * partitions // rows
        ends_step = (offsets + 1) * partitions // rows > step
        least, beyond = self._closed_auctions(step, partitions)
        result = ends_step & (least < beyond)
        return result

    def _rows_per_mark(self, partitions: int) -> int:
        rows = self.cycles_per_mark * BIDS
        if rows < 2 * partitions:
            raise InvalidOption(f"{partitions} source partitions leave no room for bids; announce less often", "cycles_per_mark")
        return rows

    def _check_seller_marks(self, partitions: int) -> None:
        if _BLOCK % partitions or self.seller_marks % partitions:
            raise InvalidOption(
                f"{self.seller_marks} announcements in {_BLOCK} rows cannot be shared by {partitions} source partitions; "
                f"their number must divide both",
                "seller_marks",
            )

    def mark_texts(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> pa.Array:
        if stream == "auction":
            return _announced("seller", *self._closed_sellers(offsets * partitions // _BLOCK), options.marks)
        closed = self._closed_auctions(offsets * partitions // self._rows_per_mark(partitions), partitions)
        return _announced("auction", *closed, options.marks)

    def _closed_auctions(self, step: Int64s, partitions: int) -> tuple[Int64s, Int64s]:
        """First auction announced by each step, and first that is still open, counted from 0."""
        # The announcement of a step is never before this row, in whichever partition.
        row = (step + 1) * self._rows_per_mark(partitions) - partitions
        before = row - self._rows_per_mark(partitions)
        return self._least_auction(before), self._least_auction(row)

    def _least_auction(self, row: Int64s) -> Int64s:
        return np.maximum(self._newest_auction(row // BIDS) - self.in_flight, 0)

    def _closed_sellers(self, block: Int64s) -> tuple[Int64s, Int64s]:
        """First person announced by each block of auctions, and first that may still sell, counted from 0."""
        return self._least_person(block - 1), self._least_person(block)

    def _least_person(self, block: Int64s) -> Int64s:
        return np.maximum(block * _BLOCK // AUCTIONS + 1 - self.active_people, 0)


def _prices(uniform: Floats) -> Int64s:
    """Cents between 1 and a million units, evenly over the orders of magnitude."""
    return np.rint(10.0 ** (uniform * 6.0) * 100.0).astype(np.int64)


def _announced(name: str, first: Int64s, beyond: Int64s, marks: Marks) -> pa.Array:
    """Punctuations that close the ids `first` … `beyond`-1; before anything has closed they are empty, and useless."""
    if marks is Marks.RANGE:
        low, high = (pa.array(ids + FIRST_ID).cast(pa.string()) for ids in (first, beyond))
        return pc.binary_join_element_wise(f'{{"{name}": {{"range": [', low, ", ", high, '], "bounds": "[)"}}', "")
    counts = beyond - first
    ends = np.cumsum(counts)
    ids = np.repeat(first, counts) + np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts) + FIRST_ID
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(ids, pa.int64()).cast(pa.string()))
    return pc.binary_join_element_wise(f'{{"{name}": [', pc.binary_join(lists, ", "), "]}", "")
