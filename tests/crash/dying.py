"""The application of `driver.py`, which kills itself while files are put in place: `dying.py CHECKPOINT OUTPUT MASTER …`.

Where it dies is told by the environment: before the first file of a micro-batch is moved, before its directory appears, or after.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
from driver import main

_EPOCH = "epoch=0000000002"
_rename = Path.rename


def die(marker: Path) -> None:
    """Once, as a power cut would: all processes at the same time."""
    marker.touch()
    for process in psutil.Process().children(recursive=True):
        process.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def rename(source: Path, target: Path) -> Path:
    moment, marker = os.environ["PENSTOCK_DIES"], Path(os.environ["PENSTOCK_DIED"])
    is_part = target.suffix == ".parquet" and target.parent.name == _EPOCH
    is_whole = target.name == _EPOCH and source.parent.name == "_staging"
    if not marker.exists() and ((moment == "before parts" and is_part) or (moment == "before whole" and is_whole)):
        die(marker)
    found = _rename(source, target)
    if not marker.exists() and ((moment == "amid parts" and is_part) or (moment == "after whole" and is_whole)):
        die(marker)
    return found


if __name__ == "__main__":
    Path.rename = rename  # type: ignore[method-assign]
    sys.exit(main(*sys.argv[1:]))
