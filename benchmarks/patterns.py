"""Event patterns: against Flink's MATCH_RECOGNIZE in one run, the kernel alone, and what constraints save.

* `flink`: five million events of 10,000 keys in Parquet, one every two milliseconds, four types. `seq` seeks an A,
  a B at a higher price and a C in a row for one key within a minute; `kleene` an A, one or more B at rising prices and a C.
  Matches are contiguous within a key, as Flink's are, and each start has at most one, so both find the same ones. Spark lists
  pairs of files, a pair for each micro-batch, which our tasks read, and keeps its state durable after each; Flink (apache-flink
  from PyPI in an environment of its own, two slots, state on the heap, reused objects, a checkpoint every ten seconds) reads the
  same rows as two files. A micro-batch has a quarter of the events and takes about a second, so that state is durable more often
  than Flink's. Speed is that of a stream that has started and whose code is compiled: both have run in the same process for about
  a minute before (Flink each job twice on a fifth of the events and once on all, Spark three times on all), then each job runs
  three times and the median counts: events over the time of the micro-batches without the first quarter, and events over the net
  run time of Flink's job, both less those of a short one. `through_spark` is ours with the files read by Spark, once, after the
  others. Bar: 4 times Flink's for both.
* `kernel`: one million events through the operator in process, one core, as the median CPU time of several runs. `seq` is the
  same query with the strategy that is usual where events of other kinds lie between, skip-till-any-match: bar 2,000,000
  events a second. `contiguous` is the query of `flink`.
* `constraints`: orders of the shipped process, 50,000 of them under way, the early-failing query of the published experiment,
  with 90 % of the orders failing: memory (peak of the state's bytes: events kept and what is known of each order) and CPU time
  saved against the same engine without constraints; bars 60 % and 30 %. `events_saved` counts events alone, as the published
  experiment does. `working` adds the arrays in which a worker watches orders; with constraints it must not be more than without.
  When nothing fails: CPU time with constraints over that without; bar 1.03. What is saved is work on events that were kept for
  nothing, so it grows with the orders under way: `failing_90_of_few` shows 10,000 of them.

    python -m benchmarks.patterns [--parts flink,kernel,constraints] [--events 5000000] [--slices 4] [--contests seq,kleene]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
from benchmarks._patterns_events import CONTESTS, PARTS, WINDOW_MILLIS, Contest, make_events, write_events
from benchmarks.common import Timing, main, session, timed
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.parse import parse
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.workflows.workflow import order_fulfilment
from penstock.model.batch import Batch
from penstock.model.elements import End, Heartbeat
from penstock.model.event_patterns import Strategy, seq
from penstock.operators.patterns.operator import PatternMatch
from penstock.workloads.contracts import Options
from penstock.workloads.orders import Orders

FLINK = "2.3.0"
_CACHE = Path.home() / ".cache" / "penstock" / "flink"
KEYS = 10_000
_SCHEMA = "id BIGINT, kind STRING, price BIGINT, ts TIMESTAMP"
#: Runs of a job that count, and runs of ours before them.
RUNS, WARM_UPS = 3, 3
RATIO_BAR, KERNEL_BAR = 4.0, 2_000_000
MEMORY_BAR, TIME_BAR, OVERHEAD_BAR = 0.6, 0.3, 1.03


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="flink,kernel,constraints")
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--slices", type=int, default=4)
    parser.add_argument("--contests", default=",".join(contest.name for contest in CONTESTS))
    return parser.parse_args()


# -- against Flink --------------------------------------------------------------------------------------------------------


def flink_python() -> Path:
    """The interpreter that has apache-flink; installs it once."""
    python = _CACHE / FLINK / "bin" / "python"
    if not (python.parent / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(python.parent.parent)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"apache-flink=={FLINK}"], check=True)
        (python.parent / "installed").touch()
    return python


def add_parquet(python: Path) -> None:
    """Give Flink its reader of Parquet, which apache-flink does not bring, and the Hadoop classes it needs, which Spark has."""
    libraries = next(python.parent.parent.glob("lib/python*/site-packages/pyflink/lib"))
    if not list(libraries.glob("flink-sql-parquet-*.jar")):
        if shutil.which("mvn") is None:
            sys.exit("Flink's reader of Parquet is fetched with Maven; install mvn, or use --parts kernel,constraints")
        where = [f"-Dartifact=org.apache.flink:flink-sql-parquet:{FLINK}", f"-DoutputDirectory={libraries}"]
        subprocess.run(["mvn", "-q", "dependency:copy", *where], check=True)
    for jar in (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"):
        if not (libraries / jar.name).exists():
            shutil.copy(jar, libraries)


def flinks(contests: Sequence[Contest], folder: Path, short: Path) -> dict[str, dict[str, Any]]:
    """Each contest on all events, several times, after all of them on few, twice: what a start takes is known then."""
    jobs = [
        {"name": contest.name, "cores": 2, "path": str(path), "query": contest.flink_query}
        for path in (short, short, *[folder] * (1 + RUNS))
        for contest in contests
    ]
    plan = folder.parent / "flink.json"
    plan.write_text(json.dumps(jobs))
    script = Path(__file__).with_name("_patterns_flink.py")
    python = flink_python()
    add_parquet(python)
    told = subprocess.run([str(python), str(script), str(plan)], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(told, file=sys.stderr)
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]  # Flink itself says something, too
    number = len(contests)
    result = {}
    for at, contest in enumerate(contests):
        _, started, _, *counted = lines[at::number]
        seconds = [found["seconds"] for found in counted]
        matches = {found["matches"] for found in counted}
        result[contest.name] = {"seconds": seconds, "matches": matches, "started": started["seconds"]}
    return result


def matched(spark: SparkSession, folder: Path, contest: Contest, is_ours: bool = True) -> DataFrame:
    """The contest as a continuous query over the files, oldest first."""
    if is_ours:
        events = ps.parquet(spark, folder, _SCHEMA, maxFilesPerTrigger=PARTS)
    else:
        events = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", PARTS).parquet(str(folder))
    return ps.match(
        ps.stream(events, time="ts", disorder="1 second"), contest.pattern,
        by="id", where=contest.conditions, within=f"{WINDOW_MILLIS} milliseconds",
        strategy="partition-contiguity", returns="id, a.price AS first_price, c.price AS last_price", type_column="kind",
    )  # fmt: skip


def ours(contests: Sequence[Contest], folder: Path, rows: int) -> tuple[dict[str, list[Timing]], dict[str, Timing]]:
    """Runs of each contest that count; and one in which Spark reads the files."""
    spark = session()
    for contest in [*contests] * WARM_UPS:
        timed(f"{contest.name} (warm-up)", matched(spark, folder, contest), rows)
    counted: dict[str, list[Timing]] = {contest.name: [] for contest in contests}
    for contest in [*contests] * RUNS:
        counted[contest.name].append(timed(contest.name, matched(spark, folder, contest), rows))
    for contest in contests:
        timed(f"{contest.name} through Spark (warm-up)", matched(spark, folder, contest, False), rows)
    through = {each.name: timed(f"{each.name} through Spark", matched(spark, folder, each, False), rows) for each in contests}
    spark.stop()
    return counted, through


def against_flink(contests: Sequence[Contest], number: int, slices: int) -> Mapping[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-patterns-"))
    try:
        sliced, whole = write_events(folder / "all", number, KEYS, slices)
        _, short = write_events(folder / "few", number // 5, KEYS, 1)
        theirs = flinks(contests, whole, short)
        counted, through = ours(contests, sliced, number // slices)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result: dict[str, Any] = {}
    for name, runs in counted.items():
        flink = [(number - number // 5) / (seconds - theirs[name]["started"]) for seconds in theirs[name]["seconds"]]
        speeds = [run.rows_per_second for run in runs]
        matches = {run.output_rows for run in (*runs, through[name])}
        result[name] = {
            "ratio": round(statistics.median(speeds) / statistics.median(flink), 2),
            "same_match_count": len(matches) == 1 and matches == theirs[name]["matches"],
            "matches": runs[0].output_rows,
            "events_per_second": list(map(round, speeds)),
            "flink_events_per_second": list(map(round, flink)),
            "events_per_second_through_spark": round(through[name].rows_per_second),
            "events_per_second_with_start": round(number / sum(runs[-1].seconds)),
            "flink_events_per_second_with_start": round(number / theirs[name]["seconds"][-1]),
            "batch_seconds": [[round(each, 2) for each in run.seconds] for run in runs],
            "state_rows": runs[-1].state_rows,
        }
    result["holds"] = all(each["ratio"] >= RATIO_BAR and each["same_match_count"] for each in result.values())
    return {**result, "events": number, "flink": FLINK}


# -- the kernel alone -----------------------------------------------------------------------------------------------------


def kernel(number: int = 1_000_000, chunk: int = 250_000, repeats: int = 7) -> Mapping[str, Any]:
    """CPU time of the operator, from batches to batches of matches."""
    events = make_events(number, KEYS)
    rows = events.select(["id", "kind", "price"]).combine_chunks().to_batches()[0]
    times = events.column("ts").cast(pa.int64()).to_numpy()
    result: dict[str, Any] = {}
    for name, strategy in (("seq", Strategy.ANY), ("contiguous", Strategy.PARTITION)):
        query = EventQuery(seq("A", "B", "C"), ("id",), (parse("B.price > A.price"),), WINDOW_MILLIS, strategy, type_column="kind")
        spent, matches = [], 0
        for _ in range(repeats):
            began = time.process_time()
            matches = searched(PatternMatch(query, rows.schema), rows, times, chunk)
            spent.append(time.process_time() - began)
        speed = number / statistics.median(spent[1:])
        result[name] = {"events_per_second": round(speed), "best": round(number / min(spent)), "matches": matches}
    result["holds"] = result["seq"]["events_per_second"] >= KERNEL_BAR
    return result


def searched(operator: PatternMatch, rows: Any, times: Any, chunk: int) -> int:
    """Matches of all rows, given chunk by chunk with a heartbeat behind each."""
    found = 0
    for first in range(0, len(times), chunk):
        stop = min(first + chunk, len(times))
        operator.on_batch(0, Batch(rows.slice(first, stop - first), times[first:stop], np.arange(first, stop)))
        for element in operator.on_metadata(0, Heartbeat(int(times[stop - 1]))):
            found += element.num_rows if isinstance(element, Batch) else 0
    return found + sum(element.num_rows for element in operator.on_metadata(0, End("")) if isinstance(element, Batch))


# -- constraints ----------------------------------------------------------------------------------------------------------


def orders(number: int, concurrent: int, remote: float) -> tuple[pa.RecordBatch, Any]:
    """Steps of orders that keep to the process, and their times."""
    workload = Orders(concurrent=concurrent, deviating=0.0, rejected=0.0, remote=remote, cancelled=0.0)
    rows = workload.generate("event", 0, 1, 0, number, Options(rate=1_000_000.0))
    rows = rows.filter(pc.not_equal(rows.column("kind"), "ViewStatus"))
    dice = np.random.default_rng(1)
    columns = {name: rows.column(name) for name in ("order_id", "kind", "price")}
    # As in the published experiment an event has three numbers and two texts.
    columns |= {name: pa.array(dice.integers(0, 1_000, rows.num_rows)) for name in ("customer", "clerk")}
    columns |= {name: pc.cast(pa.array(dice.integers(10**9, 10**10, rows.num_rows)), pa.string()) for name in ("item", "note")}
    return pa.RecordBatch.from_pydict(columns), rows.column("ts").cast(pa.int64()).to_numpy()


def followed(constraints: ConstraintSet | None, rows: pa.RecordBatch, times: Any, chunk: int) -> dict[str, float]:
    """CPU time, matches, and the most that was kept at the end of a chunk once every order under way has begun."""
    query = EventQuery(
        seq("CheckInventory", "UseRemoteStock", "GenerateInvoice"), ("order_id",), (parse("GenerateInvoice.price > 30"),),
        terminal=("FinishOrder", "CancelOrder", "RejectOrder"), type_column="kind",
    )  # fmt: skip
    operator = PatternMatch(query, rows.schema, constraints=constraints)
    found, spent, most_events, most_bytes, working = 0, 0.0, 0, 0, 0
    for first in range(0, len(times), chunk):
        stop = min(first + chunk, len(times))
        batch = Batch(rows.slice(first, stop - first), times[first:stop], np.arange(first, stop))
        began = time.process_time()
        operator.on_batch(0, batch)
        out = operator.on_metadata(0, Heartbeat(int(times[stop - 1]) + 1))
        spent += time.process_time() - began
        found += sum(element.num_rows for element in out if isinstance(element, Batch))
        counters = operator.counters()
        if first > len(times) // 10:
            most_events, most_bytes = max(most_events, counters["kept_events"]), max(most_bytes, counters["state_bytes"])
            working = max(working, counters["state_bytes"] + operator.working_bytes)
    return {"seconds": spent, "matches": found, "events": most_events, "bytes": most_bytes, "working": working}


def compared(remote: float, number: int, concurrent: int, chunk: int, repeats: int) -> dict[str, Any]:
    """The search with constraints over the search without, alternately."""
    rows, times = orders(number, concurrent, remote)
    rules = order_fulfilment().constraints()
    runs: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for _ in range(repeats + 1):
        for is_bound in (False, True):
            runs[is_bound].append(followed(rules if is_bound else None, rows, times, chunk))
    plain, bound = ({**found[-1], "seconds": min(run["seconds"] for run in found[1:])} for found in (runs[False], runs[True]))
    return {
        "events": len(times),
        "same_matches": plain["matches"] == bound["matches"],
        "matches": bound["matches"],
        "bytes_saved": round(1 - bound["bytes"] / plain["bytes"], 3),
        "events_saved": round(1 - bound["events"] / plain["events"], 3),
        "working_saved": round(1 - bound["working"] / plain["working"], 3),
        "time_over_plain": round(bound["seconds"] / plain["seconds"], 3),
        "plain": {name: round(value, 3) for name, value in plain.items()},
        "with_constraints": {name: round(value, 3) for name, value in bound.items()},
    }


def constraints(number: int = 2_400_000, concurrent: int = 50_000, chunk: int = 20_000, repeats: int = 5) -> Mapping[str, Any]:
    failing = compared(0.1, number, concurrent, chunk, repeats)
    few = compared(0.1, number, concurrent // 5, chunk, repeats)
    sound = compared(1.0, number, concurrent, chunk, repeats)
    saves = failing["bytes_saved"] >= MEMORY_BAR and failing["time_over_plain"] <= 1 - TIME_BAR
    same = failing["same_matches"] and few["same_matches"] and sound["same_matches"]
    is_small = all(each["working_saved"] >= 0 for each in (failing, few, sound))
    holds = saves and same and is_small and sound["time_over_plain"] <= OVERHEAD_BAR
    return {"failing_90": failing, "failing_90_of_few": few, "failing_0": sound, "holds": holds}


def run() -> Mapping[str, Any]:
    given = arguments()
    wanted = given.parts.split(",")
    result: dict[str, Any] = {}
    if "kernel" in wanted:
        result["kernel"] = kernel()
    if "constraints" in wanted:
        result["constraints"] = constraints()
    if "flink" in wanted:
        contests = [contest for contest in CONTESTS if contest.name in given.contests.split(",")]
        result["flink"] = against_flink(contests, given.events, given.slices)
    return {"holds": all(part["holds"] for part in result.values()), **result}


if __name__ == "__main__":
    main("patterns", run)
