"""Which shedders drop how much, so that as little error as possible saves as much load as needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol

import numpy as np

from penstock.columnar.coins import Floats
from penstock.kernel.work import Place
from penstock.qos.shedding.load import LoadModel, Rates
from penstock.qos.shedding.placement import PlacedShedder

#: Less load than this is rounding noise.
ROUNDING = 1e-12


class Ranking(Protocol):
    """Says in which order shedders are activated, by their weights at the rates of now."""

    def __call__(self, shedders: Sequence[PlacedShedder], weights: Sequence[float]) -> list[PlacedShedder]: ...


def by_weight(shedders: Sequence[PlacedShedder], weights: Sequence[float]) -> list[PlacedShedder]:
    """The greatest weight first, of equal ones the greatest capacity: most load for the least error.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.4.3.
    """
    order = np.lexsort((-_capacities(shedders), -np.asarray(weights, np.float64)))
    return [shedders[at] for at in order.tolist() if weights[at] > 0]


@dataclass(frozen=True, slots=True)
class InGroups:
    """Groups of weights that differ by at most a factor of two; in a group the greatest capacity first.

    Fewer shedders are active, and rates may change much before the order does; the error is at most twice the least one, as
    long as the last group, in which all small weights are, is not needed.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.4.3, grouped
    shedders; there the last one may drop more than is needed.
    """

    groups: int = 8

    def __call__(self, shedders: Sequence[PlacedShedder], weights: Sequence[float]) -> list[PlacedShedder]:
        found = np.asarray(weights, np.float64)
        useful = np.flatnonzero(found > 0)
        if not len(useful):
            return []
        group = np.minimum(np.floor(log2(found.max()) - np.log2(found[useful]) + 1e-9), self.groups - 1)
        order = useful[np.lexsort((-_capacities(shedders)[useful], group))]
        return [shedders[at] for at in order.tolist()]


def _capacities(shedders: Sequence[PlacedShedder]) -> Floats:
    return np.array([each.capacity for each in shedders], np.float64)


def weights(shedders: Sequence[PlacedShedder], rates: Rates) -> list[float]:
    """What each is worth at these rates."""
    return [rates.get(each.head, 0.0) * each.worth for each in shedders]


def allocate(
    model: LoadModel, ranked: Sequence[PlacedShedder], rates: Rates, shares: dict[Place, float], excess: float
) -> tuple[list[PlacedShedder], float]:
    """Activate shedders in this order until the load has fallen by `excess`; `shares` are changed.

    Each saves what it does with those before it active: the rows that come to it may have become fewer.

    Returns
    -------
    tuple
        Those activated, and the load that is left although all drop what they may.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.4.3; there savings
    are added up, which sheds too little where one shedder stands behind another.
    """
    activated: list[PlacedShedder] = []
    for shedder in ranked:
        if excess <= ROUNDING:
            break
        rate, demand = _here(model, shedder, rates, shares)
        overhead = rate * model.test_s
        saving = shedder.capacity * rate * demand - overhead
        if saving <= 0:
            continue
        shares[shedder.place] = shedder.capacity if saving < excess else (excess + overhead) / (rate * demand)
        excess -= min(saving, excess)
        activated.append(shedder)
    return activated, excess if excess > ROUNDING else 0.0


def raised(model: LoadModel, shedder: PlacedShedder, rates: Rates, shares: dict[Place, float], excess: float) -> float:
    """Let an active shedder drop more, up to its capacity; what is left of the excess."""
    rate, demand = _here(model, shedder, rates, shares)
    room = (shedder.capacity - shares[shedder.place]) * rate * demand
    if room <= ROUNDING:
        return excess
    taken = min(room, excess)
    shares[shedder.place] = min(shares[shedder.place] + taken / (rate * demand), shedder.capacity)
    return excess - taken


def lowered(model: LoadModel, shedder: PlacedShedder, rates: Rates, shares: dict[Place, float], room: float) -> float:
    """Let an active shedder drop less, so that the load grows by no more than `room`; what is left of it.

    It is not active any more when nothing is left to drop.
    """
    rate, demand = _here(model, shedder, rates, shares)
    share = shares[shedder.place]
    if share * rate * demand - rate * model.test_s <= room:
        del shares[shedder.place]
        return room - (share * rate * demand - rate * model.test_s)
    shares[shedder.place] = share - room / (rate * demand)
    return 0.0


def _here(model: LoadModel, shedder: PlacedShedder, rates: Rates, shares: dict[Place, float]) -> tuple[float, float]:
    """Rows per second that come to a shedder, and seconds of work that one of them sets going."""
    return model.rate(shedder.place, rates, shares), model.demand(model.chain(shedder.place)[-1], shares)
