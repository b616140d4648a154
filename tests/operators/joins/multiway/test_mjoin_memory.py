"""The rows of a multiway join outside of memory: pieces are merged before they are spilled, and go as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from mjoin_oracle import GRAPHS, make_join, schema_of

from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, MEMORY, Control, Heartbeat
from penstock.model.windows import Sliding, Unbounded
from penstock.operators.joins.multiway_join import MJoin
from penstock.operators.joins.storing import chained_rows
from penstock.operators.joins.storing.chained_rows import Window
from penstock.testing.reference import Row
from penstock.testing.streams import bag, rows_of
from penstock.testing.tapes import drive, drive_with_restarts, split

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})


def rows(times: range) -> Batch:
    ts = np.array(times)
    return Batch(pa.RecordBatch.from_arrays([pa.array(ts % 3), pa.array(ts * 10)], schema=SCHEMA), ts, ts)


def window_of(*pieces: range) -> Window:
    window = Window("window", SCHEMA, 100, [("k",)])
    for times in pieces:
        window.insert(rows(times))
    return window


def values(window: Window) -> list[int]:
    found: list[int] = window.take(np.arange(window.total), ["v"])[0].to_pylist()
    return found


def test_what_is_in_memory_is_spilled_as_one_piece(tmp_path: Path) -> None:
    window = window_of(range(5), range(5, 8))
    assert window.spill(tmp_path)
    window.insert(rows(range(8, 10)))
    assert [(piece.num_rows, piece.is_spilled) for piece in window] == [(8, True), (2, False)]
    assert values(window) == [at * 10 for at in range(10)]
    assert window.spill(tmp_path)
    assert not window.spill(tmp_path)
    assert window.spilled_rows == 10


def test_a_spilled_piece_is_written_anew_once_most_of_it_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chained_rows, "SPARE_ROWS", -1000)
    window = window_of(range(20))
    window.spill(tmp_path)
    window.insert(rows(range(20, 30)))
    window.expire(110)
    assert [(piece.num_rows, piece.is_spilled) for piece in window] == [(20, True), (10, False)]
    assert (window.num_rows, window.total, window.expired) == (20, 30, 10)
    window.expire(118)
    assert [(piece.num_rows, piece.is_spilled) for piece in window] == [(2, True), (10, False)]
    assert (window.num_rows, window.total, window.expired) == (12, 12, 18)
    assert values(window) == [at * 10 for at in range(18, 30)]
    window.expire(125)
    assert [(piece.num_rows, piece.is_spilled) for piece in window] == [(5, False)]


@settings(max_examples=20, deadline=None)
@given(
    restarts=st.booleans(), limit=st.sampled_from([1, 300, 2_000]), spare=st.sampled_from([-1000, 0, 5]),
    name=st.sampled_from(["natural", "star", "triangle"]),
)  # fmt: skip
def test_a_limit_of_memory_changes_no_answer(
    restarts: bool, limit: int, spare: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    graph, directory = GRAPHS[name], tmp_path_factory.mktemp("spilled")
    windows = [Sliding(8), Unbounded(), Sliding(5), Sliding(9)][: graph.ports]
    tape: list[tuple[int, Any]] = []
    for at in range(14):
        for port in range(graph.ports):
            keys = {f"{port}.a": at % 3, f"{port}.b": at % 2, f"{port}.c": 0, f"{port}.v": at}
            tape += [(port, Row(at * 2 + port, at, keys)), (port, Heartbeat(at * 2))]
    tape += [(port, Heartbeat(FOREVER)) for port in range(graph.ports)]
    arrivals = split(tape, [schema_of(port) for port in range(graph.ports)], range(0, 60, 3))

    def make(limit: int | None) -> MJoin:
        join = make_join(graph, windows)
        join.spill_to(directory)
        join.on_control(Control(0, MEMORY, {"bytes": limit}))
        return join

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chained_rows, "SPARE_ROWS", spare)
        found = drive_with_restarts(lambda: make(limit), arrivals) if restarts else drive(make(limit), arrivals)
    assert bag(rows_of(found)) == bag(rows_of(drive(make(None), arrivals)))
    assert not list(directory.iterdir())
