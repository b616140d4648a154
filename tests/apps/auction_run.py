"""The auction application over sixty virtual seconds, and the rows it read: shared by the tests that judge its queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from penstock.apps.table import EXAMPLES
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.declarations import StreamDeclaration
from penstock.plan.catalog import Catalog
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

SECOND = 1_000_000
#: A fifth of the demo's rate: the same queries and the same kinds of rows in a fifth of the time.
RATE = 400
SECONDS = 60
SECONDS_PER_BATCH = 4
OPEN_ITEMS = 100

Row = dict[str, Any]


def application_text() -> str:
    text = EXAMPLES["auction"].file.read_text()
    assert text.count("rate '2000'") == 4
    return text.replace("rate '2000'", f"rate '{RATE}'")


def catalog(text: str = "") -> Catalog:
    return parse_application(text or application_text(), "auction")


def rows_of(stream: StreamDeclaration, start: int, stop: int) -> list[pa.RecordBatch]:
    """Rows between two seconds, one record batch per source partition."""
    feed = Playback.from_text(dict(stream.source.options))
    ranges = feed.ranges(start * RATE, stop * RATE)
    return [batch for rows in ranges for batch in feed.batches(rows, stream.schema.arrow)]


def plain_rows(stream: StreamDeclaration) -> Iterator[Row]:
    """Every row in time, punctuations left out, with its event time in microseconds as `us`."""
    newest: dict[int, int] = defaultdict(int)
    for start in range(0, SECONDS, SECONDS_PER_BATCH):
        promised = {part: us - stream.disorder for part, us in newest.items()}
        for batch in rows_of(stream, start, start + SECONDS_PER_BATCH):
            times = batch.column(stream.schema.index(stream.timestamp)).cast(pa.int64()).to_pylist()
            for row, us in zip(batch.to_pylist(), times, strict=True):
                if row.get("mark") is not None:
                    continue
                if us >= promised.get(row["part"], 0):
                    yield {**row, "us": us}
                newest[row["part"]] = max(newest[row["part"]], us)


def joins_of(job: Job, query: str) -> list[str]:
    """The joins that work for a query."""
    nodes = [node for stage in job.stages for node in stage.graph.nodes]
    return [node.id for node in nodes if node.id.startswith("WindowJoin") and query in node.queries]


@dataclass
class Played:
    """A finished run and what it was made of."""

    runner: LocalRunner
    rows: dict[str, list[Row]]
    #: Answers of each query before the streams ended.
    early: dict[str, int] = field(default_factory=dict)
    #: Rows that the joins of each query kept, batch by batch.
    join_rows: dict[str, list[int]] = field(default_factory=dict)

    @property
    def auctions(self) -> dict[int, Row]:
        return {row["item_id"]: row for row in self.rows["auction"]}

    @property
    def bids(self) -> list[Row]:
        return self.rows["bid"]

    def answers(self, query: str) -> list[Row]:
        return self.runner.collected.rows(query)

    def offers(self) -> Iterator[tuple[int, Row, Row]]:
        """(event time, auction, bid) of the join."""
        auctions = self.auctions
        for bid in self.bids:
            auction = auctions[bid["item_id"]]
            yield max(auction["us"], bid["us"]), auction, bid


def play(app: Catalog, joining: Sequence[str]) -> Played:
    """Run an application on its feeds, and watch the joins of some queries."""
    job = build_job(app, 2)
    runner = LocalRunner(job)
    played = Played(runner, {stream.name: list(plain_rows(stream)) for stream in app.streams.values()})
    played.join_rows = {query: [] for query in joining}
    for start in range(0, SECONDS, SECONDS_PER_BATCH):
        runner.run({stream.name: rows_of(stream, start, start + SECONDS_PER_BATCH) for stream in app.streams.values()})
        report = runner.report()
        for query in joining:
            played.join_rows[query].append(sum(report[join]["state_rows"] for join in joins_of(job, query)))
    played.early = {query: len(played.answers(query)) for query in app.queries}
    runner.end()
    return played


@cache
def whole_run() -> Played:
    """The application as it is."""
    return play(catalog(), ("bids_per_item", "bids_within_a_day", "bids_by_window_only", "talk_of_the_town"))
