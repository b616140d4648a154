"""Long and deeply nested texts work all the way to the answers, or a limit is named where they exceed it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import NotText, PenstockError, UserError
from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import Call, Column, Expr, to_text
from penstock.expressions.parse import parse
from penstock.expressions.spark_sql import is_for_python
from penstock.language.application import parse_application, read_utf8
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.model.nesting import DEEPEST_EXPRESSION, LARGEST_EXPRESSION
from penstock.plan.analysis.safety import check
from penstock.plan.describe import tree
from penstock.runners.local.runner import LocalRunner

STREAM = "CREATE STREAM s (a BIGINT, x DOUBLE, t STRING, f BOOLEAN, ts BIGINT, WATERMARK ts DELAY OF 0);"
ROWS = pa.RecordBatch.from_pydict(
    {"a": [1, 2, 3], "x": [1.0, 2.0, 3.0], "t": ["p", "q", "r"], "f": [False, True, False], "ts": [1, 2, 3]}
)
MANY = 2_000
DEEP = 300


def answers(text: str) -> list[object]:
    """What a query gives, after everything that looks at its plan has looked."""
    catalog = parse_application(STREAM + text, now=0)
    assert str(check(catalog))
    assert str(explain(catalog))
    for query in catalog.queries.values():
        again = pickle.loads(pickle.dumps(query.plan))
        assert again == query.plan
        assert tree(again) == tree(query.plan)
    runner = LocalRunner(pickle.loads(pickle.dumps(build_job(catalog, 2))), encode=True)
    runner.run({"s": ROWS})
    runner.end()
    return sorted(tuple(row.values()) for row in runner.collected.rows("q"))


LONG: list[tuple[str, Callable[[int], str], Callable[[int], list[object]]]] = [
    ("AND", lambda n: "SELECT a FROM s WHERE " + " AND ".join(f"a <> {i + 3}" for i in range(n)), lambda n: [(1,), (2,)]),
    ("OR", lambda n: "SELECT a FROM s WHERE " + " OR ".join(f"a = {i + 3}" for i in range(n)), lambda n: [(3,)]),
    ("IN", lambda n: f"SELECT a FROM s WHERE a IN ({', '.join(map(str, range(2, n)))})", lambda n: [(2,), (3,)]),
    ("||", lambda n: f"SELECT length({' || '.join(['t'] * n)}) AS v FROM s", lambda n: [(n,)] * 3),
    ("coalesce", lambda n: f"SELECT coalesce({', '.join(['a'] * n)}) AS v FROM s", lambda n: [(1,), (2,), (3,)]),
    (
        "CASE",
        lambda n: f"SELECT CASE {' '.join(f'WHEN a = {i} THEN {i}' for i in range(n))} END AS v FROM s",
        lambda n: [(1,), (2,), (3,)],
    ),
]
NESTED: list[tuple[str, Callable[[int], str], Callable[[int], list[object]]]] = [
    ("+", lambda n: f"SELECT {' + '.join(['a'] * n)} AS v FROM s", lambda n: [(n,), (2 * n,), (3 * n,)]),
    ("brackets", lambda n: f"SELECT {'(' * n}a{')' * n} AS v FROM s", lambda n: [(1,), (2,), (3,)]),
    (
        "sums in brackets",
        lambda n: f"SELECT {'(a + ' * n}x{')' * n} AS v FROM s",
        lambda n: [(n + 1.0,), (2.0 * n + 2,), (3.0 * n + 3,)],
    ),
    (
        "AND and OR",
        lambda n: "SELECT a FROM s WHERE " + "(a > 1 AND (a > 7 OR " * (n // 2) + "a = 3" + "))" * (n // 2),
        lambda n: [(3,)],
    ),
    ("NOT", lambda n: f"SELECT a FROM s WHERE {'NOT ' * (2 * (n // 2))} f", lambda n: [(2,)]),
    ("-", lambda n: f"SELECT {'- ' * (2 * (n // 2))} a AS v FROM s", lambda n: [(1,), (2,), (3,)]),
    ("functions", lambda n: f"SELECT {'abs(' * n}a{')' * n} AS v FROM s", lambda n: [(1,), (2,), (3,)]),
    ("CASE in CASE", lambda n: f"SELECT {'CASE WHEN f THEN a ELSE ' * n}0{' END' * n} AS v FROM s", lambda n: [(0,), (0,), (2,)]),
    ("floor", lambda n: f"SELECT {'floor(' * n}x{')' * n} AS v FROM s", lambda n: [(1,), (2,), (3,)]),
    ("grouping", lambda n: f"SELECT sum({' + '.join(['a'] * n)}) AS v FROM s [RANGE 10]", lambda n: [(6 * n,)]),
]


@pytest.mark.parametrize(("name", "text", "expected"), LONG, ids=lambda item: item if isinstance(item, str) else "")
def test_lists_of_thousands_work(name: str, text: Callable[[int], str], expected: Callable[[int], list[object]]) -> None:
    assert answers(f"CREATE CQ q AS {text(MANY)}") == expected(MANY)


@pytest.mark.parametrize(("name", "text", "expected"), NESTED, ids=lambda item: item if isinstance(item, str) else "")
def test_what_is_nested_hundreds_deep_works(name: str, text: Callable[[int], str], expected: Callable[[int], list[object]]) -> None:
    assert answers(f"CREATE CQ q AS {text(DEEP)}") == expected(DEEP)


@pytest.mark.parametrize(("name", "text", "expected"), NESTED, ids=lambda item: item if isinstance(item, str) else "")
def test_beyond_the_limit_it_is_named_with_its_place(
    name: str, text: Callable[[int], str], expected: Callable[[int], list[object]]
) -> None:
    for levels in (2 * DEEPEST_EXPRESSION + 2, 20 * DEEPEST_EXPRESSION):
        if name == "brackets" and levels < 10 * DEEPEST_EXPRESSION:
            continue  # brackets alone are no operation
        with pytest.raises(UserError, match=f"nested more than {DEEPEST_EXPRESSION} deep") as caught:
            parse_application(f"{STREAM}CREATE CQ q AS {text(levels)}")
        assert caught.value.place is not None
        assert caught.value.place.line == 1
        assert len(str(caught.value)) < 1_200, "the line is shown around the place"


def test_the_deepest_sum_that_is_read_is_also_answered() -> None:
    terms = DEEPEST_EXPRESSION - 10
    assert answers(f"CREATE CQ q AS SELECT {' + '.join(['a'] * terms)} AS v FROM s") == [(terms,), (2 * terms,), (3 * terms,)]


def test_unions_of_hundreds_of_selects_are_one_step() -> None:
    many = 600
    assert answers("CREATE CQ q AS " + " UNION ALL ".join(["SELECT a FROM s WHERE a = 1"] * many)) == [(1,)] * many
    assert answers("CREATE CQ q AS " + " UNION ".join(["SELECT a FROM s [RANGE 10]"] * 50)) == [(1,), (2,), (3,)]


def test_queries_over_queries_may_be_many_and_have_a_limit() -> None:
    def chain(length: int) -> str:
        steps = [f"CREATE CQ q{i} AS SELECT a FROM {f'q{i - 1}' if i else 's'};" for i in range(length)]
        return f"{''.join(reversed(steps))} CREATE CQ q AS SELECT a FROM q{length - 1}"

    assert answers(chain(60)) == [(1,), (2,), (3,)]
    with pytest.raises(UserError, match="steps above each other") as caught:
        parse_application(STREAM + chain(2_000))
    assert caught.value.place is not None
    assert caught.value.place.line


def test_selects_in_selects_have_a_limit() -> None:
    def nested(levels: int) -> str:
        return f"CREATE CQ q AS SELECT a FROM {'(SELECT a FROM ' * levels}s{')' * levels}"

    assert answers(nested(60)) == [(1,), (2,), (3,)]
    for levels in (700, 5_000):
        with pytest.raises(UserError, match=r"nested more than|steps above each other"):
            parse_application(STREAM + nested(levels))


@pytest.mark.parametrize(
    "expression",
    [
        "nullif(" * 60 + "a" + ", 1)" * 60 + " AS v FROM s",
        "max_by(a, " + "struct(" * 40 + "a" + ")" * 41 + " AS v FROM s [RANGE 10]",
    ],
)
def test_what_would_grow_exponentially_is_refused_at_once(expression: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_application(f"{STREAM}CREATE CQ q AS SELECT {expression}")
    assert caught.value.place is not None
    assert caught.value.place.column > len(STREAM) + len("CREATE CQ q AS SELECT ")
    assert str(LARGEST_EXPRESSION) in caught.value.message or "struct" in caught.value.message


def test_text_for_catalyst_that_would_grow_exponentially_is_evaluated_by_operators() -> None:
    assert is_for_python(parse("floor(" * 30 + "x" + ")" * 30))
    assert is_for_python(parse(" div ".join(["a"] * 40)))
    assert not is_for_python(parse("floor(floor(x) + 1.5) div 2"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT {digits} AS v FROM s", "does not fit a bigint"),
        ("SELECT a + INTERVAL '{digits}' SECONDS AS v FROM s", "longer than a timestamp can count"),
        ("SELECT count(*) FROM s [RANGE '{digits}']", "more than a timestamp can count"),
        ("SELECT -{digits} AS v FROM s", "does not fit a bigint"),
        ("SELECT 1e{digits} AS v FROM s", "does not fit a double"),
        ("SELECT a + INTERVAL {digits} SECONDS AS v FROM s", "longer than a timestamp can count"),
        ("SELECT a FROM s [RANGE {digits}] GROUP BY a", "more than a timestamp can count"),
        ("SELECT a FROM s [ROWS {digits}] GROUP BY a", "more than"),
        ("SELECT /*+ PJOIN(max_drop_markers = {digits}) */ l.a FROM s [RANGE 5] l, s [RANGE 5] r WHERE l.a = r.a", ""),
        ("SELECT n FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(A.a, {digits}) AS n PATTERN (A) DEFINE A AS a > 1)", ""),
        ("SELECT n FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS n PATTERN (A{{{digits}}}) DEFINE A AS a > 1)", ""),
        ("EVENT SEQ(s p, s q) WITHIN 5 OPTIONS (max_runs_per_key '{digits}')", ""),
        ("EVENT SEQ(s p, s q) WITHIN {digits}", "more than a timestamp can count"),
    ],
)
def test_numbers_of_thousands_of_digits_are_refused(text: str, message: str) -> None:
    for digits in ("9" * 5_000, "9" * 300):
        with pytest.raises(UserError) as caught:
            parse_application(f"{STREAM}CREATE CQ q AS {text.format(digits=digits)}")
        assert message in caught.value.message or "is too long" in caught.value.message
        assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE CQ q BEGIN {digits} AS SELECT a FROM s",
        "CREATE CQ q BEGIN 1 END -{digits} AS SELECT a FROM s",
        "CREATE STREAM z (a BIGINT, WATERMARK a DELAY OF {digits})",
        "CREATE STREAM z (a BIGINT, CLUSTERED (a) WITHIN {digits} ROWS, WATERMARK a DELAY OF 5)",
        "CREATE STREAM z (a BIGINT, WATERMARK a DELAY OF 5) PUNCTUATE a BY SORTING {digits} ROWS",
    ],
)
def test_numbers_of_thousands_of_digits_are_refused_in_declarations(statement: str) -> None:
    for digits in ("9" * 5_000, "9" * 30):
        with pytest.raises(UserError) as caught:
            parse_application(STREAM + statement.format(digits=digits))
        assert len(caught.value.message) < 400


def test_a_deep_expression_survives_a_process_of_its_own() -> None:
    """A worker unpickles it with the usual limit of calls, and evaluates it."""
    sent = pickle.dumps(deep_sum(DEEPEST_EXPRESSION))
    code = (
        "import pickle, sys, pyarrow as pa\n"
        "expr = pickle.loads(sys.stdin.buffer.read())\n"
        "from penstock.expressions.evaluate import evaluate\n"
        "print(evaluate(expr, pa.RecordBatch.from_pydict({'a': pa.array([1, 2])})).to_pylist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str([DEEPEST_EXPRESSION + 1, 2 * DEEPEST_EXPRESSION + 2])


def test_trees_of_the_largest_depth_fit_a_small_stack() -> None:
    """Walks, comparison, hashing and pickling, in a thread with half of the usual stack."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            expr = deep_sum(2 * DEEPEST_EXPRESSION - 1)
            assert pickle.loads(pickle.dumps(expr)) == expr
            assert hash(expr) == hash(deep_sum(2 * DEEPEST_EXPRESSION - 1))
            assert len(to_text(expr)) > DEEPEST_EXPRESSION
            assert evaluate(expr, ROWS).to_pylist()[0] == 2 * DEEPEST_EXPRESSION
        except BaseException as error:
            failed.append(error)

    usual = threading.stack_size(4 * 2**20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join()
    assert not failed


def deep_sum(levels: int) -> Expr:
    expr: Expr = Column("a")
    for _ in range(levels):
        expr = Call("+", (expr, Column("a")))
    return expr


def test_the_limit_of_calls_is_as_before_after_an_ordinary_text() -> None:
    code = (
        "import sys; from penstock.language.application import parse_application\n"
        f"parse_application({STREAM + 'CREATE CQ q AS SELECT a + 1 AS b FROM s'!r}); print(sys.getrecursionlimit())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.strip() == "1000"


def test_expressions_that_stand_alone_are_read_as_deep() -> None:
    assert evaluate(parse("(" * 500 + "a" + ")" * 500), ROWS).to_pylist() == [1, 2, 3]
    with pytest.raises(PenstockError, match="nested more than"):
        parse("(" * 50_000 + "a" + ")" * 50_000)
    with pytest.raises(PenstockError, match="nested more than"):
        parse(" + ".join(["a"] * 5_000))


def test_a_file_that_is_not_utf8_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_bytes(STREAM.encode() + b"\nCREATE CQ q AS SELECT a FROM s WHERE t = 'caf\xe9'")
    with pytest.raises(NotText, match="0xe9") as caught:
        read_utf8(file)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (2, 46)
    file.write_bytes(b"\xef\xbb\xbf" + STREAM.encode() + b"\r\n-- a mark of Windows\r\n")
    assert parse_application(read_utf8(file)).names() == ["s"]
