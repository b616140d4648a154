"""The Nexmark application: every query against DuckDB over the same events, proven bounded, and flat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from penstock.apps.table import EXAMPLES
from penstock.cli import app
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.declarations import StreamDeclaration
from penstock.plan.analysis.safety import check
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

#: Fewer events than the demo, and people and auctions that finish sooner: the same kinds of rows in less time.
SMALLER = {"rate '2500'": "rate '1000'", "in_flight '500'": "in_flight '100', active_people '150'"}
TICKS_PER_BATCH = 2_000
BATCHES = 40

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


def catalog(marks: str = "range") -> Catalog:
    text = EXAMPLES["nexmark"].file.read_text()
    for before, after in SMALLER.items():
        assert text.count(before) == 3
        text = text.replace(before, after)
    return parse_application(text.replace("marks 'range'", f"marks '{marks}'"), "nexmark")


def rows_of(stream: StreamDeclaration, start: int, stop: int) -> list[pa.RecordBatch]:
    feed = Playback.from_text(dict(stream.source.options))
    return [batch for rows in feed.ranges(start, stop) for batch in feed.batches(rows, stream.schema.arrow)]


def in_micros(table: pa.Table) -> pa.Table:
    """Timestamps as numbers: easy to compare, and free of time zones."""
    for at, item in enumerate(table.schema):
        if pa.types.is_timestamp(item.type):
            table = table.set_column(at, item.name, table.column(at).cast(pa.int64()))
    return table


@dataclass
class Played:
    """A finished run, the rows it read and the state it kept after each micro-batch, by operator."""

    runner: LocalRunner
    tables: dict[str, pa.Table]
    state: list[dict[str, int]] = field(default_factory=list)

    def answers(self, query: str) -> list[tuple[Any, ...]]:
        batches = [batch.rows for batch in self.runner.collected.answers[query]]
        return sorted(zip(*in_micros(pa.Table.from_batches(batches)).to_pydict().values(), strict=True))

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            for name, table in self.tables.items():
                connection.register(name, table)
            connection.execute(WINNERS)
            return sorted(connection.execute(REFERENCE[query]).fetchall())


def play(application: Catalog, batches: int, shards: int = 2) -> Played:
    runner = LocalRunner(build_job(application, shards))
    read: dict[str, list[pa.RecordBatch]] = {name: [] for name in application.streams}
    played = Played(runner, {})
    for start in range(0, batches * TICKS_PER_BATCH, TICKS_PER_BATCH):
        inputs = {stream.name: rows_of(stream, start, start + TICKS_PER_BATCH) for stream in application.streams.values()}
        for name, pieces in inputs.items():
            read[name] += pieces
        runner.run(inputs)
        played.state.append({name: found["state_rows"] for name, found in runner.report().items() if "state_rows" in found})
    runner.end()
    for name, pieces in read.items():
        table = pa.Table.from_batches(pieces)
        is_data = pc.is_null(table.column("mark")) if "mark" in table.column_names else None
        played.tables[name] = in_micros(table if is_data is None else table.filter(is_data))
    return played


@pytest.fixture(scope="module")
def played() -> Played:
    return play(catalog(), BATCHES)


@pytest.mark.parametrize("query", list(REFERENCE))
def test_a_query_answers_what_duckdb_finds_in_the_whole_of_its_streams(played: Played, query: str) -> None:
    expected = played.expected(query)
    assert len(expected) > 5
    answers = played.answers(query)
    if query == "q4":  # averages: DuckDB adds in another order
        assert answers == [(*row[:2], pytest.approx(row[2]), row[3]) for row in expected]
    else:
        assert answers == expected


def test_no_row_is_refused_and_every_row_is_accounted_for(played: Played) -> None:
    assert played.runner.collected.refused == []
    entries = [counts for counts in played.runner.report().values() if counts.get("read")]
    assert len(entries) >= 6
    for counts in entries:
        assert counts["read"] == counts["used"] + counts["filtered"]


def test_state_stays_flat(played: Played) -> None:
    """Largest state of each operator towards the end of the first and of the last quarter of the run."""
    quarter = BATCHES // 4
    assert played.tables["bid"].num_rows > 70_000
    for operator in played.state[-1]:
        early = max(state[operator] for state in played.state[quarter // 2 : quarter])
        late = max(state[operator] for state in played.state[-quarter // 2 :])
        assert late <= 1.5 * early + 10, operator
    # The joins of q9 and q20 keep auctions within the reach of bids and little else.
    joins = [name for name in played.state[-1] if name.startswith("WindowJoin")]
    assert len(joins) == 4
    assert all(max(state[name] for state in played.state) < 400 for name in joins)


def test_lists_of_closed_auctions_do_the_same_as_ranges(played: Played) -> None:
    listed = play(catalog("constant"), 12, shards=3)
    for query in ("q3", "q9", "q20"):
        assert listed.answers(query) == listed.expected(query)
    joins = [name for name in listed.state[-1] if name.startswith("WindowJoin")]
    assert all(listed.state[-1][name] < 400 for name in joins)


def test_a_winner_is_reported_as_soon_as_its_auction_is_out_of_reach() -> None:
    runner = LocalRunner(build_job(catalog(), 1))
    streams = catalog().streams.values()
    for start in range(0, 8 * TICKS_PER_BATCH, TICKS_PER_BATCH):
        runner.run({stream.name: rows_of(stream, start, start + TICKS_PER_BATCH) for stream in streams})
    # 16,000 events are 940 auctions, of which the last hundred are within reach.
    assert max(row["id"] for row in runner.collected.rows("q9")) > 1_000 + 940 - 100 - 40


def test_penstock_check_calls_every_query_bounded() -> None:
    result = CliRunner().invoke(app, ["check", "nexmark"])
    assert result.exit_code == 0, result.stdout
    for query in REFERENCE:
        assert f"query {query}\n" in result.stdout
    assert "UNBOUNDED" not in result.stdout


@pytest.mark.parametrize(
    ("missing", "queries"),
    [
        ("PUNCTUATIONS FROM mark ON (auction)", {"q9", "q4", "q20"}),
        ("PUNCTUATIONS FROM mark ON (seller)", {"q3"}),
    ],
)
def test_without_its_declarations_a_query_is_not_bounded(missing: str, queries: set[str]) -> None:
    text = EXAMPLES["nexmark"].file.read_text()
    assert missing in text
    report = check(parse_application(text.replace(missing, ""), "nexmark"), with_remedies=False)
    assert {verdict.query for verdict in report.verdicts if not verdict.is_bounded} >= queries - {"q4"}
