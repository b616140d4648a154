"""`MATCH_RECOGNIZE (…)` to a query for row patterns.

Names are resolved on sqlglot's tree, where every word has its place. What refers to rows of a match becomes a column named by
its text; navigation over an expression, as in `FIRST(A.price * A.volume)`, becomes the same navigation of every column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.errors import InvalidEventPattern, Place, SyntaxMistake, UnknownColumn, suggestion
from penstock.expressions.match_output import RowsPerMatch
from penstock.expressions.nodes import Expr
from penstock.expressions.parse import from_sqlglot
from penstock.expressions.row_queries import AfterMatch, RowQuery
from penstock.expressions.row_references import AGGREGATED, CLASSIFIER, MATCH_NUMBER, RowReference
from penstock.expressions.user_functions import UserFunction
from penstock.language.match_clauses import NAVIGATION, MatchText
from penstock.language.resolve import named
from penstock.language.syntax import Text, Word
from penstock.language.windows import length
from penstock.model.row_patterns import variables_of
from penstock.model.schema import Schema

#: Of the number of rows that FIRST, LAST and PREV go on.
_MOST_DIGITS = 9
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}


def row_query(
    match: MatchText, schema: Schema, order_by: str, clock: bool, text: Text, functions: Mapping[str, UserFunction] | None = None
) -> RowQuery:
    """The query a clause stands for.

    Parameters
    ----------
    schema
        Columns of the source.
    order_by
        Its column of event time.
    clock
        Whether that is clock time.
    """
    if match.pattern is None:
        raise SyntaxMistake("MATCH_RECOGNIZE has no PATTERN", match.place)
    _check_order(match, schema, order_by)
    reading = _Reading(schema, {name.lower(): name for name in variables_of(match.pattern)}, text, functions or {})
    subsets = tuple(reading.subset(name, members) for name, members in match.subsets)
    definitions = tuple(reading.definition(name, tree) for name, tree in match.definitions)
    _refuse_twins([name for name, _ in match.definitions], "DEFINE")
    _refuse_twins([name for name, _ in match.measures], "MEASURES")
    measures = tuple((name.text, reading.expression(tree, "")) for name, tree in match.measures)
    to, target = match.skip
    after = AfterMatch(to, reading.variable(target.text, target.place) if target else "")
    try:
        return RowQuery(
            match.pattern, tuple(_column(word, schema) for word in match.key), order_by, definitions, measures,
            tuple(reading.found.values()), RowsPerMatch.ALL if match.all_rows else RowsPerMatch.ONE, after,
            None if match.within is None else length(match.within, clock), subsets=subsets,
            omits_empty=match.omits_empty, shows_unmatched=match.shows_unmatched,
        )  # fmt: skip
    except InvalidEventPattern as error:
        raise error.at(error.place or match.pattern_place) from None


def _column(word: Word, schema: Schema) -> str:
    if word.text not in schema:
        raise UnknownColumn(schema.owner, word.text, schema.names, word.place)
    return schema[word.text].name


def _check_order(match: MatchText, schema: Schema, order_by: str) -> None:
    if not match.order_by:
        raise SyntaxMistake(f"MATCH_RECOGNIZE needs the order of the rows: write ORDER BY {order_by}", match.place)
    (first, is_falling), *more = match.order_by
    if _column(first, schema) != order_by or is_falling:
        raise SyntaxMistake(f"rows of a stream come in the order of event time; write ORDER BY {order_by}", first.place)
    if more:
        text = "ORDER BY takes the column of event time only; rows of equal time are in the order of arrival"
        raise SyntaxMistake(text, more[0][0].place)


def _refuse_twins(words: list[Word], clause: str) -> None:
    seen: set[str] = set()
    for word in words:
        if word.text.lower() in seen:
            raise SyntaxMistake(f"'{word.text}' stands twice in {clause}", word.place)
        seen.add(word.text.lower())


@dataclass(frozen=True)
class _Where:
    """What surrounds a column: the navigation that applies to it."""

    function: str = "last"
    offset: int = 0
    back: int = 0
    is_final: bool = False


@dataclass
class _Reading:
    """References of all expressions of one clause, by their text."""

    schema: Schema
    variables: Mapping[str, str]
    text: Text
    functions: Mapping[str, UserFunction]
    subsets: dict[str, str] = field(default_factory=dict)
    found: dict[str, RowReference] = field(default_factory=dict)
    #: The variable being defined; empty in measures.
    _tried: str = ""

    def definition(self, name: Word, tree: exp.Expr) -> tuple[str, Expr]:
        if name.text.lower() in self.subsets:
            raise InvalidEventPattern(f"'{name.text}' is a SUBSET of variables; define each of them", name.place)
        variable = self.variable(name.text, name.place)
        return variable, self.expression(tree, variable)

    def subset(self, name: Word, members: list[Word]) -> tuple[str, tuple[str, ...]]:
        """A name for several variables, from here on known."""
        if name.text.lower() in (*self.variables, *self.subsets):
            raise InvalidEventPattern(f"'{name.text}' has a meaning already; give the SUBSET another name", name.place)
        for member in members:
            if member.text.lower() in self.subsets:
                raise InvalidEventPattern(f"a SUBSET has variables; list those of '{member.text}' here", member.place)
        listed = tuple(dict.fromkeys(self.variable(member.text, member.place) for member in members))
        self.subsets[name.text.lower()] = name.text
        return name.text, listed

    def variable(self, name: str, place: Place | None) -> str:
        """A variable of the pattern, or a subset, as it is spelled there."""
        names = {**self.variables, **self.subsets}
        if name.lower() not in names:
            raise InvalidEventPattern(f"the pattern has no variable '{name}'; {suggestion(name, list(names.values()))}", place)
        return names[name.lower()]

    def expression(self, tree: exp.Expr, tried: str) -> Expr:
        self._tried = tried
        return self._read(self._replaced(tree, self._rewritten))

    def _read(self, tree: exp.Expr) -> Expr:
        return from_sqlglot(tree, self.text.source, self.text.sql, self.functions)

    def _replaced(self, tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
        """A copy in which the uppermost nodes that `change` has an answer for are replaced."""
        result = change(tree)
        if result is not None:
            return result
        copy = tree.copy()
        for child in list(copy.iter_expressions()):
            new = self._replaced(child, change)
            if new is not child:
                child.replace(new)
        return copy

    def _rewritten(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return self._navigated(node, _Where())
        if isinstance(node, exp.Anonymous) and node.name.upper() in NAVIGATION:
            return self._function(node)
        if type(node) in _AGGREGATES:
            return self._aggregate(node)
        return None

    def _noted(self, ref: RowReference, like: exp.Expr) -> exp.Expr:
        self.found[str(ref)] = ref
        return named(str(ref), like)

    # -- single rows --------------------------------------------------------------------------------------------------

    def _navigated(self, column: exp.Column, where: _Where) -> exp.Expr:
        variable, attribute = self._split(column)
        ref = RowReference(variable, attribute, where.function, where.offset, where.back, where.is_final)
        return self._noted(ref, column)

    def _split(self, column: exp.Column) -> tuple[str, str]:
        """Variable and column of a name; a star has no column."""
        variable = self.variable(column.table, self.text.place_of(column.args["table"])) if column.table else ""
        if isinstance(column.this, exp.Star):
            return variable, ""
        if column.name not in self.schema:
            place = self.text.place_of(column.this)
            raise UnknownColumn(self.schema.owner, column.name, self.schema.names, place)
        return variable, self.schema[column.name].name

    def _function(self, node: exp.Anonymous) -> exp.Expr:
        name = node.name.upper()
        if name == "CLASSIFIER":
            return self._classifier(node)
        if name == "MATCH_NUMBER":
            if node.expressions:
                raise self._mistake("MATCH_NUMBER() takes no argument", node)
            return self._noted(RowReference(function=MATCH_NUMBER, is_final=_is_final(node)), node)
        inner, where = self._unwrapped(node)
        columns = list(inner.find_all(exp.Column))
        if not columns or any(type(part) in _AGGREGATES for part in inner.walk()):
            raise self._mistake(f"{name} takes a column, or an expression over columns of one row", node)
        if len({column.table.lower() for column in columns}) > 1:
            raise self._mistake(f"{name} finds one row; its columns must belong to one variable", node)
        return exp.Paren(
            this=self._replaced(inner, lambda part: self._navigated(part, where) if isinstance(part, exp.Column) else None)
        )

    def _classifier(self, node: exp.Anonymous) -> exp.Expr:
        """The variable that took the last row, or the last row of a variable."""
        given = node.expressions[0] if len(node.expressions) == 1 else None
        is_name = isinstance(given, exp.Column) and not given.table
        if node.expressions and not is_name:
            raise self._mistake("CLASSIFIER takes nothing, or a variable or SUBSET of the pattern", node)
        if self._tried and given is not None:
            raise self._mistake("CLASSIFIER of a variable is for MEASURES; in DEFINE name the variable itself", node)
        if self._tried:
            return exp.Literal.string(self._tried)
        variable = self.variable(given.name, self.text.place_of(given)) if given is not None else ""
        return self._noted(RowReference(variable, function=CLASSIFIER, is_final=_is_final(node)), node)

    def _unwrapped(self, node: exp.Expr) -> tuple[exp.Expr, _Where]:
        """The expression inside FIRST, LAST and PREV, and where they lead."""
        if not (isinstance(node, exp.Anonymous) and node.name.upper() in NAVIGATION):
            return node, _Where()
        name = node.name.upper()
        if name == "NEXT":
            raise self._mistake(
                "NEXT looks at rows that have not come yet; name the later row in the pattern, or use PREV there", node
            )
        if not 1 <= len(node.expressions) <= 2 or name in ("CLASSIFIER", "MATCH_NUMBER"):
            raise self._mistake(f"{name} takes a column and, if you like, how many rows to go on", node)
        inner, where = self._unwrapped(node.expressions[0])
        steps = self._steps(node)
        if name == "PREV":
            if where.back:
                raise self._mistake("PREV inside PREV; add the numbers of rows", node)
            return inner, replace(where, back=1 if steps is None else steps, is_final=where.is_final or _is_final(node))
        if where != _Where():
            raise self._mistake(f"{name} stands inside PREV, not around another of them", node)
        return inner, _Where(name.lower(), steps or 0, 0, _is_final(node))

    def _steps(self, node: exp.Anonymous) -> int | None:
        if len(node.expressions) < 2:
            return None
        steps = node.expressions[1]
        is_number = isinstance(steps, exp.Literal) and not steps.is_string and steps.name.isdecimal()
        if not is_number or len(steps.name) > _MOST_DIGITS:
            raise self._mistake(f"how many rows {node.name} goes on must be a whole number, 0 or more", node)
        return int(steps.name)

    # -- aggregates -----------------------------------------------------------------------------------------------------

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        function = _AGGREGATES[type(node)]
        argument = node.this
        if isinstance(argument, exp.Distinct) or argument is None or node.expressions:
            raise self._mistake(f"{function.upper()} over the rows of a match takes one argument, without DISTINCT", node)
        columns = list(argument.find_all(exp.Column))
        owners = {self._split(column)[0] for column in columns}
        if len(owners) > 1:
            raise self._mistake(f"{function.upper()} runs over the rows of one variable; its columns belong to several", node)
        if any(isinstance(part, exp.Anonymous) and part.name.upper() in NAVIGATION for part in argument.walk()):
            raise self._mistake(f"{function.upper()} takes columns of the rows it runs over, without FIRST, LAST and PREV", node)
        variable = next(iter(owners), "")
        is_star = isinstance(argument, exp.Star) or (isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star))
        if is_star and function != "count":
            raise self._mistake(f"{function.upper()} needs a column", node)
        value = None if is_star else self._read(self._replaced(argument, self._bare))
        assert function in AGGREGATED
        return self._noted(RowReference(variable, function=function, is_final=_is_final(node), argument=value), node)

    def _bare(self, node: exp.Expr) -> exp.Expr | None:
        return named(self._split(node)[1], node) if isinstance(node, exp.Column) else None

    def _mistake(self, message: str, node: exp.Expr) -> SyntaxMistake:
        return SyntaxMistake(message, self.text.place_of(node))


def _is_final(node: exp.Expr) -> bool:
    return node.meta.get("semantics") == "FINAL"
