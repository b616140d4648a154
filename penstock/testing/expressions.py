"""Random typed expressions and rows, and a slow evaluator that is obviously right.

`random_expression` and `random_rows` draw from a random generator. Tests that fix a seed use them directly; property
tests take them through `cases`, where Hypothesis plays the generator of the expression and shrinks what it finds.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.expressions.nodes import COMPARISONS, Call, Column, Expr, Literal
from penstock.expressions.typing import (
    BOOL,
    DATE,
    DOUBLE,
    FLOATS,
    INT,
    INTEGERS,
    LONG,
    NUMBERS,
    STRING,
    is_castable,
)
from penstock.model.schema import TIMESTAMP, Schema

FLOAT = pa.float32()
#: A column of every type.
COLUMNS = Schema.of(
    tiny=pa.int8(),
    small=pa.int16(),
    i=INT,
    n=LONG,
    f=FLOAT,
    d=DOUBLE,
    s=STRING,
    b=BOOL,
    t=TIMESTAMP,
    day=DATE,
)
_NAMES = {field.type: field.name for field in COLUMNS}
KINDS = tuple(_NAMES)

_NUMBERS = (0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.1, 2.675, 1e-320, 2.0**53, -(2.0**31), 2.0**31, 2.0**63, 9.2e18)
_EXTREMES = (1e308, -1e308, 3.4e38, 4503599627370.4971, math.inf, -math.inf, math.nan)
_WORDS = ("", "a", "A", "ab", "abc", "b%c", "a_c", "\\", " ab ", "é", "straße", "x\ny", "日本語", "zebra", "ΑΣ", "İ", "\ua7dc")
#: What texts are put together from: line terminators, letters of odd case, characters beyond 16 bits, marks that combine, and signs
#: that patterns give a meaning to.
_CHARACTERS = (
    *("a", "b", "A", "k", "1", "_", "-", " ", "\t", "\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", "\xa0", "\0", "\x7f"),
    *("é", "É", "ß", "\u017f", "\u212a", "İ", "ı", "Σ", "e\u0301", "\U0001d4b3", "\U0001f600", "\uffff"),
    *("\\", "%", ".", "*", "(", "[", "$", "^", "|", "'"),
)
_READABLE = (
    "12",
    "-3",
    "+7",
    " 7\t",
    "1.5",
    "1e3",
    ".5",
    "nan",
    "-Infinity",
    "0x1F",
    "99999999999999999999",
    "yes",
    "F",
    "\x7f1",
    "1e400",
    "-0.0",
    "9223372036854775808",
    "\u0663",
)
_LIKE_PIECES = ("%", "%", "_", "\\%", "\\_", "\\\\", "a", "b", "é", "\n", "\U0001d4b3", ".", "(", "ß")
_REGEX_ATOMS = (
    *("a", "b", "A", "é", "k", "ß", "\n", "\r", "\U0001d4b3", "\\.", "\\\\", "\\$", ".", ".", "1", " "),
    *("\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\v", "\\V", "\\p{Punct}", "\\P{Alpha}", "\\x41", "\\u00e9"),
    *("[a-c]", "[^a]", "[^\\n]", "[a-z&&[^b]]", "[^a[bA]]", "[\\w-.]", "[]a]", "[^\\x{1d4b3}]", "[a-\\uffff]", "\\Q.*\\E"),
)
_REGEX_PLACES = ("^", "$", "$", "\\A", "\\z", "\\Z", "\\b", "\\B")
_REGEX_GROUPS = ("", "?:", "?i:", "?s:", "?m:", "?-i:", "?=", "?!")
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_DAYS = (-25567, -1, 0, 1, 59, 11016, 18262, 47482)


def random_value(rng: random.Random, kind: pa.DataType) -> Any:
    """A value of `kind` that is likely to be a special one; never NULL."""
    if kind in INTEGERS:
        limit = 2 ** (kind.bit_width - 1)
        special = (0, 1, -1, 2, -7, 10, limit - 1, -limit, limit // 2)
        return rng.choice(special) if rng.random() < 0.6 else rng.randint(-100, 100)
    if kind in FLOATS:
        return _as_float(rng.choice((*_NUMBERS, *_EXTREMES)) if rng.random() < 0.7 else rng.randint(-999, 999) / 8, kind)
    if kind == STRING:
        return rng.choice((*_WORDS, *_READABLE)) if rng.random() < 0.6 else random_text(rng)
    if kind == BOOL:
        return rng.random() < 0.5
    day = rng.choice(_DAYS) + rng.randint(0, 3)
    if kind == DATE:
        return dt.date(1970, 1, 1) + dt.timedelta(days=day)
    return day * 86_400_000_000 + rng.choice((0, 1, 3_599_999_999, 3_600_000_000, 86_399_999_999, 45_296_123_456))


def random_text(rng: random.Random) -> str:
    """A short text of characters that are likely to be read in two ways."""
    return "".join(rng.choice(_CHARACTERS) for _ in range(rng.randint(0, 4)))


def random_like(rng: random.Random) -> str:
    """A pattern of LIKE."""
    return "".join(rng.choice(_LIKE_PIECES) for _ in range(rng.randint(0, 4)))


def random_regex(rng: random.Random, depth: int = 3) -> str:
    """A regular expression of the part of Java's that is supported."""

    def draw(at: int) -> str:
        chance = rng.random()
        if at == 0 or chance < 0.4:
            return rng.choice(_REGEX_PLACES if rng.random() < 0.3 else _REGEX_ATOMS)
        if chance < 0.65:
            return "".join(draw(at - 1) for _ in range(rng.randint(1, 3)))
        if chance < 0.75:
            return f"({rng.choice(_REGEX_GROUPS)}{draw(at - 1)})"
        if chance < 0.88:
            return f"(?:{draw(at - 1)}){rng.choice(('*', '+', '?', '{2}', '{1,2}', '*?'))}"
        return f"(?:{draw(at - 1)}|{draw(at - 1)})"

    return rng.choice(("", "", "", "(?i)", "(?m)", "(?s)")) + draw(depth)


def random_rows(rng: random.Random, count: int, schema: Schema = COLUMNS, nulls: float = 0.15) -> pa.RecordBatch:
    """`count` rows, each value NULL with probability `nulls`."""
    arrays = []
    for field in schema:
        values = [None if rng.random() < nulls else random_value(rng, field.type) for _ in range(count)]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def random_literal(rng: random.Random, kind: pa.DataType) -> Literal:
    return Literal(None if rng.random() < 0.08 else random_value(rng, kind), kind)


def random_expression(rng: random.Random, kind: pa.DataType, depth: int = 3) -> Expr:
    """A well-typed expression of `kind` over `COLUMNS`, at most `depth` calls deep."""
    if depth == 0 or rng.random() < 0.15:
        return Column(_NAMES[kind]) if rng.random() < 0.7 else random_literal(rng, kind)

    def draw(other: pa.DataType = kind) -> Expr:
        return random_expression(rng, other, depth - 1)

    return rng.choice([*_producers(rng, kind, draw), *_general(rng, kind, draw)])()


_Draw = Callable[..., Expr]
_Producers = list[Callable[[], Expr]]


def _general(rng: random.Random, kind: pa.DataType, draw: _Draw) -> _Producers:
    sources = [source for source in KINDS if source != kind and is_castable(source, kind)]
    producers: _Producers = [
        lambda: Call("case", (draw(BOOL), draw(), draw(BOOL), draw(), *([draw()] if rng.random() < 0.5 else []))),
        lambda: Call("coalesce", (draw(), draw())),
        lambda: Call(rng.choice(("least", "greatest")), (draw(), draw(), draw())),
    ]
    if sources:
        producers.append(lambda: Call("cast", (draw(rng.choice(sources)),), kind))
    return producers


def _producers(rng: random.Random, kind: pa.DataType, draw: _Draw) -> _Producers:
    if kind in NUMBERS:
        arithmetic: _Producers = [lambda: Call(rng.choice("+-*%"), (draw(), draw()))] * 2
        arithmetic.append(lambda: Call(rng.choice(("neg", "abs")), (draw(),)))
        return arithmetic + _special_numbers(rng, kind, draw)
    if kind == STRING:
        return _texts(rng, draw)
    if kind == BOOL:
        return _conditions(rng, draw) * 2
    if kind == TIMESTAMP:
        span = Literal(rng.choice((0, 1, 300_000_000, -86_400_000_000)), LONG)
        unit = Literal(rng.choice(_UNITS), STRING)
        return [lambda: Call(rng.choice("+-"), (draw(), span)), lambda: Call("date_trunc", (unit, draw()))]
    return []


def _special_numbers(rng: random.Random, kind: pa.DataType, draw: _Draw) -> _Producers:
    if kind == INT:
        parts = ("year", "month", "day", "hour", "minute", "second")
        return [lambda: Call("length", (draw(STRING),)), lambda: Call(rng.choice(parts), (draw(TIMESTAMP),))]
    if kind == LONG:
        return [
            lambda: Call("div", (draw(rng.choice(INTEGERS)), draw(rng.choice(INTEGERS)))),
            lambda: Call(rng.choice(("ceil", "floor")), (draw(rng.choice(NUMBERS)),)),
            lambda: Call("-", (draw(TIMESTAMP), draw(TIMESTAMP))),
        ]
    if kind == DOUBLE:
        return [
            lambda: Call("/", (draw(rng.choice(NUMBERS)), draw(rng.choice(NUMBERS)))),
            lambda: Call(rng.choice("+-*%"), (draw(rng.choice(INTEGERS)), draw(rng.choice(FLOATS)))),
            lambda: Call("round", (draw(), Literal(rng.choice((0, 1, 2, 5)), INT))),
            lambda: Call("sqrt", (draw(rng.choice(NUMBERS)),)),
        ]
    return []


def _texts(rng: random.Random, draw: _Draw) -> _Producers:
    def position() -> Literal:
        return Literal(rng.randint(-4, 4), INT)

    return [
        lambda: Call(rng.choice(("lower", "upper", "trim", "ltrim", "rtrim")), (draw(),)),
        lambda: Call("substring", (draw(), position(), *([position()] if rng.random() < 0.7 else []))),
        lambda: Call("concat", (draw(), draw())),
    ]


def _conditions(rng: random.Random, draw: _Draw) -> _Producers:
    def comparable() -> list[Expr]:
        if rng.random() < 0.5:
            return [draw(rng.choice(NUMBERS)) for _ in range(3)]
        kind = rng.choice(KINDS)
        return [draw(kind) for _ in range(3)]

    def listed() -> Expr:
        kind = rng.choice(KINDS)
        items = tuple(random_literal(rng, kind) for _ in range(rng.choice((1, 3, 12))))
        return Call("in", (draw(kind), *items)) if rng.random() < 0.7 else Call("in", tuple(comparable()))

    def matched() -> Expr:
        op = rng.choice(("like", "rlike", "startswith", "endswith", "contains"))
        pattern = {"like": random_like, "rlike": random_regex}.get(op, random_text)(rng)
        return Call(op, (draw(STRING), Literal(pattern, STRING)))

    return [
        lambda: Call(rng.choice(COMPARISONS), tuple(comparable()[:2])),
        lambda: Call("between", tuple(comparable())),
        lambda: Call(rng.choice(("and", "or")), tuple(draw(BOOL) for _ in range(rng.choice((2, 3))))),
        lambda: Call("not", (draw(BOOL),)),
        lambda: Call("is_null", (draw(rng.choice(KINDS)),)),
        lambda: Call("isnan", (draw(rng.choice(NUMBERS)),)),
        listed,
        matched,
    ]


def _as_float(value: float, kind: pa.DataType) -> float:
    if kind == DOUBLE:
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def cases(kind: pa.DataType | None = None, rows: int = 12) -> st.SearchStrategy[tuple[Expr, pa.RecordBatch]]:
    """Pairs of an expression, of `kind` or of any type, and rows to read it over."""

    def expression(rng: random.Random) -> Expr:
        return random_expression(rng, rng.choice(KINDS) if kind is None else kind)

    return st.tuples(st.randoms(use_true_random=False).map(expression), batches(rows))


def batches(rows: int = 12) -> st.SearchStrategy[pa.RecordBatch]:
    """Batches of at most `rows` rows. They come from a seed: thousands of single draws would make Hypothesis crawl."""

    def build(seed: int) -> pa.RecordBatch:
        rng = random.Random(seed)
        return random_rows(rng, rng.choice((0, 1, rows, rows)))

    return st.integers(0, 2**16).map(build)
