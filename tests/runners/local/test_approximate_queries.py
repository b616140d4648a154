"""Joins that may lose answers on the word of probable punctuations, from text to report."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.operators.joins.approximate import expected_recall
from penstock.runners.local.runner import LocalRunner

TEXT = """
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 0) PUNCTUATIONS FROM mark ON (k);
CREATE CQ q AS SELECT {hint} a.v, b.w FROM a, b WHERE a.k = b.k AND a.v <> b.w;
"""


def played(hint: str, shards: int) -> LocalRunner:
    """Forty values, each with rows of both inputs, doubted with 90 %; every eighth comes again after all."""
    catalog = parse_application(TEXT.format(hint=hint))
    runner = LocalRunner(build_job(catalog, shards), encode=True)
    schema = catalog.stream("b").schema.arrow
    for key in range(40):
        runner.run(
            {
                "a": pa.RecordBatch.from_pydict({"k": [key] * 3, "v": [1, 2, 3], "ts": [10 * key] * 3}),
                "b": pa.RecordBatch.from_pydict(
                    {"k": [key] * 2, "w": [8, 9], "ts": [10 * key] * 2, "mark": [None] * 2}, schema=schema
                ),
            }
        )
        doubt = f'{{"$confidence": 0.9, "k": {key}}}'
        runner.run({"b": pa.RecordBatch.from_pylist([{"ts": 10 * key + 1, "mark": doubt}], schema=schema)})
        if key % 8 == 0:
            runner.run({"b": pa.RecordBatch.from_pylist([{"k": key, "w": 7, "ts": 10 * key + 5}], schema=schema)})
    return runner


def answers(runner: LocalRunner) -> Counter[str]:
    return Counter(map(str, runner.collected.rows("q")))


@pytest.mark.parametrize("shards", [1, 3])
def test_an_approximate_join_forgets_and_reports_the_recall_it_expects(shards: int) -> None:
    exact, approximate = played("", shards), played("/*+ APPROXIMATE(recall = 0.9) */", shards)
    counted = approximate.report()["WindowJoin1"]
    assert counted["values_given_up"] > 20
    assert counted["state_rows"] < exact.report()["WindowJoin1"]["state_rows"]
    lost = answers(exact) - answers(approximate)
    assert not answers(approximate) - answers(exact)
    assert lost
    recall = expected_recall(counted)
    assert recall is not None
    assert 0.9 <= recall < 1
    assert expected_recall(exact.report()["WindowJoin1"]) is None


def test_a_join_that_may_lose_nothing_is_exact() -> None:
    assert answers(played("/*+ APPROXIMATE(recall = 1) */", 2)) == answers(played("", 2))


def test_explain_says_that_answers_may_be_missing() -> None:
    text = str(explain(parse_application(TEXT.format(hint="/*+ APPROXIMATE(recall = 0.9) */"))))
    assert ". Approximate: the hint Approximate(recall = 0.9) asks for it; answers may be missing, as its recall allows" in text
