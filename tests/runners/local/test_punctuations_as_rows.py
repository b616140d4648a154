"""What a query announces can be read as rows, and read again as punctuations."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import PenstockError
from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.metadata.embedded import read_punctuation, write_punctuation
from penstock.model.punctuation import Punctuation
from penstock.model.schema import TIMESTAMP, Schema
from penstock.model.value_sets import between, constant, one_of
from penstock.testing.undisturbed import undisturbed

SCHEMA = Schema.of(k=pa.int64(), s=pa.string(), x=pa.float64(), ts=TIMESTAMP)
FEED = "total '2000', bids_per_item '10', open_items '20', partitions '2'"
AUCTION = f"""
CREATE STREAM auction (item_id BIGINT, opens TIMESTAMP, part INT, off BIGINT, UNIQUE (item_id),
  WATERMARK opens DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'auction.auction', {FEED})
  PARTITIONED BY part POSITION off;
CREATE STREAM bid (item_id BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING, part INT, off BIGINT,
  WATERMARK ts DELAY OF INTERVAL 0 SECONDS) USING feed OPTIONS (workload 'auction.bid', marks '{{marks}}', {FEED})
  PUNCTUATIONS FROM mark PARTITIONED BY part POSITION off;
CREATE CQ sold AS SELECT a.item_id, count(*) AS bids FROM auction a, bid b WHERE a.item_id = b.item_id GROUP BY a.item_id;
CREATE CQ closed AS SELECT punctuation, known_at FROM PUNCTUATIONS OF sold;
"""

whole = st.integers(-9, 9)
ranges = st.builds(between, whole, whole, st.booleans(), st.booleans())
patterns = {
    "k": st.one_of(whole.map(constant), st.lists(whole, max_size=3).map(one_of), ranges),
    "s": st.text(max_size=3).map(constant),
    "x": st.floats(-4, 4, width=16).map(constant),
    "ts": whole.map(constant),
}


@given(st.fixed_dictionaries({}, optional=patterns))
@settings(max_examples=150, deadline=None)
def test_a_written_punctuation_reads_back_as_itself(chosen: dict[str, object]) -> None:
    mark = Punctuation.of(SCHEMA.names, 0, 0, **chosen).normalised(SCHEMA)  # type: ignore[arg-type]
    assert read_punctuation(write_punctuation(mark), SCHEMA, "here") == mark or mark.is_empty


@pytest.mark.parametrize("marks", ["constant", "range"])
def test_every_reported_item_is_announced_once(marks: str) -> None:
    runner = undisturbed(AUCTION.format(marks=marks), ends=False)
    sold = {row["item_id"] for row in runner.collected.rows("sold")}
    said = [json.loads(row["punctuation"]) for row in runner.collected.rows("closed")]
    announced: list[int] = []
    for statement in said:
        (pattern,) = statement.values()
        if isinstance(pattern, dict):
            low, high = pattern["range"]
            announced += range(low, high + 1)
        else:
            announced += pattern if isinstance(pattern, list) else [pattern]
    assert len(announced) == len(set(announced))
    assert sold <= set(announced)
    assert len(sold) > 150
    assert all(list(statement) == ["item_id"] for statement in said)


def test_rows_of_the_query_do_not_cross_to_the_one_shard_that_listens() -> None:
    job = build_job(parse_application(AUCTION.format(marks="constant")), 3)
    hush = [node.id for stage in job.stages for node in stage.graph.nodes if node.id.startswith("Hushed")]
    assert len(hush) == 1
    assert hush[0] in {node.id for node in job.stages[0].graph.nodes}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT punctuation FROM PUNCTUATIONS OF bid", "'bid' is a stream"),
        ("SELECT punctuation FROM PUNCTUATIONS OF sould", "Did you mean 'sold'"),
        ("SELECT p.punctuation FROM PUNCTUATIONS OF sold p, bid b WHERE p.punctuation = b.mark", "stand alone in FROM"),
    ],
)
def test_what_has_no_punctuations_to_show_is_refused(query: str, message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        parse_application(AUCTION.format(marks="constant") + f"CREATE CQ q AS {query};")
