"""Auctions: every promise of the punctuations, checked by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption
from penstock.metadata.embedded import read_punctuation
from penstock.workloads.auction import Auction
from penstock.workloads.contracts import Marks, Options
from penstock.workloads.disorder import Disorder

TICKS = 4_000


def rows_of(stream: str, workload: Auction, part: int, partitions: int, options: Options) -> list[dict[str, object]]:
    """Rows of a source partition within the first ticks."""
    stop = workload.rows_at(stream, TICKS) // partitions
    rows: list[dict[str, object]] = workload.generate(stream, part, partitions, 0, stop, options).to_pylist()
    return rows


def bids(workload: Auction, part: int, partitions: int, options: Options) -> list[dict[str, object]]:
    return rows_of("bid", workload, part, partitions, options)


@settings(max_examples=30, deadline=None)
@given(
    stream=st.sampled_from(["bid", "comment"]),
    bids_per_item=st.integers(24, 40),
    bids_per_comment=st.integers(1, 3),
    open_items=st.integers(1, 40),
    skew=st.sampled_from([0.0, 0.8, 1.0, 2.5]),
    partitions=st.integers(1, 4),
    marks=st.sampled_from([Marks.CONSTANT, Marks.RANGE]),
    faults=st.sampled_from([Disorder(), Disorder(bound_us=10**6, duplicate_fraction=0.3, late_fraction=0.1)]),
)
def test_no_bid_or_comment_follows_the_close_of_its_auction_in_any_partition(
    stream: str,
    bids_per_item: int,
    bids_per_comment: int,
    open_items: int,
    skew: float,
    partitions: int,
    marks: Marks,
    faults: Disorder,
) -> None:
    workload = Auction(bids_per_item=bids_per_item, bids_per_comment=bids_per_comment, open_items=open_items, skew=skew)
    options = Options(marks=marks, disorder=faults)
    schema = workload.streams[stream]
    for part in range(partitions):
        closed: list[int] = []
        for pos, row in enumerate(rows_of(stream, workload, part, partitions, options)):
            if row["mark"] is None:
                assert row["item_id"] not in closed
                continue
            assert row["item_id"] is None
            pattern = read_punctuation(str(row["mark"]), schema, stream, pos).pattern("item_id")
            newly = list(pattern.values) or list(range(pattern.lo, pattern.hi + 1))
            assert not set(newly) & set(closed)
            closed += newly
        assert closed


@pytest.mark.parametrize("is_poisson", [False, True])
def test_an_auction_is_offered_before_its_first_bid_comment_and_category(is_poisson: bool) -> None:
    workload, options = Auction(), Options(is_poisson=is_poisson)
    opens = workload.generate("auction", 0, 1, 0, TICKS, options).to_pydict()["opens"]
    for stream in ("bid", "comment", "category"):
        for row in rows_of(stream, workload, 0, 1, options):
            assert opens[row["item_id"]] <= row["ts"]


@pytest.mark.parametrize("stream", ["auction", "category"])
def test_items_are_dense_and_unique_over_all_partitions(stream: str) -> None:
    parts = [Auction().generate(stream, part, 3, 0, 50, Options()).to_pydict()["item_id"] for part in range(3)]
    assert sorted(chain.from_iterable(parts)) == list(range(150))


def test_an_item_is_sorted_into_the_category_its_auction_names() -> None:
    offered = rows_of("auction", Auction(), 0, 1, Options())
    sorted_in = rows_of("category", Auction(), 0, 1, Options())
    assert [(row["item_id"], row["category"]) for row in offered] == [(row["item_id"], row["category_name"]) for row in sorted_in]
    assert len({(row["category_id"], row["category_name"]) for row in sorted_in}) == 10


@pytest.mark.parametrize("stream", ["bid", "comment"])
def test_each_partition_announces_the_same_closes_in_the_same_order(stream: str) -> None:
    options, workload = Options(marks=Marks.CONSTANT), Auction()
    marks = [[row["mark"] for row in rows_of(stream, workload, part, 4, options) if row["mark"]] for part in range(4)]
    assert len(marks[0]) > 80
    assert all(texts == marks[0] for texts in marks)


def test_auctions_stay_open_for_different_times() -> None:
    workload = Auction(bids_per_item=10, open_items=50)
    closes = [row["mark"] for row in bids(workload, 0, 1, Options(marks=Marks.CONSTANT)) if row["mark"]]
    items = [int(str(text).split()[1].rstrip("}")) for text in closes]
    lengths = Counter(rank + 50 - item for rank, item in enumerate(items))
    assert min(lengths) < 25
    assert max(lengths) > 75
    assert sum(rank + 50 - item for rank, item in enumerate(items[:300])) / 300 == pytest.approx(50, abs=0.5)


def test_bids_concentrate_on_few_of_the_open_auctions() -> None:
    spread = {}
    for skew in (0.0, 1.2):
        rows = Auction(skew=skew).generate("bid", 0, 1, 2_000_000, 2_000_020, Options()).to_pydict()["item_id"]
        spread[skew] = len(set(rows))
    assert spread[1.2] < spread[0.0]


@pytest.mark.parametrize(("stream", "least"), [("bid", 16), ("comment", 32)])
def test_too_many_partitions_for_the_announcements_are_refused(stream: str, least: int) -> None:
    with pytest.raises(InvalidOption, match=f"set it to {least} or more"):
        Auction(bids_per_item=10).generate(stream, 0, 8, 0, 10, Options(marks=Marks.CONSTANT))
