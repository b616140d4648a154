"""Functions that users write in Python, and their calls in expressions.

Only Python can evaluate such a call, so no part of an expression that holds one goes to Catalyst.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.errors import FunctionMisbehaved, Place
from penstock.expressions.nodes import APPLY, Call, Expr, substitute


class FunctionKind(StrEnum):
    """What a function is handed, one argument per parameter."""

    #: pandas series; returns a series, an array or a list.
    PANDAS = "pandas"
    #: Arrow arrays; returns one.
    ARROW = "arrow"
    #: Plain values of one row; called for every row, the slowest kind.
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function declared by `CREATE FUNCTION`, or handed in by a program.

    It must be deterministic and without side effects: rows it sees vary with the order of conditions, and a micro-batch may
    be repeated.

    Parameters
    ----------
    source
        `module:name` by which workers import it; anything that describes it where `body` is given.
    cost
        Seconds per row, instead of measuring.
    after
        Conditions over the parameters: rows that do not meet them are never shown to the function, as far as the query
        asks for these conditions too.
    profilable
        False: it is asked only about rows that pass all other conditions.
    body
        The function itself; it travels with the plan, and is not compared.

    Examples
    --------
    >>> trim = UserFunction("trim", (("x", pa.string()),), pa.string(), "pyarrow.compute:utf8_trim_whitespace", FunctionKind.ARROW)
    >>> trim.resolved()(pa.array([" a "])).to_pylist()
    ['a']
    """

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    source: str
    kind: FunctionKind = FunctionKind.PANDAS
    cost: float | None = None
    after: tuple[Expr, ...] = ()
    profilable: bool = True
    body: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def resolved(self) -> Callable[..., Any]:
        """The Python function.

        Raises
        ------
        FunctionMisbehaved
            When it cannot be imported.
        """
        return self.body if self.body is not None else imported(self.source)


@lru_cache(maxsize=256)
def imported(source: str) -> Callable[..., Any]:
    """The function that `module:name` stands for.

    Examples
    --------
    >>> imported("math:sqrt")(9.0)
    3.0
    """
    module, _, name = source.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        text = f"'{source}' cannot be imported ({error}); write module:function, and see that the module is installed"
        raise FunctionMisbehaved(text) from None
    if not callable(found):
        raise FunctionMisbehaved(f"'{source}' is a {type(found).__name__}; write module:function")
    result: Callable[..., Any] = found
    return result


@dataclass(frozen=True, slots=True)
class Apply(Call):
    """A call of a user's function; an operation like any other but for what Catalyst knows of it."""

    function: UserFunction = field(kw_only=True)

    def __reduce__(self) -> tuple[object, ...]:
        return (_applied_again, (self.args, self.place, self.function))

    @property
    def called(self) -> str:
        return self.function.name

    @property
    def guards(self) -> tuple[Expr, ...]:
        """What must hold of a row before the function sees it, in the columns of this call."""
        meaning = {name: arg for (name, _), arg in zip(self.function.parameters, self.args, strict=False)}
        return tuple(substitute(condition, meaning) for condition in self.function.after)


def _applied_again(args: tuple[Expr, ...], place: Place | None, function: UserFunction) -> Apply:
    return Apply(APPLY, args, None, place, function=function)


def applied(function: UserFunction, *args: Expr) -> Apply:
    """The call of a function.

    Examples
    --------
    >>> from penstock.expressions.nodes import Column
    >>> trim = UserFunction("trim", (("x", pa.string()),), pa.string(), "pyarrow.compute:utf8_trim_whitespace")
    >>> str(applied(trim, Column("name")))
    'trim(name)'
    """
    return Apply(APPLY, args, function=function)


def applications(expr: Expr) -> list[Apply]:
    """All calls of user functions inside an expression, outer ones first."""
    if not isinstance(expr, Call):
        return []
    own = [expr] if isinstance(expr, Apply) else []
    return own + [found for arg in expr.args for found in applications(arg)]


def has_functions(expr: Expr) -> bool:
    """Whether only Python can evaluate the expression."""
    return bool(applications(expr))
