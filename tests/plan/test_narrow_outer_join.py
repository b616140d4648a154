"""When a condition rejects rows without partner: the rule never claims it of a condition that one of them meets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.model.schema import Schema
from penstock.plan.analysis.null_rejection import rejects
from penstock.testing.expressions import COLUMNS, cases


@given(case=cases(pa.bool_()), chosen=st.integers(1, 2 ** len(COLUMNS.names) - 1))
@settings(max_examples=150, deadline=None)
def test_a_condition_that_is_said_to_reject_holds_for_no_row_of_nulls(case: tuple[Expr, pa.RecordBatch], chosen: int) -> None:
    expr, rows = case
    missing = [item for at, item in enumerate(COLUMNS) if chosen >> at & 1]
    if not rejects(expr, Schema(tuple(missing), "b")):
        return
    names = {item.name for item in missing}
    columns = [pa.nulls(rows.num_rows, item.type) if item.name in names else rows.column(item.name) for item in rows.schema]
    assert not np.any(mask(expr, pa.RecordBatch.from_arrays(columns, schema=rows.schema)))


TEXT = """
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE CQ q AS SELECT v, w FROM a [RANGE 9] LEFT JOIN b [RANGE 5] ON a.k = b.k WHERE b.w > 3 AND a.v > 1;
"""


def test_explain_tells_what_was_written_and_filters_go_below_both_inputs() -> None:
    text = str(explain(parse_application(TEXT)))
    assert ". written as LEFT JOIN: a condition above rejects rows without partner" in text
    assert "waits for it until its answer is known" not in text
    assert "where: (`w` > 3L)" in text
    assert "where: (`v` > 1L)" in text


def test_a_narrowed_join_is_shared_with_an_inner_one() -> None:
    inner = "CREATE CQ r AS SELECT v, w FROM a [RANGE 9] JOIN b [RANGE 5] ON a.k = b.k WHERE b.w > 3 AND a.v > 1;"
    (query, _) = explain(parse_application(TEXT + inner)).queries
    assert replace(query).plan.inputs[0].shared_with == ("r",)
