"""Small streams written as text, and what the operator finds in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.expressions.event_queries import EventQuery
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.event_patterns import EventPattern
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.pattern_reference import Match, matches
from penstock.testing.reference import Row
from penstock.testing.streams import run, run_with_restarts, stream_of

#: `n` is the row's position, and its number in the whole stream.
SCHEMA = pa.schema({"type": pa.string(), "id": pa.int64(), "n": pa.int64(), "p": pa.int64(), "x": pa.float64(), "s": pa.string()})
#: Long enough for every small stream.
ALWAYS = 1_000


def events(text: str, prices: Sequence[int | None] = (), ids: Sequence[int] = ()) -> list[Row]:
    """`a1 b3` is an A at time 1 and a B at time 3; `a@1` likewise."""
    rows = []
    for number, word in enumerate(text.replace("@", "").split()):
        price = prices[number] if prices else None
        key = ids[number] if ids else 1
        values = {"type": word[0].upper(), "id": key, "n": number, "p": price, "x": None, "s": None}
        rows.append(Row(int(word[1:]), number, values))
    return rows


def query(pattern: EventPattern, *conditions: str, **options: Any) -> EventQuery:
    options = {"key": ("id",), "within": ALWAYS, "position_column": "n", **options}
    return EventQuery(pattern, conditions=tuple(parse(text) for text in conditions), **options)


def found_by_operator(
    sought: EventQuery, rows: Sequence[Row], cuts: Iterable[int] = (), lag: int = 0, restarts: bool = False
) -> list[Match]:
    """Matches as the reference names them, in the order of the output."""
    elements = stream_of(rows, SCHEMA, cuts, lag)
    if restarts:
        return read(sought, run_with_restarts(lambda: PatternMatch(sought, SCHEMA), elements))
    return read(sought, run(PatternMatch(sought, SCHEMA), elements))


def read(sought: EventQuery, out: Iterable[Any]) -> list[Match]:
    """Matches in the output, with positions of their events."""
    found = []
    for element in out:
        for row in element.rows.to_pylist() if isinstance(element, Batch) else ():
            binding = []
            for atom in sought.terms[row["branch"]].leaves:
                value = row[sought.atoms[atom].variable]
                binding.append(tuple(each["n"] for each in (value if isinstance(value, list) else [value])))
            found.append((row["branch"], tuple(binding)))
    return found


def texts(sought: EventQuery, rows: Sequence[Row], found: Iterable[Match]) -> list[str]:
    """Matches as written in examples: `a1 [b2 b3] c4`."""
    names = {row.pos: f"{row.values['type'].lower()}{row.ts}" for row in rows}
    written = []
    for number, binding in found:
        parts = []
        for atom, positions in zip(sought.terms[number].leaves, binding, strict=True):
            text = " ".join(names[pos] for pos in positions)
            parts.append(f"[{text}]" if sought.atoms[atom].is_repeated else text)
        written.append(" ".join(parts))
    return sorted(written)


def answers(sought: EventQuery, rows: Sequence[Row]) -> list[str]:
    """The operator's matches as text, after checking that the reference agrees, whatever the batches."""
    found = found_by_operator(sought, rows)
    assert set(found) == matches(sought, rows, SCHEMA)
    assert len(found) == len(set(found)), "a match is reported twice"
    assert sorted(found_by_operator(sought, rows, range(len(rows)), restarts=True)) == sorted(found)
    return texts(sought, rows, found)
