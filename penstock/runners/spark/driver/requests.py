"""Requests from another terminal: to add or drop queries of a run, with an answer."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import PenstockError, UserError
from penstock.runners.editions.changes import Changes
from penstock.runners.editions.edition import ADD
from penstock.runners.spark.checkpoints.records import create_record, read_record

_LOOK_SECONDS = 0.1


class Changeable(Protocol):
    """What requests are for."""

    def add(self, text: str, *, force: bool) -> Changes: ...

    def drop(self, query: str) -> Changes: ...


class Requests:
    """Looks for requests in a directory and obeys them; each is a file that is answered by another one beside it."""

    def __init__(self, directory: Path, run: Changeable) -> None:
        self._directory = directory
        self._run = run
        self._stopped = threading.Event()

    def start(self, is_active: Callable[[], bool]) -> None:
        # Whoever asked an earlier run has been told by its end.
        for file in self._waiting():
            file.unlink(missing_ok=True)

        def watch() -> None:
            while not self._stopped.wait(_LOOK_SECONDS) and is_active():
                for file in self._waiting():
                    self._answer(file)

        threading.Thread(target=watch, name="penstock-requests", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _waiting(self) -> list[Path]:
        return sorted(self._directory.glob("*.request")) if self._directory.is_dir() else []

    def _answer(self, file: Path) -> None:
        wanted = read_record(file)
        try:
            text = wanted["text"]
            changes = self._run.add(text, force=wanted["force"]) if wanted["kind"] == ADD else self._run.drop(text)
            found: Mapping[str, Any] = {"changes": changes.to_json()}
        except PenstockError as error:
            found = {"code": error.code, "text": str(error)}
        create_record(file.with_suffix(".answer"), found)
        file.unlink(missing_ok=True)


def ask(
    directory: Path, kind: str, text: str, is_running: Callable[[], bool], timeout: float = 150, force: bool = False
) -> Mapping[str, Any]:
    """Ask the run that looks into a directory, and wait for what it says; `force` adds queries whose contracts may not hold."""
    file = directory / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.request"
    create_record(file, {"kind": kind, "text": text, "force": force})
    answer, deadline = file.with_suffix(".answer"), time.monotonic() + timeout
    try:
        while not answer.exists():
            if not is_running():
                raise UserError("the run has ended before it answered; look with `penstock list` whether it took the change over")
            if time.monotonic() > deadline:
                raise UserError(f"the run did not answer within {timeout:.0f} s; look with `penstock list` what it runs")
            time.sleep(0.05)
        found: Mapping[str, Any] = read_record(answer)
        return found
    finally:
        file.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
