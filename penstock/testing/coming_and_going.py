"""Random applications whose queries come and go while rows arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import hypothesis.strategies as st
import pyarrow as pa

from penstock.language.application import parse_application
from penstock.plan.catalog import Catalog
from penstock.runners.editions.changes import changed, refuse_incompatible
from penstock.runners.editions.edition import ADD, DROP, Edition, Step
from penstock.testing.random_queries.applications import Application, declarations
from penstock.testing.random_queries.patterns import FUNCTION


@dataclass(frozen=True, slots=True)
class Spans:
    """From which micro-batch on each query runs, and before which one it is dropped; -1: never. Lists are used in turn."""

    begins: tuple[int, ...] = (0,)
    drops: tuple[int, ...] = (-1,)


def spans() -> st.SearchStrategy[Spans]:
    return st.one_of(
        st.just(Spans()),
        st.builds(
            Spans,
            st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=1, max_size=4).map(tuple),
            st.lists(st.sampled_from([-1, -1, 1, 2, 3]), min_size=1, max_size=4).map(tuple),
        ),
    )


class Programme:
    """When the queries of an application come and go: none before those it reads, none that others still read."""

    def __init__(self, application: Application, wanted: Spans) -> None:
        self._application = application
        catalog = parse_application(application.text)
        names = [query.name for query in application.queries]
        self.begins = dict(zip(names, _in_turn(wanted.begins, len(names)), strict=True))
        for name in names:
            self.begins[name] = max([self.begins[name], *(self.begins[read] for read in _read(catalog, name))])
        first = min(self.begins.values())
        self.begins = {name: begin - first for name, begin in self.begins.items()}
        drops = dict(zip(names, _in_turn(wanted.drops, len(names)), strict=True))
        self.drops = {name: at for name, at in drops.items() if at > self.begins[name] and not _readers(catalog, name)}
        #: Queries that began with everything they read: they answer as if nothing had been before.
        self.alike = [name for name in names if all(self.begins[read] == self.begins[name] for read in _read(catalog, name))]

    def first(self) -> Edition:
        return Edition.first("app", FUNCTION + declarations(self._application.timeline) + self._text(0), 0)

    def next(self, edition: Edition, batch: int, shards: int) -> Edition:
        """The edition that a micro-batch runs with."""
        steps: list[Step] = [(ADD, self._text(batch))] if batch and batch in self.begins.values() else []
        steps += [(DROP, name) for name, at in list(self.drops.items()) if at == batch and self._leaves_one(name, batch)]
        if not steps:
            return edition
        following, changes = changed(edition, shards, later=steps)
        refuse_incompatible(changes, "random application")
        return following

    def _leaves_one(self, query: str, batch: int) -> bool:
        """Whether some query is left when this one is dropped; if not, it stays."""
        gone = [name for name, at in self.drops.items() if at <= batch]
        if any(begin <= batch and name not in gone for name, begin in self.begins.items()):
            return True
        del self.drops[query]
        return False

    def _text(self, batch: int) -> str:
        listed = [query for query in self._application.queries if self.begins[query.name] == batch]
        return "".join(f"CREATE CQ {query.name} {query.statement};\n" for query in listed)


def _in_turn(values: Sequence[int], count: int) -> list[int]:
    return [values[at % len(values)] for at in range(count)]


def _read(catalog: Catalog, query: str) -> set[str]:
    """All queries that a query reads, directly or not."""
    direct = {catalog.queries[name.lower()].name for name in catalog.queries[query.lower()].depends_on}
    return direct.union(*(_read(catalog, name) for name in direct))


def _readers(catalog: Catalog, query: str) -> list[str]:
    return [other.name for other in catalog.queries.values() if query.lower() in map(str.lower, other.depends_on)]


def rows_since(
    batches: Sequence[Mapping[str, pa.RecordBatch]], begin: int, schemas: Mapping[str, pa.RecordBatch]
) -> dict[str, pa.RecordBatch]:
    """All rows of the micro-batches from one on."""
    found = {}
    for name, whole in schemas.items():
        pieces = [batch[name] for batch in batches[begin:] if name in batch]
        found[name] = pa.concat_batches(pieces) if pieces else whole.slice(0, 0)
    return found


def is_part_of(some: Sequence[tuple[str, ...]], all_of_them: Sequence[tuple[str, ...]]) -> bool:
    return not Counter(some) - Counter(all_of_them)
