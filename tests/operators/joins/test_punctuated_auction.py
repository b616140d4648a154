"""The auction of the specification: what punctuations do to the state of a join and to a grouping behind it."""

from __future__ import annotations

import pyarrow as pa

from penstock.kernel.contracts import Operator
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import FOREVER, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import constant
from penstock.model.windows import Sliding, Unbounded
from penstock.operators.joins.window_join import WindowJoin
from penstock.runners.local.runner import LocalRunner
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of, rows_of

AUCTION = pa.schema({"a.item": pa.int64(), "a.seller": pa.string()})
BID = pa.schema({"b.item": pa.int64(), "b.bidder": pa.int64()})


def join(window: Sliding | Unbounded = Unbounded()) -> WindowJoin:  # noqa: B008 - an immutable value
    return WindowJoin([AUCTION, BID], [["a.item"], ["b.item"]], [window, Unbounded()], pa.schema([*AUCTION, *BID]))


def opened(operator: Operator, ts: int, item: int) -> list[object]:
    """An auction opens; its item is a key, so a punctuation follows."""
    row = Row(ts, 0, {"a.item": item, "a.seller": "s"})
    return [
        *operator.on_batch(0, batch_of([row], AUCTION)),
        *operator.on_metadata(0, Punctuation.of(AUCTION.names, 0, 0, **{"a.item": constant(item)})),
    ]


def bid(operator: Operator, ts: int, item: int, bidder: int) -> list[object]:
    return list(operator.on_batch(1, batch_of([Row(ts, 0, {"b.item": item, "b.bidder": bidder})], BID)))


def closed(operator: Operator, item: int) -> list[object]:
    return list(operator.on_metadata(1, Punctuation.of(BID.names, 0, 0, **{"b.item": constant(item)})))


def stored(operator: WindowJoin) -> list[int]:
    return [side.num_rows for side in operator._rows]


def test_a_bid_is_discarded_right_after_it_has_joined() -> None:
    operator = join()
    opened(operator, 1, 180)
    assert len(rows_of(bid(operator, 2, 180, 5))) == 1
    assert stored(operator) == [1, 0]
    assert operator.counters()["purged_on_the_fly"] == 1


def test_an_auction_leaves_when_its_bids_are_closed_and_the_join_says_so() -> None:
    operator = join()
    opened(operator, 1, 180)
    opened(operator, 1, 181)
    bid(operator, 2, 180, 5)
    released = [mark for mark in closed(operator, 180) if isinstance(mark, Punctuation)]
    assert stored(operator) == [1, 0]
    assert {name for mark in released for name in mark.restricted} == {"a.item", "b.item"}
    assert all(pattern.matches(180) for mark in released for pattern in mark.restricted.values())


def test_each_value_is_announced_once() -> None:
    operator = join()
    opened(operator, 1, 180)
    first = closed(operator, 180)
    assert len(first) == 2  # once for each of the two equal columns
    assert closed(operator, 180) == []


def test_a_bid_for_an_auction_whose_window_has_passed_is_dropped_unprocessed() -> None:
    operator = join(Sliding(10))
    opened(operator, 1, 180)
    released = operator.on_metadata(1, Heartbeat(12))
    assert any(isinstance(mark, Punctuation) for mark in released)
    assert bid(operator, 12, 180, 5) == []
    assert operator.counters()["dropped"] == 1


def test_at_the_end_nothing_is_stored() -> None:
    operator = join()
    opened(operator, 1, 180)
    bid(operator, 2, 181, 5)
    for port in (0, 1):
        operator.on_metadata(port, Heartbeat(FOREVER))
    assert stored(operator) == [0, 0]


AUCTIONS = """
CREATE STREAM auction (item BIGINT, seller STRING, ts BIGINT, UNIQUE (item), WATERMARK ts DELAY OF 0) USING feed;
CREATE STREAM bid (item BIGINT, bidder BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) USING feed PUNCTUATIONS FROM mark;
CREATE CQ counts AS SELECT a.item, COUNT(*) AS bids FROM auction [Range 1000] a, bid b WHERE a.item = b.item GROUP BY a.item;
"""


def auctions(*items: tuple[int, int]) -> pa.RecordBatch:
    columns = {"item": [item for item, _ in items], "seller": ["s"] * len(items), "ts": [ts for _, ts in items]}
    return pa.RecordBatch.from_pydict(columns, pa.schema({"item": pa.int64(), "seller": pa.string(), "ts": pa.int64()}))


def bids(*items: tuple[int | None, int | None, int | None, str | None]) -> pa.RecordBatch:
    names = ("item", "bidder", "ts", "mark")
    columns = {name: [row[at] for row in items] for at, name in enumerate(names)}
    schema = pa.schema({"item": pa.int64(), "bidder": pa.int64(), "ts": pa.int64(), "mark": pa.string()})
    return pa.RecordBatch.from_pydict(columns, schema)


def test_g29_the_count_of_an_item_comes_as_soon_as_its_bids_are_closed() -> None:
    for shards in (1, 3):
        runner = LocalRunner(build_job(parse_application(AUCTIONS), shards), encode=True)
        runner.run({"auction": auctions((180, 1), (181, 2)), "bid": bids((180, 5, 3, None), (181, 7, 3, None), (180, 9, 4, None))})
        assert runner.collected.rows("counts") == []
        runner.run({"bid": bids((None, None, None, '{"item": 180}'))})
        assert runner.collected.rows("counts") == [{"item": 180, "bids": 2}]
        report = {name.rstrip("0123456789"): counters for name, counters in runner.report().items()}
        assert report["WindowJoin"]["state_rows"] == 1
        assert report["GroupBy"]["state_rows"] == 1
        runner.end()
        assert sorted(map(str, runner.collected.rows("counts"))) == ["{'item': 180, 'bids': 2}", "{'item': 181, 'bids': 1}"]


def test_a_punctuation_on_bidder_and_item_emits_nothing() -> None:
    runner = LocalRunner(build_job(parse_application(AUCTIONS), 2))
    runner.run({"auction": auctions((180, 1)), "bid": bids((180, 5, 3, None), (None, None, None, '{"item": 180, "bidder": 5}'))})
    assert runner.collected.rows("counts") == []
