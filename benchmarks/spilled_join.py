"""A join with far more state than may stay in memory, killed once: does it finish, with every answer once, and how fast?

Two streams of Parquet files, two million rows of 500 bytes each by default, that is 2 GB; every row of one has its partner
somewhere in the other, and windows of a day keep all of them. `penstock run --memory '200 MB'` reads them on two shards. When half
of the rows have been read, the driver and Java are killed with signal 9, and the command is started again. Answers are compared
with the files. `state_mb` is the most state in memory that the run reports, `spilled_gb` what the state would need,
`process_mb` the most anonymous memory of a shard's process, which includes Python itself and the rows of the micro-batch at work.

    python -m benchmarks.spilled_join [--rows 2000000] [--memory '200 MB'] [--keep]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.common import main

_WIDTH, _FILE_ROWS, _FILES_AT_A_TIME = 500, 20_000, 4
_BEGIN = 1_700_000_000_000_000
_STATE = re.compile(r"state ([\d,]+) rows, ([\d.]+) (B|kB|MB|GB)")
_UNITS = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--memory", default="200 MB")
    parser.add_argument("--keep", action="store_true", help="leave files and checkpoint where they are")
    return parser.parse_args()


def write_streams(folder: Path, rows: int) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        (folder / name).mkdir()
        order, texts = np.random.default_rng(seed).permutation(rows), np.random.default_rng(seed + 10)
        for number, start in enumerate(range(0, rows, _FILE_ROWS)):
            keys = order[start : start + _FILE_ROWS]
            raw = texts.integers(97, 123, size=len(keys) * _WIDTH, dtype=np.uint8)
            offsets = pa.py_buffer(np.arange(0, (len(keys) + 1) * _WIDTH, _WIDTH, dtype=np.int32))
            payload = pa.Array.from_buffers(pa.string(), len(keys), [None, offsets, pa.py_buffer(raw)])
            ts = pa.array(_BEGIN + (np.arange(len(keys)) + start) * 1000, pa.timestamp("us", "UTC"))
            pq.write_table(pa.table({"k": keys, "payload": payload, "ts": ts}), folder / name / f"part-{number:05d}.parquet")


def application(folder: Path) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, payload STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND)"
        f" USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '{_FILES_AT_A_TIME}');\n"
        for name in "ab"
    )
    return f"""{streams}CREATE CQ pairs AS
    SELECT a.k, a.ts AS a_ts, b.ts AS b_ts, length(b.payload) AS size, substring(a.payload, 1, 8) AS text
    FROM a [RANGE 1 DAY], b [RANGE 1 DAY] WHERE a.k = b.k OUTPUT TO parquet OPTIONS (path '{folder / "out"}');"""


class Watch:
    """Looks twice a second at the memory of the shards' processes."""

    def __init__(self) -> None:
        self.most_mb = 0.0
        self._stopped = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._stopped.wait(0.5):
            for folder in Path("/proc").glob("[0-9]*"):
                self.most_mb = max(self.most_mb, _anonymous_mb(folder))

    def stop(self) -> None:
        self._stopped.set()


def _anonymous_mb(process: Path) -> float:
    """Of a Python process of Penstock's; 0 for others."""
    try:
        if b"penstock.runners.spark.processes" not in (process / "cmdline").read_bytes().split(b"java")[0]:
            return 0.0
        found = re.search(r"RssAnon:\s+(\d+) kB", (process / "status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1000 if found else 0.0


def started(folder: Path, memory: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", "run", str(folder / "app.sql"), "--checkpoint", str(folder / "checkpoint")]
    more = ["--available-now", "--memory", memory, "--shards", "2"]
    return subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def followed(process: subprocess.Popen[str], until_rows: float) -> tuple[int, float]:
    """Read what a run says, kill it when its state has so many rows; the most rows and megabytes in state."""
    rows, megabytes = 0, 0.0
    assert process.stdout is not None
    for line in process.stdout:
        if found := _STATE.search(line):
            print(line.rstrip(), file=sys.stderr, flush=True)
            rows, megabytes = max(rows, int(found[1].replace(",", ""))), max(megabytes, float(found[2]) * _UNITS[found[3]])
        if rows >= until_rows:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return rows, megabytes


def is_exact(folder: Path, rows: int) -> bool:
    """Whether every pair is there once, with what its two rows have."""
    found = pa.concat_tables([pq.read_table(file) for file in sorted((folder / "out").glob("epoch=*/*.parquet"))])
    found = found.take(pa.array(np.argsort(found["k"].to_numpy(), kind="stable")))
    if not np.array_equal(found["k"].to_numpy(), np.arange(rows)):
        return False
    for name in "ab":
        given = ds.dataset(folder / name).to_table(columns=["k", "ts"])
        ts = given["ts"].to_numpy()[np.argsort(given["k"].to_numpy())]
        if not np.array_equal(found[f"{name}_ts"].to_numpy(), ts):
            return False
    return bool((found["size"].to_numpy() == _WIDTH).all())


def run() -> Mapping[str, Any]:
    given = arguments()
    folder = Path(tempfile.mkdtemp(prefix="penstock-spilled-"))
    write_streams(folder, given.rows)
    (folder / "app.sql").write_text(application(folder))
    watch, began = Watch(), time.monotonic()
    killed_at, before = followed(started(folder, given.memory), given.rows)
    again = started(folder, given.memory)
    rows, after = followed(again, float("inf"))
    seconds = time.monotonic() - began
    watch.stop()
    exact = again.returncode == 0 and is_exact(folder, given.rows)
    if not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "exact": exact,
        "memory": given.memory,
        "killed_at_rows": killed_at,
        "state_rows": rows,
        "spilled_gb": round(2 * given.rows * _WIDTH / 1e9, 2),
        "state_mb": max(before, after),
        "process_mb": round(watch.most_mb),
        "rows_per_second": round(2 * given.rows / seconds),
    }


if __name__ == "__main__":
    main("spilled_join", run)
