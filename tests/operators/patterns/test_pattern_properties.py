"""Property A: for every stream, batching, restart and strategy the operator finds what the definitions say."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from pattern_cases import SCHEMA, found_by_operator

from penstock.errors import InvalidEventPattern
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.parse import parse
from penstock.model.event_patterns import (
    Absent,
    And,
    Atom,
    EventOrder,
    EventPattern,
    LastRun,
    Or,
    Repeat,
    Seq,
    Strategy,
)
from penstock.testing.pattern_reference import matches
from penstock.testing.reference import Row
from penstock.testing.tapes import batch_cuts

TYPES = ("A", "B", "C")
OPERATORS = ("<", "<=", "=", "<>", ">")


@st.composite
def streams(draw: st.DrawFn, most: int = 9) -> list[Row]:
    """Few types, keys and times, so that ties and matches abound; in order of arrival, which need not be that of time."""
    rows, clock = [], 0
    for number in range(draw(st.integers(0, most))):
        clock += draw(st.sampled_from([0, 1, 1, 2, 5]))
        values = {
            "type": draw(st.sampled_from([*TYPES, "Z"])),
            "id": draw(st.sampled_from([1, 1, 1, 2, None])),
            "n": number,
            "p": draw(st.sampled_from([0, 1, 2, 3, None])),
            "x": draw(st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])),
            "s": draw(st.sampled_from(["", "a", "ab", None])),
        }
        rows.append(Row(clock, number, values))
    return rows


class _Names:
    """Names of variables as they are given out."""

    def __init__(self) -> None:
        self.single: list[str] = []
        self.repeated: list[str] = []
        self.absent: list[str] = []

    def new(self, kind: list[str]) -> str:
        name = f"v{len(self.single) + len(self.repeated) + len(self.absent)}"
        kind.append(name)
        return name


def _leaf(draw: st.DrawFn, names: _Names) -> Atom:
    repeat = draw(st.sampled_from([Repeat.ONCE, Repeat.ONCE, Repeat.ONCE, Repeat.PLUS, Repeat.STAR]))
    if len(names.repeated) == 2:
        repeat = Repeat.ONCE
    types = draw(st.sampled_from([("A",), ("B",), ("C",), ("A", "B")]))
    return Atom(types, names.new(names.repeated if repeat is not Repeat.ONCE else names.single), repeat)


def _pattern(draw: st.DrawFn, names: _Names, depth: int, chain: bool) -> EventPattern:
    kind = draw(st.sampled_from(["leaf", "seq", "seq", "or", *([] if chain else ["and"])])) if depth < 2 else "leaf"
    if depth == 0 and kind == "leaf":
        kind = "seq"
    if kind == "leaf" or len(names.single) + len(names.repeated) >= 4:
        return _leaf(draw, names)
    parts: list[EventPattern] = [_pattern(draw, names, depth + 1, chain) for _ in range(draw(st.integers(1, 3 - depth)))]
    if kind == "seq" and draw(st.integers(0, 2)) == 0 and len(names.absent) < 2:
        place = draw(st.integers(0, len(parts)))
        parts.insert(place, Absent((draw(st.sampled_from(TYPES)),), names.new(names.absent)))
    return {"seq": Seq, "or": Or, "and": And}[kind](tuple(parts))


def _condition(draw: st.DrawFn, names: _Names) -> str:
    column, op = draw(st.sampled_from(["p", "p", "x", "s"])), draw(st.sampled_from(OPERATORS))
    singles = [f"{name}.{column}" for name in names.single]
    firsts = [f"`{name}[{at}].{column}`" for name in names.repeated for at in ("1", "last")]
    sums = [f"`{function}({name}.p)`" for name in names.repeated for function in ("sum", "max", "avg")]
    counts = [f"`count({name})`" for name in names.repeated]
    choices = ["TRUE"]
    if len(singles + firsts) > 1:
        one, other = draw(st.sampled_from(singles + firsts)), draw(st.sampled_from(singles + firsts))
        choices += [f"{one} {op} {other}"] * 4 + [f"NOT ({one} {op} {other}) OR {one} IS NULL"]
    choices += [f"{single.split('.')[0]}.p + 1 {op} 2" for single in singles]
    for name in names.repeated:
        choices += [f"`{name}[i].{column}` {op} `{name}[i-1].{column}`", f"`{name}[i].p` {op} `min({name}[..i-1].p)`"]
        choices += [f"`{name}[i].{column}` {op} {other}" for other in singles + firsts]
        choices += [f"`{name}[i].p` {op} `avg({name}.p)`", f"`count({name})` {op} 2", f"`{name}[i].p` * 2 {op} 3"]
        extremes = [("max", "p", "2"), ("min", "p", "0.5"), ("max", "x", "0.0"), ("min", "x", "0"), ("max", "s", "'a'")]
        choices += [f"`{function}({name}.{on})` {op} {bound}" for function, on, bound in extremes]
        choices += [
            f"`count({name}.p)` {op} 1",
            f"`count({name})` BETWEEN 1 AND 2",
            f"`count({name})` IN (1, 3)",
            f"2.5 > `count({name})`",
        ]
        choices += [f"{number} {op} {name.split('.')[0]}.p + 1" for name in names.single for number in sums + counts]
    choices += [f"{name}.{column} {op} {other}" for name in names.absent for other in singles + firsts]
    return draw(st.sampled_from(choices))


@st.composite
def queries(draw: st.DrawFn, strategy: Strategy) -> EventQuery | None:
    """A query, or None when what was drawn means nothing."""
    names = _Names()
    pattern = _pattern(draw, names, 0, strategy is not Strategy.ANY)
    conditions = tuple(parse(_condition(draw, names)) for _ in range(draw(st.integers(0, 2))))
    options: dict[str, Any] = {
        "within": draw(st.sampled_from([0, 2, 4, 8, 30, None])),
        "order": draw(st.sampled_from(EventOrder)),
        "reuse": draw(st.booleans()),
        "trace_ttl": draw(st.sampled_from([None, None, 3])),
        "terminal": draw(st.sampled_from([(), (), ("Z",)])),
        "last_run": LastRun.EVERY if strategy is Strategy.ANY else draw(st.sampled_from(LastRun)),
    }
    if options["within"] is None and options["trace_ttl"] is None:
        options["terminal"] = ("Z",)
    try:
        return EventQuery(pattern, ("id",), conditions, strategy=strategy, position_column="n", **options)
    except InvalidEventPattern:
        return None


def check(sought: EventQuery | None, rows: list[Row], cuts: frozenset[int], disorder: list[int]) -> None:
    if sought is None:
        return
    expected = sorted(matches(sought, rows, SCHEMA))
    assert sorted(found_by_operator(sought, rows)) == expected
    # Rows may come later than others by what the lag allows; the frontier knows.
    arrival = sorted(range(len(rows)), key=lambda place: rows[place].ts + disorder[place % len(disorder)])
    late = [rows[place] for place in arrival]
    assert sorted(found_by_operator(sought, late, cuts)) == expected, "another batching gives another answer"
    assert sorted(found_by_operator(sought, late, cuts, restarts=True)) == expected, "a restart changes the answer"


DISORDER = st.lists(st.integers(0, 4), min_size=1, max_size=5)


@given(queries(Strategy.ANY), streams(), batch_cuts(), DISORDER)
@settings(max_examples=120, deadline=None)
def test_any_match_finds_every_combination(
    sought: EventQuery | None, rows: list[Row], cuts: frozenset[int], late: list[int]
) -> None:
    check(sought, rows, cuts, late)


@given(queries(Strategy.NEXT), streams(), batch_cuts(), DISORDER)
@settings(max_examples=80, deadline=None)
def test_next_match_follows_the_table(sought: EventQuery | None, rows: list[Row], cuts: frozenset[int], late: list[int]) -> None:
    check(sought, rows, cuts, late)


@given(queries(Strategy.PARTITION), streams(), batch_cuts(), DISORDER)
@settings(max_examples=60, deadline=None)
def test_partition_contiguity_follows_the_table(
    sought: EventQuery | None, rows: list[Row], cuts: frozenset[int], late: list[int]
) -> None:
    check(sought, rows, cuts, late)


@given(queries(Strategy.STRICT), streams(), batch_cuts(), DISORDER)
@settings(max_examples=60, deadline=None)
def test_strict_contiguity_follows_the_table(
    sought: EventQuery | None, rows: list[Row], cuts: frozenset[int], late: list[int]
) -> None:
    check(sought, rows, cuts, late)
