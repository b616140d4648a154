"""Every policy by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.operators.filtering.contract import FilterOrder
from penstock.operators.filtering.policies.agreedy import AGreedy
from penstock.operators.filtering.policies.fixed import Fixed, Random
from penstock.operators.filtering.policies.independent import Independent
from penstock.operators.filtering.policies.local_swaps import LocalSwaps
from penstock.operators.filtering.policies.sweep import Sweep
from penstock.operators.filtering.settings import Algorithm, OrderSettings
from penstock.operators.filtering.window import UInt64s

POLICIES: Mapping[Algorithm, type[FilterOrder]] = {
    Algorithm.FIXED: Fixed,
    Algorithm.RANDOM: Random,
    Algorithm.AGREEDY: AGreedy,
    Algorithm.SWEEP: Sweep,
    Algorithm.INDEPENDENT: Independent,
    Algorithm.LOCAL_SWAPS: LocalSwaps,
}


def make_order(
    filters: int, settings: OrderSettings, order: Sequence[int] | None = None, after: UInt64s | None = None
) -> FilterOrder:
    """The policy that the settings name.

    Examples
    --------
    >>> make_order(3, OrderSettings("sweep")).wanted(0)
    2
    """
    return POLICIES[settings.algorithm](filters, settings, order, after)
