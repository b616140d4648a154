"""What an adaptive filter does at present, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FilterStatus:
    """How an adaptive filter stands.

    Parameters
    ----------
    order
        Names of the conditions by position; where shards differ, the order most of them have.
    orders
        Number of different orders among the shards.
    current, greedy, optimal
        Estimated seconds per row in this order, in the one the greedy rule would choose, and in the best; None where the
        profile does not tell.
    changes
        The last re-orderings, oldest first: the micro-batch whose profile led to it, and the order since; only where the
        driver decides.

    Examples
    --------
    >>> print(FilterStatus("AdaptiveFilter1", ("a", "b"), 3, 1, 2e-6, 1e-6, 1e-6))
    AdaptiveFilter1: 1. a  2. b; 3 re-orderings; 2 µs per row, greedy 1 µs, best 1 µs
    """

    operator: str
    order: tuple[str, ...]
    reorderings: int
    orders: int = 1
    current: float | None = None
    greedy: float | None = None
    optimal: float | None = None
    changes: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def __str__(self) -> str:
        order = order_text(self.order)
        changes = f"{self.reorderings} re-ordering{'' if self.reorderings == 1 else 's'}"
        differ = f" in {self.orders} ways among shards" if self.orders > 1 else ""
        return f"{self.operator}: {order}{differ}; {changes}{self._costs()}"

    @property
    def history(self) -> tuple[str, ...]:
        """The last re-orderings, a line each.

        Examples
        --------
        >>> FilterStatus("AdaptiveFilter1", ("b", "a"), 1, changes=((12, ("b", "a")),)).history
        ('after batch 12: 1. b  2. a',)
        """
        return tuple(f"after batch {batch}: {order_text(order)}" for batch, order in self.changes)

    def has_changed_since(self, batch: int) -> bool:
        """Whether what was seen in this micro-batch or later has led to another order."""
        return bool(self.changes) and self.changes[-1][0] >= batch

    def _costs(self) -> str:
        if self.current is None or self.greedy is None:
            return ""
        best = f", best {micros_text(self.optimal)}" if self.optimal is not None else ""
        return f"; {micros_text(self.current)} per row, greedy {micros_text(self.greedy)}{best}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, coded: Mapping[str, Any]) -> FilterStatus:
        changes = tuple((batch, tuple(order)) for batch, order in coded.get("changes", ()))
        return cls(**{**coded, "order": tuple(coded["order"]), "changes": changes})


def order_text(order: Sequence[str]) -> str:
    """Conditions by position, on a line."""
    return "  ".join(f"{place}. {name}" for place, name in enumerate(order, 1))


def micros_text(seconds: float) -> str:
    """A time per row.

    Examples
    --------
    >>> micros_text(1.2345e-6), micros_text(3.0)
    ('1.23 µs', '3e+06 µs')
    """
    return f"{seconds * 1e6:.3g} µs"


def filter_status(label: str, shards: Sequence[Mapping[str, Any]]) -> FilterStatus:
    """What the descriptions of shards, or the one of the driver, come to."""
    counted = Counter(tuple(shard["order"]) for shard in shards)
    order = counted.most_common(1)[0][0]
    costs = [shard["estimated"] for shard in shards if tuple(shard["order"]) == order and shard["estimated"] is not None]
    count = sum(shard["reorderings"] for shard in shards)
    changes = tuple((batch, tuple(then)) for shard in shards for batch, then in shard.get("changes", ()))
    return FilterStatus(label, order, count, len(counted), **(costs[0] if costs else {}), changes=changes)
