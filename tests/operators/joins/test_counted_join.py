"""Windows of rows: a sequencer counts, partitioned joins add up to the whole, and one in one place does both."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from test_window_join import inputs, memories, schema_of

from penstock.model.batch import Batch
from penstock.model.elements import FOREVER, Heartbeat, Routed
from penstock.model.punctuation import Punctuation
from penstock.model.value_sets import between
from penstock.model.windows import Lifespan, Rows, Sliding, Unbounded
from penstock.operators.joins.counted_join import CountedJoin, RowWindowJoin
from penstock.operators.joins.sequencer import Sequencer, ranks_before
from penstock.testing.streams import bag, broken_promises, rows_of
from penstock.testing.tapes import Tape, batch_cuts, drive, drive_with_restarts, merged, rows_in, split

SHARDS = 2
JoinWindow = Rows | Sliding | Unbounded


def ranks(ports: int) -> list[str]:
    return [f"_rank{port}" for port in range(ports)]


def sequencer(ports: int) -> Sequencer:
    return Sequencer(schemas_of(ports), [str(port) for port in range(ports)], ranks(ports))


def schemas_of(ports: int) -> list[pa.Schema]:
    return [schema_of(port) for port in range(ports)]


def shard_join(windows: Sequence[JoinWindow], memory: int | None = None) -> CountedJoin:
    ports = len(windows)
    output = pa.schema([item for schema in schemas_of(ports) for item in schema])
    keys = [[f"{port}.k"] for port in range(ports)]
    join = CountedJoin(schemas_of(ports), keys, windows, output, ranks=ranks(ports), memory_bytes=memory)
    join.spill_to(Path(tempfile.gettempdir()))
    return join


def whole_join(windows: Sequence[JoinWindow], memory: int | None = None) -> RowWindowJoin:
    ports = len(windows)
    return RowWindowJoin(schemas_of(ports), Lifespan(), lambda: shard_join(windows, memory), ranks(ports))


def in_rows(sides: Sequence[Tape], windows: Sequence[JoinWindow]) -> list[Any]:
    """Brute force over the global order (time, input, position)."""
    flat = sorted((row.ts, port, row.pos, row) for port, tape in enumerate(sides) for row in rows_in(tape))
    counted, ranks, numbers, streams = [0] * len(sides), [], [], [[] for _ in sides]
    for at, (_, port, _, _) in enumerate(flat):
        ranks.append(list(counted))
        counted[port] += 1
        numbers.append(counted[port])
        streams[port].append(at)
    found = []
    for parts in product(*streams):
        last = max(parts)
        rows = [flat[at][3] for at in parts]
        keys = {row.values[f"{port}.k"] for port, row in enumerate(rows)}
        fits = all(
            part == last
            or (isinstance(window, Rows) and (window.size is None or ranks[last][port] - window.size < numbers[part]))
            or (isinstance(window, Sliding) and flat[last][0] - flat[part][0] <= window.size)
            or isinstance(window, Unbounded)
            for port, (part, window) in enumerate(zip(parts, windows, strict=True))
        )
        if len(keys) == 1 and None not in keys and fits:
            found.append((tuple(value for row in rows for value in row.values.values()), flat[last][0]))
    return bag(found)


def exchanged(out: Sequence[Any], ports: int, shard: int) -> list[tuple[int, Any]]:
    """What one shard hears: rows of its keys, and all metadata."""
    heard: list[tuple[int, Any]] = []
    for item in out:
        targets = [int(item.output)] if isinstance(item, Routed) else range(ports)
        element = item.element if isinstance(item, Routed) else item
        for port in targets:
            if isinstance(element, Batch):
                keys = np.array([key or 0 for key in element.column(f"{port}.k").to_pylist()])
                heard.append((port, element.filter(keys % SHARDS == shard)))
            else:
                heard.append((port, element))
    return heard


row_windows = st.sampled_from([Rows(0), Rows(1), Rows(2), Rows(4), Rows(None)])
other_windows = st.one_of(row_windows, st.sampled_from([Sliding(2), Sliding(7), Unbounded()]))


@pytest.mark.parametrize("ports", [2, 3])
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_p8_shards_that_are_told_the_counts_equal_brute_force(ports: int, data: st.DataObject) -> None:
    sides = data.draw(inputs(ports, most=10 if ports == 2 else 6))
    windows = [data.draw(row_windows), *(data.draw(other_windows) for _ in range(ports - 1))]
    arrivals = split(data.draw(merged(sides)), schemas_of(ports), data.draw(batch_cuts()))
    numbered = drive_with_restarts(lambda: sequencer(ports), arrivals)
    outs = []
    for shard in range(SHARDS):
        heard = exchanged(numbered, ports, shard)
        # Ports are not synchronised: each keeps its order, together they may come in any.
        turns = data.draw(st.permutations([port for port, _ in heard]))
        queues = [iter([item for item in heard if item[0] == port]) for port in range(ports)]
        memory = data.draw(memories)
        outs.append(drive_with_restarts(partial(shard_join, windows, memory), [next(queues[port]) for port in turns]))
    assert bag(rows_of([item for out in outs for item in out])) == in_rows(sides, windows)
    assert all(broken_promises(out) == [] for out in outs)


@pytest.mark.parametrize("ports", [2, 3])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_join_in_one_place_equals_brute_force_for_every_batching_and_restart(ports: int, data: st.DataObject) -> None:
    sides = data.draw(inputs(ports, most=10 if ports == 2 else 6))
    windows = [data.draw(row_windows), *(data.draw(other_windows) for _ in range(ports - 1))]
    arrivals = split(data.draw(merged(sides)), schemas_of(ports), data.draw(batch_cuts()))
    make = partial(whole_join, windows, data.draw(memories))
    out = drive_with_restarts(make, arrivals) if data.draw(st.booleans()) else drive(make(), arrivals)
    assert bag(rows_of(out)) == in_rows(sides, windows)
    assert broken_promises(out) == []


@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_numbers_do_not_depend_on_batches_or_arrival(data: st.DataObject) -> None:
    sides = data.draw(inputs(2))
    one = drive(sequencer(2), split(data.draw(merged(sides)), schemas_of(2)))
    other = drive(sequencer(2), split(data.draw(merged(sides)), schemas_of(2), data.draw(batch_cuts())))

    def numbered(out: list[Any]) -> list[Any]:
        return bag(rows_of([item.element for item in out if isinstance(item, Routed)]))

    assert numbered(one) == numbered(other)
    assert one[-1] == other[-1] == Heartbeat(FOREVER)


def test_a_shard_without_rows_forgets_by_the_counts_it_hears() -> None:
    join = shard_join([Rows(2), Unbounded()])
    rows = pa.RecordBatch.from_pydict({"0.k": [5], "0.t": [""], "0.v": [0], "_rank0": [0], "_rank1": [0]})
    join.on_batch(0, Batch(rows, np.array([1]), np.array([0])))
    for port in (0, 1):
        join.on_metadata(port, Heartbeat(2))
    assert join.counters()["state_rows"] == 1

    join.on_metadata(1, Punctuation(("_rank0",), (between(None, 2),)))
    for port in (0, 1):
        join.on_metadata(port, Heartbeat(3))
    assert join.counters()["state_rows"] == 0


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_ranks_and_numbers_say_the_same_as_counting(streams: list[int], size: int) -> None:
    order = np.array(streams, np.int64)
    before = ranks_before(order, np.zeros(3, np.int64))
    for at, stream in enumerate(streams):
        for other in {0, 1, 2} - {stream}:
            arrived = [place for place in range(at) if streams[place] == other]
            last = set(arrived[max(len(arrived) - size, 0) :]) if size else set()
            places = [place for place in range(len(streams)) if streams[place] == other]
            seq = np.array([before[place, other] + 1 for place in places], np.int64)
            rank = before[at, other]
            chosen = (rank - size < seq) & (seq <= rank)
            assert {place for place, is_in in zip(places, chosen, strict=True) if is_in} == last
