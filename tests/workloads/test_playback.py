"""Options as text, the pace of micro-batches, and columns on request."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidOption, UnknownColumn, UnknownName, UserError
from penstock.model.schema import TIMESTAMP
from penstock.workloads.arrivals import MICROS
from penstock.workloads.contracts import START_US, Rows
from penstock.workloads.playback import CHUNK_ROWS, Playback

PAIRS = {"workload": "pairs", "stream": "left"}
BIDS = {"workload": "auction", "stream": "bid"}


def everything(feed: Playback, start: int, stop: int, schema: pa.Schema | None = None) -> pa.Table:
    batches = [batch for rows in feed.ranges(start, stop) for batch in feed.batches(rows, schema)]
    return pa.Table.from_batches(batches, schema=schema or feed.schema.arrow)


@settings(max_examples=30, deadline=None)
@given(
    partitions=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    stream=st.sampled_from(["auction", "bid"]),
)
def test_any_sequence_of_micro_batches_reads_every_row_once(partitions: int, cuts: list[int], stream: str) -> None:
    feed = Playback.from_text(
        {"workload": "auction", "stream": stream, "partitions": str(partitions), "positions": "true", "total": "400"}
    )
    edges = [0, *sorted(cuts), 400]
    pieces = [everything(feed, start, stop) for start, stop in pairwise(edges)]
    order = [("part", "ascending"), ("off", "ascending")]
    whole = everything(feed, 0, 400).sort_by(order)
    assert pa.concat_tables(pieces).sort_by(order).equals(whole)
    assert whole.num_rows == feed.rows_at(400) == (400 if stream == "bid" else 20)


def test_counted_batches_ignore_the_clock_and_stop_at_the_total() -> None:
    feed = Playback.from_text({**PAIRS, "rows_per_batch": "400", "total": "1000"})
    assert [feed.next_tick(start, elapsed_us=0) for start in (0, 400, 800, 1000)] == [400, 800, 1000, 1000]


def test_rows_fall_due_by_the_clock() -> None:
    feed = Playback.from_text({**PAIRS, "rate": "100", "schedule": "10:3,20:1"})
    assert feed.next_tick(0, 5 * MICROS) == 501
    assert feed.next_tick(501, 15 * MICROS) == 2501
    assert feed.next_tick(501, 15 * MICROS, max_rows=100) == 601
    assert feed.next_tick(501, 0) == 501


def test_a_slow_stream_starts_no_batch_without_a_row_of_its_own() -> None:
    feed = Playback.from_text({"workload": "auction", "stream": "auction", "rate": "20"})
    assert feed.next_tick(1, elapsed_us=900_000) == 1
    assert feed.next_tick(1, elapsed_us=1_000_000) == 21


def test_streams_of_one_workload_stay_together_when_batches_are_counted() -> None:
    auction, bid = (
        Playback.from_text({"workload": "auction", "stream": name, "rows_per_batch": "2000"}) for name in ("auction", "bid")
    )
    tick = bid.next_tick(0, 0)
    assert tick == auction.next_tick(0, 0)
    last_offer = everything(auction, 0, tick).column("opens").to_pylist()[-1]
    last_bid = everything(bid, 0, tick).column("ts").to_pylist()[-1]
    assert 0 <= (last_bid - last_offer).total_seconds() < 20 / 2000


def test_long_ranges_come_in_pieces() -> None:
    feed = Playback.from_text(PAIRS)
    sizes = [batch.num_rows for batch in feed.batches(Rows(0, 1, 10, 10 + 2 * CHUNK_ROWS + 5))]
    assert sizes == [CHUNK_ROWS, CHUNK_ROWS, 5]


def test_a_schema_selects_columns_by_name_and_may_ask_for_positions_and_marks() -> None:
    feed = Playback.from_text({**BIDS, "partitions": "2"})
    wanted = pa.schema([("off", pa.int64()), ("PRICE", pa.float32()), ("mark", pa.string()), ("part", pa.int64())])
    table = pa.Table.from_batches(feed.batches(Rows(1, 2, 5, 8), wanted))
    assert table.schema.equals(wanted)
    assert table.column("off").to_pylist() == [5, 6, 7]
    assert set(table.column("part").to_pylist()) == {1}
    assert table.column("mark").null_count == 3


def test_a_column_the_stream_does_not_have_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownColumn, match="Did you mean 'price'"):
        list(Playback.from_text(BIDS).batches(Rows(0, 1, 0, 1), pa.schema([("prise", pa.float64())])))


def test_a_column_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(InvalidOption, match="cannot be read as"):
        list(Playback.from_text(BIDS).batches(Rows(0, 1, 0, 1), pa.schema([("price", TIMESTAMP)])))


def test_workload_and_stream_may_be_one_word() -> None:
    assert Playback.from_text({"workload": "auction.bid"}) == Playback.from_text(BIDS)


def test_every_option_is_understood() -> None:
    feed = Playback.from_text({
        **BIDS, "rate": "50", "arrivals": "poisson", "schedule": "1:2", "seed": "7", "start": "2026-01-01T01:00:00+01:00",
        "marks": "range", "positions": "yes", "disorder": "2 seconds", "late_by": "1 minute", "late_fraction": "0.1",
        "duplicate_fraction": "0.2", "null_fraction": "0.3", "bad_fraction": "0.4", "partitions": "3", "total": "90",
        "rows_per_batch": "30", "max_rows_per_batch": "20", "bids_per_item": "10", "skew": "1.5",
    })  # fmt: skip
    assert feed.options.start_us == START_US
    assert (feed.options.disorder.bound_us, feed.options.disorder.late_us) == (2_000_000, 60_000_000)
    assert feed.schema.names == ("item_id", "bidder", "price", "ts", "part", "off", "mark")
    assert (feed.partitions, feed.total, feed.rows_per_batch, feed.max_rows_per_batch) == (3, 90, 30, 20)


@pytest.mark.parametrize(
    ("texts", "error", "hint"),
    [
        ({}, InvalidOption, "'workload' is missing"),
        ({"workload": "auktion"}, UnknownName, "Did you mean 'auction'"),
        ({"workload": "auction"}, InvalidOption, "choose one"),
        ({"workload": "auction", "stream": "bids"}, UnknownName, "Did you mean 'bid'"),
        ({**PAIRS, "rte": "5"}, UnknownName, "Did you mean 'rate'"),
        ({**PAIRS, "bids_per_item": "5"}, UnknownName, "no option 'bids_per_item'"),
        ({**PAIRS, "rate": "fast"}, InvalidOption, "not a number"),
        ({**PAIRS, "total": "1.5"}, InvalidOption, "not a whole number"),
        ({**PAIRS, "arrivals": "random"}, InvalidOption, "constant, poisson"),
        ({**PAIRS, "marks": "constant"}, InvalidOption, "embeds no punctuations"),
        ({**PAIRS, "disorder": "5 parsecs"}, InvalidOption, "no duration"),
        ({**PAIRS, "start": "yesterday"}, InvalidOption, "is no time"),
        ({**PAIRS, "partitions": "0"}, InvalidOption, "at least 1"),
        ({**PAIRS, "key_type": "date"}, InvalidOption, "bigint or string"),
    ],
)
def test_mistakes_in_options_are_named_with_what_to_do(texts: dict[str, str], error: type[UserError], hint: str) -> None:
    with pytest.raises(error, match=hint):
        Playback.from_text(texts)
