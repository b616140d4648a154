"""Nexmark: the mix, the reach of ids, and every promise of the punctuations, checked by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption
from penstock.metadata.embedded import read_punctuation
from penstock.model.batch import int64s
from penstock.workloads.contracts import Marks, Options
from penstock.workloads.disorder import Disorder
from penstock.workloads.nexmark import CYCLE, FIRST_ID, LEAD, Nexmark
from penstock.workloads.playback import Playback

CYCLES = 200


def rows(workload: Nexmark, stream: str, options: Options, part: int = 0, partitions: int = 1) -> list[dict[str, Any]]:
    count = workload.rows_at(stream, CYCLES * CYCLE) // partitions
    found: list[dict[str, Any]] = workload.generate(stream, part, partitions, 0, count, options).to_pylist()
    return found


def closed_by(text: str, workload: Nexmark, stream: str, column: str) -> set[int]:
    pattern = read_punctuation(text, workload.streams[stream], stream).pattern(column)
    if pattern.is_empty:
        return set()
    return set(pattern.values) or set(range(pattern.lo, pattern.hi + 1))


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids() -> None:
    workload = Nexmark()
    assert [workload.rows_at(stream, 50) for stream in ("person", "auction", "bid")] == [1, 3, 46]
    assert [workload.rows_at(stream, 5_002) for stream in ("person", "auction", "bid")] == [101, 301, 4_600]
    feed = Playback(workload, "auction", Options(rate=50.0), total=500)
    assert sum(rows.stop - rows.start for rows in feed.ranges(0, 500)) == 30


def test_events_of_the_streams_fill_the_clock_without_gaps() -> None:
    workload, options = Nexmark(), Options(rate=1_000_000.0, start_us=0)
    times = [int64s(workload.generate(stream, 0, 1, 0, workload.rows_at(stream, 500), options).column("date_time"))
             for stream in ("person", "auction", "bid")]  # fmt: skip
    assert sorted(chain.from_iterable(part.tolist() for part in times)) == list(range(500))


@pytest.mark.parametrize("stream", ["person", "auction"])
def test_ids_are_dense_and_unique_over_all_partitions(stream: str) -> None:
    parts = [rows(Nexmark(), stream, Options(), part, 3) for part in range(3)]
    ids = sorted(row["id"] for row in chain.from_iterable(parts))
    assert ids == list(range(FIRST_ID, FIRST_ID + len(ids)))


def test_ids_stay_dense_where_announcements_take_the_place_of_auctions() -> None:
    workload, options = Nexmark(seller_marks=4, active_people=10), Options(marks=Marks.RANGE)
    parts = [rows(workload, "auction", options, part, 2) for part in range(2)]
    ids = sorted(row["id"] for row in chain.from_iterable(parts) if row["mark"] is None)
    assert ids == list(range(FIRST_ID, FIRST_ID + len(ids)))
    assert len(ids) == CYCLES * 3 * 96 // 100
    # Bids know how many auctions there are.
    newest = max(row["auction"] for row in rows(workload, "bid", Options()))
    assert ids[-1] <= newest <= ids[-1] + LEAD


def test_bids_name_auctions_in_flight_or_about_to_begin() -> None:
    workload = Nexmark(in_flight=30)
    for number, row in enumerate(rows(workload, "bid", Options())):
        newest = FIRST_ID + number // 46 * 3 + 2
        assert max(newest - 30, FIRST_ID) <= row["auction"] <= newest + LEAD


def test_half_of_the_bids_go_to_the_hot_auction_and_most_to_hot_people() -> None:
    bids = rows(Nexmark(), "bid", Options())
    hot = [row for row in bids if row["auction"] % 100 == 0]
    assert len(hot) / len(bids) == pytest.approx(0.5, abs=0.03)
    auctions = rows(Nexmark(), "auction", Options())
    assert sum(row["seller"] % 100 == 0 for row in auctions) / len(auctions) == pytest.approx(0.75, abs=0.05)
    assert sum(row["bidder"] % 100 == 1 for row in bids) / len(bids) == pytest.approx(0.75, abs=0.03)
    cold = [row["auction"] for row in rows(Nexmark(hot_auction_ratio=1), "bid", Options())]
    assert Counter(cold).most_common(1)[0][1] < 150


def test_auctions_expire_when_as_many_more_have_begun_on_average() -> None:
    workload, options = Nexmark(in_flight=60), Options(rate=1_000.0)
    table = workload.generate("auction", 0, 1, 0, 5_000, options)
    lengths = int64s(table.column("expires")) - int64s(table.column("date_time"))
    horizon = 60 * 50 / 3 / 1_000 * 1e6
    assert lengths.min() >= 1_000
    assert lengths.max() <= 2 * horizon + 1_000
    assert lengths.mean() == pytest.approx(horizon, rel=0.03)


def test_prices_spread_over_the_orders_of_magnitude() -> None:
    prices = np.array([row["price"] for row in rows(Nexmark(), "bid", Options())])
    assert prices.min() >= 100
    assert prices.max() <= 10**8
    assert np.median(prices) == pytest.approx(10**5, rel=0.2)


@settings(max_examples=12, deadline=None)
@given(
    in_flight=st.integers(1, 80),
    cycles_per_mark=st.integers(1, 7),
    partitions=st.integers(1, 4),
    seller_marks=st.sampled_from([0, 4]),
    marks=st.sampled_from([Marks.CONSTANT, Marks.RANGE]),
    faults=st.sampled_from([Disorder(), Disorder(bound_us=10**6, duplicate_fraction=0.3, late_fraction=0.1)]),
)
def test_no_bid_follows_the_close_of_its_auction_in_any_partition(
    in_flight: int, cycles_per_mark: int, partitions: int, seller_marks: int, marks: Marks, faults: Disorder
) -> None:
    workload = Nexmark(in_flight=in_flight, cycles_per_mark=cycles_per_mark, seller_marks=seller_marks)
    options = Options(marks=marks, disorder=faults)
    for part in range(partitions):
        closed: set[int] = set()
        for row in rows(workload, "bid", options, part, partitions):
            if row["mark"] is None:
                assert row["auction"] not in closed
                continue
            assert row["auction"] is None
            newly = closed_by(row["mark"], workload, "bid", "auction")
            assert newly
            assert not newly & closed
            closed |= newly
        # Nothing is left out, and the last announcement is not long ago.
        newest = workload.rows_at("auction", CYCLES * CYCLE) * (100 - seller_marks) // 100
        assert closed == set(range(FIRST_ID, FIRST_ID + len(closed)))
        assert len(closed) >= newest - in_flight - 3 * cycles_per_mark - 6


@settings(max_examples=12, deadline=None)
@given(
    active_people=st.integers(1, 80),
    partitions=st.sampled_from([1, 2, 4]),
    seller_marks=st.sampled_from([4, 8]),
    marks=st.sampled_from([Marks.CONSTANT, Marks.RANGE]),
)
def test_nobody_sells_after_the_announcement_that_they_will_not(
    active_people: int, partitions: int, seller_marks: int, marks: Marks
) -> None:
    workload = Nexmark(active_people=active_people, seller_marks=seller_marks)
    for part in range(partitions):
        closed: set[int] = set()
        for row in rows(workload, "auction", Options(marks=marks), part, partitions):
            if row["mark"] is None:
                assert row["seller"] not in closed
            else:
                assert row["id"] is None
                closed |= closed_by(row["mark"], workload, "auction", "seller")
        assert closed == set(range(FIRST_ID, FIRST_ID + len(closed)))
        assert len(closed) >= CYCLES - active_people - 70


def test_each_partition_announces_the_same_closes_in_the_same_order() -> None:
    options = Options(marks=Marks.CONSTANT)
    marks = [[row["mark"] for row in rows(Nexmark(), "bid", options, part, 3) if row["mark"]] for part in range(3)]
    assert len(marks[0]) > 30
    assert marks[1] == marks[0]
    assert marks[2] == marks[0]


@pytest.mark.parametrize(
    ("parameters", "stream", "options", "partitions"),
    [
        ({"in_flight": 0}, "bid", Options(), 1),
        ({"seller_marks": 100}, "bid", Options(), 1),
        ({"seller_marks": 2}, "auction", Options(), 1),
        ({"seller_marks": 2}, "auction", Options(marks=Marks.RANGE), 4),
        ({}, "auction", Options(marks=Marks.RANGE), 1),
        ({}, "person", Options(marks=Marks.RANGE), 1),
        ({"cycles_per_mark": 1}, "bid", Options(marks=Marks.RANGE), 40),
    ],
)
def test_what_cannot_be_played_is_refused(parameters: dict[str, int], stream: str, options: Options, partitions: int) -> None:
    with pytest.raises(InvalidOption):
        Nexmark(**parameters).generate(stream, 0, partitions, 0, 10, options)
