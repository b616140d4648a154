"""Whatever is killed, and whenever: after a restart the files hold exactly the answers of an undisturbed run."""

from __future__ import annotations

import random
import time

import pytest
from driver import BATCHES
from later import first_batch_of, later_answers, tick_before
from victim import Bag, Victim, assert_finishes

#: On an idle machine each takes less than a minute; the limit is for machines that do much else.
pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]


def kill_in_mid_stream(victim: Victim, rng: random.Random, after: int) -> None:
    """Start, wait for so many finished micro-batches and a random part of the next one, kill."""
    victim.start()
    victim.wait_until(lambda: victim.committed() >= after)
    time.sleep(rng.uniform(0, 1))
    victim.kill()


def test_a_driver_killed_in_mid_stream_loses_nothing_and_repeats_nothing(victim: Victim, expected: Bag, round_number: int) -> None:
    rng = random.Random(round_number)
    moments = sorted(rng.sample(range(BATCHES - 1), 1 + round_number % 2))  # in every other round a second time
    for after in moments:
        kill_in_mid_stream(victim, rng, after)
    assert_finishes(victim, expected)


def test_a_driver_killed_while_files_are_put_in_place_leaves_each_answer_once(
    victim: Victim, expected: Bag, round_number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = ("before whole", "amid parts", "after whole", "before parts")[round_number % 4]
    monkeypatch.setenv("PENSTOCK_DIES", moment)
    monkeypatch.setenv("PENSTOCK_DIED", str(victim.folder / "died"))
    victim.driver = "dying.py"
    victim.start()
    assert victim.finish() != 0, "it did not die"
    assert (victim.folder / "died").exists()
    assert_finishes(victim, expected)


def test_queries_come_and_go_between_crashes(victim: Victim, expected: Bag, round_number: int) -> None:
    """Queries that stay have all answers; those that come later those to the rows of their first micro-batch and after."""
    rng = random.Random(3000 + round_number)
    victim.driver = "changing.py"
    for after in sorted(rng.sample(range(1, BATCHES + 2), 1 + round_number % 3)):
        kill_in_mid_stream(victim, rng, after)
    victim.start()
    assert victim.finish() == 0, victim.log()
    answers = victim.answers(("joined", "sold", "spilled", "grouped", "per_key", "per_count", "more"))
    for query in ("joined", "sold", "spilled"):
        assert answers[query] == expected[query], query
    assert set(answers["grouped"]) < set(expected["grouped"])
    assert answers["more"] == later_answers("more", 0)
    first_tick = tick_before(victim.checkpoint, first_batch_of(victim.checkpoint, "per_key"))
    for query in ("per_key", "per_count"):
        assert answers[query] == later_answers(query, first_tick), query


def test_killed_python_workers_are_replaced_and_their_shards_restored(victim: Victim, expected: Bag, round_number: int) -> None:
    rng = random.Random(1000 + round_number)
    victim.start()
    killed = 0
    for after in range(BATCHES - 2):
        victim.wait_until(lambda after=after: victim.committed() >= after and bool(victim.workers()))
        time.sleep(rng.uniform(0, 0.5))
        for worker in rng.sample(found := victim.workers(), min(1, len(found))):
            worker.kill()
            killed += 1
    assert victim.finish() == 0, victim.log()
    assert killed >= 3
    assert victim.answers() == expected


def test_a_batch_that_the_files_already_hold_is_replayed_without_a_trace(victim: Victim, expected: Bag, round_number: int) -> None:
    rng = random.Random(2000 + round_number)
    kill_in_mid_stream(victim, rng, rng.randint(BATCHES - 3, BATCHES - 2))
    last = victim.committed() - 1
    for name in (f"{last}", f".{last}.crc"):
        (victim.checkpoint / "spark" / "commits" / name).unlink(missing_ok=True)
    held = list((victim.folder / "out").glob(f"*/epoch={last:010d}"))
    assert held, "the sink does not hold the batch, so nothing is replayed into it"
    if round_number % 2:  # and by workers that live for one task: no answer may depend on a kernel that a worker has kept
        victim.settings = ("spark.python.worker.reuse=false",)
    assert_finishes(victim, expected)
