"""What queries ask of the service, VALID FOR, WEIGHT and SHOW TIMING, holds however many stages they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import LateAnswer
from penstock.kernel.work import Terms
from penstock.language.application import parse_application
from penstock.lowering.jobs import Job
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.lowering.terms import terms_of
from penstock.model.schema import TIMESTAMP
from penstock.model.service import TIMING_COLUMNS
from penstock.plan.catalog import Catalog
from penstock.runners.editions.changes import changed
from penstock.runners.editions.edition import ADD, Edition
from penstock.runners.local.runner import Collected, LocalRunner

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (k BIGINT, x BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND){0};
CREATE STREAM b (k BIGINT, x BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);
"""
#: They read each other, so what one asks for must not become what another one asks for.
QUERIES = {
    "plain": "SELECT k, x FROM a WHERE x > 1",
    "counted": "SELECT k, window_end() AS till, count(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY k",
    "over": "SELECT n, window_end() AS till, count(*) AS m FROM counted [RANGE 4 SECONDS] GROUP BY n",
    "above": "SELECT n, m FROM over WHERE m > 0",
    "joined": "SELECT a.k AS k, b.x AS x FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.x = b.x",
    "both": "SELECT k, x FROM plain UNION ALL SELECT k, x FROM joined",
    "once": "SELECT k FROM both [RANGE 2 SECONDS] UNION SELECT n AS k FROM counted [RANGE 2 SECONDS]",
    "each": "SELECT DISTINCT x FROM both [RANGE 2 SECONDS]",
}


@dataclass(frozen=True)
class Asked:
    """What a query asks for, as text."""

    validity: str = ""
    weight: float = 1.0
    shows: bool = False
    late: str = ""

    @property
    def text(self) -> str:
        weight = "" if self.weight == 1 else f" WEIGHT {self.weight}"
        return f"{self.validity}{weight}{' SHOW TIMING' if self.shows else ''}{self.late}"


EVENT, ARRIVAL = " VALID FOR INTERVAL 3 SECONDS AFTER EVENT", " VALID FOR INTERVAL 5 SECONDS AFTER ARRIVAL"
ALL = Asked(EVENT, 2.5, shows=True)


def written(asked: dict[str, Asked], stream: str = "") -> str:
    queries = (f"CREATE CQ {name}{asked.get(name, Asked()).text} AS {text};" for name, text in QUERIES.items())
    return STREAMS.format(stream) + "\n".join(queries)


def checked(job: Job, catalog: Catalog) -> None:
    """All graphs of a job know what all queries ask for."""
    for stage in job.stages:
        for name in job.outputs:
            query = catalog.queries[name]
            assert stage.graph.terms[name] == terms_of(catalog, name)
            assert (name in stage.graph.timed) == query.shows_timing
            assert (TIMING_COLUMNS[0] in job.outputs[name]) == query.shows_timing


def _inputs(at: int) -> dict[str, pa.RecordBatch]:
    times = pa.array([(2 * at + part) * SECOND for part in range(4)], pa.int64()).view(TIMESTAMP)
    rows = pa.record_batch({"k": [at % 3, 1, 2, 1], "x": [2, 1, at % 4, 3], "ts": times})
    return {"a": rows, "b": rows}


def answered(job: Job) -> dict[str, list[dict[str, Any]]]:
    """Answers of all queries."""
    collected = run(job)
    for name, batches in collected.answers.items():
        for batch in batches:
            assert batch.rows.schema.names == list(job.outputs[name].names)
    return {name: collected.rows(name) for name in job.outputs}


def run(job: Job, stages: int = 0) -> Collected:
    """Each micro-batch begins seven seconds after the one before; 1: in one stage, whatever the job has."""
    job = looped(job) if stages == 1 else job
    moments = iter(range(0, 10**6, 7))
    runner = LocalRunner(job, encode=True, waits=len(job.stages) == 1, now_ns=lambda: next(moments) * 1_000 * SECOND)
    for at in range(4):
        runner.run(_inputs(at))
    runner.end()
    return runner.collected


def without_timing(answers: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {query: sorted(_plain(row) for row in rows) for query, rows in answers.items()}


def _plain(row: dict[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if name not in TIMING_COLUMNS})


asking = st.builds(Asked, st.sampled_from(["", EVENT, ARRIVAL]), st.sampled_from([1.0, 4.0]), st.booleans())


@settings(deadline=None, max_examples=12)
@given(asked=st.fixed_dictionaries(dict.fromkeys(QUERIES, asking)), stream=st.sampled_from(["", ARRIVAL]))
def test_one_stage_knows_what_several_knew(asked: dict[str, Asked], stream: str) -> None:
    text = written(asked, stream)
    catalog = parse_application(text)
    staged = build_job(catalog, 2)
    assert len(staged.stages) > 1
    for job in (staged, looped(staged), Edition.first("app", text, 0).job(2)):
        checked(job, catalog)


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_may_be_the_only_one_that_asks(name: str) -> None:
    catalog = parse_application(written({name: ALL}))
    job = looped(build_job(catalog, 2))
    checked(job, catalog)
    assert job.stages[0].graph.timed == {name}
    assert job.stages[0].graph.terms[name] == Terms(2.5, 3 * SECOND, None)


def test_answers_show_their_timing_in_one_stage_as_in_several() -> None:
    catalog = parse_application(written({name: Asked(EVENT, shows=True) for name in QUERIES}))
    job = build_job(catalog, 2)
    plain = answered(looped(build_job(parse_application(written({})), 2)))
    for found in (answered(job), answered(looped(job))):
        assert without_timing(found) == without_timing(plain)
        for rows in found.values():
            assert rows
            assert all(row["late"] == (row["produced_at"] > row["deadline"]) for row in rows)
    assert any(row["late"] for row in found["once"])


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("validity", [EVENT, " VALID FOR INTERVAL 1 MICROSECOND AFTER ARRIVAL"])
def test_late_answers_go_where_the_query_wants_them(validity: str, stages: int) -> None:
    kept, parted = (
        run(build_job(parse_application(written({name: Asked(validity, late=late) for name in QUERIES})), 2), stages)
        for late in (" SHOW TIMING", " ON LATE ANSWERS QUARANTINE")
    )
    late = {name: [row for row in kept.rows(name) if row["late"]] for name in QUERIES}
    assert any(late.values())
    for name, rows in late.items():
        refused = [row for item in parted.refused if item.stream == name for row in item.batch.rows.to_pylist()]
        assert sorted(map(_plain, rows)) == sorted(map(_plain, refused))
        assert sorted(map(_plain, kept.rows(name))) == sorted([*map(_plain, parted.rows(name)), *map(_plain, refused)])
    assert {item.reason for item in parted.refused} == {"late-answer"}
    failing = written({"counted": Asked(validity, late=" ON LATE ANSWERS ERROR")})
    with pytest.raises(LateAnswer, match="answers of query 'counted' came when they were of no use any more; give it"):
        run(build_job(parse_application(failing), 2), stages)


@settings(deadline=None, max_examples=8)
@given(asked=st.fixed_dictionaries(dict.fromkeys(QUERIES, asking)), again=st.fixed_dictionaries(dict.fromkeys(QUERIES, asking)))
def test_a_later_text_may_ask_for_something_else(asked: dict[str, Asked], again: dict[str, Asked]) -> None:
    before, text = Edition.first("app", written(asked), 0), written(again)
    edition, _ = changed(before, 2, file=text)
    checked(edition.job(2), parse_application(text))


def test_what_an_added_query_asks_for_holds_beside_the_others() -> None:
    before = Edition.first("app", STREAMS.format("") + f"CREATE CQ plain{ALL.text} AS {QUERIES['plain']};", 0)
    more = f"CREATE CQ counted{ALL.text} AS {QUERIES['counted']};\nCREATE CQ over{ALL.text} AS {QUERIES['over']};"
    edition, _ = changed(before, 2, later=[(ADD, more)])
    checked(edition.job(2), edition.catalog)
