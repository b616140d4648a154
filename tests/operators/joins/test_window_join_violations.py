"""Rows that contradict a punctuation of their own input, in the columnar window join, and the memory that notices them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidPlan, PunctuationViolated
from penstock.model.batch import Batch
from penstock.model.declarations import RowPolicy
from penstock.model.elements import Quarantined
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import constant, one_of
from penstock.model.windows import Lifespan, Sliding, Unbounded, Window
from penstock.operators.joins.window_join import WindowJoin
from penstock.testing import reference
from penstock.testing.reference import Row
from penstock.testing.streams import bag, batch_of, rows_of

#: (port, time, key) of a row, (port, key) of a punctuation.
Item = tuple[int, int, int | None] | tuple[int, int]


def schema_of(port: int) -> pa.Schema:
    return pa.schema({f"{port}.k": pa.int64(), f"{port}.v": pa.int64()})


def join(policy: RowPolicy | None, ports: int = 2, most: int = 1000, windows: Sequence[Window] = ()) -> WindowJoin:
    schemas = [schema_of(port) for port in range(ports)]
    output = pa.schema([field for schema in schemas for field in schema])
    keys = [[f"{port}.k"] for port in range(ports)]
    chosen = windows or [Unbounded()] * ports
    return WindowJoin(schemas, keys, chosen, output, on_violation=policy, max_drop_markers=most)


def row(port: int, key: int | None, number: int, ts: int = 0) -> Batch:
    return batch_of([Row(ts, number, {f"{port}.k": key, f"{port}.v": number})], schema_of(port))


def closing(port: int, *keys: int | None) -> Punctuation:
    return Punctuation.of(schema_of(port).names, 0, 0, **{f"{port}.k": one_of(keys)})


def refused(elements: Sequence[Any]) -> int:
    return sum(element.batch.num_rows for element in elements if isinstance(element, Quarantined))


# -- worked examples --------------------------------------------------------------------------------------------------


def test_an_error_names_the_row_and_nothing_of_its_batch_is_used() -> None:
    operator = join(RowPolicy.ERROR)
    operator.on_batch(1, row(1, 8, 1))
    operator.on_metadata(0, closing(0, 7))
    mixed = batch_of([Row(0, pos, {"0.k": key, "0.v": pos}) for pos, key in enumerate((8, 7))], schema_of(0))
    with pytest.raises(PunctuationViolated, match=r"1 rows of input 0 .* first \{'0.k': 7, '0.v': 1\}; repair") as raised:
        operator.on_batch(0, mixed)
    assert raised.value.code == "data.punctuation-violated"
    assert operator.counters()["results"] == 0
    assert operator.counters()["state_rows"] == 1


def test_a_quarantined_row_is_handed_out_with_its_reason_and_not_joined() -> None:
    operator = join(RowPolicy.QUARANTINE)
    operator.on_metadata(0, closing(0, 7))
    (element,) = operator.on_batch(0, row(0, 7, 3))
    assert isinstance(element, Quarantined)
    assert element.reason == "punctuation-violated"
    assert "input 0" in element.text
    assert (operator.counters()["violations"], operator.counters()["quarantined"], operator.counters()["state_rows"]) == (1, 1, 0)


def test_a_trusted_row_joins_what_is_still_stored_and_is_not_stored_itself() -> None:
    """Three inputs: rows of the second stay, although the first has closed their key, because the third has not."""
    operator = join(RowPolicy.TRUST, ports=3)
    operator.on_batch(0, row(0, 7, 1))
    operator.on_batch(1, row(1, 7, 2))
    operator.on_metadata(1, closing(1, 7))
    operator.on_batch(2, row(2, 7, 3))
    found = rows_of(operator.on_batch(1, row(1, 7, 4)))
    assert [values[1::2] for values, _ in found] == [(1, 4, 3)]
    # A later row finds the row that kept the promise, and only that.
    assert [values[1::2] for values, _ in rows_of(operator.on_batch(2, row(2, 7, 5)))] == [(1, 2, 5)]
    assert (operator.counters()["violations"], operator.counters()["trusted"]) == (1, 1)


def test_a_trusted_row_of_a_finished_key_is_counted_and_finds_nothing() -> None:
    operator = join(RowPolicy.TRUST)
    operator.on_metadata(0, closing(0, 7))
    assert rows_of(operator.on_batch(0, row(0, 7, 1))) == []
    assert (operator.counters()["violations"], operator.counters()["dropped"], operator.counters()["state_rows"]) == (1, 1, 0)


@pytest.mark.parametrize("key", [7, None])
def test_a_row_after_the_end_of_its_input_is_a_violation(key: int | None) -> None:
    operator = join(RowPolicy.QUARANTINE)
    operator.on_metadata(0, Punctuation.of(schema_of(0).names, 0, 0))
    assert refused(operator.on_batch(0, row(0, key, 1))) == 1
    assert operator.counters()["null_keys"] == 0


def test_a_punctuation_on_another_attribute_besides_excludes_no_other_row() -> None:
    operator = join(RowPolicy.ERROR)
    operator.on_metadata(0, Punctuation.of(schema_of(0).names, 0, 0, **{"0.k": constant(7), "0.v": constant(5)}))
    operator.on_batch(0, row(0, 7, 6))
    assert operator.counters()["state_rows"] == 1


def test_a_key_that_every_input_has_closed_is_still_guarded() -> None:
    operator = join(RowPolicy.QUARANTINE)
    for key in range(0, 400, 2):
        for port in (0, 1):
            operator.on_metadata(port, closing(port, key))
    assert refused(operator.on_batch(0, row(0, 0, 1))) == 1
    # Where nobody judges, nobody remembers.
    plain = join(None)
    for key in range(0, 400, 2):
        for port in (0, 1):
            plain.on_metadata(port, closing(port, key))
    assert plain.counters()["closed_entries"] < 200 < operator.counters()["closed_entries"]


# -- bounded memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, RowPolicy.QUARANTINE])
@pytest.mark.parametrize("ports", [(0,), (0, 1)])
def test_markers_of_keys_that_never_come_stay_within_their_limit(policy: RowPolicy | None, ports: tuple[int, ...]) -> None:
    operator = join(policy, most=100)
    for key in range(0, 1_000, 2):
        for port in ports:
            operator.on_metadata(port, closing(port, key))
            assert operator.counters()["closed_entries"] <= 100
    is_forgotten = policy is not None or ports == (0,)
    assert (operator.counters()["evicted_markers"] > 0) is is_forgotten


def test_the_newest_keys_are_remembered_and_the_oldest_forgotten() -> None:
    operator = join(RowPolicy.QUARANTINE, most=100)
    for key in range(0, 2_000, 2):
        operator.on_metadata(0, closing(0, key))
    recent = [refused(operator.on_batch(0, row(0, key, key))) for key in range(1_960, 2_000, 2)]
    assert recent == [1] * 20
    assert refused(operator.on_batch(0, row(0, 0, 1))) == 0


def test_more_keys_at_once_than_the_limit_are_forgotten_at_once() -> None:
    operator = join(RowPolicy.QUARANTINE, most=10)
    operator.on_metadata(0, closing(0, *range(0, 100, 2)))
    assert operator.counters()["closed_entries"] == 0
    assert operator.counters()["evicted_markers"] >= 50


def test_a_limit_below_two_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="at least 2 values"):
        join(None, most=1)


# -- properties -------------------------------------------------------------------------------------------------------


@st.composite
def arrivals(draw: st.DrawFn, ports: int, most: int = 24) -> list[Item]:
    """Rows and punctuations in any order: many rows contradict a punctuation before them."""
    port, key = st.integers(0, ports - 1), st.integers(0, 4)
    rows = st.tuples(port, st.integers(0, 9), st.one_of(st.none(), key))
    return draw(st.lists(st.one_of(rows, rows, st.tuples(port, key)), max_size=most))


def play(
    operator: WindowJoin, items: Sequence[Item], restarting: bool = False
) -> tuple[list[Any], list[list[Row]], list[list[Row]]]:
    """What comes out; the rows of each input that keep its promises, and all of them."""
    ports = len(operator.keys)
    closed: set[tuple[int, int | None]] = set()
    good: list[list[Row]] = [[] for _ in range(ports)]
    everything: list[list[Row]] = [[] for _ in range(ports)]
    out: list[Any] = []
    for number, item in enumerate(items):
        if len(item) == 2:
            closed.add(item)
            out += operator.on_metadata(item[0], closing(*item))
        else:
            port, ts, key = item
            found = Row(ts, number, {f"{port}.k": key, f"{port}.v": number})
            everything[port].append(found)
            if (port, key) not in closed:
                good[port].append(found)
            out += operator.on_batch(port, batch_of([found], schema_of(port)))
        if restarting:
            again = join(operator.on_violation, ports, operator._limit.most)
            again.restore(operator.snapshot())
            operator = again
    return out, good, everything


def joined(sides: Sequence[Sequence[Row]], windows: Sequence[Window]) -> list[Any]:
    return bag(
        reference.window_join([list(side) for side in sides], [[f"{port}.k"] for port in range(len(sides))], windows, Lifespan())
    )


@pytest.mark.parametrize("ports", [2, 3])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_quarantine_answers_as_if_violating_rows_had_never_come(ports: int, data: st.DataObject) -> None:
    windows = data.draw(st.lists(st.sampled_from([Sliding(0), Sliding(3), Unbounded()]), min_size=ports, max_size=ports))
    operator = join(RowPolicy.QUARANTINE, ports, windows=windows)
    out, good, everything = play(operator, data.draw(arrivals(ports)))
    assert bag(rows_of(out)) == joined(good, windows)
    violating = sum(map(len, everything)) - sum(map(len, good))
    assert refused(out) == operator.counters()["quarantined"] == operator.counters()["violations"] == violating


@pytest.mark.parametrize("ports", [2, 3])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_trust_adds_only_results_of_rows_that_were_trusted(ports: int, data: st.DataObject) -> None:
    windows = [Unbounded()] * ports
    operator = join(RowPolicy.TRUST, ports)
    out, good, everything = play(operator, data.draw(arrivals(ports)))
    results, promised, possible = bag(rows_of(out)), joined(good, windows), joined(everything, windows)
    assert all(result in results for result in promised)
    assert all(result in possible for result in results)
    assert len(set(map(str, results))) == len(results)
    kept = {found.values[f"{port}.v"] for port, side in enumerate(good) for found in side}
    extra = [result for result in results if result not in promised]
    assert all(set(map(int, result[0][1::2])) - kept for result in extra)


@given(data=st.data(), policy=st.sampled_from([RowPolicy.QUARANTINE, RowPolicy.TRUST]), most=st.sampled_from([2, 6, 1000]))
@settings(max_examples=40, deadline=None)
def test_p11_every_row_is_accounted_for_whatever_it_contradicts(data: st.DataObject, policy: RowPolicy, most: int) -> None:
    operator = join(policy, 3, most)
    _, _, everything = play(operator, data.draw(arrivals(3)))
    counts = operator.counters()
    fates = ("state_rows", "purged", "expired", "dropped", "null_keys", "outside_life", "quarantined", "trusted")
    assert sum(map(len, everything)) == sum(counts[fate] for fate in fates)


@given(items=arrivals(2), policy=st.sampled_from([RowPolicy.QUARANTINE, RowPolicy.TRUST]), most=st.sampled_from([2, 5, 1000]))
@settings(max_examples=30, deadline=None)
def test_p10_restarts_change_neither_answers_nor_what_is_refused(items: list[Item], policy: RowPolicy, most: int) -> None:
    plain, _, _ = play(join(policy, 2, most), items)
    restarted, _, _ = play(join(policy, 2, most), items, restarting=True)
    assert rows_of(restarted) == rows_of(plain)
    assert refused(restarted) == refused(plain)
    assert [str(mark) for mark in restarted if isinstance(mark, Punctuation)] == [
        str(mark) for mark in plain if isinstance(mark, Punctuation)
    ]


@given(data=st.data(), most=st.sampled_from([2, 4, 8]))
@settings(max_examples=30, deadline=None)
def test_forgetting_markers_never_changes_the_answers_of_grammatical_streams(data: st.DataObject, most: int) -> None:
    items: list[Item] = []
    closed: set[tuple[int, int | None]] = set()
    for item in data.draw(arrivals(2, most=40)):
        if len(item) == 2:
            closed.add(item)
        if len(item) == 2 or (item[0], item[2]) not in closed:
            items.append(item)
    out, good, _ = play(join(None, 2, most), items)
    assert bag(rows_of(out)) == joined(good, [Unbounded(), Unbounded()])
