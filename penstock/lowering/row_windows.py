"""Joins over row windows in all shards: one shard counts the rows of all keys before the rows are spread by key."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from penstock.lowering.placing import Placed
from penstock.model.schema import Field, Schema
from penstock.operators.joins.sequencer import Sequencer
from penstock.plan.nodes.joins import WindowJoin


def rank_names(node: WindowJoin) -> tuple[str, ...]:
    """Columns that tell of each row how many rows of every input came before it; no column of a query has such a name."""
    return tuple(f"#{port}" for port in range(len(node.parts)))


def output_names(node: WindowJoin) -> tuple[str, ...]:
    """Outputs of the sequencer, one per input."""
    return tuple(f".{port}" for port in range(len(node.parts)))


def numbered_schemas(node: WindowJoin) -> tuple[Schema, ...]:
    """The inputs' columns and the counts."""
    counts = tuple(Field(name, pa.int64(), False) for name in rank_names(node))
    return tuple(Schema((*part.schema, *counts)) for part in node.parts)


def sequencer_recipe(node: WindowJoin) -> partial[Sequencer]:
    """How to make the operator that counts for a join."""
    return partial(Sequencer, tuple(part.schema.arrow for part in node.parts), output_names(node), rank_names(node), node.life)


def numbered(node: WindowJoin, sequencer: str, level: int, is_trusting: bool) -> list[Placed]:
    """What the sequencer hands on: all of it from one shard."""
    schemas = zip(output_names(node), numbered_schemas(node), strict=True)
    return [Placed(level, (sequencer, output), schema, ((),), ((),), is_trusting) for output, schema in schemas]
