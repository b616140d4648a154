"""Which announcements of single partitions hold for the whole stream."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.alignment import Alignment
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import ANY, EMPTY, between, constant, one_of

KEYS = [None, 0, 1, 2]
ROWS = [(a, b) for a in KEYS for b in KEYS]
SCHEMA = Schema.of(a=pa.int64(), b=pa.int64())


def on_item(pattern, **given):
    return Punctuation(("item",), (pattern,), **given)


bound = st.sampled_from(KEYS)
key_pattern = st.one_of(
    st.just(ANY),
    st.builds(constant, bound),
    st.builds(between, bound, bound, st.booleans(), st.booleans()),
    st.builds(one_of, st.lists(bound, max_size=3)),
)
punctuations = st.builds(
    lambda a, b, is_global: Punctuation(("a", "b"), (a, b), is_global=is_global),
    key_pattern,
    st.just(ANY) | key_pattern,
    st.sampled_from([False] * 7 + [True]),
)
events = st.lists(
    st.one_of(st.tuples(st.integers(0, 2), punctuations), st.tuples(st.integers(0, 2), punctuations), st.integers(2, 3)),
    max_size=10,
)


def matched_rows(punctuation):
    return {row for row in ROWS if punctuation.matches({"a": row[0], "b": row[1]})}


@settings(max_examples=90, deadline=None)
@given(events, st.sampled_from([None, SCHEMA]), st.integers(0, 9))
def test_released_rows_are_those_every_partition_has_announced(happenings, schema, restart):
    alignment, said, released, emitted = Alignment([0, 1], schema), {0: set(), 1: set()}, set(), []
    for position, event in enumerate(happenings):
        if position == restart:
            alignment = Alignment.from_json(json.loads(json.dumps(alignment.to_json())), schema)
        if isinstance(event, int):
            alignment.see_partition(event)
            said.setdefault(event, set())
            continue
        partition, punctuation = event
        fresh = alignment.announce(partition, punctuation)
        said.setdefault(partition, set())
        if punctuation.is_global:
            released |= matched_rows(punctuation)
        else:
            said[partition] |= matched_rows(punctuation)
            released |= set.intersection(*said.values())
        for part in fresh:
            assert not any(part.issubset(old) for old in emitted)
            emitted.append(part)
        assert set().union(*map(matched_rows, emitted)) == released
    assert alignment.partitions == tuple(sorted(said))


def test_partitions_may_announce_in_different_portions():
    alignment = Alignment([0, 1])
    assert alignment.announce(0, on_item(between(1, 9))) == []
    assert alignment.announce(1, on_item(constant(5), ts=3, pos=8)) == [on_item(constant(5), ts=3, pos=8)]
    assert alignment.announce(1, on_item(between(1, 9))) == [on_item(between(1, 9))]
    assert alignment.announce(0, on_item(between(2, 3))) == []


def test_one_partition_releases_everything_at_once():
    alignment = Alignment()
    for number in range(5):
        assert alignment.announce(0, on_item(constant(number), pos=number)) == [on_item(constant(number), pos=number)]


def test_a_global_punctuation_needs_no_other_partition():
    alignment = Alignment([0, 1, 2])
    everywhere = on_item(constant(5), is_global=True)
    assert alignment.announce(1, everywhere) == [everywhere]
    assert alignment.announce(0, on_item(constant(5))) == []


def test_a_partition_seen_late_must_agree_to_what_is_not_released_yet():
    alignment = Alignment([0, 1])
    alignment.announce(0, on_item(one_of([1, 2])))
    assert alignment.announce(1, on_item(constant(1))) == [on_item(constant(1))]
    alignment.see_partition(2)
    assert alignment.announce(1, on_item(constant(2))) == []
    assert alignment.announce(2, on_item(between(0, 9))) == [on_item(constant(2))]


def test_a_partition_that_has_ended_agrees_to_everything():
    alignment = Alignment([0, 1])
    alignment.announce(0, on_item(constant(1)))
    assert alignment.announce(1, on_item(ANY)) == [on_item(constant(1))]
    assert alignment.announce(0, on_item(constant(2))) == [on_item(constant(2))]
    assert alignment.announce(0, on_item(ANY)) == [on_item(ANY)]


def test_listed_values_released_before_are_not_released_again():
    alignment = Alignment([0, 1])
    alignment.announce(0, on_item(one_of(range(10))))
    alignment.announce(1, on_item(constant(3)))
    assert alignment.announce(1, on_item(one_of([3, 7]))) == [on_item(constant(7))]


def test_an_empty_punctuation_releases_nothing():
    assert Alignment([0]).announce(0, on_item(EMPTY)) == []


@pytest.mark.parametrize("schema", [None, Schema.of(item=pa.int64())])
def test_growing_ranges_cost_constant_memory(schema):
    alignment = Alignment([0, 1], schema)
    for number in range(300):
        for partition in (0, 1):
            alignment.announce(partition, on_item(between(None, number)))
    assert alignment.memory_entries <= 3


def test_what_is_released_is_forgotten_by_partitions():
    alignment = Alignment([0, 1], Schema.of(item=pa.int64()))
    for number in range(0, 2000, 2):
        alignment.announce(0, on_item(constant(number)))
        alignment.announce(1, on_item(constant(number)))
    released = 1000
    assert alignment.memory_entries <= released + 200


def test_a_range_is_released_although_widened_values_seem_to_cover_it() -> None:
    schema = Schema.of(item=pa.int64())
    only_even_values_come_here = {"item": lambda numbers: numbers + 1}
    alignment = Alignment([0], schema, only_even_values_come_here)
    for value in (2, 4):
        assert alignment.announce(0, Punctuation(("item",), (constant(value),)))
    assert alignment.memory_entries == 3  # two values said, one interval released
    assert [str(mark) for mark in alignment.announce(0, Punctuation(("item",), (between(2, 5),)))] == ["⟨item=[2,5]⟩"]
    assert alignment.announce(0, Punctuation(("item",), (constant(4),))) == []
