"""The Nexmark application: every query against DuckDB over the same events, proven bounded, and flat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from nexmark_reference import REFERENCE, application_text, data_of, expected, rows_of, tuples
from typer.testing import CliRunner

from penstock.apps.table import EXAMPLES
from penstock.cli import app
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.plan.analysis.safety import check
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner

TICKS_PER_BATCH = 3_000
BATCHES = 24


def catalog(marks: str = "range") -> Catalog:
    return parse_application(application_text(marks), "nexmark")


@dataclass
class Played:
    """A finished run, the rows it read and the state it kept after each micro-batch, by operator."""

    runner: LocalRunner
    tables: dict[str, pa.Table]
    state: list[dict[str, int]] = field(default_factory=list)

    def answers(self, query: str) -> list[tuple[Any, ...]]:
        return tuples(pa.Table.from_batches([batch.rows for batch in self.runner.collected.answers[query]]))


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
    played.tables = {name: data_of(pa.Table.from_batches(pieces)) for name, pieces in read.items()}
    return played


@pytest.fixture(scope="module")
def played() -> Played:
    return play(catalog(), BATCHES)


@pytest.mark.parametrize("query", list(REFERENCE))
def test_a_query_answers_what_duckdb_finds_in_the_whole_of_its_streams(played: Played, query: str) -> None:
    found = expected(query, played.tables)
    assert len(found) > 5
    if query == "q4":  # averages: DuckDB adds in another order
        found = [(*row[:2], pytest.approx(row[2]), row[3]) for row in found]
    assert played.answers(query) == found


def test_no_row_is_refused_and_every_row_is_accounted_for(played: Played) -> None:
    assert played.runner.collected.refused == []
    entries = [counts for counts in played.runner.report().values() if counts.get("read")]
    assert len(entries) >= 6
    for counts in entries:
        assert counts["read"] == counts["used"] + counts["filtered"]


def test_state_stays_flat(played: Played) -> None:
    """Largest state of each operator towards the end of the first and of the last quarter of the run."""
    quarter = BATCHES // 4
    assert played.tables["bid"].num_rows > 60_000
    for operator in played.state[-1]:
        early = max(state[operator] for state in played.state[quarter // 2 : quarter])
        late = max(state[operator] for state in played.state[-quarter // 2 :])
        assert late <= 1.5 * early + 10, operator
    # The joins of q9 and q20 keep auctions within the reach of bids and little else.
    joins = [name for name in played.state[-1] if "Join" in name]
    assert len(joins) == 4
    assert all(max(state[name] for state in played.state) < 400 for name in joins)


def test_lists_of_closed_auctions_do_the_same_as_ranges() -> None:
    listed = play(catalog("constant"), 6, shards=3)
    for query in ("q3", "q9", "q20"):
        assert listed.answers(query) == expected(query, listed.tables)
    joins = [name for name in listed.state[-1] if "Join" in name]
    assert all(listed.state[-1][name] < 400 for name in joins)


def test_a_winner_is_reported_as_soon_as_its_auction_is_out_of_reach() -> None:
    runner = LocalRunner(build_job(catalog(), 1))
    streams = catalog().streams.values()
    for start in range(0, 4 * TICKS_PER_BATCH, TICKS_PER_BATCH):
        runner.run({stream.name: rows_of(stream, start, start + TICKS_PER_BATCH) for stream in streams})
    # 12,000 events are 705 auctions, of which the last hundred are within reach.
    assert max(row["id"] for row in runner.collected.rows("q9")) > 1_000 + 705 - 100 - 40


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
