"""What is read of a statement: the tables of selects, and the walk over everything a statement holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from sqlglot import exp

from penstock.errors import Place
from penstock.expressions.accepted_syntax import EXPRESSIONS, Kind, Understood
from penstock.language.syntax import Text

_READ: dict[Kind, frozenset[str]] = {
    exp.Select: frozenset({"expressions", "hint", "distinct", "from_", "joins", "where", "group", "having"}),
    exp.Union: frozenset({"this", "expression", "distinct", "by_name"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.From: frozenset({"this"}),
    exp.Join: frozenset({"this", "on", "side", "kind", "method"}),
    exp.Table: frozenset({"this", "alias"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Group: frozenset({"expressions"}),
    exp.Having: frozenset({"this"}),
    exp.Hint: frozenset({"expressions"}),
    exp.JoinHint: frozenset({"this", "expressions"}),
}
_LAST = "a stream has no last row; "
#: Clauses that stand behind a select, a union or a select in brackets.
_CLAUSES = {
    "with_": ("WITH", "give the inner select a name with CREATE CQ"),
    "order": ("ORDER BY", f"{_LAST}answers come in the order of time"),
    "limit": ("LIMIT", f"{_LAST}end the query with END"),
    "offset": ("OFFSET", "a stream has no first row; start the query with BEGIN"),
    "qualify": ("QUALIFY", "use HAVING over a grouping"),
    "windows": ("WINDOW", "put the window in brackets behind the stream: FROM s [RANGE 1 HOUR]"),
    "laterals": ("LATERAL VIEW", "flatten the rows before they enter the stream"),
    "sort": ("SORT BY", "answers come in the order of time"),
    "cluster": ("CLUSTER BY", "answers come in the order of time"),
    "distribute": ("DISTRIBUTE BY", "Penstock places rows itself"),
    "sample": ("TABLESAMPLE", "use a condition in WHERE"),
    "into": ("INTO", "use OUTPUT TO"),
    "connect": ("CONNECT BY", "rows that follow each other are found by MATCH_RECOGNIZE"),
    "locks": ("FOR UPDATE", "nobody changes rows of a stream"),
    "pivots": ("PIVOT", "write one aggregate with FILTER (WHERE …) for each column"),
    "prewhere": ("PREWHERE", "use WHERE"),
    "kind": ("SELECT AS", "list the columns"),
    "exclude": ("EXCLUDE", "write it behind the star: * EXCEPT (column)"),
    "options": ("OPTION", "leave it out; options of a destination stand in OUTPUT TO format OPTIONS (…)"),
    "settings": ("SETTINGS", "leave it out"),
    "format": ("FORMAT", "use OUTPUT TO json, csv, …"),
    "for_": ("FOR", "use OUTPUT TO json"),
    "operation_modifiers": ("a modifier of SELECT", "leave it out"),
    "joins": ("JOIN", "join the sources inside the brackets, or select from each"),
    "where": ("WHERE", "write it inside the select"),
    "group": ("GROUP BY", "write it inside the select"),
    "having": ("HAVING", "write it inside the select"),
}
_ADVICE: dict[tuple[Kind, str], tuple[str, str]] = {
    **{(exp.Query, name): told for name, told in _CLAUSES.items()},
    (exp.SetOperation, "side"): ("a side of UNION", "write UNION or UNION ALL"),
    (exp.SetOperation, "kind"): ("a kind of UNION", "write UNION or UNION ALL"),
    (exp.SetOperation, "on"): ("UNION … ON", "write UNION ALL BY NAME"),
    (exp.Join, "using"): ("USING", "write JOIN … ON a.x = b.y"),
    (exp.Join, "hint"): ("a hint of a join", "write it behind SELECT: /*+ PJOIN */"),
    (exp.Join, "match_condition"): ("MATCH_CONDITION", "write JOIN … ON with a window on each source"),
    (exp.Group, "all"): ("GROUP BY ALL", "list the columns"),
    (exp.Group, "rollup"): ("ROLLUP", "list the columns; each level of totals is a query of its own"),
    (exp.Group, "cube"): ("CUBE", "list the columns; each level of totals is a query of its own"),
    (exp.Group, "grouping_sets"): ("GROUPING SETS", "list the columns; each set is a query of its own"),
    (exp.Group, "totals"): ("TOTALS", "list the columns; each level of totals is a query of its own"),
}
_REFUSALS: dict[Kind, tuple[str, str]] = {
    exp.Except: ("EXCEPT", "UNION is; write LEFT ANTI JOIN … ON"),
    exp.Intersect: ("INTERSECT", "UNION is; write LEFT SEMI JOIN … ON"),
    exp.Values: ("VALUES", "declare a stream and hand its rows in"),
    exp.Lateral: ("LATERAL", "flatten the rows before they enter the stream"),
}

STATEMENTS = Understood(
    {**EXPRESSIONS.read, **_READ},
    EXPRESSIONS.fixed,
    {**EXPRESSIONS.advice, **_ADVICE},
    {**EXPRESSIONS.refusals, **_REFUSALS},
)


def refuse_unread(statement: object, text: Text, here: Place) -> None:
    """Raise at the first word of a statement that means nothing to Penstock, or, where it has no place, at `here`."""
    for tree in _trees(statement):
        STATEMENTS.check(tree, text.sql, lambda node: text.place_of(node) or (None if node.parent else here), text.place)


def _trees(part: object) -> Iterator[exp.Expr]:
    """All trees of a statement, those hidden beside sources included."""
    if isinstance(part, exp.Expr):
        yield part
        for node in part.walk():
            for hidden in node.meta.values():
                yield from _trees(hidden)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _trees(each)
    elif is_dataclass(part) and not isinstance(part, type):
        for each in fields(part):
            yield from _trees(getattr(part, each.name))
