"""What is read of each node of sqlglot's tree; whatever else an author wrote is refused by name and place.

A parser for all dialects knows clauses and arguments that mean nothing here. The tables say which arguments of which nodes
the translators look at. One walk over the tree of a statement compares: a node that is not listed, or an argument that is set
and not listed, is a mistake. So nothing can be accepted and ignored, whatever a new release of the parser learns to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from penstock.errors import Place, SyntaxMistake
from penstock.expressions.aggregates import AGGREGATES
from penstock.expressions.nodes import FUNCTIONS
from penstock.expressions.words import AGGREGATE_NODES, BINARY, LISTED, UNARY
from penstock.model.nesting import DEEPEST_EXPRESSION, too_deep

Kind = type[exp.Expr]

#: Nodes that become one list when they stand inside each other.
_LISTS = (exp.And, exp.Or, exp.DPipe, exp.Union)
#: Nodes that hold a select as a source of rows.
_AROUND_SELECTS = (exp.From, exp.Join, exp.SetOperation, exp.Subquery)


@dataclass(frozen=True)
class Understood:
    """The tables of one language.

    Parameters
    ----------
    read
        Arguments that a translator looks at, by node.
    fixed
        Arguments that the parser sets by itself, with the only value that means what Penstock does.
    advice
        What an argument that is not read is called by its author, and what to write instead.
    refusals
        The same for nodes that are not read at all.
    """

    read: Mapping[Kind, frozenset[str]]
    fixed: Mapping[tuple[Kind, str], object]
    advice: Mapping[tuple[Kind, str], tuple[str, str]]
    refusals: Mapping[Kind, tuple[str, str]]

    def check(self, tree: exp.Expr, sql: str, place: Callable[[exp.Expr], Place | None], at: Callable[[int, int], Place]) -> None:
        """Raise at the first thing that nobody would read.

        Parameters
        ----------
        sql
            The whole text.
        place
            Where a node stands.
        at
            The place of characters of the text.
        """
        _refuse_deep(tree, place)
        # The name of a type is looked up as a whole.
        for node in tree.walk(prune=lambda part: isinstance(part, exp.DataType)):
            if type(node) not in self.read or self._is_misplaced(node):
                raise SyntaxMistake(self.refusal(node, sql), _nearest(node, place))
            for name, value in node.args.items():
                if self._is_unread(node, name, value):
                    what, instead = self._advice(node, name)
                    where = _place_of_value(value, place) or _place_of_word(what, node, sql, at) or _nearest(node, place)
                    scope = " on streams" if isinstance(node, exp.Query) else ""
                    raise SyntaxMistake(f"{what} is not available{scope}: {instead}", where)

    def _is_misplaced(self, node: exp.Expr) -> bool:
        """Whether it is a select inside an expression."""
        above = node.parent
        is_source = above is None or isinstance(above, _AROUND_SELECTS) or (isinstance(above, exp.Tuple) and above.parent is None)
        return isinstance(node, exp.Query) and not is_source

    def _is_unread(self, node: exp.Expr, name: str, value: object) -> bool:
        if value is None or value is False or value == []:
            return False
        if name == "except_":
            return not _is_item(node)
        if name in self.read[type(node)]:
            return False
        return (type(node), name) not in self.fixed or value != self.fixed[type(node), name]

    def _advice(self, node: exp.Expr, name: str) -> tuple[str, str]:
        for base in type(node).__mro__:
            if (base, name) in self.advice:
                return self.advice[base, name]
        if isinstance(node, exp.Func):
            return f"a further argument of {node.sql_name().lower()}", "leave it out"
        return f"{name.rstrip('_').replace('_', ' ').upper()} of {node.key.upper()}", "leave it out"

    def refusal(self, node: exp.Expr, sql: str = "") -> str:
        """The sentence for a node that cannot stand where it does."""
        for base in type(node).__mro__:
            if base in self.refusals:
                what, instead = self.refusals[base]
                return f"{what} is not available on streams: {instead}"
        if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Binary) and type(node) not in self.read:
            return unknown_function(_written_name(node, sql))
        return f"'{_written(node, sql) or node.key.upper()}' is not available here"


def _refuse_deep(tree: exp.Expr, place: Callable[[exp.Expr], Place | None]) -> None:
    """Raise where operations, or selects, stand inside each other beyond the limit."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST_EXPRESSION:
            raise SyntaxMistake(too_deep("the text"), place(node))
        for part in node.iter_expressions():
            is_same = isinstance(part, exp.Paren) or (isinstance(part, _LISTS) and type(part) is type(node))
            waiting.append((part, depth if is_same else depth + 1))


def _nearest(node: exp.Expr, place: Callable[[exp.Expr], Place | None]) -> Place | None:
    """The place of a node, or of the first one around it that has any."""
    around: exp.Expr | None = node
    while around is not None:
        if (found := place(around)) is not None:
            return found
        around = around.parent
    return None


def _is_item(star: exp.Expr) -> bool:
    """Whether a star, or `alias.*`, is an item of a select list."""
    outer = star.parent if isinstance(star.parent, exp.Column) else star
    return isinstance(outer.parent, exp.Select) and outer.arg_key == "expressions"


def unknown_function(name: str, own: Iterable[str] = ()) -> str:
    """The sentence for a call of something that is no function, with those that come near."""
    known = {known.lower(): known for known in (*FUNCTIONS, *AGGREGATES, "if", "nvl", "nullif", *own)}
    near = [known[each] for each in get_close_matches(name.lower(), known, n=3, cutoff=0.6)]
    hint = f"Did you mean {' or '.join(repr(each) for each in near)}?" if near else "Declare one of your own with CREATE FUNCTION."
    return f"there is no function '{name}'. {hint}"


def _written_name(node: exp.Func, sql: str) -> str:
    if sql and "start" in node.meta:
        return sql[node.meta["start"] : node.meta["end"] + 1].lower()
    return node.sql_name().lower()


def _written(node: exp.Expr, sql: str) -> str:
    """The words of a node, from the first to the last that has a place."""
    found = [part.meta for part in node.walk() if "start" in part.meta]
    return sql[min(meta["start"] for meta in found) : max(meta["end"] for meta in found) + 1] if found else ""


def _place_of_value(value: object, place: Callable[[exp.Expr], Place | None]) -> Place | None:
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, exp.Expr) and (found := place(part)) is not None:
            return found
    return None


def _place_of_word(what: str, node: exp.Expr, sql: str, at: Callable[[int, int], Place]) -> Place | None:
    """Where the words of a clause stand, at or behind the beginning of its node."""
    start = min((part.meta["start"] for part in node.walk() if "start" in part.meta), default=0)
    found = sql.upper().find(what.partition(" (")[0], start)
    return at(found, found + len(what.partition(" (")[0]) - 1) if found >= 0 else None


def _table(rows: Mapping[str, Iterable[Kind]]) -> Iterator[tuple[Kind, frozenset[str]]]:
    for names, kinds in rows.items():
        for kind in kinds:
            yield kind, frozenset(names.split())


_READ: dict[Kind, frozenset[str]] = dict(
    _table(
        {
            "": [exp.Null],
            "this": [
                *UNARY, *(exp.Paren, exp.Neg, exp.Boolean, exp.Var, exp.Where, exp.CountIf, exp.TsOrDsToDate),
                *(kind for kind in AGGREGATE_NODES if kind not in (exp.ArgMax, exp.ArgMin)),
            ],
            "this expression": [
                *BINARY, *(exp.And, exp.Or, exp.Is, exp.NullSafeNEQ, exp.Nullif, exp.DPipe, exp.Extract, exp.Filter),
                *(exp.ArgMax, exp.ArgMin, exp.PropertyEQ),
            ],
            "this expression negate": [exp.Like],
            "this expressions": [*LISTED, exp.In, exp.Anonymous, exp.Count],
            "expressions": [exp.Concat, exp.Distinct, exp.Struct, exp.Tuple],
            "this table db catalog": [exp.Column],
            "this quoted": [exp.Identifier],
            "this is_string": [exp.Literal],
            "this alias": [exp.Alias],
            "this low high": [exp.Between],
            "this ifs default": [exp.Case],
            "this true false": [exp.If],
            # A cast gives NULL where it fails, whether it is written CAST or TRY_CAST.
            "this to safe": [exp.Cast, exp.TryCast],
            "this unit": [exp.Interval, exp.TimestampTrunc],
            "this decimals": [exp.Round],
            "this start length": [exp.Substring],
            "this expression position": [exp.Trim],
            "this expressions nested": [exp.DataType],
            "except_": [exp.Star],
        }
    )
)  # fmt: skip
_FIXED: dict[tuple[Kind, str], object] = {
    (exp.Div, "safe"): True,
    (exp.Concat, "safe"): True,
    (exp.DPipe, "safe"): True,
    (exp.Count, "big_int"): True,
    (exp.Least, "ignore_nulls"): True,
    (exp.Greatest, "ignore_nulls"): True,
    (exp.Coalesce, "is_nvl"): True,
}
_ADVICE: dict[tuple[Kind, str], tuple[str, str]] = {
    (exp.Star, "replace"): ("REPLACE", "write * EXCEPT (column), and the new expression AS column beside it"),
    (exp.Star, "rename"): ("RENAME", "write * EXCEPT (column), and column AS name beside it"),
    (exp.Star, "except_"): ("EXCEPT", "it stands behind a star of the select list"),
    (exp.Star, "ilike"): ("ILIKE", "list the columns"),
    (exp.Distinct, "on"): ("DISTINCT ON", "group by these columns and choose the others with max_by(value, order) or min_by"),
    (exp.Between, "symmetric"): ("SYMMETRIC", "write BETWEEN least(a, b) AND greatest(a, b)"),
    (exp.Floor, "decimals"): ("FLOOR with a number of digits", "write floor(x * 100) / 100 for two of them"),
    (exp.Ceil, "decimals"): ("CEIL with a number of digits", "write ceil(x * 10) / 10 for one of them"),
    (exp.Floor, "to"): ("FLOOR TO", "write date_trunc('hour', column)"),
    (exp.Ceil, "to"): ("CEIL TO", "write date_trunc('hour', column) + INTERVAL 1 HOUR"),
    (exp.RegexpLike, "flag"): ("the flag of regexp_like", "write it into the pattern, as in '(?i)pattern'"),
    (exp.TimestampTrunc, "zone"): ("the zone of date_trunc", "timestamps are UTC; add the difference of the zone first"),
    (exp.Cast, "format"): ("FORMAT", "CAST reads one format; calculate with the parts of the text instead"),
    (exp.Cast, "default"): ("DEFAULT", "write coalesce(CAST(…), default)"),
    (exp.In, "query"): ("IN (SELECT …)", "write LEFT SEMI JOIN … ON instead, and LEFT ANTI JOIN … ON for NOT"),
    (exp.In, "unnest"): ("IN UNNEST", "write the values: IN (1, 2)"),
    (exp.In, "field"): ("IN without brackets", "write the values in brackets: IN (1, 2)"),
    (exp.Max, "expressions"): ("MAX with several arguments", "write greatest(a, b) for the larger of two values of a row"),
    (exp.Min, "expressions"): ("MIN with several arguments", "write least(a, b) for the smaller of two values of a row"),
    (exp.Column, "join_mark"): ("(+)", "write LEFT JOIN … ON"),
    (exp.Trim, "collation"): ("COLLATE", "texts are compared byte by byte"),
}
_JOIN_INSTEAD = "give it a name with CREATE CQ and join its rows: JOIN … ON"
_GROUP_INSTEAD = "group in a window: FROM s [RANGE 1 HOUR] GROUP BY …; MATCH_RECOGNIZE finds rows that follow each other"
_NO_CLOCK = "a repeated micro-batch would read another clock; compare with columns of the stream"
_REFUSALS: dict[Kind, tuple[str, str]] = {
    exp.Query: ("a select inside an expression", _JOIN_INSTEAD),
    exp.Exists: ("EXISTS (…)", "write LEFT SEMI JOIN … ON instead, and LEFT ANTI JOIN … ON for NOT"),
    exp.Any: ("ANY (…)", "write the conditions with OR"),
    exp.All: ("ALL (…)", "write the conditions with AND"),
    exp.SubqueryPredicate: ("a select inside a condition", "write LEFT SEMI JOIN … ON"),
    exp.Window: ("OVER (…)", _GROUP_INSTEAD),
    exp.WithinGroup: ("WITHIN GROUP", "use min, max or avg"),
    exp.IgnoreNulls: ("IGNORE NULLS", "put column IS NOT NULL into FILTER (WHERE …)"),
    exp.RespectNulls: ("RESPECT NULLS", "leave it out"),
    exp.Escape: ("ESCAPE", "write a backslash before the sign: LIKE '10\\\\%'"),
    exp.ILike: ("ILIKE", "write lower(column) LIKE 'pattern in small letters'"),
    exp.Collate: ("COLLATE", "texts are compared byte by byte; write lower(column) where case does not matter"),
    exp.IntervalSpan: ("an interval from one unit to another", "write the parts: INTERVAL '1 hour 30 minutes'"),
    exp.Bracket: ("an element in brackets", "flatten arrays and maps before they enter the stream"),
    exp.Lambda: ("a lambda", "declare a function with CREATE FUNCTION"),
    exp.Placeholder: ("a parameter", "write the value"),
    exp.Parameter: ("a parameter", "write the value"),
    exp.CurrentTimestamp: ("the present time", _NO_CLOCK),
    exp.CurrentDate: ("the present date", _NO_CLOCK),
    exp.Aliases: ("several names for one item", "give each item its own: a AS x, b AS y"),
}  # fmt: skip

#: Scalar expressions and aggregates.
EXPRESSIONS = Understood(_READ, _FIXED, _ADVICE, _REFUSALS)
