"""Numbers of matches follow from what the events are, not from where or when they were read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput, RowsPerMatch
from penstock.model.batch import Batch
from penstock.model.elements import End, Heartbeat
from penstock.model.event_patterns import EventPattern, atom, either, seq
from penstock.operators.patterns.operator import PatternMatch

Event = tuple[int, str, int, int]
PATTERNS: tuple[EventPattern, ...] = (
    seq(atom("A", "a"), atom("B", "b")),
    seq(atom("A", "a", "+"), atom("B", "b")),
    either(seq(atom("A", "a"), atom("B", "b")), seq(atom("A", "c"), atom("B", "d"))),
)
#: Time, type, key, and something else; few values, so that many events are simultaneous or even equal.
events = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("AB"), st.integers(0, 1), st.integers(0, 1)), max_size=9)


def numbered(pattern: EventPattern, rows: list[Event], positions: list[int], cut: int, output: MatchOutput) -> list[str]:
    """Rows shown of the matches, as two batches bring them to a search."""
    schema = pa.schema({"type": pa.string(), "id": pa.int64(), "x": pa.int64()})
    search = PatternMatch(EventQuery(pattern, ("id",), within=5), schema, output)
    ordered = sorted(zip(rows, positions, strict=True), key=lambda pair: pair[0][0])
    found = []
    for part in (ordered[:cut], ordered[cut:]):
        if part:
            times = np.array([row[0] for row, _ in part])
            columns = [pa.array([row[at] for row, _ in part], item.type) for at, item in enumerate(schema, 1)]
            batch = Batch(pa.RecordBatch.from_arrays(columns, schema=schema), times, np.array([place for _, place in part]))
            found += [*search.on_batch(0, batch), *search.on_metadata(0, Heartbeat(int(times[-1])))]
    found += search.on_metadata(0, End())
    return sorted(str(row) for each in found if isinstance(each, Batch) for row in each.rows.to_pylist())


@settings(max_examples=60, deadline=None)
@given(
    pattern=st.sampled_from(PATTERNS), rows=events, seed=st.integers(0, 99), cuts=st.tuples(st.integers(0, 9), st.integers(0, 9))
)
def test_positions_and_batches_change_no_number(pattern: EventPattern, rows: list[Event], seed: int, cuts: tuple[int, int]) -> None:
    output = MatchOutput(columns=("x",))
    elsewhere = np.random.default_rng(seed).permutation(1000)[: len(rows)].tolist()
    here = numbered(pattern, rows, list(range(len(rows))), cuts[0], output)
    assert numbered(pattern, rows, elsewhere, cuts[1], output) == here


@settings(max_examples=60, deadline=None)
@given(pattern=st.sampled_from(PATTERNS), rows=events)
def test_matches_have_different_numbers_even_if_their_events_are_equal(pattern: EventPattern, rows: list[Event]) -> None:
    shown = numbered(pattern, rows, list(range(len(rows))), len(rows), MatchOutput())
    assert len(set(shown)) == len(shown)


def test_each_event_of_a_match_has_its_number() -> None:
    rows = [(1, "A", 0, 0), (2, "B", 0, 0), (3, "B", 0, 1)]
    matches = numbered(PATTERNS[0], rows, [0, 1, 2], 3, MatchOutput())
    shown = numbered(PATTERNS[0], rows, [5, 6, 9], 1, MatchOutput(rows=RowsPerMatch.ALL))
    numbers = [line.split("'match_id': ")[1].split(",")[0] for line in (*matches, *shown)]
    assert set(numbers[:2]) == set(numbers[2:])
    assert len(set(numbers)) == 2
