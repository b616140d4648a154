"""Shedding by what was measured: a shedder more when answers are late, one less when they are in time again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.kernel.work import Place
from penstock.qos.shedding.controller import LoadEstimate
from penstock.qos.shedding.load import LoadModel, Rates
from penstock.qos.shedding.placement import PlacedShedder, QueryPath


class FeedbackController:
    """Activates one shedder for every look at which a query is too late, and drops all that it may.

    It needs no estimate of the load, only rates to rank shedders by, and acts after the first answer is late: choose it where
    nothing is known of prices. `SheddingController` acts before, and drops no more than is needed.

    Parameters
    ----------
    relief
        A query is in time again when its latency is below this part of what it tolerates.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 10.6.5.
    """

    def __init__(
        self, model: LoadModel, shedders: Sequence[PlacedShedder], paths: Sequence[QueryPath], relief: float = 0.8
    ) -> None:  # fmt: skip
        self._model = model
        self._shedders = list(shedders)
        self._queries = {path.id: path.query for path in paths}
        self._bounds = {path.query: path.max_latency_s for path in paths if path.max_latency_s is not None}
        self._relief = relief
        self._active: list[PlacedShedder] = []

    def look(self, rates: Rates, latencies_s: Mapping[str, float]) -> LoadEstimate:
        """Decide by the latencies of queries since the last look; those without answers are left out.

        `excess` of what it returns is how much too late the worst query is, in parts of what it tolerates.
        """
        relative = {query: latency / self._bounds[query] for query, latency in latencies_s.items() if query in self._bounds}
        worst = sorted(relative, key=lambda query: (-relative[query], query))
        late = [query for query in worst if relative[query] > 1.0]
        if late:
            self._activate(late, rates)
        elif self._active and all(found < self._relief for found in relative.values()):
            self._active.pop()
        shares: dict[Place, float] = {each.place: each.capacity for each in self._active}
        excess = max(relative[worst[0]] - 1.0, 0.0) if worst else 0.0
        left = excess if late and len(self._active) == len(self._shedders) else 0.0
        return LoadEstimate(self._model.load(rates), self._model.load(rates, shares), excess, left, shares)

    def _activate(self, late: Sequence[str], rates: Rates) -> None:
        """The best shedder that helps one of the queries, the worst of them first."""
        for query in late:
            able = [
                each
                for each in self._shedders
                if each not in self._active and query in {self._queries[path] for path in each.paths} and rates.get(each.head)
            ]
            if able:
                self._active.append(max(able, key=lambda each: rates[each.head] * each.worth))
                return
