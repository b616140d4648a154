"""Eight conditions whose selectivities drift: an adaptive order against Spark's own WHERE, in one run.

Two comparisons, a LIKE, an RLIKE and four conditions on hashes (a pandas UDF that hashes a token eight times, about 5 µs a row)
over Parquet files of 100,000 rows, read as a stream, four files a micro-batch, into the noop sink. Neighbouring conditions are
correlated; which of them rejects most changes three times.

What Spark does with a WHERE: Catalyst evaluates built-in predicates in written order, row by row, and stops at the first that
fails. Conditions on Python functions are taken out of the conjunction, wherever they are written, and evaluated together behind
the built-in ones: every row that passes those is sent to Python, where all functions see all of them. So

* `written`: the conditions as somebody may have written them, functions and searches among comparisons;
* `worst`: searches first, in the worst order of the whole run;
* `static`: built-in predicates in the best order of the whole run;
* `chained`: as `static`, and the four functions in one pandas UDF that evaluates each on the rows the previous ones leave, in
  the best order of the whole run: no WHERE any more, but what a careful user would write by hand. Best orders are found by
  dynamic programming over the generated data with costs that are set by hand.

`ratio_to_best_static` compares with `static`, the same WHERE in the best order; `ratio_to_chained` with the function by hand,
which nothing asks of us but which is what adaptive orders have to beat. `steady` repeats the comparison with the distribution of
the first quarter only. What profiling costs where all orders are equal is
measured in process, as the least CPU time of several runs that alternate with a fixed order, because a few per cent are below the
noise of a whole Spark job: eight conditions on hashes that each pass half of the rows, independently.

Ratios compare rows per second on the clock; `by_cpu` compares rows per second of processor time (JVM and workers), which says
more where others use the same cores.

    python -m benchmarks.adaptive_filters [--rows 5000000]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import penstock as ps
from benchmarks.common import Timing, main, session, timed
from penstock.model.batch import Batch
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.predicates import OnPandas
from penstock.operators.filtering.settings import Algorithm, FilterSettings, Mode, OrderSettings
from penstock.operators.filtering.static import DropStatistics, histogram

FILE_ROWS = 100_000
FILES_PER_BATCH = 4
#: Micro-batches before any is timed: the JVM compiles, workers load.
WARM_UP = 4
ROUNDS = 8
_SCHEMA = "id BIGINT, ts TIMESTAMP, size INT, port INT, line STRING, token STRING"
_ARROW = "spark.sql.execution.arrow.maxRecordsPerBatch"

#: By name, in the order somebody may have written them. Names are columns of the table of passing probabilities.
WRITTEN = ("known", "search", "listed", "size", "word", "allowed", "port", "trusted")
TEXTS = {
    "size": "size < 900",
    "port": "port <> 443",
    "word": "line LIKE '%session%'",
    "search": "line RLIKE '(GET|PUT) /api/v[0-9]+/(users|orders)/[0-9]+'",
}
HASHED = ("known", "listed", "allowed", "trusted")
#: Probability that a row passes, by quarter of the run.
PASSING: Mapping[str, tuple[float, float, float, float]] = {
    "size": (0.85, 0.85, 0.85, 0.85),
    "port": (0.90, 0.95, 0.90, 0.85),
    "word": (0.90, 0.95, 0.85, 0.95),
    "search": (0.85, 0.95, 0.70, 0.90),
    "known": (0.10, 0.95, 0.90, 0.90),
    "listed": (0.85, 0.90, 0.95, 0.10),
    "allowed": (0.90, 0.10, 0.90, 0.95),
    "trusted": (0.95, 0.90, 0.10, 0.90),
}
#: About what a condition costs Spark, in µs a row: to find its best and its worst order.
_COSTS = {"size": 0.01, "port": 0.01, "word": 0.1, "search": 0.6, **dict.fromkeys(HASHED, 5.0)}
#: Neighbours that look at the same number four times out of five.
_CORRELATED = (("word", "search"), ("known", "listed"), ("size", "port"))


def digest(token: str, salt: bytes) -> int:
    """The first byte of a hash of a hash, and so on."""
    found = token.encode()
    for _ in range(ROUNDS):
        found = hashlib.sha256(salt + found).digest()
    return found[0]


def passes(salt: bytes, token: pd.Series) -> pd.Series:
    """Whether tokens have an even digest."""
    return pd.Series([digest(each, salt) % 2 == 0 for each in token], dtype=bool)


def known(token: pd.Series) -> pd.Series:
    return passes(b"known", token)


def listed(token: pd.Series) -> pd.Series:
    return passes(b"listed", token)


def allowed(token: pd.Series) -> pd.Series:
    return passes(b"allowed", token)


def trusted(token: pd.Series) -> pd.Series:
    return passes(b"trusted", token)


FUNCTIONS: Mapping[str, Callable[[pd.Series], pd.Series]] = {
    "known": known, "listed": listed, "allowed": allowed, "trusted": trusted,
}  # fmt: skip

# -- data ------------------------------------------------------------------------------------------------------------------


class Pools:
    """Texts and tokens by what they pass, so that rows with given outcomes can be drawn."""

    def __init__(self, rng: np.random.Generator, size: int = 256) -> None:
        self.size = size
        self.lines = pa.array([self._line(rng, bool(kind & 1), bool(kind & 2)) for kind in range(4) for _ in range(size)])
        tokens: list[list[str]] = [[] for _ in range(1 << len(HASHED))]
        while min(len(pool) for pool in tokens) < size:
            token = rng.bytes(12).hex()
            outcome = sum((digest(token, name.encode()) % 2 == 0) << bit for bit, name in enumerate(HASHED))
            tokens[outcome].append(token)
        self.tokens = pa.array([token for pool in tokens for token in pool[:size]])

    @staticmethod
    def _line(rng: np.random.Generator, has_word: bool, is_found: bool) -> str:
        verb, path = ("GET", "users") if rng.random() < 0.5 else ("PUT", "orders")
        number = rng.integers(10**6)
        request = f"{verb} /api/v2/{path}/{number}" if is_found else f"{verb} /api/v2/{path}/x{number}"
        return f"{rng.bytes(10).hex()} {request} {'session' if has_word else 'visitor'}={rng.bytes(12).hex()} {rng.bytes(8).hex()}"


def outcomes(rng: np.random.Generator, quarters: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, np.ndarray[Any, Any]]:
    """Which conditions each row passes."""
    rows = len(quarters)
    drawn = {name: rng.random(rows) for name in PASSING}
    for first, second in _CORRELATED:
        drawn[second] = np.where(rng.random(rows) < 0.8, drawn[first], drawn[second])
    return {name: drawn[name] < np.array(PASSING[name])[quarters] for name in PASSING}


def file_rows(pools: Pools, seed: int, start: int, total: int, is_steady: bool) -> tuple[pa.Table, dict[str, Any]]:
    rng = np.random.default_rng([seed, start])
    ids = np.arange(start, min(start + FILE_ROWS, total))
    rows = len(ids)
    good = outcomes(rng, np.zeros(rows, np.int64) if is_steady else ids * 4 // total)
    line = (good["word"] + 2 * good["search"]) * pools.size + rng.integers(0, pools.size, rows)
    token = sum(good[name].astype(np.int64) << bit for bit, name in enumerate(HASHED)) * pools.size
    columns = {
        "id": pa.array(ids),
        "ts": pa.array(1_700_000_000_000_000 + ids, pa.timestamp("us", "UTC")),
        "size": pa.array(np.where(good["size"], rng.integers(0, 900, rows), 1_000), pa.int32()),
        "port": pa.array(np.where(good["port"], rng.integers(1_024, 9_000, rows), 443), pa.int32()),
        "line": pools.lines.take(pa.array(line)),
        "token": pools.tokens.take(pa.array(token + rng.integers(0, pools.size, rows))),
    }
    return pa.table(columns), good


def write(folder: Path, pools: Pools, rows: int, is_steady: bool) -> DropStatistics:
    """Files of the stream; returns what is true of it."""
    folder.mkdir()
    words = []
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        table, good = file_rows(pools, 7, start, rows, is_steady)
        pq.write_table(table, folder / f"part-{number:05d}.parquet")
        words.append(sum((~good[name]).astype(np.int64) << bit for bit, name in enumerate(WRITTEN)))
    return DropStatistics(histogram(np.concatenate(words), len(WRITTEN)), np.ones(len(WRITTEN)))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(str(folder))


# -- the two sides ---------------------------------------------------------------------------------------------------------


def ours(spark: SparkSession, folder: Path, control: Path, policy: str = "agreedy") -> DataFrame:
    conditions = [FUNCTIONS.get(name) or TEXTS[name] for name in WRITTEN]
    return ps.filter(stream(spark, folder), conditions, policy=policy, control=control, chunk_rows=8_192)


def sparks(spark: SparkSession, folder: Path, order: Sequence[str]) -> DataFrame:
    """The conjunction in an order, with a pandas UDF for each function."""
    functions = {name: f.pandas_udf(body, "boolean") for name, body in FUNCTIONS.items()}
    conditions = [functions[name]("token") if name in functions else f.expr(TEXTS[name]) for name in order]
    frame = stream(spark, folder)
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return frame.where(whole)


def chained(spark: SparkSession, folder: Path, order: Sequence[str]) -> DataFrame:
    """The same with one function that evaluates all of them, each on the rows that are left."""
    chain = [FUNCTIONS[name] for name in order if name in FUNCTIONS]

    def all_of(token: pd.Series) -> pd.Series:
        left = token.reset_index(drop=True)
        for body in chain:
            left = left[body(left).to_numpy()]
        found = np.zeros(len(token), bool)
        found[left.index] = True
        return pd.Series(found)

    built_in = [TEXTS[name] for name in order if name in TEXTS]
    return stream(spark, folder).where(" AND ".join(built_in)).where(f.pandas_udf(all_of, "boolean")("token"))


def ordered(statistics: DropStatistics, is_worst: bool = False) -> list[str]:
    """The best order of the whole run as Spark executes it, functions behind everything else; or the worst."""
    built_in = [bit for bit, name in enumerate(WRITTEN) if name in TEXTS]
    first = np.uint64(sum(1 << bit for bit in built_in))
    after = np.array([0 if name in TEXTS else first for name in WRITTEN], np.uint64)
    costs = np.array([_COSTS[name] for name in WRITTEN])
    known_costs = DropStatistics(statistics.weights, costs, after)
    found = known_costs.optimal()
    if is_worst:
        last = [bit for bit, name in enumerate(WRITTEN) if name not in TEXTS]
        found = max(((*each, *last) for each in permutations(built_in)), key=known_costs.cost)
    return [WRITTEN[number] for number in found]


# -- what profiling costs where it cannot help -----------------------------------------------------------------------------


def _equal_seconds(rows: pa.RecordBatch, policy: str) -> tuple[float, float]:
    """CPU time of eight equal conditions in process, and extra evaluations as a share of all."""
    salts = [bytes([number]) for number in range(8)]
    filters = [Filter(f"f{number}", OnPandas(partial(passes, salt), ("token",)), 1.0) for number, salt in enumerate(salts)]
    operator = AdaptiveFilter(
        rows.schema, filters, FilterSettings(OrderSettings(Algorithm(policy)), mode=Mode.BOTH), clock=time.perf_counter_ns
    )
    places = np.arange(rows.num_rows)
    started = time.process_time()
    operator.on_batch(0, Batch(rows, places, places))
    operator.report()
    spent = time.process_time() - started
    counted = operator.counters()
    asked = sum(count for name, count in counted.items() if name.startswith("evaluations:"))
    return spent, counted["extra_evaluations"] / asked


def overhead_of_profiling(rows: int = 100_000, repetitions: int = 5) -> dict[str, float]:
    """A-Greedy over a fixed order of conditions that are all alike; the runs alternate."""
    tokens = pa.RecordBatch.from_pydict({"token": [f"{number:024x}" for number in range(rows)]})
    _equal_seconds(tokens.slice(0, 1_000), "agreedy")
    found = [(_equal_seconds(tokens, "fixed")[0], *_equal_seconds(tokens, "agreedy")) for _ in range(repetitions)]
    least = min(adaptive for _, adaptive, _ in found) / min(fixed for fixed, _, _ in found) - 1
    return {"profiling_overhead": round(least, 4), "extra_evaluations": round(found[0][2], 4)}


# -- the run ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A run, and the processor time that it took, in seconds."""

    timing: Timing
    cpu: float

    @property
    def output_rows(self) -> int:
        return self.timing.output_rows

    @property
    def rows(self) -> int:
        return self.timing.rows_per_batch * len(self.timing.seconds)

    @property
    def speed(self) -> float:
        """Rows a second over the whole run: every quarter counts."""
        return self.rows / sum(self.timing.seconds)

    @property
    def speed_by_cpu(self) -> float:
        return self.rows / self.cpu

    def shown(self) -> dict[str, Any]:
        return {**self.timing.shown(), "rows_per_second": round(self.speed), "rows_per_cpu_second": round(self.speed_by_cpu)}


def cpu_seconds() -> float:
    """Processor time of all processes that this one has started, and of those they have outlived."""
    found = {int(path.name): path for path in Path("/proc").iterdir() if path.name.isdigit()}
    parents, spent = dict[int, int](), dict[int, int]()
    for number, path in found.items():
        with suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            parents[number], spent[number] = int(fields[1]), sum(int(field) for field in fields[11:15])
    mine = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(spent[number] for number in mine - {os.getpid()}) / os.sysconf("SC_CLK_TCK")


class Comparison:
    """Runs of both sides over the files of one folder."""

    def __init__(self, spark: SparkSession, folder: Path, statistics: DropStatistics) -> None:
        self.spark = spark
        self.folder = folder
        self.statistics = statistics
        self._runs = 0

    def ours(self, policy: str = "agreedy") -> Measured:
        self._runs += 1
        control = self.folder.with_name(f"{self.folder.name}-orders-{self._runs}")
        return self._timed(f"penstock, {policy}", ours(self.spark, self.folder, control, policy))

    def written(self) -> Measured:
        return self._timed("spark, written", sparks(self.spark, self.folder, WRITTEN), is_sparks=True)

    def worst(self) -> Measured:
        order = ordered(self.statistics, is_worst=True)
        return self._timed("spark, worst", sparks(self.spark, self.folder, order), is_sparks=True)

    def static(self) -> Measured:
        return self._timed("spark, static", sparks(self.spark, self.folder, ordered(self.statistics)), is_sparks=True)

    def chained(self) -> Measured:
        return self._timed("spark, chained", chained(self.spark, self.folder, ordered(self.statistics)), is_sparks=True)

    def _timed(self, name: str, frame: DataFrame, is_sparks: bool = False) -> Measured:
        before = cpu_seconds()
        # Spark's own functions get its default size of record batches; ours, which sessions of Penstock set, was not tried.
        timing = timed(name, frame, FILE_ROWS * FILES_PER_BATCH, {_ARROW: "10000"} if is_sparks else None)
        found = Measured(timing, cpu_seconds() - before)
        print(f"{'':28s} {found.speed:,.0f} rows/s, {found.speed_by_cpu:,.0f} by cpu", file=sys.stderr, flush=True)
        return found


def compare_drifting(comparison: Comparison) -> dict[str, Any]:
    mine = comparison.ours()
    found = {name: getattr(comparison, name)() for name in ("chained", "static", "written", "worst")}
    return {
        **ratios(found, lambda other: mine.speed / other.speed),
        "by_cpu": ratios(found, lambda other: mine.speed_by_cpu / other.speed_by_cpu),
        "same_result_count": all(mine.output_rows == other.output_rows for other in found.values()),
        "penstock": mine.shown(),
        **{f"spark_{name}": other.shown() for name, other in found.items()},
    }


def ratios(found: Mapping[str, Measured], compared: Callable[[Measured], float]) -> dict[str, float]:
    """How much faster than each order of Spark."""
    return {
        "ratio": round(compared(found["written"]), 2),
        "ratio_to_worst": round(compared(found["worst"]), 2),
        "ratio_to_best_static": round(compared(found["static"]), 2),
        "ratio_to_chained": round(compared(found["chained"]), 2),
    }


def compare_steady(comparison: Comparison, repetitions: int = 2) -> dict[str, Any]:
    """A few per cent are at stake: the runs alternate and the faster one of each side counts."""
    runs = [(comparison.ours(), comparison.chained(), comparison.static()) for _ in range(repetitions)]
    mine, chained_, static = (max(side, key=lambda each: each.speed) for side in zip(*runs, strict=True))
    least = [min(each.cpu for each in side) for side in zip(*runs, strict=True)]
    return {
        "ratio_to_best_static": round(mine.speed / static.speed, 3),
        "ratio_to_chained": round(mine.speed / chained_.speed, 3),
        "by_cpu": {"ratio_to_best_static": round(least[2] / least[0], 3), "ratio_to_chained": round(least[1] / least[0], 3)},
        "same_result_count": mine.output_rows == chained_.output_rows == static.output_rows,
        "penstock": mine.shown(),
        "spark_chained": chained_.shown(),
        "spark_static": static.shown(),
    }


def bars(drifting: Mapping[str, Any], steady: Mapping[str, Any], overhead: float) -> dict[str, bool]:
    return {
        "at least 2 x written order": drifting["ratio"] >= 2.0,
        "at least 1.3 x the best static order under drift": drifting["ratio_to_best_static"] >= 1.3,
        "at most 5 % behind it without drift": steady["ratio_to_best_static"] >= 0.95,
        "profiling costs at most 3 % when all orders are equal": overhead <= 0.03,
    }


def run() -> Mapping[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    rows = parser.parse_args().rows
    profiling = overhead_of_profiling()
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        pools = Pools(np.random.default_rng(5))
        written = {name: write(folder / name, pools, count, name != "drifting") for name, count in _sizes(rows).items()}
        spark = session()
        sides = {name: Comparison(spark, folder / name, statistics) for name, statistics in written.items()}
        sides["warm"].ours()
        sides["warm"].chained()
        drifting, steady = compare_drifting(sides["drifting"]), compare_steady(sides["steady"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    overhead = profiling["profiling_overhead"]
    judged = {"bars": bars(drifting, steady, overhead), "bars_by_cpu": bars(drifting["by_cpu"], steady["by_cpu"], overhead)}
    return {**drifting, "steady": steady, **profiling, **judged}


def _sizes(rows: int) -> dict[str, int]:
    return {"warm": WARM_UP * FILES_PER_BATCH * FILE_ROWS, "drifting": rows, "steady": rows // 2}


if __name__ == "__main__":
    main("adaptive_filters", run)
