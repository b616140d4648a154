"""Estimated against measured state: within 15 % on stationary streams, for every bound a join can have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.apps.reading import read_joins
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.lowering.statistics import JoinMemory, MemoryMonitor, with_statistics
from penstock.metadata.statistics import JoinWatch, WatchedInput
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import between, constant, one_of
from penstock.model.windows import Sliding, Unbounded, Window
from penstock.operators.joins.window_join import WindowJoin
from penstock.operators.watched import Watched
from penstock.plan.analysis.estimation import Basis, JoinStatistics, compare
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

AUCTION = """
CREATE STREAM auction (item_id BIGINT, seller BIGINT, opens TIMESTAMP, UNIQUE (item_id),
  WATERMARK opens DELAY OF INTERVAL 0 SECONDS) USING feed;
CREATE STREAM bid (item_id BIGINT, bidder BIGINT, ts TIMESTAMP, mark STRING, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed
  PUNCTUATIONS FROM mark ON (item_id);
CREATE CQ q AS SELECT a.item_id, b.bidder FROM auction a {window}, bid b WHERE a.item_id = b.item_id;
"""
PAIRS = """
CREATE STREAM l (id BIGINT, key BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed;
CREATE STREAM r (id BIGINT, key BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed;
CREATE CQ q AS SELECT l.id, r.id AS other FROM l [RANGE 2 SECONDS], r [RANGE 1 SECONDS] WHERE l.key = r.key;
"""


def played(
    text: str,
    feeds: Mapping[str, Mapping[str, str]],
    batches: int,
    ticks: int,
    shards: int,
    is_watched: bool = True,
    learnt: Iterable[JoinMemory] = (),
) -> tuple[MemoryMonitor, float]:
    """The monitor after a run, and the mean state of the second half."""
    catalog = parse_application(text)
    job = build_job(catalog, shards)
    if is_watched:
        job = with_statistics(job)
    runner, monitor, states = LocalRunner(job), MemoryMonitor(job, learnt), list[int]()
    plays = {name: Playback.from_text(options) for name, options in feeds.items()}
    for batch in range(batches):
        spans = {name: play.ranges(batch * ticks, (batch + 1) * ticks) for name, play in plays.items()}
        schemas = {name: catalog.streams[name].schema.arrow for name in plays}
        runner.run(
            {name: [rows for span in found for rows in plays[name].batches(span, schemas[name])] for name, found in spans.items()}
        )
        report = runner.report()
        monitor.update(report, report)
        states.append(sum(counters["state_rows"] for name, counters in report.items() if name.startswith("WindowJoin")))
    return monitor, float(np.mean(states[batches // 2 :]))


def error_of(monitor: MemoryMonitor, measured: float) -> float:
    (estimates,) = monitor.estimates().values()
    found = compare("join", estimates, measured)
    assert found is not None
    return found.error


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("marks", "window"), [("constant", ""), ("constant", "[RANGE 800 MILLISECONDS]"), ("range", "")])
def test_auctions_are_estimated_within_fifteen_percent(marks: str, window: str, shards: int) -> None:
    feeds = {"auction": {"workload": "auction.auction"}, "bid": {"workload": "auction.bid", "marks": marks}}
    monitor, measured = played(AUCTION.format(window=window), feeds, 25, 400, shards)
    assert error_of(monitor, measured) < 0.15


def test_windows_without_punctuations_are_estimated_within_fifteen_percent() -> None:
    feeds = {"l": {"workload": "pairs.left"}, "r": {"workload": "pairs.right"}}
    monitor, measured = played(PAIRS, feeds, 30, 2000, 2)
    assert error_of(monitor, measured) < 0.15


def test_without_watching_measured_rates_and_declared_windows_give_the_estimate() -> None:
    feeds = {"l": {"workload": "pairs.left"}, "r": {"workload": "pairs.right"}}
    monitor, measured = played(PAIRS, feeds, 30, 2000, 2, is_watched=False)
    assert error_of(monitor, measured) < 0.15
    (join,) = monitor.joins()
    assert [part.basis for part in join.estimates] == [Basis.WINDOW, Basis.WINDOW]
    assert join.comparison is not None
    assert join.to_json()["estimated_rows"] == pytest.approx(join.comparison.estimated_rows, abs=0.1)
    assert join.peak_rows >= join.measured_rows
    assert "rows estimated" in str(join)


def test_without_watching_nothing_is_estimated_where_only_punctuations_bound_the_state() -> None:
    feeds = {"auction": {"workload": "auction.auction"}, "bid": {"workload": "auction.bid", "marks": "constant"}}
    monitor, measured = played(AUCTION.format(window=""), feeds, 12, 400, 2, is_watched=False)
    (join,) = monitor.joins()
    assert join.comparison is None
    assert join.to_json()["estimated_rows"] is None
    assert join.measured_rows == pytest.approx(measured, rel=0.3)
    assert "no estimate" in str(join)


def test_what_is_left_behind_the_end_of_the_streams_does_not_count() -> None:
    catalog = parse_application(PAIRS)
    monitor = MemoryMonitor(build_job(catalog, 1))
    entries = {name: {"used": 10, "frontier": 5} for name in ("l@1.0", "r@1.1")}
    monitor.update({"WindowJoin1": {"state_rows": 40}}, entries)
    ended = {name: {"used": 10, "frontier": FOREVER} for name in entries}
    monitor.update({"WindowJoin1": {"state_rows": 0}}, ended)
    assert monitor.joins()[0].measured_rows == 40


def test_the_rate_of_a_derived_input_is_that_of_the_operator_below() -> None:
    catalog = parse_application(
        """
        CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE CQ d AS SELECT DISTINCT k FROM b [RANGE 2];
        CREATE CQ q AS SELECT a.k FROM a [RANGE 5], d [RANGE 5] WHERE a.k = d.k
        """
    )
    monitor = MemoryMonitor(build_job(catalog, 1))
    (name,) = monitor.statistics
    for clock in (10, 20):
        entries = {entry: {"used": 8 * clock, "frontier": clock} for entry in ("a@1.1", "b@1.0")}
        below = {f"{kind}{at}": {"rows_out": 2 * clock} for kind in ("Distinct", "Project") for at in range(1, 5)}
        monitor.update({name: {"state_rows": 20}, **below}, entries)
    assert [part.rate for part in monitor.estimates()[name]] == [8, 2]


def test_watching_changes_neither_answers_nor_state() -> None:
    catalog = parse_application(PAIRS)
    plain, feeds = build_job(catalog, 2), {"l": "pairs.left", "r": "pairs.right"}
    runners = [LocalRunner(plain), LocalRunner(with_statistics(plain))]
    for runner in runners:
        for batch in range(3):
            plays = {name: Playback.from_text({"workload": text, "keys": "50"}) for name, text in feeds.items()}
            inputs = {
                name: [
                    rows
                    for span in play.ranges(100 * batch, 100 * batch + 100)
                    for rows in play.batches(span, catalog.streams[name].schema.arrow)
                ]
                for name, play in plays.items()
            }
            runner.run(inputs)
    first, second = (sorted(map(str, runner.collected.rows("q"))) for runner in runners)
    assert first == second != []
    kept, watched = ([state.meta["node:WindowJoin1"] for state in runner.snapshot().values()] for runner in runners)
    assert kept == watched
    assert plain.fingerprint == runners[1].job.fingerprint


# -- many-to-many, at the operator ------------------------------------------------------------------------------------

SIDES = (pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()}))


def joined(window: Window, life: int, lag: float, step: int = 10, values: int = 130) -> tuple[float, float]:
    """Estimated and mean measured rows of input a.

    A value opens every ten units, has 15 rows on either side over its life, is closed by a at its end and by b `lag`
    lives after its start. Time goes in steps of ten units.
    """
    random = np.random.default_rng(3)
    ends = {0: 10 * np.arange(values) + life, 1: (10 * np.arange(values) + lag * life).astype(np.int64)}
    rows = [_side(random, values, life, None), _side(random, values, life, None if lag >= 1 else int(lag * life))]
    inputs = [WatchedInput(("a",), getattr(window, "size", None)), WatchedInput(("b",), getattr(window, "size", None))]
    operator = Watched(lambda: WindowJoin(SIDES, [["a"], ["b"]], [window, window], pa.schema([*SIDES[0], *SIDES[1]])), inputs)
    seen, states = JoinStatistics(inputs), list[int]()
    for now in range(0, 10 * values, step):
        for port, name in enumerate("ab"):
            found, times = rows[port]
            mine = np.flatnonzero((times >= now) & (times < now + step))
            batch = pa.RecordBatch.from_pydict({name: found[mine]}, schema=SIDES[port])
            operator.on_batch(port, Batch(batch, times[mine], mine))
            closed = np.flatnonzero((ends[port] >= now) & (ends[port] < now + step))
            if len(closed):
                operator.on_metadata(port, Punctuation((name,), (one_of(closed.tolist()),)))
            operator.on_metadata(port, Heartbeat(now + step))
        seen.update(operator.counters())
        states.append(operator.operator._rows[0].num_rows)  # type: ignore[attr-defined]
    estimate = seen.estimates(("a", "b"), (24.0, 24.0))[0]
    assert estimate.rows is not None
    return estimate.rows, float(np.mean(states[len(states) // 3 : -len(states) // 5]))


def _side(random: np.random.Generator, values: int, life: int, until: int | None) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Rows of one input; none behind its own punctuation."""
    keys = np.repeat(np.arange(values), 15)
    times = 10 * keys + random.integers(0, life if until is None else max(until, 1), len(keys))
    order = np.argsort(times, kind="stable")
    return keys[order], times[order]


@pytest.mark.parametrize("lag", [0.5, 1.6])
@pytest.mark.parametrize("window", [Unbounded(), Sliding(80)])
def test_many_to_many_joins_are_estimated_within_fifteen_percent(window: Window, lag: float) -> None:
    estimated, measured = joined(window, life=200, lag=lag)
    assert estimated == pytest.approx(measured, rel=0.15)


# -- the watch itself -------------------------------------------------------------------------------------------------


def batch_of(name: str, keys: list[int | None], times: list[int]) -> Batch:
    return Batch(pa.RecordBatch.from_pydict({name: pa.array(keys, pa.int64())}), np.array(times), np.arange(len(times)))


def close(name: str, value: int) -> Punctuation:
    return Punctuation((name,), (constant(value),))


def two(window: int | None = None, capacity: int = 1024) -> JoinWatch:
    watch = JoinWatch([WatchedInput(("a",), window), WatchedInput(("b",), window)], capacity)
    watch.hear(0, close("a", -1))
    return watch


def test_without_punctuations_no_value_is_recorded() -> None:
    watch = JoinWatch([WatchedInput(("a",), 5), WatchedInput(("b",), 5)])
    watch.see(0, batch_of("a", [1, 2], [0, 1]))
    assert (watch.open_values, watch.counters()["rows.0"]) == (0, 2)


def test_a_row_behind_the_partners_punctuation_does_not_stay() -> None:
    watch = two()
    watch.see(0, batch_of("a", [7], [10]))
    watch.hear(0, close("a", 7))
    watch.see(1, batch_of("b", [7, 7], [5, 40]))
    watch.hear(1, close("b", 7))
    watch.see(1, batch_of("b", [8], [50]))
    counters = watch.counters()
    assert (counters["stay.1"], counters["stay_rows.1"]) == (0, 2)
    assert counters["stay_rows.0"] == 1


@pytest.mark.parametrize("pattern", [between(0, 9), one_of([6, 7])])
def test_a_value_closed_before_it_came_is_known_to_be_closed(pattern: object) -> None:
    watch = two()
    watch.see(0, batch_of("a", [1], [0]))
    watch.hear(0, Punctuation(("a",), (pattern,)))  # type: ignore[arg-type]
    watch.see(1, batch_of("b", [7], [20]))
    watch.hear(1, close("b", 7))
    assert watch.lives(1).delays.tolist() == [0]


def test_a_value_nobody_closes_stays_for_its_window() -> None:
    watch = two(window=30)
    watch.see(0, batch_of("a", [7], [10]))
    watch.see(1, batch_of("b", [9], [100]))
    counters = watch.counters()
    assert (counters["stay.0"], counters["stay_rows.0"]) == (30, 1)


def test_a_value_nobody_closes_without_a_window_stays_open_and_becomes_overdue() -> None:
    watch = two()
    watch.see(0, batch_of("a", [7], [10]))
    watch.see(1, batch_of("b", [9], [100]))
    counters = watch.counters()
    assert (counters["open_rows.0"], counters["overdue_rows.0"], counters["stay_rows.0"]) == (1, 1, 0)


def test_the_sample_stays_small_and_null_is_no_value() -> None:
    watch = two(capacity=64)
    for start in range(0, 4000, 500):
        keys: list[int | None] = [None, *range(start, start + 500)]
        watch.see(0, batch_of("a", keys, [start] * len(keys)))
    assert 0 < watch.open_values <= 64


def test_all_inputs_record_the_same_values() -> None:
    watch = two(capacity=32)
    for port, name in enumerate("ab"):
        watch.see(port, batch_of(name, list(range(1000)), [port] * 1000))
    watch.hear(0, Punctuation(("a",), (between(0, 999),)))
    watch.hear(1, Punctuation(("b",), (between(0, 999),)))
    assert len(watch.lives(0).rows) == len(watch.lives(1).rows) > 0


@pytest.mark.parametrize("window", ["", "[RANGE 800 MILLISECONDS]"])
def test_what_a_watched_run_has_learnt_serves_later_runs_and_explain(window: str, tmp_path: Path) -> None:
    """Windows and punctuations together bound the state: neither alone would give the estimate."""
    text = AUCTION.format(window=window)
    feeds = {"auction": {"workload": "auction.auction"}, "bid": {"workload": "auction.bid", "marks": "constant"}}
    watched, _ = played(text, feeds, 25, 400, 2)
    told = json.loads(json.dumps([join.to_json() for join in watched.joins()]))
    learnt = [JoinMemory.from_json(coded) for coded in told]
    assert [join.to_json()["inputs"] for join in learnt] == [coded["inputs"] for coded in told]
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "joins").write_text(json.dumps(told))
    assert list(read_joins(tmp_path)) == learnt
    plain, measured = played(text, feeds, 25, 400, 2, is_watched=False, learnt=learnt)
    assert error_of(plain, measured) < 0.15
    (join,) = plain.joins()
    assert {part.basis for part in join.estimates} == {Basis.MEASURED}
    shown = str(explain(parse_application(text), joins=plain.joins()))
    assert "memory of joins, as the run has measured it\n  WindowJoin1: about" in shown
    assert "(measured)" in shown


def test_a_window_before_values_are_closed_is_a_bound_and_is_called_one() -> None:
    text = AUCTION.replace("USING feed", "USING feed OPTIONS (rate '100')")
    shown = str(explain(parse_application(text.format(window="[RANGE 1 MINUTE]"))))
    assert "memory of a: at most about 6,000 rows, 144.0 kB (window; less as values are closed earlier)" in shown
    (estimate, *_) = explain(parse_application(PAIRS)).to_json()["queries"][0]["plan"]["inputs"][0]["memory"]
    assert not estimate["at_most"]
