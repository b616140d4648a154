"""What can happen to an order: the steps of the process, the ways to leave it, and their places in a cycle of rows."""

from __future__ import annotations

from enum import IntEnum
from itertools import combinations

import numpy as np

from penstock.model.batch import Int64s

#: Event types, by number. The last one, a customer who looks at an order, is no step of the process.
KINDS = (
    "ReceiveOrder", "CheckCredit", "RejectOrder", "OrderFromSupplier", "GenerateQuote", "SendQuote", "CheckInventory",
    "UseLocalStock", "UseRemoteStock", "GenerateInvoice", "SendInvoice", "ConfirmOrder", "ReceivePayment", "AllocateCarrier",
    "PackOrder", "PrintLabel", "NotifyCustomer", "AuditOrder", "ReviewOrder", "FinishOrder", "CancelOrder", "ViewStatus",
)  # fmt: skip
CODE = {kind: number for number, kind in enumerate(KINDS)}
VIEW = CODE["ViewStatus"]

#: Rows of one cycle: an order with its views, or as many rejected orders as have room.
CYCLE_ROWS = 24
REJECTED = tuple(CODE[kind] for kind in ("ReceiveOrder", "CheckCredit", "RejectOrder"))
ORDERS_PER_CYCLE = CYCLE_ROWS // len(REJECTED)

#: Codes below the kinds stand for what a coin decides: the n-th step of the parallel part, which stock, and how it ends.
PARALLEL, STOCK, OTHER_STOCK, ENDING = -20, -2, -3, -4
_SUPPLIER = tuple(CODE[kind] for kind in ("OrderFromSupplier", *["GenerateQuote"] * 3, "SendQuote"))
_WAREHOUSE = (CODE["CheckInventory"], STOCK, CODE["GenerateInvoice"], CODE["SendInvoice"])
_TOGETHER = len(_SUPPLIER) + len(_WAREHOUSE)


class Story(IntEnum):
    """How an order goes; all but the first and the last leave the process."""

    REGULAR = 0
    #: Packed, though nobody has paid; a payment never comes.
    UNPAID = 1
    #: Packed first, paid later.
    PACKED_FIRST = 2
    PAID_TWICE = 3
    #: Goods taken from both warehouses.
    BOTH_STOCKS = 4
    #: Packed and sent all the same.
    SENT_AFTER_CANCEL = 5
    #: Finished without an audit.
    UNAUDITED = 6
    #: Several orders that are turned away for lack of credit.
    REJECTED = 7


DEVIATIONS = tuple(story for story in Story if story not in (Story.REGULAR, Story.REJECTED))

_REGULAR = [
    CODE["ReceiveOrder"], CODE["CheckCredit"], *range(PARALLEL, PARALLEL + _TOGETHER), CODE["ConfirmOrder"],
    CODE["ReceivePayment"], CODE["AllocateCarrier"], CODE["PackOrder"], CODE["PrintLabel"], CODE["NotifyCustomer"],
    CODE["AuditOrder"], CODE["ReviewOrder"], ENDING,
]  # fmt: skip


def _edited(story: Story) -> list[int]:
    """The steps of a story, without views."""
    steps = list(_REGULAR)
    payment, packing, audit = (steps.index(CODE[kind]) for kind in ("ReceivePayment", "PackOrder", "AuditOrder"))
    match story:
        case Story.UNPAID:
            del steps[payment]
        case Story.PACKED_FIRST:
            steps.insert(payment, steps.pop(packing))
        case Story.PAID_TWICE:
            steps.insert(packing, CODE["ReceivePayment"])
        case Story.BOTH_STOCKS:
            steps.insert(payment, OTHER_STOCK)
        case Story.SENT_AFTER_CANCEL:
            steps = [*steps[:packing], CODE["CancelOrder"], *steps[packing:audit]]
        case Story.UNAUDITED:
            del steps[audit]
            steps[-1] = CODE["FinishOrder"]
        case Story.REJECTED:
            steps = list(REJECTED) * ORDERS_PER_CYCLE
        case Story.REGULAR:
            pass
    return steps


#: Ways in which views are spread over a cycle.
LAYOUTS = 16


def _story_table() -> Int64s:
    """Code of each row of a cycle, by story and layout; fixed dice, so that the tables are part of the program."""
    table = np.full((len(Story), LAYOUTS, CYCLE_ROWS), VIEW, np.int64)
    dice = np.random.default_rng(20_080)
    for story in Story:
        steps = _edited(story)
        for layout in range(LAYOUTS):
            # Nobody looks at an order that has not come in.
            later = 1 + np.sort(dice.permutation(CYCLE_ROWS - 1)[: len(steps) - 1])
            table[story, layout, [0, *later]] = steps
    return table


def _interleavings() -> Int64s:
    """Every way in which supplier and warehouse can work side by side, a row each."""
    rows = []
    for places in combinations(range(_TOGETHER), len(_WAREHOUSE)):
        supplier, warehouse = iter(_SUPPLIER), iter(_WAREHOUSE)
        rows.append([next(warehouse) if place in places else next(supplier) for place in range(_TOGETHER)])
    return np.array(rows, np.int64)


STORIES = _story_table()
INTERLEAVINGS = _interleavings()
