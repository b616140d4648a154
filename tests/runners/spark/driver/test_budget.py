"""A time budget becomes priced work for every shard."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from penstock.errors import InvalidDeclaration
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.budget import decide_budget, nanoseconds, share_of_shard


def test_a_budget_that_holds_already_is_not_decided_again(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    for ns in (None, 5_000, 5_000, None, None, 7_000):
        decide_budget(log, ns)
    assert log.read(0, len(log)) == [("budget", {"ns": 5_000}), ("budget", {"ns": None}), ("budget", {"ns": 7_000})]


@pytest.mark.parametrize(("shards", "cores", "share"), [(1, 2, 800), (2, 2, 800), (3, 2, 400), (5, 2, 266), (2, 0, 400)])
def test_shards_that_must_wait_for_a_core_share_the_time(shards: int, cores: int, share: int) -> None:
    assert share_of_shard("800 ms", shards, cores) // 10**6 == share


@pytest.mark.parametrize("text", ["", "fast", "10", "10 fortnights", "1.2.3 s"])
def test_a_budget_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidDeclaration, match="such as 800 ms"):
        nanoseconds(text)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("800 ms", 800_000_000),
        ("500ns", 500),
        ("1.5 us", 1_500),
        ("2 s", 2 * 10**9),
        (".5 second", 5 * 10**8),
        ("1. seconds", 10**9),
    ],
)
def test_a_budget_is_a_duration_to_the_nanosecond(text: str, nanos: int) -> None:
    assert nanoseconds(text) == nanos
