"""Operations on timestamps and dates. Clock time is UTC, whatever a session says."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.numeric import Datum, checked
from penstock.expressions.text import constants
from penstock.expressions.typing import TRUNCATIONS, Typed
from penstock.model.schema import TIMESTAMP

Function = Callable[..., Datum]


def micros(value: Datum) -> Datum:
    """Timestamps as microseconds since the epoch, bigints as they are."""
    return value if value.type == pa.int64() else pc.cast(value, pa.int64())


def shifted(name: str, result: pa.DataType) -> Function:
    """Addition or subtraction in which timestamps take part."""
    compute = checked(name)
    return lambda one, other: pc.cast(compute(micros(one), micros(other)), result)


def part(kernel: Function) -> Function:
    """A component of a timestamp or date, as an int."""
    return lambda value: pc.cast(kernel(value), pa.int32())


def truncated(node: Typed) -> Function:
    unit = str(constants(node, 0)[0]).lower()
    assert unit in TRUNCATIONS
    return lambda _, value: pc.cast(pc.floor_temporal(value, unit=unit, week_starts_monday=True), TIMESTAMP)
