"""Feed an operator a stream in every possible way: any batching, any heartbeats, a restart at every boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.contracts import Operator, State
from penstock.kernel.segments import decode_meta, decode_segment, encode_meta, encode_segment
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Element, End, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.testing.reference import Row, comparable


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> Batch:
    """Rows as a batch."""
    columns = [pa.array([row.values[item.name] for row in rows], item.type) for item in schema]
    ts, pos = np.array([row.ts for row in rows], np.int64), np.array([row.pos for row in rows], np.int64)
    return Batch(pa.RecordBatch.from_arrays(columns, schema=schema), ts, pos)


def stream_of(rows: Sequence[Row], schema: pa.Schema, cuts: Iterable[int] = (), lag: int = 0) -> list[Element]:
    """Rows in the given order, cut before some of them; behind each piece the best promise that is true, less `lag`."""
    bounds = sorted({0, len(rows), *(cut for cut in cuts if 0 < cut < len(rows))})
    elements: list[Element] = []
    for start, stop in pairwise(bounds):
        elements.append(batch_of(rows[start:stop], schema))
        if stop < len(rows):
            elements.append(Heartbeat(min(row.ts for row in rows[stop:]) - lag))
    return [*elements, Heartbeat(FOREVER), End()]


def run(operator: Operator, elements: Iterable[Element]) -> list[Any]:
    """Everything an operator with one input returns."""
    return [found for element in elements for found in step(operator, element)]


def run_with_restarts(make: Callable[[], Operator], elements: Iterable[Element]) -> list[Any]:
    """The same, with a new operator restored from bytes before every element."""
    out: list[Any] = []
    operator = make()
    for element in elements:
        state = operator.snapshot()
        meta = decode_meta(encode_meta(state.meta, "test"), "test")
        segments = {key: decode_segment(encode_segment(part)) for key, part in state.segments.items()}
        operator = make()
        operator.restore(State(meta, segments))
        out += step(operator, element)
    return out


def step(operator: Operator, element: Element) -> list[Any]:
    if isinstance(element, Batch):
        return list(operator.on_batch(0, element))
    return list(operator.on_metadata(0, element))


def rows_of(elements: Iterable[Any]) -> list[tuple[tuple[Any, ...], int]]:
    """(values, time) of all rows, in order."""
    found = []
    for element in elements:
        if isinstance(element, Batch):
            rows = element.rows.to_pylist()
            values = [tuple(map(comparable, row.values())) for row in rows]
            found += list(zip(values, element.ts.tolist(), strict=True))
    return found


def bag(items: Iterable[Any]) -> list[Any]:
    """Items in an order that depends on their values alone; NULL can be compared."""
    return sorted(items, key=repr)


def broken_promises(elements: Iterable[Any]) -> list[str]:
    """Rows that a heartbeat or punctuation before them had excluded."""
    frontier, marks, broken = -(2**63), list[Punctuation](), list[str]()
    for element in elements:
        if isinstance(element, Heartbeat):
            frontier = max(frontier, element.ts)
        elif isinstance(element, Punctuation):
            marks.append(element)
        elif isinstance(element, Batch):
            if element.num_rows and element.ts.min() < frontier:
                broken.append(f"a row of time {element.ts.min()} after the promise {frontier}")
            broken += [f"a row matches {mark}" for mark in marks if mark.matches_batch(element.rows).any()]
    return broken
