"""The slow, obvious evaluator of outer, semi and anti joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.model.elements import FOREVER
from penstock.model.join_kinds import JoinKind
from penstock.model.windows import Framed, Lifespan, Sliding, Window
from penstock.testing.reference import Row, bounds, comparable, goes_back

#: Whether it is known of a row of an input that it has no partner in a window (None where windows have no numbers).
Proven = Callable[[int, Row, int | None], bool]
Answer = tuple[tuple[Any, ...], int]


def always(port: int, row: Row, number: int | None) -> bool:
    """Both streams have ended."""
    return True


def preserving_join(
    kind: JoinKind,
    streams: Sequence[Sequence[Row]],
    names: Sequence[Sequence[str]],
    keys: Sequence[Sequence[str]],
    windows: Sequence[Window],
    life: Lifespan,
    residual: Callable[[Mapping[str, Any]], bool | None] = lambda row: True,
    proven: Proven = always,
) -> list[Answer]:
    """(values, time) of every answer, windows of equal number apart from each other.

    `proven` says of which rows without partner it is known by now; the default sees the whole of both streams.
    """
    alive = [[row for row in rows if life.begin <= row.ts < life.end] for rows in streams]
    found: list[Answer] = []
    for number, pools in _pools(alive, windows, life):
        pairs = [
            (left, right)
            for left in pools[0]
            for right in pools[1]
            if _are_near(left, right, windows) and _are_partners(left, right, keys, residual)
        ]
        if kind.shows_pairs:
            found += [(_values((left, right), names), max(left.ts, right.ts)) for left, right in pairs]
        if kind is JoinKind.LEFT_SEMI:
            found += [(_values((row,), names), row.ts) for row in pools[0] if any(row is left for left, _ in pairs)]
        for port in kind.preserved:
            without = [row for row in pools[port] if not any(row is pair[port] for pair in pairs)]
            found += [(_shown(kind, port, row, names), row.ts) for row in without if proven(port, row, number)]
    return found


def _pools(
    streams: Sequence[Sequence[Row]], windows: Sequence[Window], life: Lifespan
) -> Iterator[tuple[int | None, list[list[Row]]]]:
    """The rows of both inputs, once, or for each window number that some row is in and that is complete for both."""
    if not isinstance(windows[0], Framed):
        yield None, [list(rows) for rows in streams]
        return
    framed = [window for window in windows if isinstance(window, Framed)]
    places = [row.ts - life.origin for rows in streams for row in rows] or [0]
    limit = life.end - life.origin if life.end != FOREVER else max(places) + 1
    for number in range(min(*places, 0) - max(window.size for window in framed), limit + 1):
        known = [bounds(window, life, number) for window in framed]
        if life.end != FOREVER and any(end > life.end - life.origin for _, end in known):
            continue
        pools = [
            [row for row in rows if start <= row.ts - life.origin < end and _has_number(window, life, number)]
            for rows, window, (start, end) in zip(streams, framed, known, strict=True)
        ]
        if any(pools):
            yield number, pools


def _has_number(window: Framed, life: Lifespan, number: int) -> bool:
    if not window.move_start and not window.move_end:
        return number == 0
    return number >= 0 or goes_back(window, life)


def _are_near(left: Row, right: Row, windows: Sequence[Window]) -> bool:
    newest = max(left.ts, right.ts)
    lengths = [window.size if isinstance(window, Sliding) else FOREVER for window in windows]
    return newest - left.ts <= lengths[0] and newest - right.ts <= lengths[1]


def _are_partners(
    left: Row, right: Row, keys: Sequence[Sequence[str]], residual: Callable[[Mapping[str, Any]], bool | None]
) -> bool:
    mine = [comparable(left.values[name]) for name in keys[0]]
    other = [comparable(right.values[name]) for name in keys[1]]
    return None not in mine and mine == other and residual({**left.values, **right.values}) is True


def _values(rows: Sequence[Row], names: Sequence[Sequence[str]]) -> tuple[Any, ...]:
    return tuple(comparable(row.values[name]) for row, mine in zip(rows, names, strict=False) for name in mine)


def _shown(kind: JoinKind, port: int, row: Row, names: Sequence[Sequence[str]]) -> tuple[Any, ...]:
    own = tuple(comparable(row.values[name]) for name in names[port])
    if not kind.shows_pairs:
        return own
    missing = (None,) * len(names[1 - port])
    return own + missing if port == 0 else missing + own
