"""What an application consists of: texts, which queries run, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from penstock.errors import InvalidDeclaration
from penstock.language.application import extend
from penstock.lowering.jobs import Generation, Job
from penstock.lowering.looped import looped
from penstock.lowering.sheddable import with_ranked_columns
from penstock.lowering.stages import build_generations
from penstock.lowering.terms import promised, terms_of
from penstock.plan.catalog import Catalog

#: State of an application belongs to its operators; it is not refused as a whole when the plan is another.
_ANY_PLAN = "application"
ADD, DROP = "add", "drop"
#: Something that was done to an application: a text was added, or a query was dropped.
Step: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Began:
    """Queries that began together, and how the application had come about at that time.

    Parameters
    ----------
    now_us
        What BEGIN NOW meant.
    queries, living
        Names in lower case: those that began, and those of them that still run.
    """

    number: int
    steps: tuple[Step, ...]
    now_us: int
    queries: tuple[str, ...]
    living: tuple[str, ...]


@dataclass(frozen=True)
class Edition:
    """An application at some time; editions follow each other as its queries come and go.

    Parameters
    ----------
    number
        Counts the changes.
    file
        The text that the last start was given.
    later
        What was added and dropped while it ran. It survives a restart, whose text knows nothing of it.
    heirs
        Operators and entries that go on with the state of others.
    """

    name: str
    file: str
    now_us: int
    number: int = 0
    later: tuple[Step, ...] = ()
    generations: tuple[Began, ...] = ()
    heirs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def first(cls, name: str, text: str, now_us: int) -> Edition:
        steps = ((ADD, text),)
        queries = tuple(parsed(name, steps, now_us).queries)
        return cls(name, text, now_us, generations=(Began(0, steps, now_us, queries, queries),))

    @property
    def steps(self) -> tuple[Step, ...]:
        return ((ADD, self.file), *self.later)

    @cached_property
    def catalog(self) -> Catalog:
        """The streams, functions and queries that there are now, as the newest texts have them."""
        return parsed(self.name, self.steps, self.now_us)

    def job(self, shards: int) -> Job:
        """What runs: one stage with the operators of all generations, and what the newest texts ask of the service."""
        job = looped(build_generations([self._generation(began) for began in self.generations], shards))
        (stage,) = job.stages
        terms = {query: terms_of(self.catalog, query) for query in job.outputs}
        graph = replace(stage.graph, fingerprint=_ANY_PLAN, heirs=dict(self.heirs), terms=terms)
        contracts = promised(self.catalog, job.outputs)
        return with_ranked_columns(replace(job, stages=(replace(stage, graph=graph),), contracts=contracts))

    def _generation(self, began: Began) -> Generation:
        catalog = parsed(self.name, began.steps, began.now_us)
        return Generation(began.number, catalog, frozenset(began.queries), frozenset(began.living))

    def began(self, query: str) -> Began | None:
        """The generation of a query that runs."""
        return next((began for began in self.generations if query.lower() in began.living), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Edition:
        generations = tuple(
            Began(item["number"], _steps(item["steps"]), item["now_us"], tuple(item["queries"]), tuple(item["living"]))
            for item in found["generations"]
        )
        return cls(**{**found, "later": _steps(found["later"]), "generations": generations})


def _steps(found: Iterable[Sequence[str]]) -> tuple[Step, ...]:
    return tuple((kind, text) for kind, text in found)


@lru_cache(maxsize=64)
def parsed(name: str, steps: tuple[Step, ...], now_us: int) -> Catalog:
    """What comes of the steps, one after the other; it is not to be changed."""
    catalog = Catalog(name)
    for kind, text in steps:
        if kind == ADD:
            extend(catalog, text, now_us)
        else:
            catalog = without(catalog, text)
    return catalog


def without(catalog: Catalog, query: str) -> Catalog:
    """The application without a query; nobody may read it. A text that does not have it any more is as good."""
    kept = {name: each for name, each in catalog.queries.items() if name != query.lower()}
    readers = [each.name for each in kept.values() if query.lower() in map(str.lower, each.depends_on)]
    if readers and len(kept) < len(catalog.queries):
        raise InvalidDeclaration(
            f"query '{query}' is read by query '{readers[0]}'; drop that one first", f"application '{catalog.name}'"
        )
    return replace(catalog, queries=kept)
