"""The safety check: what bounds state, what does not, and remedies that can be pasted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.plan.analysis.remedies import Step
from penstock.plan.analysis.safety import SafetyReport, Verdict, check
from penstock.runners.local.runner import LocalRunner

FOLDER = Path(__file__).parents[1] / "golden" / "safety"

AUCTION = "CREATE STREAM auction (item_id BIGINT, seller BIGINT, ts BIGINT, {}WATERMARK ts DELAY OF 5);\n"
BID = "CREATE STREAM bid (item_id BIGINT, bidder BIGINT, price BIGINT, mark STRING, ts BIGINT, {}WATERMARK ts DELAY OF 5) {};\n"
JOIN = "CREATE CQ joined AS SELECT a.item_id, b.price FROM auction a{}, bid b{} WHERE a.item_id = b.item_id;\n"


def application(query: str, auction: str = "", bid: str = "", clause: str = "", windows: tuple[str, str] | None = None) -> str:
    elements = [f"{text}, " if text else "" for text in (auction, bid)]
    text = query.format(*windows) if windows is not None else query
    return AUCTION.format(elements[0]) + BID.format(elements[1], clause) + text


def judged(text: str, **options: bool) -> SafetyReport:
    return check(parse_application(text), **options)


def stateful(report: SafetyReport, query: str) -> Verdict:
    """The topmost operator of a query that keeps something."""
    return [verdict for verdict in report.of_query(query) if verdict.holdings][-1]


# -- joins -------------------------------------------------------------------------------------------------------------


def test_windows_on_all_inputs_bound_a_join() -> None:
    verdict = stateful(judged(application(JOIN, windows=(" [RANGE 100]", " [RANGE 20]"))), "joined")
    assert verdict.is_bounded
    assert verdict.bounded_by == ("window",)
    assert [holding.size for holding in verdict.holdings] == ["rate(a) × (100 + 5)", "rate(b) × (20 + 5)"]


def test_a_join_without_windows_and_declarations_grows_with_its_rows() -> None:
    verdict = stateful(judged(application(JOIN, windows=("", ""))), "joined")
    assert verdict.growth == "grows-with-rows"
    assert [holding.is_bounded for holding in verdict.holdings] == [False, False]


def test_a_unique_key_bounds_the_other_side_only() -> None:
    verdict = stateful(judged(application(JOIN, auction="UNIQUE (item_id)", windows=("", ""))), "joined")
    assert [holding.is_bounded for holding in verdict.holdings] == [False, True]
    assert verdict.conditions == ("every b.item_id also comes in a",)


@pytest.mark.parametrize(("clause", "condition"), [(" ON (item_id)", False), ("", True), (" ON (bidder)", None)])
def test_punctuations_bound_a_join_if_they_close_its_key(clause: str, condition: bool | None) -> None:
    text = application(JOIN, auction="UNIQUE (item_id)", clause=f"PUNCTUATIONS FROM mark{clause}", windows=("", ""))
    report = judged(text, with_remedies=False)
    assert report.is_bounded is (condition is not None)
    assumed = "punctuations on item_id arrive in bid" in stateful(report, "joined").conditions
    assert assumed is bool(condition)


def test_a_window_and_closed_keys_of_one_input_bound_the_other_as_well() -> None:
    """The running example: an auction leaves by its window, and with it all bids on it."""
    text = application(JOIN, auction="UNIQUE (item_id)", windows=(" [RANGE 24]", ""))
    verdict = stateful(judged(text), "joined")
    assert verdict.bounded_by == ("window", "constraint")


def test_a_key_is_finished_when_one_of_three_inputs_has_closed_it_and_forgotten_its_rows() -> None:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, ts BIGINT, {extra}WATERMARK ts DELAY OF 0);\n"
        for name, extra in (("x", "UNIQUE (k), "), ("y", ""), ("z", ""))
    )
    query = "CREATE CQ q AS SELECT x.k FROM x{}, y, z WHERE x.k = y.k AND y.k = z.k;"
    assert judged(streams + query.format(" [RANGE 9]")).is_bounded
    assert not judged(streams + query.format("")).is_bounded


def test_values_of_rows_that_are_filtered_out_are_never_closed() -> None:
    query = JOIN.replace(";", " AND a.seller > 3;")
    verdict = stateful(judged(application(query, auction="UNIQUE (item_id)", windows=(" [RANGE 9]", ""))), "joined")
    assert verdict.conditions == ("every b.item_id also comes in a among rows with a.seller > 3",)


# -- groups and duplicates ---------------------------------------------------------------------------------------------

GROUP = "CREATE CQ grouped AS SELECT item_id, count(*) AS n FROM bid {} GROUP BY item_id;"


@pytest.mark.parametrize(
    ("window", "growth", "by"),
    [
        ("[RANGE 10]", "", {"window"}),
        ("[RANGE 10, ADVANCE 3]", "", {"window"}),
        ("[RANGE 10, ADVANCE 30]", "", {"window"}),
        ("[FIXED RANGE 10]", "", {"window"}),
        ("[RANGE 10 MOVE (2, 4)]", "grows-with-time", set()),
        ("[LANDMARK RANGE 10, ADVANCE 5]", "grows-with-keys", set()),
        ("[ROWS 10]", "", {"disorder bound", "count"}),
        ("[PARTITION BY item_id ROWS 3]", "grows-with-keys", {"disorder bound"}),
    ],
)
def test_every_kind_of_window_is_judged_as_the_grouping_frees_it(window: str, growth: str, by: set[str]) -> None:
    verdict = stateful(judged(application(GROUP.format(window)), with_remedies=False), "grouped")
    assert (verdict.growth, set(verdict.bounded_by)) == (growth, by)


def test_landmark_windows_without_keys_keep_one_row_unless_they_count_distinct_values() -> None:
    query = "CREATE CQ total AS SELECT count({}bidder) AS n FROM bid [LANDMARK RANGE 10, ADVANCE 5];"
    assert judged(application(query.format(""))).is_bounded
    assert stateful(judged(application(query.format("DISTINCT "))), "total").growth == "grows-with-keys"


@pytest.mark.parametrize("bid", ["CLUSTERED (item_id)", "ORDERED (item_id)"])
def test_groups_without_window_need_punctuations_on_nothing_but_keys(bid: str) -> None:
    assert judged(application(GROUP.format(""), bid=bid)).is_bounded
    other = judged(application(GROUP.format(""), bid=bid.replace("item_id", "bidder")))
    assert stateful(other, "grouped").growth == "grows-with-keys"


def test_the_auction_query_is_bounded_when_punctuations_pass_the_join() -> None:
    query = (
        "CREATE CQ bids AS SELECT a.item_id, count(*) AS n FROM auction a, bid b WHERE a.item_id = b.item_id GROUP BY a.item_id;"
    )
    closed = application(query, auction="UNIQUE (item_id)", clause="PUNCTUATIONS FROM mark ON (item_id)")
    assert judged(closed).is_bounded
    opened = judged(application(query, auction="UNIQUE (item_id)"))
    assert [verdict.is_bounded for verdict in opened.of_query("bids")] == [False, False, True]


def test_duplicates_are_forgotten_by_window_or_by_any_punctuation() -> None:
    query = "CREATE CQ seen AS SELECT DISTINCT bidder, price FROM bid{};"
    assert judged(application(query.format(" [RANGE 10]"))).is_bounded
    assert judged(application(query.format(""), bid="ORDERED (price)")).is_bounded
    assert stateful(judged(application(query.format(""))), "seen").growth == "grows-with-keys"


# -- plans of several operators ----------------------------------------------------------------------------------------


def test_a_window_over_a_query_whose_time_stands_still_bounds_nothing() -> None:
    queries = GROUP.format("[LANDMARK RANGE 10, ADVANCE 5]") + "CREATE CQ top AS SELECT max(n) AS most FROM grouped [RANGE 20];"
    report = judged(application(queries))
    assert stateful(report, "top").growth == "grows-with-rows"
    assert "holds it back" in stateful(report, "top").holdings[0].why
    assert judged(application(queries.replace("LANDMARK RANGE 10, ADVANCE 5", "RANGE 10"))).is_bounded


def test_knowledge_passes_queries_over_queries_and_select_lists_that_keep_the_column() -> None:
    queries = "CREATE CQ narrow AS SELECT {} AS item, price FROM bid WHERE price > 3;"
    queries += "CREATE CQ n AS SELECT item, count(*) AS n FROM narrow GROUP BY item;"
    assert judged(application(queries.format("item_id"), bid="CLUSTERED (item_id)")).is_bounded
    assert not judged(application(queries.format("item_id + 1"), bid="CLUSTERED (item_id)")).is_bounded


def test_a_union_needs_the_promise_of_every_input() -> None:
    query = "CREATE CQ u AS SELECT item_id FROM auction UNION SELECT item_id FROM bid;"
    assert judged(application(query, auction="ORDERED (item_id)", bid="ORDERED (item_id)")).is_bounded
    assert not judged(application(query, auction="ORDERED (item_id)")).is_bounded
    # A unique value of one input is never announced by the other.
    assert not judged(application(query, auction="UNIQUE (item_id)", bid="UNIQUE (item_id)")).is_bounded


def test_a_query_that_ends_is_bounded_by_its_end() -> None:
    verdict = stateful(judged(application(JOIN.replace("joined AS", "joined BEGIN 0 END 100 AS"), windows=("", ""))), "joined")
    assert verdict.bounded_by == ("end of the query",)


# -- remedies ----------------------------------------------------------------------------------------------------------


def pasted(text: str, step: Step, element: str = "", clause: str = "") -> str:
    """The application with one step written into it."""
    if step.query:
        head, mark, body = text.partition(f"CREATE CQ {step.query} ")
        source = re.escape(step.source) + (r" \[[^\]]*\]" if step.replaces else "")
        return head + mark + re.sub(rf"(FROM|,) {source}(?![\w.])", rf"\1 {step.source} {step.clause}", body, count=1)
    head, mark, body = text.partition(f"CREATE STREAM {step.stream} (")
    columns, end, rest = body.partition(", WATERMARK")
    inside, behind = (element or step.element, clause) if element else (step.element, step.clause)
    statement, semicolon, more = rest.partition(";")
    return head + mark + columns + (f", {inside}" if inside else "") + end + f"{statement} {behind}" + semicolon + more


UNBOUNDED = [
    application(JOIN, windows=("", "")),
    application(JOIN, auction="UNIQUE (item_id)", windows=("", "")),
    application(JOIN, windows=(" [RANGE 10]", "")),
    application(GROUP.format("[LANDMARK RANGE 10, ADVANCE 5]")),
    application(GROUP.format("[PARTITION BY item_id ROWS 3]")),
    application(GROUP.format(""), bid="CLUSTERED (bidder)"),
    application("CREATE CQ d AS SELECT DISTINCT bidder FROM bid;"),
    application("CREATE CQ u AS SELECT item_id FROM auction UNION SELECT item_id FROM bid;"),
    application(
        "CREATE CQ n AS SELECT a.item_id, count(*) AS n FROM auction a, bid b WHERE a.item_id = b.item_id GROUP BY a.item_id;",
        auction="UNIQUE (item_id)",
    ),
    application(GROUP.format("[LANDMARK RANGE 10, ADVANCE 5]") + "CREATE CQ top AS SELECT max(n) AS most FROM grouped [RANGE 20];"),
]


@pytest.mark.parametrize("text", UNBOUNDED)
def test_every_remedy_bounds_the_operator_when_it_is_pasted(text: str) -> None:
    report = judged(text)
    assert not report.is_bounded
    for place, verdict in enumerate(report.verdicts):
        if verdict.is_bounded:
            continue
        assert verdict.remedies
        for remedy in verdict.remedies:
            changed = text
            for step in remedy.steps:
                changed = pasted(changed, step)
            assert judged(changed, with_remedies=False).verdicts[place].is_bounded, changed


def test_what_is_offered_instead_helps_as_well() -> None:
    text = application(JOIN, auction="UNIQUE (item_id)", windows=("", ""))
    (step,) = stateful(judged(text), "joined").remedies[1].steps
    assert (step.stream, step.element) == ("bid", "UNIQUE (item_id)")
    assert step.instead == ("CLUSTERED (item_id)", "ORDERED (item_id)", "PUNCTUATIONS FROM mark ON (item_id)")
    *constraints, told = step.instead
    for element in constraints:
        assert judged(pasted(text, step, element)).is_bounded
    assert judged(text.replace("DELAY OF 5) ;", f"DELAY OF 5) {told};")).is_bounded


# -- against what runs -------------------------------------------------------------------------------------------------


def rows_kept(text: str, rows: int) -> list[int]:
    """State of all operators after each of eight pieces of a stream whose keys are always new."""
    runner = LocalRunner(build_job(parse_application(text), 2))
    kept = []
    for piece in np.split(np.arange(rows), 8):
        items, ts = pa.array(piece // 4), pa.array(piece // 2)
        auctions = pa.RecordBatch.from_arrays([pa.array(piece), items, ts], names=["item_id", "seller", "ts"])
        bids = pa.RecordBatch.from_arrays(
            [items, pa.array(piece), items, pa.nulls(len(piece), pa.string()), ts],
            names=["item_id", "bidder", "price", "mark", "ts"],
        )
        runner.run({"auction": auctions, "bid": bids})
        kept.append(sum(counters.get("state_rows", 0) for counters in runner.report().values()))
    return kept


@pytest.mark.parametrize(
    "text",
    [
        *UNBOUNDED[:7],
        application(JOIN, windows=(" [RANGE 40]", " [RANGE 20]")),
        application(JOIN, auction="UNIQUE (item_id)", bid="CLUSTERED (item_id)", windows=(" [RANGE 40]", "")),
        *(
            application(GROUP.format(window))
            for window in ("[RANGE 40]", "[RANGE 40, ADVANCE 10]", "[ROWS 40]", "[RANGE 10 MOVE (5, 10)]")
        ),
        application(GROUP.format(""), bid="ORDERED (item_id)"),
        application("CREATE CQ d AS SELECT DISTINCT bidder FROM bid [RANGE 40];"),
        application("CREATE CQ d AS SELECT DISTINCT bidder FROM bid;", bid="ORDERED (bidder)"),
        application("CREATE CQ t AS SELECT count(*) AS n FROM bid [LANDMARK RANGE 10, ADVANCE 5];"),
    ],
)
def test_state_stops_growing_exactly_where_the_check_says_so(text: str) -> None:
    kept = rows_kept(text, 6400)
    grows = kept[-1] > 1.5 * max(kept[:4])
    assert grows is not judged(text, with_remedies=False).is_bounded, kept


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_the_report_reads_like_the_golden_file(path: Path, update_golden: bool) -> None:
    text, _, expected = path.read_text().partition("\n----")
    report = check(parse_application(text, path.stem))
    if update_golden:
        path.write_text(f"{text}\n----\n{report}\n")
    assert update_golden or str(report) == expected.strip("\n")
    coded = json.loads(json.dumps(report.to_json()))
    assert coded["bounded"] is report.is_bounded
    assert [operator["operator"] for operator in coded["operators"]] == [verdict.operator for verdict in report.verdicts]
