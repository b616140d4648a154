"""Every operator of the lowering table passes the shared checks; a node type without sample plan fails."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.expressions.parse import parse
from penstock.language.application import parse_application
from penstock.lowering.table import LOWERINGS, recipe_of
from penstock.model.declarations import Source, StreamDeclaration
from penstock.model.elements import FOREVER, Heartbeat
from penstock.model.schema import Schema
from penstock.plan.nodes import relational as nodes
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.rewrites.adapt_order_of_filters import adapt_order_of_filters
from penstock.testing.checks import check_all, inputs
from penstock.testing.reference import Row
from penstock.testing.tapes import batch_cuts

APPLICATION = """
CREATE STREAM a (k BIGINT, s STRING, v DOUBLE, ts BIGINT, UNIQUE (k), WATERMARK ts DELAY OF 5) USING feed;
CREATE STREAM b (k BIGINT, s STRING, v DOUBLE, ts BIGINT, WATERMARK ts DELAY OF 5) USING feed;
CREATE CQ selected AS SELECT k + 1 AS x, s, v FROM a WHERE k > 1 OR v IS NULL;
CREATE CQ joined AS SELECT one.k, other.s FROM a one [RANGE 5], b other [RANGE 9] WHERE one.k = other.k AND one.v < other.v + 1;
CREATE CQ joined_by_text AS SELECT one.k FROM a one, b other, a third [RANGE 3] WHERE one.s = other.s AND other.s = third.s;
CREATE CQ joined_in_frames AS SELECT one.k FROM a one [RANGE 6, ADVANCE 4], b other [RANGE 6, ADVANCE 4] WHERE one.k = other.k;
CREATE CQ joined_left AS SELECT one.k, other.s FROM a one [RANGE 5] LEFT JOIN b other [RANGE 9] ON one.k = other.k AND one.v < 1;
CREATE CQ joined_anti AS SELECT one.k FROM a one [RANGE 6, ADVANCE 4] ANTI JOIN b other [RANGE 6, ADVANCE 4] ON one.s = other.s;
CREATE CQ joined_as_star AS SELECT /*+ MJOIN(probability = 1.0, min_fill = 1, chunk_rows = 2) */ one.k
  FROM a one [RANGE 5], b other [RANGE 9], a third WHERE one.k = other.k AND one.s = third.s AND other.v < third.v + 1;
CREATE CQ joined_in_a_circle AS SELECT /*+ MJOIN(policy = 'sweep', probability = 1.0, stage_rows = 2, chunk_rows = 2) */ one.k
  FROM a one [RANGE 5], b other [RANGE 9], a third [RANGE 3], b last [RANGE 4]
  WHERE one.k = other.k AND other.s = third.s AND third.v = last.v AND last.k = one.k;
CREATE CQ grouped AS SELECT k, count(*), sum(v), min(s), count(DISTINCT v)
  FROM a [RANGE 8, ADVANCE 3] GROUP BY k HAVING count(*) > 1;
CREATE CQ grouped_for_ever AS SELECT k, max(v) FROM a GROUP BY k;
CREATE CQ grouped_in_rows AS SELECT k, stddev(v) FROM a [PARTITION BY k ROWS 3, ADVANCE 2] GROUP BY k;
CREATE CQ grouped_from_a_landmark BEGIN 0 END 30 AS SELECT k, avg(v) FROM a [LANDMARK RANGE 5, ADVANCE 5] GROUP BY k;
CREATE CQ distinct_in_windows AS SELECT DISTINCT k, s FROM a [RANGE 7, ADVANCE 5];
CREATE CQ distinct_for_ever AS SELECT DISTINCT k FROM a;
CREATE CQ united AS SELECT k, s FROM a UNION ALL SELECT k, s FROM b;
CREATE CQ lived BEGIN 4 END 12 AS SELECT k, s FROM a;
CREATE CQ joined_in_part BEGIN 0 END 9 EMIT PARTIAL AS SELECT one.k FROM a one [RANGE 6, ADVANCE 4], b other [RANGE 6, ADVANCE 4]
  WHERE one.k = other.k;
CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');
CREATE CQ filtered AS SELECT k FROM a WHERE wide(s) > 0 AND s RLIKE 'a' AND wide(s) < 2;
CREATE CQ filtered_by_shards AS SELECT /*+ ORDER(mode = 'shard', probability = 1.0, min_fill = 1, chunk_rows = 2) */ k
  FROM a WHERE wide(s) > 0 AND s RLIKE 'b' AND wide(s) < 2;
CREATE CQ matched AS EVENT SEQ(ab p, a+ q[], !(b r)) FROM a TYPE s WHERE [k] AND q[i].v > p.v WITHIN 6;
CREATE CQ matched_across AS EVENT SEQ(a p, b q) WHERE [k] AND skip-till-next-match AND p.v < q.v WITHIN 9 RETURN p.s, q.v;
CREATE CQ recognized AS SELECT * FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(p.s) AS first, COUNT(q.*) AS n
  PATTERN (p q+) WITHIN 6 DEFINE q AS s >= PREV(s) AND COUNT(q.v) < 3);
CREATE CQ announced AS SELECT punctuation, known_at FROM PUNCTUATIONS OF grouped_for_ever;
"""


def samples() -> list[Node]:
    """All nodes of the application, and those that no text leads to."""
    plans = [adapt_order_of_filters(query.plan) for query in parse_application(APPLICATION).queries.values()]
    found = [node for plan in plans for node in walk(plan)]
    stream = StreamDeclaration("a", Schema.of(k=pa.int64(), ts=pa.int64()), Source("feed"), "ts")
    branches = (("odd", parse("k % 2 = 1")), ("large", parse("k > 2")))
    return [
        *(node for node in found if type(node) in LOWERINGS),
        nodes.Split(nodes.Scan(stream), branches, "odd"),
        nodes.Split(nodes.Scan(stream), branches, "odd", default="rest"),
    ]


def test_every_node_type_of_the_table_has_a_sample() -> None:
    missing = set(LOWERINGS) - {type(node) for node in samples()}
    assert not missing, f"write a sample plan for {sorted(kind.__name__ for kind in missing)}"


def by_number() -> dict[str, Node]:
    return {f"{type(node).__name__}-{number}": node for number, node in enumerate(samples())}


@pytest.mark.parametrize("name", list(by_number()))
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_the_operator_passes_the_shared_checks(name: str, data: st.DataObject) -> None:
    node = by_number()[name]
    schemas = [part.schema.arrow for part in node.inputs]
    check_all(recipe_of(node), data.draw(inputs(schemas)), schemas, data.draw(batch_cuts()))


def test_a_value_that_is_no_number_is_the_same_inside_of_a_match_whatever_the_batches() -> None:
    node = next(node for node in samples() if isinstance(node, PatternMatch))
    rows = [
        Row(0, pos, {"k": key, "s": text, "v": value, "ts": 0})
        for pos, (key, text, value) in enumerate([(1, "ab", -0.0), (1, "ab", 1.5), (4, "ab", 0.0)])
    ]
    last = Row(1, 3, {"k": 1, "s": "a", "v": float("nan"), "ts": 1})
    for cuts in ([0], [1], [0, 1, 2]):
        check_all(recipe_of(node), [*((0, row) for row in (*rows, last)), (0, Heartbeat(FOREVER))], [node.input.schema.arrow], cuts)
