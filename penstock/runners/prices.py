"""Learns from reports what operators cost, and says so when something has changed that strategies should know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from penstock.kernel.work import Price
from penstock.lowering.jobs import Job
from penstock.lowering.scheduling import remembered_prices
from penstock.model.elements import STATISTICS, Control

#: By operator and port: the sums that `PortMeasure` has.
Measures: TypeAlias = Mapping[str, Sequence[Sequence[int]]]

#: How much of earlier sums counts beside the newest ones; and the first micro-batches, in which loops are compiled.
_KEPT, _WARM_UP = 0.9, 2
#: What a figure must move by before anybody is told, and how many micro-batches lie between two tellings at least.
_MOVED, _PAUSE = 0.2, 5
#: No row costs less, or there would be strategies that divide by nothing.
_LEAST_NS = 0.1
#: Differences that change no decision: nanoseconds for a row, rows for a row, bytes, rows a second.
_SMALL_NS, _SMALL_SHARE, _SMALL_BYTES, _SMALL_RATE = 10.0, 0.01, 16, 5.0


@dataclass(slots=True)
class _Fit:
    """Sums of one port, in which earlier micro-batches count less and less."""

    sums: list[float] = field(default_factory=lambda: [0.0] * 8)

    def add(self, measured: Sequence[int]) -> None:
        self.sums = [_KEPT * old + new for old, new in zip(self.sums, measured, strict=True)]

    def price(self, before: Price) -> Price:
        """The line `busy = call + row x rows` through what was measured; what cannot be told from it stays as before."""
        calls, rows, ns, squares, products, made, weighed_rows, weighed_bytes = self.sums
        if rows < 1 or calls < 1e-3:
            return before
        call_ns, row_ns = self._line(calls, rows, ns, squares, products, before)
        size = round(weighed_bytes / weighed_rows) if weighed_rows else before.row_bytes
        return Price(call_ns, row_ns, made / rows, max(size, 1), rows / calls, before.rate)

    def _line(self, calls: float, rows: float, ns: float, squares: float, products: float, before: Price) -> tuple[float, float]:
        spread = calls * squares - rows * rows
        if spread > 0.01 * rows * rows:
            row_ns = (calls * products - rows * ns) / spread
            call_ns = (ns - row_ns * rows) / calls
            if row_ns >= _LEAST_NS and call_ns >= 0:
                return call_ns, row_ns
        # All elements were alike, or noise was larger than what they differ by: the share of the call stays what it was.
        known = before.call_ns * calls + before.row_ns * rows
        factor = ns / known if known > 0 else 1.0
        return before.call_ns * factor, max(before.row_ns * factor, _LEAST_NS)


@dataclass(slots=True)
class _Rate:
    """Rows of an entry a second, in which earlier micro-batches count less and less."""

    rows: float = 0.0
    seconds: float = 0.0
    _total: int | None = None

    def add(self, total: int, seconds: float) -> None:
        if self._total is not None and seconds > 0:
            self.rows, self.seconds = _KEPT * self.rows + total - self._total, _KEPT * self.seconds + seconds
        self._total = total

    @property
    def value(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


class PriceLearning:
    """Hears what operators took in every micro-batch.

    Parameters
    ----------
    job
        Whose operators: what they are thought to cost stands in their graph.
    said
        What earlier decisions said of prices, oldest first: shards remember it.
    """

    def __init__(self, job: Job, said: Iterable[Mapping[str, Any]] = ()) -> None:
        self.prices = remembered_prices(job, said)
        self._fits = {node: [_Fit() for _ in prices] for node, prices in self.prices.items()}
        self._told = {node: list(prices) for node, prices in self.prices.items()}
        #: Of each entry: where its rows go, and how many there are.
        self._places: dict[str, list[tuple[str, int]]] = {}
        for stage in job.stages:
            for node in stage.graph.nodes:
                for port in stage.graph.entrances[node.id]:
                    self._places.setdefault(node.sources[port][0], []).append((node.id, port))
        self._rates = {entry: _Rate() for entry in self._places}
        self._at_ns = 0
        self._heard = 0
        self._told_at = -_PAUSE

    def hear(
        self, epoch: int, reports: Iterable[Measures], entries: Mapping[str, Mapping[str, int]], now_ns: int
    ) -> Control | None:
        """Take in what the shards of one micro-batch measured; a decision if something has moved.

        Parameters
        ----------
        entries
            Counters of entries, summed over shards, since the checkpoint began.
        now_ns
            When the micro-batch was planned.
        """
        self._count(entries, now_ns)
        self._heard += 1
        if self._heard <= _WARM_UP:
            return None
        for measures in reports:
            for node, ports in measures.items():
                for fit, measured in zip(self._fits.get(node, ()), ports, strict=False):
                    fit.add(measured)
        for node, fits in self._fits.items():
            self.prices[node] = [fit.price(price) for fit, price in zip(fits, self.prices[node], strict=True)]
        return self._decision(epoch)

    def _count(self, entries: Mapping[str, Mapping[str, int]], now_ns: int) -> None:
        seconds, self._at_ns = (now_ns - self._at_ns) / 1e9, now_ns
        for entry, rate in self._rates.items():
            rate.add(entries.get(entry, {}).get("used", 0), seconds)
            for node, port in self._places[entry]:
                self.prices[node][port] = replace(self.prices[node][port], rate=rate.value)

    def _decision(self, epoch: int) -> Control | None:
        moved = {
            node: prices
            for node, prices in self.prices.items()
            if any(_has_moved(old, new) for old, new in zip(self._told[node], prices, strict=True))
        }
        if not moved or self._heard - self._told_at < _PAUSE:
            return None
        self._told_at = self._heard
        self._told |= {node: list(prices) for node, prices in moved.items()}
        return Control(
            epoch, STATISTICS, {"operators": {node: [figures(price) for price in prices] for node, prices in moved.items()}}
        )


def _has_moved(old: Price, new: Price) -> bool:
    pairs = [
        (old.row_ns + old.call_ns / max(new.call_rows, 1.0), new.share_ns, _SMALL_NS),
        (old.selectivity, new.selectivity, _SMALL_SHARE),
        (old.row_bytes, new.row_bytes, _SMALL_BYTES),
        (old.rate, new.rate, _SMALL_RATE),
    ]
    return any(abs(after - before) > max(_MOVED * before, small) for before, after, small in pairs)


def figures(price: Price) -> dict[str, Any]:
    """A price as a decision has it, with the digits that mean something."""
    return {name: value if isinstance(value, int) else float(f"{value:.4g}") for name, value in asdict(price).items()}
