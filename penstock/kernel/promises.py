"""What declarations say about the rows of one packing task: values they close, and rows that break the promise.

A task sees a piece of a source partition. What holds across tasks is decided in the shards, from the edges made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Column, Expr, columns_of, substitute
from penstock.expressions.parse import parse
from penstock.kernel.packets import LAST
from penstock.metadata.derivation import ClusteredAttribute, UniqueAttribute
from penstock.metadata.generation import closed_by_rule, cluster_edge
from penstock.model.batch import Batch, Int64s
from penstock.model.declarations import ConstraintKind, Generator, GeneratorKind, StreamDeclaration
from penstock.model.masks import Mask, comparable
from penstock.model.punctuation import Punctuation
from penstock.model.scalars import encode, plain
from penstock.model.value_sets import Pattern


def derive(
    batch: Batch, stream: StreamDeclaration, renamed: Mapping[str, str], kept: Mask
) -> tuple[dict[str, Any], list[Punctuation], Mask]:
    """What declared constraints say about this task's rows, and which rows break them; a shard adds what holds across tasks.

    Rows that have no order among themselves break nothing here: they may have been written in an order that keeps the promise.
    """
    edges: dict[str, Any] = {}
    marks: list[Punctuation] = []
    broken = np.zeros(batch.num_rows, np.bool_)
    for constraint in stream.constraints:
        column = renamed.get(stream.schema[constraint.column].name)
        if column is None or not batch.num_rows:
            continue
        if constraint.kind is ConstraintKind.CLUSTERED and not stream.has_order:
            edges[f"together:{column}"] = _values_together(batch.column(column), constraint.within)
            continue
        if constraint.within:
            # A row without value is a row too: it may be one too many between two rows of a value.
            closed, late, edge = cluster_edge(batch.column(column), constraint.within)
            broken |= late
            edges[f"within:{column}"] = edge.to_json()
            marks += _closing(column, closed, batch)
            continue
        present = np.flatnonzero(batch.column(column).is_valid().to_numpy(zero_copy_only=False))
        if not len(present):
            continue  # NULL says nothing
        values = batch.column(column).take(pa.array(present))
        if constraint.kind is ConstraintKind.UNIQUE:
            broken[present] |= _follows_unwanted(values, kept[present])
        elif constraint.kind is ConstraintKind.ORDERED:
            ranks = _ranks(values)
            broken[present] |= (ranks < np.maximum.accumulate(ranks)) & stream.has_order
            greatest = values[int(np.argmax(ranks))]
            edges[f"ordered:{column}"] = [encode(plain(greatest)), int(batch.pos.max()) if stream.has_order else LAST]
        else:
            broken[present] |= _comes_again(values)
            ends = [(plain(values[at]), int(batch.pos[present[at]])) for at in (0, len(present) - 1)]
            edges[f"clustered:{column}"] = [[encode(value), position] for value, position in ends]
            marks += ClusteredAttribute(column).derive(batch.rows, batch.pos)
    for generator in stream.generators:
        if generator.kind is GeneratorKind.WHEN and batch.num_rows:
            closing, late = _obey_rule(generator, batch, renamed)
            marks += closing
            broken |= late & stream.has_order
    return edges, [mark.extend(batch.schema.names) for mark in marks], broken


def _values_together(column: pa.Array, within: int) -> list[Any]:
    """Of rows without order: the gap that is declared, how many rows count, and which values they have."""
    present = comparable(column).drop_null()
    # Where a gap is declared a row without value is a row too, otherwise NULL says nothing.
    return [within, len(column) if within else len(present), [encode(plain(value)) for value in pc.unique(present)]]


def _closing(column: str, closed: Pattern, batch: Batch) -> list[Punctuation]:
    """A punctuation behind all rows of the batch; rows within it that come too late are found by the packing task itself."""
    return [] if closed.is_empty else [Punctuation((column,), (closed,), 0, int(batch.pos.max()))]


def _obey_rule(generator: Generator, batch: Batch, renamed: Mapping[str, str]) -> tuple[list[Punctuation], Mask]:
    """What rows that meet the rule's condition close, and rows behind the close of their value."""
    condition = _condition(generator.condition)
    if not {generator.column, *columns_of(condition)} <= set(renamed):
        return [], np.zeros(batch.num_rows, np.bool_)  # the query does not read what the rule looks at
    column = renamed[generator.column]
    here = substitute(condition, {old: Column(new) for old, new in renamed.items()})
    closed, late = closed_by_rule(batch.column(column), mask(here, batch.rows))
    return _closing(column, closed, batch), late


@cache
def _condition(text: str) -> Expr:
    return parse(text, "PUNCTUATE … WHEN")


def _follows_unwanted(values: pa.Array, kept: Mask) -> Mask:
    """Wanted rows whose unique value stood in a row before them that is not wanted; shards find all other repetitions."""
    if kept.all():
        return np.zeros(len(kept), np.bool_)
    codes = _ranks(values)
    unwanted = np.flatnonzero(~kept)
    first = np.full(int(codes.max()) + 1, len(codes))
    np.minimum.at(first, codes[unwanted], unwanted)
    result: Mask = kept & (np.arange(len(codes)) > first[codes])
    return result


def unique_of(filtered: Batch, stream: StreamDeclaration, renamed: Mapping[str, str]) -> list[Punctuation]:
    """Unique values of rows the query does not want: no shard sees the rows, but the values will not come again."""
    unique = [item for item in stream.constraints if item.kind is ConstraintKind.UNIQUE]
    columns = [renamed.get(stream.schema[item.column].name) for item in unique]
    marks = [mark for column in columns if column for mark in UniqueAttribute(column).derive(filtered.rows, filtered.pos)]
    return [mark.extend(filtered.schema.names) for mark in marks]


def _ranks(values: pa.Array) -> Int64s:
    """Numbers in the order of the values; NaN is the greatest."""
    ranks: Int64s = pc.rank(comparable(values), tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return ranks


def _comes_again(values: pa.Array) -> Mask:
    """Rows of a value that had already given way to another one."""
    codes = _ranks(values)
    starts = np.concatenate(([True], codes[1:] != codes[:-1]))
    runs = np.cumsum(starts) - 1
    first_run = np.full(int(codes.max()) + 1, len(codes))
    np.minimum.at(first_run, codes, runs)
    result: Mask = runs > first_run[codes]
    return result
