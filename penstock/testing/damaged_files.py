"""Read files of every format, and a Kafka topic, that are full of damaged records, and account for each of them.

``python -m penstock.testing.damaged_files --rows 1000000 --seed 7`` writes the files, lets an application of several queries read
them in micro-batches on Spark, and asks: did nothing stop; was every record read; was every record used, filtered or kept apart;
are those that were kept apart in the quarantine; has no text been altered in silence? The first no ends the command with 1.
For the format `kafka` it starts a broker on this machine, whose Java archives it fetches once from a Maven repository.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from penstock.errors import PenstockError
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.run import Run
from penstock.runners.spark.processes.session import create_session
from penstock.testing.damage.accounting import FormatOutcome, differences, outcome_of
from penstock.testing.damage.files import write_files
from penstock.testing.damage.records import DECLARED
from penstock.testing.damage.topic import fill, silent_changes
from penstock.testing.kafka.broker import broker
from penstock.testing.kafka.jars import CONNECTOR, fetched
from penstock.testing.kafka.topics import Topic

#: Part of the rows that each format gets, and options of its streams.
_FORMATS = {
    "json": (0.22, ""), "csv": (0.22, ""), "parquet": (0.12, ""), "parquet by Spark": (0.12, ", reader 'spark'"), "orc": (0.12, ""),
    "text": (0.08, ""), "kafka": (0.12, ""),
}  # fmt: skip
#: Micro-batches, about, in which a topic is read.
_BATCHES = 8

#: A damaged day ends the day of all later rows, so only one query reads days that are clustered.
_RECORDS = """
CREATE STREAM s ({columns}, WATERMARK ts DELAY OF INTERVAL 5 SECONDS) {source} PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE STREAM by_day ({columns}, CLUSTERED (day), WATERMARK ts DELAY OF INTERVAL 5 SECONDS) {source} ON VIOLATION QUARANTINE;
CREATE STREAM raw ({columns}, WATERMARK ts DELAY OF INTERVAL 4000000 DAYS) {source};
CREATE CQ everything AS SELECT * FROM s;
CREATE CQ all_raw AS SELECT * FROM raw;
CREATE CQ groups AS SELECT name, day, COUNT(*) AS n, MAX(seen) AS last FROM s [RANGE 10 SECONDS] GROUP BY name, day;
CREATE CQ days AS SELECT day, COUNT(*) AS n FROM by_day GROUP BY day;
CREATE CQ closed AS SELECT k, SUM(v) AS total, MIN(small) AS least FROM s GROUP BY k;
CREATE CQ pairs AS SELECT a.name, b.seen FROM s a [RANGE 2 SECONDS], s b [RANGE 2 SECONDS] WHERE a.k = b.k AND upper(b.name) <> 'X';
CREATE CQ known AS SELECT DISTINCT name, seen FROM s [RANGE 5 SECONDS] WHERE v > 1;
CREATE CQ computed AS SELECT k + 1 AS next, upper(name) AS loud, year(seen) AS y, seen + INTERVAL 1 DAY AS later,
  date_trunc('HOUR', seen) AS hour, CAST(name AS BIGINT) AS number, v / small AS ratio, abs(k) AS size,
  CAST(day AS TIMESTAMP) + INTERVAL 1 DAY AS tomorrow,
  small * small AS square, CAST(v AS BIGINT) AS whole, substring(name, 1, 1) AS start FROM s WHERE flag IS NOT FALSE AND k % 7 <> 3;
"""
_TEXTS = """
CREATE STREAM s (value STRING) {source};
CREATE CQ everything AS SELECT * FROM s;
CREATE CQ loud AS SELECT upper(value) AS loud, length(value) AS size, COUNT(*) AS n FROM s [RANGE 10 SECONDS]
  GROUP BY upper(value), length(value);
"""
#: A stream of messages that neither has event times nor says where its messages stand.
_BARE = f"""
CREATE STREAM bare ({DECLARED.removeprefix("ts TIMESTAMP, ")}) {{plain}};
CREATE CQ all_bare AS SELECT * FROM bare;
"""


def run_files(name: str, options: str, rows: int, seed: int, folder: Path, spark: Any) -> FormatOutcome:
    """Write, read and account for the records of files of one format."""
    kind = name.split()[0]
    records = write_files(folder / "in", kind, rows, Random(seed), spark)
    source = f"USING {kind} OPTIONS (path '{folder}/in', maxFilesPerTrigger '2'{options})"
    text = (_TEXTS if kind == "text" else _RECORDS).format(source=source, columns=DECLARED)
    return _account(name, text, records, folder, spark, kind != "text", lambda _: ())


def run_topic(rows: int, seed: int, folder: Path, spark: Any) -> FormatOutcome:
    """Send, read and account for the messages of a topic."""
    with broker(folder / "broker") as servers:
        topic = Topic(spark, servers, "damaged")
        topic.create(3)
        sent = fill(topic, rows, Random(seed), folder)
        options = {
            "kafka.bootstrap.servers": servers, "subscribe": topic.name, "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(max(rows // _BATCHES, 1)), "kafka.isolation.level": "read_committed",
        }  # fmt: skip
        given = ", ".join(f"{key} '{value}'" for key, value in options.items())
        plain = f"USING kafka OPTIONS ({given})"
        source = f"{plain} PARTITIONED BY part POSITION off"
        text = (_RECORDS + _BARE).format(source=source, plain=plain, columns=f"{DECLARED}, part INT, off BIGINT")
        return _account("kafka", text, len(sent), folder, spark, True, lambda run: silent_changes(run.results("all_raw"), sent))


def _account(
    name: str, text: str, records: int, folder: Path, spark: Any, has_marks: bool, look: Callable[[Run], Iterable[str]]
) -> FormatOutcome:
    begun = time.monotonic()
    run = App.from_text(text, f"damaged {name}").start(folder / "checkpoint", spark, shards=2)
    try:
        run.process_all_available()
        run.end()
    except PenstockError as failure:
        return FormatOutcome(name, records, time.monotonic() - begun, {}, {}, (f"the query has stopped: {failure}",))
    finally:
        run.stop()
    outcome = outcome_of(run, name, records, time.monotonic() - begun, has_marks)
    return replace(outcome, faults=(*outcome.faults, *look(run)))


def main(arguments: Sequence[str] | None = None, show: Callable[[str], None] = print) -> int:
    reader = argparse.ArgumentParser(prog="python -m penstock.testing.damaged_files", description=__doc__)
    reader.add_argument("--rows", type=int, default=100_000, help="records of all chosen formats together")
    reader.add_argument("--seed", type=int, default=1, help="of the damage")
    reader.add_argument("--only", choices=list(_FORMATS), action="append", help="a format; may be repeated")
    reader.add_argument("--keep", action="store_true", help="leave the files and checkpoints, in directories penstock-damaged-*")
    asked = reader.parse_args(arguments)
    chosen = asked.only or list(_FORMATS)
    spark = create_session("damaged files", conf=_connector() if "kafka" in chosen else None)
    outcomes: list[FormatOutcome] = []
    for name in chosen:
        part, options = _FORMATS[name]
        rows = round(asked.rows * part / sum(_FORMATS[each][0] for each in chosen))
        folder = Path(tempfile.mkdtemp(prefix="penstock-damaged-"))
        try:
            if name == "kafka":
                outcomes.append(run_topic(rows, asked.seed, folder, spark))
            else:
                outcomes.append(run_files(name, options, rows, asked.seed, folder, spark))
            show(str(outcomes[-1]))
        finally:
            if not asked.keep:
                shutil.rmtree(folder, ignore_errors=True)
    return _summary(outcomes, show)


def _connector() -> dict[str, str]:
    return {"spark.jars": ",".join(map(str, fetched(CONNECTOR)))}


def _summary(outcomes: Sequence[FormatOutcome], show: Callable[[str], None]) -> int:
    total, seconds = sum(each.records for each in outcomes), sum(each.seconds for each in outcomes)
    found = list(differences(outcomes))
    for difference in found:
        show(f"FAULT: {difference}")
    faults = len(found) + sum(len(each.faults) for each in outcomes)
    show(f"{total:,} records in {seconds:.0f} s, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
