"""Which queries stop when contracts cannot all be met, so that those of the others can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.kernel.work import Place
from penstock.qos.shedding.allocation import ROUNDING
from penstock.qos.shedding.load import LoadModel, Rates, Shares
from penstock.qos.shedding.placement import QueryPath


@dataclass(slots=True)
class Suspensions:
    """Queries whose rows are all left out, in front of the first operators that work for nobody else.

    Those of least weight stop first, of equal ones the one that saves most; the one that stopped last goes on first.

    Parameters
    ----------
    weights
        Of queries; others have weight 1.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.4.3, which names
    the choice and no order.
    """

    model: LoadModel
    paths: Sequence[QueryPath]
    weights: Mapping[str, float]
    #: Places that are closed for each of the queries that stand still, the last one last.
    closed: dict[str, tuple[Place, ...]] = field(default_factory=dict)

    def over(self, shares: Shares) -> dict[Place, float]:
        """Shares with all rows left out where queries stand still."""
        return {**shares, **{place: 1.0 for places in self.closed.values() for place in places}}

    def suspend(self, rates: Rates, shares: Shares, excess: float) -> float:
        """Stop queries until the load has fallen by `excess`; what is left of it."""
        while excess > ROUNDING:
            before = self.model.load(rates, self.over(shares))
            found = []
            for query, places in self._own_places().items():
                saved = before - self.model.load(rates, {**self.over(shares), **dict.fromkeys(places, 1.0)})
                if query not in self.closed and saved > ROUNDING:
                    found.append((self.weights.get(query, 1.0), -saved, query, places))
            if not found:
                break
            _, saved, query, places = min(found)
            self.closed[query] = places
            excess += saved
        return max(excess, 0.0)

    def resume(self, rates: Rates, shares: Shares, limit: float) -> None:
        """Let queries go on as long as the load stays within the limit."""
        while self.closed:
            query, places = self.closed.popitem()
            if self.model.load(rates, self.over(shares)) > limit:
                self.closed[query] = places
                return

    def _own_places(self) -> dict[str, tuple[Place, ...]]:
        """By query, where each of its paths begins to be its own."""
        users: dict[Place, set[str]] = {}
        for path in self.paths:
            for place in path.steps:
                users.setdefault(place, set()).add(path.query)
        found: dict[str, tuple[Place, ...]] = {}
        for path in self.paths:
            own = [place for place in path.steps if len(users[place]) == 1 and self.model.is_reached_once(place)]
            found[path.query] = (*found.get(path.query, ()), *own[:1])
        return found
