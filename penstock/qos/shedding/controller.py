"""Decides from rates what is shed: predicts overload, and goes back when it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.kernel.work import Place
from penstock.qos.shedding.allocation import ROUNDING, Ranking, allocate, by_weight, lowered, raised, weights
from penstock.qos.shedding.load import LoadModel, Rates
from penstock.qos.shedding.placement import PlacedShedder, QueryPath
from penstock.qos.shedding.victims import Suspensions


class Mode(StrEnum):
    """Whether anything is shed."""

    NO_SHEDDING = "no_shedding"
    SHEDDING = "shedding"


@dataclass(frozen=True, slots=True)
class SheddingSettings:
    """When to shed.

    Parameters
    ----------
    capacity
        Processors for queries.
    headroom
        Share of them that may be used; at 1, as published, a queue that has grown stays.
    slack
        How far below that the load must fall before less is shed.
    counts_backlog
        Whether what waits already counts as load, by how soon it must be answered.
    ranking
        Which shedders are activated first.
    suspends
        Whether queries stop when contracts cannot all be met; otherwise all go on, and some are late.
    """

    capacity: float = 1.0
    headroom: float = 0.95
    slack: float = 0.05
    counts_backlog: bool = True
    ranking: Ranking = by_weight
    suspends: bool = False

    @property
    def limit(self) -> float:
        return self.capacity * self.headroom


@dataclass(frozen=True, slots=True)
class LoadEstimate:
    """What was estimated and decided.

    Parameters
    ----------
    offered
        Load of all that comes, if nothing were shed.
    effective
        With what is shed from now on, and with what waits where that counts.
    excess
        Load that had to be shed in addition.
    residual
        What could not be: contracts cannot all be met.
    shares
        By place, from now on.
    suspended
        Queries of which all rows are left out.
    """

    offered: float
    effective: float
    excess: float
    residual: float
    shares: Mapping[Place, float] = field(default_factory=dict)
    suspended: tuple[str, ...] = ()

    @property
    def mode(self) -> Mode:
        return Mode.SHEDDING if self.shares else Mode.NO_SHEDDING

    @property
    def is_feasible(self) -> bool:
        """Whether all contracts can be met."""
        return not self.residual


class SheddingController:
    """Keeps the load below the capacity: more is shed at once when it is above, less only when it is clearly below.

    Shedders are activated by weight and deactivated in the opposite order of their activation, never so far that they would
    have to be activated again at the same rates.

    Parameters
    ----------
    weights
        Of queries, for the choice of those that stop; others have weight 1.

    Notes
    -----
    Differs from the book: the last shedder drops only what is needed, whether more or less than before; headroom and backlog
    are added, because shedding down to exactly the capacity keeps a queue that has grown.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 7.4.3.

    Examples
    --------
    >>> from penstock.qos.shedding.load import OperatorFigures
    >>> from penstock.qos.shedding.paths import PathClusters
    >>> from penstock.qos.shedding.placement import Placement
    >>> clusters, path = PathClusters(), QueryPath("q", "q", (("a", 0),), max_error=0.3, max_latency_s=1.0)
    >>> clusters.insert("q", path.steps)
    >>> model = LoadModel(clusters, {("a", 0): OperatorFigures(1_000)})
    >>> controller = SheddingController(model, Placement(model, [path]).shedders(), [path])
    >>> [round(controller.estimate({("a", 0): rate}).shares.get(("a", 0), 0.0), 3) for rate in (900.0, 1200.0, 1200.0, 800.0)]
    [0.0, 0.208, 0.208, 0.0]
    """

    def __init__(
        self, model: LoadModel, shedders: Sequence[PlacedShedder], paths: Sequence[QueryPath],
        settings: SheddingSettings | None = None, weights: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self._model = model
        self._shedders = list(shedders)
        #: Load of a row that waits at a place, by the most pressing of the paths through it.
        self._urgency = _urgency(model, {path.id: path.max_latency_s for path in paths if path.max_latency_s is not None})
        self._settings = settings or SheddingSettings()
        self._suspensions = Suspensions(model, paths, weights or {})
        self._shares: dict[Place, float] = {}
        #: Those active, in order of activation.
        self._active: list[PlacedShedder] = []

    def estimate(self, rates: Rates, waiting_rows: Mapping[Place, int] | None = None) -> LoadEstimate:
        """Look at the rates and at the rows that wait, and decide."""
        limit, waiting = self._settings.limit, self._backlog(waiting_rows or {})
        effective = self._load(rates) + waiting
        excess, residual = max(effective - limit, 0.0), 0.0
        if excess > ROUNDING:
            residual = self._shed(rates, excess)
        elif effective < limit - self._settings.slack:
            self._relax(rates, limit - waiting)
        suspended = tuple(self._suspensions.closed)
        shares = self._suspensions.over(self._shares)
        return LoadEstimate(self._model.load(rates), self._load(rates) + waiting, excess, residual, shares, suspended)

    def go_on_from(self, other: SheddingController) -> None:
        """Take over what another one sheds, whose places or prices are not the newest any more."""
        here = {each.place: each for each in self._shedders}
        self._active = [here[each.place] for each in other._active if each.place in here]
        self._shares = {each.place: min(other._shares[each.place], each.capacity) for each in self._active}
        self._suspensions.closed = dict(other._suspensions.closed)

    def _load(self, rates: Rates) -> float:
        return self._model.load(rates, self._suspensions.over(self._shares))

    def _backlog(self, rows: Mapping[Place, int]) -> float:
        if not self._settings.counts_backlog:
            return 0.0
        return sum(number * self._urgency.get(place, 0.0) for place, number in rows.items())

    def _shed(self, rates: Rates, excess: float) -> float:
        """Shed more; the load that is left although everything is active."""
        shares = self._suspensions.over(self._shares)
        for shedder in reversed(self._active):
            excess = raised(self._model, shedder, rates, shares, excess)
        others = [each for each in self._shedders if each.place not in shares]
        ranked = self._settings.ranking(others, weights(others, rates))
        activated, residual = allocate(self._model, ranked, rates, shares, excess)
        self._active += activated
        self._shares |= {each.place: min(shares[each.place], each.capacity) for each in self._active}
        return self._suspensions.suspend(rates, self._shares, residual) if self._settings.suspends else residual

    def _relax(self, rates: Rates, limit: float) -> None:
        """Let queries go on, or shed less; the newest first."""
        self._suspensions.resume(rates, self._shares, limit)
        if self._suspensions.closed:
            return
        room = limit - self._load(rates)
        while self._active and room > ROUNDING:
            room = lowered(self._model, self._active[-1], rates, self._shares, room)
            if self._active[-1].place in self._shares:
                return
            self._active.pop()


def _urgency(model: LoadModel, latencies: Mapping[str, float]) -> dict[Place, float]:
    found: dict[Place, float] = {}
    for node in (node for head in model.clusters.heads for node in head.walk()):
        shortest = min((latencies[path] for path in node.paths if path in latencies), default=None)
        if shortest is not None:
            found[node.place] = max(found.get(node.place, 0.0), model.demand(node) / shortest)
    return found
