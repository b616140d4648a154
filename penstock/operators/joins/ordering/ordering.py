"""One order of the rows of several inputs, by time, input and position; needed where windows count rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, NEVER
from penstock.model.punctuation import Punctuation
from penstock.operators.waiting import Waiting


def in_one_order(parts: Sequence[tuple[int, Batch]]) -> tuple[Int64s, Int64s, Int64s]:
    """Inputs and times of all rows, one input behind the other, and their places in the order of time, input and position."""
    ports = np.repeat([port for port, _ in parts], [batch.num_rows for _, batch in parts])
    ts, pos = (np.concatenate([getattr(batch, name) for _, batch in parts]) for name in ("ts", "pos"))
    return ports, ts, np.lexsort((pos, ports, ts))


class Ordering:
    """Rows wait until all inputs have passed them; punctuations wait for the rows before them.

    Delaying a punctuation is always safe: rows that come after it do not match it.
    """

    def __init__(self, schemas: Sequence[pa.Schema]) -> None:
        self._waiting = [Waiting(schema, f"waiting{port}") for port, schema in enumerate(schemas)]
        self._newest = [NEVER for _ in schemas]
        self._marks: list[tuple[int, int, Punctuation]] = []

    @property
    def num_rows(self) -> int:
        return sum(waiting.log.num_rows for waiting in self._waiting)

    @property
    def num_bytes(self) -> int:
        return sum(waiting.log.num_bytes for waiting in self._waiting)

    def add(self, port: int, batch: Batch) -> None:
        self._waiting[port].add(batch)
        self._newest[port] = max(self._newest[port], int(batch.ts.max()))

    def let_pass(self, port: int, mark: Punctuation) -> bool:
        """Whether no row waits before the punctuation; otherwise it is kept until `passed`."""
        if self._waiting[port].oldest == FOREVER:
            return True
        self._marks.append((port, self._newest[port], mark))
        return False

    def release(self, frontier: int) -> list[tuple[int, Batch]]:
        """Rows of each input that are older than the frontier, by time and position."""
        released = [(port, waiting.release(frontier)) for port, waiting in enumerate(self._waiting)]
        return [(port, batch) for port, batch in released if batch.num_rows]

    def passed(self, frontier: int) -> list[tuple[int, Punctuation]]:
        """Punctuations all of whose rows have been released."""
        ready = [(port, mark) for port, newest, mark in self._marks if newest < frontier or frontier == FOREVER]
        self._marks = [entry for entry in self._marks if not (entry[1] < frontier or frontier == FOREVER)]
        return ready

    def snapshot(self) -> tuple[dict[str, Any], dict[str, pa.RecordBatch]]:
        segments: dict[str, pa.RecordBatch] = {}
        numbers = []
        for waiting in self._waiting:
            number, stored = waiting.snapshot()
            numbers.append(number)
            segments |= stored
        marks = [[port, newest, mark.to_json()] for port, newest, mark in self._marks]
        return {"next": numbers, "newest": list(self._newest), "marks": marks}, segments

    def restore(self, meta: Mapping[str, Any], segments: Mapping[str, pa.RecordBatch]) -> None:
        for waiting, number in zip(self._waiting, meta["next"], strict=True):
            waiting.reload(number, segments)
        self._newest = list(meta["newest"])
        self._marks = [(port, newest, Punctuation.from_json(coded)) for port, newest, coded in meta["marks"]]
