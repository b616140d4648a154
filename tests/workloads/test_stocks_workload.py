"""Prices of stocks: by index alone, in cents, swinging between levels."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from penstock.errors import InvalidOption
from penstock.workloads.contracts import Options
from penstock.workloads.stocks import SYMBOLS, Stocks

OPTIONS = Options(rate=60.0)


def prices(workload: Stocks, rounds: int) -> dict[str, list[float]]:
    rows = workload.generate("tick", 0, 1, 0, rounds * len(SYMBOLS), OPTIONS).to_pylist()
    return {symbol: [row["price"] for row in rows if row["symbol"] == symbol] for symbol in SYMBOLS}


def test_every_stock_has_one_trade_in_each_round() -> None:
    rows = Stocks().generate("tick", 0, 1, 0, 20 * len(SYMBOLS), OPTIONS).column("symbol").to_pylist()
    rounds = [rows[at : at + len(SYMBOLS)] for at in range(0, len(rows), len(SYMBOLS))]
    assert all(sorted(each) == sorted(SYMBOLS) for each in rounds)
    assert len({tuple(each) for each in rounds}) > 5


def test_rows_do_not_depend_on_where_a_range_begins() -> None:
    whole = Stocks().generate("tick", 0, 1, 0, 200, OPTIONS)
    assert Stocks().generate("tick", 0, 1, 70, 200, OPTIONS).equals(whole.slice(70))


def test_prices_are_whole_cents_and_keep_to_the_spread() -> None:
    for path in prices(Stocks(spread=0.05, noise=0.001), 200).values():
        assert all(round(price * 100) == pytest.approx(price * 100) for price in path)
        assert max(path) / min(path) < 1.051 / 0.949 + 0.001


def test_prices_go_straight_from_level_to_level_without_noise() -> None:
    for path in prices(Stocks(swing=10, noise=0.0), 100).values():
        steps = [after - before for before, after in itertools.pairwise(path)]
        # Cents are rounded, so that equal steps may differ by two.
        changes = [at for at, (one, other) in enumerate(itertools.pairwise(steps)) if abs(one - other) > 0.021]
        assert len({at % 10 for at in changes}) == 1
        assert len(changes) > 3


@pytest.mark.parametrize("fields", [{"swing": 0}, {"spread": 1.0}, {"noise": -0.1}])
def test_options_that_mean_nothing_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Stocks(**fields)
