"""What an author writes is read or refused: no clause, argument or node of the parser is accepted and ignored."""

from __future__ import annotations

import inspect

import pytest
import sqlglot
from marked_mistakes import refused
from sqlglot import exp

from penstock.errors import Place, SyntaxMistake
from penstock.expressions.accepted_syntax import EXPRESSIONS
from penstock.expressions.parse import parse
from penstock.expressions.strict import Expressions
from penstock.language.accepted_syntax import STATEMENTS
from penstock.language.application import parse_application
from penstock.language.dialect import Penstock
from penstock.plan.describe import tree

STREAMS = """
CREATE STREAM s (a BIGINT, b BIGINT, t STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 5 SECONDS);
CREATE STREAM r (b BIGINT, a BIGINT, u STRING, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 5 SECONDS);
"""
NOWHERE = Place("the text")

REFUSED = [
    ("SELECT * REPLACE (a AS «b») FROM s", "REPLACE is not available: write * EXCEPT (column)"),
    ("SELECT * RENAME (a AS «b») FROM s", "RENAME is not available: write * EXCEPT (column)"),
    ("SELECT * EXCEPT (a, «a») FROM s", "stands twice in EXCEPT"),
    ("SELECT «*» EXCEPT (a, b, t, ts) FROM s", "EXCEPT leaves no column"),
    ("SELECT count(* EXCEPT («a»)) FROM s [RANGE 1 MINUTE]", "it stands behind a star of the select list"),
    ("SELECT DISTINCT ON («a») a FROM s", "DISTINCT ON is not available: group by these columns"),
    ("SELECT «COUNT»(DISTINCT *) FROM s [RANGE 1 MINUTE]", "'count(DISTINCT *)' is not available; write count(DISTINCT column)"),
    ("SELECT «SUM»(*) FROM s [RANGE 1 MINUTE]", "'sum(*)' is not available; write sum(column)"),
    ("SELECT «window_start»(5) FROM s [RANGE 1 MINUTE] GROUP BY a", "window_start() takes no argument"),
    ("SELECT a FROM s WHERE a BETWEEN «SYMMETRIC» 1 AND 2", "write BETWEEN least(a, b) AND greatest(a, b)"),
    ("SELECT floor(a, «2») AS x FROM s", "write floor(x * 100) / 100 for two of them"),
    ("SELECT ceil(a, «1») AS x FROM s", "write ceil(x * 10) / 10 for one of them"),
    ("SELECT round(a, 1, «2») AS x FROM s", "a further argument of round is not available"),
    ("SELECT regexp_like(t, 'p', «'i'») AS x FROM s", "the flag of regexp_like is not available: write it into the pattern"),
    ("SELECT date_trunc('day', ts, «'Europe/Paris'») AS x FROM s", "date_trunc has no use for 'Europe/Paris'; leave it out"),
    ("SELECT CAST(a AS STRING FORMAT «'x'») AS x FROM s", "FORMAT is not available"),
    ("SELECT a FROM s CONNECT BY «a» = b", "CONNECT BY is not available on streams"),
    ("SELECT a FROM s START WITH a = «1» CONNECT BY a = b", "CONNECT BY is not available on streams"),
    ("SELECT a FROM s «PARTITION» (p)", "PARTITION is not available here"),
    ("SELECT a FROM s «FINAL»", "for an alias write AS FINAL"),
    ("SELECT a FROM s «OPTION» (x)", "OPTION is not available here"),
    ("SELECT a FROM s «FOR UPDATE»", "FOR UPDATE is not available on streams"),
    ("SELECT x FROM s y(«x»)", "'y' has 4 columns (a, b, t, ts) and is given 1 names"),
    ("SELECT x FROM s y(x, «x», z, ts)", "'x' stands twice behind 'y'"),
    ("SELECT a«,» FROM s", "nothing stands on one side of this comma"),
    ("SELECT a«,»,b FROM s", "nothing stands on one side of this comma"),
    ("SELECT coalesce(a«,») AS x FROM s", "nothing stands on one side of this comma"),
    ("SELECT a FROM s WHERE a IN (1«,»)", "nothing stands on one side of this comma"),
    ("SELECT count(*) FROM s [RANGE 1 MINUTE,«]»", "found ']' behind the comma"),
    ("SELECT a FROM s «|>» WHERE a > 1", "|> is not available"),
    ("SELECT a FROM s GROUP BY a WITH «ROLLUP»", "ROLLUP is not available"),
    ("SELECT a FROM s «GROUP BY ALL»", "GROUP BY ALL is not available: list the columns"),
    ("SELECT s.a FROM s JOIN r USING («a»)", "USING is not available: write JOIN … ON a.x = b.y"),
    ("SELECT t LIKE 'a!%' ESCAPE «'!'» AS x FROM s", "ESCAPE is not available"),
    ("SELECT (SELECT «max»(a) FROM s) AS m FROM s", "a select inside an expression is not available"),
    ("SELECT a FROM s WHERE a > (SELECT «max»(b) FROM r)", "a select inside an expression is not available"),
    ("SELECT «sum»(a) OVER (PARTITION BY b) AS x FROM s", "OVER (…) is not available on streams: group in a window"),
    ("SELECT «/*+ BROADCAST(r) */» a FROM s", "BROADCAST is a hint for Spark's own joins"),
    ("SELECT a, b, «t» FROM s UNION ALL BY NAME SELECT b, a, u FROM r", "only one of the selects has a column 't'"),
    ("SELECT a, b FROM s UNION ALL SELECT «a» FROM r", "different numbers of columns: the first has 2 (a, b), the other 1 (a)"),
    ("SELECT a, b FROM s UNION ALL SELECT a, «u» FROM r", "column 2 of the UNION is BIGINT ('b') and STRING ('u')"),
    ("SELECT n FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES «FINAL» abs(A.a) AS n PATTERN (A) DEFINE A AS a > 1)", "FINAL stands"),
    ("SELECT n FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES «COUNT»(A.a, A.b) AS n PATTERN (A) DEFINE A AS a > 1)", "one argument"),
    (
        "SELECT n FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS n PATTERN (A) DEFINE A AS a BETWEEN «SYMMETRIC» 1 AND 2)",
        "SYMMETRIC is not available",
    ),
    ("EVENT SEQ(s x, r y) WHERE x.a BETWEEN «SYMMETRIC» 1 AND 2 WITHIN 1 MINUTE", "SYMMETRIC is not available"),
    ("EVENT SEQ(s x[a BETWEEN «SYMMETRIC» 1 AND 2], r y) WITHIN 1 MINUTE", "SYMMETRIC is not available"),
    ("EVENT SEQ(s x, r y) WITHIN 1 MINUTE RETURN floor(x.a, «2») AS z", "FLOOR with a number of digits is not available"),
    ("EVENT SEQ(s x, r y) WITHIN 1 MINUTE OPTIONS (order 'total', ORDER «'timestamp'»)", "option 'ORDER' stands twice"),
    ("SELECT a FROM s OUTPUT TO json OPTIONS (path 'x', Path «'y'»)", "option 'Path' stands twice"),
]
DECLARATIONS = [
    ("CREATE STREAM z (a INT) PUNCTUATE a WHEN a BETWEEN «SYMMETRIC» 1 AND 2", "SYMMETRIC is not available"),
    ("CREATE STREAM z (a BIGINT, WATERMARK a DELAY OF 0, «WATERMARK» a DELAY OF 5)", "this clause stands twice"),
    ("CREATE STREAM z (a INT) USING json OPTIONS (path 'a', path «'b'»)", "option 'path' stands twice"),
    ("CREATE STREAM z (a BIGINT«(»20))", "BIGINT takes no length"),
    ("CREATE STREAM z (a «DECIMAL»(10, 2))", "DECIMAL is not available: numbers with a point are DOUBLE"),
]


@pytest.mark.parametrize(("marked", "message"), REFUSED)
def test_syntax_without_meaning_is_refused_where_it_stands(marked: str, message: str) -> None:
    code = "plan.invalid" if "UNION ALL" in marked else "language.syntax"
    refused(f"{STREAMS}CREATE CQ q AS {marked}", code, message)


@pytest.mark.parametrize(("marked", "message"), DECLARATIONS)
def test_declarations_without_meaning_are_refused_where_they_stand(marked: str, message: str) -> None:
    refused(marked, "language.syntax", message)


SAME = [
    ("SELECT * EXCEPT (a) FROM s", "SELECT b, t, ts FROM s"),
    ("SELECT * EXCLUDE (s.a, T) FROM s", "SELECT b, ts FROM s"),
    (
        "SELECT x.* EXCEPT (a, ts), y.u FROM s [RANGE 1 MINUTE] x, r [RANGE 1 MINUTE] y WHERE x.a = y.a",
        "SELECT x.b, x.t, y.u FROM s [RANGE 1 MINUTE] x, r [RANGE 1 MINUTE] y WHERE x.a = y.a",
    ),
    (
        "SELECT k + 1 AS x FROM s y(k, l, m, n) WHERE l > 2",
        "SELECT k + 1 AS x FROM (SELECT a AS k, b AS l, t AS m, ts AS n FROM s) WHERE l > 2",
    ),
    ("SELECT y.k FROM (SELECT a, b FROM s) y(k, l)", "SELECT y.k FROM (SELECT a AS k, b AS l FROM (SELECT a, b FROM s)) y"),
    (
        "SELECT a, t FROM s UNION ALL BY NAME SELECT u AS t, b AS a FROM r",
        "SELECT a, t FROM s UNION ALL SELECT a, t FROM (SELECT u AS t, b AS a FROM r)",
    ),
    ("SELECT FINAL.a FROM s AS FINAL", "SELECT x.a FROM s x"),
    ("SELECT ALL a FROM s", "SELECT a FROM s"),
]


@pytest.mark.parametrize(("written", "meant"), SAME)
def test_what_is_read_means_what_it_says(written: str, meant: str) -> None:
    plans = [parse_application(f"{STREAMS}CREATE CQ q AS {text}").queries["q"].plan for text in (written, meant)]
    assert tree(plans[0]) == tree(plans[1])


# -- every node and argument the parser has --------------------------------------------------------------------------------

KINDS = sorted(
    {kind for kind in vars(exp).values() if inspect.isclass(kind) and issubclass(kind, exp.Expression)},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("table", [EXPRESSIONS, STATEMENTS])
def test_every_argument_of_every_node_is_read_or_refused(table) -> None:
    """Also those that a later release of the parser adds: nothing is understood unless a table says so."""
    for kind in KINDS:
        if kind not in table.read:
            assert is_refused(table, kind()), kind
        for name in kind.arg_types:
            if kind not in table.read or name not in table.read[kind]:
                assert is_refused(table, kind(**{name: exp.Literal.number(1)})), (kind, name)
                assert is_refused(table, kind(**{name: [exp.Literal.number(1)]})), (kind, name)
                assert is_refused(table, kind(**{name: "WORD"})), (kind, name)


def is_refused(table, node: exp.Expr) -> bool:
    try:
        table.check(node, "", lambda _: NOWHERE, lambda *_: NOWHERE)
    except SyntaxMistake:
        return True
    return False


def test_the_tables_name_arguments_that_exist() -> None:
    for kind, names in STATEMENTS.read.items():
        assert names <= set(kind.arg_types), kind
    for kind, name in STATEMENTS.fixed:
        assert name in kind.arg_types, kind


@pytest.mark.parametrize("dialect", [Expressions, Penstock])
def test_no_argument_of_a_function_is_dropped(dialect) -> None:
    """Builders of functions take the arguments they know: all others must be refused before the tree is looked at."""
    parser = dialect().parser()
    names = sorted({*parser.FUNCTIONS, *parser.FUNCTION_PARSERS})
    for name in names:
        for count in range(1, 7):
            arguments = [f"arg{position}" for position in range(count)]
            try:
                node = sqlglot.parse_one(f"{name}({', '.join(arguments)})", dialect=dialect)
            except (sqlglot.ParseError, SyntaxMistake):
                continue
            if not is_refused(EXPRESSIONS, node):
                kept = {part.name.lower() for part in node.walk()}
                assert kept >= set(arguments), (name, count)


def test_expressions_that_stand_alone_are_checked_too() -> None:
    for text in ("floor(a, 2)", "a BETWEEN SYMMETRIC 1 AND 2", "coalesce(a,)", "date_trunc('day', a, 'zone')", "a + (SELECT 1)"):
        with pytest.raises(SyntaxMistake):
            parse(text)
