"""Prices of stocks that swing between levels drawn at random, with some noise on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import Floats, integers, uniforms
from penstock.workloads.contracts import Options

SYMBOLS = ("ACME", "BOLT", "CRUX", "DUNE", "ECHO", "FLUX", "GLOW", "HIVE", "IRIS", "JADE", "KITE", "LUNA")
_TICK = Schema.of(symbol=pa.string(), price=pa.float64(), volume=pa.int64(), ts=TIMESTAMP)
_NAMES = pa.array(SYMBOLS)
_CHEAPEST, _DEAREST, _MOST_VOLUME = 20, 180, 500


@dataclass(frozen=True)
class Stocks(ColumnarWorkload):
    """Stream `tick` (symbol, price, volume, ts): trades of twelve stocks, prices in whole cents.

    In every round each stock has one trade, in changing order. Every `swing` rounds a stock has a new level around its base;
    on the way there its price goes in even steps, off by a little noise. So prices fall and rise for a while, and now and
    then a single trade breaks the run.

    Parameters
    ----------
    swing
        Trades of a stock from one level to the next.
    spread
        How far a level may be from the base, as a share of it.
    noise
        How far a price may be off its way, as a share of the base.

    Examples
    --------
    >>> rows = Stocks(swing=4, noise=0.0).generate("tick", 0, 1, 0, 60, Options(rate=10.0))
    >>> [row["price"] for row in rows.to_pylist() if row["symbol"] == "ACME"]
    [65.68, 64.73, 63.79, 62.84, 62.4]
    """

    name: ClassVar[str] = "stocks"
    default_rate: ClassVar[float] = 60.0

    swing: int = 12
    spread: float = 0.08
    noise: float = 0.002

    def __post_init__(self) -> None:
        if self.swing < 1:
            raise InvalidOption(f"{self.swing} trades do not lead from one level to the next; there must be at least 1", "swing")
        for name in ("spread", "noise"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InvalidOption(f"{getattr(self, name)} is no share; it must be at least 0 and less than 1", name)

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {"tick": StreamShape(_TICK.named("stocks.tick"), "symbol", "ts", clock=self.name)}

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        stocks = len(SYMBOLS)
        turn, place = np.divmod(index, stocks)
        stock = (place + integers(options.seed, "turn", turn, stocks)) % stocks
        return {
            "symbol": _NAMES.take(pa.array(stock)),
            "price": np.round(self._prices(stock, turn, options), 2),
            "volume": 1 + integers(options.seed, "volume", index, _MOST_VOLUME),
        }

    def _prices(self, stock: Int64s, turn: Int64s, options: Options) -> Floats:
        base = _CHEAPEST + integers(options.seed, "base", stock, _DEAREST - _CHEAPEST)
        # Stocks change their direction at different times.
        turn = turn + integers(options.seed, "phase", stock, self.swing)
        knot, step = np.divmod(turn, self.swing)
        before, after = self._levels(stock, knot, options), self._levels(stock, knot + 1, options)
        off = self.noise * _around_zero("noise", turn * len(SYMBOLS) + stock, options)
        prices: Floats = base * (1.0 + before + (after - before) * step / self.swing + off)
        return prices

    def _levels(self, stock: Int64s, knot: Int64s, options: Options) -> Floats:
        return self.spread * _around_zero("level", knot * len(SYMBOLS) + stock, options)


def _around_zero(purpose: str, index: Int64s, options: Options) -> Floats:
    """Numbers in [-1, 1)."""
    return 2.0 * uniforms(options.seed, purpose, index) - 1.0
