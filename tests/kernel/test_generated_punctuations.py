"""Punctuations made from declarations: the same for every cut of a source partition into tasks and micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.kernel.ingress import EntrySpec, Ingress
from penstock.kernel.packets import Packet
from penstock.kernel.packing import MARK, PARTITION, TIME, Route, pack
from penstock.model.batch import Batch
from penstock.model.declarations import (
    Constraint,
    ConstraintKind,
    EmbeddedPunctuations,
    Generator,
    GeneratorKind,
    RowPolicy,
    Source,
    StreamDeclaration,
)
from penstock.model.elements import Herald, Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation, scoped_from_herald

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), s=pa.string())


class Shards:
    """A stream that enters some shards."""

    def __init__(self, shards: int = 1, **declared: Any) -> None:
        stream = StreamDeclaration("x", SCHEMA, Source("feed"), "ts", **declared)
        kept = tuple((name, f"x.{name}") for name in SCHEMA.names)
        columns = pa.schema([pa.field(f"x.{item.name}", item.type) for item in SCHEMA])
        self.route = Route("x@1", stream, columns, kept, ("x.k",), shards)
        self.spec = EntrySpec("x@1", "x", columns, on_violation=RowPolicy.QUARANTINE)
        self.guards = [Ingress(self.spec, shard, shards) for shard in range(shards)]
        self.base = 0
        self.elements: list[Any] = []

    def run(self, tasks: Sequence[pa.RecordBatch], restart: bool = False) -> list[Any]:
        """One micro-batch."""
        packets: list[tuple[int, Packet]] = []
        for rows in tasks:
            packets += pack(rows, self.route, self.base)
            self.base += rows.num_rows
        found = []
        for shard, guard in enumerate(self.guards):
            if restart:
                saved = guard.snapshot()
                guard = self.guards[shard] = Ingress(self.spec, shard, len(self.guards))
                guard.restore(saved)
            # An exchange keeps no order.
            mine = [Packet.decode(*packet.encode()) for target, packet in reversed(packets) if target == shard]
            found += guard.admit(mine)
        self.elements += found
        return found

    @property
    def used(self) -> list[int]:
        return sorted(pos for item in self.elements if isinstance(item, Batch) for pos in item.pos.tolist())

    @property
    def refused(self) -> list[int]:
        return sorted(pos for item in self.elements if isinstance(item, Quarantined) for pos in item.batch.pos.tolist())

    @property
    def closed(self) -> set[Any]:
        marks = [item for item in self.elements if isinstance(item, Punctuation)]
        return {value for mark in marks for value in mark.pattern("x.k").values}


def rows_of(keys: Sequence[int | None], texts: Sequence[str | None] | None = None, **system: pa.Array) -> pa.RecordBatch:
    columns = {
        "x.ts": pa.array([0] * len(keys), pa.int64()),
        "x.k": pa.array(keys, pa.int64()),
        "x.s": pa.array(texts or [""] * len(keys), pa.string()),
    }
    return pa.RecordBatch.from_pydict({**columns, TIME: columns["x.ts"], **system})


def pieces(rows: pa.RecordBatch, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    bounds = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
    return [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]


def played(shards: Shards, rows: pa.RecordBatch, cuts: Sequence[int], as_tasks: bool, restart: bool) -> Shards:
    """Pieces as tasks of one micro-batch, or as micro-batches."""
    parts = pieces(rows, cuts)
    for tasks in [parts] if as_tasks else [[part] for part in parts]:
        shards.run(tasks, restart)
    return shards


keys = st.lists(st.one_of(st.integers(0, 4), st.none()), max_size=24)
cuts = st.lists(st.integers(0, 24), max_size=6)


# -- clusters ---------------------------------------------------------------------------------------------------------


def clustered(within: int, shards: int) -> Shards:
    return Shards(shards, constraints=(Constraint(ConstraintKind.CLUSTERED, "k", within),))


def k_clustered_reference(values: Sequence[int | None], within: int) -> tuple[list[int], set[int]]:
    """Rows that come too late, and values that are closed in the end: one row after the other."""
    last: dict[int, int] = {}
    late, closed = [], set[int]()
    for at, value in enumerate(values):
        if value is None:
            continue
        if value in closed or (value in last and at - last[value] - 1 > within):
            closed.add(value)
            late.append(at)
        else:
            last[value] = at
    return late, closed | {value for value, at in last.items() if len(values) - 1 - at > within}


@given(
    values=keys, cut=cuts, within=st.integers(1, 5), shards=st.sampled_from([1, 3]), flags=st.tuples(st.booleans(), st.booleans())
)
@settings(max_examples=120, deadline=None)
@example(values=[1, 2, 2, 1], cut=[1, 2, 3], within=1, shards=1, flags=(False, True))
@example(values=[1, None, None, 1], cut=[1, 2], within=1, shards=1, flags=(False, False))
def test_a_value_is_closed_when_more_rows_than_declared_came_behind_it(
    values: list[int | None], cut: list[int], within: int, shards: int, flags: tuple[bool, bool]
) -> None:
    found = played(clustered(within, shards), rows_of(values), cut, *flags)
    late, closed = k_clustered_reference(values, within)
    assert found.refused == late
    assert found.used == [at for at in range(len(values)) if at not in late]
    assert found.closed == closed


def test_within_zero_rows_is_plain_clustering() -> None:
    found = played(clustered(0, 1), rows_of([5, 5, 7, 7, 9]), [2], False, False)
    assert found.closed == {5, 7}


def test_every_source_partition_counts_its_own_rows() -> None:
    rows = rows_of([1, 2, 1, 2, 1, 2], **{PARTITION: pa.array([0, 1, 0, 1, 0, 1])})
    found = played(clustered(1, 1), rows, [2, 4], False, False)
    assert found.refused == []
    assert found.closed == set()


# -- rules ------------------------------------------------------------------------------------------------------------

SOLD = Generator(GeneratorKind.WHEN, "k", condition="s = 'sold'")


@given(
    items=st.lists(st.tuples(st.one_of(st.integers(0, 4), st.none()), st.sampled_from(["sold", "bid", None])), max_size=20),
    cut=cuts, shards=st.sampled_from([1, 3]), flags=st.tuples(st.booleans(), st.booleans()),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
@example(items=[(1, "sold"), (1, "bid")], cut=[1], shards=1, flags=(True, False))
def test_a_row_that_meets_the_rule_is_the_last_of_its_value(
    items: list[tuple[int | None, str | None]], cut: list[int], shards: int, flags: tuple[bool, bool]
) -> None:
    found = Shards(shards, generators=(SOLD,))
    played(found, rows_of([key for key, _ in items], [text for _, text in items]), cut, *flags)
    closed, late = set[int](), []
    for at, (key, text) in enumerate(items):
        if key is not None and key in closed:
            late.append(at)
        if key is not None and text == "sold":
            closed.add(key)
    assert found.refused == late
    assert found.closed == closed


def test_a_rule_over_columns_the_query_does_not_read_does_nothing() -> None:
    found = Shards(generators=(Generator(GeneratorKind.WHEN, "k", condition="gone = 1"),))
    found.run([rows_of([1, 1])])
    assert (found.closed, found.refused) == (set(), [])


# -- scopes -----------------------------------------------------------------------------------------------------------


def marked(*items: int | str, parts: Sequence[int] = ()) -> pa.RecordBatch:
    """Keys of rows, and texts of embedded punctuations."""
    texts = [item if isinstance(item, str) else None for item in items]
    columns = {MARK: pa.array(texts, pa.string())}
    if parts:
        columns[PARTITION] = pa.array(parts)
    return rows_of([item if isinstance(item, int) else None for item in items], **columns)


def scopes(elements: Sequence[Any]) -> list[ScopedPunctuation]:
    found = [scoped_from_herald(item) for item in elements if isinstance(item, Herald)]
    return [scope for scope in found if scope is not None]


def announcing(shards: int = 1) -> Shards:
    return Shards(shards, punctuations=EmbeddedPunctuations("s"))


NEXT_FIVE = '{"$next": 5, "k": {"range": [3, null]}}'


@pytest.mark.parametrize("shards", [1, 3])
def test_a_scope_reaches_every_shard_with_the_rows_it_has_left(shards: int) -> None:
    found = announcing(shards).run([marked(1, NEXT_FIVE, 4, 5)])
    assert [str(scope) for scope in scopes(found)] == ["⟨next 3: x.k=[3,∞)⟩"] * shards


@pytest.mark.parametrize("cut", [[], [1], [2, 3], [1, 2, 3, 4, 5, 6]])
def test_a_scope_ends_with_its_last_row_whichever_shard_that_is_in(cut: list[int]) -> None:
    for shards in (1, 3):
        stream = announcing(shards)
        played(stream, marked(NEXT_FIVE, 4, 5, 6, 7), cut, False, restart=True)
        assert not scopes(stream.elements)[-1].says_nothing
        assert all(scope.says_nothing for scope in scopes(stream.run([marked(8)], restart=True)))
        assert scopes(stream.run([marked(1)])) == []


def test_a_row_outside_a_scope_is_no_violation() -> None:
    stream = announcing()
    stream.run([marked(NEXT_FIVE)])
    stream.run([marked(1, 2)])
    assert (stream.refused, len(stream.used)) == ([], 2)


def test_scopes_of_partitions_are_put_together() -> None:
    stream = announcing()
    assert scopes(stream.run([marked(9, 9, NEXT_FIVE, parts=[0, 1, 0])])) == []
    found = scopes(stream.run([marked('{"$next": 2, "k": 0}', parts=[1])]))
    assert [str(scope) for scope in found] == ["⟨next 7: x.k=[3,∞) or x.k=0⟩"]


def test_a_probable_end_reaches_operators_as_such_and_closes_nothing() -> None:
    stream = announcing()
    found = stream.run([marked(7, '{"$confidence": 0.9, "k": 7}')])
    assert [str(scope) for scope in scopes(found)] == ["⟨x.k=7 (90%)⟩"]
    stream.run([marked(7)])
    assert (stream.closed, stream.refused) == (set(), [])


def test_partitions_must_agree_on_a_probable_end_and_their_confidences_multiply() -> None:
    stream = announcing()
    stream.run([marked(1, 2, parts=[0, 1])])
    assert scopes(stream.run([marked('{"$confidence": 0.9, "k": 7}', parts=[0])])) == []
    (found,) = scopes(stream.run([marked('{"$confidence": 0.5, "k": 7}', parts=[1])], restart=True))
    assert found.confidence == pytest.approx(0.45)


def test_state_without_scopes_can_still_be_read() -> None:
    guard = Shards().guards[0]
    saved = guard.snapshot()
    old = {name: value for name, value in saved.meta.items() if name not in ("open_clusters", "scopes", "told")}
    guard.restore(type(saved)(old))
    assert guard.scopes.current() is None
    assert np.all(np.array(guard.frontiers.current) <= 0)
