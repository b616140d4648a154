"""COMPENSATE, `sampled_fraction()` and `sampling_error(…)`: judged by the rows that are left and their weights, and by all rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidConfiguration
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.lowering.tuning import check_decision
from penstock.model.elements import SHED, Control
from penstock.runners.local.runner import LocalRunner

STREAMS = """
CREATE STREAM s (id BIGINT, k BIGINT, n BIGINT, x DOUBLE, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM o (id BIGINT, k BIGINT, v DOUBLE, ts BIGINT, WATERMARK ts DELAY OF 0);
"""
LOSS = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 90 PERCENT)"
FAIR = "WITH QOS (LATENCY <= INTERVAL 2 SECONDS, LOSS <= 90 PERCENT COMPENSATE)"
KEPT = f"CREATE CQ {{0}}_kept {LOSS} AS SELECT id, sampled_fraction() AS fraction FROM {{0}};"
AGGREGATES = "count(*) AS rows, count(n) AS known, sum(n) AS whole, sum(x) AS parts, avg(x) AS mean, min(n) AS least"
SELECT = f"SELECT k, window_end() AS till, {AGGREGATES} FROM s [RANGE 20 TUMBLING] WHERE k < 3 GROUP BY k"
ESTIMATED = f"""
CREATE CQ est {FAIR} AS SELECT k, window_end() AS till, {AGGREGATES}, sampled_fraction() AS fraction,
  sampling_error(COUNT(*)) AS rows_off, sampling_error(COUNT(n)) AS known_off, sampling_error(SUM(x)) AS parts_off
FROM s [RANGE 20 TUMBLING] WHERE k < 3 GROUP BY k;
"""
JOIN = f"CREATE CQ pairs {FAIR} AS SELECT s.k, count(*) AS rows, sum(v) AS parts FROM s [RANGE 50 TUMBLING], o [RANGE 50 TUMBLING] "
JOIN += "WHERE s.k = o.k GROUP BY s.k;"


def job_of(queries: str, shards: int = 2) -> Job:
    return build_job(parse_application(STREAMS + queries), shards)


def of_s(seed: int, number: int, keys: int = 4) -> pa.RecordBatch:
    draw = np.random.default_rng(seed)
    n = [None if draw.random() < 0.2 else int(value) for value in draw.integers(-9, 9, number)]
    x = [None if draw.random() < 0.2 else float(value) for value in draw.normal(3, 2, number)]
    return pa.RecordBatch.from_pydict(
        {
            "id": np.arange(number),
            "k": draw.integers(0, keys, number),
            "n": pa.array(n, pa.int64()),
            "x": pa.array(x, pa.float64()),
            "ts": np.sort(draw.integers(0, max(number, 60), number)),
        }
    )


def of_o(seed: int, number: int, keys: int = 4) -> pa.RecordBatch:
    draw = np.random.default_rng(seed)
    ts = np.sort(draw.integers(0, max(number, 60), number))
    return pa.RecordBatch.from_pydict(
        {"id": np.arange(number), "k": draw.integers(0, keys, number), "v": draw.normal(1, 1, number), "ts": ts}
    )


def run(
    job: Job, inputs: Mapping[str, pa.RecordBatch], batches: int, shares: Mapping[str, Sequence[float]], encode: bool = True
) -> LocalRunner:
    """Micro-batches of equal size; each decides the shares of all entries of a stream anew."""
    runner = LocalRunner(job, encode=encode)
    for turn in range(batches):
        cut = {name: -(-rows.num_rows // batches) for name, rows in inputs.items()}
        decided = [
            Control(turn, SHED, {"entry": source.route.entry, "share": shares[name][turn % len(shares[name])], "seed": 5})
            for stage in job.stages
            for source in stage.sources
            if (name := source.prefix.stream.name) in shares
        ]
        runner.run({name: rows.slice(turn * cut[name], cut[name]) for name, rows in inputs.items()}, decided)
    runner.end()
    return runner


def weighed(runner: LocalRunner, name: str, rows: pa.RecordBatch) -> list[tuple[float, dict[str, Any]]]:
    """Rows that were left, each with what it stands for."""
    every = {row["id"]: row for row in rows.to_pylist()}
    return [(1 / found["fraction"], every[found["id"]]) for found in runner.collected.rows(f"{name}_kept")]


def total(rows: Iterable[tuple[float, dict[str, Any]]], value: str = "") -> float:
    return sum(weight * (row[value] if value else 1) for weight, row in rows)


def error(rows: Iterable[tuple[float, dict[str, Any]]], value: str = "") -> float:
    return sqrt(sum(weight * (weight - 1) * (row[value] if value else 1) ** 2 for weight, row in rows))


some_shares = st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 0.875]), min_size=1, max_size=4)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 99), number=st.integers(1, 120), batches=st.integers(1, 7), shares=some_shares, shards=st.integers(1, 2))
def test_counts_sums_and_means_are_those_of_the_rows_left_with_their_weights(
    seed: int, number: int, batches: int, shares: list[float], shards: int
) -> None:
    rows = of_s(seed, number)
    runner = run(job_of(KEPT.format("s") + ESTIMATED, shards), {"s": rows}, batches, {"s": shares})
    size = -(-number // batches)
    groups = defaultdict(list)
    for weight, row in weighed(runner, "s", rows):
        assert weight == pytest.approx(1 / (1 - shares[row["id"] // size % len(shares)]))
        if row["k"] < 3:
            groups[row["k"], row["ts"] // 20].append((weight, row))
    answers = runner.collected.rows("est")
    assert len(answers) == len(groups)
    for answer in answers:
        mine = groups[answer["k"], (answer["till"] - 1) // 20]
        whole, parts = ([pair for pair in mine if pair[1][name] is not None] for name in "nx")
        assert answer["rows"] == pytest.approx(total(mine), abs=0.5001)
        assert answer["known"] == pytest.approx(total(whole), abs=0.5001)
        assert (answer["whole"] is None) == (not whole)
        assert (answer["whole"] or 0) == pytest.approx(total(whole, "n"), abs=0.5001)
        assert (answer["parts"] is None) == (answer["mean"] is None) == (not parts)
        assert (answer["parts"] or 0) == pytest.approx(total(parts, "x"))
        assert (answer["mean"] or 0) == pytest.approx(total(parts, "x") / total(parts) if parts else 0)
        assert answer["least"] == min((row["n"] for _, row in whole), default=None)
        assert answer["fraction"] == pytest.approx(len(mine) / total(mine))
        assert answer["rows_off"] == pytest.approx(error(mine))
        assert answer["known_off"] == pytest.approx(error(whole))
        assert answer["parts_off"] == pytest.approx(error(parts, "x"))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), number=st.integers(1, 120), batches=st.integers(1, 5), shards=st.integers(1, 2))
def test_where_nothing_is_left_out_answers_are_exactly_those_without(seed: int, number: int, batches: int, shards: int) -> None:
    rows = of_s(seed, number)
    infinite = np.array(
        [inf if at % 7 == 0 else -0.0 if at % 7 == 1 else value or 0.0 for at, value in enumerate(rows["x"].to_pylist())]
    )
    for values in (rows, rows.set_column(3, "x", pa.array(infinite))):
        job = job_of(f"CREATE CQ plain AS {SELECT}; CREATE CQ same {FAIR} AS {SELECT};" + ESTIMATED, shards)
        runner = run(job, {"s": values}, batches, {})
        assert job.outputs["same"].arrow == job.outputs["plain"].arrow
        shown = [sorted(map(str, runner.collected.rows(name))) for name in ("plain", "same")]
        assert shown[0] == shown[1]
        for answer in runner.collected.rows("est"):
            assert (answer["fraction"], answer["rows_off"], answer["known_off"], answer["parts_off"]) == (1.0, 0.0, 0.0, 0.0)


def test_it_makes_no_difference_how_rows_are_cut_into_micro_batches_and_shards() -> None:
    rows = of_s(3, 400)
    found = []
    for batches, shards, encode in ((1, 1, False), (4, 2, True), (9, 2, False)):
        runner = run(job_of(ESTIMATED, shards), {"s": rows}, batches, {"s": [0.5]}, encode)
        found.append(sorted(map(str, runner.collected.rows("est"))))
    assert found[0] == found[1] == found[2]


def test_the_truth_is_within_four_standard_errors_of_the_estimates() -> None:
    rows = of_s(1, 20_000)
    text = ESTIMATED.replace("[RANGE 20 TUMBLING]", "[RANGE 5000 TUMBLING]")
    job = job_of(text + f"CREATE CQ exact AS {SELECT.replace('[RANGE 20 TUMBLING]', '[RANGE 5000 TUMBLING]')};")
    entries = {source.route.weight: source.route.entry for stage in job.stages for source in stage.sources}
    assert set(entries) == {"", "row_weight()"}  # who does not ask carries no weights
    runner = LocalRunner(job)
    for turn, share in enumerate((0.3, 0.6, 0.1, 0.8) * 5):
        runner.run(
            {"s": rows.slice(1_000 * turn, 1_000)}, [Control(turn, SHED, {"entry": entries["row_weight()"], "share": share})]
        )
    runner.end()
    truth = {(row["k"], row["till"]): row for row in runner.collected.rows("exact")}
    answers = runner.collected.rows("est")
    assert len(answers) == len(truth) == 12
    off = []
    for answer in answers:
        mine = truth[answer["k"], answer["till"]]
        assert 0.3 < answer["fraction"] < 0.7
        off += [(answer[name] - mine[name]) / answer[f"{name}_off"] for name in ("rows", "known", "parts")]
        assert answer["mean"] == pytest.approx(mine["mean"], abs=0.3)
    assert max(map(abs, off)) < 4
    assert 0.5 < np.std(off) < 1.7  # standard errors are neither far too small nor far too large


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 99), numbers=st.tuples(st.integers(1, 60), st.integers(1, 60)), batches=st.integers(1, 4),
    first=some_shares, second=some_shares,
)  # fmt: skip
def test_a_pair_of_a_join_has_the_product_of_the_weights_of_its_rows(
    seed: int, numbers: tuple[int, int], batches: int, first: list[float], second: list[float]
) -> None:
    inputs = {"s": of_s(seed, numbers[0]), "o": of_o(seed + 1, numbers[1])}
    runner = run(job_of(KEPT.format("s") + KEPT.format("o") + JOIN), inputs, batches, {"s": first, "o": second})
    groups = defaultdict(list)
    for weight, row in weighed(runner, "s", inputs["s"]):
        for other, partner in weighed(runner, "o", inputs["o"]):
            if row["k"] == partner["k"] and row["ts"] // 50 == partner["ts"] // 50:
                groups[row["k"], row["ts"] // 50].append((weight * other, partner))
    expected = sorted((key, total(pairs), total(pairs, "v")) for (key, _), pairs in groups.items())
    found = sorted((answer["k"], answer["rows"], answer["parts"]) for answer in runner.collected.rows("pairs"))
    assert len(found) == len(expected)
    for name in range(4):
        mine, theirs = ([item for item in each if item[0] == name] for each in (found, expected))
        assert sum(item[1] for item in mine) == pytest.approx(sum(item[1] for item in theirs), abs=0.5001 * max(len(mine), 1))
        assert sum(item[2] for item in mine) == pytest.approx(sum(item[2] for item in theirs))


def test_rows_of_two_streams_with_equal_positions_do_not_stay_or_go_together() -> None:
    """Otherwise a half of these pairs would be left, each counted four times."""
    number = 4_000
    same = {"id": np.arange(number), "k": np.arange(number), "ts": np.arange(number)}
    s = pa.RecordBatch.from_pydict({**same, "n": same["k"], "x": same["k"].astype(float)}).select(["id", "k", "n", "x", "ts"])
    o = pa.RecordBatch.from_pydict({**same, "v": np.ones(number)}).select(["id", "k", "v", "ts"])
    select = "SELECT count(*) AS rows FROM s [RANGE 10000 TUMBLING], o [RANGE 10000 TUMBLING] WHERE s.k = o.k"
    runner = run(job_of(f"CREATE CQ pairs {FAIR} AS {select};"), {"s": s, "o": o}, 2, {"s": [0.5], "o": [0.5]})
    (answer,) = runner.collected.rows("pairs")
    assert answer["rows"] == pytest.approx(number, rel=0.1)


def test_selects_in_from_and_unions_hand_weights_on() -> None:
    text = f"""
    CREATE CQ whole {FAIR} AS SELECT g, count(*) AS rows, sampled_fraction() AS fraction FROM (
      SELECT id % 2 AS g, ts FROM (SELECT id, ts FROM s WHERE k < 3) WHERE id > 5 UNION ALL SELECT id % 2 AS g, ts FROM o
    ) [RANGE 100000 TUMBLING] GROUP BY g;
    CREATE CQ nested {FAIR} AS SELECT total, window FROM (
      SELECT count(*) AS total, window_end() AS window FROM s [RANGE 100000 TUMBLING]) WHERE total > 3;
    CREATE CQ offers {FAIR} AS SELECT count(*) AS rows, sampled_fraction() AS part
      FROM (SELECT s.k FROM s [RANGE 100000], o [RANGE 100000] WHERE s.k = o.k) AS offer [RANGE 100000 TUMBLING];
    CREATE CQ loosely {LOSS} AS SELECT id, f FROM (SELECT id, sampled_fraction() AS f FROM s) WHERE f < 0.9;
    """
    inputs = {"s": of_s(4, 3_000), "o": of_o(5, 1_000)}
    runner = run(job_of(text), inputs, 3, {"s": [0.5], "o": [0.0]})
    left = sum(row["k"] < 3 and row["id"] > 5 for row in inputs["s"].to_pylist()) / 2
    for answer in runner.collected.rows("whole"):
        assert answer["rows"] == pytest.approx(left + 500, rel=0.1)
        assert answer["fraction"] == pytest.approx((left / 2 + 500) / (left + 500), rel=0.1)
    sizes = [np.bincount(inputs[name]["k"].to_numpy()) for name in "so"]
    (offers,) = runner.collected.rows("offers")
    assert offers["rows"] == pytest.approx(float(sizes[0] @ sizes[1]), rel=0.1)
    assert offers["part"] == pytest.approx(0.5)
    (nested,) = runner.collected.rows("nested")
    assert nested["total"] == pytest.approx(3_000, rel=0.1)
    assert {row["f"] for row in runner.collected.rows("loosely")} == {0.5}


def test_rows_that_stand_for_others_are_left_out_at_random_only() -> None:
    job = job_of(ESTIMATED)
    (entry,) = [source.route.entry for stage in job.stages for source in stage.sources]
    for detail, said in (
        ({"share": 0.1, "kind": "lowest", "column": "x"}, "is no fair sample. Leave rows out at random"),
        ({"share": 1.0}, "no row is left to estimate from. Give a share below 1"),
    ):
        with pytest.raises(InvalidConfiguration, match=said):
            check_decision(job, Control(0, SHED, {"entry": entry, **detail}))
    check_decision(job, Control(0, SHED, {"entry": entry, "share": 0.1}))
