"""Penstock's operators on ordinary streaming DataFrames: adopt one line at a time in an existing PySpark job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from penstock.errors import InvalidDeclaration, TypeMistake, UnknownColumn
from penstock.expressions.nodes import TYPE_NAMES
from penstock.model.durations import micros_of
from penstock.model.join_kinds import JoinKind
from penstock.model.schema import Schema
from penstock.model.sizes import size_in_bytes
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.runners.spark.dataframes.arguments import Piece, Written, joined_pieces, quoted
from penstock.runners.spark.dataframes.composing import Call, Leaf, composed, schema_of
from penstock.runners.spark.dataframes.inputs import ROW_TIME, Names, Stream, as_tuple, input_of

#: The inputs of a join; their aliases are the first letters.
_SIDES = ("left", "right")


def join(
    left: Stream,
    right: Stream,
    on: Names,
    within: str | tuple[str, str] = "",
    punctuations: bool = False,
    condition: str = "",
    suffix: str = "_right",
    quarantine: str | Path = "",
    how: str = "inner",
    memory: str | int = "",
) -> DataFrame:
    """Equi-join of two streams whose state forgets what windows and punctuations rule out.

    Parameters
    ----------
    on
        Key columns, equally named on both sides.
    within
        Rows join if they are at most this far apart ("24 hours"); a pair gives one bound per side. Empty: no window, state
        is then bounded only by punctuations.
    punctuations
        Use embedded punctuations: each side's string column `mark` (or the column `stream` names).
    condition
        Further condition in SQL; columns are `l.name` and `r.name`. Rows for which it does not hold are no partners.
    suffix
        Added to columns of the right side whose name the left side has too.
    quarantine
        Directory for late and bad rows. Without one they fail the query: nothing is lost silently.
    how
        "inner", "left", "right", "full", "left_semi", "left_anti", or another of Spark's names for them. A row without
        partner comes once it is proven that none can come: its window has passed, or punctuations close its key.
    memory
        Limit for the rows that this join keeps in memory, over all shards: "200 MB", or a number of bytes. Each shard moves what
        exceeds its share to temporary files. Answers are the same; another start from the checkpoint may have another limit.
        Empty: no limit.

    Returns
    -------
    DataFrame
        Key columns once, then the other columns of both sides (of the left one for semi and anti joins); write it with
        `writeStream` in append mode.

    Notes
    -----
    The session needs the RocksDB state store; `spark.sql.shuffle.partitions` is the number of shards and fixed by the
    first start from a checkpoint.

    Examples
    --------
    ``ps.join(auctions, bids, on="item_id", within="24 hours", punctuations=True)``

    ``ps.join(auctions, bids, on="item_id", punctuations=True, how="left_anti")`` gives auctions without bid.
    """
    kind, keys = _kind(how), as_tuple(on)
    sides = {name: input_of("ps.join", name, given, punctuations) for name, given in zip(_SIDES, (left, right), strict=True)}
    schemas = [schema_of(side) for side in sides.values()]
    _check_keys(keys, schemas)
    bounds = (within, within) if isinstance(within, str) else tuple(within)
    if len(bounds) != 2:
        raise InvalidDeclaration(f"found {len(bounds)} bounds; give one, or a pair: one for each side", "ps.join, within")
    items = _join_items(kind, schemas, keys, suffix, [_mark(side) for side in sides.values()])
    windows = [_window(bound, "ps.join, within") for bound in bounds]
    build = partial(_build_join, kind, keys, windows, items, condition)
    limit = None if memory == "" else size_in_bytes(memory, "ps.join, memory")
    return composed(Call(sides, build, str(quarantine), limit))


def _build_join(
    kind: JoinKind, keys: tuple[str, ...], windows: list[str], items: str, condition: str,
    name: str, catalog: Catalog, names: Mapping[str, str],
) -> ContinuousQuery:  # fmt: skip
    left, right = (f"{quoted(names[side])} {side[0]} {window}" for side, window in zip(_SIDES, windows, strict=True))
    equal = " AND ".join(f"l.{quoted(key)} = r.{quoted(key)}" for key in keys)
    further = (Piece(" AND ("), Piece(condition, "condition"), Piece(")")) if condition else ()
    return Written("ps.join", (Piece(f"SELECT {items} FROM {left} {kind.words} JOIN {right} ON {equal}"), *further)).parsed(
        name, catalog
    )


def aggregate(
    frame: Stream,
    by: Names,
    window: str,
    aggregates: Mapping[str, str],
    advance: str = "",
    having: str = "",
    quarantine: str | Path = "",
) -> DataFrame:
    """Aggregates per group and time window.

    Parameters
    ----------
    by
        Group columns; none: one group.
    window, advance
        Length of a window and distance of window starts; without `advance` windows tumble.
    aggregates
        Output column to SQL: ``{"bids": "count(*)", "top": "max(price)"}``.
    having
        Condition over groups in SQL.

    Returns
    -------
    DataFrame
        Group columns, aggregates, `window_start`, `window_end`; a window's rows come once, when its time has passed.

    Examples
    --------
    ``ps.aggregate(bids, by="item_id", window="1 minute", aggregates={"bids": "count(*)"})``
    """
    source = {"frame": input_of("ps.aggregate", "frame", frame)}
    keys, schema = as_tuple(by), schema_of(source["frame"])
    for key in keys:
        if key not in schema:
            raise UnknownColumn("the DataFrame", key, schema.names, "ps.aggregate, by")
    if not aggregates:
        raise InvalidDeclaration(
            "there is nothing to compute; give a column and its SQL: {'n': 'count(*)'}", "ps.aggregate, aggregates"
        )
    build = partial(_build_aggregate, keys, _window(window, "ps.aggregate, window", advance), dict(aggregates), having)
    return composed(Call(source, build, str(quarantine)))


def _build_aggregate(
    keys: tuple[str, ...], window: str, aggregates: Mapping[str, str], having: str,
    name: str, catalog: Catalog, names: Mapping[str, str],
) -> ContinuousQuery:  # fmt: skip
    items = [[Piece(quoted(key), "by")] for key in keys]
    items += [[Piece(text, f"aggregates['{shown}']"), Piece(f" AS {quoted(shown)}")] for shown, text in aggregates.items()]
    items += [[Piece("window_start()")], [Piece("window_end()")]]
    grouped = f" GROUP BY {', '.join(map(quoted, keys))}" if keys else ""
    pieces = [Piece("SELECT "), *joined_pieces(", ", items), Piece(f" FROM {quoted(names['frame'])} {window}{grouped}")]
    pieces += [Piece(" HAVING "), Piece(having, "having")] if having else []
    return Written("ps.aggregate", tuple(pieces)).parsed(name, catalog)


# -- arguments -----------------------------------------------------------------------------------------------------------


def _kind(how: str) -> JoinKind:
    kind = JoinKind.called(how)
    if kind is None:
        raise InvalidDeclaration(f"there is no join '{how}'; how is one of {', '.join(JoinKind)}", "ps.join, how")
    return kind


def _check_keys(keys: tuple[str, ...], schemas: list[Schema]) -> None:
    if not keys:
        raise InvalidDeclaration("there is no key; name the columns in which rows must be equal", "ps.join, on")
    for key in keys:
        for side, schema in zip(_SIDES, schemas, strict=True):
            if key not in schema:
                raise UnknownColumn(f"the {side} side", key, schema.names, "ps.join, on")
        left, right = (TYPE_NAMES.get(schema[key].type, str(schema[key].type)) for schema in schemas)
        if left != right:
            raise TypeMistake(f"'{key}' is {left} on the left side and {right} on the right; cast one of them", "ps.join, on")


def _mark(side: Leaf | Call) -> str:
    return side.mark if isinstance(side, Leaf) else ""


def _key_text(kind: JoinKind, name: str) -> str:
    """The key, from a side that has it."""
    if kind is JoinKind.FULL:
        return f"coalesce(l.{quoted(name)}, r.{quoted(name)})"
    return f"{'r' if kind is JoinKind.RIGHT else 'l'}.{quoted(name)}"


def _join_items(kind: JoinKind, schemas: list[Schema], keys: tuple[str, ...], suffix: str, marks: list[str]) -> str:
    """The select list: keys once, then the other columns of both sides."""
    items = [f"{_key_text(kind, schemas[0][key].name)} AS {quoted(schemas[0][key].name)}" for key in keys]
    taken = {key.lower() for key in keys}
    both = list(zip("lr", schemas, marks, strict=True))
    for alias, schema, mark in both if kind.shows_pairs else both[:1]:
        for item in schema:
            if item.name.lower() in {key.lower() for key in keys} or item.name in (mark, ROW_TIME):
                continue
            shown = item.name + suffix if item.name.lower() in taken else item.name
            if shown.lower() in taken:
                text = f"both sides have '{item.name}', and '{shown}' is taken too; choose another suffix or rename one"
                raise InvalidDeclaration(text, "ps.join, suffix")
            taken.add(shown.lower())
            items.append(f"{alias}.{quoted(item.name)} AS {quoted(shown)}")
    return ", ".join(items)


def _window(size: str, place: str, advance: str = "") -> str:
    if not size:
        return ""
    bounds = [f"RANGE {micros_of(size, place)} MICROSECONDS"]
    bounds += [f"ADVANCE {micros_of(advance, place.rpartition(',')[0] + ', advance')} MICROSECONDS"] if advance else []
    return f"[{', '.join(bounds)}]"
