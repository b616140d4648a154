"""The spilling buffer: the worked example, and order and completeness for every bound and interleaving."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from penstock.errors import StateUnwritable
from penstock.kernel.buffer import Buffer


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": list(values)}, pa.schema({"x": pa.int64()}))


def taken(buffer: Buffer, count: int = 1, reader: int = 0) -> list[int]:
    found = buffer.dequeue(reader, count)
    return [] if found is None else found.column("x").to_pylist()


def files(directory: Path) -> dict[str, bool]:
    """Log files, and whether they hold anything."""
    return {path.name: path.stat().st_size > 0 for path in sorted(directory.glob("*.log"))}


def test_g14_spilling_refilling_and_truncating(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, memory_rows=4, log_rows=3, refill_percent=50)
    for number in range(1, 11):
        buffer.enqueue(rows(number))
    assert (buffer.rows_in_memory, buffer.rows_in_logs) == (4, [3, 3])
    assert taken(buffer) + taken(buffer) == [1, 2]
    assert (buffer.rows_in_memory, buffer.rows_in_logs) == (4, [1, 3])  # 5 and 6 came back, 7 is still on disk
    buffer.enqueue(rows(11))
    assert buffer.rows_in_logs == [1, 3, 1]  # a third file: the second is full, the first unread
    assert taken(buffer) + taken(buffer) == [3, 4]
    assert (buffer.rows_in_memory, buffer.rows_in_logs) == (4, [2, 1])  # 7 and 8
    assert files(tmp_path) == {"buffer-0.log": False, "buffer-1.log": True, "buffer-2.log": True}
    assert [taken(buffer) for _ in range(8)] == [[number] for number in range(5, 12)] + [[]]


def test_g14_only_what_all_readers_have_is_freed(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, memory_rows=20, readers=2)
    buffer.enqueue(rows(*range(1, 11)))
    taken(buffer, 7, reader=0)
    taken(buffer, 3, reader=1)
    assert buffer.common_pointer == 3
    assert buffer.rows_in_memory == 7
    assert (buffer.lag(0), buffer.lag(1)) == (3, 7)


def test_an_exhausted_file_is_written_again(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, memory_rows=1, log_rows=2)
    for start in range(0, 40, 4):
        buffer.enqueue(rows(*range(start, start + 4)))
        assert taken(buffer, 4) == list(range(start, start + 4))
    assert len(files(tmp_path)) <= 3


def test_a_fast_reader_reads_past_the_memory_that_a_slow_one_keeps(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, memory_rows=2, log_rows=3, readers=2)
    buffer.enqueue(rows(*range(9)))
    assert taken(buffer, 8, reader=0) == list(range(8))
    assert buffer.rows_in_memory == 2
    assert taken(buffer, 9, reader=1) == list(range(9))
    assert taken(buffer, 9, reader=0) == [8]


def test_a_new_reader_begins_at_the_end_and_a_removed_one_keeps_nothing(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path, memory_rows=10)
    buffer.enqueue(rows(1, 2))
    late = buffer.add_reader()
    buffer.enqueue(rows(3))
    assert taken(buffer, 9, late) == [3]
    buffer.remove_reader(0)
    assert buffer.rows_in_memory == 0


def test_without_a_limit_nothing_is_spilled(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path)
    buffer.enqueue(rows(*range(1000)))
    assert not buffer.is_spilled
    assert files(tmp_path) == {}


def test_stale_logs_are_removed_at_the_start_and_own_ones_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "buffer-7.log").write_bytes(b"left behind")
    (tmp_path / "other-7.log").write_bytes(b"not ours")
    buffer = Buffer(tmp_path, memory_rows=1)
    buffer.enqueue(rows(1, 2, 3))
    assert list(files(tmp_path)) == ["buffer-0.log", "other-7.log"]
    buffer.close()
    assert list(files(tmp_path)) == ["other-7.log"]


def test_rows_that_cannot_be_spilled_are_not_accepted_and_nothing_else_is_lost(tmp_path: Path) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    buffer = Buffer(place, memory_rows=2, log_rows=2)
    buffer.enqueue(rows(1, 2, 3))
    (place / "buffer-1.log").mkdir()  # the next log file cannot be opened
    with pytest.raises(StateUnwritable, match="cannot be spilled"):
        buffer.enqueue(rows(4, 5))
    (place / "buffer-1.log").rmdir()
    buffer.enqueue(rows(6, 7))
    assert taken(buffer, 9) == [1, 2, 3, 6, 7]


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_p5_every_reader_sees_every_row_once_and_in_order(tmp_path: Path, data: st.DataObject) -> None:
    limit, log_limit = data.draw(st.integers(0, 6)), data.draw(st.integers(1, 5))
    readers = data.draw(st.integers(1, 3))
    buffer = Buffer(tmp_path, limit, log_limit, data.draw(st.sampled_from([1, 50, 100])), readers)
    seen: list[list[int]] = [[] for _ in range(readers)]
    sent = 0
    for is_write, amount, reader in data.draw(
        st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, readers - 1)), max_size=25)
    ):
        if is_write:
            buffer.enqueue(rows(*range(sent, sent + amount)))
            sent += amount
        else:
            seen[reader] += taken(buffer, amount, reader)
        assert buffer.rows_in_memory <= limit
        assert buffer.common_pointer == min(map(len, seen))
        assert all(buffer.lag(at) == sent - len(found) for at, found in enumerate(seen))
    for reader in range(readers):
        seen[reader] += taken(buffer, 1000, reader)
    assert seen == [list(range(sent))] * readers
    assert not buffer.is_spilled
    buffer.close()
