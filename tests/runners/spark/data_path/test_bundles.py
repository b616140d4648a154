"""What is stored is what a kernel holds, whatever it drops and makes; and not much more."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given, settings

from penstock.kernel.segments import SPILLED, decode_segment
from penstock.runners.spark.data_path.bundles import LARGE_BYTES, Change, Stored, change

Held = dict[str, pa.RecordBatch]


def rows(number: int, size: int, is_spilled: bool) -> pa.RecordBatch:
    schema = pa.schema([("text", pa.binary())], metadata={SPILLED: b"yes"} if is_spilled else None)
    return pa.RecordBatch.from_arrays([pa.array([bytes([number % 256]) * size])], schema=schema)


#: Names that go and names that come, with the size of what they hold.
steps = st.lists(
    st.tuples(
        st.sets(st.integers(0, 40)),
        st.dictionaries(
            st.integers(0, 40), st.tuples(st.sampled_from([0, 10, 900, LARGE_BYTES]), st.booleans()), max_size=12
        ),
    ),
    max_size=12,
)  # fmt: skip


def read(found: Change, store: dict[str, bytes]) -> Held:
    for key in found.removed:
        del store[key]
    assert not store.keys() & found.written.keys()
    store |= found.written
    assert {key: len(body) for key, body in store.items()} == dict(found.stored.blobs)
    return {
        name: decode_segment(store[item.blob][item.start : item.start + item.size]) for name, item in found.stored.segments.items()
    }


@given(steps)
@settings(max_examples=150, deadline=None)
def test_whatever_comes_and_goes_is_read_as_it_was_and_little_else_is_kept(
    moves: list[tuple[set[int], dict[int, tuple[int, bool]]]],
) -> None:
    held: Held = {}
    stored, store = Stored(), dict[str, bytes]()
    made = 0
    for version, (gone, come) in enumerate(moves):
        held = {name: body for name, body in held.items() if int(name.split("/")[0]) not in gone}
        for number, (size, is_spilled) in come.items():
            made += 1
            held[f"{number}/{made}"] = rows(made, size, is_spilled)
        before = stored
        found = change(held, stored, f"v{version}")
        assert read(found, store) == held
        stored = found.stored
        for name, item in stored.segments.items():
            if name in before.segments:
                assert item.written == before.segments[name].written  # the same rows, wherever they stand now
        alive = sum(item.size for item in stored.segments.values())
        assert sum(stored.blobs.values()) <= 2 * alive
        assert len(found.written) <= 1 + sum(size >= LARGE_BYTES or is_spilled for size, is_spilled in come.values())
