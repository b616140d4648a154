"""Whatever is killed, and whenever: after a restart the files hold exactly the answers of an undisturbed run."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import BATCHES
from victim import Bag, Victim

#: On an idle machine each takes less than a minute; the limit is for machines that do much else.
pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]


def kill_in_mid_stream(victim: Victim, rng: random.Random, after: int) -> None:
    """Start, wait for so many finished micro-batches and a random part of the next one, kill."""
    victim.start()
    victim.wait_until(lambda: victim.committed() >= after)
    time.sleep(rng.uniform(0, 1))
    victim.kill()


def assert_finishes(victim: Victim, expected: Bag) -> None:
    victim.start()
    assert victim.finish() == 0, victim.log()
    assert victim.answers() == expected


def test_a_driver_killed_in_mid_stream_loses_nothing_and_repeats_nothing(victim: Victim, expected: Bag, round_number: int) -> None:
    rng = random.Random(round_number)
    first = rng.randrange(3)
    kill_in_mid_stream(victim, rng, first)
    kill_in_mid_stream(victim, rng, first + rng.randint(1, BATCHES - 4))
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
    kill_in_mid_stream(victim, rng, rng.randint(2, BATCHES - 2))
    last = victim.committed() - 1
    for name in (f"{last}", f".{last}.crc"):
        (victim.checkpoint / "spark" / "commits" / name).unlink(missing_ok=True)
    held = list((victim.folder / "out").glob(f"*/epoch={last:010d}"))
    assert held, "the sink does not hold the batch, so nothing is replayed into it"
    assert_finishes(victim, expected)


def test_answers_do_not_depend_on_kernels_that_workers_keep(victim: Victim, expected: Bag) -> None:
    victim.settings = ("spark.python.worker.reuse=false",)
    assert_finishes(victim, expected)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system too small for the state."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or _mount("size=400k", folder):
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(options: str, folder: Path) -> int:
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True).returncode


def test_a_full_disk_stops_with_a_message_and_nothing_is_lost(victim: Victim, small_disk: Path, expected: Bag) -> None:
    victim.checkpoint = small_disk / "checkpoint"
    victim.start()
    assert victim.finish() == 3, victim.log()
    said = victim.log().splitlines()[-1]
    assert said.startswith("state.unwritable")
    assert "the disk of the checkpoint is full" in said
    assert not _mount("remount,size=64m", small_disk)
    assert_finishes(victim, expected)
