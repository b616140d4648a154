"""Which operator makes the punctuations of a declared generator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.kernel.contracts import Operator
from penstock.lowering.prefix import Prefix
from penstock.model.declarations import Generator, GeneratorKind
from penstock.operators.generators.buffered import Buffered
from penstock.operators.generators.closing_times import ClosingTimes
from penstock.operators.generators.sampled import Sampled
from penstock.plan.analysis.generation import PIECES


def recipe_of_generator(generator: Generator, prefix: Prefix, column: str) -> Callable[[], Operator] | None:
    """How to make the operator, or None for rules on rows, which are obeyed before rows cross."""
    schema, stream = prefix.schema.arrow, prefix.stream
    if generator.reference is not None:
        told = generator.reference
        return partial(ClosingTimes, schema, column, told.key, told.time, stream.name, stream.on_violation)
    if generator.kind is GeneratorKind.SAMPLING:
        return partial(Sampled, schema, column, generator.rows)
    if generator.kind is GeneratorKind.WHEN:
        return None
    is_partitioned = bool(stream.partition_column and stream.position_column)
    return partial(Buffered, schema, column, generator.rows, PIECES, generator.kind is GeneratorKind.SORTING, is_partitioned)
