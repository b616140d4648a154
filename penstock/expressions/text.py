"""Operations on text columns, with Spark's results."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.distinct_values import by_distinct_value
from penstock.expressions.like import like_test
from penstock.expressions.nodes import Literal
from penstock.expressions.numeric import Datum
from penstock.expressions.regex_readings import search_plan
from penstock.expressions.typing import Typed

Function = Callable[..., Datum]
_LARGEST_INT = 2**31 - 1


def constants(node: Typed, first: int) -> list[int | str]:
    """Values of the constant operands from position `first` on; `typing` made sure that they are constants."""
    return [arg.expr.value for arg in node.args[first:] if isinstance(arg.expr, Literal)]


#: Letters that have a lower case since Unicode 15 to 17: Spark knows them, Python not yet. First, last, and the first lower case.
_NEW_CASES = (
    *((0x1C89, 0x1C89, 0x1C8A), (0xA7CB, 0xA7CB, 0x264), (0xA7CC, 0xA7CC, 0xA7CD), (0xA7CE, 0xA7CE, 0xA7CF)),
    *((0xA7D2, 0xA7D2, 0xA7D3), (0xA7D4, 0xA7D4, 0xA7D5), (0xA7DA, 0xA7DA, 0xA7DB), (0xA7DC, 0xA7DC, 0x19B)),
    *((0x10D50, 0x10D65, 0x10D70), (0x16EA0, 0x16EB8, 0x16EBB)),
)
_NEW_LOWER = {first + at: lower + at for first, last, lower in _NEW_CASES for at in range(last - first + 1)}
_NEW_UPPER = {lower: upper for upper, lower in _NEW_LOWER.items()}


def lower(text: str) -> str:
    """A text in lower case, as Spark gives it."""
    return text.translate(_NEW_LOWER).lower()


def upper(text: str) -> str:
    """A text in upper case, as Spark gives it."""
    return text.upper().translate(_NEW_UPPER)


def changed_case(change: Callable[[str], str]) -> Function:
    """`lower` or `upper`. Outside ASCII a letter may become two, which only Python's tables say as Spark's do."""
    fast = getattr(pc, f"ascii_{change.__name__}")
    slow = by_distinct_value(change, pa.string())

    def apply(value: Datum) -> Datum:
        is_ascii = pc.string_is_ascii(value)
        plain = is_ascii.as_py() is not False if isinstance(value, pa.Scalar) else pc.all(is_ascii).as_py() is not False
        return fast(value) if plain else slow(value)

    return apply


def substring(node: Typed) -> Function:
    """Spark's substring: counts from 1, from the end when negative, and 0 means 1."""
    # Without a length Spark takes the largest int, which matters where the start is the smallest.
    start, length = (*(int(value) for value in constants(node, 1)), _LARGEST_INT)[:2]
    if length <= 0:
        return lambda value, *_: pc.if_else(pc.is_valid(value), pa.scalar(""), pa.scalar(None, pa.string()))
    first = start - 1 if start > 0 else start
    stop: int | None = first + length
    if start < 0 and first + length >= 0:
        stop = None  # the piece reaches the end of the text
    return lambda value, *_: pc.utf8_slice_codeunits(value, first, stop)


def concatenated(*operands: Datum) -> Datum:
    return pc.binary_join_element_wise(*operands, "", null_handling="emit_null")


def trimmed(kernel: Function) -> Function:
    """Spark trims spaces and nothing else."""
    return lambda value: kernel(value, characters=" ")


def tested(kernel: Function) -> Callable[[Typed], Function]:
    """A test against a constant: `startswith`, `endswith`, `contains`."""

    def prepare(node: Typed) -> Function:
        (pattern,) = constants(node, 1)
        return lambda value, _: kernel(value, pattern=pattern)

    return prepare


def like(node: Typed) -> Function:
    test = like_test(str(constants(node, 1)[0]))
    return lambda value, _: test(value)


def rlike(node: Typed) -> Function:
    plan = search_plan(str(constants(node, 1)[0]))
    return lambda value, _: plan(value)
