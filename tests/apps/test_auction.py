"""The auction application over sixty virtual seconds, against a brute-force reading of its streams."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, stdev
from typing import Any

import pytest
from auction_run import OPEN_ITEMS, SECOND, Played, Row, catalog, whole_run

from penstock.apps.table import EXAMPLES
from penstock.language.application import parse_application
from penstock.plan.analysis.safety import check


@pytest.fixture(scope="module")
def played() -> Played:
    return whole_run()


def us(moment: Any) -> int:
    return round(moment.timestamp() * SECOND)


def test_an_item_is_reported_with_its_bids_and_its_price_when_it_closes(played: Played) -> None:
    prices: dict[int, list[float]] = defaultdict(list)
    for bid in played.bids:
        prices[bid["item_id"]].append(bid["price"])
    expected = {(item, len(found), max(found)) for item, found in prices.items()}
    answers = played.answers("bids_per_item")
    assert len(answers) == len(expected)
    assert {tuple(row.values()) for row in answers} == expected


def test_categories_have_their_prices_in_tumbling_windows(played: Played) -> None:
    prices: dict[tuple[int, str], list[float]] = defaultdict(list)
    for time, auction, bid in played.offers():
        prices[time - time % (5 * SECOND), auction["category"]].append(bid["price"])
    answers = {(us(row["since"]), row["category"]): row for row in played.answers("category_prices")}
    assert answers.keys() == prices.keys()
    for key, found in prices.items():
        assert answers[key]["bids"] == len(found)
        assert answers[key]["highest"] == max(found)
        assert answers[key]["average"] == pytest.approx(fmean(found))
        assert answers[key]["spread"] == (pytest.approx(stdev(found)) if len(found) > 1 else None)


def test_the_moving_average_covers_ten_seconds_every_two(played: Played) -> None:
    prices: dict[int, list[float]] = defaultdict(list)
    for bid in played.bids:
        first_end = bid["us"] - bid["us"] % (2 * SECOND) + 2 * SECOND
        for end in range(first_end, first_end + 10 * SECOND, 2 * SECOND):
            prices[end].append(bid["price"])
    answers = {us(row["until"]): row for row in played.answers("moving_average")}
    assert answers.keys() == prices.keys()
    for end, found in prices.items():
        assert answers[end]["bids"] == len(found)
        assert answers[end]["average"] == pytest.approx(fmean(found))


def test_a_big_spender_is_named_once_a_minute(played: Played) -> None:
    expected = {(bid["us"] // (60 * SECOND), bid["bidder"]) for bid in played.bids if bid["price"] > 1450}
    assert expected
    assert sorted(row["bidder"] for row in played.answers("big_spenders")) == sorted(bidder for _, bidder in expected)


def hot_items(bids: list[Row]) -> dict[tuple[int, int], list[Row]]:
    found: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for bid in bids:
        found[bid["us"] - bid["us"] % (4 * SECOND), bid["item_id"]].append(bid)
    return {key: rows for key, rows in found.items() if len(rows) > 90}


def test_hot_items_are_those_with_many_bids_in_a_window(played: Played) -> None:
    expected = {key: (len(rows), len({row["bidder"] for row in rows})) for key, rows in hot_items(played.bids).items()}
    assert expected
    answers = played.answers("hot_items")
    assert {(us(row["since"]), row["item_id"]): (row["bids"], row["bidders"]) for row in answers} == expected
    assert len(answers) == len(expected)


def test_a_query_over_a_query_counts_its_answers(played: Played) -> None:
    hot = hot_items(played.bids)
    answers = played.answers("heat")
    assert sum(row["items"] for row in answers) == len(hot)
    assert max(row["most"] for row in answers) == max(len(rows) for rows in hot.values())


def test_every_row_read_is_used_filtered_or_quarantined(played: Played) -> None:
    entries = {name: counts for name, counts in played.runner.report().items() if counts.get("read")}
    assert len(entries) >= 5
    for counts in entries.values():
        assert counts["read"] == counts["used"] + counts["filtered"] + counts["late"] + counts["bad"] + counts["violating"]
    assert {counts["late"] for name, counts in entries.items() if name.startswith("bid") and not counts["filtered"]} != {0}


def test_the_join_remembers_open_auctions_only(played: Played) -> None:
    """Without punctuations it would hold every bid: tens of thousands."""
    assert len(played.bids) > 20_000
    kept = played.join_rows["bids_per_item"]
    assert max(kept) <= 1.5 * OPEN_ITEMS
    # Flat: the second half holds no more than the first once a hundred auctions are open.
    half = len(kept) // 2
    assert max(kept[half:]) <= 1.2 * max(kept[:half])


def test_the_state_of_every_operator_is_proven_bounded() -> None:
    assert check(catalog()).is_bounded


@pytest.mark.parametrize("missing", ["PUNCTUATIONS FROM mark ON (item_id)", "UNIQUE (item_id),"])
def test_without_its_declarations_the_join_is_not_bounded(missing: str) -> None:
    text = EXAMPLES["auction"].file.read_text()
    assert missing in text
    assert not check(parse_application(text.replace(missing, ""), "auction")).is_bounded
