"""What a filter evaluates: expressions, and functions over Arrow arrays, pandas series or single rows.

A predicate says which columns it reads, so that only these are gathered for the rows that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import FilterMisbehaved
from penstock.expressions.evaluate import Compiled, compile
from penstock.expressions.nodes import Expr, columns_of
from penstock.model.schema import Schema

Flags = npt.NDArray[np.bool_]


class Predicate(Protocol):
    """A function from rows to truth values; deterministic, without side effects, one value per row."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Columns it reads; None: all."""
        ...

    def __call__(self, rows: pa.RecordBatch) -> Any:
        """Arrow, NumPy or pandas booleans, NULL where it is not known."""
        ...


@dataclass(frozen=True)
class ExpressionPredicate:
    """A scalar expression of the language.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> rows = pa.RecordBatch.from_pydict({"x": [1, None, 7], "y": [0, 0, 0]})
    >>> condition = ExpressionPredicate.of(parse("x > 3"), rows.schema)
    >>> condition.columns, condition(rows.select(["x"])).tolist()
    (('x',), [False, False, True])
    """

    compiled: Compiled

    @classmethod
    def of(cls, expr: Expr, schema: pa.Schema) -> ExpressionPredicate:
        read = columns_of(expr)
        # A constant reads no column, but needs one to know how many rows there are.
        names = [name for name in schema.names if name in read] or schema.names[:1]
        return cls(compile(expr, Schema.from_arrow(pa.schema([schema.field(name) for name in names]))))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.compiled.schema.names

    def __call__(self, rows: pa.RecordBatch) -> Flags:
        return self.compiled.mask(rows)


@dataclass(frozen=True)
class OnArrow:
    """A function of Arrow arrays, one argument per column, or of the whole record batch when no column is named."""

    function: Callable[..., Any]
    columns: tuple[str, ...] | None = None

    def __call__(self, rows: pa.RecordBatch) -> Any:
        return self.function(rows) if self.columns is None else self.function(*rows.columns)


@dataclass(frozen=True)
class OnPandas:
    """A pandas UDF: a function of series, one argument per column.

    Examples
    --------
    >>> rows = pa.RecordBatch.from_pydict({"x": ["a", "b"]})
    >>> OnPandas(lambda x: x == "b", ("x",))(rows).tolist()
    [False, True]
    """

    function: Callable[..., Any]
    columns: tuple[str, ...]

    def __call__(self, rows: pa.RecordBatch) -> Any:
        return self.function(*[column.to_pandas() for column in rows.columns])


@dataclass(frozen=True)
class OnRows:
    """A plain Python function that is called for every row, one argument per column; the slowest kind."""

    function: Callable[..., Any]
    columns: tuple[str, ...] = field(default=())

    def __call__(self, rows: pa.RecordBatch) -> Any:
        values = [column.to_pylist() for column in rows.columns]
        return pa.array([_plain(self.function(*row)) for row in zip(*values, strict=True)], pa.bool_())


def _plain(value: Any) -> bool | None:
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, float) and value != value:
        return None
    raise FilterMisbehaved(f"a function returned {value!r}, a {type(value).__name__}; it must return True, False or None")


def flags_of(result: Any, rows: int, name: str) -> Flags:
    """Truth values as NumPy booleans; NULL and NaN are not true.

    Raises
    ------
    FilterMisbehaved
        When there is not one truth value per row.

    Examples
    --------
    >>> flags_of(pa.array([True, None, False]), 3, "f").tolist()
    [True, False, False]
    """
    flags = _booleans(result, name)
    if flags.shape != (rows,):
        raise FilterMisbehaved(f"filter '{name}' returned {len(flags)} values for a batch of {rows} rows", f"filter '{name}'")
    return flags


def _booleans(result: Any, name: str) -> Flags:
    if isinstance(result, np.ndarray) and result.dtype == np.bool_:
        return result
    found = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    if not isinstance(found, pa.Array):
        found = _from_objects(found, name)
    if pa.types.is_floating(found.type) and pc.all(pc.is_null(found, nan_is_null=True)).as_py():
        # pandas makes a column of doubles where nothing is known of any row.
        found = pa.nulls(len(found))
    if not (pa.types.is_boolean(found.type) or pa.types.is_null(found.type)):
        text = f"filter '{name}' returned {found.type}; it must return one boolean per row"
        raise FilterMisbehaved(text, f"filter '{name}'")
    flags: Flags = pc.fill_null(found.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
    return flags


def _from_objects(result: Any, name: str) -> pa.Array:
    """Whatever else holds values: pandas series, NumPy arrays of objects, lists."""
    try:
        # `from_pandas` reads NaN among booleans as NULL.
        return pa.array(result, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        text = f"filter '{name}' returned a {type(result).__name__} that is no column of booleans: {error}"
        raise FilterMisbehaved(text, f"filter '{name}'") from None


def gathered(rows: pa.RecordBatch, columns: Sequence[str] | None, selection: npt.NDArray[np.int64] | None) -> pa.RecordBatch:
    """The columns that are read, for the rows that are selected (None: all), without touching the others."""
    names = rows.schema.names if columns is None else columns
    read = rows if columns is None else rows.select(list(names))
    return read if selection is None else read.take(pa.array(selection))
