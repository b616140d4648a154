"""The Nexmark application on fewer events, and what DuckDB finds in them: shared by the tests in process and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.apps.table import EXAMPLES
from penstock.model.declarations import StreamDeclaration
from penstock.workloads.playback import Playback

#: Fewer events than the demo, and people and auctions that finish sooner: the same kinds of rows in less time.
SMALLER = {"rate '2500'": "rate '1000'", "in_flight '500'": "in_flight '100', active_people '150'"}
#: Times are microseconds. The event time of an answer is that of its newest row, which for q9 is the last bid in time.
REFERENCE = {
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
             WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q9": """SELECT id, item_name, seller, category, reserve, expires, bidder, price, bid_time FROM winners""",
    "q4": """SELECT newest - newest % 10000000 AS since, category, AVG(price), COUNT(*) FROM winners GROUP BY ALL""",
    "q7": """SELECT since, price, auction, bidder FROM (
               SELECT date_time - date_time % 10000000 AS since, price, auction, bidder,
                      row_number() OVER (PARTITION BY date_time // 10000000 ORDER BY price DESC, date_time, auction) AS place
               FROM bid) WHERE place = 1""",
    "q8": """SELECT p.date_time - p.date_time % 10000000 AS since, p.id, p.name, COUNT(*) FROM person p JOIN auction a
             ON p.id = a.seller AND p.date_time // 10000000 = a.date_time // 10000000 GROUP BY ALL""",
    "q20": """SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, a.item_name, a.description, a.initial_bid,
              a.reserve, a.date_time AS begins, a.expires, a.seller, a.category
              FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
}
WINNERS = """
CREATE VIEW winners AS SELECT * FROM (
  SELECT a.*, b.bidder, b.price, b.date_time AS bid_time, MAX(b.date_time) OVER (PARTITION BY a.id) AS newest,
         row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
) WHERE place = 1"""


def application_text(marks: str = "range") -> str:
    text = EXAMPLES["nexmark"].file.read_text()
    for before, after in SMALLER.items():
        assert text.count(before) == 3
        text = text.replace(before, after)
    return text.replace("marks 'range'", f"marks '{marks}'")


def rows_of(stream: StreamDeclaration, start: int, stop: int) -> list[pa.RecordBatch]:
    feed = Playback.from_text(dict(stream.source.options))
    return [batch for rows in feed.ranges(start, stop) for batch in feed.batches(rows, stream.schema.arrow)]


def in_micros(table: pa.Table) -> pa.Table:
    """Timestamps as numbers: easy to compare, and free of time zones."""
    for at, item in enumerate(table.schema):
        if pa.types.is_timestamp(item.type):
            table = table.set_column(at, item.name, table.column(at).cast(pa.int64()))
    return table


def data_of(table: pa.Table) -> pa.Table:
    """The rows that are no punctuations."""
    return in_micros(table.filter(pc.is_null(table.column("mark"))) if "mark" in table.column_names else table)


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*in_micros(table).to_pydict().values(), strict=True))


def expected(query: str, tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """What DuckDB finds in the whole of the streams."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        connection.execute(WINNERS)
        return sorted(connection.execute(REFERENCE[query]).fetchall())
