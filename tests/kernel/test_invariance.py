"""P3: answers depend on no policy, budget, shard count, batching, wire form or restart, however bad the input is.

Only whether a row beyond the declared disorder counts as late depends on batching: it is late if a micro-batch came in between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.elements import Control
from penstock.qos.scheduling.table import POLICIES
from penstock.runners.local.runner import LocalRunner

APPLICATION = """
CREATE STREAM auction (item BIGINT, seller STRING, part BIGINT, off BIGINT, ts BIGINT, UNIQUE (item), WATERMARK ts DELAY OF 3)
  USING feed PARTITIONED BY part POSITION off ON VIOLATION QUARANTINE;
CREATE STREAM bid (item BIGINT, bidder BIGINT, ts BIGINT, mark STRING, WATERMARK ts DELAY OF 2)
  USING feed PUNCTUATIONS FROM mark ON VIOLATION QUARANTINE;
CREATE CQ joined AS SELECT a.item, b.bidder, a.seller FROM auction a [RANGE 12], bid b WHERE a.item = b.item AND b.bidder < 9;
CREATE CQ counts AS SELECT item, COUNT(*) AS bids FROM joined GROUP BY item;
CREATE CQ sellers AS SELECT seller, count(*) AS n, max(bidder) AS top
  FROM joined [RANGE 6, ADVANCE 2] GROUP BY seller HAVING count(*) > 1;
CREATE CQ everyone AS SELECT bidder AS x FROM bid WHERE bidder > 1 UNION ALL SELECT item AS x FROM auction;
CREATE CQ first_seen AS SELECT DISTINCT x FROM everyone [RANGE 10];
CREATE CQ in_rows AS SELECT bidder, count(*) AS n, sum(item) AS s FROM bid [ROWS 3] GROUP BY bidder;
"""
#: The same with deadlines, some of which pass, so that late rows are left behind for fresh ones.
URGENT = re.sub(r"(CREATE CQ \w+)", r"\1 VALID FOR INTERVAL 100 MICROSECONDS AFTER ARRIVAL WEIGHT 2", APPLICATION)
#: Of strategies that need some.
PARAMETERS = {"threshold": {"memory": "2 KB"}, "auto": {"memory": "1 KB"}}
QUERIES = ("joined", "counts", "sellers", "everyone", "first_seen", "in_rows")


def auctions(found: list[tuple[int, int, int]]) -> pa.RecordBatch:
    """(item, time, partition); some come late, some repeat an item."""
    offsets = [sum(other[2] == row[2] for other in found[:at]) for at, row in enumerate(found)]
    columns = {
        "item": [item for item, _, _ in found], "seller": ["s" + str(item % 3) for item, _, _ in found],
        "part": [part for _, _, part in found], "off": offsets, "ts": [ts for _, ts, _ in found],
    }  # fmt: skip
    kinds = {"item": pa.int64(), "seller": pa.string(), "part": pa.int64(), "off": pa.int64(), "ts": pa.int64()}
    return pa.RecordBatch.from_pydict(columns, pa.schema(kinds))


def bids(found: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """(item, bidder, time), or (item,) for a punctuation; rows without time are bad, rows behind a punctuation violate it."""
    full = [(None, None, None, f'{{"item": {row[0]}}}') if len(row) == 1 else (*row, None) for row in found]
    columns = {name: [row[at] for row in full] for at, name in enumerate(("item", "bidder", "ts", "mark"))}
    kinds = {"item": pa.int64(), "bidder": pa.int64(), "ts": pa.int64(), "mark": pa.string()}
    return pa.RecordBatch.from_pydict(columns, pa.schema(kinds))


def pieces(rows: pa.RecordBatch, cuts: list[int]) -> list[pa.RecordBatch]:
    bounds = sorted({0, rows.num_rows, *(cut for cut in cuts if cut < rows.num_rows)})
    return [rows.slice(start, stop - start) for start, stop in pairwise(bounds)]


def outcome(
    inputs: dict[str, pa.RecordBatch], cuts: list[int], shards: int = 1, policies: Sequence[str] = (), budget: int | None = None,
    encode: bool = False, restart: bool = False, text: str = APPLICATION,
) -> tuple[dict[str, list[str]], list[str]]:  # fmt: skip
    """Answers of every query and refused rows, as bags; the strategies take turns, micro-batch by micro-batch."""
    runner = LocalRunner(build_job(parse_application(text), shards), encode=encode)
    controls = [Control(0, "budget", {"ns": budget and budget * 30_000})]
    cut = {name: pieces(rows, cuts) for name, rows in inputs.items()}
    for at in range(max(map(len, cut.values()), default=0)):
        if policies:
            controls.append(Control(0, "policy", {"name": (name := policies[at % len(policies)]), **PARAMETERS.get(name, {})}))
        runner.run({name: found[at] for name, found in cut.items() if at < len(found)}, controls)
        controls = []
        if restart:
            runner.restore(runner.snapshot())
    runner.end()
    check_conservation(runner)
    refused = [f"{part.stream} {part.reason} {pos}" for part in runner.collected.refused for pos in part.batch.pos.tolist()]
    return {name: sorted(map(str, runner.collected.timed(name))) for name in QUERIES}, sorted(set(refused))


def check_conservation(runner: LocalRunner) -> None:
    for name, counters in runner.report().items():
        if name.startswith(("auction@", "bid@")):
            refused = counters["late"] + counters["bad"] + counters["violating"]
            assert counters["read"] == counters["used"] + counters["filtered"] + refused, name
        elif "read" in counters:
            assert counters["late"] == counters["bad"] == counters["violating"] == 0, name


EXAMPLE = {
    "auction": auctions([(1, 0, 0), (2, 1, 1), (3, 1, 0), (4, 5, 1), (2, 6, 0), (5, 0, 1), (6, 9, 0), (7, 9, 1)]),
    "bid": bids(
        [
            (1, 5, 2),
            (2, 5, 2),
            (1, 6, 3),
            (1,),
            (3, 7, 4),
            (1, 8, 5),
            (4, 2, None),
            (3, 9, 6),
            (4, 5, 7),
            (4,),
            (9, 1, 1),
            (2, 3, 9),
        ]
    ),
}


@pytest.mark.parametrize(("budget", "shards"), list(product([None, 1, 7], [1, 2, 3, 5])))
def test_p3_budget_and_shards_change_nothing(budget: int | None, shards: int) -> None:
    assert outcome(EXAMPLE, [2, 3, 7], shards, (), budget, encode=shards > 1, restart=budget == 7) == undisturbed()


@pytest.mark.parametrize("text", [APPLICATION, URGENT], ids=["whenever", "urgent"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_p1_no_strategy_changes_an_answer(policy: str, text: str) -> None:
    for budget, shards in ((1, 1), (7, 3)):
        assert outcome(EXAMPLE, [2, 3, 7], shards, [policy], budget, restart=budget == 7, text=text) == undisturbed(), budget


@cache
def undisturbed() -> tuple[dict[str, list[str]], list[str]]:
    """One shard: every query has answers, and every kind of bad row is there."""
    answers, refused = outcome(EXAMPLE, [2, 3, 7])
    assert all(answers.values())
    assert {text.split()[1] for text in refused} == {"late", "no-timestamp", "punctuation-violated"}
    return answers, refused


times = st.integers(0, 20)
some_auctions = st.lists(st.tuples(st.integers(1, 8), times, st.integers(0, 1)), max_size=8)
some_bids = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 8), st.integers(0, 9), times),
        st.tuples(st.integers(1, 8), st.integers(0, 9), times),
        st.tuples(st.integers(1, 8)),
        st.tuples(st.integers(1, 8), st.integers(0, 9), st.none()),
    ),
    max_size=14,
)


def tamed(time: int | None, newest: dict[Any, int], owner: int | str, bound: int) -> int | None:
    """The time, or a later one if it is beyond the declared disorder."""
    if time is None:
        return None
    newest[owner] = max(newest[owner], time)
    return max(time, newest[owner] - bound)


@given(
    found=some_auctions, offers=some_bids, cuts=st.lists(st.integers(0, 14), max_size=6), shards=st.sampled_from([1, 2, 3, 5]),
    policies=st.lists(st.sampled_from(sorted(POLICIES)), min_size=1, max_size=4), budget=st.sampled_from([None, 1, 5]),
    flags=st.tuples(st.booleans(), st.booleans()),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_p3_for_random_dirty_streams(
    found: list[tuple[int, int, int]], offers: list[tuple[Any, ...]], cuts: list[int], shards: int, policies: list[str],
    budget: int | None, flags: tuple[bool, bool],
) -> None:  # fmt: skip
    # Both partitions are known, and far apart auctions with equal items stay in their partition's order.
    newest = {0: 0, 1: 0, "bid": 0}
    known = [(101, 0, 0), (102, 0, 1), *((item + 10 * part, tamed(ts, newest, part, 3), part) for item, ts, part in found)]
    timed = [(*offer[:2], tamed(offer[2], newest, "bid", 2)) if len(offer) == 3 else offer for offer in offers]
    inputs = {"auction": auctions(known), "bid": bids(timed)}
    assert outcome(inputs, [2, *cuts], shards, policies, budget, *flags) == outcome(inputs, [2])
