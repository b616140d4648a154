"""All shedders, by what contracts say about loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import InvalidDeclaration, suggestion
from penstock.model.drop_preferences import DropKind, DropMode, DropPreference
from penstock.qos.shedding.contracts import Shedder
from penstock.qos.shedding.exact_rate import ExactRate
from penstock.qos.shedding.semantic import SemanticShedder


def make_shedder(preference: DropPreference, capacity: float = 1.0, seed: int = 0) -> Shedder:
    """The shedder of a queue.

    Parameters
    ----------
    capacity
        Greatest share of the rows that may be dropped.

    Examples
    --------
    >>> type(make_shedder(DropPreference())).__name__
    'ExactRate'
    """
    if preference.kind is DropKind.RANDOM:
        return ExactRate(seed)
    return SemanticShedder(preference, capacity, seed)


def preference_of(detail: Mapping[str, Any]) -> DropPreference:
    """The preference that a decision states; without any, rows are dropped at random.

    Raises
    ------
    InvalidDeclaration
        When there is no such kind or mode, or a column is missing.

    Examples
    --------
    >>> preference_of({"kind": "lowest", "column": "speed"}).mode
    <DropMode.QUANTILE: 'quantile'>
    """
    kind, mode = str(detail.get("kind", DropKind.RANDOM)), str(detail.get("mode", DropMode.QUANTILE))
    if kind not in list(DropKind):
        raise InvalidDeclaration(f"no rows are '{kind}' for a shedder; of kinds {suggestion(kind, DropKind)}")
    if mode not in list(DropMode):
        raise InvalidDeclaration(f"there is no mode '{mode}' of shedding; of modes {suggestion(mode, DropMode)}")
    column, center = detail.get("column"), detail.get("center")
    if kind != DropKind.RANDOM and not column:
        raise InvalidDeclaration(f"to drop the {kind} rows a shedder must know by which 'column'")
    return DropPreference(DropKind(kind), column, None if center is None else float(center), DropMode(mode))


def check_preference(preference: DropPreference, schema: pa.Schema, query: str) -> None:
    """Refuse a preference about a column that there is not, or that is no number.

    Raises
    ------
    InvalidDeclaration
        With the columns that it could be about.
    """
    if preference.kind is DropKind.RANDOM:
        return
    legal = [item.name for item in schema if is_number(item.type)]
    if preference.column not in legal:
        what = "is no number" if preference.column in schema.names else "does not exist"
        raise InvalidDeclaration(
            f"query '{query}' drops the {preference.kind} rows by column '{preference.column}', which {what}; "
            f"of numeric columns {suggestion(preference.column or '', legal)}"
        )


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type can be ranked by a shedder."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
