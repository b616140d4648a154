"""The plan chooses a join's variant from windows, punctuations and the number of inputs; hints force one."""

from __future__ import annotations

import re

import pytest

from penstock.errors import PenstockError
from penstock.language.application import parse_application
from penstock.lowering.explain import explain
from penstock.lowering.stages import build_job
from penstock.model.join_variants import JoinVariant
from penstock.plan.analysis.join_choice import JoinChoice, choose
from penstock.plan.analysis.propagate import propagate
from penstock.plan.nodes.joins import WindowJoin
from penstock.testing.undisturbed import undisturbed

STREAMS = """
CREATE STREAM a (k BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 3) PUNCTUATIONS FROM mark ON (k);
CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM c (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 3);
CREATE STREAM u (k BIGINT, ts BIGINT, UNIQUE (k), WATERMARK ts DELAY OF 3);
"""
FEEDS = """
CREATE STREAM auction (item_id BIGINT, opens TIMESTAMP, UNIQUE (item_id), WATERMARK opens DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'auction.auction', total '2000', bids_per_item '10', open_items '20');
CREATE STREAM bid (item_id BIGINT, price DOUBLE, ts TIMESTAMP, mark STRING, WATERMARK ts DELAY OF INTERVAL 0 SECONDS)
  USING feed OPTIONS (workload 'auction.bid', total '2000', bids_per_item '10', open_items '20', marks 'constant')
  PUNCTUATIONS FROM mark;
"""


def choice(query: str) -> JoinChoice:
    found = propagate(parse_application(f"{STREAMS} CREATE CQ q AS {query};"))["q"]
    known = {id(one.node): one.known for one in found}
    (join,) = [one.node for one in found if isinstance(one.node, WindowJoin)]
    return choose(join, [known[id(part)] for part in join.parts])


@pytest.mark.parametrize(
    ("sources", "variant"),
    [
        ("b [RANGE 5], c [RANGE 5]", JoinVariant.WJOIN),
        ("a [RANGE 5], c [RANGE 5]", JoinVariant.PWJOIN),
        ("a [RANGE 5], c", JoinVariant.PWJOIN),
        ("a, c", JoinVariant.PJOIN),
        ("u, c", JoinVariant.PJOIN),
        ("b, c", JoinVariant.XJOIN),
        ("a [RANGE 5], b [RANGE 5], c [RANGE 5]", JoinVariant.MPWJOIN),
        ("b [RANGE 5], c [RANGE 5], b AS d [RANGE 5]", JoinVariant.MWJOIN),
    ],
)
def test_windows_punctuations_and_inputs_decide(sources: str, variant: JoinVariant) -> None:
    names = [part.strip().split()[2 if " AS " in part else 0] for part in sources.split(",")]
    equal = " AND ".join(f"{names[0]}.k = {other}.k" for other in names[1:])
    assert choice(f"SELECT {names[0]}.k FROM {sources} WHERE {equal}").variant is variant


def test_the_reason_names_windows_and_who_closes_the_key() -> None:
    found = str(choice("SELECT a.k FROM a [RANGE 5], u WHERE a.k = u.k"))
    assert found == (
        "PWJoin: windows on a; punctuations: a closes a.k (PUNCTUATIONS FROM mark ON (k) of a), u closes u.k (UNIQUE (k) of u)"
    )


def test_explain_shows_the_variant_and_a_hint() -> None:
    text = f"{STREAMS} CREATE CQ q AS SELECT /*+ PJOIN(memory_bytes = 10) */ a.k FROM a, c WHERE a.k = c.k;"
    assert ". PJoin: the hint PJoin(memory_bytes = 10) asks for it" in str(explain(parse_application(text)))


@pytest.mark.parametrize(
    "hint",
    [
        "", "/*+ PJOIN */", "/*+ PJOIN(memory_bytes = 2000) */", "/*+ PJOIN(max_drop_markers = 2) */", "/*+ XJOIN */",
        "/*+ XJOIN(memory_bytes = 4000) */",
    ],
)  # fmt: skip
def test_every_variant_gives_the_same_answer(hint: str) -> None:
    query = "CREATE CQ q AS SELECT {} a.item_id, b.price FROM auction a, bid b WHERE a.item_id = b.item_id;"
    expected = undisturbed(FEEDS + query.format("")).collected.rows("q")
    found = undisturbed(FEEDS + query.format(hint)).collected.rows("q")
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert len(found) > 1000


@pytest.mark.parametrize(
    "hint",
    [
        "", "/*+ WJOIN */", "/*+ PWJOIN */", "/*+ PWJOIN(memory_bytes = 1) */", "/*+ MWJOIN(memory_bytes = 3000) */",
        "/*+ MPWJOIN(max_drop_markers = 2) */",
    ],
)  # fmt: skip
def test_every_variant_with_windows_gives_the_same_answer(hint: str) -> None:
    query = (
        "CREATE CQ q AS SELECT {} a.item_id, b.price FROM auction a [RANGE 40 MILLISECONDS], bid b [RANGE 30 MILLISECONDS] "
        "WHERE a.item_id = b.item_id AND b.price > 50;"
    )
    expected = undisturbed(FEEDS + query.format("")).collected.rows("q")
    found = undisturbed(FEEDS + query.format(hint)).collected.rows("q")
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert len(found) > 300


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ("SELECT «/*+ PJOINN */» a.k FROM a, c WHERE a.k = c.k", "Did you mean 'PJOIN'"),
        ("SELECT /*+ «PJOINN»(memory_bytes = 5) */ a.k FROM a, c WHERE a.k = c.k", "Did you mean 'PJOIN'"),
        ("SELECT «/*+ PJOIN */» k FROM a", "this query reads one source"),
        ("SELECT /*+ PJOIN(«7») */ a.k FROM a, c WHERE a.k = c.k", "write name = value"),
        ("SELECT /*+ PJOIN(«memory_bytes = k») */ a.k FROM a, c WHERE a.k = c.k", "write a number, a text, TRUE or FALSE"),
        ("SELECT «/*+ PJOIN */» a.k FROM a [RANGE 5], c [RANGE 5] WHERE a.k = c.k", "two inputs without windows"),
        ("SELECT «/*+ PWJOIN */» a.k FROM a [RANGE 5], b [RANGE 5], c [RANGE 5] WHERE a.k = b.k AND b.k = c.k", "MPWJoin"),
        ("SELECT «/*+ PWJOIN */» a.k FROM a [RANGE 5] LEFT JOIN c [RANGE 5] ON a.k = c.k", "inner joins only"),
        ("SELECT «/*+ PJOIN, XJOIN */» a.k FROM a, c WHERE a.k = c.k", "found 2 hints"),
        ("SELECT «/*+ */» a.k FROM a, c WHERE a.k = c.k", "the hint is empty"),
        ("SELECT «/*+ PJOIN(memory_bytes = */» a.k FROM a, c WHERE a.k = c.k", "the hint cannot be read"),
        ("SELECT «/*+ PJOIN('x */» a.k FROM a, c WHERE a.k = c.k", "the hint cannot be read"),
        ("SELECT «/*+ PJOIN(memory_byte = 5) */» a.k FROM a, c WHERE a.k = c.k", "Did you mean 'memory_bytes'"),
        ("SELECT «/*+ PJOIN(purge_threshold = 5) */» a.k FROM a, c WHERE a.k = c.k", "was an option of a published join"),
        ("SELECT «/*+ APPROXIMATE */» a.k FROM a, c WHERE a.k = c.k", "APPROXIMATE needs recall"),
        (
            "SELECT «/*+ APPROXIMATE(recall = 2) */» a.k FROM a, c WHERE a.k = c.k",
            "recall is 2; expected a number greater than 0 and at most 1",
        ),
        ("SELECT «/*+ APPROXIMATE(recall = 0.9) */» a.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k", "two inputs; found 3"),
        ("SELECT «/*+ APPROXIMATE(recall = 0.9) */» a.k FROM a [ROWS 3], c WHERE a.k = c.k", "takes windows of time"),
    ],
)
def test_a_hint_that_cannot_be_followed_says_why_and_where(marked: str, message: str) -> None:
    query = marked.replace("«", "").replace("»", "")
    with pytest.raises(PenstockError, match=re.escape(message)) as caught:
        build_job(parse_application(f"{STREAMS}CREATE CQ q AS {query};"), 2)
    place = caught.value.place
    assert place is not None
    text = place.excerpt[place.column - 1 : place.column - 1 + place.width]
    assert text == marked[marked.index("«") + 1 : marked.index("»")]
