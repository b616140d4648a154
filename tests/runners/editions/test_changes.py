"""What a changed text means for the state of queries."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidDeclaration, StateFormat, UnknownQuery
from penstock.lowering.tuning import tunable_joins
from penstock.runners.editions.changes import changed, refuse_incompatible
from penstock.runners.editions.edition import ADD, DROP, Edition

STREAM = "CREATE STREAM bid (item BIGINT, price DOUBLE, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 2 SECONDS) USING rate;\n"
BUSY = "CREATE CQ busy AS SELECT item, COUNT(*) AS n FROM bid [RANGE 10 SECONDS] GROUP BY item;\n"
DEAR = "CREATE CQ expensive AS SELECT item, price FROM bid WHERE price > 100;\n"
TOP = "CREATE CQ top AS SELECT item, MAX(price) AS best FROM bid [RANGE 30 SECONDS] GROUP BY item;\n"


def first(*texts: str) -> Edition:
    return Edition.first("app", STREAM + "".join(texts), 0)


def test_an_unchanged_text_is_the_same_edition() -> None:
    edition = first(BUSY, DEAR)
    following, changes = changed(edition, 2, file=edition.file)
    assert following is edition
    assert not changes
    assert changes.kept == ("busy", "expensive")


def test_queries_come_and_go_and_the_others_keep_their_operators() -> None:
    edition = first(BUSY, DEAR)
    following, changes = changed(edition, 2, file=STREAM + BUSY + TOP)
    assert (changes.kept, changes.fresh, changes.dropped) == (("busy",), ("top",), ("expensive",))
    before, after = ({node.id: node.queries for node in each.job(2).stages[0].graph.nodes} for each in (edition, following))
    kept = {name for name, queries in before.items() if "busy" in queries}
    assert kept <= after.keys()
    assert all(name.endswith("~1") for name in after.keys() - kept)


def test_a_query_that_begins_later_shares_no_state() -> None:
    edition = first(BUSY)
    twin = BUSY.replace("busy", "twin")
    following, _ = changed(edition, 2, later=[(ADD, twin)])
    groupings = [node for node in following.job(2).stages[0].graph.nodes if node.id.startswith("GroupBy")]
    assert [node.queries for node in groupings] == [{"busy"}, {"twin"}]


def test_a_changed_window_is_refused_and_told() -> None:
    edition = first(BUSY)
    wider = STREAM + BUSY.replace("10 SECONDS", "20 SECONDS")
    _, changes = changed(edition, 2, file=wider)
    assert list(changes.refused) == ["busy"]
    with pytest.raises(StateFormat, match=r"query 'busy': GroupBy .*10.* now GroupBy .*20(.|\n)*--reset busy"):
        refuse_incompatible(changes, "checkpoint 'c'")
    following, changes = changed(edition, 2, file=wider, reset=["Busy"])
    assert (changes.fresh, changes.reset, changes.refused) == (("busy",), ("busy",), {})
    assert [node.id for node in following.job(2).stages[0].graph.nodes if "GroupBy" in node.id] == ["GroupBy1~1"]


@pytest.mark.parametrize(
    "after",
    [
        STREAM + BUSY.replace("COUNT(*) AS n", "COUNT(*) * 2 AS twice"),
        STREAM + BUSY.replace("GROUP BY item", "GROUP BY item HAVING COUNT(*) > 3"),
        STREAM.replace("2 SECONDS", "5 SECONDS") + BUSY,
    ],
)
def test_what_means_the_same_for_the_state_goes_on_with_it(after: str) -> None:
    edition = first(BUSY)
    following, changes = changed(edition, 2, file=after)
    assert changes.continued == ("busy",)
    old = {node.id for node in edition.job(2).stages[0].graph.nodes} | {
        entry.name for entry in edition.job(2).stages[0].graph.entries
    }
    assert set(following.heirs.values()) <= old
    assert any("GroupBy" in name for name in following.heirs.values())
    assert any("bid@" in name for name in following.heirs.values())


@pytest.mark.parametrize(
    "after",
    [
        "-- a comment\n" + STREAM + BUSY,
        STREAM.replace("price DOUBLE,", "price DOUBLE, seller STRING,") + BUSY,
        STREAM + BUSY.rstrip(";\n") + " OUTPUT TO console;",
        STREAM + "CREATE FUNCTION f(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:isqrt', kind 'rows');" + BUSY,
    ],
)
def test_what_does_not_touch_a_query_keeps_it(after: str) -> None:
    edition = first(BUSY)
    following, changes = changed(edition, 2, file=after)
    assert (changes.kept, bool(changes)) == (("busy",), False)
    assert following.file == after


@pytest.mark.parametrize(
    ("condition", "is_kept"),
    [("root(item) > 3", True), ("root(item) > 4", False), ("root(item) > 3 AND root(item + 1) < 9", False), ("item > 3", False)],
)
def test_state_behind_another_condition_in_python_is_of_other_rows(condition: str, is_kept: bool) -> None:
    function = "CREATE FUNCTION root(x BIGINT) RETURNS BIGINT USING python OPTIONS (callable 'math:isqrt', kind 'rows');"
    where = STREAM + function + BUSY.replace("GROUP BY", "WHERE root(item) > 3 GROUP BY")
    edition = Edition.first("app", where, 0)
    (source,) = edition.job(2).stages[0].sources
    assert [item.name for item in source.prefix.filters] == ["Select1"]
    # What its answers are may change, what its state is of may not.
    after = where.replace("root(item) > 3", condition).replace("COUNT(*) AS n", "COUNT(*) * 2 AS n")
    following, changes = changed(edition, 2, file=after)
    assert (changes.continued == ("busy",), list(changes.refused) == ["busy"]) == (is_kept, not is_kept)
    names = [item.name for each in following.job(2).stages[0].sources for item in each.prefix.filters]
    assert not is_kept or names == ["Select1~1"]


def test_a_query_may_be_dropped_and_come_back_as_another() -> None:
    edition = first(BUSY, DEAR)
    dropped, changes = changed(edition, 2, later=[(DROP, "expensive")])
    assert (changes.dropped, list(dropped.catalog.queries)) == (("expensive",), ["busy"])
    again, changes = changed(dropped, 2, later=[(ADD, DEAR.replace("100", "200"))])
    assert (changes.fresh, changes.kept) == (("expensive",), ("busy",))
    # A restart with the file of the first start knows of neither, and changes neither.
    restarted, changes = changed(again, 2, file=edition.file)
    assert restarted is again
    assert not changes


def test_a_query_that_others_read_is_not_dropped() -> None:
    edition = first(BUSY, "CREATE CQ more AS SELECT item FROM busy WHERE n > 2;")
    with pytest.raises(InvalidDeclaration, match="read by query 'more'; drop that one first"):
        changed(edition, 2, later=[(DROP, "busy")])


def test_a_query_cannot_go_on_when_what_it_reads_begins_anew() -> None:
    edition = first(BUSY, "CREATE CQ more AS SELECT item FROM busy WHERE n > 2;")
    _, changes = changed(edition, 2, reset=["busy"])
    assert changes.refused == {"more": ("it reads query 'busy', which is to begin anew",)}
    _, changes = changed(edition, 2, reset=["busy", "more"])
    assert (changes.fresh, changes.refused) == (("busy", "more"), {})


def test_unknown_queries_cannot_begin_anew() -> None:
    with pytest.raises(UnknownQuery, match=r"no query 'bussy'; .*busy"):
        changed(first(BUSY), 2, reset=["bussy"])


def test_an_edition_survives_being_written_down() -> None:
    edition, _ = changed(first(BUSY), 2, later=[(ADD, TOP), (DROP, "busy")])
    import json

    assert Edition.from_json(json.loads(json.dumps(edition.to_json()))) == edition


def test_now_means_what_it_meant_when_the_query_began() -> None:
    since = "CREATE CQ since BEGIN NOW AS SELECT item, COUNT(*) AS n FROM bid [RANGE 1 DAY] GROUP BY item;"
    edition, _ = changed(first(BUSY), 2, later=[(ADD, since)], now_us=5_000_000)
    _, changes = changed(edition, 2, file=edition.file + "-- later", now_us=9_000_000)
    assert (changes.kept, bool(changes)) == (("busy", "since"), False)


def test_a_column_of_another_type_is_told() -> None:
    _, changes = changed(first(BUSY), 2, file=STREAM.replace("item BIGINT", "item STRING") + BUSY)
    assert "column 'item' of stream 'bid' is BIGINT, now STRING" in changes.refused["busy"]


def test_joins_of_queries_that_are_gone_are_not_tuned_any_more() -> None:
    pairs = "CREATE CQ {name} AS SELECT /*+ PJOIN */ a.item FROM bid a, bid b WHERE a.item = b.item AND a.price > {price};\n"
    edition = first(BUSY, pairs.format(name="expensive", price=5), pairs.format(name="cheap", price=1))
    following, _ = changed(edition, 2, later=[(DROP, "expensive")])
    assert [join.queries for join in tunable_joins(following.job(2))] == [{"cheap"}]
