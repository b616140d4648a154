"""Where the store of the state has no room, the application says so and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from victim import Bag, Victim, assert_finishes

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]


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
    victim.master = "local[2]"  # there is no more room for a second attempt
    victim.start()
    assert victim.finish() == 3, victim.log()
    said = victim.log().splitlines()[-1]
    assert said.startswith("state.unwritable")
    assert "the disk of the checkpoint is full" in said
    assert not _mount("remount,size=64m", small_disk)
    assert_finishes(victim, expected)
