"""Time of a join, and what has left each window."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import woven
from penstock.experiments.joins.pwjoin import layout as lay


@woven
def tick(m: Any, ts: Any) -> None:
    """Time comes to `ts`: every kind of item moves it."""
    if ts > m.numbers[lay.NOW]:
        m.numbers[lay.NOW] = ts
        for stream in range(m.numbers[lay.STREAMS]):
            if not m.streams[stream, lay.BY_ROWS] and m.streams[stream, lay.WINDOW] != lay.INFINITE:
                m.streams[stream, lay.LIMIT] = ts - m.streams[stream, lay.WINDOW]


@woven
def count_arrival(m: Any, stream: Any) -> None:
    """Tuples count whatever became of them, dropped ones too (ER-19); refused ones never were part of the stream."""
    m.streams[stream, lay.ARRIVED] += 1
    if m.streams[stream, lay.BY_ROWS] and m.streams[stream, lay.WINDOW] != lay.INFINITE:
        m.streams[stream, lay.LIMIT] = m.streams[stream, lay.ARRIVED] - m.streams[stream, lay.WINDOW] + 1


@woven
def place_in_window(m: Any, stream: Any) -> Any:
    """What the window of its stream sees of the tuple that arrives now: its time, or its number."""
    return m.streams[stream, lay.ARRIVED] + 1 if m.streams[stream, lay.BY_ROWS] else m.numbers[lay.NOW]


@woven
def holds_nothing(m: Any, stream: Any) -> Any:
    """Whether the window of a stream is of no rows at all."""
    return m.streams[stream, lay.BY_ROWS] == 1 and m.streams[stream, lay.WINDOW] == 0
