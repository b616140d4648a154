"""A driver process that can be killed and restarted."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

#: A machine under load is slow; one that hangs is a failure.
_PATIENCE_SECONDS = 900
QUERIES = ("joined", "grouped", "sold", "spilled")

Bag = dict[str, list[tuple[object, ...]]]


@dataclass
class Victim:
    """One application, killed and restarted until it says that it is done."""

    folder: Path
    checkpoint: Path
    settings: tuple[str, ...] = ()
    master: str = "local[2,4]"  # a task may fail three times
    process: subprocess.Popen[bytes] | None = None
    family: dict[int, psutil.Process] = field(default_factory=dict)
    driver: str = "driver.py"

    def start(self) -> None:
        arguments = [str(self.checkpoint), str(self.folder / "out"), self.master, *self.settings]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name(self.driver)), *arguments], stdout=log, stderr=log, cwd=self.folder
            )

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def descendants(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            found = []
        self.family |= {process.pid: process for process in found}
        return found

    def workers(self) -> list[psutil.Process]:
        """Python workers: the processes that the daemon has forked."""
        return [process for process in self.descendants() if _is_daemon(_parent(process))]

    def committed(self) -> int:
        """Finished micro-batches."""
        commits = self.checkpoint / "spark" / "commits"
        return max((int(path.name) + 1 for path in commits.glob("[0-9]*") if path.name.isdigit()), default=0)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Return when it holds, or when the process has ended."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self.is_running and not holds():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def kill(self) -> None:
        """As a power cut would: the driver, its Java process and all workers, without a word of warning."""
        assert self.process is not None
        self.descendants()
        for process in [self.process, *self.family.values()]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()
        psutil.wait_procs(self.family.values(), timeout=20)
        self.family.clear()

    def finish(self) -> int:
        """Wait for the end; returns the exit code."""
        self.wait_until(lambda: False)
        assert self.process is not None
        return int(self.process.wait())

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-6000:]

    def answers(self, queries: Sequence[str] = QUERIES) -> Bag:
        found: Bag = {}
        for query in queries:
            files = sorted((self.folder / "out" / query).glob("epoch=*/*.parquet"))
            found[query] = bag_of(pa.concat_tables(pq.ParquetFile(file).read() for file in files))
        return found


def assert_finishes(victim: Victim, expected: Bag) -> None:
    victim.start()
    assert victim.finish() == 0, victim.log()
    assert victim.answers() == expected


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def _is_daemon(process: psutil.Process | None) -> bool:
    try:
        # Whichever daemon the session has asked for, but not what Spark has started in its place.
        words = [] if process is None else [word for word in process.cmdline() if word]
        return words[-1:] == ["pyspark.worker"] and not any("python_shim" in word for word in words)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def bag_of(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows in a fixed order; Parquet and Arrow name the same instant differently, so instants are numbers."""
    for number, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            instants = table.column(number).cast(pa.timestamp("us")).cast(pa.int64())
            table = table.set_column(number, column.name, instants)
    return sorted(tuple(row.values()) for row in table.to_pylist())
