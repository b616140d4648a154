"""What is said of the times in later answers holds for every query, batching and number of shards."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import NEVER
from penstock.plan.analysis.propagate import delays
from penstock.runners.local.runner import LocalRunner

DISORDER = 3
STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, type STRING, {time} BIGINT, WATERMARK {time} DELAY OF {DISORDER}) ON LATE ROWS QUARANTINE;"
    for name, time in (("a", "t"), ("b", "u"), ("c", "v"))
)
#: Each ends in the query `q`.
QUERIES = {
    "filter": "CREATE CQ q AS SELECT k, t FROM a WHERE k > 0",
    "inner": "CREATE CQ q AS SELECT a.k, t, u FROM a [RANGE 4], b [RANGE 7] WHERE a.k = b.k",
    "left": "CREATE CQ q AS SELECT a.k, t, u FROM a [RANGE 4] LEFT JOIN b [RANGE 7] ON a.k = b.k",
    "full": "CREATE CQ q AS SELECT t, u FROM a [RANGE 4] FULL JOIN b [RANGE 7] ON a.k = b.k",
    "semi": "CREATE CQ q AS SELECT t FROM a [RANGE 4] LEFT SEMI JOIN b [RANGE 7] ON a.k = b.k",
    "anti": "CREATE CQ q AS SELECT t FROM a [RANGE 4] LEFT ANTI JOIN b [RANGE 7] ON a.k = b.k",
    "tumbling join": "CREATE CQ q AS SELECT t, u FROM a [RANGE 5, ADVANCE 5], b [RANGE 5, ADVANCE 5] WHERE a.k = b.k",
    "three": "CREATE CQ q AS SELECT t, u, v FROM a [RANGE 4], b [RANGE 7], c [RANGE 2] WHERE a.k = b.k AND b.k = c.k",
    "union": "CREATE CQ q AS SELECT t FROM a UNION ALL SELECT u FROM b",
    "distinct": "CREATE CQ q AS SELECT DISTINCT k, t FROM a [RANGE 5, ADVANCE 5]",
    "groups": "CREATE CQ q AS SELECT k, window_start() AS s, window_end() AS e FROM a [RANGE 6, ADVANCE 2] GROUP BY k",
    "groups of pairs": """CREATE CQ p AS SELECT a.k AS k, t, u FROM a [RANGE 4] LEFT JOIN b [RANGE 7] ON a.k = b.k;
        CREATE CQ q AS SELECT count(*) AS n, window_start() AS s, window_end() AS e FROM p [RANGE 5, ADVANCE 5]""",
    "pairs of groups": """CREATE CQ g AS SELECT k, window_start() AS s, window_end() AS e FROM a [RANGE 5, ADVANCE 5] GROUP BY k;
        CREATE CQ q AS SELECT s, e, u FROM g [RANGE 3], b [RANGE 2] WHERE g.k = b.k""",
    "pairs of pairs": """CREATE CQ p AS SELECT a.k AS k, t, u FROM a [RANGE 4] FULL JOIN b [RANGE 7] ON a.k = b.k;
        CREATE CQ q AS SELECT t, u, v FROM p [RANGE 3] LEFT JOIN c [RANGE 2] ON p.k = c.k""",
    "matches": """CREATE CQ q AS EVENT SEQ(A x, B y) FROM a TYPE type WHERE [k] WITHIN 6
        RETURN match_start AS s, match_end AS e""",
    "absences": """CREATE CQ q AS EVENT SEQ(A x, !(B y)) FROM a TYPE type WHERE [k] WITHIN 6
        RETURN match_start AS s, match_end AS e""",
}

#: Steps of a stream: how far time goes on, how far behind the row is, key, type.
steps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, DISORDER), st.integers(0, 2), st.sampled_from("AB")), min_size=1, max_size=12
)


def batches(time: str, rows: list[tuple[int, int, int, str]], cut: int) -> Iterator[pa.RecordBatch]:
    schema = pa.schema({"k": pa.int64(), "type": pa.string(), time: pa.int64()})
    now, found = 0, []
    for step, behind, key, kind in rows:
        now += step
        found.append({"k": key, "type": kind, time: now - behind})
    for start in range(0, len(found), cut):
        yield pa.RecordBatch.from_pylist(found[start : start + cut], schema=schema)


@pytest.mark.parametrize("name", QUERIES)
@given(rows=st.tuples(steps, steps, steps), cut=st.integers(1, 5), shards=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_later_answers_are_no_older_than_said(name: str, rows: tuple[list, list, list], cut: int, shards: int) -> None:
    catalog = parse_application(STREAMS + QUERIES[name])
    known = delays(catalog.queries["q"].plan, catalog.queries)
    assert known.columns
    job = build_job(catalog, shards, ["q"])
    runner = LocalRunner(job)
    inputs = {stream: list(batches(time, mine, cut)) for (stream, time), mine in zip(("at", "bu", "cv"), rows, strict=True)}
    last = job.stages[-1].level
    promised = NEVER
    for number in range(max(map(len, inputs.values())) + 1):
        seen = len(runner.collected.answers["q"])
        runner.run({stream: mine[number] for stream, mine in inputs.items() if number < len(mine)})
        for answer in runner.collected.answers["q"][seen:]:
            _check(answer, known, promised)
        kernels = [runner.kernels[last, shard] for shard in range(shards)]
        frontiers = {min(guard.frontiers.current for guard in kernel.ingresses.values()) for kernel in kernels}
        assert len(frontiers) == 1, "all shards promise the same"
        (promised,) = frontiers


def _check(answer, known, promised: int) -> None:
    if promised == NEVER:
        return
    columns = dict(zip(answer.schema.names, answer.rows.columns, strict=True))
    if known.rows is not None:
        assert int(answer.ts.min()) >= promised - known.rows
    for column, delay in known.columns.items():
        values = [value for value in columns[column].to_pylist() if value is not None]
        assert not values or min(values) >= promised - delay.below_frontier, column
    if known.row_time:
        times = [[value for value in row.values() if value is not None] for row in answer.rows.select(known.row_time).to_pylist()]
        assert [max(found) for found in times] == answer.ts.tolist()
