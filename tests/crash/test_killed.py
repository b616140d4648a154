"""Whatever is killed, and whenever: after a restart the files hold exactly the answers of an undisturbed run."""

from __future__ import annotations

import random
import time

import pytest
from driver import BATCHES
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
