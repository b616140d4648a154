"""max_by and min_by as people write them: parsed, typed, run, and refused where they mean nothing."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from penstock.errors import InvalidPlan, SyntaxMistake, TypeMistake, UserError
from penstock.expressions.aggregates import AggregateCall, result_type
from penstock.expressions.nodes import Call, Column
from penstock.expressions.parse import split_aggregates
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.schema import TIMESTAMP, Schema
from penstock.runners.local.runner import LocalRunner

STREAM = """
CREATE STREAM bid (item BIGINT, bidder STRING, price BIGINT, ts BIGINT, CLUSTERED (item), WATERMARK ts DELAY OF 0);
"""
BIDS = {
    "item": [1, 1, 1, 1, 2, 2],
    "bidder": ["ann", "bob", "cid", "dan", "eve", None],
    "price": [5, 9, 9, None, 3, 4],
    "ts": [1, 2, 3, 4, 5, 6],
}


def call(text: str) -> AggregateCall:
    (found,) = split_aggregates(sqlglot.parse_one(text, read="spark"))[1]
    return found


def answers(select: str, shards: int = 2) -> list[dict[str, object]]:
    runner = LocalRunner(build_job(parse_application(STREAM + f"CREATE CQ q AS {select};"), shards))
    runner.run({"bid": pa.RecordBatch.from_pydict(BIDS)})
    runner.end()
    return sorted(runner.collected.rows("q"), key=str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_by(a, b)", AggregateCall("max_by", Column("a"), order=(Column("b"),))),
        ("MIN_BY(a, b)", AggregateCall("min_by", Column("a"), order=(Column("b"),))),
        ("max_by(a, struct(b, c))", AggregateCall("max_by", Column("a"), order=(Column("b"), Column("c")))),
        ("min_by(a, struct(-b, c))", AggregateCall("min_by", Column("a"), order=(Call("neg", (Column("b"),)), Column("c")))),
        (
            "max_by(a, b) FILTER (WHERE c)",
            AggregateCall("max_by", Column("a"), order=(Call("case", (Column("c"), Column("b"))),)),
        ),
    ],
)
def test_choosing_aggregates_are_read_as_in_spark(text, expected):
    assert call(text) == expected


def test_the_column_is_named_as_it_is_written():
    assert call("max_by(a, struct(b, c))").name == "max_by(a, struct(b, c))"


@pytest.mark.parametrize("text", ["max_by(a)", "max_by(a, b, 3)", "max_by(DISTINCT a, b)", "max_by(max(a), b)", "max_by(*, b)"])
def test_what_orders_nothing_is_refused(text):
    with pytest.raises(UserError):
        call(text)


def test_a_struct_stands_in_an_order_only():
    with pytest.raises(SyntaxMistake):
        parse_application(STREAM + "CREATE CQ q AS SELECT struct(item, price) AS pair FROM bid;")


def test_an_order_belongs_to_choosing_aggregates_and_to_them_alone():
    with pytest.raises(InvalidPlan, match="a value and what orders it"):
        AggregateCall("max_by", Column("a"))
    with pytest.raises(InvalidPlan, match="one argument"):
        AggregateCall("max", Column("a"), order=(Column("b"),))


def test_the_result_has_the_type_of_the_value_and_the_order_must_be_comparable():
    schema = Schema.of(a=TIMESTAMP, b=pa.int64(), c=pa.list_(pa.int64()))
    assert result_type(AggregateCall("max_by", Column("a"), order=(Column("b"),)), schema) == TIMESTAMP
    with pytest.raises(TypeMistake, match="can be compared"):
        result_type(AggregateCall("max_by", Column("a"), order=(Column("c"),)), schema)


@pytest.mark.parametrize("shards", [1, 3])
def test_the_winning_bid_of_each_item_is_found_when_the_item_closes(shards):
    select = """SELECT item, min_by(bidder, struct(-price, ts)) AS bidder, MAX(price) AS price, min_by(ts, struct(-price, ts)) AS at
                FROM bid GROUP BY item"""
    assert answers(select, shards) == [
        {"item": 1, "bidder": "bob", "price": 9, "at": 2},
        {"item": 2, "bidder": None, "price": 4, "at": 6},
    ]


def test_a_filter_and_having_work_on_chosen_values():
    select = (
        "SELECT item, max_by(bidder, price) FILTER (WHERE price < 9) AS bidder FROM bid GROUP BY item HAVING max_by(ts, price) < 5"
    )
    assert answers(select) == [{"item": 1, "bidder": "ann"}]


def test_windows_share_partial_choices_and_duckdb_agrees():
    found = answers(
        "SELECT window_start() AS since, max_by(bidder, price) AS bidder FROM bid [RANGE 4, ADVANCE 2] WHERE price IS NOT NULL"
    )
    with duckdb.connect() as connection:
        connection.register("bid", pa.table(BIDS))
        rows = connection.execute(
            """SELECT since, arg_max_null(bidder, (price, bidder)) FROM bid, (SELECT unnest([-2, 0, 2, 4, 6]) AS since)
               WHERE ts >= since AND ts < since + 4 AND price IS NOT NULL GROUP BY since"""
        ).fetchall()
    assert sorted((row["since"], row["bidder"]) for row in found) == sorted(rows, key=str)
