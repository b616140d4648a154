"""Work that waits in a shard, and what is known of its price: everything a scheduling strategy may look at.

Prices come from outside, as decisions. Nothing here reads a clock, so a repeated micro-batch does the same work again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from penstock.model.batch import Batch
from penstock.model.elements import NEVER, Element
from penstock.model.service import LateAnswers

#: Event times before this one, more than a century before 1970, count as this one where they are turned into nanoseconds.
LONG_AGO_US = 2**52
#: An operator and one of its ports.
Place: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Price:
    """What elements on one port of an operator cost, and what becomes of them.

    Parameters
    ----------
    call_ns
        For every element, whatever it holds.
    row_ns
        For every row.
    selectivity
        Rows out for a row in, whenever they come.
    row_bytes
        Memory of a row that waits at this port.
    call_rows
        Rows of an element, on average.
    rate
        Rows that come here from outside each second; 0: nobody knows.

    Examples
    --------
    >>> Price(call_ns=2_000, row_ns=50).of(100)
    7000
    """

    call_ns: float = 0.0
    row_ns: float = 1_000.0
    selectivity: float = 1.0
    row_bytes: int = 100
    call_rows: float = 1_000.0
    rate: float = 0.0

    @property
    def share_ns(self) -> float:
        """For a row with its share of the call.

        Examples
        --------
        >>> Price(call_ns=2_000, row_ns=50, call_rows=100).share_ns
        70.0
        """
        return self.row_ns + self.call_ns / max(self.call_rows, 1.0)

    def of(self, rows: int) -> int:
        """Nanoseconds for an element with so many rows."""
        return round(self.call_ns + self.row_ns * rows)


def with_news(prices: Sequence[Price], told: Sequence[Mapping[str, Any] | None]) -> tuple[Price, ...]:
    """Prices by port, with the figures that a decision tells; None: nothing about this port."""
    return tuple(price if new is None else replace(price, **new) for price, new in zip(prices, told, strict=True))


#: Of an operator of which nobody knows anything.
UNKNOWN_PRICE = Price()


@dataclass(frozen=True, slots=True)
class Terms:
    """What a query asks of whoever schedules it.

    Parameters
    ----------
    weight
        How much an answer in time is worth, compared with those of other queries.
    after_event_us, after_arrival_us
        How long after its own time, or after its arrival, an answer is of use; None: for ever.
    late
        What becomes of answers after that.
    """

    weight: float = 1.0
    after_event_us: int | None = None
    after_arrival_us: int | None = None
    late: LateAnswers = LateAnswers.KEEP

    @property
    def has_validity(self) -> bool:
        return self.after_event_us is not None or self.after_arrival_us is not None

    def deadline_ns(self, oldest_us: int, since_ns: int) -> int | None:
        """When rows of this event time and arrival must be answered; None: whenever.

        Rows from the future are no younger than their arrival.

        Examples
        --------
        >>> terms = Terms(after_event_us=5_000_000, after_arrival_us=9_000_000)
        >>> terms.deadline_ns(oldest_us=1_000_000, since_ns=2_000_000_000)
        6000000000
        >>> terms.deadline_ns(oldest_us=8_000_000, since_ns=2_000_000_000)
        7000000000
        """
        found: list[int] = []
        if self.after_event_us is not None and oldest_us != NEVER:
            found = [(min(oldest_us, since_ns // 1_000) + self.after_event_us) * 1_000]
        found += [] if self.after_arrival_us is None else [since_ns + self.after_arrival_us * 1_000]
        return min(found, default=None)


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """An operator as strategies see it.

    Parameters
    ----------
    prices
        By port.
    consumers
        Places that get what it makes; what goes round the loop counts as going there directly.
    entrances
        Ports that get rows from outside.
    answers
        Queries whose answers leave here.
    """

    id: str
    prices: tuple[Price, ...] = (Price(),)
    consumers: tuple[Place, ...] = ()
    entrances: tuple[int, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """All operators in topological order, and the queries. It changes when queries come or go, and when prices do."""

    operators: tuple[PlannedOperator, ...]
    terms: Mapping[str, Terms] = field(default_factory=dict)

    def terms_of(self, query: str) -> Terms:
        return self.terms.get(query, Terms())


@dataclass(slots=True)
class Item:
    """A queued element.

    Parameters
    ----------
    since_ns
        Since when the rows that it is made of wait: the time of the micro-batch that brought them. Inherited.
    number
        Counts what enters the shard, so that it tells arrivals of one moment apart. Inherited.
    segment
        Under which name it is saved; rows get one when they are first saved.
    """

    port: int
    element: Element
    since_ns: int = 0
    number: int = 0
    segment: str = ""
    #: Event time of the oldest row, once somebody has asked.
    _oldest: int | None = None

    @property
    def rows(self) -> int:
        return self.element.num_rows if isinstance(self.element, Batch) else 0

    @property
    def oldest_us(self) -> int:
        """Event time of the oldest row; `NEVER` without rows."""
        if self._oldest is None:
            self._oldest = int(self.element.ts.min()) if isinstance(self.element, Batch) and self.element.num_rows else NEVER
        return self._oldest

    @property
    def age_key(self) -> tuple[int, int]:
        """Smaller is older."""
        return self.since_ns, self.number

    def split(self, rows: int) -> tuple[Item, Item]:
        """The first rows, and the others."""
        assert isinstance(self.element, Batch)
        first, rest = self.element.slice(0, rows), self.element.slice(rows, self.rows - rows)
        return Item(self.port, first, self.since_ns, self.number), Item(self.port, rest, self.since_ns, self.number)


@dataclass(slots=True)
class Queue:
    """What waits in front of one operator, in order."""

    operator: str
    items: deque[Item] = field(default_factory=deque)
    rows: int = 0
    #: Memory of the rows, as prices have it.
    memory: int = 0

    @property
    def head(self) -> Item:
        return self.items[0]


class Choice(NamedTuple):
    """What runs next: an item of an operator's queue. The executor may take only a slice of its rows."""

    operator: str
    position: int = 0


class WaitingWork:
    """The queues of a shard, and its clock of priced work.

    Parameters
    ----------
    plan
        Whose prices say how much memory rows take; see `replan`.
    """

    def __init__(self, plan: WorkPlan) -> None:
        self._prices: dict[str, tuple[Price, ...]] = {}
        #: Queues that are not empty, in no order that may decide anything.
        self.waiting: dict[str, Queue] = {}
        #: Time of the micro-batch, and the price of what was done since then.
        self.now_ns = 0
        #: Of all rows that wait.
        self.memory = 0
        self.replan(plan)

    def replan(self, plan: WorkPlan) -> None:
        """Count by other prices."""
        self._prices = {operator.id: operator.prices for operator in plan.operators}
        for queue in self.waiting.values():
            queue.memory = sum(self._memory(queue.operator, item.port, item.rows) for item in queue.items)
        self.memory = sum(queue.memory for queue in self.waiting.values())

    def price_of(self, operator: str, item: Item) -> int:
        """Nanoseconds."""
        return self._prices[operator][item.port].of(item.rows)

    def _memory(self, operator: str, port: int, rows: int) -> int:
        prices = self._prices.get(operator)
        return prices[port].row_bytes * rows if prices is not None else 0

    def add(self, operator: str, item: Item) -> None:
        queue = self.waiting.get(operator)
        if queue is None:
            queue = self.waiting[operator] = Queue(operator)
        queue.items.append(item)
        self._count(queue, item.port, item.rows)

    def take(self, choice: Choice, rows: int | None = None) -> Item:
        """The chosen item, or the first of its rows; what is left keeps its place."""
        queue = self.waiting[choice.operator]
        item = queue.items[choice.position]
        if rows is not None and item.rows > rows:
            item, queue.items[choice.position] = item.split(rows)
        elif choice.position:
            del queue.items[choice.position]
        else:
            queue.items.popleft()
        self._count(queue, item.port, -item.rows)
        if not queue.items:
            self.memory -= queue.memory
            del self.waiting[choice.operator]
        return item

    def _count(self, queue: Queue, port: int, rows: int) -> None:
        if rows:
            memory = self._memory(queue.operator, port, rows)
            queue.rows += rows
            queue.memory += memory
            self.memory += memory

    def drop(self, operator: str) -> None:
        """Forget what waits for an operator that is gone."""
        queue = self.waiting.pop(operator, None)
        if queue is not None:
            self.memory -= queue.memory

    @property
    def rows(self) -> int:
        return sum(queue.rows for queue in self.waiting.values())
