"""Online auctions: items are offered, sorted into categories, bid for, talked about and closed; closing is announced."""

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
from penstock.workloads.coins import Flags, integers, stream_key, uniforms
from penstock.workloads.contracts import Marks, Options
from penstock.workloads.lifetimes import Lifetimes, power_law

CATEGORIES = ("art", "books", "cameras", "coins", "computers", "jewellery", "music", "stamps", "toys", "watches")

_AUCTION = Schema.of(item_id=pa.int64(), seller=pa.int64(), category=pa.string(), reserve=pa.float64(), opens=TIMESTAMP).named(
    "auction.auction"
)
_BID = Schema.of(item_id=pa.int64(), bidder=pa.int64(), price=pa.float64(), ts=TIMESTAMP).named("auction.bid")
_COMMENT = Schema.of(item_id=pa.int64(), author=pa.int64(), stars=pa.int64(), ts=TIMESTAMP).named("auction.comment")
_CATEGORY = Schema.of(item_id=pa.int64(), category_id=pa.int64(), category_name=pa.string(), ts=TIMESTAMP).named("auction.category")

_STARS = 5


@dataclass(frozen=True)
class Auction(ColumnarWorkload):
    """Streams `auction` (an item is offered), `bid`, `comment` and `category` (an item is sorted into a category).

    The clock ticks once per bid; an auction opens every `bids_per_item` ticks and stays open for a random time of
    `open_items` openings on average (see `Lifetimes`). Of the open auctions the one next to close draws most bids and
    comments, with a Zipf-like law. An auction's row is never later than the first bid or comment for it, and none comes
    after the close. The category of an item comes half an opening after its auction, so bids may come before it. In
    `auction` and in `category` each `item_id` stands once, and they are dense.

    With `marks` every source partition of `bid` and of `comment` announces each close: `constant` one item at a time, in
    the order of closing, `range` all items of a block at once. So each partition is grammatical by itself, and what the
    last of them has announced holds for the stream. The announcement takes the place of a bid, or of a comment.

    Parameters
    ----------
    bids_per_item
        Ticks between openings; at least twice the number of source partitions if closes are announced, and for
        `comment` so many times `bids_per_comment`.
    bids_per_comment
        Ticks between comments.
    open_items
        Auctions open at a time.
    skew
        Exponent of the Zipf-like law, 0 for uniform.
    sellers, bidders
        Number of different ones; bidders also write the comments.

    Examples
    --------
    >>> bids = Auction(bids_per_item=4, open_items=2).generate("bid", 0, 1, 8, 12, Options(marks=Marks.CONSTANT))
    >>> bids.column("mark").to_pylist()
    [None, None, None, '{"item_id": 1}']
    """

    name: ClassVar[str] = "auction"
    default_rate: ClassVar[float] = 2_000.0

    bids_per_item: int = 20
    bids_per_comment: int = 2
    open_items: int = 100
    skew: float = 0.8
    sellers: int = 1_000
    bidders: int = 10_000

    def __post_init__(self) -> None:
        for name in ("bids_per_item", "bids_per_comment", "open_items", "sellers", "bidders"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"{getattr(self, name)} is too few; it must be at least 1", name)
        if not 0 <= self.skew <= 10:
            raise InvalidOption(f"a skew of {self.skew} is out of range; it must be between 0 (uniform) and 10", "skew")

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {
            "auction": StreamShape(_AUCTION, "item_id", "opens", clock=self.name, ticks=self.bids_per_item),
            "bid": StreamShape(_BID, "item_id", "ts", clock=self.name, has_marks=True),
            "comment": StreamShape(_COMMENT, "item_id", "ts", clock=self.name, ticks=self.bids_per_comment, has_marks=True),
            "category": StreamShape(
                _CATEGORY, "item_id", "ts", clock=self.name, ticks=self.bids_per_item, first=self.bids_per_item // 2
            ),
        }

    def _lives(self, options: Options) -> Lifetimes:
        return Lifetimes(self.open_items, stream_key(options.seed, "auction"))

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        if stream == "auction":
            return self._auctions(index, options)
        if stream == "category":
            return self._categories(index, options)
        return self._bids(index, options) if stream == "bid" else self._comments(index, options)

    def _auctions(self, item: Int64s, options: Options) -> Columns:
        return {
            "item_id": item,
            "seller": integers(options.seed, "seller", item, self.sellers),
            "category": _category_names(_category_numbers(item, options)),
            "reserve": self._reserve_cents(item, options) / 100.0,
        }

    def _categories(self, item: Int64s, options: Options) -> Columns:
        number = _category_numbers(item, options)
        return {"item_id": item, "category_id": number, "category_name": _category_names(number)}

    def _bids(self, index: Int64s, options: Options) -> Columns:
        item = self._open_items("item", index, index, options)
        # Between 80 % of the reserve price and three times it, in cents.
        share = 0.8 + 2.2 * uniforms(options.seed, "price", index) ** 2
        return {
            "item_id": item,
            "bidder": integers(options.seed, "bidder", index, self.bidders),
            "price": np.rint(self._reserve_cents(item, options) * share) / 100.0,
        }

    def _comments(self, index: Int64s, options: Options) -> Columns:
        return {
            "item_id": self._open_items("commented item", index, index * self.bids_per_comment, options),
            "author": integers(options.seed, "author", index, self.bidders),
            "stars": 1 + integers(options.seed, "stars", index, _STARS),
        }

    def _open_items(self, purpose: str, index: Int64s, tick: Int64s, options: Options) -> Int64s:
        """An item that is open at each tick; the coins are those of the rows."""
        favour = power_law(uniforms(options.seed, purpose, index), self.open_items + 1, self.skew)
        return self._lives(options).open_items(tick // self.bids_per_item, favour)

    def _reserve_cents(self, item: Int64s, options: Options) -> Int64s:
        return 100 + integers(options.seed, "reserve", item, 50_000)

    def mark_flags(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> Flags:
        ticks = self._ticks_per_offset(stream, partitions)
        rank = self._closing_rank(offsets, ticks)
        # The last offset of each step announces the step's close.
        ends_step = (offsets + 1) * ticks // self.bids_per_item > offsets * ticks // self.bids_per_item
        result: Flags = ends_step & (rank >= 0)
        if options.marks is Marks.RANGE:
            result &= (rank + 1) % self.open_items == 0
        return result

    def _ticks_per_offset(self, stream: str, partitions: int) -> int:
        """Ticks between two rows of one source partition; two of them must fit between two closes."""
        ticks = partitions * self.shape(stream).ticks
        if self.bids_per_item < 2 * ticks:
            raise InvalidOption(
                f"{partitions} source partitions announcing every close leave no room for {stream}s when an auction opens "
                f"every {self.bids_per_item} rows of bid; set it to {2 * ticks} or more, or use fewer partitions",
                "bids_per_item",
            )
        return ticks

    def _closing_rank(self, offsets: Int64s, ticks: int) -> Int64s:
        return offsets * ticks // self.bids_per_item - self.open_items

    def mark_texts(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> pa.Array:
        rank = self._closing_rank(offsets, self._ticks_per_offset(stream, partitions))
        if options.marks is Marks.CONSTANT:
            return _joined('{"item_id": ', self._lives(options).closing(rank), "}")
        # A whole block has closed: the ranks up to this one are the items up to it.
        first = _joined('{"item_id": {"range": [', rank + 1 - self.open_items, ", ")
        return pc.binary_join_element_wise(first, _joined("", rank, '], "bounds": "[]"}}'), "")


def _category_numbers(item: Int64s, options: Options) -> Int64s:
    return integers(options.seed, "category", item, len(CATEGORIES))


def _category_names(number: Int64s) -> pa.Array:
    return pa.DictionaryArray.from_arrays(number.astype(np.int32), pa.array(CATEGORIES)).dictionary_decode()


def _joined(before: str, numbers: Int64s, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, pa.array(numbers).cast(pa.string()), after, "")
