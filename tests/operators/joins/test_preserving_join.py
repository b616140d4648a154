"""Outer, semi and anti joins: what is answered, when, and what may be promised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidPlan
from penstock.expressions.parse import parse
from penstock.model.batch import Batch
from penstock.model.declarations import Source, StreamDeclaration
from penstock.model.elements import FOREVER, NEVER, End, Heartbeat
from penstock.model.join_kinds import JoinKind
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import ANY, Pattern, constant, one_of
from penstock.model.windows import Framed, Lifespan, Sliding, Unbounded, Window
from penstock.operators.joins.preserving_join import PreservingJoin
from penstock.plan.nodes import joins as join_nodes
from penstock.plan.nodes import relational as nodes
from penstock.testing.checks import check_all
from penstock.testing.outer_reference import preserving_join
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, broken_promises, rows_of
from penstock.testing.tapes import (
    KEYS,
    Tape,
    batch_cuts,
    deliver,
    drive,
    drive_with_restarts,
    merged,
    patterns,
    rows_in,
    split,
    tapes,
)

KINDS = tuple(kind for kind in JoinKind if kind is not JoinKind.INNER)
NAMES = [[f"{port}.k", f"{port}.t", f"{port}.v"] for port in (0, 1)]


def schema_of(port: int) -> pa.Schema:
    return pa.schema({f"{port}.k": pa.int64(), f"{port}.t": pa.string(), f"{port}.v": pa.int64()})


SCHEMAS = [schema_of(0), schema_of(1)]


def maker(
    kind: JoinKind,
    windows: Sequence[Window],
    life: Lifespan | None = None,
    residual: str = "",
    columns: Sequence[str] = ("k",),
    memory: int | None = None,
) -> Callable[[], PreservingJoin]:
    output = pa.schema([*SCHEMAS[0], *SCHEMAS[1]]) if kind.shows_pairs else SCHEMAS[0]
    keys = [[f"{port}.{name}" for name in columns] for port in (0, 1)]
    condition = parse(residual) if residual else None

    def made() -> PreservingJoin:
        join = PreservingJoin(kind, SCHEMAS, keys, windows, output, condition, life, memory_bytes=memory)
        join.spill_to(Path(tempfile.gettempdir()))
        return join

    return made


def named(port: int, tape: Tape) -> Tape:
    """The tape of one input, its columns called after the port."""
    renamed: Tape = []
    for item in tape:
        if isinstance(item, Row):
            renamed.append(Row(item.ts, item.pos, {f"{port}.{name}": value for name, value in item.values.items()}))
        else:
            renamed.append(item.rename({name: f"{port}.{name}" for name in item.names}) if isinstance(item, Punctuation) else item)
    return renamed


@st.composite
def inputs(draw: st.DrawFn, most: int = 8) -> list[Tape]:
    values = {"k": st.sampled_from(KEYS), "t": st.sampled_from(["", "a", None]), "v": st.integers(0, 3)}
    others = {"v": st.integers(0, 3).map(constant), "k": st.one_of(patterns(), st.just(ANY), st.just(constant(None)))}
    return [named(port, draw(tapes(values, "k", others, most))) for port in (0, 1)]


#: Bytes for rows in memory: no limit, none at all, some.
memories = st.sampled_from([None, 1, 700])
lengths = st.sampled_from([Sliding(0), Sliding(1), Sliding(3), Sliding(7), Unbounded()])
lives = st.sampled_from([Lifespan(), Lifespan(), Lifespan(2, 25), Lifespan(0, 20)])


@st.composite
def windowed(draw: st.DrawFn) -> tuple[list[Window], Lifespan]:
    """Windows of both inputs, and the life of the query."""
    life = draw(lives)
    form = draw(st.sampled_from(["sliding", "sliding", "framed", "landmark"]))
    if form == "sliding":
        return [draw(lengths), draw(lengths)], life
    size, step = draw(st.integers(1, 8)), draw(st.integers(1, 10))
    if form == "landmark" and life.end != FOREVER:
        return [Framed(size, 0, step), Framed(size, 0, step)], life
    other = Framed(draw(st.integers(1, 8)), step, step + draw(st.integers(0, 2)))
    return draw(st.permutations([Framed(size, step, step), other])), life


# -- worked examples --------------------------------------------------------------------------------------------------


def one(port: int, ts: int, key: int | None, number: int) -> tuple[int, Batch]:
    return port, batch_of([Row(ts, number, {f"{port}.k": key, f"{port}.t": "", f"{port}.v": number})], SCHEMAS[port])


def values(out: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The numbers of the rows each answer is made of."""
    return [(found[2], found[5] if len(found) > 3 else None) for found, _ in rows_of(out)]


def closes(port: int, **patterns: Pattern) -> Punctuation:
    return Punctuation.of(SCHEMAS[port].names, 0, 0, **{f"{port}.{name}": pattern for name, pattern in patterns.items()})


def test_a_row_comes_alone_when_the_other_frontier_has_passed_its_window_and_not_before() -> None:
    join = maker(JoinKind.LEFT, [Sliding(10), Sliding(10)])()
    assert values(join.on_batch(*one(0, 5, 1, 7))) == []
    assert values(join.on_metadata(1, Heartbeat(15))) == []  # a partner of time 15 may still come
    assert values(join.on_metadata(1, Heartbeat(16))) == [(7, None)]
    assert values(join.on_metadata(1, Heartbeat(FOREVER))) == []


def test_a_punctuation_of_the_other_input_is_proof_enough() -> None:
    join = maker(JoinKind.LEFT, [Unbounded(), Unbounded()])()
    join.on_batch(*one(0, 5, 1, 7))
    join.on_batch(*one(0, 5, 2, 8))
    out = join.on_metadata(1, closes(1, k=constant(1)))
    assert values(out) == [(7, None)]
    # Of key 1 only pairs are excluded for ever: another row of the first input may come without partner.
    assert [str(mark) for mark in out if isinstance(mark, Punctuation)] == ["⟨0.k=*, 0.t=*, 0.v=*, 1.k=1, 1.t=*, 1.v=*⟩"]
    assert values(join.on_batch(*one(0, 6, 1, 9))) == [(9, None)]


def test_a_punctuation_on_other_attributes_proves_nothing() -> None:
    join = maker(JoinKind.LEFT_ANTI, [Unbounded(), Unbounded()])()
    join.on_batch(*one(0, 1, 1, 7))
    assert values(join.on_metadata(1, closes(1, k=constant(1), v=constant(5)))) == []
    join.on_batch(*one(1, 2, 1, 6))
    assert values(join.on_metadata(1, Heartbeat(FOREVER))) == []


def test_a_key_both_inputs_have_closed_is_announced_on_both_columns() -> None:
    join = maker(JoinKind.LEFT, [Unbounded(), Unbounded()])()
    join.on_batch(*one(0, 5, 1, 7))
    assert join.on_metadata(0, closes(0, k=constant(1))) == []  # its row still waits
    marks = [mark for mark in join.on_metadata(1, closes(1, k=constant(1))) if isinstance(mark, Punctuation)]
    assert sorted(name for mark in marks for name in mark.restricted) == ["0.k", "1.k"]


def test_rows_with_null_keys_come_alone_at_once() -> None:
    for kind in KINDS:
        join = maker(kind, [Sliding(5), Sliding(5)])()
        expected = [(7, None)] if 0 in kind.preserved else []
        assert values(join.on_batch(*one(0, 5, None, 7))) == expected
        assert join.counters()["state_rows"] == 0


def test_a_semi_join_answers_with_the_first_partner_and_forgets_the_row() -> None:
    join = maker(JoinKind.LEFT_SEMI, [Sliding(10), Sliding(10)])()
    join.on_batch(*one(0, 5, 1, 7))
    assert values(join.on_batch(*one(1, 6, 1, 1))) == [(7, None)]
    assert values(join.on_batch(*one(1, 7, 1, 2))) == []
    assert [rows.num_rows for rows in join._rows] == [0, 2]


def test_a_pair_that_fails_the_residual_condition_is_no_pair() -> None:
    join = maker(JoinKind.FULL, [Sliding(10), Sliding(10)], residual="`0.v` < `1.v`")()
    join.on_batch(*one(0, 5, 1, 7))
    assert values(join.on_batch(*one(1, 6, 1, 3))) == []
    join.on_metadata(0, Heartbeat(20))
    assert values(join.on_metadata(1, Heartbeat(20))) == [(7, None)]
    assert join.counters()["unmatched"] == 2


def test_the_promise_stays_behind_rows_that_may_still_come_alone() -> None:
    join = maker(JoinKind.LEFT, [Sliding(10), Sliding(10)])()
    join.on_batch(*one(0, 5, 1, 7))
    join.on_metadata(0, Heartbeat(12))
    assert [mark for mark in join.on_metadata(1, Heartbeat(12)) if isinstance(mark, Heartbeat)] == [Heartbeat(5)]
    # The partner is found: nothing older than 12 can come any more.
    join.on_batch(*one(1, 12, 1, 8))
    assert join.on_metadata(0, Heartbeat(13)) == [Heartbeat(12)]


def test_in_numbered_windows_a_row_is_alone_in_each_window_without_partner() -> None:
    frames = [Framed(4, 2, 2), Framed(4, 2, 2)]
    join = maker(JoinKind.LEFT, frames)()
    join.on_batch(*one(0, 5, 1, 7))  # in windows 1 = [2, 6) and 2 = [4, 8)
    pairs = rows_of(join.on_batch(*one(1, 3, 1, 8)))  # in windows 0 and 1
    assert [(found[2], found[5]) for found, _ in pairs] == [(7, 8)]
    assert rows_of(join.on_metadata(1, Heartbeat(7))) == []
    alone = rows_of(join.on_metadata(1, Heartbeat(8)))
    assert [(found[2], found[5], ts) for found, ts in alone] == [(7, None, 5)]


def test_the_end_of_the_query_decides_what_is_open() -> None:
    join = maker(JoinKind.LEFT_ANTI, [Unbounded(), Unbounded()])()
    join.on_batch(*one(0, 5, 1, 7))
    assert values(join.on_metadata(0, End("q"))) == [(7, None)]


def test_no_partner_is_younger_than_the_query() -> None:
    join = maker(JoinKind.LEFT, [Unbounded(), Unbounded()], Lifespan(0, 20))()
    join.on_batch(*one(0, 5, 1, 7))
    assert values(join.on_metadata(1, Heartbeat(20))) == [(7, None)]


def test_statements_on_extended_columns_never_match_a_row_without_partner() -> None:
    join = maker(JoinKind.LEFT, [Unbounded(), Unbounded()])()
    out = [*join.on_metadata(1, closes(1, v=constant(None))), *join.on_metadata(1, closes(1, v=one_of([None, 3])))]
    out += join.on_metadata(1, closes(1))  # its end: rows of the other input still come
    assert [str(mark.pattern("1.v")) for mark in out if isinstance(mark, Punctuation)] == ["3"]


def test_only_changed_bits_are_written_anew() -> None:
    join = maker(JoinKind.LEFT, [Sliding(10), Sliding(10)])()
    join.on_batch(0, batch_of([Row(5, at, {"0.k": at, "0.t": "", "0.v": at}) for at in range(4)], SCHEMAS[0]))
    first = set(join.snapshot().segments)
    join.on_batch(*one(1, 6, 2, 8))
    second = set(join.snapshot().segments)
    join.on_batch(*one(1, 7, 2, 9))
    assert second - first == {"rows0/0-0.1", "rows1/1-0"}
    assert set(join.snapshot().segments) - second == {"rows1/1-2"}  # two runs in one; the row had its partner already


def test_a_landmark_window_that_may_stay_without_partner_needs_an_end() -> None:
    declared = [StreamDeclaration(name, Schema.of(k=pa.int64(), ts=pa.int64()), Source("feed"), "ts") for name in ("a", "b")]
    scans = tuple(nodes.Scan(stream, stream.name) for stream in declared)
    frames = Framed(4, 0, 2), Framed(4, 4, 4)
    join_nodes.WindowJoin(scans, (("a.k",), ("b.k",)), frames)
    with pytest.raises(InvalidPlan, match="give the query BEGIN and END"):
        join_nodes.WindowJoin(scans, (("a.k",), ("b.k",)), frames, kind=JoinKind.LEFT)


def test_only_inner_joins_take_more_than_two_inputs() -> None:
    scan = nodes.Scan(StreamDeclaration("a", Schema.of(k=pa.int64(), ts=pa.int64()), Source("feed"), "ts"))
    with pytest.raises(InvalidPlan, match="FULL JOIN takes two inputs; found 3"):
        join_nodes.WindowJoin((scan,) * 3, (("k",),) * 3, (Unbounded(),) * 3, kind=JoinKind.FULL)


# -- what is known ----------------------------------------------------------------------------------------------------


class Known:
    """What the inputs have delivered so far, and what follows from it; written apart from the operator."""

    def __init__(self, windows: Sequence[Window], life: Lifespan, columns: Sequence[str] = ("k",)) -> None:
        self.windows, self.life = windows, life
        self.keys = [[f"{port}.{name}" for name in columns] for port in (0, 1)]
        self.rows: list[list[Row]] = [[], []]
        self.frontiers = [NEVER, NEVER]
        self.marks: list[list[Punctuation]] = [[], []]

    def hear(self, port: int, item: Row | Punctuation | Heartbeat) -> None:
        if isinstance(item, Row):
            self.rows[port].append(item)
        elif isinstance(item, Heartbeat):
            self.frontiers[port] = max(self.frontiers[port], item.ts)
        elif set(item.restricted) <= set(self.keys[port]):
            self.marks[port].append(item)

    def is_proven(self, port: int, row: Row, number: int | None) -> bool:
        """No partner can come: the key is NULL or closed, or all times a partner may have are past."""
        other = 1 - port
        values = [row.values[name] for name in self.keys[port]]
        if None in values or self.frontiers[other] == FOREVER:
            return True
        if any(mark.matches(dict(zip(self.keys[other], values, strict=True))) for mark in self.marks[other]):
            return True
        last = self.life.end - 1
        window = self.windows[port if number is None else other]
        if isinstance(window, Framed):
            last = min(last, self.life.origin + window.bounds(number or 0)[1] - 1)
        elif isinstance(window, Sliding):
            last = min(last, row.ts + window.size)
        return last < self.frontiers[other]


# -- properties -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_p1_p2_after_every_element_exactly_what_is_proven_has_been_answered(kind: JoinKind, data: st.DataObject) -> None:
    """Never before the proof, at once with it, and once; and no answer breaks an output promise."""
    sides = data.draw(inputs())
    windows, life = data.draw(windowed())
    condition = data.draw(st.booleans())
    join = maker(kind, windows, life, "`0.v` <= `1.v` + 1" if condition else "", memory=data.draw(memories))()
    known = Known(windows, life)
    out: list[Any] = []
    for port, item in data.draw(merged(sides)):
        known.hear(port, item)
        out += deliver(join, port, batch_of([item], SCHEMAS[port]) if isinstance(item, Row) else item)
        expected = preserving_join(
            kind, known.rows, NAMES, known.keys, windows, life,
            lambda row: not condition or row["0.v"] <= row["1.v"] + 1, known.is_proven,
        )  # fmt: skip
        assert bag(rows_of(out)) == bag(expected)
    assert broken_promises(out) == []


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_p9_p10_p13_batching_restarts_and_interleaving_change_nothing(kind: JoinKind, data: st.DataObject) -> None:
    sides = data.draw(inputs())
    windows, life = data.draw(windowed())
    make = maker(kind, windows, life, memory=data.draw(memories))
    items = data.draw(merged(sides))
    expected = preserving_join(kind, [rows_in(tape) for tape in sides], NAMES, [["0.k"], ["1.k"]], windows, life)
    cut = drive(make(), split(items, SCHEMAS, data.draw(batch_cuts()), empty=True))
    other_order = drive(make(), split(data.draw(merged(sides)), SCHEMAS))
    restarted = drive_with_restarts(make, split(items, SCHEMAS))
    assert bag(rows_of(cut)) == bag(rows_of(other_order)) == bag(rows_of(restarted)) == bag(expected)
    assert announced_keys(restarted) == announced_keys(cut) == announced_keys(other_order)


def announced_keys(out: list[Any]) -> list[tuple[str, int]]:
    """Which keys the output has closed in the end, on which column."""
    marks = [item for item in out if isinstance(item, Punctuation) and len(item.restricted) == 1]
    columns = [(name, mark.pattern(name)) for mark in marks for name in mark.restricted if name in ("0.k", "1.k")]
    return [(name, key) for name in ("0.k", "1.k") for key in range(6) if any(n == name and p.matches(key) for n, p in columns)]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_the_shared_checks_hold(kind: JoinKind, data: st.DataObject) -> None:
    windows, life = data.draw(windowed())
    make = maker(kind, windows, life, data.draw(st.sampled_from(["", "`0.v` < `1.v`", "TRUE"])), memory=data.draw(memories))
    check_all(make, data.draw(merged(data.draw(inputs()))), SCHEMAS, data.draw(batch_cuts()))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_several_key_columns_are_closed_by_punctuations_on_some_of_them(kind: JoinKind, data: st.DataObject) -> None:
    sides = data.draw(inputs())
    windows: list[Window] = [data.draw(lengths), data.draw(lengths)]
    join = maker(kind, windows, columns=("k", "v"), memory=data.draw(memories))()
    known = Known(windows, Lifespan(), ("k", "v"))
    out: list[Any] = []
    for port, item in data.draw(merged(sides)):
        known.hear(port, item)
        out += deliver(join, port, batch_of([item], SCHEMAS[port]) if isinstance(item, Row) else item)
        expected = preserving_join(kind, known.rows, NAMES, known.keys, windows, Lifespan(), proven=known.is_proven)
        assert bag(rows_of(out)) == bag(expected)
    assert broken_promises(out) == []


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_p11_every_row_is_accounted_for_and_nothing_is_owed_in_the_end(kind: JoinKind, data: st.DataObject) -> None:
    windows, life = data.draw(windowed())
    join = maker(kind, windows, life, memory=data.draw(memories))()
    seen = 0
    for port, element in split(data.draw(merged(data.draw(inputs()))), SCHEMAS, data.draw(batch_cuts())):
        deliver(join, port, element)
        seen += element.num_rows if isinstance(element, Batch) else 0
        count = join.counters()
        known = ("state_rows", "purged", "expired", "null_keys", "outside_life", "decided")
        assert seen == sum(count[name] for name in known)
    assert join.counters()["state_rows"] == join.counters()["owed"] == 0
