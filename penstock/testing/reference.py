"""Slow, obvious evaluators that judge the fast operators. They see the whole stream at once, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf, isinf, isnan, nan, sqrt
from typing import Any

from penstock.expressions.aggregates import AggregateCall
from penstock.expressions.nodes import Column
from penstock.model.elements import FOREVER
from penstock.model.windows import Framed, Lifespan, Sliding, Unbounded, Window


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its time and position."""

    ts: int
    pos: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of one window, by time and position."""

    number: int
    rows: list[Row]
    is_complete: bool


def frames(rows: Sequence[Row], window: Framed | Unbounded, life: Lifespan) -> Iterator[Frame]:
    """All windows that hold a row, by the closed formula; the stream ends after the last row.

    Landmark windows are infinitely many: those after the one that first holds every row are left out or, if the query has an
    end, those after the first that this cuts off.
    """
    alive = sorted((row for row in rows if life.begin <= row.ts < life.end), key=lambda row: (row.ts, row.pos))
    if isinstance(window, Unbounded):
        yield Frame(0, alive, True)
        return
    for part in _partitions(alive, window):
        places = [number if window.in_rows else row.ts - life.origin for number, row in enumerate(part)]
        everything = [row.ts - life.origin for row in alive] if not window.in_rows else places
        for number in numbers(window, life, everything):
            start, end = bounds(window, life, number)
            inside = [row for place, row in zip(places, part, strict=True) if start <= place < end]
            is_complete = end <= len(part) if window.in_rows else life.origin + end <= life.end
            if inside:
                yield Frame(number, inside, is_complete)


def _partitions(rows: list[Row], window: Framed) -> list[list[Row]]:
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(comparable(row.values[name]) for name in window.partition_by), []).append(row)
    return list(parts.values())


def bounds(window: Framed, life: Lifespan, number: int) -> tuple[float, int]:
    """First place in a window and first behind it; without begin landmark windows hold everything before their end."""
    start, end = window.bounds(number)
    return (-inf if goes_back(window, life) and not window.move_start else start), end


def goes_back(window: Framed, life: Lifespan) -> bool:
    """Whether there are windows before the one with number 0."""
    is_alike = window.move_end > 0 and window.move_start in (0, window.move_end)
    return is_alike and not window.in_rows and not life.has_begin


def numbers(window: Framed, life: Lifespan, places: list[int]) -> Iterator[int]:
    """Numbers of the windows that can hold one of the places."""
    furthest, number = max(places), 0
    if not window.move_start and not window.move_end:
        yield 0
        return
    while goes_back(window, life) and window.size + number * window.move_end > min(places):
        number -= 1
    while number * window.move_start <= furthest:
        yield number
        end = window.size + number * window.move_end
        # Which is the last must not depend on the rows where the query has an end: it is the first that this cuts off.
        is_last = end > furthest if window.in_rows or life.end == FOREVER else life.origin + end > life.end
        if not window.move_start and is_last:
            return
        number += 1


def group_by(
    rows: Sequence[Row],
    keys: Sequence[str],
    aggregates: Sequence[AggregateCall],
    window: Framed | Unbounded,
    life: Lifespan,
    emit_partial: bool = False,
) -> list[tuple[int, tuple[Any, ...], int]]:
    """(window number, keys and aggregates, greatest time) of each group of each window; arguments are columns."""
    results = []
    for frame in frames(rows, window, life):
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in frame.rows:
            groups.setdefault(tuple(comparable(row.values[key]) for key in keys), []).append(row)
        if frame.is_complete or emit_partial:
            for key, group in groups.items():
                values = tuple(aggregate(call, group) for call in aggregates)
                results.append((frame.number, (*key, *values), max(row.ts for row in group)))
    return results


def distinct(
    rows: Sequence[Row], names: Sequence[str], window: Framed | Unbounded, life: Lifespan
) -> list[tuple[tuple[Any, ...], int, int]]:
    """(values, time, position) of the first of equal rows in each window; in landmark windows the first of all."""
    results = []
    is_landmark = isinstance(window, Framed) and not window.move_start and window.move_end > 0
    for frame in frames(rows, Unbounded() if is_landmark else window, life):
        seen: set[tuple[Any, ...]] = set()
        for row in frame.rows:
            value = tuple(comparable(row.values[name]) for name in names)
            if value not in seen:
                seen.add(value)
                results.append((value, row.ts, row.pos))
    return results


def select(rows: Sequence[Row], condition: Callable[[Mapping[str, Any]], bool | None]) -> list[Row]:
    """Rows for which the condition is true; NULL is not true."""
    return [row for row in rows if condition(row.values) is True]


def project(rows: Sequence[Row], items: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> list[Row]:
    """Named expressions of each row."""
    return [Row(row.ts, row.pos, {name: item(row.values) for name, item in items.items()}) for row in rows]


def union(streams: Sequence[Sequence[Row]], names: Sequence[str]) -> list[Row]:
    """All rows, under the names of the first stream."""
    return [Row(row.ts, row.pos, dict(zip(names, row.values.values(), strict=True))) for rows in streams for row in rows]


def window_join(
    streams: Sequence[Sequence[Row]],
    keys: Sequence[Sequence[str]],
    windows: Sequence[Window],
    life: Lifespan,
    residual: Callable[[Mapping[str, Any]], bool | None] = lambda row: True,
) -> list[tuple[tuple[Any, ...], int]]:
    """(values of all inputs, newest time) of every combination with equal keys that the windows allow."""
    alive = [[row for row in rows if life.begin <= row.ts < life.end] for rows in streams]
    if isinstance(windows[0], Framed):
        pools = list(_same_numbers(alive, windows, life))
    else:
        pools = [alive]
    found = []
    for pool in pools:
        for rows in product(*pool):
            newest = max(row.ts for row in rows)
            lengths = [window.size if isinstance(window, Sliding) else FOREVER for window in windows]
            is_near = isinstance(windows[0], Framed) or all(newest - row.ts <= w for row, w in zip(rows, lengths, strict=True))
            values = {name: value for row in rows for name, value in row.values.items()}
            if is_near and _have_equal_keys(rows, keys) and residual(values) is True:
                found.append((tuple(map(comparable, values.values())), newest))
    return found


def _same_numbers(streams: list[list[Row]], windows: Sequence[Window], life: Lifespan) -> Iterator[list[list[Row]]]:
    """The rows of all inputs, for each window number that all have and that is complete."""
    by_number = []
    for rows, window in zip(streams, windows, strict=True):
        assert isinstance(window, Framed)
        found = frames(rows, window, life) if rows else iter(())
        by_number.append({frame.number: frame.rows for frame in found if frame.is_complete})
    for number in set.intersection(*map(set, by_number)):
        yield [frame[number] for frame in by_number]


def _have_equal_keys(rows: Sequence[Row], keys: Sequence[Sequence[str]]) -> bool:
    values = [tuple(comparable(row.values[name]) for name in names) for row, names in zip(rows, keys, strict=True)]
    return None not in values[0] and all(value == values[0] for value in values)


def comparable(value: Any) -> Any:
    """A value for which Python's equality is SQL's: one NaN, no negative zero, in lists and structs too."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    return value


def aggregate(call: AggregateCall, rows: Sequence[Row]) -> Any:
    """One aggregate over some rows."""
    if not isinstance(call.argument, Column):
        return len(rows)
    if call.order:
        return _chosen(call, rows)
    values = [row.values[call.argument.name] for row in rows]
    values = [value for value in values if value is not None]
    if call.distinct:
        values = list({comparable(value): value for value in values}.values())
    if call.function == "count":
        return len(values)
    return comparable(_FUNCTIONS[call.function](values)) if values else None


def _chosen(call: AggregateCall, rows: Sequence[Row]) -> Any:
    """The argument of the row whose order is greatest (`max_by`) or least; NULL is below everything."""
    assert isinstance(call.argument, Column)
    names = [part.name for part in call.order if isinstance(part, Column)]
    tuples = [[row.values[name] for name in (*names, call.argument.name)] for row in rows if row.values[names[0]] is not None]
    best = max if call.function == "max_by" else min
    found = best(tuples, key=lambda values: [(value is not None, _in_order(value)) for value in values], default=[None])
    return comparable(found[-1])


def _total(values: list[Any]) -> Any:
    if any(isinstance(value, float) and (isnan(value) or isinf(value)) for value in values):
        return sum(values)
    exact = sum(map(Fraction, values), Fraction())
    return int(exact) if isinstance(values[0], int) else float(exact)


def _mean(values: list[Any]) -> float:
    total = _total(values)
    exact = sum(map(Fraction, values), Fraction()) if not (isnan(total) or isinf(total)) else None
    return float(total) if exact is None else float(exact / len(values))


def _variance(values: list[Any], freedom: int) -> float | None:
    if len(values) <= freedom:
        return None
    if isnan(_mean(values)) or isinf(_mean(values)):
        return nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction()) / len(exact)
    return float(sum(((value - mean) ** 2 for value in exact), Fraction()) / (len(exact) - freedom))


def _deviation(values: list[Any], freedom: int) -> float | None:
    variance = _variance(values, freedom)
    return None if variance is None else sqrt(variance)


def _in_order(value: Any) -> tuple[bool, Any]:
    """Sort key that puts NaN above every number."""
    unordered = isinstance(value, float) and isnan(value)
    return unordered, 0 if unordered else value


_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _total,
    "avg": _mean,
    "min": lambda values: min(values, key=_in_order),
    "max": lambda values: max(values, key=_in_order),
    "stddev": lambda values: _deviation(values, 1),
    "stddev_pop": lambda values: _deviation(values, 0),
    "var_samp": lambda values: _variance(values, 1),
    "var_pop": lambda values: _variance(values, 0),
}
