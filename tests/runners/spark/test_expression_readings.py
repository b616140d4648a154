"""Catalyst and the vectorised evaluator read the same expressions alike, in both of Spark's modes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.expressions.evaluate import evaluate
from penstock.expressions.nodes import Expr
from penstock.expressions.parse import parse
from penstock.expressions.regex_readings import search_plan
from penstock.expressions.spark_sql import spark_sql
from penstock.expressions.text import lower, upper
from penstock.model.schema import TIMESTAMP, Schema
from penstock.testing.expression_reference import same
from penstock.testing.expressions import COLUMNS, KINDS, random_expression, random_regex, random_rows, random_text

pytestmark = pytest.mark.spark

SEED, EXPRESSIONS, ROWS = 20260131, 150, 200


@pytest.fixture(params=["true", "false"], ids=["ansi", "not_ansi"])
def session(spark, request) -> Iterator[object]:
    settings = {"spark.sql.ansi.enabled": request.param, "spark.sql.session.timeZone": "America/St_Johns"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def in_spark(session, expressions: list[Expr], rows: pa.RecordBatch) -> pa.Table:
    """All expressions as columns of one frame, in one job."""
    schema = Schema.from_arrow(rows.schema)
    numbered = rows.append_column("row_number", pa.array(range(rows.num_rows)))
    frame = session.createDataFrame(pa.Table.from_batches([numbered]))
    texts = [f"{spark_sql(expr, schema)} AS `{number}`" for number, expr in enumerate(expressions)]
    return frame.selectExpr("row_number", *texts).toArrow().sort_by("row_number").drop(["row_number"])


def disagreements(expressions: list[Expr], rows: pa.RecordBatch, answer: pa.Table, tolerance: float = 0.0) -> list[str]:
    found = []
    for expr, column in zip(expressions, answer.columns, strict=True):
        ours = evaluate(expr, rows)
        theirs = column.combine_chunks()
        if pa.types.is_timestamp(theirs.type):
            theirs = theirs.cast(TIMESTAMP)
        if theirs.type != ours.type:
            found.append(f"{expr}: {theirs.type} in Spark, {ours.type} here")
            continue
        pairs = enumerate(zip(comparable(theirs), comparable(ours), strict=True))
        wrong = [(at, a, b) for at, (a, b) in pairs if not _is_equal(a, b) and not _is_near(a, b, tolerance)]
        if wrong:
            at, a, b = wrong[0]
            found.append(f"{expr}: {a!r} in Spark, {b!r} here, for {[comparable(column.slice(at, 1)) for column in rows.columns]}")
    return found


def comparable(column: pa.Array) -> list[object]:
    """Plain values; moments as numbers, because Python knows few years."""
    numbers = {TIMESTAMP: pa.int64(), pa.date32(): pa.int32()}.get(column.type)
    values: list[object] = (column if numbers is None else column.cast(numbers)).to_pylist()
    return values


def _is_equal(one: object, other: object) -> bool:
    """Also in the sign of zero, which a division may show."""
    if isinstance(one, float) and isinstance(other, float) and one == other == 0.0:
        return math.copysign(1.0, one) == math.copysign(1.0, other)
    return same(one, other)


def _is_near(one: object, other: object, tolerance: float) -> bool:
    numbers = isinstance(one, float) and isinstance(other, float)
    return bool(tolerance and numbers and math.isclose(one, other, rel_tol=tolerance))


def test_random_expressions_have_the_same_type_and_values_in_both_readings(session):
    rng = random.Random(SEED)
    rows = random_rows(rng, ROWS)
    expressions = [random_expression(rng, KINDS[number % len(KINDS)]) for number in range(EXPRESSIONS)]
    assert disagreements(expressions, rows, in_spark(session, expressions, rows)) == []


def test_special_values_have_the_same_results_in_both_readings(session):
    texts = [
        *("n + n", "n - n", "n * n", "n / n", "n % n", "n DIV n", "-n", "abs(n)", "tiny * tiny", "i % tiny"),
        *("d + d", "d * d", "d / d", "d % d", "d % 0", "f * f", "f / i", "f + n", "-d", "abs(f)"),
        *("ceil(d)", "floor(d)", "ceil(f)", "floor(i)", "round(d)", "round(d, 2)", "round(f, 1)", "round(d, 15)", "sqrt(d)"),
        *("d = d", "d <> d", "d < d", "d <=> f", "d IN (0, 1)", "d IN (CAST('nan' AS DOUBLE), NULL)", "f > 1", "isnan(d)"),
        *("CAST(d AS BIGINT)", "CAST(d AS INT)", "CAST(d AS SMALLINT)", "CAST(f AS INT)", "CAST(f AS BIGINT)"),
        *("CAST(f AS TINYINT)", "CAST(n AS TINYINT)", "CAST(d AS FLOAT)", "CAST(d AS BOOLEAN)", "CAST(b AS DOUBLE)"),
        *("CAST(s AS INT)", "CAST(s AS BIGINT)", "CAST(s AS DOUBLE)", "CAST(s AS FLOAT)", "CAST(s AS BOOLEAN)"),
        *("CAST(i AS STRING)", "CAST(b AS STRING)", "CAST(day AS STRING)", "CAST(t AS DATE)", "CAST(t AS BIGINT)"),
        *("CAST(day AS TIMESTAMP)", "year(t)", "month(day)", "day(t)", "hour(t)", "minute(t)", "second(t)"),
        *(f"date_trunc('{unit}', t)" for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")),
        *("t + INTERVAL 5 MINUTES", "t - INTERVAL '1 day 3 hours'", "t - TIMESTAMP '1999-12-31 23:59:59'", "t > t"),
        *("upper(s)", "lower(s)", "length(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "concat(s, '|', s)", "s < 'b'"),
        *(f"substring(s, {start}, {size})" for start in (-5, -2, 0, 1, 3) for size in (-1, 0, 2, 9)),
        *(
            "substring(s, 2)",
            "substring(s, -2147483648)",
            "s LIKE 'a%'",
            r"s LIKE '%\\%%'",
            "s LIKE '_'",
            "s RLIKE '^[a-z]+$'",
            "contains(s, 'b')",
        ),
        *("nullif(i, 0)", "if(b, i, n)", "least(d, f, i)", "greatest(d, f)", "greatest(b, TRUE)", "i IN (1, NULL)"),
    ]
    rows = random_rows(random.Random(SEED), 400)
    expressions = [parse(text) for text in texts]
    assert disagreements(expressions, rows, in_spark(session, expressions, rows)) == []


def test_the_ends_of_time_have_the_same_results_in_both_readings(session):
    rng = random.Random(SEED)
    moments = [
        -(2**63),
        -(2**63) + 1,
        2**63 - 1,
        253_402_300_800_000_000,
        -62_167_219_200_000_001,
        -62_135_596_800_000_001,
        951_782_400_000_000,
    ]
    moments += [rng.randint(-(2**63), 2**63 - 1) for _ in range(200)]
    days = [106_751_991, 106_751_992, -106_751_991, -106_751_992, 2_932_897, -719_529, 900_000_000, -900_000_000]
    days += [rng.randint(-900_000_000, 900_000_000) for _ in range(len(moments) - len(days))]
    spans = [rng.choice((1, -1, 2**63 - 1, -(2**63), 86_400_000_000)) for _ in moments]
    rows = pa.RecordBatch.from_pydict({
        "t": pa.array(moments, TIMESTAMP), "day": pa.array(days, pa.int32()).cast(pa.date32()), "n": pa.array(spans)
    })  # fmt: skip
    texts = [
        *(f"date_trunc('{unit}', t)" for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")),
        *("year(t)", "month(t)", "day(t)", "hour(t)", "minute(t)", "second(t)", "CAST(t AS DATE)", "CAST(t AS BIGINT)"),
        *(
            "year(day)",
            "month(day)",
            "day(day)",
            "CAST(day AS TIMESTAMP)",
            "CAST(day AS STRING)",
            "CAST(CAST(t AS DATE) AS STRING)",
        ),
        *(
            "t + n",
            "t - n",
            "n + t",
            "t + n + INTERVAL 1 DAY",
            "t + (n + 1) + n",
            "t - TIMESTAMP '1999-12-31 23:59:59'",
            "t < t + n",
            "least(t, t + n)",
        ),
    ]
    expressions = [parse(text) for text in texts]
    assert disagreements(expressions, rows, in_spark(session, expressions, rows)) == []


def test_sums_that_differ_in_their_order_only_overflow_each_where_they_are_written_to(session):
    limits = [2**63 - 1, -(2**63), 0, 1, -1, 2**62, None]
    rows = pa.RecordBatch.from_pydict({"n": pa.array([a for a in limits for _ in limits]), "m": pa.array(limits * len(limits))})
    texts = [
        *("n + 1 + m", "n + m + 1", "1 + n + m", "n + (m + 1)", "1 + (n + 2) + m", "n + 1 + 2", "n + 2 - m + 1", "n - 1 - m"),
        *("n * 2 * m", "n * m * 2", "2 * (n * m)", "n * 2 * 0", "0 * (n * 2)", "-(n * m)", "-(n + 1) + m", "n * m + n * 2"),
        *("CASE WHEN TRUE THEN n + 1 END + m", "coalesce(n + 1, 0) + m", "CAST(n AS INT) + 2147483647 + 1 + m"),
    ]
    expressions = [parse(text) for text in texts]
    assert disagreements(expressions, rows, in_spark(session, expressions, rows)) == []


def test_regular_expressions_are_found_where_java_finds_them(spark):
    rng = random.Random(SEED)
    plans = [search_plan(random_regex(rng)) for _ in range(1500)]
    texts = ["", *(random_text(rng) for _ in range(19))]
    numbers = range(len(plans) * len(texts))
    pairs = pa.table({"number": numbers, "pattern": [plan.java for plan in plans for _ in texts], "text": texts * len(plans)})
    answer = spark.createDataFrame(pairs).selectExpr("number", "text RLIKE pattern AS found").toArrow().sort_by("number")
    ours = [found for plan in plans for found in plan(pa.array(texts)).to_pylist()]
    wrong = [at for at, (a, b) in enumerate(zip(answer["found"].to_pylist(), ours, strict=True)) if a != b]
    assert [(plans[at // len(texts)].java, texts[at % len(texts)]) for at in wrong] == []


def test_every_letter_with_a_case_changes_it_alike(spark):
    letters = [chr(code) for code in range(0x1F000) if not 0xD800 <= code < 0xE000]
    letters = [each for each in letters if lower(each) != each or upper(each) != each]
    rows = pa.RecordBatch.from_pydict({"s": pa.array(letters + [f"a{each}\u0301" for each in letters])})
    expressions = [parse("lower(s)"), parse("upper(s)")]
    assert disagreements(expressions, rows, in_spark(spark, expressions, rows)) == []


def test_powers_agree_but_for_the_last_digits(session):
    rows = random_rows(random.Random(SEED), 400)
    expressions = [parse("power(d, f)"), parse("power(i, 3)"), parse("power(d, -2)")]
    assert disagreements(expressions, rows, in_spark(session, expressions, rows), tolerance=1e-13) == []


def test_without_a_schema_the_session_converts_operands(session):
    rows = random_rows(random.Random(SEED), 20)
    text = spark_sql(parse("i + n * 2 > 5 AND s IS NOT NULL"))
    kept = session.createDataFrame(pa.Table.from_batches([rows])).filter(text).count()
    assert kept == sum(value is True for value in evaluate(parse("i + n * 2 > 5 AND s IS NOT NULL"), rows).to_pylist())
    assert set(COLUMNS.names) == set(rows.schema.names)
