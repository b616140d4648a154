"""Hypothesis strategies for streams: everything that may legally happen on the inputs of an operator.

A tape is what one input delivers: rows, punctuations and heartbeats in stream order, always grammatical. `merged` lays
several tapes side by side in some order of arrival, `split` cuts the result into batches; a result may depend on neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import hypothesis.strategies as st
import pyarrow as pa

from penstock.kernel.contracts import Operator, State
from penstock.kernel.segments import decode_meta, decode_segment, encode_meta, encode_segment
from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Element, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import Pattern, between, constant, one_of
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of

#: What one input delivers, row by row.
Tape: TypeAlias = list[Row | Punctuation | Heartbeat]
#: What an operator receives: the port, and an element.
Arrivals: TypeAlias = list[tuple[int, Element]]

KEYS = (1, 2, 3, 4, None)


@st.composite
def rows(
    draw: st.DrawFn,
    values: Mapping[str, st.SearchStrategy[Any]],
    most: int = 12,
    disorder: int = 4,
    horizon: int = 30,
    least: int = 0,
) -> list[Row]:
    """Rows whose times tie often and run back by at most `disorder`; possibly none (an idle stream)."""
    row = st.tuples(*values.values()).map(lambda found: dict(zip(values, found, strict=True)))
    drawn = draw(st.lists(st.tuples(st.integers(0, horizon), row), min_size=least, max_size=most))
    lags = draw(st.lists(st.integers(0, disorder), min_size=len(drawn), max_size=len(drawn)))
    # Sorting by time plus a lag lets each row overtake only rows that are little older.
    order = sorted(range(len(drawn)), key=lambda index: (drawn[index][0] + lags[index], index))
    return [Row(drawn[index][0], pos, drawn[index][1]) for pos, index in enumerate(order)]


def patterns(keys: Sequence[Any] = KEYS) -> st.SearchStrategy[Pattern]:
    """Constants, lists and ranges over few values: duplicates, overlaps and values that never come are likely."""
    known = [key for key in keys if key is not None]
    value = st.sampled_from([*known, *known[:1]])
    lists = st.lists(value, min_size=1, max_size=3).map(one_of)
    bounds = st.tuples(st.sampled_from([None, *known]), st.sampled_from([None, *known]), st.booleans(), st.booleans())
    return st.one_of(value.map(constant), lists, bounds.map(lambda found: between(*found)))


@st.composite
def tapes(
    draw: st.DrawFn,
    values: Mapping[str, st.SearchStrategy[Any]],
    key: str = "k",
    punctuated: Mapping[str, st.SearchStrategy[Pattern]] | None = None,
    most: int = 12,
    disorder: int = 4,
) -> Tape:
    """Rows with punctuations and heartbeats among them; each punctuation and heartbeat is true, and may be useless."""
    found = draw(rows(values, most, disorder))
    names = tuple(values)
    marks: list[tuple[int, Punctuation]] = []
    for name, strategy in (punctuated or {}).items():
        drawn = draw(st.lists(st.tuples(st.integers(0, len(found)), strategy), max_size=4))
        marks += [(at, Punctuation.of(names, 0, 0, **{name: pattern})) for at, pattern in drawn]
    if punctuated and draw(st.booleans()):
        marks += _closers(found, names, key)
    beats = draw(st.sets(st.integers(0, len(found)), max_size=4))
    lag = draw(st.integers(0, 3))
    tape: Tape = []
    for at in range(len(found) + 1):
        rest = found[at:]
        tape += [mark for place, mark in marks if place == at and not any(mark.matches(row.values) for row in rest)]
        if at in beats:
            tape.append(Heartbeat(min((row.ts for row in rest), default=40) - lag))
        tape += found[at : at + 1]
    return [*tape, Heartbeat(FOREVER)]


def _closers(found: Sequence[Row], names: tuple[str, ...], key: str) -> list[tuple[int, Punctuation]]:
    """Each key is closed right after its last row, as a careful source would do."""
    last = {row.values[key]: at + 1 for at, row in enumerate(found) if row.values[key] is not None}
    return [(at, Punctuation.of(names, 0, 0, **{key: constant(value)})) for value, at in last.items()]


@st.composite
def merged(draw: st.DrawFn, sides: Sequence[Tape]) -> list[tuple[int, Row | Punctuation | Heartbeat]]:
    """One order of arrival in which every tape keeps its own order."""
    turns = draw(st.permutations([port for port, tape in enumerate(sides) for _ in tape]))
    positions = [iter(tape) for tape in sides]
    return [(port, next(positions[port])) for port in turns]


def batch_cuts(most: int = 40) -> st.SearchStrategy[frozenset[int]]:
    """Places where a batch ends although the next item is a row of the same input."""
    return st.one_of(
        st.just(frozenset()), st.just(frozenset(range(most))), st.frozensets(st.integers(0, most - 1), max_size=most // 2)
    )


def split(
    items: Sequence[tuple[int, Row | Punctuation | Heartbeat]],
    schemas: Sequence[pa.Schema],
    cuts: Iterable[int] = (),
    empty: bool = False,
) -> Arrivals:
    """Rows of one input that follow each other become a batch, cut at the given places; `empty` adds batches without rows."""
    places = set(cuts)
    arrivals: Arrivals = []
    waiting: list[Row] = []
    for at, (port, item) in enumerate(items):
        if isinstance(item, Row):
            waiting.append(item)
            goes_on = at + 1 < len(items) and items[at + 1][0] == port and isinstance(items[at + 1][1], Row)
            if not goes_on or at in places:
                arrivals.append((port, batch_of(waiting, schemas[port])))
                waiting = []
        else:
            arrivals.append((port, item))
        if empty and not waiting:
            arrivals.append((port, Batch.empty(schemas[port])))
    return arrivals


def drive(operator: Operator, arrivals: Iterable[tuple[int, Element]]) -> list[Any]:
    """Everything an operator returns."""
    return [found for port, element in arrivals for found in deliver(operator, port, element)]


def drive_with_restarts(make: Callable[[], Operator], arrivals: Iterable[tuple[int, Element]]) -> list[Any]:
    """The same, with a new operator restored from bytes before every element."""
    out: list[Any] = []
    operator = make()
    for port, element in arrivals:
        operator = reborn(make, operator)
        out += deliver(operator, port, element)
    return out


def reborn(make: Callable[[], Operator], operator: Operator) -> Operator:
    """A new operator in the state of another one, by way of what a host stores."""
    state = operator.snapshot()
    meta = decode_meta(encode_meta(state.meta, "test"), "test")
    segments = {key: decode_segment(encode_segment(part)) for key, part in state.segments.items()}
    fresh = make()
    fresh.restore(State(meta, segments))
    return fresh


def deliver(operator: Operator, port: int, element: Element) -> list[Any]:
    if isinstance(element, Batch):
        return list(operator.on_batch(port, element))
    return list(operator.on_metadata(port, element))


def rows_in(tape: Tape) -> list[Row]:
    return [item for item in tape if isinstance(item, Row)]
