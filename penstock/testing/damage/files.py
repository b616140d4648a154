"""Files of every format with damaged records in them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from penstock.testing.damage.records import csv_line, json_line, lines_in, table, text_line

_LINE = {"json": json_line, "csv": csv_line, "text": text_line}
_FILES = 12
#: Of the files the last ones whose damage reaches event times.
_WILD = 2


def write_files(folder: Path, kind: str, rows: int, random: Random, spark: Any) -> int:
    """Files of a format, oldest first; how many records Spark has to find in them.

    Parameters
    ----------
    spark
        A session: every other file of ORC is written by Spark, because Arrow and Spark can write different damage.
    """
    folder.mkdir(parents=True)
    found, size = 0, -(-rows // _FILES)
    for number in range(_FILES):
        path, first, count = folder / f"{number:03}.{kind}", number * size, min(size, rows - number * size)
        if count <= 0:
            break
        if kind in _LINE:
            lines = (_LINE[kind](first + at, random, number >= _FILES - _WILD) for at in range(count))
            content = b"\n".join(lines)
            path.write_bytes(content)
            found += sum(not _is_skipped(line, kind) for line in lines_in(content))
        else:
            found += count
            rows_of_file = table(first, count, random)
            if kind == "parquet":
                pq.write_table(rows_of_file, path)
            elif number % 2:
                _write_by_spark(_within_reach(rows_of_file), path, spark)
            else:
                orc.write_table(_in_whole_seconds(rows_of_file), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads older files first
    return found


def _write_by_spark(rows: pa.Table, path: Path, spark: Any) -> None:
    columns, folder = path.with_suffix(".columns"), path.with_suffix(".folder")
    pq.write_table(rows, columns)
    spark.read.parquet(str(columns)).coalesce(1).write.orc(str(folder))
    (written,) = folder.glob("*.orc")
    written.replace(path)
    columns.unlink()
    shutil.rmtree(folder)


def _within_reach(rows: pa.Table) -> pa.Table:
    """The smallest time and the outermost days replaced by others outside the calendar: Spark's writer of ORC fails on them."""
    for at, item in enumerate(rows.schema):
        if pa.types.is_timestamp(item.type):
            numbers = pc.max_element_wise(rows.column(at).cast(pa.int64()), -(2**62), skip_nulls=False)
            rows = rows.set_column(at, item, numbers.cast(item.type))
        elif pa.types.is_date32(item.type):
            days = rows.column(at).cast(pa.int32())
            days = pc.max_element_wise(pc.min_element_wise(days, 2_932_897, skip_nulls=False), -719_163, skip_nulls=False)
            rows = rows.set_column(at, item, days.cast(pa.int32()).cast(item.type))
    return rows


def _in_whole_seconds(rows: pa.Table) -> pa.Table:
    """Times before 1970 without fractions: the way Arrow writes them to ORC files is none that the format allows.

    Such a file is damaged as a whole: it stops the query, with its name.
    """
    for at, item in enumerate(rows.schema):
        if pa.types.is_timestamp(item.type):
            numbers = pc.max_element_wise(rows.column(at).cast(pa.int64()), -(2**63) + 2_000_000, skip_nulls=False)
            whole = pc.multiply(pc.divide(pc.subtract(numbers, 999_999), 1_000_000), 1_000_000)
            rows = rows.set_column(at, item, pc.if_else(pc.less(numbers, 0), whole, numbers).cast(item.type))
    return rows


def _is_skipped(line: bytes, kind: str) -> bool:
    """Lines that hold no record for Spark: empty ones, whatever each parser takes for empty."""
    if kind == "csv":
        return all(byte <= 0x20 for byte in line)
    return kind == "json" and not line.strip(b" \t")
