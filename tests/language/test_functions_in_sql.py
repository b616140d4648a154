"""Functions of Python in SQL: declared once, typed, and evaluated by Python only."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import FunctionFailed, FunctionMisbehaved, InvalidDeclaration, SyntaxMistake, TypeMistake, UserError
from penstock.expressions.evaluate import compile, evaluate
from penstock.expressions.nodes import Expr
from penstock.expressions.parse import parse
from penstock.expressions.user_functions import FunctionKind, UserFunction, applications
from penstock.language.application import parse_application
from penstock.model.schema import Schema

STREAM = "CREATE STREAM s (k BIGINT, t STRING, x DOUBLE, ts BIGINT, WATERMARK ts DELAY OF 0);"
ROWS = pa.RecordBatch.from_pydict({"t": ["a", "abc", None, ""], "n": [0, 2, 1, None]})


def declared(options: str, head: str = "f(x BIGINT) RETURNS BIGINT") -> UserFunction:
    return parse_application(f"CREATE FUNCTION {head} USING python OPTIONS ({options})").functions["f"]


def longer(kind: str) -> dict[str, UserFunction]:
    head = "f(text STRING, least BIGINT) RETURNS BOOLEAN"
    return {"f": declared(f"callable 'sql_functions:longer_{kind}', kind '{kind}'", head)}


def query(text: str, function: str = "longer(a STRING, b BIGINT) RETURNS BOOLEAN") -> Expr:
    options = "callable 'sql_functions:longer_pandas'"
    catalog = parse_application(f"{STREAM} CREATE FUNCTION {function} USING python OPTIONS ({options}); CREATE CQ q AS {text}")
    plan: Any = catalog.queries["q"].plan
    return plan.input.condition


@pytest.mark.parametrize("kind", ["pandas", "arrow", "rows"])
def test_every_kind_of_function_gives_the_same_column_and_travels(kind: str) -> None:
    expr = parse("f(t, n)", functions=longer(kind))
    compiled = pickle.loads(pickle.dumps(compile(expr, Schema.from_arrow(ROWS.schema))))
    # A pandas function sees NULL numbers as NaN, and compares with them; the others say NULL themselves.
    expected = [True, True, False, False] if kind == "pandas" else [True, True, None, None]
    assert compiled(ROWS).to_pylist() == expected
    assert compiled(ROWS.slice(0, 0)).to_pylist() == []


def test_a_function_stands_inside_other_expressions_and_takes_expressions() -> None:
    functions = longer("arrow")
    expr = parse("NOT f(concat(t, 'xy'), n + 1) OR n = 0", functions=functions)
    assert str(expr) == "NOT f(concat(t, 'xy'), n + 1) OR n = 0"
    assert evaluate(expr, ROWS).to_pylist() == [True, False, None, None]
    assert evaluate(parse("f('abc', 2)", functions=functions), ROWS).to_pylist() == [True] * 4
    assert [call.function.name for call in applications(expr)] == ["f"]


def test_names_of_functions_are_compared_without_case_and_numbers_widen() -> None:
    assert str(query("SELECT k FROM s WHERE LONGER(t, 3)")) == "longer(t, 3)"


def test_functions_are_usable_in_select_lists_groups_and_having() -> None:
    catalog = parse_application(
        f"""
        {STREAM}
        CREATE FUNCTION size(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
        CREATE CQ listed AS SELECT size(t) + 1 AS n FROM s;
        CREATE CQ grouped AS SELECT size(t) AS n, sum(size(t)) AS total FROM s [RANGE 9] GROUP BY size(t) HAVING max(size(t)) > 2;
    """.replace("size(", "text_size(")
    )
    assert [str(item.type) for item in catalog.queries["listed"].plan.schema] == ["int32"]
    assert catalog.queries["grouped"].plan.schema.names == ("n", "total")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT k FROM s WHERE longer(k, 3)", TypeMistake, "it takes a string, b bigint"),
        ("SELECT k FROM s WHERE longer(t, x)", TypeMistake, "'longer' is given string, double"),
        ("SELECT k FROM s WHERE longer(t)", TypeMistake, "'longer' takes 2 arguments and is given 1"),
        ("SELECT k FROM s WHERE longer(t, 3) + 1 = 2", TypeMistake, "it takes numbers"),
        ("SELECT k FROM s WHERE langer(t, 3)", SyntaxMistake, "Did you mean 'longer'?"),
        ("SELECT k FROM s WHERE longer(z, 3)", UserError, "no column 'z'"),
    ],
)
def test_a_call_is_checked_where_it_stands(text: str, error: type[UserError], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(").replace("?", r"\?")) as caught:
        query(text)
    assert caught.value.place is not None


def test_the_number_of_arguments_and_types_are_as_declared() -> None:
    function = declared("callable 'math:sqrt', kind 'rows', cost 0.5, profilable false", "f(x DOUBLE) RETURNS DOUBLE")
    assert function == UserFunction(
        "f", (("x", pa.float64()),), pa.float64(), "math:sqrt", FunctionKind.ROWS, 0.5, (), profilable=False
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("«f»(x BIGINT) RETURNS BIGINT USING python", "add OPTIONS (callable 'module:function')"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'nowhere:f')", "cannot be imported"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:nothing')", "cannot be imported"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'sql_functions:NO_FUNCTION')", "is a int"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', speed 3)", "there is no option 'speed'"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', kind 'panda')", "Did you mean 'pandas'?"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', cost -1)", "write seconds per row"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', cost 'expensive')", "write seconds per row"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', profilable 'no')", "expected true or false"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', deterministic false)", "repeated micro-batch"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', after 'y <> 0')", "has no column 'y'"),
        ("«f»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt', after 'x + 1')", "must be true or false"),
        ("f(x BIGINT) RETURNS BIGINT USING «java» OPTIONS (callable 'math:sqrt')", "expected python"),
        ("f(x «BIG») RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt')", "as the type of a parameter"),
        ("f(x INT, «X» INT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt')", "parameter 'X' is declared twice"),
        ("f(x INT) RETURNS «BIG» USING python OPTIONS (callable 'math:sqrt')", "after RETURNS"),
        ("f(x INT) «RETURN» INT USING python OPTIONS (callable 'math:sqrt')", "expected RETURNS"),
        ("f(x INT) RETURNS INT «OPTIONS» (callable 'math:sqrt')", "expected USING python"),
        ("f(«)» RETURNS INT USING python OPTIONS (callable 'math:sqrt')", "expected a parameter"),
        ("«round»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt')", "is a word of SQL already"),
        ("«md5»(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:sqrt')", "is a word of SQL already"),
    ],
)
def test_a_wrong_declaration_of_a_function_is_refused_at_its_word(statement: str, message: str) -> None:
    marked = f"CREATE FUNCTION {statement}"
    with pytest.raises(UserError) as caught:
        parse_application(marked.replace("«", "").replace("»", ""))
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == marked.index("«") + 1


def test_a_function_is_declared_once_and_may_be_called_like_a_stream() -> None:
    one = "CREATE FUNCTION s(x DOUBLE) RETURNS DOUBLE USING python OPTIONS (callable 'math:sqrt', kind 'rows');"
    assert parse_application(STREAM + one).functions["s"].name == "s"
    with pytest.raises(InvalidDeclaration, match="declared twice"):
        parse_application(one + one)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("too_short", FunctionMisbehaved, "returned 2 values for 3 rows"),
        ("a_list_of_texts", FunctionMisbehaved, "no column of bigint"),
        ("fussy", FunctionFailed, "function 'f' raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_function_that_does_not_keep_its_word_is_named(name: str, error: type[Exception], message: str) -> None:
    expr = parse("f(x)", functions={"f": declared(f"callable 'sql_functions:{name}'")})
    with pytest.raises(error, match=message):
        evaluate(expr, pa.RecordBatch.from_pydict({"x": [0, 1, 2]}))


def test_conditions_of_after_are_those_of_the_call() -> None:
    function = declared("callable 'math:sqrt', after 'x >= 0 AND x IS NOT NULL'")
    (call,) = applications(parse("1 + f(a.b * 2) > 3", functions={"f": function}))
    assert [str(guard) for guard in call.guards] == ["a.b * 2 >= 0", "a.b * 2 IS NOT NULL"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT /*+ ORDER(policy = 'fixed') */ k FROM s WHERE longer(t, 1) AND k > 3", "needs two conditions or more"),
        ("SELECT /*+ ORDER, ORDER */ k FROM s WHERE longer(t, 1) AND longer(t, 2)", "found 2 hints"),
        ("SELECT /*+ ORDR */ k FROM s WHERE longer(t, 1) AND longer(t, 2)", "Did you mean 'ORDER'?"),
        (
            "SELECT /*+ ORDER */ a.k FROM s a [RANGE 1], s b [RANGE 1] WHERE a.k = b.k AND longer(a.t, 1) AND longer(a.t, 2)",
            "a select of its own",
        ),
    ],
)
def test_a_hint_about_the_order_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(SyntaxMistake) as caught:
        query(text)
    assert message in caught.value.message
