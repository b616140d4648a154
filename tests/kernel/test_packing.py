"""Packing: positions, punctuations and headers do not depend on how rows are cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from penstock.errors import InvalidPattern
from penstock.kernel.damage import BAD
from penstock.kernel.packets import NOBODY, Packet, PacketKind
from penstock.kernel.packing import KEEP, MARK, PARTITION, POSITION, TIME, Route, pack
from penstock.kernel.sharding import shard_of
from penstock.kernel.spreading import lives_in, split_mark
from penstock.model.batch import Batch
from penstock.model.declarations import (
    Constraint,
    ConstraintKind,
    EmbeddedPunctuations,
    RowPolicy,
    Source,
    StreamDeclaration,
)
from penstock.model.elements import NEVER
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Field, Schema
from penstock.model.value_sets import between, constant, one_of, one_of_array

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), s=pa.string())


def route(keys: tuple[str, ...] | None = ("k",), shards: int = 3, **more: Any) -> Route:
    stream = StreamDeclaration("x", SCHEMA, Source("feed"), "ts", **more)
    kept = tuple((name, name) for name in SCHEMA.names)
    return Route("x@1", stream, SCHEMA.arrow, kept, keys, shards)


def rows_of(times: Sequence[int | None], **system: pa.Array) -> pa.RecordBatch:
    numbers = list(range(len(times)))
    columns = {"ts": pa.array(times, pa.int64()), "k": pa.array(numbers, pa.int64()), "s": pa.array([str(n) for n in numbers])}
    return pa.RecordBatch.from_pydict({**columns, TIME: columns["ts"], **system})


def pieces(rows: pa.RecordBatch, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    bounds = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
    return [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]


def packed(rows: pa.RecordBatch, where: Route, cuts: Sequence[int] = ()) -> list[tuple[int, Packet]]:
    """One task that packs its rows in pieces."""
    found: list[tuple[int, Packet]] = []
    base = 100
    for piece in pieces(rows, cuts) or [rows]:
        found += pack(piece, where, base)
        base += piece.num_rows
    return found


def positions(found: list[tuple[int, Packet]], kind: PacketKind) -> dict[int, int]:
    """Position of each row, by the number it was given."""
    batches = [packet.batch for _, packet in found if packet.kind is kind and packet.batch is not None]
    return {k: p for batch in batches for k, p in zip(batch.column("k").to_pylist(), batch.pos.tolist(), strict=True)}


cuts_of_rows = st.lists(st.integers(0, 12), max_size=4)


@given(parts=st.lists(st.integers(0, 2), min_size=1, max_size=12), cuts=cuts_of_rows, has_offsets=st.booleans())
@settings(max_examples=60, deadline=None)
@example(parts=[0, 1, 0, 1], cuts=[2], has_offsets=False)
def test_positions_are_unique_and_the_same_for_every_cut(parts: list[int], cuts: list[int], has_offsets: bool) -> None:
    system = {PARTITION: pa.array(parts)}
    if has_offsets:
        system[POSITION] = pa.array([parts[:at].count(part) for at, part in enumerate(parts)])
    rows = rows_of([5] * len(parts), **system)
    whole = positions(packed(rows, route()), PacketKind.ROWS)
    assert positions(packed(rows, route(), cuts), PacketKind.ROWS) == whole
    assert len(set(whole.values())) == len(parts)
    for part in set(parts):
        mine = [whole[at] for at, other in enumerate(parts) if other == part]
        assert mine == sorted(mine)


@given(times=st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=12), cuts=cuts_of_rows, bound=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_all_rows_with_a_time_cross_and_the_headers_tell_the_newest(times: list[int | None], cuts: list[int], bound: int) -> None:
    """Whether a row is late depends on earlier micro-batches, of which a packing task knows nothing."""
    found = packed(rows_of(times), route(disorder=bound), cuts)
    assert set(positions(found, PacketKind.ROWS)) == {number for number, time in enumerate(times) if time is not None}
    known = [time for time in times if time is not None]
    assert max([packet.newest for _, packet in found], default=NEVER) == max(known, default=NEVER)


def test_rows_are_put_in_the_order_of_declared_positions() -> None:
    found = packed(rows_of([5, 5, 5], **{POSITION: pa.array([30, 10, 20])}), route(shards=1))
    assert positions(found, PacketKind.ROWS) == {1: 10, 2: 20, 0: 30}
    assert [(packet.sequence, packet.last) for _, packet in found] == [(10, 30)]


@pytest.mark.parametrize("partition", [None, -1, 1 << 16, 2**63 - 1])
def test_a_row_of_no_possible_partition_is_refused_and_adds_no_partition(partition: int | None) -> None:
    rows = rows_of([5, 6], **{PARTITION: pa.array([partition, 3], pa.int64())})
    found = packed(rows, route())
    assert [(packet.reason, packet.partition) for _, packet in found if packet.kind is PacketKind.BAD] == [("no-position", NOBODY)]
    assert {packet.newest for _, packet in found if packet.partition == NOBODY} == {NEVER}
    assert sum(packet.total for _, packet in found) == 2


@pytest.mark.parametrize("position", [None, -5, 1 << 47, 2**63 - 1])
def test_a_row_of_no_possible_position_is_refused(position: int | None) -> None:
    for system in ({}, {PARTITION: pa.array([3, 3])}) if position != 1 << 47 else ({PARTITION: pa.array([3, 3])},):
        found = packed(rows_of([5, 6], **{POSITION: pa.array([position, 7], pa.int64()), **system}), route())
        bad = [packet.batch.column("k").to_pylist() for _, packet in found if packet.reason == "no-position" and packet.batch]
        assert bad == [[0]]
        assert list(positions(found, PacketKind.ROWS)) == [1]


def test_a_task_without_rows_speaks_for_no_partition_where_a_column_names_them() -> None:
    empty = rows_of([], **{PARTITION: pa.array([], pa.int64())})
    assert {packet.partition for _, packet in packed(empty, route())} == {NOBODY}
    assert {packet.partition for _, packet in packed(rows_of([]), route())} == {0}


def test_every_packing_task_sends_a_header_to_every_shard_also_without_rows() -> None:
    for rows in (rows_of([]), rows_of([7])):
        headers = [(shard, packet.newest) for shard, packet in packed(rows, route())]
        assert [shard for shard, _ in headers] == [0, 1, 2]
        assert len({newest for _, newest in headers}) == 1


def test_rows_are_counted_in_one_shard_only() -> None:
    found = packed(rows_of([1, 2, 3], **{KEEP: pa.array([True, None, False])}), route())
    assert sum(packet.total for _, packet in found) == 3
    assert sum(packet.filtered for _, packet in found) == 2


def test_rows_without_time_and_malformed_rows_are_refused_with_their_reason() -> None:
    found = packed(rows_of([1, None, None], **{BAD: pa.array([None, None, "{broken"])}), route())
    reasons = {
        packet.reason: packet.batch.column("k").to_pylist() for _, packet in found if packet.kind is PacketKind.BAD and packet.batch
    }
    assert reasons == {"no-timestamp": [1], "malformed": [2]}


# -- punctuations -----------------------------------------------------------------------------------------------------


def marks_of(found: list[tuple[int, Packet]]) -> dict[int, list[str]]:
    return {shard: [str(mark) for mark in packet.marks] for shard, packet in found if packet.marks}


def test_a_row_without_a_value_it_must_have_is_refused_if_somebody_reads_the_column() -> None:
    strict = Schema((Field("ts", pa.int64()), Field("k", pa.int64(), False), Field("s", pa.string(), False)))
    stream = StreamDeclaration("x", strict, Source("feed"), "ts")
    rows = pa.RecordBatch.from_pydict({"ts": [1, 2, 3], "k": pa.array([7, None, 9]), TIME: pa.array([1, None, 3], pa.int64())})
    rows = rows.set_column(1, "k", pa.array([None, None, 9], pa.int64()))
    columns = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    where = Route("x@1", stream, columns, (("ts", "ts"), ("k", "k")), ("k",), 1)
    found = {
        packet.reason: packet.batch.num_rows for _, packet in packed(rows, where) if packet.kind is PacketKind.BAD and packet.batch
    }
    assert found == {"missing-value": 1, "no-timestamp": 1}


def test_constants_go_to_their_shard_lists_are_split_and_the_rest_goes_everywhere() -> None:
    names = SCHEMA.names
    single = Punctuation.of(names, k=constant(7))
    home = int(shard_of([pa.array([7])], 1, 3)[0])
    assert [shard for shard, _ in split_mark(single, ("k",), 3, SCHEMA)] == [home]
    several = list(split_mark(Punctuation.of(names, k=one_of(range(20))), ("k",), 3, SCHEMA))
    assert sorted(value for _, share in several for value in share.pattern("k").values) == list(range(20))
    for shard, share in several:
        assert set(shard_of([pa.array(share.pattern("k").values)], len(share.pattern("k").values), 3).tolist()) == {shard}
    wide = Punctuation.of(names, k=between(1, 9))
    assert list(split_mark(wide, ("k",), 3, SCHEMA)) == [(0, wide), (1, wide), (2, wide)]
    assert list(split_mark(single, None, 3, SCHEMA)) == [(0, single), (1, single), (2, single)]
    assert list(split_mark(single, (), 3, SCHEMA)) == [(0, single)]


@given(st.sets(st.integers(-(2**40), 2**40), min_size=2, max_size=40), st.integers(2, 5))
def test_a_list_from_data_is_split_as_one_of_single_values(values: set[int], shards: int) -> None:
    from_data = Punctuation.of(SCHEMA.names, k=one_of_array(pa.array(sorted(values))))
    by_hand = Punctuation.of(SCHEMA.names, k=one_of(values))
    assert from_data.pattern("k").whole is not None
    assert by_hand.pattern("k").whole is None
    assert dict(split_mark(from_data, ("k",), shards, SCHEMA)) == dict(split_mark(by_hand, ("k",), shards, SCHEMA))


def test_a_constant_on_several_key_columns_goes_to_the_one_shard_that_owns_it() -> None:
    mark = Punctuation.of(SCHEMA.names, k=one_of([1, 2]), s=constant("a"))
    shares = list(split_mark(mark, ("k", "s"), 3, SCHEMA))
    for value in (1, 2):
        home = int(shard_of([pa.array([value]), pa.array(["a"])], 1, 3)[0])
        assert [shard for shard, share in shares if share.matches({"ts": 0, "k": value, "s": "a"})] == [home]
        share = Punctuation.of(SCHEMA.names, k=constant(value), s=constant("a"))
        assert [shard for shard in range(3) if lives_in(share, ("k", "s"), shard, 3, SCHEMA)] == [home]
    assert not any(lives_in(Punctuation.of(SCHEMA.names, k=constant(1)), ("k", "s"), shard, 3, SCHEMA) for shard in range(3))


def embedded(*texts: str | None) -> pa.RecordBatch:
    return rows_of([1 if text is None else None for text in texts], **{MARK: pa.array(texts, pa.string())})


def test_embedded_punctuations_are_no_rows_and_follow_the_rows_before_them() -> None:
    where = route(punctuations=EmbeddedPunctuations("s"))
    found = packed(embedded(None, '{"k": {"range": [0, 5]}}', None), where)
    assert {packet.marks[0].pos for _, packet in found if packet.marks} == {101}
    assert positions(found, PacketKind.ROWS) == {0: 100, 2: 102}
    assert sum(packet.total for _, packet in found) == 2


def test_a_record_that_did_not_parse_is_no_punctuation() -> None:
    where = route(punctuations=EmbeddedPunctuations("s"))
    rows = rows_of([1, None], **{MARK: pa.array([None, '{"k": 1}']), BAD: pa.array([None, "{broken"])})
    found = packed(rows, where)
    assert marks_of(found) == {}
    assert [packet.reason for _, packet in found if packet.kind is PacketKind.BAD] == ["malformed"]


def test_an_unreadable_punctuation_stops_the_stream_or_is_set_apart() -> None:
    rows = embedded('{"nobody": 1}')
    with pytest.raises(InvalidPattern, match=r"stream 'x', position 100(.|\n)*no attribute 'nobody'"):
        packed(rows, route(punctuations=EmbeddedPunctuations("s", on_bad=RowPolicy.ERROR)))
    found = packed(rows, route(punctuations=EmbeddedPunctuations("s")))
    bad = [packet for _, packet in found if packet.kind is PacketKind.BAD]
    assert [packet.reason for packet in bad] == ["bad-punctuation"]
    assert sum(packet.total for _, packet in found) == 1


def test_a_punctuation_about_a_column_that_does_not_cross_says_nothing() -> None:
    where = route(punctuations=EmbeddedPunctuations("s"))
    narrow = Route("x@1", where.stream, pa.schema({"k": pa.int64()}), (("k", "k"),), ("k",), 3)
    assert marks_of(packed(embedded('{"ts": 5}', '{"k": 5, "ts": 1}'), narrow)) == {}
    assert list(marks_of(packed(embedded('{"k": 5}'), narrow)).values()) == [["⟨k=5⟩"]]


@settings(deadline=None)
@given(
    times=st.lists(st.none() | st.integers(0, 50), max_size=30),
    left_out=st.sets(st.integers(0, 29)),
    unwanted=st.sets(st.integers(0, 29)),
    is_unique=st.booleans(),
)
def test_rows_left_out_are_missing_and_counted_and_everything_else_is_said_as_before(
    times: list[int | None], left_out: set[int], unwanted: set[int], is_unique: bool
) -> None:
    wanted = pa.array([number not in unwanted for number in range(len(times))], pa.bool_())
    where = route(constraints=(Constraint(ConstraintKind.UNIQUE, "k"),) if is_unique else ())
    rows = rows_of(times, **{KEEP: wanted})

    def shedder(batch: Batch, partition: int) -> Mask:
        assert partition == 0
        assert not unwanted & set(batch.column("k").to_pylist())
        return np.array([number not in left_out for number in batch.column("k").to_pylist()], np.bool_)

    plain, shed = list(pack(rows, where, 100)), list(pack(rows, where, 100, None, shedder))
    every = positions(plain, PacketKind.ROWS)
    assert positions(shed, PacketKind.ROWS) == {number: at for number, at in every.items() if number not in left_out}
    assert sum(packet.shed for _, packet in shed) == len(every.keys() & left_out)
    assert [(at, packet.kind, packet.total, packet.filtered, packet.newest, packet.edges) for at, packet in shed] == [
        (at, packet.kind, packet.total, packet.filtered, packet.newest, packet.edges) for at, packet in plain
    ]
    closed = {
        value for _, packet in shed for mark in packet.marks for value in every if mark.matches({"ts": 0, "k": value, "s": ""})
    }
    assert closed >= every.keys() & left_out if is_unique else not closed
