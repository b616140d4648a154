"""What every operator must fulfil, whatever it computes. Authors of operators run these; the test suite runs them for all.

Each check takes a way to make the operator and what arrives on its inputs, and raises `AssertionError` with a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa

from penstock.kernel.contracts import Operator
from penstock.kernel.segments import encode_segment
from penstock.model.batch import Batch
from penstock.model.elements import Control, Element, Heartbeat, Quarantined, Routed
from penstock.model.value_sets import Pattern
from penstock.testing.reference import Row, comparable
from penstock.testing.streams import bag, batch_of, broken_promises
from penstock.testing.tapes import KEYS, Arrivals, Tape, deliver, drive, drive_with_restarts, merged, patterns, reborn, split, tapes

Make = Callable[[], Operator]


def values_for(schema: pa.Schema) -> dict[str, st.SearchStrategy[Any]]:
    """Few values of each column's type, NULL among them."""
    return {item.name: _values(item.type) for item in schema}


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_string(kind):
        return st.sampled_from(["", "a", "ab", None])
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])
    if pa.types.is_boolean(kind):
        return st.sampled_from([True, False, None])
    return st.sampled_from(KEYS)


@st.composite
def inputs(draw: st.DrawFn, schemas: Sequence[pa.Schema], most: int = 10) -> list[tuple[int, Any]]:
    """Tapes for all inputs, in some order of arrival; integer columns are punctuated."""
    sides: list[Tape] = []
    for schema in schemas:
        numbers = [item.name for item in schema if pa.types.is_integer(item.type)]
        marked: Mapping[str, st.SearchStrategy[Pattern]] = {name: patterns() for name in numbers[:1]}
        key = numbers[0] if numbers else schema.names[0]
        sides.append(draw(tapes(values_for(schema), key, marked if numbers else None, most)))
    return draw(merged(sides))


def described(out: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Elements as plain values, rows one by one: two lists of elements are the same if these are."""
    found: list[tuple[Any, ...]] = []
    for item in out:
        output, element = (item.output, item.element) if isinstance(item, Routed) else ("", item)
        if isinstance(element, Quarantined):
            output, element = f"refused: {element.reason}", element.batch
        if isinstance(element, Batch):
            rows = zip(element.rows.to_pylist(), element.ts.tolist(), element.pos.tolist(), strict=True)
            found += [(output, *map(comparable, row.values()), ts, pos) for row, ts, pos in rows]
        else:
            found.append((output, str(element)))
    return found


def rows_of(out: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The bag of rows among the elements."""
    return bag(row for row in described(out) if len(row) > 2)


def check_batching(make: Make, items: Sequence[tuple[int, Any]], schemas: Sequence[pa.Schema], cuts: Iterable[int]) -> None:
    """Any batching gives the same answer."""
    whole = drive(make(), split(items, schemas))
    cut = drive(make(), split(items, schemas, cuts, empty=True))
    assert rows_of(cut) == rows_of(whole), "another batching gives another answer"
    assert _last_promise(cut) == _last_promise(whole), "another batching gives another frontier in the end"


def _last_promise(out: Iterable[Any]) -> int | None:
    plain = [item.element if isinstance(item, Routed) else item for item in out]
    return max((item.ts for item in plain if isinstance(item, Heartbeat)), default=None)


def check_promises(make: Make, arrivals: Arrivals) -> None:
    """No row comes after a heartbeat or punctuation that excludes it."""
    out = drive(make(), arrivals)
    for output in {item.output for item in out if isinstance(item, Routed)} or {""}:
        mine = [
            item.element if isinstance(item, Routed) else item
            for item in out
            if not isinstance(item, Routed) or item.output == output
        ]
        assert broken_promises(mine) == []


def check_restarts(make: Make, arrivals: Arrivals) -> None:
    """Snapshot and restore at every boundary change nothing, not even the counters."""
    operator = make()
    out: list[Any] = []
    for port, element in arrivals:
        out += deliver(operator, port, element)
        assert _levels(reborn(make, operator)) == _levels(operator), "counters differ after a restart"
    assert described(drive_with_restarts(make, arrivals)) == described(out), "a restart changes the answer"


def _levels(operator: Operator) -> dict[str, int]:
    """Counters without those that depend on how memory is laid out."""
    return {name: value for name, value in operator.counters().items() if name != "state_bytes"}


def check_replay(make: Make, arrivals: Arrivals) -> None:
    """From one snapshot, equal elements and controls give equal elements."""
    middle = len(arrivals) // 2
    operator = make()
    drive(operator, arrivals[:middle])
    control = Control(1, "nobody knows this kind")
    outcomes = []
    for _ in range(2):
        again = reborn(make, operator)
        outcomes.append(described([*again.on_control(control), *drive(again, arrivals[middle:])]))
    assert outcomes[0] == outcomes[1], "a replay is not identical"


def check_segments(make: Make, arrivals: Arrivals) -> None:
    """A segment's identifier is never used for other content."""
    operator = make()
    seen: dict[str, pa.RecordBatch] = {}
    for port, element in arrivals:
        deliver(operator, port, element)
        for key, part in operator.snapshot().segments.items():
            # Where rows are held is no content: a run may be spilled after it was first stored.
            first, now = (each.replace_schema_metadata(None) for each in (seen.setdefault(key, part), part))
            assert encode_segment(first) == encode_segment(now), f"segment {key} has changed"


def check_input_is_not_modified(make: Make, arrivals: Arrivals) -> None:
    """An operator leaves the batches it is given as they are."""
    batches = [element for _, element in arrivals if isinstance(element, Batch)]
    before = [encode_segment(batch.stored()) for batch in batches]
    drive(make(), arrivals)
    assert [encode_segment(batch.stored()) for batch in batches] == before, "a batch was modified"


def check_empty_and_null_batches(make: Make, schemas: Sequence[pa.Schema]) -> None:
    """Empty batches yield nothing; rows of NULLs are accepted, once with heartbeats and once without."""
    for port, schema in enumerate(schemas):
        operator = make()
        assert rows_of(operator.on_batch(port, Batch.empty(schema))) == [], "an empty batch has results"
        nulls = batch_of([Row(ts, ts, dict.fromkeys(schema.names)) for ts in (3, 4)], schema)
        operator.on_batch(port, nulls)
        operator.on_metadata(port, Heartbeat(5))


def check_all(make: Make, items: Sequence[tuple[int, Any]], schemas: Sequence[pa.Schema], cuts: Iterable[int]) -> None:
    """Every check."""
    arrivals: list[tuple[int, Element]] = split(items, schemas, cuts)
    check_batching(make, items, schemas, cuts)
    check_promises(make, arrivals)
    check_restarts(make, arrivals)
    check_replay(make, arrivals)
    check_segments(make, arrivals)
    check_input_is_not_modified(make, arrivals)
    check_empty_and_null_batches(make, schemas)
