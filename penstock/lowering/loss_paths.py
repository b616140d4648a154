"""The ways of rows from streams to answers, as load shedding sees them: what each may lose, and where rows may be left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.kernel.graph import LOOP, Graph
from penstock.kernel.packing import READ
from penstock.kernel.work import Place, Price
from penstock.lowering.jobs import Job
from penstock.lowering.sheddable import wishes
from penstock.model.drop_preferences import DropKind, DropPreference
from penstock.model.qos import Measure, Priority, QoSSpecification
from penstock.qos.shedding.load import LoadModel, OperatorFigures
from penstock.qos.shedding.paths import PathClusters
from penstock.qos.shedding.placement import PlacedShedder, Placement, QueryPath, error_per_path

#: No row costs less, or places would be worth nothing for want of a measurement.
_LEAST_S = 1e-9
_SECOND_NS = 1e9


def entrance(entry: str) -> Place:
    """The place before the shuffle at which rows of an entry may be left out; its name is that of no operator."""
    return entry, 0


def query_paths(job: Job, contracts: Mapping[str, QoSSpecification]) -> list[QueryPath]:
    """All ways from entries of streams to the answers of queries; those of queries without a contract may lose nothing.

    Each begins with the entry itself, see `entrance`, so that leaving rows out before the shuffle is a place among others.
    """
    (stage,) = job.stages
    wanted = wishes(job, contracts)
    found = []
    for query in job.outputs:
        contract = contracts.get(query, QoSSpecification())
        ways = list(dict.fromkeys(_ways_to_answers(stage.graph, query)))
        losing = [wanted.get((way[0][0], query)) for way in ways]
        error = error_per_path(contract.max_relative_error, sum(wish is not None for wish in losing))
        found += [
            QueryPath(f"{query}/{number}", query, way, error if wish is not None else 0.0, _latency(contract), _which(wish))
            for number, (way, wish) in enumerate(zip(ways, losing, strict=True))
        ]
    return _agreed(found)


def _latency(contract: QoSSpecification) -> float | None:
    latency = contract.of(Measure.LATENCY)
    return contract.max_latency if latency is not None and latency.priority is Priority.MUST_SATISFY else None


def _which(wish: DropPreference | None) -> DropPreference:
    """Which rows to lose; what else a contract says of loss does not tell one place from another."""
    return replace(wish, compensate=False, anywhere=False) if wish is not None else DropPreference()


def _agreed(paths: Sequence[QueryPath]) -> list[QueryPath]:
    """Random rows for paths from one entry that would rather lose different ones: no row is the least wanted of all of them."""
    wanted: dict[Place, set[DropPreference]] = {}
    for path in paths:
        if path.max_error:
            wanted.setdefault(path.steps[0], set()).add(path.drop)
    return [
        replace(path, drop=next(iter(mine)) if len(mine := wanted.get(path.steps[0], set())) == 1 else DropPreference())
        for path in paths
    ]


def _ways_to_answers(graph: Graph, query: str) -> Iterator[tuple[Place, ...]]:
    source, _ = graph.outputs[query]
    return _ways(graph, source, frozenset())


def _ways(graph: Graph, source: str, passed: frozenset[str]) -> Iterator[tuple[Place, ...]]:
    """Ways to what leaves an entry or an operator; derived streams that come round the loop are followed to where they began."""
    if source in passed:  # a query that reads its own answers: they began elsewhere
        return
    node = next((each for each in graph.nodes if each.id == source), None)
    if node is None:
        maker = graph.outputs.get(LOOP + source)
        if maker is None:
            yield (entrance(source),)
        else:
            yield from _ways(graph, maker[0], passed | {source})
        return
    for port, (before, _) in enumerate(node.sources):
        for way in _ways(graph, before, passed | {source}):
            yield (*way, (source, port))


def shedders(
    job: Job,
    paths: Sequence[QueryPath],
    prices: Mapping[str, Sequence[Price]],
    entry_s: float,
    parallel: float,
    is_inside_allowed: Callable[[str], bool] = lambda query: True,
    weights: Mapping[str, float] | None = None,
) -> tuple[LoadModel, list[PlacedShedder]]:
    """Where rows are best left out, and what that saves, by what operators have been seen to cost.

    Parameters
    ----------
    entry_s
        What a row of an entry that is kept costs before the first operator, in seconds.
    parallel
        Shards that work at the same time.
    is_inside_allowed
        Whether rows of a query may be left out between operators, and not only before the shuffle.
    weights
        How important queries are; others have weight 1. Loss of an important query counts as a greater error.
    """
    figures = {place: _figures(place, prices, entry_s, parallel) for path in paths for place in path.steps}
    model, placement = _placement(job, paths, figures, is_inside_allowed)
    queries = {path.id: path.query for path in paths}
    return model, [_weighted(each, queries, weights or {}) for each in placement.shedders()]


def possible_places(job: Job, paths: Sequence[QueryPath], is_inside_allowed: Callable[[str], bool]) -> dict[str, PlacedShedder]:
    """The first place of each path at which rows may be left out, whatever that saves; paths without one are left out."""
    figures = {place: OperatorFigures(1.0) for path in paths for place in path.steps}
    model, placement = _placement(job, paths, figures, is_inside_allowed)
    found: dict[str, PlacedShedder] = {}
    for node in (node for head in model.clusters.heads for node in head.walk()):
        placed = placement.weighed(node)
        found = {path: placed for path in node.paths if placed is not None} | found
    return found


def _placement(
    job: Job, paths: Sequence[QueryPath], figures: Mapping[Place, OperatorFigures], is_inside_allowed: Callable[[str], bool]
) -> tuple[LoadModel, Placement]:
    clusters = PathClusters()
    for path in paths:
        clusters.insert(path.id, path.steps)
    model = LoadModel(clusters, figures)
    entries = {source.route.entry: source.route.columns.names for stage in job.stages for source in stage.sources}
    ranked = {source.route.entry: [f"{READ}{name}" for name in source.prefix.ranked] for source in job.stages[0].sources}
    queries = {path.id: path.query for path in paths}
    allowed = {query for query in queries.values() if is_inside_allowed(query)}

    def is_legal(place: Place, drop: DropPreference) -> bool:
        if place[0] in entries:
            return drop.kind is DropKind.RANDOM or drop.column in (*entries[place[0]], *ranked[place[0]])
        *_, before, here = model.chain(place)
        is_known = drop.kind is DropKind.RANDOM or drop.column in entries.get(before.place[0], ())
        return is_known and all(queries[path] in allowed for path in here.paths)

    return model, Placement(model, paths, is_legal=is_legal)


def _figures(place: Place, prices: Mapping[str, Sequence[Price]], entry_s: float, parallel: float) -> OperatorFigures:
    known = prices.get(place[0])
    if known is None:
        return OperatorFigures(1.0 / max(entry_s, _LEAST_S))
    price = known[place[1]]
    return OperatorFigures(1.0 / max(price.share_ns / _SECOND_NS / parallel, _LEAST_S), price.selectivity)


def _weighted(shedder: PlacedShedder, queries: Mapping[str, str], weights: Mapping[str, float]) -> PlacedShedder:
    weight = max(weights.get(queries[path], 1.0) for path in shedder.paths)
    return replace(shedder, worth=shedder.worth / weight)
