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
