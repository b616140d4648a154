"""The joins of the auction application against DuckDB over the same rows: with windows, with a window only, of four streams."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from auction_run import OPEN_ITEMS, RATE, SECOND, SECONDS, Played, Row, application_text, catalog, play, whole_run

from penstock.plan.analysis.safety import check

#: A pair has the time of its newer row, and lies in the windows of both.
PAIRS = """
SELECT a.item_id, b.price, greatest(a.us, b.us) AS us FROM auction a JOIN bid b
ON a.item_id = b.item_id AND abs(a.us - b.us) <= {window}
"""
#: A grouping over windows of some length begins anew with each of them.
PER_ITEM = "SELECT item_id, COUNT(*), MAX(price) FROM ({pairs}) GROUP BY item_id, us // {window}"
FOUR_STREAMS = """
SELECT a.item_id, g.category_name, MAX(b.price), COUNT(DISTINCT b.bidder), COUNT(DISTINCT c.author), MAX(c.stars)
FROM auction a JOIN bid b USING (item_id) JOIN comment c USING (item_id) JOIN category g USING (item_id)
GROUP BY a.item_id, g.category_name
"""
DAY, MINUTE = 24 * 3600 * SECOND, 60 * SECOND


@pytest.fixture(scope="module")
def played() -> Played:
    return whole_run()


def found_by_duckdb(played: Played, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, rows in played.rows.items():
            columns = [key for key in rows[0] if key not in ("ts", "opens", "mark")]
            connection.register(name, pa.Table.from_pydict({key: [row[key] for row in rows] for key in columns}))
        return sorted(connection.execute(sql).fetchall())


def values(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def test_a_window_of_a_day_changes_nothing_for_auctions_that_close_earlier(played: Played) -> None:
    expected = found_by_duckdb(played, PER_ITEM.format(pairs=PAIRS.format(window=DAY), window=DAY))
    assert len(expected) > 200
    assert values(played.answers("bids_within_a_day")) == expected
    assert values(played.answers("bids_per_item")) == expected


@pytest.mark.parametrize("query", ["bids_per_item", "bids_within_a_day", "talk_of_the_town"])
def test_items_are_reported_when_they_close_and_not_at_the_end(played: Played, query: str) -> None:
    still_open = OPEN_ITEMS + 10
    assert played.early[query] >= len(played.answers(query)) - still_open
    assert played.early[query] > 100


@pytest.mark.parametrize("seconds", [0, 3, 20])
def test_a_window_shorter_than_auctions_is_exact_too(seconds: int) -> None:
    """Auctions are open for 25 seconds on average at this rate, so windows decide, or punctuations, whichever is first."""
    streams = application_text().partition("-- People talk")[0]
    window = seconds * SECOND
    pairs = f"""
    CREATE CQ pairs AS SELECT a.item_id, b.price FROM auction a [RANGE {seconds} SECONDS], bid b [RANGE {seconds} SECONDS]
    WHERE a.item_id = b.item_id OUTPUT TO memory;"""
    short = play(catalog(streams + pairs), ["pairs"])
    expected = found_by_duckdb(short, f"SELECT item_id, price FROM ({PAIRS.format(window=window)})")
    assert values(short.answers("pairs")) == expected
    assert max(short.join_rows["pairs"]) <= 1.5 * OPEN_ITEMS


def test_a_window_only_finds_the_same_pairs(played: Played) -> None:
    by_window = f"""
    SELECT us - us % {5 * SECOND}, item_id, COUNT(*), MAX(price) FROM ({PAIRS.format(window=MINUTE)})
    GROUP BY item_id, us - us % {5 * SECOND}"""
    answers = [{**row, "since": round(row["since"].timestamp() * SECOND)} for row in played.answers("bids_by_window_only")]
    assert values(answers) == found_by_duckdb(played, by_window)
    assert sum(row["bids"] for row in answers) == sum(row["bids"] for row in played.answers("bids_within_a_day"))


def test_punctuations_keep_open_auctions_where_the_window_keeps_every_row(played: Played) -> None:
    lean, full = played.join_rows["bids_within_a_day"], played.join_rows["bids_by_window_only"]
    assert max(lean) <= 1.5 * OPEN_ITEMS
    # A window of a minute has forgotten nothing after a minute.
    assert full[-1] == len(played.rows["auction"]) + len(played.bids) > 0.95 * RATE * SECONDS
    assert full[-1] > 100 * lean[-1]


def test_four_streams_are_joined_as_duckdb_joins_them(played: Played) -> None:
    expected = found_by_duckdb(played, FOUR_STREAMS)
    assert len(expected) > 100
    assert values(played.answers("talk_of_the_town")) == expected


def test_the_join_of_four_streams_keeps_rows_of_open_items_only(played: Played) -> None:
    """A bid waits for comments until its item closes; a closed item leaves with all its rows. The first close after 25 seconds."""
    kept = played.join_rows["talk_of_the_town"]
    seen = sum(map(len, played.rows.values()))
    assert max(kept[-5:]) < seen / 4
    assert max(kept[-2:]) < max(kept) / 2


@pytest.mark.parametrize("query", ["bids_per_item", "bids_within_a_day", "bids_by_window_only", "talk_of_the_town"])
def test_every_join_is_proven_bounded(query: str) -> None:
    verdicts = {verdict.query: verdict for verdict in check(catalog()).verdicts}
    assert verdicts[query].is_bounded


def test_four_streams_need_the_announcements_of_bids_and_of_comments() -> None:
    for stream in ("bid", "comment"):
        begin, found, rest = application_text().partition(f"CREATE STREAM {stream} ")
        text = begin + found + rest.replace("PUNCTUATIONS FROM mark ON (item_id)", "", 1)
        report = check(catalog(text), with_remedies=False)
        assert "talk_of_the_town" in {verdict.query for verdict in report.verdicts if not verdict.is_bounded}
