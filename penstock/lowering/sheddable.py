"""Where rows of an application may be left out, and how many: what the contracts of all queries behind an entry allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import InvalidDeclaration
from penstock.kernel.packing import READ
from penstock.lowering.jobs import Job, SourceEntry
from penstock.lowering.shedding import changed_meanings, readers_of
from penstock.model.drop_preferences import DropPreference
from penstock.model.qos import QoSSpecification
from penstock.model.schema import is_numeric
from penstock.qos.shedding.placement import error_per_path

#: Of the coins of each entry.
_SEED = 1


@dataclass(frozen=True, slots=True)
class SheddableEntry:
    """Rows of a stream on their way to queries.

    Parameters
    ----------
    most
        The greatest share that may be left out.
    importance
        Of the most important of its queries.
    queries
        Who reads it.
    """

    entry: str
    most: float
    importance: float
    preference: DropPreference
    queries: tuple[str, ...]

    def decision(self, share: float) -> Mapping[str, Any]:
        """To leave out a share of its rows, as shards and packing tasks hear it."""
        detail = {"entry": self.entry, **drop_detail(self.preference, round(share, 3))}
        return detail | ({"anywhere": True} if self.preference.anywhere else {})


def drop_detail(preference: DropPreference, share: float) -> dict[str, Any]:
    """Which rows are left out, and how many, as decisions say it."""
    detail: dict[str, Any] = {"share": share, "seed": _SEED}
    if preference.column is not None:
        detail |= {"kind": preference.kind.value, "column": preference.column, "mode": preference.mode.value}
        detail |= {"center": preference.center} if preference.center is not None else {}
    return detail


def sheddable_entries(job: Job, contracts: Mapping[str, QoSSpecification], weights: Mapping[str, float]) -> list[SheddableEntry]:
    """Entries all of whose queries allow loss, those of the least important queries first.

    Parameters
    ----------
    weights
        How important queries are, by name.

    Raises
    ------
    InvalidDeclaration
        When a query allows loss that would make its answers wrong.
    """
    wanted = wishes(job, contracts)
    paths = Counter(query for _, query in wanted)
    found = []
    for entry, queries, preference in _agreed(job, wanted):
        most = min(error_per_path(contracts[query].max_relative_error, paths[query]) for query in queries)
        weight = max(weights.get(query, 1.0) for query in queries)
        found.append(SheddableEntry(entry, most, weight, preference, queries))
    check_loss(job, contracts)
    return sorted(found, key=lambda item: item.importance)


def entries_with_loss(job: Job) -> list[SheddableEntry]:
    """Where the contracts of a job allow loss; refuses those that allow it where answers would be wrong."""
    terms = {query: known for stage in job.stages for query, known in stage.graph.terms.items()}
    return sheddable_entries(job, job.contracts, {query: terms[query].weight for query in job.contracts if query in terms})


def readers_by_entry(job: Job) -> dict[str, tuple[str, ...]]:
    """Of each entry of rows from outside the queries whose answers depend on it."""
    names = {query.lower(): query for query in job.outputs}
    entries = [source.route.entry for stage in job.stages for source in stage.sources]
    return {entry: tuple(names[query] for query in readers_of(job, entry)) for entry in entries}


def wishes(job: Job, contracts: Mapping[str, QoSSpecification]) -> dict[tuple[str, str], DropPreference]:
    """What queries want to lose of the rows of entries, by both; where nothing may be lost there is none.

    A query that chooses rows by a column loses none of the streams that do not have it. Columns have the names that packing tasks
    know: those of the entry, or others that do not cross.
    """
    sources = {source.route.entry: source for stage in job.stages for source in stage.sources}
    found: dict[tuple[str, str], DropPreference] = {}
    if not any(contract.max_relative_error for contract in contracts.values()):
        return found
    for entry, queries in readers_by_entry(job).items():
        for query in queries:
            wish = _wish(contracts[query], sources[entry]) if query in contracts else None
            if wish is not None:
                found[entry, query] = wish
    return found


def _wish(contract: QoSSpecification, source: SourceEntry) -> DropPreference | None:
    column, schema = contract.drop.column, source.route.stream.schema
    if not contract.max_relative_error:
        return None
    if column is None:
        return contract.drop
    if column not in schema or not is_numeric(schema[column].type):
        return None
    name = schema[column].name
    return replace(contract.drop, column=dict(source.prefix.kept).get(name, f"{READ}{name}"))


def _agreed(job: Job, wanted: Mapping[tuple[str, str], DropPreference]) -> Iterator[tuple[str, tuple[str, ...], DropPreference]]:
    """Entries all of whose queries want to lose something, with these and what they want together."""
    for entry, queries in readers_by_entry(job).items() if wanted else ():
        mine = [wanted[entry, query] for query in queries if (entry, query) in wanted]
        if queries and len(mine) == len(queries):
            yield entry, queries, _common(mine)


def _common(preferences: list[DropPreference]) -> DropPreference:
    """What all queries of an entry want; rows at random if they want different ones. Where loss is allowed is judged by query."""
    wanted = {replace(preference, anywhere=False) for preference in preferences}
    common = wanted.pop() if len(wanted) == 1 else DropPreference()
    return replace(common, anywhere=any(preference.anywhere for preference in preferences))


def with_ranked_columns(job: Job) -> Job:
    """The job, with columns for its packing tasks by which contracts choose rows, and which its operators need not have.

    The plan is the same: another contract is no other query.
    """
    ranked = {
        entry: (preference.column.removeprefix(READ),)
        for entry, _, preference in _agreed(job, wishes(job, job.contracts))
        if preference.column is not None and preference.column.startswith(READ)
    }
    stages = tuple(replace(stage, sources=tuple(_ranking(source, ranked) for source in stage.sources)) for stage in job.stages)
    return replace(job, stages=stages)


def _ranking(source: SourceEntry, ranked: Mapping[str, tuple[str, ...]]) -> SourceEntry:
    return replace(source, prefix=replace(source.prefix, ranked=ranked.get(source.route.entry, ())))


def check_loss(job: Job, contracts: Mapping[str, QoSSpecification]) -> None:
    """Refuse loss that would make answers wrong.

    Raises
    ------
    InvalidDeclaration
        With the query, and what would allow it.
    """
    allowing = {query for query, contract in contracts.items() if contract.max_relative_error}
    exact = {query.lower() for query in job.outputs if query not in allowing}
    for query, contract in ((query, contract) for query, contract in contracts.items() if query in allowing):
        if not contract.drop.anywhere and (reason := next(changed_meanings(job, query.lower(), exact), None)) is not None:
            raise InvalidDeclaration(
                f"LOSS cannot be used: the query has {reason}: with rows left out some of its answers would be wrong, not only "
                "missing. If that is what you want, allow it with ANYWHERE, as in LOSS <= 5 PERCENT ANYWHERE",
                f"query '{query}'",
            )
