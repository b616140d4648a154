"""Events of orders on their way through the order-fulfilment process; some leave it."""

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
from penstock.workloads.coins import happens, hashes, integers, uniforms
from penstock.workloads.contracts import Options, Rows
from penstock.workloads.orders_stories import (
    CODE,
    CYCLE_ROWS,
    DEVIATIONS,
    ENDING,
    INTERLEAVINGS,
    KINDS,
    LAYOUTS,
    ORDERS_PER_CYCLE,
    OTHER_STOCK,
    PARALLEL,
    REJECTED,
    STOCK,
    STORIES,
    VIEW,
    Story,
)

_EVENT = Schema.of(order_id=pa.int64(), kind=pa.string(), price=pa.float64(), ts=TIMESTAMP)
_NAMES = pa.array(KINDS)
_CHEAPEST, _PRICES = 40, 180


@dataclass(frozen=True)
class Orders(ColumnarWorkload):
    """Stream `event` (order_id, kind, price, ts): what is done for orders, one row for each step.

    A fixed number of orders is under way at a time; in every round each of them has one row, a step of the process or a
    view by its customer. An order that is finished is followed by a new one. Quotes and invoices have a price.

    Parameters
    ----------
    concurrent
        Orders under way.
    deviating
        Share of orders that leave the process: see `Story`.
    rejected
        Share of cycles that bring rejected orders, which are short, so that several follow each other.
    remote, cancelled
        Share of the other orders that take goods from the remote warehouse, and that are cancelled at the end.
    disorder_rows
        Rows arrive shuffled within blocks of so many; their event times stay those of the process. A stream must then wait
        for `disorder_rows / rate` seconds. 0: rows arrive in order.

    Examples
    --------
    >>> rows = Orders(concurrent=1).generate("event", 0, 1, 38, 43, Options(rate=10.0))
    >>> for event in rows.to_pylist():
    ...     print(event["order_id"], event["kind"])
    8 AuditOrder
    8 ReviewOrder
    8 FinishOrder
    16 ReceiveOrder
    16 CheckCredit
    """

    name: ClassVar[str] = "orders"
    default_rate: ClassVar[float] = 100.0

    concurrent: int = 100
    deviating: float = 0.05
    rejected: float = 0.05
    remote: float = 0.4
    cancelled: float = 0.2
    disorder_rows: int = 0

    def __post_init__(self) -> None:
        if self.concurrent < 1:
            raise InvalidOption(f"{self.concurrent} orders under way bring no rows; there must be at least 1", "concurrent")
        if self.disorder_rows < 0:
            raise InvalidOption(f"{self.disorder_rows} is negative; write 0 for rows in order", "disorder_rows")
        for name in ("deviating", "rejected", "remote", "cancelled"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidOption(f"{getattr(self, name)} is no share; it must be between 0 and 1", name)

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {"event": StreamShape(_EVENT.named("orders.event"), "order_id", "ts", clock=self.name)}

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        turn, place = np.divmod(index, self.concurrent)
        # Slots change places from round to round, so that orders do not follow each other like clockwork.
        slot = (place + integers(options.seed, "turn", turn, self.concurrent)) % self.concurrent
        # Slots begin at different places, so that orders are in all phases at any time.
        step = turn + integers(options.seed, "phase", slot, CYCLE_ROWS)
        cycle, row = np.divmod(step, CYCLE_ROWS)
        run = cycle * self.concurrent + slot
        story = self.stories(run, options)
        kinds = self._kinds(run, row, story, options)
        # What began before the stream is only looked at.
        kinds = np.where(cycle == 0, VIEW, kinds)
        within = np.where((story == Story.REJECTED) & (cycle > 0), row // len(REJECTED), 0)
        priced = (kinds == CODE["GenerateQuote"]) | (kinds == CODE["GenerateInvoice"])
        price = _CHEAPEST + integers(options.seed, "price", index, _PRICES)
        return {
            "order_id": run * ORDERS_PER_CYCLE + within,
            "kind": _NAMES.take(pa.array(kinds)),
            "price": pa.array(price.astype(np.float64), mask=~priced),
        }

    def stories(self, run: Int64s, options: Options) -> Int64s:
        """What happens to each run, by number of `Story`; a run has the orders from `8 * run` on."""
        which = np.array(DEVIATIONS, np.int64)[integers(options.seed, "deviation", run, len(DEVIATIONS))]
        chance = uniforms(options.seed, "story", run)
        story = np.where(chance < self.deviating, which, int(Story.REGULAR))
        return np.where(chance >= 1.0 - self.rejected, int(Story.REJECTED), story)

    def _kinds(self, run: Int64s, row: Int64s, story: Int64s, options: Options) -> Int64s:
        """Codes of the events, with everything that a coin decides."""
        found: Int64s = STORIES[story, integers(options.seed, "layout", run, LAYOUTS), row]
        woven = INTERLEAVINGS[integers(options.seed, "interleaving", run, len(INTERLEAVINGS))]
        inside = (found >= PARALLEL) & (found < PARALLEL + woven.shape[1])
        found = np.where(inside, np.take_along_axis(woven, np.where(inside, found - PARALLEL, 0)[:, None], axis=1)[:, 0], found)
        is_remote = happens(options.seed, "remote", run, self.remote)
        local, far = CODE["UseLocalStock"], CODE["UseRemoteStock"]
        found = np.where(found == STOCK, np.where(is_remote, far, local), found)
        found = np.where(found == OTHER_STOCK, np.where(is_remote, local, far), found)
        ends = np.where(happens(options.seed, "cancelled", run, self.cancelled), CODE["CancelOrder"], CODE["FinishOrder"])
        return np.where(found == ENDING, ends, found)

    def _content(self, stream: str, rows: Rows, options: Options) -> Int64s:
        index = super()._content(stream, rows, options)
        size = self.disorder_rows
        if size < 2 or not len(index):
            return index
        blocks, block_of = np.unique(index // size, return_inverse=True)
        grid = blocks[:, None] * size + np.arange(size, dtype=np.int64)
        order = np.argsort(hashes(options.seed, "shuffle", grid.ravel()).reshape(grid.shape), axis=1, kind="stable")
        return np.take_along_axis(grid, order, axis=1)[block_of, index % size]
