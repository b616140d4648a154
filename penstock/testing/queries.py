"""Random continuous queries, each written twice: for Penstock, and as an ordinary query over the whole of its streams.

The second text is standard SQL (DuckDB reads it). Its relations carry the event time in `_ts`; base tables also have `_pos`,
the order of arrival. Windows are spelt out as joins with a list of window numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import hypothesis.strategies as st
import pyarrow as pa

from penstock.testing.reference import Row
from penstock.testing.tapes import rows

#: Columns of every base stream.
STREAM = pa.schema({"ts": pa.int64(), "k": pa.int64(), "i": pa.int64(), "s": pa.string(), "v": pa.float64(), "id": pa.int64()})
STREAMS = ("l", "r", "q")
#: No row of a random stream is older than the newest before it by more than this.
DISORDER = 4
#: More windows than a random stream reaches.
_WINDOWS = 60

_CONDITIONS = (
    "{k} > 1", "{i} < 2", "{k} = {i}", "{k} IS NULL", "{k} IS NOT NULL AND {i} <> 1", "{k} + {i} >= 3", "NOT ({k} < 3 OR {i} = 0)",
    "{k} IN (1, 3)", "{k} BETWEEN 2 AND 3", "COALESCE({k}, {i}) = 2", "CASE WHEN {k} > 2 THEN {i} = 1 ELSE {i} > 0 END",
)  # fmt: skip
_NUMBERS = (
    "{k}",
    "{i}",
    "{k} + {i}",
    "{k} * 2 - {i}",
    "COALESCE({k}, 0)",
    "CASE WHEN {i} > 1 THEN {k} ELSE {i} END",
    "ABS({i} - 3)",
)
_AGGREGATES = (
    "count(*)", "count({c})", "sum({c})", "min({c})", "max({c})", "avg({c})", "count(DISTINCT {c})", "stddev({c})",
    "stddev_pop({c})", "var_samp({c})", "var_pop({c})",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """A continuous query: its statement, the equivalent query over whole tables, and its integer columns."""

    name: str
    statement: str
    equivalent: str
    numbers: tuple[str, ...]


def declarations() -> str:
    """The base streams."""
    columns = "ts BIGINT, k BIGINT, i BIGINT, s STRING, v DOUBLE, id BIGINT"
    return "".join(f"CREATE STREAM {name} ({columns}, WATERMARK ts DELAY OF {DISORDER}) USING feed;\n" for name in STREAMS)


def stream_rows(most: int = 14) -> st.SearchStrategy[list[Row]]:
    """Rows of a base stream; doubles are multiples of a quarter, so that sums are exact."""
    values = {
        "k": st.sampled_from([1, 2, 3, 4, None]),
        "i": st.integers(0, 3),
        "s": st.sampled_from(["", "a", "ab", None]),
        "v": st.sampled_from([-0.5, 0.0, 0.25, 3.75, None]),
    }
    return st.one_of(rows(values, most, DISORDER), rows(values, most, DISORDER, least=most // 2))


def table_of(found: Sequence[Row]) -> pa.RecordBatch:
    """A base stream in its order of arrival; `id` is the position."""
    columns = {name: [row.values[name] for row in found] for name in ("k", "i", "s", "v")}
    own = {"ts": [row.ts for row in found], **columns, "id": [row.pos for row in found]}
    return pa.RecordBatch.from_pydict(own, STREAM)


def _base(name: str) -> Query:
    return Query(name, "", f"SELECT *, ts AS _ts, id AS _pos FROM {name}", ("k", "i"))


@st.composite
def applications(draw: st.DrawFn) -> list[Query]:
    """One to three queries; later ones may read earlier ones."""
    made: list[Query] = []
    for number in range(draw(st.integers(1, 3))):
        sources = [*map(_base, STREAMS), *made, *made]
        shape = draw(st.sampled_from(_SHAPES))
        made.append(draw(shape(f"cq{number}", sources)))
    return made


def _spelt(text: str, one: str, other: str) -> str:
    return text.format(k=one, i=other)


def _pair(draw: st.DrawFn, source: Query, alias: str = "") -> tuple[str, str]:
    prefix = f"{alias}." if alias else ""
    numbers = st.sampled_from(source.numbers)
    return prefix + draw(numbers), prefix + draw(numbers)


@st.composite
def _filtered(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    source = draw(st.sampled_from(list(sources)))
    pair = _pair(draw, source)
    condition = _spelt(draw(st.sampled_from(_CONDITIONS)), *pair)
    items = [_spelt(text, *pair) for text in draw(st.lists(st.sampled_from(_NUMBERS), min_size=2, max_size=2))]
    listed = f"{items[0]} AS a, {items[1]} AS b"
    return Query(
        name,
        f"SELECT {listed} FROM {source.name} WHERE {condition}",
        f"SELECT {listed}, _ts FROM ({source.equivalent}) WHERE {condition}",
        ("a", "b"),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """A window clause, the life of the query, and the condition that a row is in window `w`."""

    clause: str
    life: str
    inside: str


@st.composite
def _windows(draw: st.DrawFn) -> _Window:
    size = draw(st.integers(1, 9))
    step = draw(st.sampled_from([size, 1, 2, 3, size + 2]))
    begin, end = draw(st.sampled_from([(0, None), (0, None), (3, 24), (0, 17)]))
    clause = f"[RANGE {size}]" if step == size else f"[RANGE {size}, ADVANCE {step}]"
    inside = f"_ts >= {begin} + w * {step} AND _ts < {begin} + w * {step} + {size} AND _ts >= {begin}"
    if end is None:
        return _Window(clause, "", inside)
    return _Window(clause, f"BEGIN {begin} END {end} ", f"{inside} AND _ts < {end} AND {begin} + w * {step} + {size} <= {end}")


def _in_windows(equivalent: str, window: _Window) -> str:
    return f"SELECT t.*, w FROM ({equivalent}) t, (SELECT unnest(range({_WINDOWS})) AS w) WHERE {window.inside}"


@st.composite
def _grouped(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    source = draw(st.sampled_from(list(sources)))
    window = draw(_windows())
    key, other = draw(st.permutations(source.numbers))[:2]
    is_base = source.name in STREAMS
    argument = draw(st.sampled_from([other, *(["v", "s"] if is_base else [])]))
    usable = _AGGREGATES if argument != "s" else tuple(text for text in _AGGREGATES if text[:3] in ("cou", "min", "max"))
    calls = [text.format(c=argument) for text in draw(st.lists(st.sampled_from(usable), min_size=1, max_size=4))]
    keys = draw(st.sampled_from(["", key, key, f"{key}, s" if is_base else key]))
    # Names of their own: an alias that is also a column would mean different things to different readers.
    group, size = f"g_{name}", f"n_{name}"
    wanted = [*([f"{key} AS {group}"] if keys else []), f"count(*) AS {size}"]
    listed = ", ".join([*wanted, *(f"{call} AS x{at}" for at, call in enumerate(calls))])
    having = draw(st.sampled_from(["", " HAVING count(*) > 1", f" HAVING min({other}) < 2 OR max({other}) IS NULL"]))
    condition = draw(st.sampled_from(["", f" WHERE {_spelt(draw(st.sampled_from(_CONDITIONS)), key, other)}"]))
    grouping = f" GROUP BY {keys}" if keys else ""
    over = f"w, {keys}" if keys else "w"
    return Query(
        name,
        f"{window.life}AS SELECT {listed} FROM {source.name} {window.clause}{condition}{grouping}{having}",
        f"SELECT {listed}, max(_ts) AS _ts FROM ({_in_windows(source.equivalent, window)}){condition} GROUP BY {over}{having}",
        (group, size) if keys else (size, size),
    )


@st.composite
def _counted(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Windows of rows, in one sequence or in one for each key."""
    stream = draw(st.sampled_from(STREAMS))
    size = draw(st.integers(1, 4))
    step = draw(st.integers(1, 4))
    part = draw(st.sampled_from(["", "PARTITION BY k "]))
    number = f"row_number() OVER ({'PARTITION BY k ' if part else ''}ORDER BY _ts, _pos) - 1"
    total = f"count(*) OVER ({'PARTITION BY k' if part else ''})"
    numbered = f"SELECT *, {number} AS _number, {total} AS _total FROM ({_base(stream).equivalent})"
    inside = f"_number >= w * {step} AND _number < w * {step} + {size} AND w * {step} + {size} <= _total"
    listed = "k, count(*) AS n, sum(i) AS x0"
    return Query(
        name,
        f"SELECT {listed} FROM {stream} [{part}ROWS {size}, ADVANCE {step}] GROUP BY k",
        f"SELECT {listed}, max(_ts) AS _ts FROM ({_in_windows(numbered, _Window('', '', inside))}) GROUP BY w, k",
        ("k", "n"),
    )


@st.composite
def _distinct(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    source = draw(st.sampled_from(list(sources)))
    window = draw(_windows())
    pair = _pair(draw, source)
    listed = f"{pair[0]} AS a, {pair[1]} AS b"
    # It does not matter whether a window is ever completed: the first row of a value is passed on at once.
    inside = window.inside.split(" AND 0 + w")[0].split(" AND 3 + w")[0]
    inner = _in_windows(source.equivalent, _Window("", "", inside))
    return Query(
        name,
        f"{window.life}AS SELECT DISTINCT {listed} FROM {source.name} {window.clause}",
        f"SELECT a, b, _ts FROM (SELECT {listed}, w, min(_ts) AS _ts FROM ({inner}) GROUP BY ALL)",
        ("a", "b"),
    )


def _near(aliases: Sequence[str], lengths: Sequence[int | None]) -> str:
    newest = f"greatest({', '.join(f'{alias}._ts' for alias in aliases)})"
    bounded = [f"{newest} - {alias}._ts <= {size}" for alias, size in zip(aliases, lengths, strict=True) if size is not None]
    return " AND ".join(["true", *bounded])


def _from(parts: Sequence[Query], aliases: Sequence[str], clauses: Sequence[str]) -> tuple[str, str]:
    texts = [f"{part.name} {alias} {clause}" for part, alias, clause in zip(parts, aliases, clauses, strict=True)]
    return ", ".join(texts), ", ".join(f"({part.equivalent}) {alias}" for part, alias in zip(parts, aliases, strict=True))


@st.composite
def _joined(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Two or three inputs on one common key, each with its own window or none, and a residual condition."""
    aliases = ("a", "b", "c")[: draw(st.integers(2, 3))]
    parts = [draw(st.sampled_from(list(sources))) for _ in aliases]
    lengths = [draw(st.sampled_from([0, 2, 5, 9, None])) for _ in aliases]
    keys = [f"{alias}.{draw(st.sampled_from(part.numbers))}" for alias, part in zip(aliases, parts, strict=True)]
    one, other = f"a.{parts[0].numbers[1]}", f"{aliases[-1]}.{parts[-1].numbers[1]}"
    equal = " AND ".join(f"{keys[0]} = {key}" for key in keys[1:])
    residual = draw(st.sampled_from(["", *(f" AND ({_spelt(text, one, other)})" for text in _CONDITIONS)]))
    texts, tables = _from(parts, aliases, ["" if size is None else f"[RANGE {size}]" for size in lengths])
    listed = f"{keys[0]} AS a, {other} AS b"
    times = f"greatest({', '.join(f'{alias}._ts' for alias in aliases)}) AS _ts"
    return Query(
        name,
        f"SELECT {listed} FROM {texts} WHERE {equal}{residual}",
        f"SELECT {listed}, {times} FROM {tables} WHERE {equal}{residual} AND {_near(aliases, lengths)}",
        ("a", "b"),
    )


@st.composite
def _chained(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Three base streams, each joined with the next on a column of its own."""
    aliases = ("a", "b", "c")
    parts = [_base(draw(st.sampled_from(STREAMS))) for _ in aliases]
    lengths = [draw(st.sampled_from([0, 3, 8])) for _ in aliases]
    texts, tables = _from(parts, aliases, [f"[RANGE {size}]" for size in lengths])
    listed = "a.k AS a, c.i AS b"
    equal = "a.k = b.k AND b.i = c.i"
    return Query(
        name,
        f"SELECT {listed} FROM {texts} WHERE {equal}",
        f"SELECT {listed}, greatest(a._ts, b._ts, c._ts) AS _ts FROM {tables} WHERE {equal} AND {_near(aliases, lengths)}",
        ("a", "b"),
    )


@st.composite
def _framed(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Windows of equal number joined with each other."""
    parts = [draw(st.sampled_from(list(sources))) for _ in "ab"]
    size, step = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    texts, tables = _from(parts, "ab", [f"[RANGE {size}, ADVANCE {step}]"] * 2)
    equal = f"a.{parts[0].numbers[0]} = b.{parts[1].numbers[0]}"
    listed = f"a.{parts[0].numbers[0]} AS a, b.{parts[1].numbers[1]} AS b"
    inside = " AND ".join(f"{alias}._ts >= w * {step} AND {alias}._ts < w * {step} + {size}" for alias in "ab")
    numbers = f"(SELECT unnest(range({_WINDOWS})) AS w)"
    return Query(
        name,
        f"SELECT {listed} FROM {texts} WHERE {equal}",
        f"SELECT {listed}, greatest(a._ts, b._ts) AS _ts FROM {tables}, {numbers} WHERE {equal} AND {inside}",
        ("a", "b"),
    )


@st.composite
def _united(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    parts = [draw(st.sampled_from(list(sources))) for _ in range(draw(st.integers(2, 3)))]
    pairs = [_pair(draw, part) for part in parts]
    texts = [f"SELECT {x} AS a, {y} AS b FROM {part.name}" for part, (x, y) in zip(parts, pairs, strict=True)]
    tables = [f"SELECT {x} AS a, {y} AS b, _ts FROM ({part.equivalent})" for part, (x, y) in zip(parts, pairs, strict=True)]
    return Query(name, " UNION ALL ".join(texts), " UNION ALL ".join(tables), ("a", "b"))


@st.composite
def _outer(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Two inputs joined left, right, full, semi or anti; ON has further conditions, WHERE comes after the join."""
    parts = [draw(st.sampled_from(list(sources))) for _ in "ab"]
    kind = draw(st.sampled_from(_KINDS[1:]))
    lengths = [draw(st.sampled_from([0, 2, 5, 9, None])) for _ in "ab"]
    pairs = [_pair(draw, part, alias) for part, alias in zip(parts, "ab", strict=True)]
    texts = ["{0} = {2}", "{1} < {3}", "{0} > 1", "{2} <> 2", "TRUE"]
    on = draw(st.lists(st.sampled_from(texts[1:]), max_size=2))
    condition = " AND ".join([texts[0], *on]).format(*pairs[0], *pairs[1])
    shows_pairs = kind not in ("LEFT SEMI", "LEFT ANTI")
    filtered = draw(st.sampled_from([0, 0, 1])) if shows_pairs else 0
    where = draw(st.sampled_from(["", f" WHERE {_spelt(draw(st.sampled_from(_CONDITIONS)), *pairs[filtered])}"]))
    clauses = ["" if size is None else f"[RANGE {size}]" for size in lengths]
    listed = f"{pairs[0][0]} AS a, {pairs[1][1] if shows_pairs else pairs[0][1]} AS b"
    time = "greatest(a._ts, b._ts)" if shows_pairs else "a._ts"
    near = _near("ab", lengths)
    return Query(
        name,
        f"SELECT {listed} FROM {parts[0].name} a {clauses[0]} {kind} JOIN {parts[1].name} b {clauses[1]} ON {condition}{where}",
        f"SELECT {listed}, {time} AS _ts FROM ({parts[0].equivalent}) a {kind.removeprefix('LEFT ') if not shows_pairs else kind} "
        f"JOIN ({parts[1].equivalent}) b ON {condition} AND {near}{where}",
        ("a", "b"),
    )  # fmt: skip


@st.composite
def _framed_outer(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Windows of equal number, each with its own outer, semi or anti join."""
    parts = [draw(st.sampled_from(list(sources))) for _ in "ab"]
    kind = draw(st.sampled_from(_KINDS[1:]))
    window = draw(_windows())
    clause = window.clause if "ADVANCE" in window.clause else window.clause.replace("]", " TUMBLING]")
    equal = f"a.{parts[0].numbers[0]} = b.{parts[1].numbers[0]}"
    shows_pairs = kind not in ("LEFT SEMI", "LEFT ANTI")
    listed = f"a.{parts[0].numbers[0]} AS a, {'b' if shows_pairs else 'a'}.{parts[int(shows_pairs)].numbers[1]} AS b"
    time = "greatest(a._ts, b._ts)" if shows_pairs else "a._ts"
    tables = [f"({_in_windows(part.equivalent, window)})" for part in parts]
    return Query(
        name,
        f"{window.life}AS SELECT {listed} FROM {parts[0].name} a {clause} {kind} JOIN {parts[1].name} b {clause} ON {equal}",
        f"SELECT {listed}, {time} AS _ts FROM {tables[0]} a {kind.removeprefix('LEFT ') if not shows_pairs else kind} "
        f"JOIN {tables[1]} b ON a.w = b.w AND {equal}",
        ("a", "b"),
    )  # fmt: skip


@st.composite
def _outer_chain(draw: st.DrawFn, name: str, sources: Sequence[Query]) -> Query:
    """Three base streams joined two by two; what is missing in a row bounds nothing."""
    first, second = draw(st.sampled_from(_KINDS)), draw(st.sampled_from(_KINDS[1:]))
    streams = [_base(draw(st.sampled_from(STREAMS))) for _ in "abc"]
    sizes = dict(zip("abc", [draw(st.sampled_from([0, 3, 8])) for _ in "abc"], strict=True))
    seen = "ab" if first not in ("LEFT SEMI", "LEFT ANTI") else "a"
    key = draw(st.sampled_from(["a.k", f"{seen[-1]}.i", f"coalesce({', '.join(f'{alias}.k' for alias in seen)}, 0)"]))
    ons = "a.k = b.k", f"{key} = c.k AND a.i < c.i + 2"
    limits = [f"({alias}._ts IS NULL OR c._ts - {alias}._ts <= {sizes[alias]})" for alias in seen]
    newest = f"greatest({', '.join(f'{alias}._ts' for alias in seen)})"
    near = _near("ab", [sizes["a"], sizes["b"]]), " AND ".join([*limits, f"{newest} - c._ts <= {sizes['c']}"])
    shown = seen + ("c" if second not in ("LEFT SEMI", "LEFT ANTI") else "")
    listed = f"a.k AS a, {shown[-1]}.i AS b"
    kinds = [kind.removeprefix("LEFT ") if kind.endswith(("SEMI", "ANTI")) else kind for kind in (first, second)]
    froms = [f"{part.name} {alias} [RANGE {sizes[alias]}]" for part, alias in zip(streams, "abc", strict=True)]
    tables = [f"({part.equivalent}) {alias}" for part, alias in zip(streams, "abc", strict=True)]
    return Query(
        name,
        f"SELECT {listed} FROM {froms[0]} {first} JOIN {froms[1]} ON {ons[0]} {second} JOIN {froms[2]} ON {ons[1]}",
        f"SELECT {listed}, greatest({', '.join(f'{alias}._ts' for alias in shown)}) AS _ts FROM {tables[0]} {kinds[0]} "
        f"JOIN {tables[1]} ON {ons[0]} AND {near[0]} {kinds[1]} JOIN {tables[2]} ON {ons[1]} AND {near[1]}",
        ("a", "b"),
    )


_KINDS = ("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
_OUTER_SHAPES = (_outer, _outer, _framed_outer, _outer_chain)
_SHAPES = (_filtered, _grouped, _distinct, _joined, _joined, _framed, _united, _chained, _counted, *_OUTER_SHAPES)


@st.composite
def outer_applications(draw: st.DrawFn) -> list[Query]:
    """An outer, semi or anti join, and a query that reads it."""
    made = draw(draw(st.sampled_from(_OUTER_SHAPES))("cq0", list(map(_base, STREAMS))))
    reader = draw(st.sampled_from([_grouped, _distinct, _joined, _outer, _filtered]))
    return [made, draw(reader("cq1", [made]))]


def application_text(queries: Sequence[Query]) -> str:
    """Streams and queries as one application."""
    return declarations() + "".join(f"CREATE CQ {query.name} {_with_as(query.statement)};\n" for query in queries)


def _with_as(statement: str) -> str:
    """Statements with a life of their own already hold the AS."""
    return statement if statement.startswith(("BEGIN", "AS")) else f"AS {statement}"
