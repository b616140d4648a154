"""From text, or from a tree sqlglot has parsed, to an expression. Spark's words, positions kept.

Examples
--------
>>> str(parse("a.price == 3 and not (bidder is null)"))
'a.price = 3 AND bidder IS NOT NULL'
>>> expr, calls = split_aggregates(sqlglot.parse_one("SUM(price) / COUNT(*) + 1", read="spark"))
>>> str(expr), [call.name for call in calls]
('`sum(price)` / `count(*)` + 1', ['sum(price)', 'count(*)'])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from penstock.errors import InvalidPlan, Place, SyntaxMistake, suggestion
from penstock.expressions.accepted_syntax import EXPRESSIONS, unknown_function
from penstock.expressions.aggregates import CHOOSING, AggregateCall, column_of, default_name
from penstock.expressions.literals import folded_cast, no_decimals, number, shortened
from penstock.expressions.nodes import Call, Column, Expr, Literal
from penstock.expressions.strict import Expressions
from penstock.expressions.typing import DATE, NUMBERS
from penstock.expressions.user_functions import UserFunction, applied
from penstock.expressions.words import AGGREGATE_NODES, BINARY, LISTED, TRIMS, TYPE_SYNONYMS, UNARY
from penstock.model.durations import UNIT_MICROS, duration
from penstock.model.nesting import on_deep_stack, too_deep
from penstock.model.schema import SQL_TYPES, TIMESTAMP

Functions = Mapping[str, UserFunction]


def parse(text: str, source: str = "the expression", functions: Functions | None = None) -> Expr:
    """Parse one expression; raises `SyntaxMistake` with its place."""
    try:
        return _parsed(text, source, functions)
    except RecursionError:
        pass
    try:
        return on_deep_stack(lambda: _parsed(text, source, functions))
    except RecursionError:
        raise SyntaxMistake(too_deep("the expression"), source) from None


def _parsed(text: str, source: str, functions: Functions | None) -> Expr:
    try:
        node = sqlglot.parse_one(text, dialect=Expressions)
    except ParseError as error:
        raise _from_parser(error, source, text) from None
    except TokenError as error:
        raise SyntaxMistake(str(error).splitlines()[0], source) from None
    lines = _Reading(source, text)
    EXPRESSIONS.check(node, text, lines.place, lambda *_: Place(source))
    return from_sqlglot(node, source, text, functions)


def from_sqlglot(node: exp.Expr, source: str = "", text: str = "", functions: Functions | None = None) -> Expr:
    """Turn sqlglot's tree into an expression.

    Parameters
    ----------
    node
        A scalar expression of the Spark dialect.
    source
        What messages call the text, such as "query 'slow_cars'".
    text
        The text itself: messages then show the line.
    functions
        Those of the user, by name in lower case.
    """
    return _Reading(source, text, functions=functions).expr(node)


def split_aggregates(
    node: exp.Expr,
    known: Sequence[AggregateCall] = (),
    source: str = "",
    text: str = "",
    functions: Functions | None = None,
) -> tuple[Expr, list[AggregateCall]]:
    """Split an expression into aggregates and what is computed from their results.

    Parameters
    ----------
    node
        An item of a select list or a HAVING condition.
    known
        Aggregates the query has already; an equal one is used again.

    Returns
    -------
    The expression, in which each aggregate is a column of its name, and `known` followed by the new aggregates.
    """
    reading = _Reading(source, text, list(known), functions)
    return reading.expr(node), reading.aggregates or []


def _from_parser(error: ParseError, source: str, text: str) -> SyntaxMistake:
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line") or 0, details.get("col") or 0
    word = details.get("highlight") or ""
    lines = _lines(text)
    excerpt = lines[line - 1] if 0 < line <= len(lines) else ""
    place = Place(source, line, max(column - len(word) + 1, 1), excerpt, len(word) or 1) if line else Place(source)
    reason = str(details.get("description") or "it is not an expression").rstrip(".")
    return SyntaxMistake(f"{reason} at '{word}'" if word else reason, place)


@lru_cache(maxsize=4)
def _lines(text: str) -> tuple[str, ...]:
    """The lines of a text; every expression of a statement asks for the same."""
    return tuple(text.split("\n"))


class _Reading:
    """One pass over a tree; collects aggregates where `aggregates` is a list and refuses them where it is None."""

    def __init__(
        self, source: str, text: str, aggregates: list[AggregateCall] | None = None, functions: Functions | None = None
    ) -> None:
        self.source = source
        self.text = text
        self.lines = _lines(text)
        self.aggregates = aggregates
        self.functions = functions or {}

    def place(self, node: exp.Expr) -> Place | None:
        """Where the node, or the first of its parts that says so, stands."""
        found = [part.meta for part in node.walk() if "line" in part.meta]
        if not found:
            return None
        meta = min(found, key=lambda each: int(each["start"]))
        width = meta["end"] - meta["start"] + 1
        excerpt = self.lines[meta["line"] - 1] if 0 < meta["line"] <= len(self.lines) else ""
        # sqlglot counts to the last character of a word.
        return Place(self.source, meta["line"], max(meta["col"] - width + 1, 1), excerpt, width)

    def where(self, node: exp.Expr) -> Place | str | None:
        """The place for a message: at least the name of the text."""
        return self.place(node) or self.source or None

    def unsupported(self, node: exp.Expr, expected: str = "") -> SyntaxMistake:
        if isinstance(node, exp.Anonymous):
            return SyntaxMistake(unknown_function(node.name, self.functions), self.where(node))
        found = EXPRESSIONS.refusal(node, self.text)
        return SyntaxMistake(f"{found}; expected {expected}" if expected else found, self.where(node))

    def expr(self, node: exp.Expr) -> Expr:
        reader = _READERS.get(type(node))
        try:
            result = reader(self, node) if reader else self._by_table(node)
        except InvalidPlan as error:  # too large
            raise error if error.place else error.at(self.place(node)) from None
        # Text folded into a constant keeps the place of what it was folded from.
        return result if result.place else replace(result, place=self.place(node))

    def _by_table(self, node: exp.Expr) -> Expr:
        kind = type(node)
        if kind in BINARY:
            call = self.call(BINARY[kind], node.this, node.expression)
            return Call("not", (call,)) if node.args.get("negate") else call
        if kind in UNARY:
            return self.call(UNARY[kind], _without_date_cast(node.this))
        if kind in LISTED:
            return self.call(LISTED[kind], *([node.this] if node.this else []), *node.expressions)
        return self._aggregate_column(node)

    def call(self, op: str, *args: exp.Expr | None) -> Call:
        return Call(op, tuple(self.expr(arg) for arg in args if arg is not None))

    def _aggregate_column(self, node: exp.Expr) -> Expr:
        call = self.aggregate(node)
        if call is None:
            raise self.unsupported(node)
        if self.aggregates is None:
            message = f"the aggregate '{call}' cannot stand here; use it in SELECT or HAVING"
            raise SyntaxMistake(message, self.where(node))
        return column_of(call, self.aggregates)

    def aggregate(self, node: exp.Expr) -> AggregateCall | None:
        """The call a node stands for, None when it is no aggregate."""
        if isinstance(node, exp.Filter):
            return self._filtered(node)
        inner = _Reading(self.source, self.text, functions=self.functions)  # an aggregate of an aggregate is refused
        if isinstance(node, exp.CountIf):
            return AggregateCall("count", inner.only_where(inner.expr(node.this), Literal(1, pa.int32())))
        function, arguments = AGGREGATE_NODES.get(type(node)), [node.this, *node.expressions]
        if isinstance(node, exp.Anonymous) and node.name.lower() in ("mean", "std"):  # names sqlglot does not know
            function, arguments = node.name.lower(), node.expressions
        if function is None:
            return None
        if function in CHOOSING:
            return self._choosing(function, node, inner)
        argument = arguments[0] if len(arguments) == 1 else None
        distinct = isinstance(argument, exp.Distinct)
        if argument is None or (distinct and len(argument.expressions) != 1):
            raise SyntaxMistake(f"'{function}' takes one argument", self.where(node))
        if distinct:
            argument = argument.expressions[0]
            if function in ("min", "max"):
                distinct = False  # extremes of a set and of its values are the same
            elif function != "count":
                text = f"{function}(DISTINCT …) is not available; DISTINCT stands in count, min and max"
                raise SyntaxMistake(text, self.where(node))
        if isinstance(argument, exp.Star):
            if function != "count" or distinct:
                word = f"{function}({'DISTINCT ' if distinct else ''}*)"
                instead = "count(DISTINCT column)" if distinct else f"{function}(column)"
                raise SyntaxMistake(f"'{word}' is not available; write {instead}", self.where(node))
            return AggregateCall(function)
        operand = inner.expr(argument)
        is_constant = isinstance(operand, Literal) and operand.value is not None
        counts_rows = function == "count" and not distinct and is_constant
        return AggregateCall(function, None if counts_rows else operand, distinct)

    def _choosing(self, function: str, node: exp.Expr, inner: _Reading) -> AggregateCall:
        """`max_by(value, order)`; the order may be `struct(first, second, …)`."""
        order = node.args.get("expression")
        if order is None or node.args.get("count") or isinstance(node.this, exp.Distinct | exp.Star):
            raise SyntaxMistake(f"'{function}' takes a value and what orders it; write {function}(bidder, price)", self.where(node))
        parts = order.expressions if isinstance(order, exp.Struct) else [order]
        # sqlglot names the fields of a struct; names mean nothing in an order.
        parts = [part.expression if isinstance(part, exp.PropertyEQ) else part for part in parts]
        return AggregateCall(function, inner.expr(node.this), order=tuple(inner.expr(part) for part in parts))

    def _filtered(self, node: exp.Filter) -> AggregateCall | None:
        call = self.aggregate(node.this)
        if call is None:
            return None
        condition = _Reading(self.source, self.text, functions=self.functions).expr(node.expression.this)
        if call.order:
            # A row without order does not count.
            order = (self.only_where(condition, call.order[0]), *call.order[1:])
            return replace(call, order=order, name=default_name(call.function, call.argument, order=order))
        argument = self.only_where(condition, call.argument or Literal(1, pa.int32()))
        return replace(call, argument=argument, name=default_name(call.function, argument, call.distinct))

    @staticmethod
    def only_where(condition: Expr, value: Expr) -> Expr:
        return Call("case", (condition, value), place=condition.place)

    # Readers of single constructs, found through `_READERS`.

    def column(self, node: exp.Expr) -> Expr:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise self.unsupported(node)
        return Column(".".join(part.name for part in node.parts))

    def inner(self, node: exp.Expr) -> Expr:
        return self.expr(node.this)

    def literal(self, node: exp.Expr) -> Expr:
        if node.is_string:
            return Literal(node.this, pa.string())
        found = number(node.this)
        if found is None:
            fits = "a bigint" if node.this.isdigit() else "a double"
            raise SyntaxMistake(f"the number {shortened(node.this)} does not fit {fits}", self.where(node))
        return found

    def negated(self, node: exp.Expr) -> Expr:
        # The smallest bigint can only be written as the negation of a number that is too large.
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}") or self.literal(node.this)
        inner = self.expr(node.this)
        # What is not negative has a negation of the same type.
        if isinstance(inner, Literal) and inner.type in NUMBERS and inner.value is not None and inner.value >= 0:
            return replace(inner, value=-inner.value)
        return Call("neg", (inner,))

    def junction(self, node: exp.Expr) -> Expr:
        op = "and" if isinstance(node, exp.And) else "or"
        parts = [self.expr(part) for part in node.flatten()]
        return Call(op, tuple(parts))

    def is_(self, node: exp.Expr) -> Expr:
        what = node.expression
        if isinstance(what, exp.Null):
            return self.call("is_null", node.this)
        if isinstance(what, exp.Boolean):
            return Call("<=>", (self.expr(node.this), Literal(bool(what.this), pa.bool_())))
        raise self.unsupported(node)

    def is_distinct(self, node: exp.Expr) -> Expr:
        return Call("not", (self.call("<=>", node.this, node.expression),))

    def in_(self, node: exp.Expr) -> Expr:
        if not node.expressions:
            raise self.unsupported(node, "a list of values after IN")
        return self.call("in", node.this, *node.expressions)

    def between(self, node: exp.Expr) -> Expr:
        return self.call("between", node.this, node.args["low"], node.args["high"])

    def case(self, node: exp.Expr) -> Expr:
        subject = self.expr(node.this) if node.this else None
        parts: list[Expr] = []
        for branch in node.args["ifs"]:
            condition = self.expr(branch.this)
            parts += [Call("=", (subject, condition)) if subject else condition, self.expr(branch.args["true"])]
        default = node.args.get("default")
        return Call("case", (*parts, *([self.expr(default)] if default else [])))

    def if_(self, node: exp.Expr) -> Expr:
        return self.call("case", node.this, node.args["true"], node.args.get("false"))

    def null_if(self, node: exp.Expr) -> Expr:
        value, other = self.expr(node.this), self.expr(node.expression)
        return Call("case", (Call("=", (value, other)), Literal(None, pa.null()), value))

    def cast(self, node: exp.Expr) -> Expr:
        name = node.args["to"].sql(dialect="spark").lower()
        kind = SQL_TYPES.get(TYPE_SYNONYMS.get(name, name))
        if kind is None:
            if name.startswith("decimal"):
                raise SyntaxMistake(no_decimals("decimal"), self.where(node))
            raise SyntaxMistake(f"there is no type '{name}'; Penstock: {suggestion(name, SQL_TYPES)}", self.where(node))
        value = self.expr(node.this)
        if isinstance(value, Literal):
            folded = folded_cast(value, kind)
            if folded is not None:
                return folded
            if kind in (DATE, TIMESTAMP):  # other casts that fail are NULL, but nobody writes a moment to get NULL
                raise SyntaxMistake(f"'{value.value}' is no {name}; write 2026-01-31 or 2026-01-31 18:30:00", self.where(node))
        return Call("cast", (value,), kind)

    def interval(self, node: exp.Expr) -> Expr:
        exact = duration(f"{node.this.name if node.this else ''} {node.text('unit')}", is_signed=True)
        if exact is None:
            raise self.unsupported(node, f"INTERVAL with {', '.join(f'{unit}s' for unit in UNIT_MICROS)}")
        length = round(exact)
        if abs(length) >= 2**63:
            raise SyntaxMistake("the INTERVAL is longer than a timestamp can count", self.where(node))
        return Literal(length, pa.int64())

    def round(self, node: exp.Expr) -> Expr:
        return self.call("round", node.this, node.args.get("decimals"))

    def substring(self, node: exp.Expr) -> Expr:
        return self.call("substring", node.this, node.args.get("start"), node.args.get("length"))

    def trim(self, node: exp.Expr) -> Expr:
        if node.args.get("expression"):
            raise self.unsupported(node, "trim(text), which removes spaces")
        return self.call(TRIMS[str(node.args.get("position") or "").upper()], node.this)

    def date_trunc(self, node: exp.Expr) -> Expr:
        return Call("date_trunc", (Literal(node.text("unit").lower(), pa.string()), self.expr(node.this)))

    def extract(self, node: exp.Expr) -> Expr:
        part = node.name.lower()
        if part not in ("year", "month", "day", "hour", "minute", "second"):
            raise self.unsupported(node, "extract of year, month, day, hour, minute or second")
        return self.call(part, node.expression)

    def anonymous(self, node: exp.Expr) -> Expr:
        if (function := self.functions.get(node.name.lower())) is not None:
            return applied(function, *(self.expr(arg) for arg in node.expressions))
        match node.name.lower(), node.expressions:
            case "isnull", [only]:
                return self.call("is_null", only)
            case "isnotnull", [only]:
                return Call("not", (self.call("is_null", only),))
            case "timestamp_micros", [exp.Literal() | exp.Neg() as only]:
                return Literal(getattr(self.expr(only), "value", 0), SQL_TYPES["timestamp"])
        return self._aggregate_column(node)


def _without_date_cast(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


_READERS: dict[type[exp.Expr], Callable[[_Reading, exp.Expr], Expr]] = {
    exp.Column: _Reading.column,
    exp.Identifier: lambda reading, node: Column(node.name),
    exp.Paren: _Reading.inner,
    exp.Alias: _Reading.inner,
    exp.Literal: _Reading.literal,
    exp.Boolean: lambda reading, node: Literal(bool(node.this), pa.bool_()),
    exp.Null: lambda reading, node: Literal(None, pa.null()),
    exp.Neg: _Reading.negated,
    exp.And: _Reading.junction,
    exp.Or: _Reading.junction,
    exp.Is: _Reading.is_,
    exp.NullSafeNEQ: _Reading.is_distinct,
    exp.In: _Reading.in_,
    exp.Between: _Reading.between,
    exp.Case: _Reading.case,
    exp.If: _Reading.if_,
    exp.Nullif: _Reading.null_if,
    exp.Cast: _Reading.cast,
    exp.TryCast: _Reading.cast,
    exp.Interval: _Reading.interval,
    exp.Round: _Reading.round,
    exp.Substring: _Reading.substring,
    exp.DPipe: lambda reading, node: reading.call("concat", *node.flatten()),
    exp.Trim: _Reading.trim,
    exp.TimestampTrunc: _Reading.date_trunc,
    exp.Extract: _Reading.extract,
    exp.Anonymous: _Reading.anonymous,
}
