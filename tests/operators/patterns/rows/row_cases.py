"""Row patterns written as in SQL, small streams, and what the operator finds in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.expressions.row_queries import RowQuery
from penstock.language.dialect import parse_query_statement
from penstock.language.match_clauses import match_of
from penstock.language.match_recognize import row_query
from penstock.model.batch import Batch
from penstock.model.schema import Schema
from penstock.operators.patterns.rows.operator import RowPatternMatch
from penstock.testing.reference import Row, comparable
from penstock.testing.streams import run, run_with_restarts, stream_of

SCHEMA = pa.schema({"k": pa.int64(), "p": pa.int64(), "x": pa.float64(), "s": pa.string(), "t": pa.int64()})


def query(text: str, schema: pa.Schema = SCHEMA, order_by: str = "t") -> RowQuery:
    """The query of what stands in the brackets of MATCH_RECOGNIZE; the order needs not be written."""
    if "ORDER BY" not in text:
        before, key, after = text.partition("PARTITION BY k")
        text = f"{before}{key} ORDER BY {order_by} {after}" if key else f"ORDER BY {order_by} {text}"
    statement = parse_query_statement(f"SELECT * FROM s MATCH_RECOGNIZE ({text})", "the example")
    match = match_of(statement.select.args["from_"].this)
    assert match is not None
    return row_query(match, Schema.from_arrow(schema, "stream 's'"), order_by, False, statement.text)


def rows(prices: Sequence[int | None], keys: Sequence[int | None] = (), times: Sequence[int] = ()) -> list[Row]:
    found = []
    for number, price in enumerate(prices):
        time = times[number] if times else number
        values = {"k": keys[number] if keys else 1, "p": price, "x": None if price is None else price / 2, "s": None, "t": time}
        found.append(Row(time, number, values))
    return found


def answers(
    sought: RowQuery, stream: Sequence[Row], cuts: Iterable[int] = (), lag: int = 0, restarts: bool = False
) -> list[tuple[Any, ...]]:
    """Rows of the output."""
    elements = stream_of(stream, SCHEMA, cuts, lag)
    if restarts:
        out = run_with_restarts(lambda: RowPatternMatch(sought, SCHEMA), elements)
    else:
        out = run(RowPatternMatch(sought, SCHEMA), elements)
    batches = [element for element in out if isinstance(element, Batch)]
    return [tuple(map(comparable, row.values())) for batch in batches for row in batch.rows.to_pylist()]


def labelled(text: str, prices: Sequence[int | None], skip: str = "", rows_shown: str = "", **options: Any) -> list[str]:
    """Matches of `PATTERN …` as words: the price of each row behind the variable that took it."""
    after = f"AFTER MATCH SKIP {skip}" if skip else ""
    shown = f"MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS label ALL ROWS PER MATCH {rows_shown}"
    sought = query(f"PARTITION BY k {shown} {after} {text}")
    names = RowPatternMatch(sought, SCHEMA).output_schema.names
    found: dict[Any, list[str]] = {}
    for row in answers(sought, rows(prices, **options)):
        values = dict(zip(names, row, strict=True))
        found.setdefault((values["k"], values["n"]), []).append(f"{values['label']}{values['p']}")
    return [" ".join(words) for _, words in sorted(found.items(), key=lambda item: str(item[0]))]
