"""How much of the processor queries need: at given rates, and with given shares of rows left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from penstock.errors import InvalidDeclaration
from penstock.kernel.work import Place
from penstock.qos.shedding.paths import PathClusters, PathNode

#: Shares of rows that are left out, by the place in front of which they are.
Shares = Mapping[Place, float]
#: Rows per second that come to the first operators of all clusters.
Rates = Mapping[Place, float]


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """What is known of an operator, by port.

    Parameters
    ----------
    capacity
        Rows per second that it could take if it were alone.
    selectivity
        Rows out for a row in.
    """

    capacity: float
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.capacity) and self.capacity > 0):
            raise InvalidDeclaration(f"a capacity of {self.capacity} rows per second tells no load; measure it, or declare it > 0")
        if not (isfinite(self.selectivity) and self.selectivity >= 0):
            raise InvalidDeclaration(f"a selectivity of {self.selectivity} makes no sense; it is rows out for a row in, 0 or more")


class LoadModel:
    """Load of all paths, each operator counted once however many paths share it.

    Parameters
    ----------
    test_s
        What it costs an active shedder to look at a row, in seconds.

    Notes
    -----
    Equal to the book's sum over paths less what is counted twice (7.8), which tests confirm.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.3, (7.1)-(7.8).

    Examples
    --------
    >>> clusters = PathClusters()
    >>> clusters.insert("q", [("a", 0), ("b", 0)])
    >>> model = LoadModel(clusters, {("a", 0): OperatorFigures(1_000, 0.5), ("b", 0): OperatorFigures(500)})
    >>> model.load({("a", 0): 600.0})
    1.2
    >>> round(model.load({("a", 0): 600.0}, {("b", 0): 0.5}), 6)
    0.9
    """

    def __init__(self, clusters: PathClusters, figures: Mapping[Place, OperatorFigures], test_s: float = 0.0) -> None:
        self.clusters = clusters
        self.figures = figures
        self.test_s = test_s
        #: Nodes from the head on, by place.
        self._chains: dict[Place, list[tuple[PathNode, ...]]] = {}
        for head in clusters.heads:
            self._note(head, ())

    def _note(self, node: PathNode, before: tuple[PathNode, ...]) -> None:
        chain = (*before, node)
        self._chains.setdefault(node.place, []).append(chain)
        for child in node.children.values():
            self._note(child, chain)

    def chain(self, place: Place) -> tuple[PathNode, ...]:
        """The way from the first operator to this place."""
        return self._chains[place][0]

    def is_reached_once(self, place: Place) -> bool:
        """Whether one way only leads there: behind a join rows of all its inputs meet, and nobody could tell them apart."""
        return len(self._chains[place]) == 1

    def load(self, rates: Rates, shares: Shares | None = None) -> float:
        """Share of one processor that is needed."""
        return sum(rates.get(head.place, 0.0) * self._cost(head, shares or {}) for head in self.clusters.heads)

    def demand(self, node: PathNode, shares: Shares | None = None) -> float:
        """Seconds of work that a row sets going which gets past a shedder in front of this operator."""
        own, shares = self.figures[node.place], shares or {}
        return 1.0 / own.capacity + own.selectivity * sum(self._cost(child, shares) for child in node.children.values())

    def _cost(self, node: PathNode, shares: Shares) -> float:
        share = shares.get(node.place, 0.0)
        return (1.0 - share) * self.demand(node, shares) + (self.test_s if share else 0.0)

    def reach(self, place: Place, shares: Shares | None = None) -> float:
        """Rows that come in front of a place for a row that enters its cluster."""
        found, shares = 1.0, shares or {}
        for node in self.chain(place)[:-1]:
            found *= (1.0 - shares.get(node.place, 0.0)) * self.figures[node.place].selectivity
        return found

    def rate(self, place: Place, rates: Rates, shares: Shares | None = None) -> float:
        """Rows per second that come in front of a place."""
        return rates.get(self.chain(place)[0].place, 0.0) * self.reach(place, shares)
