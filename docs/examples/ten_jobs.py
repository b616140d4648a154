"""Ten ordinary streaming jobs, each as it is written for Spark alone, and again with one or two lines replaced.

python docs/examples/ten_jobs.py            # runs all of them both ways and compares what they write
python docs/examples/ten_jobs.py 5 6        # only these

Advertisements are shown, some are clicked, and some of those who clicked buy. Rows come up to two seconds out of order.
"""

import datetime as dt
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import penstock as ps

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: When the first advertisement is shown: the beginning of 2026.
START = 1_767_225_600
COLUMNS = {
    "shown": "ad_id BIGINT, campaign STRING, cost DOUBLE, shown_at TIMESTAMP",
    "clicked": "ad_id BIGINT, person BIGINT, clicked_at TIMESTAMP",
    "bought": "person BIGINT, amount DOUBLE, bought_at TIMESTAMP",
}
#: Rows that come long after the others, so that everything before them is final; no job filters them out.
CLOSING: dict[str, dict[str, object]] = {
    "shown": {"ad_id": 1_000_000, "campaign": "closing", "cost": 0},
    "clicked": {"ad_id": 1_000_000, "person": 10_007},
    "bought": {"person": 10_007, "amount": 0},
}


@dataclass(frozen=True)
class Ads:
    """The three streams, with the watermark that every job needs."""

    shown: DataFrame
    clicked: DataFrame
    bought: DataFrame


# 1. Which clicks follow an advertisement within ten seconds?


def attribution(ads: Ads) -> DataFrame:
    return ads.shown.join(
        ads.clicked.withColumnRenamed("ad_id", "clicked_ad"),
        f.expr("ad_id = clicked_ad AND clicked_at >= shown_at AND clicked_at <= shown_at + INTERVAL 10 SECONDS"),
    ).select("ad_id", "campaign", "person", "shown_at", "clicked_at")


def attribution_with_penstock(ads: Ads) -> DataFrame:
    return ps.join(ads.shown, ads.clicked, on="ad_id", within=("10 seconds", "0 seconds")).select(
        "ad_id", "campaign", "person", "shown_at", "clicked_at"
    )


# 2. Which advertisements were not clicked?


def ignored(ads: Ads) -> DataFrame:
    return (
        ads.shown.join(
            ads.clicked.withColumnRenamed("ad_id", "clicked_ad"),
            f.expr("ad_id = clicked_ad AND clicked_at >= shown_at AND clicked_at <= shown_at + INTERVAL 10 SECONDS"),
            "left_outer",
        )
        .where("clicked_at IS NULL")
        .select("ad_id", "campaign", "shown_at")
    )


def ignored_with_penstock(ads: Ads) -> DataFrame:
    return ps.join(ads.shown, ads.clicked, on="ad_id", within=("10 seconds", "0 seconds"), how="left_anti").select(
        "ad_id", "campaign", "shown_at"
    )


# 3. What does a campaign cost, minute by minute?


def cost(ads: Ads) -> DataFrame:
    groups = ads.shown.groupBy("campaign", f.window("shown_at", "1 minute"))
    return groups.agg(f.count("*").alias("ads"), f.round(f.sum("cost"), 6).alias("cost")).select(
        "campaign", "ads", "cost", f.col("window.start").alias("since")
    )


def cost_with_penstock(ads: Ads) -> DataFrame:
    wanted = {"ads": "count(*)", "cost": "round(sum(cost), 6)"}
    return ps.aggregate(ads.shown, by="campaign", window="1 minute", aggregates=wanted).select(
        "campaign", "ads", "cost", f.col("window_start").alias("since")
    )


# 4. The same, but advertisements may be reported twice, and only the first report counts. Spark's operator stays before the join.


def first_reports(ads: Ads) -> DataFrame:
    return attribution(Ads(ads.shown.dropDuplicatesWithinWatermark(["ad_id"]), ads.clicked, ads.bought))


def first_reports_with_penstock(ads: Ads) -> DataFrame:
    return attribution_with_penstock(Ads(ads.shown.dropDuplicatesWithinWatermark(["ad_id"]), ads.clicked, ads.bought))


# 5. Clicks per campaign and minute of the advertisement: the join is replaced, Spark's grouping stays after it.


def clicks(ads: Ads) -> DataFrame:
    groups = attribution(ads).groupBy("campaign", f.window("shown_at", "1 minute"))
    return groups.count().select("campaign", "count", f.col("window.start").alias("since"))


def clicks_with_penstock(ads: Ads) -> DataFrame:
    groups = attribution_with_penstock(ads).groupBy("campaign", f.window("shown_at", "1 minute"))
    return groups.count().select("campaign", "count", f.col("window.start").alias("since"))


# 6. The other way round: Spark's join stays, the grouping after it is replaced.


def clicks_with_spark_join(ads: Ads) -> DataFrame:
    return ps.aggregate(
        ps.stream(attribution(ads), time="shown_at"), by="campaign", window="1 minute", aggregates={"count": "count(*)"}
    ).select("campaign", "count", f.col("window_start").alias("since"))


# 7. Suspicious clicks per minute, found by a pandas function: conditions adapt their order, and it runs only where needed.


def is_prime(person: pd.Series) -> pd.Series:
    return person.map(lambda number: number > 1 and all(number % d for d in range(2, int(number**0.5) + 1)))


def suspicious(ads: Ads) -> DataFrame:
    prime = f.pandas_udf(is_prime, "boolean")
    rows = ads.clicked.where((f.col("ad_id") % 3 != 0) & prime("person"))
    return rows.groupBy(f.window("clicked_at", "1 minute")).count().select("count", f.col("window.start").alias("since"))


def suspicious_with_penstock(ads: Ads) -> DataFrame:
    rows = ps.filter(ads.clicked, ["ad_id % 3 != 0", is_prime])
    return rows.groupBy(f.window("clicked_at", "1 minute")).count().select("count", f.col("window.start").alias("since"))


# 8. Which advertisement led to which purchase within a minute of the click? A join of a join, in one stage.


def sales(ads: Ads) -> DataFrame:
    return (
        attribution(ads)
        .join(
            ads.bought.withColumnRenamed("person", "buyer"),
            f.expr("person = buyer AND bought_at >= clicked_at AND bought_at <= clicked_at + INTERVAL 60 SECONDS"),
        )
        .select("ad_id", "campaign", "person", "amount", "clicked_at", "bought_at")
    )


def sales_with_penstock(ads: Ads) -> DataFrame:
    led = ps.join(ads.shown, ads.clicked, on="ad_id", within=("10 seconds", "0 seconds"))
    return ps.join(led, ads.bought, on="person", within=("60 seconds", "0 seconds")).select(
        "ad_id", "campaign", "person", "amount", "clicked_at", "bought_at"
    )


# 9. The busiest ten seconds of every minute: a grouping of groups, in one stage.


def busiest(ads: Ads) -> DataFrame:
    tens = ads.clicked.groupBy(f.window("clicked_at", "10 seconds")).agg(f.count("*").alias("clicks"))
    minutes = tens.groupBy(f.window(f.window_time("window"), "1 minute")).agg(f.max("clicks").alias("most"))
    return minutes.select("most", f.col("window.start").alias("since"))


def busiest_with_penstock(ads: Ads) -> DataFrame:
    tens = ps.aggregate(ads.clicked, by=(), window="10 seconds", aggregates={"clicks": "count(*)"})
    minutes = ps.aggregate(tens, by=(), window="1 minute", aggregates={"most": "max(clicks)"})
    return minutes.select("most", f.col("window_start").alias("since"))


# 10. As 8, but only the first join is replaced: Spark's own join reads the result of Penstock's.


def sales_with_both(ads: Ads) -> DataFrame:
    led = ps.join(ads.shown, ads.clicked, on="ad_id", within=("10 seconds", "0 seconds"))
    return led.join(
        ads.bought.withColumnRenamed("person", "buyer"),
        f.expr("person = buyer AND bought_at >= clicked_at AND bought_at <= clicked_at + INTERVAL 60 SECONDS"),
    ).select("ad_id", "campaign", "person", "amount", "clicked_at", "bought_at")


JOBS: tuple[tuple[Callable[[Ads], DataFrame], Callable[[Ads], DataFrame]], ...] = (
    (attribution, attribution_with_penstock),
    (ignored, ignored_with_penstock),
    (cost, cost_with_penstock),
    (first_reports, first_reports_with_penstock),
    (clicks, clicks_with_penstock),
    (clicks, clicks_with_spark_join),
    (suspicious, suspicious_with_penstock),
    (sales, sales_with_penstock),
    (busiest, busiest_with_penstock),
    (sales, sales_with_both),
)


# -- data and comparison -------------------------------------------------------------------------------------------------


def write_rows(folder: Path, seconds: int = 240, files: int = 3, seed: int = 7) -> None:
    """Some minutes of advertising, in files as they would come; then rows much later, which close every window."""
    rng = random.Random(seed)
    rows: dict[str, list[tuple[float, dict[str, object]]]] = {name: [] for name in COLUMNS}
    for ad in range(seconds * 2):
        at = 0.5 * ad
        rows["shown"].append((at, {"ad_id": ad, "campaign": f"c{ad % 5}", "cost": rng.randrange(1, 400) / 100, "shown_at": at}))
        if rng.random() < 0.1:  # reported twice
            rows["shown"].append((at, {**rows["shown"][-1][1], "shown_at": at + 1}))
        if rng.random() < 0.5:
            person, clicked = rng.randrange(40), at + rng.uniform(-1, 12)
            rows["clicked"].append((clicked, {"ad_id": ad, "person": person, "clicked_at": clicked}))
            if rng.random() < 0.4:
                bought = clicked + rng.uniform(0, 70)
                rows["bought"].append((bought, {"person": person, "amount": rng.randrange(5, 500), "bought_at": bought}))
    for name, timed in rows.items():
        (folder / name).mkdir(parents=True)
        arrived = sorted(timed, key=lambda row: row[0] + rng.uniform(0, 2))
        pieces = [arrived[number * len(arrived) // files : (number + 1) * len(arrived) // files] for number in range(files)]
        closing = [[(at, {**CLOSING[name], f"{name}_at": at})] for at in (seconds + 3600.0, seconds + 7200.0)]
        for number, piece in enumerate([*pieces, *closing]):
            lines = [json.dumps({**row, f"{name}_at": _clock(row[f"{name}_at"])}) for _, row in piece]
            path = folder / name / f"{number:03d}.json"
            path.write_text("\n".join(lines) + "\n")
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _clock(seconds: object) -> str:
    return dt.datetime.fromtimestamp(START + float(str(seconds)), dt.UTC).isoformat()


def read(spark: SparkSession, folder: Path) -> Ads:
    def stream(name: str) -> DataFrame:
        reader = spark.readStream.schema(COLUMNS[name]).option("maxFilesPerTrigger", 1)
        return reader.json(str(folder / name)).withWatermark(f"{name}_at", "5 seconds")

    return Ads(stream("shown"), stream("clicked"), stream("bought"))


def rows_of(frame: DataFrame, checkpoint: Path, name: str) -> list[tuple[str, ...]]:
    """All a job writes, sorted; without what belongs to the rows that close windows."""
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = [tuple(row) for row in frame.sparkSession.table(name).collect()]
    return sorted(tuple(map(str, row)) for row in found if not any(_is_closing(value) for value in row))


def _is_closing(value: object) -> bool:
    return isinstance(value, dt.datetime) and value.replace(tzinfo=dt.UTC).timestamp() >= START + 3600


def main(numbers: list[int]) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB, "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    spark = SparkSession.builder.master("local[2]").appName("ten_jobs").config(map=settings).getOrCreate()
    with tempfile.TemporaryDirectory(prefix="penstock-jobs-") as name:
        folder = Path(name)
        write_rows(folder / "rows")
        for number in numbers:
            before, after = JOBS[number - 1]
            found = []
            for job in (before, after):
                frame = job(read(spark, folder / "rows"))
                found.append(rows_of(frame, folder / f"{job.__name__}{number}", job.__name__))
            verdict = "equal" if found[0] == found[1] else "DIFFERENT"
            print(f"{number:2}  {after.__name__:32} {len(found[0]):5} rows  {verdict}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(range(1, len(JOBS) + 1)))
