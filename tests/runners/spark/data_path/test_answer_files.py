"""Files of answers appear once, complete, and only those that were reported."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.declarations import Destination
from penstock.runners.spark.data_path.answer_files import AnswerFiles, can_write


def rows(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def found(folder: Path) -> dict[str, list[int]]:
    """Answers by directory, as a reader sees them: names that begin with _ are hidden."""
    answers: dict[str, list[int]] = {}
    for file in folder.glob("[!_]*/*.parquet"):
        answers.setdefault(file.parent.name, []).extend(pq.ParquetFile(file).read()["id"].to_pylist())
    return {name: sorted(values) for name, values in answers.items()}


def test_only_what_was_reported_is_put_in_place(tmp_path: Path) -> None:
    files = AnswerFiles(str(tmp_path))
    files.write(3, 0, rows(1, 2))  # an attempt that was killed
    names = [files.write(3, 0, rows(1, 2)), files.write(3, 1, rows(3))]
    assert found(tmp_path) == {}
    files.put_in_place(3, names)
    assert found(tmp_path) == {"epoch=0000000003": [1, 2, 3]}
    assert not list((tmp_path / "_staging").iterdir())


def test_a_repeated_micro_batch_leaves_what_is_there(tmp_path: Path) -> None:
    files = AnswerFiles(f"file:{tmp_path}", "mark", "zstd")
    files.put_in_place(0, [files.write(0, 0, rows(1))])
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.parquet")}
    files.put_in_place(0, [files.write(0, 0, rows(1))])
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*.parquet")} == before
    assert found(tmp_path) == {"epoch=0000000000-mark": [1]}


def test_a_driver_that_dies_between_write_and_rename_is_followed_by_one_that_finishes(tmp_path: Path) -> None:
    files = AnswerFiles(str(tmp_path))
    half = tmp_path / "_staging" / "epoch=0000000005"
    half.mkdir(parents=True)
    pq.write_table(rows(9), half / "part-00000-old.parquet")  # renamed by the one that died
    files.put_in_place(5, [files.write(5, 0, rows(1)), files.write(5, 1, rows(2))])
    assert found(tmp_path) == {"epoch=0000000005": [1, 2]}


def test_a_micro_batch_without_answers_leaves_nothing(tmp_path: Path) -> None:
    files = AnswerFiles(str(tmp_path))
    files.write(0, 0, rows(1))  # by an attempt that nobody waited for
    files.put_in_place(0, [])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("options", "is_local", "expected"),
    [
        ({"path": "out"}, True, True), ({"path": "out", "compression": "GZIP"}, True, True), ({"path": "file:/out"}, False, True),
        ({"path": "out"}, False, False), ({"path": "hdfs://n/out"}, True, False),
        ({"path": "out", "compression": "lzo"}, True, False),
        ({"path": "out", "parquet.block.size": "1"}, True, False),
    ],
)  # fmt: skip
def test_what_only_spark_can_do_is_left_to_it(options: dict[str, str], is_local: bool, expected: bool) -> None:
    assert can_write(Destination("parquet", options), is_local) is expected
    assert not can_write(Destination("csv", options), is_local)
