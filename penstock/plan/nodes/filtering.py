"""The logical operator behind conditions that may change places while a query runs."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expressions.nodes import Expr
from penstock.plan.nodes.relational import Select


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One condition of a conjunction, and what is declared of it.

    Parameters
    ----------
    name
        Unique within the conjunction; its text, where nobody gave it another.
    cost
        Seconds per row; None: measured.
    after
        Names of conditions that guard it.
    profilable
        False: it is asked only about rows that pass all others.
    """

    condition: Expr
    name: str
    cost: float | None = None
    after: tuple[str, ...] = ()
    profilable: bool = True


@dataclass(frozen=True)
class AdaptiveFilter(Select):
    """Rows that meet all conditions, which are tried in an order that follows the data."""

    conjuncts: tuple[Conjunct, ...] = ()

    def describe(self) -> list[str]:
        """With what restricts the order of conditions, and what is known of their costs."""
        after = [f"{item.name} after {', '.join(item.after)}" for item in self.conjuncts if item.after]
        last = [f"{item.name} last: it is not profiled" for item in self.conjuncts if not item.profilable]
        costs = [f"{item.name} costs {item.cost:g} s per row" for item in self.conjuncts if item.cost is not None]
        return [f"AdaptiveFilter {self.condition}", *after, *last, *costs]
