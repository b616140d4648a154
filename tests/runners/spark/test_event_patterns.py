"""Event patterns on Spark: the answers of the same text in process, ps.match on DataFrames, restarts in mid-match, the demos."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import answers, bag, json_lines, run_to_the_end, write_files
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
from penstock.apps.table import EXAMPLES
from penstock.model.schema import TIMESTAMP
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.processes.session import clone_session
from penstock.testing.undisturbed import undisturbed

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[3] / "docs" / "event_patterns.md"
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema({"type": pa.string(), "id": pa.int64(), "price": pa.float64(), "n": pa.int64(), "ts": TIMESTAMP})
COLUMNS = "id BIGINT, price DOUBLE, n BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 3 SECONDS"
FILES = 4
#: A minute of orders and a hundred seconds of trades, in two micro-batches.
PACE = "total '6000', rows_per_batch '3000'"

STREAMS = """
CREATE STREAM events (type STRING, {columns}) USING json OPTIONS (path '{folder}/events', maxFilesPerTrigger '1');
CREATE STREAM Quote ({columns}) USING parquet OPTIONS (path '{folder}/Quote', maxFilesPerTrigger '1');
CREATE STREAM Cancel ({columns}) USING parquet OPTIONS (path '{folder}/Cancel', maxFilesPerTrigger '1');
"""
QUERIES = {
    "risen": "EVENT SEQ(Quote q, Order o) FROM events WHERE [id] AND o.price > q.price WITHIN 10 seconds",
    "taken": """EVENT SEQ(Quote q, !(Cancel c), Order o) FROM events WHERE [id] AND skip-till-next-match
        WITHIN 20 seconds RETURN q.price, o.price, o.n - q.n AS apart, match_start, match_end""",
    "runs": """EVENT SEQ(Quote+ q[], Order o) FROM events WHERE [id] AND skip-till-next-match AND q[i].price > q[i-1].price
        WITHIN 15 seconds RETURN count(q) AS quotes, max(q.price) AS top, o.price""",
    "broken": "EVENT SEQ(Quote q, Cancel c) WHERE [id] AND c.price < q.price WITHIN 10 seconds RETURN EVENTS",
    "silent": "EVENT SEQ(Quote q, !(Order o)) FROM events WHERE [id] WITHIN 4 seconds RETURN q.n",
    "counted": "SELECT id, count(*) AS n, window_start() FROM taken [RANGE 20 SECONDS] GROUP BY id",
}


def events(seed: int, rows: int = 240) -> list[dict[str, Any]]:
    """Times run back by less than the bound; some events have no price, and some a type nobody asks for."""
    rng = random.Random(seed)
    times = sorted((rng.randrange(0, 90_000) for _ in range(rows)), key=lambda time: time + rng.randrange(2_900))
    return [
        {
            "type": rng.choice(["Quote", "Quote", "Order", "Cancel", "Visit"]),
            "id": rng.randrange(5),
            "price": rng.choice([1.0, 2.5, 4.0, None]),
            "n": number,
            "ts": START + timedelta(milliseconds=time),
        }
        for number, time in enumerate(times)
    ]


def written_streams(folder: Path, rows: list[dict[str, Any]]) -> tuple[str, Mapping[str, pa.RecordBatch]]:
    """Streams over the rows, in files of two kinds; and the same rows for the runner in process."""
    parts = {"events": rows, **{kind: [row for row in rows if row["type"] == kind] for kind in ("Quote", "Cancel")}}
    tables = {}
    for name, part in parts.items():
        size = -(-len(part) // FILES)
        pieces = [part[at * size : (at + 1) * size] for at in range(FILES)]
        if name == "events":
            write_files(folder / name, "json", [json_lines(piece) for piece in pieces])
        else:
            write_files(folder / name, "parquet", [pa.Table.from_pylist(piece, SCHEMA.remove(0)) for piece in pieces])
        tables[name] = pa.RecordBatch.from_pylist(part, SCHEMA if name == "events" else SCHEMA.remove(0))
    return STREAMS.format(columns=COLUMNS, folder=folder), tables


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died between the sinks and the commit log."""
    commits = checkpoint / "spark" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    return last


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = clone_session(spark)
    own.conf.set("spark.sql.shuffle.partitions", "3")
    return own


class Kept:
    """Answers by query and micro-batch: one that is repeated after a restart has its number and counts once."""

    def __init__(self) -> None:
        self.batches: dict[str, dict[int, list[Any]]] = {name: {} for name in QUERIES}
        self.repeated: dict[str, list[tuple[list[Any], list[Any]]]] = {name: [] for name in QUERIES}

    @property
    def functions(self) -> dict[str, Callable[[int, pa.Table], None]]:
        return {query: partial(self._keep, query) for query in self.batches}

    def _keep(self, query: str, epoch: int, rows: pa.Table) -> None:
        if epoch in self.batches[query]:
            self.repeated[query].append((self.batches[query][epoch], rows.to_pylist()))
        self.batches[query][epoch] = rows.to_pylist()

    def rows(self, query: str) -> list[Any]:
        return [row for rows in self.batches[query].values() for row in rows]


def test_a_restart_in_mid_match_changes_no_answer_of_any_event_query(spark: SparkSession, tmp_path: Path) -> None:
    kept, (streams, tables) = Kept(), written_streams(tmp_path, events(1))
    text = streams + "".join(f"CREATE CQ {name} AS {query} OUTPUT TO callable;\n" for name, query in QUERIES.items())
    app, checkpoint, later = App.from_text(text, functions=kept.functions), tmp_path / "checkpoint", tmp_path / "later"
    for name in tables:  # half of the files come after the restart
        for number in range(FILES // 2, FILES):
            (later / name).mkdir(parents=True, exist_ok=True)
            for path in (tmp_path / name).glob(f"{number}.*"):
                path.rename(later / name / path.name)
    first = app.start(checkpoint, spark=spark, shards=3)
    first.process_all_available()
    first.stop()
    assert first.reports()[-1].state_rows > 20, "too little is half complete to prove anything"
    last = forget_last_commit(checkpoint)
    for name in tables:
        for path in sorted((later / name).iterdir()):
            path.rename(tmp_path / name / path.name)
    second = app.start(checkpoint, spark=spark)
    second.process_all_available()
    second.end()
    local = undisturbed(text, tables)
    for name in QUERIES:
        assert local.collected.rows(name), f"{name} has no answers, so it proves nothing"
        assert bag(kept.rows(name)) == bag(local.collected.rows(name)), name
    assert any(before for pairs in kept.repeated.values() for before, _ in pairs), f"nothing was answered in micro-batch {last}"
    for pairs in kept.repeated.values():
        assert all(bag(before) == bag(after) for before, after in pairs)


def demos() -> str:
    """Orders and stocks as one application, over a fixed number of rows."""
    orders, stocks = (EXAMPLES[name].file.read_text().replace("max_rows_per_batch '5000'", PACE) for name in ("orders", "stocks"))
    # Both put times into sentences.
    clock = stocks[stocks.index("CREATE FUNCTION clock") : stocks.index("CREATE FUNCTION money")]
    assert clock in orders
    return orders + stocks.replace(clock, "")


def test_the_demos_say_on_spark_what_they_say_in_process(spark: SparkSession, tmp_path: Path) -> None:
    text = demos()
    run = run_to_the_end(text, spark, tmp_path / "checkpoint", shards=2)
    local = undisturbed(text).collected
    for query, column in (("alerts", "alert"), ("news", "sentence")):
        told = [row[column] for row in answers(run, query)]
        assert sorted(told) == sorted(row[column] for row in local.rows(query))
        assert len(told) > 10, "too little is said to prove anything"
    assert run.reports()[-1].state_rows == 0
    reasons = sorted((each.reason, each.text) for each in local.refused for _ in range(each.batch.num_rows))
    refused = pq.read_table(run.quarantine).select(["reason", "text"]).to_pylist()
    assert sorted(tuple(row.values()) for row in refused) == reasons
    assert {reason for reason, _ in reasons} == {"constraint_violated"}


def stream_of(session: SparkSession, folder: Path, columns: str) -> DataFrame:
    frame = session.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(str(folder))
    return frame.withWatermark("ts", "3 seconds")


def collected(frame: DataFrame, checkpoint: Path, name: str) -> list[dict[str, Any]]:
    query = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return frame.sparkSession.sql(f"SELECT * FROM {name}").toArrow().to_pylist()


def documented_matches(orders: DataFrame) -> dict[str, Any]:
    """What the page on event patterns makes of a DataFrame."""
    names: dict[str, Any] = {"orders": orders}
    exec(PAGE.read_text().split("```python\nimport penstock as ps\n")[1].split("```")[0], {"ps": ps, **names}, names)
    return names


def test_patterns_match_on_one_data_frame_as_text_and_on_several_as_objects(session: SparkSession, tmp_path: Path) -> None:
    # A last event far later lets event time pass all others.
    late = START + timedelta(hours=1)
    rows = [
        *events(2, 150),
        *({"type": kind, "id": 0, "price": None, "n": 999, "ts": late} for kind in ("Visit", "Quote", "Cancel")),
    ]
    streams, tables = written_streams(tmp_path, rows)
    dropped = "EVENT SEQ(Quote q, Cancel c) WHERE [id] AND c.price < q.price WITHIN 10 seconds RETURN q.n, c.price AS low"
    local = undisturbed(f"{streams} CREATE CQ taken AS {QUERIES['taken']}; CREATE CQ dropped AS {dropped}", tables).collected
    plain = "id BIGINT, price DOUBLE, n BIGINT, ts TIMESTAMP"
    as_text = ps.match(
        stream_of(session, tmp_path / "events", f"type STRING, {plain}"),
        QUERIES["taken"].replace("FROM events", "").replace("[id] AND", ""),
        by="id",
        constraints="NEVER(Refund)",
    )
    as_object = ps.match(
        {
            kind: ps.stream(ps.parquet(session, tmp_path / kind, plain, maxFilesPerTrigger=1), time="ts", disorder="3 seconds")
            for kind in ("Quote", "Cancel")
        },
        ps.seq(ps.atom("Quote", "q"), ps.atom("Cancel", "c")),
        by="id",
        where="c.price < q.price",
        within="10 seconds",
        returns={"q_n": "q.n", "low": "c.price"},
    )
    assert as_text.columns == ["id", "q_price", "o_price", "apart", "match_start", "match_end"]
    assert as_object.columns == ["id", "q_n", "low"]
    documented = documented_matches(stream_of(session, tmp_path / "events", f"kind STRING, order_id BIGINT, {plain}"))
    assert documented["unpaid"].columns == ["order_id", "confirmed", "packed"]
    assert documented["increased"].columns == ["order_id", "quoted", "invoiced"]
    assert documented["taken"].columns == ["order_id", "taken"]
    assert local.rows("taken")
    assert local.rows("dropped")
    assert bag(collected(as_text, tmp_path / "text", "as_text")) == bag(local.rows("taken"))
    assert bag(collected(as_object, tmp_path / "object", "as_object")) == bag(local.rows("dropped"))
