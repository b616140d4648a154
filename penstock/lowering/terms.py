"""What queries ask of whoever schedules them: their weight, and until when their answers are of use."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.kernel.timing import TIMING_FIELDS
from penstock.kernel.work import Terms
from penstock.model.qos import QoSSpecification
from penstock.model.schema import Field, Schema
from penstock.model.service import Since
from penstock.plan.analysis.validities import validities
from penstock.plan.catalog import Catalog, ContinuousQuery


def terms_of(catalog: Catalog, query: str) -> Terms:
    """An answer is of use as long as its query says, and no longer than the rows of any stream it reads.

    The time of an answer is that of the newest row it is made of, or of its window's end.
    """
    asking = catalog.queries[query.lower()]
    found = list(validities(catalog, asking))
    shortest = {since: min((each.us for each in found if each.since is since), default=None) for since in Since}
    return Terms(asking.weight, shortest[Since.EVENT], shortest[Since.ARRIVAL], asking.late_answers)


def promised(catalog: Catalog, queries: Iterable[str]) -> dict[str, QoSSpecification]:
    """The contracts of some queries, by name; those without any are left out."""
    found = {name: known.contract for name in queries if (known := catalog.queries.get(name.lower())) is not None}
    return {name: contract for name, contract in found.items() if contract is not None}


def answer_schema(query: ContinuousQuery) -> Schema:
    """What leaves the application; queries that read this one do not see when its answers were made."""
    schema = query.plan.schema
    if not query.shows_timing:
        return schema
    return Schema((*schema.fields, *(Field(item.name, item.type) for item in TIMING_FIELDS)), schema.owner)
