"""Of all that is said about the strategy the newest holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidDeclaration
from penstock.language.application import parse_application, parse_policy
from penstock.model.elements import POLICY, SHED
from penstock.model.service import ChosenPolicy
from penstock.runners.editions.edition import ADD, DROP
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.driver.policies import Policies, Told, policy_of_steps

STREAM = "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);"
PLAIN = parse_application(f"{STREAM} CREATE CQ q AS SELECT k FROM s;")
TIMED = parse_application(f"{STREAM} CREATE CQ q VALID FOR INTERVAL 1 SECOND AS SELECT k FROM s;")


def told(text: str = "", option: str = "") -> Told:
    return Told(parse_policy(text) if text else None, parse_policy(option) if option else None)


def now(checkpoint: Checkpoint) -> str:
    current = Policies(checkpoint).current
    return "" if current is None else current.name


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


#: Starts, with `text` or `text/option`, and what is said while the application runs (`!name`); then what holds.
@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ("-", ""),
        ("segment", "segment"),
        ("segment/fifo", "fifo"),
        ("/fifo", "fifo"),
        ("segment segment", "segment"),
        ("segment !chain segment", "chain"),
        ("- !chain -", "chain"),
        ("segment !chain -", "chain"),
        ("segment !chain profit", "profit"),
        ("segment !chain - segment", "segment"),
        ("segment !chain segment/fifo", "fifo"),
        ("/fifo !chain /fifo", "chain"),
        ("/fifo !chain segment/fifo", "segment"),
        ("/fifo !chain profit/segment", "segment"),
        ("/fifo !chain - /fifo", "fifo"),
        ("segment/fifo segment", "fifo"),
        ("segment !segment !chain !segment segment", "segment"),
        ("fifo(max_age='1_second') !chain fifo(max_age='2_seconds')", "fifo"),
    ],
)
def test_the_newest_wish_holds_and_repeating_a_start_is_none(checkpoint: Checkpoint, said: str, holds: str) -> None:
    for one in said.split():
        text, _, option = one.strip("-").replace("_second", " second").partition("/")
        if one.startswith("!"):
            Policies(checkpoint).wish(ChosenPolicy(one[1:]))
        else:
            Policies(checkpoint).begin(told(text, option))
    assert now(checkpoint) == holds


def test_what_holds_already_is_not_decided_again(checkpoint: Checkpoint) -> None:
    for _ in range(3):
        Policies(checkpoint).begin(told("threshold (memory = '1 MB')"))
    assert checkpoint.control.read(0, len(checkpoint.control)) == [(POLICY, {"name": "threshold", "memory": "1 MB"})]


def test_the_strategy_of_added_texts_is_the_last_one_they_set() -> None:
    assert policy_of_steps([(DROP, "q")], "app") is None
    assert policy_of_steps(
        [(ADD, STREAM), (ADD, "SET POLICY fifo;"), (ADD, f"SET POLICY segment; {STREAM}")], "app"
    ) == ChosenPolicy("segment")


@pytest.mark.parametrize("start", [told("deadline"), told("", "deadline"), told("fifo", "deadline")])
def test_a_strategy_by_deadlines_needs_a_validity_wherever_it_is_named(checkpoint: Checkpoint, start: Told) -> None:
    Policies(checkpoint).check_start(start, TIMED)
    with pytest.raises(InvalidDeclaration, match="no query says how long"):
        Policies(checkpoint).check_start(start, PLAIN)


def test_with_a_strategy_by_deadlines_the_last_validity_cannot_go(checkpoint: Checkpoint) -> None:
    policies = Policies(checkpoint)
    policies.wish(ChosenPolicy("deadline"))
    policies.check(None, TIMED)
    for attempt in (lambda: policies.check(None, PLAIN), lambda: policies.check_start(Told(), PLAIN)):
        with pytest.raises(InvalidDeclaration, match="no query says how long"):
            attempt()
    policies.check(ChosenPolicy("fifo"), PLAIN)
    policies.check_start(told("", "fifo"), PLAIN)


def test_weights_of_queries_that_have_gone_stop_nothing(checkpoint: Checkpoint) -> None:
    weighing = parse_policy("weighted_round_robin (weights = 'gone=2, Q=3')")
    with pytest.raises(InvalidDeclaration, match="a weight for query 'gone', which is not there"):
        Policies(checkpoint).check(weighing, PLAIN)
    Policies(checkpoint).wish(weighing)
    Policies(checkpoint).check(None, PLAIN)


class CountedLog(ControlLog):
    """Counts the decisions that are read."""

    read_so_far = 0

    def read(self, start: int, stop: int) -> list[tuple[str, dict[str, Any]]]:
        found = super().read(start, stop)
        self.read_so_far += len(found)
        return found


def test_looking_again_reads_only_what_is_new(checkpoint: Checkpoint) -> None:
    """Somebody looks every few seconds, and the log grows for ever."""
    checkpoint.control = log = CountedLog(checkpoint.control.directory)
    policies = Policies(checkpoint)
    other_process = Policies(Checkpoint(checkpoint.directory))
    for look in range(40):
        log.append(SHED, {"entry": "s@1.0", "share": look / 100})
        if look % 10 == 0:
            other_process.wish(ChosenPolicy(f"chain{look}"))
        assert policies.current == policies.current == ChosenPolicy(f"chain{look // 10 * 10}")
    assert log.read_so_far == len(log)
