"""How a user's function is called with columns, and how its result becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import FunctionFailed, FunctionMisbehaved
from penstock.expressions.numeric import Datum
from penstock.expressions.typing import Typed, type_name
from penstock.expressions.user_functions import Apply, FunctionKind, UserFunction


def application(node: Typed) -> Callable[..., Datum]:
    """The vectorised reading of a call; the function is looked up once."""
    assert isinstance(node.expr, Apply)
    function = node.expr.function
    body = function.resolved()

    def apply(*operands: Datum) -> Datum:
        rows = next((len(operand) for operand in operands if not isinstance(operand, pa.Scalar)), None)
        if rows == 0:
            return pa.nulls(0, function.result)
        # Without a column among its arguments the call is a constant: one row tells it.
        columns = [pa.repeat(item, rows or 1) if isinstance(item, pa.Scalar) else item for item in operands]
        result = _called(function, body, columns)
        return result[0] if rows is None else result

    return apply


def _called(function: UserFunction, body: Callable[..., Any], columns: Sequence[pa.Array]) -> pa.Array:
    try:
        found = _CALLS[function.kind](body, columns)
    except Exception as error:
        raise FunctionFailed(function.name, error) from error
    result = _as_column(function, found)
    if len(result) != len(columns[0]):
        text = f"function '{function.name}' returned {len(result)} values for {len(columns[0])} rows; it must return one per row"
        raise FunctionMisbehaved(text, f"function '{function.name}'")
    return result


def _with_series(body: Callable[..., Any], columns: Sequence[pa.Array]) -> Any:
    return body(*[column.to_pandas() for column in columns])


def _with_arrays(body: Callable[..., Any], columns: Sequence[pa.Array]) -> Any:
    return body(*columns)


def _row_by_row(body: Callable[..., Any], columns: Sequence[pa.Array]) -> Any:
    # The user has asked for it: there is no other way to call a function of single values.
    return [body(*row) for row in zip(*[column.to_pylist() for column in columns], strict=True)]


_CALLS: dict[FunctionKind, Callable[[Callable[..., Any], Sequence[pa.Array]], Any]] = {
    FunctionKind.PANDAS: _with_series,
    FunctionKind.ARROW: _with_arrays,
    FunctionKind.ROWS: _row_by_row,
}


def _as_column(function: UserFunction, found: Any) -> pa.Array:
    """The result as a column of the declared type; NaN is NULL where the type has none."""
    try:
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if isinstance(found, pa.Array):
            return found if found.type == function.result else found.cast(function.result)
        # Single values may be NaN and mean it; pandas has no other way to say NULL.
        means_nan = function.kind is FunctionKind.ROWS and pa.types.is_floating(function.result)
        return pa.array(found, function.result, from_pandas=not means_nan)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError) as error:
        kind = type_name(function.result)
        text = f"function '{function.name}' returned a {type(found).__name__} that is no column of {kind}: {error}"
        raise FunctionMisbehaved(text, f"function '{function.name}'") from None
