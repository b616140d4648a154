"""Parquet files as a stream declares them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import UnreadableFile
from penstock.kernel.damage import set_damage_apart
from penstock.model.schema import TIMESTAMP, Field
from penstock.runners.parquet_rows import parquet_rows

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def written(folder: Path, columns: dict[str, Any], name: str = "x.parquet", **options: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def read(path: Path, base: Path | None = None, most: int = 1000, **fields: pa.DataType) -> list[dict[str, Any]]:
    wanted = [Field(name, kind) for name, kind in fields.items()]
    batches = list(parquet_rows(path, base, wanted, most))
    assert all(batch.schema == pa.schema(list(fields.items())) for batch in batches)
    assert all(batch.num_rows <= most for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_columns_are_found_by_name_and_only_those_asked_for_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, {"Other": [[1], [2], [3]], "ID": [1, 2, None], "name": ["a", None, "c"]}, row_group_size=2)
    assert read(path, most=1, name=pa.string(), id=pa.int64(), gone=pa.float64()) == [
        {"name": "a", "id": 1, "gone": None}, {"name": None, "id": 2, "gone": None}, {"name": "c", "id": None, "gone": None},
    ]  # fmt: skip


def test_a_name_in_two_cases_is_taken_exactly_or_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": [1], "ID": [2]})
    assert read(path, ID=pa.int64()) == [{"ID": 2}]
    with pytest.raises(UnreadableFile, match=r"columns id and ID could both be 'Id'"):
        read(path, Id=pa.int64())


@pytest.mark.parametrize(
    ("found", "wanted", "value"),
    [
        (pa.array([7], pa.int8()), pa.int64(), 7),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64(), 2**32 - 1),
        (pa.array([7], pa.int32()), pa.float64(), 7.0),
        (pa.array([0.5], pa.float32()), pa.float64(), 0.5),
        (pa.array(["a"]).dictionary_encode(), pa.string(), "a"),
        (pa.array(["a"], pa.large_string()), pa.string(), "a"),
        (pa.array([b"a"]), pa.string(), "a"),
        (pa.array([None], pa.null()), pa.string(), None),
        (pa.array([NOON], pa.timestamp("ms", "UTC")), TIMESTAMP, NOON),
        (pa.array([NOON], pa.timestamp("ns", "Europe/Vienna")), TIMESTAMP, NOON),
        (pa.array([NOON], pa.timestamp("us")), TIMESTAMP, NOON),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), pa.decimal128(10, 2), Decimal("1.50")),
        (pa.array([[1, 2]], pa.list_(pa.int32())), pa.list_(pa.int64()), [1, 2]),
    ],
    ids=lambda given: str(given.type if isinstance(given, pa.Array) else given),
)  # fmt: skip
def test_types_are_widened(tmp_path: Path, found: pa.Array, wanted: pa.DataType, value: object) -> None:
    assert read(written(tmp_path, {"a": found}), a=wanted) == [{"a": value}]


def test_times_finer_than_a_microsecond_are_cut_and_those_of_old_writers_read(tmp_path: Path) -> None:
    fine = pa.array([1_767_355_200_000_000_999], pa.timestamp("ns", "UTC"))
    assert read(written(tmp_path, {"a": fine}), a=TIMESTAMP) == [{"a": NOON}]
    old = written(tmp_path, {"a": fine}, "old.parquet", use_deprecated_int96_timestamps=True)
    assert read(old, a=TIMESTAMP) == [{"a": NOON}]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (pa.array(["7"]), pa.int64()),
        (pa.array([7]), pa.int32()),
        (pa.array([7], pa.uint64()), pa.int64()),
        (pa.array([7]), pa.float64()),
        (pa.array([7]), pa.string()),
        (pa.array([7]), TIMESTAMP),
        (pa.array([0.5]), pa.float32()),
        (pa.array([Decimal("1.55")], pa.decimal128(4, 2)), pa.decimal128(10, 1)),
        (pa.array([["7"]]), pa.list_(pa.int64())),
        (pa.array([{"x": 1}]), pa.list_(pa.int64())),
    ],
    ids=lambda given: str(given.type if isinstance(given, pa.Array) else given),
)
def test_a_type_that_does_not_fit_is_refused_with_file_column_and_types(
    tmp_path: Path, found: pa.Array, wanted: pa.DataType
) -> None:
    path = written(tmp_path, {"a": found})
    with pytest.raises(UnreadableFile, match=r"correct the declaration or the file") as refused:
        read(path, a=wanted)
    assert str(refused.value.place) == f"file '{path}'"
    assert f"column 'a' has type {str(found.type).split('<')[0]}" in refused.value.message
    assert f"the stream declares {wanted}" in refused.value.message


def test_values_that_cannot_be_are_left_to_be_set_apart_row_by_row(tmp_path: Path) -> None:
    """A file that is sound as such does not stop a query because of one value."""
    times = pa.array([0, 2**60, -(2**60), None], pa.int64())
    path = written(tmp_path, {"name": pa.array([b"a", b"\xff", None, b"b"]), "ts": times.view(pa.timestamp("ms", "UTC"))})
    (rows,) = parquet_rows(path, None, [Field("name", pa.string()), Field("ts", TIMESTAMP)], 10)
    assert [row["_bad"] is None for row in set_damage_apart(rows).to_pylist()] == [True, False, False, True]
    assert [row["name"] for row in set_damage_apart(rows).to_pylist()] == ["a", None, None, "b"]


def test_directories_below_the_base_give_their_columns(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": [1, 2], "day": ["no", "no"]}, "kind=A%2FB/Day=2026-01-02/n=7/x.parquet")
    nobody = written(tmp_path, {"id": [3]}, "kind=__HIVE_DEFAULT_PARTITION__/x.parquet")
    fields = {"id": pa.int64(), "kind": pa.string(), "day": pa.date32(), "n": pa.int32()}
    assert read(path, tmp_path, **fields)[1] == {"id": 2, "kind": "A/B", "day": NOON.date(), "n": 7}
    assert read(nobody, tmp_path, **fields) == [{"id": 3, "kind": None, "day": None, "n": None}]
    # What lies above the base says nothing.
    assert read(path, path.parent, id=pa.int64(), kind=pa.string())[0] == {"id": 1, "kind": None}
    with pytest.raises(UnreadableFile, match="'A/B' of its directory is no BIGINT for column 'kind'"):
        read(path, tmp_path, kind=pa.int64())


def test_files_that_are_none_or_damaged_are_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.parquet"
    wrong.write_text("id,name\n1,a\n")
    cut = written(tmp_path, {"id": list(range(1000))})
    body = cut.read_bytes()
    cut.write_bytes(body[: len(body) // 2])
    for path in (wrong, cut, tmp_path / "gone.parquet"):
        with pytest.raises(UnreadableFile) as refused:
            read(path, id=pa.int64())
        assert str(refused.value.place) == f"file '{path}'"


def test_a_file_without_rows_gives_none(tmp_path: Path) -> None:
    assert read(written(tmp_path, {"id": pa.array([], pa.int64())}), id=pa.int64()) == []
