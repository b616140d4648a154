"""What `CREATE STREAM` declares."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.model.declarations import (
    Constraint,
    ConstraintKind,
    Destination,
    EmbeddedPunctuations,
    RowPolicy,
    Source,
    StreamDeclaration,
)
from penstock.model.schema import TIMESTAMP, Field

FULL = """
/* everything a stream can say,
   in one statement */
create stream bid (
  item_id BIGINT NOT NULL, bidder LONG, price DOUBLE, at TIMESTAMP, mark STRING, part INT, off BIGINT, note VARCHAR(20),
  UNIQUE (Item_ID), CLUSTERED (bidder), ORDERED (off),
  WATERMARK at DELAY OF INTERVAL 5 SECONDS  -- Spark's words
)
USING Feed OPTIONS (workload 'auction.bid', rate 1000, 'a b' = 'c', kafka.bootstrap.servers = 'host:9092', seed -7, fast true)
PUNCTUATIONS FROM mark GLOBAL
ON BAD PUNCTUATION SKIP
PARTITIONED BY part POSITION off INTO 12 PARTITIONS
IDLE AFTER INTERVAL 1 MINUTE 30 SECONDS
ON LATE ROWS ERROR
ON BAD ROWS ERROR
ON VIOLATION TRUST;
"""


def stream(text: str) -> StreamDeclaration:
    return next(iter(parse_application(text).streams.values()))


def test_every_clause_is_kept() -> None:
    bid = stream(FULL)
    assert bid.schema.fields[:2] == (Field("item_id", pa.int64(), nullable=False), Field("bidder", pa.int64()))
    assert bid.schema["note"].type == pa.string()
    options = {
        "workload": "auction.bid",
        "rate": "1000",
        "a b": "c",
        "kafka.bootstrap.servers": "host:9092",
        "seed": "-7",
        "fast": "true",
    }
    assert bid.source == Source("feed", options)
    assert (bid.timestamp, bid.disorder, bid.has_clock_time, bid.arrival_time) == ("at", 5_000_000, True, False)
    assert bid.constraints == (
        Constraint(ConstraintKind.UNIQUE, "item_id"),
        Constraint(ConstraintKind.CLUSTERED, "bidder"),
        Constraint(ConstraintKind.ORDERED, "off"),
    )
    assert bid.punctuations == EmbeddedPunctuations("mark", is_global=True, on_bad=RowPolicy.QUARANTINE)
    assert (bid.partition_column, bid.position_column) == ("part", "off")
    assert bid.partitions == bid.known_partitions == 12
    assert bid.idle_us == 90_000_000
    assert (bid.on_late, bid.on_bad, bid.on_violation) == (RowPolicy.ERROR, RowPolicy.ERROR, RowPolicy.TRUST)


def test_partitions_are_known_where_the_source_or_the_declaration_says_so() -> None:
    columns = "(k BIGINT, part INT, ts BIGINT, WATERMARK ts DELAY OF 0)"
    assert stream(f"CREATE STREAM s {columns}").known_partitions == 1
    assert stream(f"CREATE STREAM s {columns} USING kafka PARTITIONED BY part").known_partitions == 0
    assert stream(f"CREATE STREAM s {columns} USING kafka PARTITIONED BY part INTO 3 PARTITIONS").known_partitions == 3
    fed = "USING feed OPTIONS (workload 'pairs', partitions 4)"
    assert stream(f"CREATE STREAM s {columns} {fed} PARTITIONED BY part").known_partitions == 4
    assert stream(f"CREATE STREAM s {columns} {fed} PARTITIONED BY k").known_partitions == 0


def test_without_clauses_rows_come_from_the_program_and_carry_their_arrival_time() -> None:
    plain = stream("CREATE STREAM plain (a INT)")
    assert plain.source == Source("")
    assert plain.schema.names == ("a", "ts")
    assert plain.schema["ts"].type == TIMESTAMP
    assert (plain.timestamp, plain.disorder, plain.arrival_time, plain.idle_us) == ("ts", 0, True, None)
    assert (plain.on_late, plain.on_bad) == (RowPolicy.QUARANTINE, RowPolicy.QUARANTINE)
    assert plain.on_violation == RowPolicy.ERROR


def test_an_integer_attribute_can_be_time() -> None:
    packets = stream("CREATE STREAM packets (seq BIGINT, WATERMARK seq DELAY OF 16)")
    assert (packets.timestamp, packets.disorder, packets.has_clock_time) == ("seq", 16, False)


@pytest.mark.parametrize("word", ["watermark", "unique", "ordered", "time", "event", "range", "output", "stream", "position"])
def test_words_of_the_language_are_still_names_of_columns(word: str) -> None:
    declaration = f"CREATE STREAM s ({word} BIGINT, at BIGINT, WATERMARK at DELAY OF 0);"
    text = f"{declaration} CREATE CQ q AS SELECT s.{word} FROM s WHERE {word} > 1"
    assert parse_application(text).queries["q"].plan.schema.names == (word,)


def test_quoted_names_hold_any_character() -> None:
    catalog = parse_application("CREATE STREAM s (`the key` BIGINT); CREATE CQ q AS SELECT `the key` FROM s")
    assert catalog.queries["q"].plan.schema.names == ("the key",)


def test_destinations_keep_their_options() -> None:
    text = "CREATE STREAM s (a INT); CREATE CQ q AS SELECT a FROM s OUTPUT TO memory, callable OPTIONS (function 'm:f')"
    query = parse_application(text).queries["q"]
    assert query.destinations == (Destination("memory"), Destination("callable", {"function": "m:f"}))


def test_the_same_text_gives_the_same_catalog() -> None:
    assert parse_application(FULL) == parse_application(FULL)
