"""What goes round is there until it has been read, and its loss is noticed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from penstock.errors import DamagedRecord
from penstock.runners.spark.data_path.control import ControlLog, ControlSource
from penstock.runners.spark.data_path.loop import NOTHING, Loop
from penstock.runners.spark.data_path.packet_rows import packed_rows


def packets(text: str) -> pa.Table:
    return pa.Table.from_batches([packed_rows([(0, text, b"body", None)])])


def headers(found: pa.Table) -> list[str]:
    texts: list[str] = found.column("header").to_pylist()
    return texts


def test_a_micro_batch_reads_what_went_round_before_it_once(tmp_path: Path) -> None:
    log, loop = ControlLog(tmp_path / "control"), Loop(tmp_path / "loop")
    source = ControlSource({"path": str(log.directory), "shards": "2", "loop": str(loop.directory)}).streamReader(None)  # type: ignore[arg-type]
    start = source.initialOffset()
    limit = source.getDefaultReadLimit()
    assert start["loop"] == NOTHING
    assert source.latestOffset(start, limit) == start
    loop.write(0, packets("first"))
    loop.write(0, packets("again"))  # a repeated micro-batch
    first = source.latestOffset(start, limit)
    (partition,) = source.partitions(start, first)
    assert [headers(pa.Table.from_batches([rows])) for rows in source.read(partition)] == [["again"]]
    loop.write(1, packets("second"))
    source.commit(first)  # the micro-batch that has read 0 is done
    assert loop.epochs() == [1]
    second = source.latestOffset(first, limit)
    (partition,) = source.partitions(first, second)
    assert [headers(pa.Table.from_batches([rows])) for rows in source.read(partition)] == [["second"]]
    assert source.latestOffset(second, limit) == second


@pytest.mark.parametrize("damage", ["cut short", "taken away"])
def test_damage_names_the_file(tmp_path: Path, damage: str) -> None:
    loop = Loop(tmp_path)
    loop.write(7, packets("text"))
    (file,) = tmp_path.iterdir()
    if damage == "cut short":
        file.write_bytes(file.read_bytes()[:100])
    else:
        file.unlink()
    with pytest.raises(DamagedRecord, match="epoch=0000000007"):
        loop.read(6, 7)
