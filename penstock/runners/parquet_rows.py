"""Rows of a Parquet file as a stream declares them: columns found by name, types widened but never guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from penstock.errors import UnreadableFile
from penstock.model.schema import Field, sql_type

#: How Hive and Spark write a directory whose rows have no value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_HELP = "correct the declaration or the file, or take the file away"


def parquet_rows(path: Path, base: Path | None, fields: Sequence[Field], most: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most `most` rows with the given fields.

    A field that the file does not have is NULL, as when Spark reads it.

    Parameters
    ----------
    base
        Directory of the stream: directories below it that are called `column=value` give that column's value. None: there
        are no such columns.

    Raises
    ------
    UnreadableFile
        When the file is no Parquet file, is damaged, or a column's type does not fit.
    """
    try:
        yield from _read(path, base, fields, most)
    except (pa.ArrowException, OSError) as found:
        said = str(found).splitlines() or [type(found).__name__]
        raise UnreadableFile(f"{said[0]}; {_HELP}", f"file '{path}'") from found


def _read(path: Path, base: Path | None, fields: Sequence[Field], most: int) -> Iterator[pa.RecordBatch]:
    # One thread: a task has one core. Ancient files keep times in a type without unit.
    with parquet.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit="us") as file:
        known = _values_of_directories(path, base)
        present = _present(path, file.schema_arrow, [item for item in fields if item.name.lower() not in known])
        for batch in file.iter_batches(most, columns=list(present.values()), use_threads=False):
            columns = [
                _fitting(batch.column(present[item.name]), item, path)
                if item.name in present
                else pa.repeat(_constant(known.get(item.name.lower()), item, path), batch.num_rows)
                for item in fields
            ]
            yield pa.RecordBatch.from_arrays(columns, names=[item.name for item in fields])


def _present(path: Path, schema: pa.Schema, fields: Sequence[Field]) -> dict[str, str]:
    """What the file calls each field it has; names are compared without case where they must be."""
    found: dict[str, str] = {}
    for item in fields:
        alike = [name for name in schema.names if name.lower() == item.name.lower()]
        if len(alike) > 1 and item.name not in alike:
            raise UnreadableFile(f"columns {' and '.join(alike)} could both be '{item.name}'; {_HELP}", f"file '{path}'")
        if alike:
            found[item.name] = item.name if item.name in alike else alike[0]
    return found


def _values_of_directories(path: Path, base: Path | None) -> dict[str, str | None]:
    """Values that directories below the base give to columns.

    Examples
    --------
    >>> _values_of_directories(Path("/data/Day=2026-01-02/part=a%2Fb/x.parquet"), Path("/data"))
    {'day': '2026-01-02', 'part': 'a/b'}
    """
    if base is None or not path.is_relative_to(base):
        return {}
    parts = [part.partition("=") for part in PurePosixPath(path.relative_to(base)).parent.parts]
    return {unquote(name).lower(): None if value == _NO_VALUE else unquote(value) for name, sign, value in parts if sign}


def _constant(text: str | None, item: Field, path: Path) -> pa.Scalar:
    if text is None:
        return pa.scalar(None, item.type)
    try:
        return pa.scalar(text).cast(item.type)
    except pa.ArrowException as found:
        raise UnreadableFile(
            f"'{text}' of its directory is no {sql_type(item.type)} for column '{item.name}'; {_HELP}", f"file '{path}'"
        ) from found


def _fitting(column: pa.Array, item: Field, path: Path) -> pa.Array:
    """The column in its declared type, if no value can be lost on the way."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == item.type:
        return column
    if not _is_widening(column.type, item.type):
        raise UnreadableFile(
            f"column '{item.name}' has type {column.type}, the stream declares {item.type}; {_HELP}", f"file '{path}'"
        )
    if pa.types.is_timestamp(column.type):
        # Units finer than ours are cut off.
        return pc.cast(_within_reach(column), item.type, safe=False)
    if pa.types.is_string(item.type) and _is_binary(column.type):
        # Bytes that are no text are found where rows enter, row by row.
        return column.cast(pa.binary()).view(item.type)
    return column.cast(item.type)


def _within_reach(column: pa.Array) -> pa.Array:
    """Times that microseconds can hold; others become the last one, which is outside the calendar too."""
    most = {"s": (1 << 63) // 1_000_000 - 1, "ms": (1 << 63) // 1_000 - 1}.get(column.type.unit)
    if most is None:
        return column
    numbers = column.view(pa.int64())
    reached = pc.if_else(pc.greater(pc.abs(numbers), most), most, numbers)
    return reached.view(column.type)


def _is_widening(found: pa.DataType, wanted: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_null(found):
        return True
    if kinds.is_integer(found) and kinds.is_integer(wanted):
        is_signed = kinds.is_signed_integer(found)
        return bool(kinds.is_signed_integer(wanted) and found.bit_width < wanted.bit_width + is_signed)
    if kinds.is_floating(wanted):
        # A double holds every number of 32 bits, a float every number of 16.
        return bool((kinds.is_floating(found) or kinds.is_integer(found)) and found.bit_width < wanted.bit_width)
    if kinds.is_timestamp(wanted):
        return bool(kinds.is_timestamp(found))
    if kinds.is_decimal(wanted):
        return bool(kinds.is_decimal(found) and found.scale <= wanted.scale and _whole(found) <= _whole(wanted))
    if kinds.is_nested(wanted):
        return bool(found.id == wanted.id and found.num_fields == wanted.num_fields) and all(
            found.field(at).type == wanted.field(at).type or _is_widening(found.field(at).type, wanted.field(at).type)
            for at in range(wanted.num_fields)
        )
    return _is_text(wanted) and _is_text(found)


def _whole(kind: pa.DataType) -> int:
    """Digits in front of the point."""
    return int(kind.precision - kind.scale)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    kinds = pa.types
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or _is_binary(kind))
