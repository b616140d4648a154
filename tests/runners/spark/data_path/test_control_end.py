"""Once the end of the streams was carried no micro-batch is planned until the query stops; no session is needed to see that."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.runners.spark.data_path.control import ControlLog, ControlSource


def reader(path: Path) -> Any:
    return ControlSource({"path": str(path), "shards": "2"}).streamReader(None)


def asked(source: Any, carried: int) -> tuple[int, float]:
    """The newest decision, and how long the answer took."""
    began = time.monotonic()
    found = source.latestOffset({"decisions": carried}, source.getDefaultReadLimit())
    return found["decisions"], time.monotonic() - began


def test_the_micro_batch_behind_the_end_waits_for_the_stop(tmp_path: Path) -> None:
    log, source = ControlLog(tmp_path), reader(tmp_path)
    log.append("budget", {"ns": 5})
    log.append("end", {"query": "one of several"})
    assert asked(source, 2)[1] < 1
    log.append("end")
    assert asked(source, 2) == (3, pytest.approx(0, abs=1))  # it still has to be carried
    stop = threading.Timer(0.3, log.note_stop, [True])
    stop.start()
    assert 0.2 < asked(source, 3)[1] < 5
    stop.join()


def test_a_query_that_is_being_stopped_is_not_waited_for(tmp_path: Path) -> None:
    log = ControlLog(tmp_path)
    log.append("end")
    log.note_stop(True)
    assert asked(reader(tmp_path), 1)[1] < 1
    log.note_stop(False)
    assert not log.is_stopping
