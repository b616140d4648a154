"""`CREATE FUNCTION` to a function that expressions can call."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from penstock.errors import FunctionMisbehaved, InvalidDeclaration, SyntaxMistake, UserError, suggestion
from penstock.expressions.aggregates import AGGREGATES
from penstock.expressions.nodes import FUNCTIONS, Expr, columns_of, conjuncts
from penstock.expressions.parse import parse
from penstock.expressions.user_functions import FunctionKind, UserFunction, imported
from penstock.language.grouping import WINDOW_BOUNDS
from penstock.language.resolve import check_condition
from penstock.language.sampling import OF_SAMPLES
from penstock.language.streams import type_named
from penstock.language.syntax import FunctionStatement, expected
from penstock.model.schema import Field, Schema

_OPTIONS = ("callable", "kind", "cost", "after", "profilable", "deterministic")
_TRUTH = {"true": True, "false": False}
#: Names that the language reads in its own way.
_TAKEN = frozenset(
    (*FUNCTIONS, *AGGREGATES, *WINDOW_BOUNDS, *OF_SAMPLES, "isnull", "isnotnull", "timestamp_micros", "mean", "std", "if")
)


def declare_function(statement: FunctionStatement, known: Mapping[str, UserFunction]) -> UserFunction:
    """The function a statement declares; it is imported at once, so that a wrong name is found before anything runs.

    Parameters
    ----------
    known
        Functions declared so far, by name in lower case; conditions of `after` may call them.
    """
    _refuse_taken(statement)
    if statement.using.name.upper != "PYTHON":
        raise SyntaxMistake(expected(statement.using.name.text, ["python"], "after USING"), statement.using.name.place)
    options = {name.lower(): value for name, value in statement.using.options.items()}
    for name in options:
        if name not in _OPTIONS:
            raise InvalidDeclaration(f"there is no option '{name}'; {suggestion(name, _OPTIONS)}", statement.name.place)
    parameters = _parameters(statement)
    if not _flag(statement, options, "deterministic"):
        text = (
            "deterministic is false: a repeated micro-batch would give other answers, and conditions could not change places; "
            "only deterministic functions can be used"
        )
        raise InvalidDeclaration(text, statement.name.place)
    return UserFunction(
        statement.name.text,
        tuple((item.name, item.type) for item in parameters),
        type_named(statement.returns, "after RETURNS"),
        _source(statement, options),
        _kind(statement, options),
        _cost(statement, options),
        _after(statement, options, parameters, known),
        _flag(statement, options, "profilable"),
    )


def _refuse_taken(statement: FunctionStatement) -> None:
    """Names that the parser does not hand on as calls of something unknown could never be called."""
    name = statement.name.text
    is_free = name.isidentifier() and isinstance(sqlglot.parse_one(f"{name}(x)", read="spark"), exp.Anonymous)
    if not is_free or name.lower() in _TAKEN:
        raise InvalidDeclaration(f"'{name}' is a word of SQL already; choose another name, such as my_{name}", statement.name.place)


def _parameters(statement: FunctionStatement) -> Schema:
    fields: dict[str, Field] = {}
    for parameter in statement.parameters:
        if parameter.name.text.lower() in fields:
            raise InvalidDeclaration(
                f"parameter '{parameter.name.text}' is declared twice; rename one of them", parameter.name.place
            )
        kind = type_named(parameter.type, "as the type of a parameter")
        fields[parameter.name.text.lower()] = Field(parameter.name.text, kind)
    return Schema(tuple(fields.values()), f"function '{statement.name.text}'")


def _source(statement: FunctionStatement, options: Mapping[str, str]) -> str:
    if "callable" not in options:
        raise InvalidDeclaration(
            "it is not said which function it is; add OPTIONS (callable 'module:function')", statement.name.place
        )
    try:
        imported(options["callable"])
    except FunctionMisbehaved as error:
        raise InvalidDeclaration(error.message, statement.name.place) from None
    return options["callable"]


def _kind(statement: FunctionStatement, options: Mapping[str, str]) -> FunctionKind:
    written = options.get("kind", FunctionKind.PANDAS.value).lower()
    if written not in list(FunctionKind):
        raise InvalidDeclaration(expected(written, [kind.value for kind in FunctionKind], "as kind"), statement.name.place)
    return FunctionKind(written)


def _cost(statement: FunctionStatement, options: Mapping[str, str]) -> float | None:
    written = options.get("cost")
    try:
        cost = None if written is None else float(written)
    except ValueError:
        cost = -1.0
    if cost is not None and not 0 <= cost < float("inf"):
        raise InvalidDeclaration(f"cost is '{written}'; write seconds per row, such as '2e-6'", statement.name.place)
    return cost


def _flag(statement: FunctionStatement, options: Mapping[str, str], name: str) -> bool:
    written = options.get(name, "true").lower()
    if written not in _TRUTH:
        raise InvalidDeclaration(expected(written, list(_TRUTH), f"as {name}"), statement.name.place)
    return _TRUTH[written]


def _after(
    statement: FunctionStatement, options: Mapping[str, str], parameters: Schema, known: Mapping[str, UserFunction]
) -> tuple[Expr, ...]:
    """Conditions over the parameters, in their declared spelling."""
    if "after" not in options:
        return ()
    try:
        condition = parse(options["after"], f"after of function '{statement.name.text}'", known)
        check_condition(condition, parameters)
    except UserError as error:
        text = f"after is '{options['after']}': {error.message}; write a condition over the parameters, such as x <> 0"
        raise InvalidDeclaration(text, statement.name.place) from None
    unread = [name for name in columns_of(condition) if name not in [item.name for item in parameters]]
    if unread:
        text = f"after names '{unread[0]}'; write parameters as they are declared: {', '.join(parameters.names)}"
        raise InvalidDeclaration(text, statement.name.place)
    return tuple(conjuncts(condition))
