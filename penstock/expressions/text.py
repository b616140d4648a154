"""Operations on text columns, with Spark's results."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SyntaxMistake
from penstock.expressions.nodes import Call, Literal
from penstock.expressions.numeric import Datum
from penstock.expressions.typing import Typed, place_of

Function = Callable[..., Datum]


def constants(node: Typed, first: int) -> list[int | str]:
    """Values of the constant operands from position `first` on; `typing` made sure that they are constants."""
    return [arg.expr.value for arg in node.args[first:] if isinstance(arg.expr, Literal)]


def by_distinct_value(change: Callable[[str], object], kind: pa.DataType) -> Callable[[Datum], Datum]:
    """Apply a Python function to each distinct value of a column: for what Arrow cannot do, where values repeat."""

    def apply(value: Datum) -> Datum:
        if isinstance(value, pa.Scalar):
            return pa.scalar(change(value.as_py()) if value.is_valid else None, kind)
        encoded = pc.dictionary_encode(value)
        changed = pa.array([change(each) for each in encoded.dictionary.to_pylist()], kind)
        return changed.take(encoded.indices)

    return apply


def changed_case(name: str) -> Function:
    """`lower` or `upper`. Outside ASCII a letter may become two, which only Python's tables say as Java's do."""
    fast = getattr(pc, f"ascii_{name}")
    slow = by_distinct_value(getattr(str, name), pa.string())

    def apply(value: Datum) -> Datum:
        is_ascii = pc.string_is_ascii(value)
        plain = is_ascii.as_py() is not False if isinstance(value, pa.Scalar) else pc.all(is_ascii).as_py() is not False
        return fast(value) if plain else slow(value)

    return apply


def substring(node: Typed) -> Function:
    """Spark's substring: counts from 1, from the end when negative, and 0 means 1."""
    start, *length = (int(value) for value in constants(node, 1))
    if length and length[0] <= 0:
        return lambda value, *_: pc.if_else(pc.is_valid(value), pa.scalar(""), pa.scalar(None, pa.string()))
    first = start - 1 if start > 0 else start
    stop = first + length[0] if length else None
    if start < 0 and stop is not None and stop >= 0:
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
    (pattern,) = constants(node, 1)
    pattern = str(pattern)
    # Spark accepts the escape before % _ and itself only, and says so when the query is compiled.
    bare = pattern.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    if "\\" in bare:
        message = f"in LIKE '{pattern}' a backslash must stand before %, _ or a backslash"
        raise SyntaxMistake(message, place_of(node.expr))
    return lambda value, _: pc.match_like(value, pattern)


def rlike(node: Typed) -> Function:
    (pattern,) = constants(node, 1)
    try:
        pc.match_substring_regex(pa.array([""]), str(pattern))
    except pa.ArrowInvalid as error:
        assert isinstance(node.expr, Call)
        raise SyntaxMistake(f"RLIKE cannot use the pattern '{pattern}': {error}", place_of(node.expr)) from None
    return lambda value, _: pc.match_substring_regex(value, pattern)
