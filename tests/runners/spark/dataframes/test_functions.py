"""Penstock's operators on ordinary streaming DataFrames, judged by DuckDB over the whole streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hosts import bag, json_lines, write_files
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import penstock as ps
from penstock.errors import InvalidDeclaration, LateRows, StateFormat, UnknownColumn, UserError
from penstock.runners.spark.data_path.failures import translated
from penstock.runners.spark.data_path.feed import register
from penstock.runners.spark.data_path.pipeline import name_of_readers
from penstock.runners.spark.dataframes.composing import Answers, Composition
from penstock.runners.spark.dataframes.event_time import watermarked
from penstock.runners.spark.processes.session import SessionMismatch, clone_session
from penstock.workloads.playback import Playback

pytestmark = pytest.mark.spark

PAIRS = {"workload": "pairs", "key_type": "string", "keys": "40", "rows_per_step": "5", "total": "600", "rows_per_batch": "300"}
AUCTION = {"workload": "auction", "total": "2000", "rows_per_batch": "1000", "bids_per_item": "10", "open_items": "20"}
MARKED = {**AUCTION, "marks": "constant"}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A user's session: another time zone than Penstock's own, and a few shards."""
    own = clone_session(spark)
    own.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    own.conf.set("spark.sql.shuffle.partitions", "3")
    register(own)
    return own


def stream(session: SparkSession, options: dict[str, str], name: str, columns: str = "") -> DataFrame:
    reader = session.readStream.format("feed").options(**options, stream=name)
    return (reader.schema(columns) if columns else reader).load()


def whole(options: dict[str, str], name: str) -> pa.Table:
    feed = Playback.from_text({**options, "stream": name})
    return pa.Table.from_batches([batch for rows in feed.ranges(0, feed.total) for batch in feed.batches(rows)])


def written(frame: DataFrame, checkpoint: Path, name: str) -> list[dict[str, Any]]:
    """All answers of a query that reads what there is; raises what made it fail."""
    query = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return frame.sparkSession.sql(f"SELECT * FROM {name}").toArrow().to_pylist()


def found_by_duckdb(text: str, **tables: pa.Table) -> list[tuple[str, ...]]:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return bag(connection.sql(text).to_arrow_table().to_pylist())


def test_a_windowed_join_on_text_keys_equals_the_join_of_the_whole_streams(session: SparkSession, tmp_path: Path) -> None:
    left = stream(session, PAIRS, "left").withWatermark("ts", "0 seconds")
    right = stream(session, PAIRS, "right").withWatermark("ts", "0 seconds")
    joined = ps.join(
        left, right, on="key", within=("10 milliseconds", "5 milliseconds"), condition="l.id % 2 = r.id % 2", suffix="_2"
    )
    assert joined.columns == ["key", "id", "value", "payload", "ts", "id_2", "value_2", "payload_2", "ts_2"]
    expected = found_by_duckdb(
        """SELECT l.key, l.id, r.id AS id_2, l.payload, r.payload AS payload_2, l.ts FROM l JOIN r ON l.key = r.key
           WHERE l.id % 2 = r.id % 2 AND r.ts - l.ts <= INTERVAL 10 MILLISECONDS
             AND l.ts - r.ts <= INTERVAL 5 MILLISECONDS""",
        l=whole(PAIRS, "left"), r=whole(PAIRS, "right"),
    )  # fmt: skip
    assert expected
    shown = joined.select("key", "id", "id_2", "payload", "payload_2", "ts")
    assert bag(written(shown, tmp_path, "windowed")) == expected


def test_punctuations_and_unique_keys_let_a_join_without_window_forget(session: SparkSession, tmp_path: Path) -> None:
    auctions = ps.stream(stream(session, AUCTION, "auction"), unique="item_id")
    bids = ps.stream(stream(session, MARKED, "bid", "item_id BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING"), punctuations="mark")
    joined = ps.join(auctions, bids, on="item_id", memory="3 KB").select("item_id", "category", "price")
    query = joined.writeStream.format("memory").queryName("closing").option("checkpointLocation", str(tmp_path)).start()
    query.processAllAvailable()
    query.stop()
    bid = whole(MARKED, "bid")
    bid = bid.filter(bid.column("mark").is_null())
    expected = found_by_duckdb("SELECT item_id, category, price FROM a JOIN b USING (item_id)", a=whole(AUCTION, "auction"), b=bid)
    assert bag(session.sql("SELECT * FROM closing").toArrow().to_pylist()) == expected
    (observed,) = query.recentProgress[-1]["observedMetrics"].values()
    reports = [json.loads(text) for text in observed["reports"]]
    state = sum(counters.get("state_rows", 0) for report in reports for counters in report["operators"].values())
    assert state < bid.num_rows / 2
    assert sum(counters.get("spilled_rows", 0) for report in reports for counters in report["operators"].values()) > 0


def test_rows_without_partner_come_once_the_other_stream_has_passed_their_window(session: SparkSession, tmp_path: Path) -> None:
    left = stream(session, PAIRS, "left").withWatermark("ts", "0 seconds")
    right = stream(session, PAIRS, "right").withWatermark("ts", "0 seconds")
    joined = ps.join(left, right, on="key", within="3 milliseconds", condition="l.id % 2 = r.id % 2", how="left")
    expected = found_by_duckdb(
        """SELECT l.key, l.id, r.id AS id_right FROM l LEFT JOIN r ON l.key = r.key AND l.id % 2 = r.id % 2
             AND abs(epoch_us(r.ts) - epoch_us(l.ts)) <= 3000
           WHERE r.id IS NOT NULL OR l.ts + INTERVAL 3 MILLISECONDS < (SELECT max(ts) FROM r)""",
        l=whole(PAIRS, "left"), r=whole(PAIRS, "right"),
    )  # fmt: skip
    assert any(row[-1] == "None" for row in expected)
    assert bag(written(joined.select("key", "id", "id_right"), tmp_path, "left_joined")) == expected


def test_a_join_has_the_columns_its_kind_gives_it(session: SparkSession) -> None:
    left, right = stream(session, PAIRS, "left"), stream(session, PAIRS, "right")
    own = ["key", "id", "value", "payload", "ts"]
    assert ps.join(left, right, on="key", within="1 second", how="leftanti").columns == own
    for how in ("right_outer", "full"):
        assert ps.join(left, right, on="key", within="1 second", how=how).columns == [*own, *(f"{name}_right" for name in own[1:])]
    with pytest.raises(InvalidDeclaration, match="there is no join 'outside'; how is one of inner, left, right"):
        ps.join(left, right, on="key", within="1 second", how="outside")


def test_calls_over_calls_are_one_job_and_a_step_of_sparks_between_them_adds_no_answer(
    session: SparkSession, tmp_path: Path
) -> None:
    """A join of a join and a grouping behind it, fused, and cut apart by steps of Spark's."""
    left, right = (stream(session, PAIRS, name).withWatermark("ts", "0 seconds") for name in ("left", "right"))
    wanted: dict[str, Any] = {"by": "key", "window": "20 milliseconds", "aggregates": {"n": "count(*)"}}
    pairs = ps.join(left, ps.filter(right, ["id % 3 != 0"]), on="key", within="5 milliseconds")
    fused = ps.aggregate(ps.stream(pairs), **wanted)
    apart = ps.aggregate(pairs.where("id % 2 >= 0").withColumn("more", pairs.id), **wanted)
    assert isinstance(fused, Answers)
    assert _stages(fused) == 1
    assert _stages(apart) == 2
    found = written(fused, tmp_path / "fused", "fused")
    assert found
    # The watermark between two pipelines is a micro-batch behind and keeps what may still be older, so its last windows stay open.
    later = bag(written(apart, tmp_path / "apart", "apart"))
    assert later
    assert set(later) <= set(bag(found))
    other = pairs.select("key", "ts", f.col("id").alias("id_2"))  # one of two times is left, and is event time
    with pytest.raises(InvalidDeclaration, match="'ts_right' is taken too; choose another suffix"):
        ps.join(pairs, other, on="key", within="1 second")
    both = ps.join(pairs, other, on="key", within="1 second", suffix="_2")
    assert _stages(both) == 2
    assert both.columns[-2:] == ["ts_2", "id_2"]
    inner = ps.filter(left, ["id % 3 != 0"], quarantine="inner")
    outer = ps.aggregate(inner, **wanted)
    assert isinstance(outer, Answers)
    made = Composition.of(outer.call)
    assert (made.quarantine, made.quarantines) == ("inner", {"frame2": "inner"})


def test_spark_is_told_of_which_column_its_watermark_speaks(session: SparkSession) -> None:
    left, right = (stream(session, PAIRS, name).withWatermark("ts", "2 seconds") for name in ("left", "right"))
    pairs = ps.join(left, right, on="key", within="5 milliseconds")
    assert watermarked(pairs.schema) == ["ts", "ts_right"]
    assert watermarked(pairs.withWatermark("ts_right", "1 second").schema) == ["ts_right"]
    assert watermarked(ps.join(left, right, on="key").schema) == []
    counted = ps.aggregate(pairs, "key", "20 milliseconds", COUNTED)
    assert watermarked(counted.schema) == ["window_start", "window_end"]
    behind = ps.aggregate(ps.stream(left.dropDuplicatesWithinWatermark(["id"])), "key", "20 milliseconds", COUNTED)
    assert watermarked(behind.schema) == ["window_end"]
    with pytest.raises(InvalidDeclaration, match="speaks of ts and ts_2; say which one is event time"):
        ps.aggregate(left.join(right.select("key", right.ts.alias("ts_2")), "key"), "key", "1 second", COUNTED)


def _stages(frame: DataFrame) -> int:
    return str(frame._jdf.logicalPlan().toString()).count("TransformWithState")


COUNTED = {"n": "count(*)", "top": "max(value)"}


def test_windowed_aggregates_come_once_their_time_has_passed(session: SparkSession, tmp_path: Path) -> None:
    left = stream(session, PAIRS, "left").withWatermark("ts", "1 millisecond")
    counted = ps.aggregate(left, "key", "20 milliseconds", COUNTED, advance="10 milliseconds", having="count(*) > 1")
    assert counted.columns == ["key", "n", "top", "window_start", "window_end"]
    expected = found_by_duckdb(
        """
        WITH windows AS (
          SELECT unnest(generate_series(min(ts) - INTERVAL 10 MILLISECONDS, max(ts), INTERVAL 10 MILLISECONDS)) AS w,
            max(ts) - INTERVAL 1 MILLISECOND AS frontier
          FROM l)
        SELECT key, count(*) AS n, max(value) AS top, w AS window_start, w + INTERVAL 20 MILLISECONDS AS window_end
        FROM l JOIN windows ON ts >= w AND ts < w + INTERVAL 20 MILLISECONDS
        WHERE w + INTERVAL 20 MILLISECONDS <= frontier GROUP BY key, w HAVING count(*) > 1""",
        l=whole(PAIRS, "left"),
    )
    assert expected
    assert bag(written(counted, tmp_path, "counted")) == expected


def test_a_changed_query_does_not_read_the_state_of_the_old_one(session: SparkSession, tmp_path: Path) -> None:
    def start(total: str, window: str) -> Any:
        counted = ps.aggregate(stream(session, {**PAIRS, "total": total}, "left"), "key", window, COUNTED)
        return counted.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()

    start("300", "20 milliseconds").processAllAvailable()
    for query in session.streams.active:
        query.stop()
    with pytest.raises(StreamingQueryException) as failure:
        start("600", "40 milliseconds").processAllAvailable()
    found = translated(failure.value)
    assert isinstance(found, StateFormat)
    assert "use a new checkpoint" in str(found)


LATE = [[{"k": 1, "at": "2026-01-01T00:00:10Z"}], [{"k": 1, "at": "2026-01-01T00:00:01Z"}, {"k": 1, "at": "2026-01-01T00:00:30Z"}]]


def late_rows(session: SparkSession, folder: Path) -> DataFrame:
    write_files(folder, "json", [json_lines(rows) for rows in LATE])
    return session.readStream.schema("k BIGINT, at TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(folder))


def test_late_rows_fail_the_query_unless_they_can_be_kept_apart(session: SparkSession, tmp_path: Path) -> None:
    rows = late_rows(session, tmp_path / "rows")
    options: dict[str, Any] = {"by": "k", "window": "10 seconds", "aggregates": {"n": "count(*)"}}
    with pytest.raises(StreamingQueryException) as failure:
        written(ps.aggregate(rows, **options), tmp_path / "first", "failing")
    found = translated(failure.value)
    assert isinstance(found, LateRows)
    assert "give a quarantine directory" in str(found)
    kept = ps.aggregate(rows, **options, quarantine=tmp_path / "late")
    answers = written(kept, tmp_path / "second", "kept")
    assert [row["n"] for row in answers] == [1]
    files = [pq.ParquetFile(path).read().to_pylist() for path in (tmp_path / "late").glob("*.parquet")]
    assert [row["reason"] for rows in files for row in rows] == ["late"]


def test_mistakes_are_explained_before_a_query_starts(session: SparkSession, spark: SparkSession) -> None:
    left = stream(session, PAIRS, "left")
    twice = left.withColumn("seen", left.ts)
    with pytest.raises(InvalidDeclaration, match=r"2 timestamp columns \(ts, seen\).*withWatermark"):
        ps.join(twice, left, on="key", within="1 second")
    with pytest.raises(InvalidDeclaration, match="no timestamp column"):
        ps.aggregate(left.drop("ts"), by="key", window="1 second", aggregates={"n": "count(*)"})
    with pytest.raises(InvalidDeclaration, match="not a stream"):
        ps.aggregate(session.range(3), by="id", window="1 second", aggregates={"n": "count(*)"})
    with pytest.raises(InvalidDeclaration, match="no duration"):
        ps.stream(left, disorder="soon")
    with pytest.raises(UnknownColumn, match=r"ps.stream, unique\n.*no column 'keys'.*Did you mean 'key'"):
        ps.stream(left, unique="keys")
    assert ps.join(ps.stream(twice, time="seen"), left, on="key", within="1 second").columns[:2] == ["key", "id"]
    other = left.withColumn("key", left.id)
    for wrong, place, said in (
        ({"on": "no"}, "ps.join, on", "the left side has no column 'no'"),
        ({"right": other, "on": "key"}, "ps.join, on", "'key' is STRING on the left side and BIGINT on the right"),
        ({"on": "key", "within": "soon"}, "ps.join, within", "'soon' is no duration"),
        (
            {"on": "key", "condition": "l.id > r.nothing"},
            "ps.join, condition, line 1, column 10\n    l.id > r.nothing\n             ^^^^^^^",
            "nothing",
        ),
        ({"on": "key", "condition": "l.id >"}, "ps.join, condition", ""),
        ({"on": "key", "memory": "200"}, "ps.join, memory", "'200' is no size of memory; write a number and one of B, KB"),
        ({"on": "key", "memory": 0}, "ps.join, memory", "0 is no size of memory; expected '200 MB' or a number of bytes"),
    ):
        with pytest.raises(UserError) as found:
            ps.join(left, **{"right": left, "within": "1 second", **wrong})
        assert str(found.value.place).startswith(place), str(found.value)
        assert said in found.value.message
    with pytest.raises(UserError, match=r"ps.aggregate, aggregates\['n'\], line 1, column 5\n    sum\(nothing\)"):
        ps.aggregate(left, by="key", window="1 second", aggregates={"n": "sum(nothing)"})
    with pytest.raises(UserError, match=r"ps\.match, pattern"):
        ps.match(left, "SEQ(A a, B b", type_column="payload", within="1 second")
    plain = clone_session(spark)
    plain.conf.set("spark.sql.streaming.stateStore.providerClass", "org.example.Other")
    register(plain)
    with pytest.raises(SessionMismatch, match="needs the RocksDB state store"):
        ps.aggregate(stream(plain, PAIRS, "left"), by="key", window="1 second", aggregates={"n": "count(*)"})


def test_operators_that_share_a_quarantine_are_told_apart_by_what_they_read_in_every_start_alike(session: SparkSession) -> None:
    def named(options: dict[str, str], condition: str = "id > 0") -> str:
        return name_of_readers([stream(session, options, "left").where(condition)])

    assert named(PAIRS) == named(PAIRS)
    assert len({named(PAIRS), named({**PAIRS, "keys": "41"}), named(PAIRS, "id > 1")}) == 3
