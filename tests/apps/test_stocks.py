"""The stock application over ninety virtual seconds, against an obvious reading of the same trades."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.apps.table import EXAMPLES
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.plan.analysis.safety import check
from penstock.runners.local.runner import LocalRunner
from penstock.workloads.playback import Playback

RATE, SECONDS, STEP = 60, 90, 3
Row = dict[str, Any]


@dataclass
class Played:
    runner: LocalRunner
    #: Trades of each stock, by time.
    trades: dict[str, list[Row]]


@pytest.fixture(scope="module")
def played() -> Played:
    catalog = parse_application(EXAMPLES["stocks"].file.read_text(), "stocks")
    runner = LocalRunner(build_job(catalog, 2))
    ticks = catalog.streams["tick"]
    feed = Playback.from_text(dict(ticks.source.options))
    rows: list[Row] = []
    for second in range(0, SECONDS, STEP):
        ranges = feed.ranges(second * RATE, (second + STEP) * RATE)
        batches = [batch for part in ranges for batch in feed.batches(part, ticks.schema.arrow)]
        rows += [row for batch in batches for row in batch.to_pylist()]
        runner.run({"tick": batches})
    runner.end()
    trades: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["ts"]):
        trades[row["symbol"]].append(row)
    return Played(runner, trades)


def seconds(first: Row, last: Row) -> float:
    return float((last["ts"] - first["ts"]).total_seconds())


def rises_from(trades: list[Row], at: int, start: Row) -> int:
    """The last trade of the rises behind trade `at` that lie within the window of `start`."""
    while at + 1 < len(trades) and trades[at + 1]["price"] > trades[at]["price"] and seconds(start, trades[at + 1]) <= 20:
        at += 1
    return at


def falls_from(trades: list[Row], at: int) -> int:
    start = trades[at]
    while at + 1 < len(trades) and trades[at + 1]["price"] < trades[at]["price"] and seconds(start, trades[at + 1]) <= 20:
        at += 1
    return at


def test_rising_runs_are_the_longest_ones(played: Played) -> None:
    expected = set()
    for symbol, trades in played.trades.items():
        at = 0
        while at < len(trades):
            last = rises_from(trades, at, trades[at])
            if last - at >= 6:
                expected.add((symbol, trades[at]["ts"], trades[last]["ts"], trades[at]["price"], trades[last]["price"], last - at))
            at = last if last - at >= 6 else at + 1
    found = played.runner.collected.rows("rising_runs")
    assert {tuple(row.values()) for row in found} == expected
    assert len(found) == len(expected) > 50


def test_v_shapes_fall_and_come_back(played: Played) -> None:
    expected = set()
    for symbol, trades in played.trades.items():
        at = 0
        while at < len(trades):
            end = v_from(trades, at)
            if end is None:
                at += 1
                continue
            bottom = falls_from(trades, at)
            times = tuple(trades[place]["ts"] for place in (at, bottom, end))
            expected.add((symbol, *times, *(trades[place]["price"] for place in (at, bottom, end)), end - at + 1))
            at = end
    found = played.runner.collected.rows("v_shapes")
    assert {tuple(row.values()) for row in found} == expected
    assert len(found) == len(expected) > 20


def v_from(trades: list[Row], at: int) -> int | None:
    """Where the longest V from a trade ends: at least three falls, then at least three rises up to nearly its price."""
    bottom = falls_from(trades, at)
    if bottom - at < 3:
        return None
    top = rises_from(trades, bottom, trades[at])
    ends = [end for end in range(bottom + 3, top + 1) if trades[end]["price"] >= trades[at]["price"] * 0.99]
    return max(ends, default=None)


def test_the_news_can_be_read_by_anybody(played: Played) -> None:
    sentences = [row["sentence"] for row in played.runner.collected.rows("news")]
    told = (EXAMPLES["stocks"].folder / "README.md").read_text().split("```text\n")[1].split("```")[0].splitlines()
    assert [line.split()[0] for line in told] == ["BOLT", "JADE"]
    assert set(told) <= set(sentences)
    assert len(sentences) == len(set(sentences)) > 40


def test_the_state_of_the_application_is_bounded() -> None:
    catalog = parse_application(EXAMPLES["stocks"].file.read_text(), "stocks")
    assert check(catalog).is_bounded
    assert not catalog.warnings
