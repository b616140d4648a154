"""The guard of a shard's entry: late, bad and violating rows, derived punctuations, alignment, frontiers, ends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from gate import SCHEMA, Gate, balanced, closing, cut, frontier, keys_of, marks, refused
from hypothesis import example, given, settings

from penstock.errors import BadRows, LateRows, PunctuationViolated
from penstock.kernel.contracts import State
from penstock.kernel.ingress import EntrySpec, Ingress
from penstock.kernel.packets import Packet
from penstock.kernel.segments import decode_meta, encode_meta
from penstock.model.batch import Batch
from penstock.model.declarations import (
    ConstraintKind,
    RowPolicy,
)
from penstock.model.elements import FOREVER, End, Heartbeat, Quarantined
from penstock.model.punctuation import Punctuation

# -- time -------------------------------------------------------------------------------------------------------------


def test_the_frontier_is_the_newest_row_less_the_disorder_bound() -> None:
    gate = Gate(disorder=3)
    assert frontier(gate.batch((10, 1), (8, 2))) == 7
    assert frontier(gate.batch((9, 1))) is None
    assert frontier(gate.batch((20, 1))) == 17


def test_the_slowest_partition_holds_the_frontier_back() -> None:
    gate = Gate()
    assert frontier(gate.batch((10, 1, 0), (4, 1, 1))) == 4
    assert frontier(gate.batch((30, 1, 0))) is None
    assert frontier(gate.batch((12, 1, 1))) == 12


def test_late_rows_are_quarantined_with_the_reason_or_stop_the_query() -> None:
    gate = Gate(disorder=2)
    gate.batch((10, 1))
    found = gate.batch((7, 2), (8, 3))
    assert refused(found) == {"late": [2]}
    assert keys_of(found) == [3]
    assert balanced(gate)
    strict = Gate(on_late=RowPolicy.ERROR)
    strict.batch((10, 1))
    with pytest.raises(LateRows, match="larger bound"):
        strict.batch((9, 2))


def test_bad_rows_are_quarantined_or_stop_the_query() -> None:
    gate = Gate()
    found = gate.batch((-1, 5), (None, 6), (3, 7))
    assert refused(found) == {"malformed": [5], "no-timestamp": [6]}
    assert keys_of(found) == [7]
    assert balanced(gate)
    with pytest.raises(BadRows, match="ON BAD ROWS QUARANTINE"):
        Gate(on_bad=RowPolicy.ERROR).batch((-1, 5))


times_and_owners = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 3), st.integers(0, 1)), max_size=12)


@given(rows=times_and_owners, cuts=st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=80, deadline=None)
def test_a_row_is_late_if_it_is_older_than_what_was_promised_before_its_micro_batch(
    rows: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    # Both partitions are known from the start: a partition that appears later is judged by what was promised without it.
    gate, promised, late, expected = Gate(disorder=2), {0: -2, 1: -2}, list[int](), list[int]()
    gate.batch((0, 9, 0), (0, 9, 1))
    at = gate.base
    for piece in cut(rows, cuts):
        late += [pos for item in gate.batch(*piece) if isinstance(item, Quarantined) for pos in item.batch.pos.tolist()]
        expected += [at + number for number, (time, _, owner) in enumerate(piece) if time < promised[owner]]
        promised |= {owner: max([promised[owner], *(time - 2 for time, _, other in piece if other == owner)]) for owner in promised}
        at += len(piece)
    assert sorted(late) == expected
    assert balanced(gate)


@given(rows=times_and_owners, cuts=st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=80, deadline=None)
def test_no_row_within_the_bound_is_ever_late(rows: list[tuple[int, int, int]], cuts: list[int]) -> None:
    newest = {0: 0, 1: 0}
    tame = []
    for time, key, owner in rows:
        newest[owner] = max(newest[owner], time)
        tame.append((max(time, newest[owner] - 2), key, owner))
    gate = Gate(disorder=2)
    gate.batch((0, 9, 0), (0, 9, 1))
    for piece in cut(tame, cuts):
        assert refused(gate.batch(*piece)) == {}


def test_a_damaged_row_or_an_empty_task_holds_back_no_frontier() -> None:
    """There is no partition 0 here: neither of them may become one that never moves."""
    gate = Gate()
    gate.batch((-1, 5, None))
    gate.batch()
    assert frontier(gate.batch((7, 1, 4), (-1, 5, None))) == 7


# -- violations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[], [2], [1, 2]])
def test_a_row_after_its_punctuation_is_refused_trusted_or_stops_the_query(cuts: list[int]) -> None:
    rows = [(1, 5), closing(5), (2, 5), (3, 6)]
    quarantine = Gate(on_violation=RowPolicy.QUARANTINE)
    found = [element for piece in cut(rows, cuts) for element in quarantine.batch(*piece)]
    assert keys_of(found) == [5, 6]
    assert refused(found) == {"punctuation-violated": [5]}
    trust = Gate(on_violation=RowPolicy.TRUST)
    assert keys_of([element for piece in cut(rows, cuts) for element in trust.batch(*piece)]) == [5, 5, 6]
    assert trust.ingress.totals["trusted"] == trust.ingress.totals["violating"] == 1
    assert balanced(quarantine)
    assert balanced(trust)
    strict = Gate(on_violation=RowPolicy.ERROR)
    *before, last = cut(rows[:3], cuts)
    for piece in before:
        strict.batch(*piece)
    with pytest.raises(PunctuationViolated, match=r"stream 'x', position 2(.|\n)*'k': 5"):
        strict.batch(*last)


@pytest.mark.parametrize("cuts", [[], [2], [3]])
def test_a_partition_must_keep_its_own_word_before_others_have_agreed(cuts: list[int]) -> None:
    rows = [(1, 9, 1), closing(5, 0), (2, 5, 0), (2, 5, 1)]
    gate = Gate(on_violation=RowPolicy.QUARANTINE)
    found = [element for piece in cut(rows, cuts) for element in gate.batch(*piece)]
    assert sorted(keys_of(found)) == [5, 9]
    assert refused(found) == {"punctuation-violated": [5]}


def test_a_punctuation_holds_when_every_partition_has_announced_it() -> None:
    gate = Gate()
    gate.batch((1, 1, 0), (1, 1, 1))
    assert marks(gate.batch(closing(5, 0))) == []
    gate.restart()
    assert marks(gate.batch(closing(5, 1))) == ["⟨ts=*, k=5, day=*⟩"]
    assert marks(gate.batch(closing(5, 1))) == []


# -- declared constraints ---------------------------------------------------------------------------------------------


def test_unique_values_are_closed_after_their_batch_and_null_says_nothing() -> None:
    gate = Gate([(ConstraintKind.UNIQUE, "k")], on_violation=RowPolicy.QUARANTINE)
    found = gate.batch((1, 7), (1, None), (1, None), (1, 7))
    assert keys_of(found) == [7, None, None]
    assert refused(found) == {"punctuation-violated": [7]}
    assert marks(found) == ["⟨k=7⟩"]
    assert refused(gate.batch((2, 7), (2, None))) == {"punctuation-violated": [7]}
    assert balanced(gate)


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2, 3], [3]])
def test_a_clustered_value_is_closed_when_another_begins_however_rows_are_cut(cuts: list[int]) -> None:
    gate = Gate([(ConstraintKind.CLUSTERED, "day")], on_violation=RowPolicy.QUARANTINE)
    found: list[Any] = []
    for piece in cut([(1, 1), (2, 1), (3, 2), (4, None), (5, 1), (6, 3)], cuts):
        found += gate.batch(*piece)
        gate.restart()
    assert keys_of(found) == [1, 1, 2, None, 3]
    assert refused(found) == {"punctuation-violated": [1]}
    closed = [element for element in found if isinstance(element, Punctuation)]
    days = {key for key in range(5) for mark in closed if mark.pattern("day").matches(dt.date(2026, 1, 1) + dt.timedelta(days=key))}
    assert days == {1, 2}
    assert balanced(gate)


def test_two_partitions_cluster_on_their_own_and_close_together() -> None:
    gate = Gate([(ConstraintKind.CLUSTERED, "k")])
    assert marks(gate.batch((1, 1, 0), (1, 1, 1), (2, 2, 0))) == []
    assert marks(gate.batch((2, 2, 1))) == ["⟨ts=*, k=1, day=*⟩"]


@pytest.mark.parametrize("cuts", [[], [1], [2], [3], [1, 2, 3, 4]])
def test_an_ordered_attribute_closes_all_below_its_newest_value_however_rows_are_cut(cuts: list[int]) -> None:
    gate = Gate([(ConstraintKind.ORDERED, "k")], on_violation=RowPolicy.QUARANTINE)
    found = [element for piece in cut([(1, 3), (2, 3), (3, 5), (4, 4), (5, 5)], cuts) for element in gate.batch(*piece)]
    assert keys_of(found) == [3, 3, 5, 5]
    assert refused(found) == {"punctuation-violated": [4]}
    closed = [element for element in found if isinstance(element, Punctuation)]
    assert [key for key in range(8) if any(mark.matches({"ts": 0, "k": key, "day": None}) for mark in closed)] == [0, 1, 2, 3, 4]
    assert balanced(gate)


def test_an_ordered_attribute_that_is_null_closes_nothing() -> None:
    gate = Gate([(ConstraintKind.ORDERED, "k"), (ConstraintKind.CLUSTERED, "k")])
    assert marks(gate.batch((1, None), (2, None))) == []
    assert keys_of(gate.batch((3, 1))) == [1]


@given(
    kind=st.sampled_from(list(ConstraintKind)),
    rows=st.lists(st.tuples(st.just(1), st.sampled_from([1, 2, 3, None])), max_size=10),
    cuts=st.lists(st.integers(0, 10), max_size=4),
    unwanted=st.frozensets(st.integers(0, 10), max_size=4),
)
@settings(max_examples=150, deadline=None)
@example(kind=ConstraintKind.UNIQUE, rows=[(1, 1), (1, 1), (1, 2)], cuts=[1], unwanted=frozenset({0, 2}))
def test_which_rows_violate_a_constraint_does_not_depend_on_micro_batches(
    kind: ConstraintKind, rows: list[tuple[int, int | None]], cuts: list[int], unwanted: frozenset[int]
) -> None:
    def outcome(cuts: Sequence[int]) -> tuple[list[int], int]:
        gate = Gate([(kind, "k")], on_violation=RowPolicy.QUARANTINE)
        gate.unwanted = unwanted
        used = []
        for piece in cut(rows, cuts):
            for element in gate.batch(*piece):
                used += element.pos.tolist() if isinstance(element, Batch) else []
        assert balanced(gate)
        return sorted(used), gate.ingress.totals["violating"]

    assert outcome(cuts) == outcome([])


# -- rows without order -----------------------------------------------------------------------------------------------


def test_what_is_said_among_rows_without_order_holds_from_the_next_micro_batch_on() -> None:
    gate = Gate(source="json", on_violation=RowPolicy.QUARANTINE)
    found = gate.batch(closing(5), (1, 5), (2, 6), (None, None, 0, '{"k": [6]}'), (3, 6))
    assert (keys_of(found), refused(found)) == ([5, 6, 6], {})
    gate.restart()
    assert refused(gate.batch((4, 5), (4, 6), (4, 7))) == {"punctuation-violated": [5, 6]}
    assert balanced(gate)


@pytest.mark.parametrize("kind", [ConstraintKind.ORDERED, ConstraintKind.CLUSTERED])
def test_files_read_in_another_order_keep_what_their_stream_declares(kind: ConstraintKind) -> None:
    gate = Gate([(kind, "k")], source="json", on_violation=RowPolicy.QUARANTINE)
    written = [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)]
    found = [*gate.batch(*written[4:], *written[:2]), *gate.batch((7, 3), (8, 4))]
    assert (len(keys_of(found)), refused(found)) == (6, {})
    gate.restart()
    found = gate.batch((9, 1), (9, 4))
    assert (keys_of(found), refused(found)) == ([4], {"punctuation-violated": [1]})
    assert balanced(gate)


def test_a_run_that_may_go_on_is_not_closed() -> None:
    gate = Gate([(ConstraintKind.CLUSTERED, "k")], source="json")
    assert marks(gate.batch((1, 1), (2, 2))) == []
    assert marks(gate.batch((3, None))) == []
    assert marks(gate.batch((4, 1))) == ["⟨ts=*, k=2, day=*⟩"]


# -- ends -------------------------------------------------------------------------------------------------------------


def test_a_derived_stream_ends_when_it_has_in_every_sending_shard() -> None:
    ingress = Ingress(EntrySpec("d@2", "d", SCHEMA.arrow, partitions=2))
    assert ingress.admit([Packet("d@2", partition=0, frontier=5, ends=("q",)), Packet("d@2", partition=1, frontier=4)]) == [
        Heartbeat(4)
    ]
    meta = decode_meta(encode_meta(ingress.snapshot().meta, "x"), "x")
    ingress = Ingress(ingress.spec)
    ingress.restore(State(meta))
    assert ingress.admit([Packet("d@2", partition=1, ends=("q",))]) == [End("q")]
    final = ingress.admit([Packet("d@2", partition=part, ends=("",)) for part in (0, 1)])
    assert final == [Heartbeat(FOREVER), End()]


@pytest.mark.parametrize("policy", [RowPolicy.QUARANTINE, RowPolicy.ERROR])
def test_rows_that_a_source_still_has_behind_the_end_have_a_reason_of_their_own_and_are_no_error(policy: RowPolicy) -> None:
    gate = Gate(disorder=2, on_late=policy)
    gate.batch((10, 1))
    assert gate.ingress.end() == [Heartbeat(FOREVER)]
    gate.restart()
    # One of them would have been late anyway, and one contradicts a punctuation: what counts is that the stream has ended.
    found = gate.batch((11, 2), (20, 3), (12, 4), closing(3), (21, 3))
    assert sorted(key for keys in [element.batch.column("k").to_pylist() for element in found if isinstance(element, Quarantined)]
                  for key in keys) == [2, 3, 3, 4]  # fmt: skip
    assert set(refused(found)) == {"after-end"}
    assert keys_of(found) == []
    assert (gate.ingress.totals["after_end"], gate.ingress.totals["late"]) == (4, 0)
    assert balanced(gate)


def test_a_shard_saved_before_there_was_a_count_of_rows_after_the_end_can_be_restored() -> None:
    gate = Gate()
    gate.batch((10, 1))
    meta = dict(gate.ingress.snapshot().meta)
    meta["totals"] = {name: count for name, count in meta["totals"].items() if name != "after_end"}
    gate.ingress.restore(State(meta))
    assert (gate.ingress.totals["after_end"], gate.ingress.totals["used"]) == (0, 1)


def test_useless_punctuations_are_counted_and_not_passed_on() -> None:
    gate = Gate()
    gate.batch((1, 1), closing(5))
    assert marks(gate.batch((None, None, 0, '{"k": []}'), closing(5))) == []
    assert gate.ingress.totals["useless_punctuations"] == 2


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=14), st.lists(st.integers(0, 14), max_size=3))
@settings(max_examples=60, deadline=None)
def test_punctuations_of_one_value_do_the_same_in_columns_and_one_by_one(items: list[tuple[int, bool]], cuts: list[int]) -> None:
    """`{"k": 5}` is read in columns and its rows judged while packing, `{"k": [5]}` is an object judged by the shard."""
    outcomes = []
    for form in ('{{"k": {}}}', '{{"k": [{}]}}'):
        gate = Gate(on_violation=RowPolicy.QUARANTINE)
        rows = [(1, None, 0, form.format(value)) if is_mark else (1, value, 0, None) for value, is_mark in items]
        bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
        elements = [element for start, stop in pairwise(bounds) for element in gate.batch(*rows[start:stop])]
        used = [at for element in elements if isinstance(element, Batch) for at in element.pos.tolist()]
        refused = [at for element in elements if isinstance(element, Quarantined) for at in element.batch.pos.tolist()]
        closed = [value for element in elements if isinstance(element, Punctuation) for value in element.pattern("k").values]
        outcomes.append((sorted(used), sorted(refused), sorted(closed)))
    assert outcomes[0] == outcomes[1]
