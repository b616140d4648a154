"""Where rows of an application may be left out, and how many: what the contracts of all queries behind an entry allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidDeclaration
from penstock.lowering.jobs import Job
from penstock.lowering.shedding import changed_meanings, readers_of
from penstock.model.drop_preferences import DropPreference
from penstock.model.qos import QoSSpecification
from penstock.qos.shedding.placement import error_per_path
from penstock.qos.shedding.table import check_preference

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
        When a query allows loss that would make its answers wrong, or by a column that its entries do not have.
    """
    entries = [source.route.entry for stage in job.stages for source in stage.sources]
    names = {query.lower(): query for query in job.outputs}
    readers = {entry: tuple(names.get(query, query) for query in readers_of(job, entry)) for entry in entries}
    paths = {query: sum(query in mine for mine in readers.values()) for query in job.outputs}
    found = []
    for entry, queries in readers.items():
        shares = [error_per_path(_loss(contracts.get(query)), paths.get(query, 1)) for query in queries]
        if queries and min(shares) > 0:
            weight = max(weights.get(query, 1.0) for query in queries)
            preference = _common([contracts[query].drop for query in queries])
            found.append(SheddableEntry(entry, min(shares), weight, preference, queries))
    check_loss(job, contracts)
    return sorted(found, key=lambda item: item.importance)


def _loss(contract: QoSSpecification | None) -> float:
    return 0.0 if contract is None else contract.max_relative_error


def _common(preferences: list[DropPreference]) -> DropPreference:
    """What all queries of an entry want; rows at random if they want different ones."""
    first = preferences[0]
    if all(preference == first for preference in preferences):
        return first
    return DropPreference(anywhere=all(preference.anywhere for preference in preferences))


def check_loss(job: Job, contracts: Mapping[str, QoSSpecification]) -> None:
    """Refuse loss that would make answers wrong, or that goes by a column which no input of the query has.

    Raises
    ------
    InvalidDeclaration
        With the query, and what would allow it.
    """
    for query, contract in contracts.items():
        if not contract.max_relative_error:
            continue
        place = f"query '{query}'"
        if not contract.drop.anywhere and (reason := next(changed_meanings(job, query.lower()), None)) is not None:
            raise InvalidDeclaration(
                f"LOSS cannot be used: the query has {reason}: with rows left out some of its answers would be wrong, not only "
                "missing. If that is what you want, allow it with ANYWHERE, as in LOSS <= 5 PERCENT ANYWHERE",
                place,
            )
        _check_column(job, query, contract.drop, place)


def _check_column(job: Job, query: str, preference: DropPreference, place: str) -> None:
    inputs = [
        source.route for stage in job.stages for source in stage.sources if query.lower() in readers_of(job, source.route.entry)
    ]
    refusal = None
    for route in inputs:
        try:
            return check_preference(preference, route.columns, query)
        except InvalidDeclaration as error:
            refusal = error
    if refusal is not None:
        raise InvalidDeclaration(f"LOSS cannot be used: {refusal.message}", place) from refusal
