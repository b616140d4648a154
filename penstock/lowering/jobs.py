"""What an application becomes for a host: stages of operators, their entries, and what crosses between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.kernel.graph import Graph
from penstock.kernel.packing import Route
from penstock.lowering.filters import FilterRecipe
from penstock.lowering.prefix import Prefix, PrefixFilter
from penstock.model.qos import QoSSpecification
from penstock.model.schema import Schema
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Keys


@dataclass(frozen=True)
class SourceEntry:
    """Rows of a declared stream entering a stage."""

    route: Route
    prefix: Prefix


@dataclass(frozen=True)
class Exchange:
    """Answers of one stage that enter another: how to spread them, and which columns already decide the sending shard."""

    entry: str
    schema: Schema
    keys: Keys
    sent_by: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Stage:
    """One stateful step; behind the last one there are only destinations."""

    level: int
    graph: Graph
    sources: tuple[SourceEntry, ...]
    exchanges: Mapping[str, Exchange]
    is_last: bool = True


@dataclass(frozen=True)
class Job:
    """A whole application, ready for a host. `outputs` are the queries' schemas by name."""

    stages: tuple[Stage, ...]
    outputs: Mapping[str, Schema]
    shards: int
    #: Where each plan node of a generation runs, for explain: (level or `PACKING`, node id, keys its inputs are partitioned by).
    placements: Mapping[tuple[int, str], tuple[int, str, str]] = field(default_factory=dict)
    #: Promises that no shard can watch, in words.
    unwatched: tuple[str, ...] = ()
    #: The rewritten plans, by generation.
    plans: Mapping[int, Catalog] = field(default_factory=dict)
    #: What queries promise, by name.
    contracts: Mapping[str, QoSSpecification] = field(default_factory=dict)

    @property
    def early_filters(self) -> dict[str, tuple[PrefixFilter, frozenset[str]]]:
        """Filters that packing tasks run, by name, and the queries that they serve."""
        found: dict[str, tuple[PrefixFilter, frozenset[str]]] = {}
        for stage in self.stages:
            for source in stage.sources:
                readers = [node.queries for node in stage.graph.nodes if (source.route.entry, "") in node.sources]
                for item in source.prefix.filters:
                    before = found[item.name][1] if item.name in found else frozenset()
                    found[item.name] = (item, before.union(*readers))
        return found

    @property
    def filters(self) -> dict[str, FilterRecipe]:
        """Filters whose conditions may change places, by name, in the order rows pass them."""
        made: list[tuple[str, object]] = [(name, item.make) for name, (item, _) in self.early_filters.items()]
        made += [(node.id, node.make) for stage in self.stages for node in stage.graph.nodes]
        return {name: recipe for name, recipe in made if isinstance(recipe, FilterRecipe)}

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256("|".join(stage.graph.fingerprint for stage in self.stages).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Generation:
    """Queries that began together, with the application as it was then.

    Operators are shared among queries of one generation only: a query that begins later knows nothing of earlier rows, so it has
    state of its own. How a generation is built depends on nothing that comes or goes later.

    Parameters
    ----------
    queries
        Those that began with it, in lower case; queries that they read may be of earlier generations.
    living
        Those of them that still run.
    """

    number: int
    catalog: Catalog
    queries: frozenset[str]
    living: frozenset[str]

    @classmethod
    def only(cls, catalog: Catalog, queries: Iterable[str] | None = None) -> Generation:
        names = frozenset(catalog.queries) if queries is None else frozenset(name.lower() for name in queries)
        return cls(0, catalog, names, names)
