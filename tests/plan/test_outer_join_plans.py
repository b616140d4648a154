"""Outer, semi and anti joins in plans: what is proven of them, where they run, and that the kind is part of the plan."""

from __future__ import annotations

import pytest

from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.jobs import Job
from penstock.lowering.stages import build_job
from penstock.model.join_kinds import JoinKind
from penstock.plan.analysis.propagate import propagate
from penstock.plan.analysis.safety import check
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.joins import WindowJoin

STREAMS = """
CREATE STREAM a (k BIGINT, v BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 3) PUNCTUATIONS FROM mark ON (k);
CREATE STREAM b (k BIGINT, w BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 3) PUNCTUATIONS FROM mark ON (k);
CREATE STREAM c (k BIGINT, x BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
"""
KINDS = [kind for kind in JoinKind if kind is not JoinKind.INNER]


def application(*queries: str) -> Catalog:
    return parse_application(STREAMS + "".join(f"CREATE CQ q{at} AS {text};" for at, text in enumerate(queries)))


def schemes_of(kind: JoinKind) -> set[str]:
    catalog = application(f"SELECT a.k FROM a {kind.words} JOIN b ON a.k = b.k")
    (join,) = [found for found in propagate(catalog)["q0"] if isinstance(found.node, WindowJoin)]
    return {name for scheme in join.known.schemes for name in scheme.columns}


def test_a_key_is_closed_in_the_output_only_where_no_row_without_partner_can_have_it() -> None:
    found = {kind: schemes_of(kind) for kind in JoinKind}
    both, first = {"a.k", "b.k"}, {"a.k"}
    assert found == {
        JoinKind.INNER: both, JoinKind.LEFT: both, JoinKind.RIGHT: both, JoinKind.FULL: both,
        JoinKind.LEFT_SEMI: first, JoinKind.LEFT_ANTI: first,
    }  # fmt: skip


def test_only_the_preserved_input_closes_its_own_key() -> None:
    """Of c nothing is declared, so the punctuations are those of the other input."""
    for words, known in (("LEFT", {"b.k"}), ("RIGHT", {"b.k", "c.k"}), ("FULL", {"b.k"}), ("ANTI", set()), ("SEMI", {"c.k"})):
        catalog = application(f"SELECT c.k FROM c [RANGE 5] {words} JOIN b [RANGE 5] ON c.k = b.k")
        (join,) = [found for found in propagate(catalog)["q0"] if isinstance(found.node, WindowJoin)]
        assert {name for scheme in join.known.schemes for name in scheme.columns} == known, words


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_bounded_by_windows_and_by_punctuations_as_of_an_inner_join(kind: JoinKind) -> None:
    windowed = f"SELECT a.k FROM a [RANGE 5] {kind.words} JOIN c [RANGE 7] ON a.k = c.k"
    closed = f"SELECT a.k FROM a {kind.words} JOIN b ON a.k = b.k"
    open_ = f"SELECT a.k FROM a {kind.words} JOIN c ON a.k = c.k"
    report = check(application(windowed, closed, open_), with_remedies=False)
    assert [verdict.is_bounded for verdict in report.verdicts if isinstance(verdict.node, WindowJoin)] == [True, True, False]


def test_an_aggregate_behind_rows_that_wait_reckons_with_their_wait() -> None:
    report = check(
        application(
            "SELECT k, count(*) AS n FROM (SELECT a.k FROM a [RANGE 5] LEFT JOIN c [RANGE 7] ON a.k = c.k) j [RANGE 20] GROUP BY k"
        )
    )
    (grouping,) = [verdict for verdict in report.verdicts if verdict.operator.startswith("GroupBy")]
    assert "rate × (20 + 8)" in str(report)
    assert grouping.is_bounded


def test_event_time_stalls_behind_rows_that_may_be_answered_at_any_time() -> None:
    report = check(application("SELECT k, count(*) AS n FROM (SELECT c.k FROM c ANTI JOIN a ON c.k = a.v) j [RANGE 20] GROUP BY k"))
    assert not report.is_bounded
    assert "rows of c may be answered at any time" in str(report)


def levels(job: Job) -> dict[str, int]:
    return {node.id.rstrip("0123456789"): stage.level for stage in job.stages for node in stage.graph.nodes}


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("SELECT a.k, count(*) AS n FROM a [RANGE 5] LEFT JOIN b [RANGE 5] ON a.k = b.k GROUP BY a.k", 1),
        ("SELECT b.k, count(*) AS n FROM a [RANGE 5] LEFT JOIN b [RANGE 5] ON a.k = b.k GROUP BY b.k", 2),
        ("SELECT b.k, count(*) AS n FROM a [RANGE 5] RIGHT JOIN b [RANGE 5] ON a.k = b.k GROUP BY b.k", 1),
        ("SELECT a.k, count(*) AS n FROM a [RANGE 5] FULL JOIN b [RANGE 5] ON a.k = b.k GROUP BY a.k", 2),
        ("SELECT a.k, count(*) AS n FROM a [RANGE 5] ANTI JOIN b [RANGE 5] ON a.k = b.k GROUP BY a.k", 1),
    ],
)
def test_a_grouping_shares_the_stage_only_if_its_key_decides_the_shard(text: str, level: int) -> None:
    assert levels(build_job(application(text), 3))["GroupBy"] == level


def test_the_kind_is_part_of_the_plan_and_of_its_fingerprint() -> None:
    texts = [f"SELECT a.k FROM a [RANGE 5] {kind.words} JOIN b [RANGE 5] ON a.k = b.k" for kind in JoinKind]
    fingerprints = {build_job(application(text), 2).fingerprint for text in texts}
    assert len(fingerprints) == len(texts)
    assert "WindowJoin LEFT ANTI a.k = b.k [sliding 5 | sliding 5]" in str(explain(application(texts[-1])))


def test_columns_that_may_be_missing_are_nullable_whatever_was_declared() -> None:
    catalog = parse_application("""
        CREATE STREAM a (k BIGINT NOT NULL, ts BIGINT, WATERMARK ts DELAY OF 0);
        CREATE CQ q AS SELECT a.k, b.k AS other FROM a [RANGE 5] LEFT JOIN a b [RANGE 5] ON a.k = b.k;
    """)
    (join,) = catalog.queries["q"].plan.inputs
    assert [join.schema[name].nullable for name in ("a.k", "b.k")] == [False, True]
