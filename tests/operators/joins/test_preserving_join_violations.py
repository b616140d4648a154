"""Rows that contradict a punctuation of their own input, in outer, semi and anti joins: all three policies."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from test_window_join_violations import arrivals, closing, play, refused, row, schema_of

from penstock.errors import PunctuationViolated
from penstock.model.declarations import RowPolicy
from penstock.model.elements import End
from penstock.model.join_kinds import JoinKind
from penstock.model.punctuation import Punctuation
from penstock.model.windows import Lifespan, Sliding, Unbounded, Window
from penstock.operators.joins.preserving_join import PreservingJoin
from penstock.testing.outer_reference import preserving_join
from penstock.testing.streams import bag, rows_of

KINDS = tuple(kind for kind in JoinKind if kind is not JoinKind.INNER)
SCHEMAS = [schema_of(0), schema_of(1)]
KEYS = [["0.k"], ["1.k"]]
NAMES = [schema.names for schema in SCHEMAS]


def outer(kind: JoinKind, policy: RowPolicy | None, windows: Sequence[Window] = (Unbounded(), Unbounded())) -> PreservingJoin:
    output = pa.schema([*SCHEMAS[0], *SCHEMAS[1]]) if kind.shows_pairs else SCHEMAS[0]
    return PreservingJoin(kind, SCHEMAS, KEYS, windows, output, on_violation=policy)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_stops_before_anything_of_the_batch_is_used(kind: JoinKind) -> None:
    operator = outer(kind, RowPolicy.ERROR)
    operator.on_metadata(0, closing(0, 7))
    with pytest.raises(PunctuationViolated, match="1 rows of input 0 match a punctuation"):
        operator.on_batch(0, row(0, 7, 1))
    assert operator.counters()["results"] == operator.counters()["state_rows"] == 0


def test_without_a_policy_nobody_looks() -> None:
    operator = outer(JoinKind.LEFT, None)
    operator.on_metadata(0, closing(0, 7))
    assert operator.on_batch(0, row(0, 7, 1)) == []
    assert operator.counters()["violations"] == 0


def test_a_trusted_row_takes_a_stored_partner_and_settles_its_debt() -> None:
    operator = outer(JoinKind.FULL, RowPolicy.TRUST)
    operator.on_batch(0, row(0, 7, 1))
    # The second input has closed 8 only, but promises nothing about 7; a row of 8 is trusted, one of 7 is ordinary.
    operator.on_metadata(1, closing(1, 8))
    assert [values[1::2] for values, _ in rows_of(operator.on_batch(1, row(1, 8, 2)))] == [(None, 2)]
    assert [values[1::2] for values, _ in rows_of(operator.on_batch(1, row(1, 7, 3)))] == [(1, 3)]
    assert (operator.counters()["trusted"], operator.counters()["state_rows"]) == (1, 2)


def test_a_row_with_a_null_key_after_the_end_of_its_input_is_judged_too() -> None:
    operator = outer(JoinKind.LEFT, RowPolicy.QUARANTINE)
    operator.on_metadata(0, Punctuation.of(schema_of(0).names, 0, 0))
    assert refused(operator.on_batch(0, row(0, None, 1))) == 1


windows_of_two = st.lists(st.sampled_from([Sliding(0), Sliding(3), Unbounded()]), min_size=2, max_size=2)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_quarantine_answers_as_if_violating_rows_had_never_come_to_outer_joins(kind: JoinKind, data: st.DataObject) -> None:
    windows = data.draw(windows_of_two)
    operator = outer(kind, RowPolicy.QUARANTINE, windows)
    out, good, everything = play(operator, data.draw(arrivals(2)))
    out += operator.on_metadata(0, End())
    assert bag(rows_of(out)) == bag(preserving_join(kind, good, NAMES, KEYS, windows, Lifespan()))
    violating = sum(map(len, everything)) - sum(map(len, good))
    assert refused(out) == operator.counters()["violations"] == violating


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_every_preserved_row_is_answered_also_if_it_was_trusted(kind: JoinKind, data: st.DataObject) -> None:
    operator = outer(kind, RowPolicy.TRUST)
    out, _, everything = play(operator, data.draw(arrivals(2)))
    out += operator.on_metadata(0, End())
    answered = rows_of(out)
    shown = [column for port in range(2 if kind.shows_pairs else 1) for column in NAMES[port]]
    for port in kind.preserved if kind.shows_pairs else ():
        numbers = {values[shown.index(f"{port}.v")] for values, _ in answered}
        assert {found.values[f"{port}.v"] for found in everything[port]} <= numbers
    assert len(set(map(str, answered))) == len(answered)
