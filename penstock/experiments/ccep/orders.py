"""The order process of the published experiments as a stream: a thousand orders side by side, each of twenty events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.batch import Batch, Int64s

#: Events of one order without the parallel block, which stands between the second and the third.
_BEFORE = ("ReceiveOrder", "CheckCredit")
_SUPPLIER = ("OrderFromSupplier", "GenerateQuote", "GenerateQuote", "GenerateQuote", "SendQuote")
_STOCK = ("CheckInventory", "UseLocalStock", "GenerateInvoice", "SendInvoice")
_AFTER = (
    "ConfirmOrder",
    "ReceivePayment",
    "AllocateCarrier",
    "PackOrder",
    "PrintLabel",
    "NotifyCustomer",
    "AuditOrder",
    "ReviewOrder",
    "FinishOrder",
)
#: Every type, by its number in what follows; the last two replace others by chance.
TYPES = (*_BEFORE, "OrderFromSupplier", "GenerateQuote", "SendQuote", *_STOCK, *_AFTER, "UseRemoteStock", "CancelOrder")
EVENTS_PER_ORDER = 20
#: Prices above this are what queries look for.
LIMIT = 200

SCHEMA = pa.schema(
    {
        "type": pa.dictionary(pa.int32(), pa.string()),
        "order_id": pa.int64(),
        "price": pa.int64(),
        "items": pa.int64(),
        "customer": pa.string(),
        "region": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class OrderTraffic:
    """What varies between runs.

    Parameters
    ----------
    events, side_by_side
        Length of the stream, and orders in progress at any time.
    remote
        Share of orders served from remote stock; all others fail queries that ask for it.
    quotes_missing, invoices_missing
        Share of orders none of whose quotes (whose invoice) is above the limit. An order has three quotes.
    cancelled
        Share of orders that are cancelled instead of finished.
    """

    events: int = 400_000
    side_by_side: int = 1_000
    remote: float = 1.0
    quotes_missing: float = 0.0
    invoices_missing: float = 0.0
    cancelled: float = 0.0
    seed: int = 1


def order_batches(traffic: OrderTraffic, rows: int) -> list[Batch]:
    """The stream in batches of some rows; event k has time k.

    Examples
    --------
    >>> batch, = order_batches(OrderTraffic(events=40, side_by_side=1), rows=40)
    >>> batch.column("type").to_pylist()[:2], batch.column("order_id").to_pylist()[18:22]
    (['ReceiveOrder', 'CheckCredit'], [0, 0, 1, 1])
    """
    order, kinds, price, rng = _drawn(traffic)
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), pa.array(TYPES)),
        pa.array(order),
        pa.array(price),
        pa.array(rng.integers(1, 20, traffic.events)),
        pa.array([f"customer {number}" for number in range(997)]).take(pa.array(order % 997)),
        pa.array(["north", "east", "south", "west"]).take(pa.array(order % 4)),
    ]
    whole = Batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), np.arange(traffic.events), np.arange(traffic.events))
    return [whole.slice(start, min(rows, traffic.events - start)) for start in range(0, traffic.events, rows)]


def order_events(traffic: OrderTraffic) -> tuple[Int64s, Int64s, Int64s]:
    """The same stream order by order: types and prices, a column for each step, and how many steps were taken."""
    order, kinds, price, _ = _drawn(traffic)
    place = _occurrence(order)
    shape = (int(order.max()) + 1, EVENTS_PER_ORDER)
    types, prices = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    types[order, place], prices[order, place] = kinds, price
    return types, prices, np.bincount(order, minlength=shape[0]).astype(np.int64)


def _drawn(traffic: OrderTraffic) -> tuple[Int64s, Int64s, Int64s, np.random.Generator]:
    """Order, type and price of each event."""
    rng = np.random.default_rng(traffic.seed)
    slots = rng.integers(0, traffic.side_by_side, traffic.events)
    step = _occurrence(slots)
    order, place = slots + traffic.side_by_side * (step // EVENTS_PER_ORDER), step % EVENTS_PER_ORDER
    kinds = _order_types(traffic, int(order.max()) + 1, rng)[order, place]
    return order, kinds, _prices(traffic, kinds, rng), rng


def _occurrence(slots: Int64s) -> Int64s:
    """How often each slot was drawn before."""
    order = np.argsort(slots, kind="stable")
    found = slots[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(found)) + 1])
    counts = np.diff([*starts, len(slots)])
    result = np.empty(len(slots), np.int64)
    result[order] = np.arange(len(slots)) - np.repeat(starts, counts)
    return result


def _order_types(traffic: OrderTraffic, orders: int, rng: np.random.Generator) -> Int64s:
    """Types of each order's events: both branches of the parallel block are mixed, every mixture being equally likely."""
    number = {name: place for place, name in enumerate(TYPES)}
    supplier, stock = ([number[name] for name in names] for names in (_SUPPLIER, _STOCK))
    before, after = ([number[name] for name in names] for names in (_BEFORE, _AFTER))
    is_stock = np.argsort(np.argsort(rng.random((orders, 9)), axis=1), axis=1) >= len(supplier)
    block = np.where(
        is_stock,
        np.array([*stock, 0])[np.minimum(np.cumsum(is_stock, axis=1) - is_stock, 4)],
        np.array([*supplier, 0])[np.minimum(np.cumsum(~is_stock, axis=1) - ~is_stock, 5)],
    )
    block[(block == number["UseLocalStock"]) & (rng.random(orders) < traffic.remote)[:, None]] = number["UseRemoteStock"]
    tail = np.tile(after, (orders, 1))
    tail[rng.random(orders) < traffic.cancelled, -1] = number["CancelOrder"]
    return np.concatenate([np.tile(before, (orders, 1)), block, tail], axis=1)


def _prices(traffic: OrderTraffic, kinds: Int64s, rng: np.random.Generator) -> Int64s:
    quote, invoice = TYPES.index("GenerateQuote"), TYPES.index("GenerateInvoice")
    passes = np.full(len(kinds), 0.5)
    # All three quotes of an order miss the limit with the share asked for.
    passes[kinds == quote] = 1 - traffic.quotes_missing ** (1 / 3)
    passes[kinds == invoice] = 1 - traffic.invoices_missing
    is_high = rng.random(len(kinds)) < passes
    return np.where(is_high, rng.integers(LIMIT + 1, 1_001, len(kinds)), rng.integers(1, LIMIT + 1, len(kinds)))
