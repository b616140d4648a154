"""Random joins: inner ones with and without hints, by time, by rows, window by window; outer, semi and anti joins."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st

from penstock.testing.random_queries.selects import Select, Shape, Sources, pair_of, picked, select, streams_of
from penstock.testing.random_queries.terms import conditions
from penstock.testing.random_queries.timeline import REGULAR, Life, Window, numbered, time_windows

_KINDS = ("", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
_LENGTHS = st.sampled_from([0, 2, 5, 9, None])
#: Hints for joins of two inputs without windows: few rows fit into memory, or none is ever purged.
_WITHOUT_WINDOWS = ("PJOIN", "PJOIN(memory_bytes = 1)", "PJOIN(memory_bytes = 900)", "XJOIN", "XJOIN(memory_bytes = 500)")
_SLIDING = ("WJOIN", "WJOIN(memory_bytes = 300)", "PWJOIN", "PWJOIN(memory_bytes = 1)", "PWJOIN(max_drop_markers = 2)")
_MANY = (
    "MWJOIN",
    "MPWJOIN",
    "MPWJOIN(memory_bytes = 600)",
    "MJOIN",
    "MJOIN(policy = 'sweep')",
    "MJOIN(policy = 'fixed')",
    "MWJOIN(memory_bytes = 1)",
)


def _near(life: Life, aliases: Sequence[str], lengths: Sequence[int | None]) -> str:
    newest = f"greatest({', '.join(f'{alias}._ts' for alias in aliases)})"
    bounded = [
        f"{newest} - {alias}._ts <= {life.timeline.ticks(size)}"
        for alias, size in zip(aliases, lengths, strict=True)
        if size is not None
    ]
    return " AND ".join(["true", *bounded])


def _sliding(life: Life, size: int | None) -> str:
    return "" if size is None else f" [RANGE {life.timeline.length(size)}]"


def _from(parts: Sources, aliases: Sequence[str], clauses: Sequence[str]) -> tuple[str, str]:
    texts = [f"{part.source} {alias}{clause}" for part, alias, clause in zip(parts, aliases, clauses, strict=True)]
    return ", ".join(texts), ", ".join(f"({part.equivalent}) {alias}" for part, alias in zip(parts, aliases, strict=True))


def _newest(aliases: Sequence[str]) -> str:
    return f"greatest({', '.join(f'{alias}._ts' for alias in aliases)})" if len(aliases) > 1 else f"{aliases[0]}._ts"


def _hint(draw: st.DrawFn, lengths: Sequence[int | None]) -> str:
    if len(lengths) > 2:
        usable: tuple[str, ...] = _MANY
    else:
        usable = _WITHOUT_WINDOWS if lengths == [None, None] else _SLIDING
    hint = draw(st.sampled_from(["", "", *usable]))
    return f"/*+ {hint} */ " if hint else ""


@st.composite
def joined(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Two or three inputs on one common key, each with its own window or none, and a residual condition."""
    aliases = ("a", "b", "c")[: draw(st.integers(2, 3))]
    parts = [draw(picked(sources)) for _ in aliases]
    lengths = [draw(_LENGTHS) for _ in aliases]
    keys = [f"{alias}.{draw(st.sampled_from(part.numbers))}" for alias, part in zip(aliases, parts, strict=True)]
    ends = [f"{aliases[0]}.{parts[0].numbers[1]}", f"{aliases[-1]}.{parts[-1].numbers[1]}"]
    equal = " AND ".join(f"{keys[0]} = {key}" for key in keys[1:])
    residual = draw(st.sampled_from(["", f" AND {draw(conditions(ends, 1))}"]))
    texts, tables = _from(parts, aliases, [_sliding(life, size) for size in lengths])
    listed = f"{keys[0]} AS a, {ends[1]} AS b"
    near = _near(life, aliases, lengths)
    return select(
        f"SELECT {_hint(draw, lengths)}{listed} FROM {texts} WHERE {equal}{residual}",
        f"SELECT {listed}, {_newest(aliases)} AS _ts FROM {tables} WHERE {equal}{residual} AND {near}",
        ("a", "b"),
        parts,
    )


@st.composite
def joined_groups(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """An aggregate or DISTINCT right over a join: its windows tumble, as long as the longest of the inputs."""
    parts = [draw(picked(sources)) for _ in "ab"]
    lengths = [draw(st.sampled_from([1, 3, 7])) for _ in "ab"]
    keys = [f"{alias}.{part.numbers[0]}" for alias, part in zip("ab", parts, strict=True)]
    texts, tables = _from(parts, "ab", [_sliding(life, size) for size in lengths])
    size = life.timeline.ticks(max(lengths))
    bounds = f"{life.origin} + w * {size}", f"{life.origin + size} + w * {size}"
    first = "true" if life.begin is None else "w >= 0"
    until = "true" if life.end is None or life.is_partial else f"{bounds[1]} <= {life.timeline.ticks(life.end)}"
    window = Window("", *bounds, f"{first} AND _ts >= {bounds[0]} AND _ts < {bounds[1]}", until, "tumbling")
    other = f"b.{parts[1].numbers[1]}"
    pairs = f"SELECT {keys[0]} AS g, {other} AS o, {_newest('ab')} AS _ts FROM {tables} WHERE {keys[0]} = {keys[1]}"
    rows = f"{pairs} AND {_near(life, 'ab', lengths)}"
    if draw(st.booleans()):
        return select(
            f"SELECT {keys[0]} AS g, count({other}) AS n FROM {texts} WHERE {keys[0]} = {keys[1]} GROUP BY {keys[0]}",
            f"SELECT g, count(o) AS n, max(_ts) AS _ts FROM ({numbered(rows, window)}) GROUP BY w, g",
            ("g", "n"),
            parts,
            is_framed=True,
        )
    inner = numbered(rows, window, answered_only=False)
    return select(
        f"SELECT DISTINCT {keys[0]} AS a, {other} AS b FROM {texts} WHERE {keys[0]} = {keys[1]}",
        f"SELECT a, b, _ts FROM (SELECT g AS a, o AS b, w, min(_ts) AS _ts FROM ({inner}) GROUP BY g, o, w)",
        ("a", "b"),
        parts,
        is_framed=True,
    )


@st.composite
def chained(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Three base streams, each joined with the next on a column of its own."""
    aliases = ("a", "b", "c")
    parts = [draw(picked([part for part in sources if part.is_base])) for _ in aliases]
    lengths = [draw(st.sampled_from([0, 3, 8])) for _ in aliases]
    texts, tables = _from(parts, aliases, [_sliding(life, size) for size in lengths])
    hint = draw(st.sampled_from(["", "/*+ MJOIN */ ", "/*+ MJOIN(policy = 'local_swaps') */ "]))
    listed = "a.k AS a, c.i AS b"
    equal = "a.k = b.k AND b.i = c.i"
    return select(
        f"SELECT {hint}{listed} FROM {texts} WHERE {equal}",
        f"SELECT {listed}, {_newest(aliases)} AS _ts FROM {tables} WHERE {equal} AND {_near(life, aliases, lengths)}",
        ("a", "b"),
        parts,
    )


def _frames(draw: st.DrawFn, life: Life, parts: Sources) -> list[Window]:
    """A window for each input of a join, equal ones or not."""
    streams = streams_of(parts)
    bounded = life.begin is not None and life.end is not None
    kinds = (*REGULAR, *REGULAR, "fixed", "growing", *(["landmark"] if bounded else []))
    window = draw(time_windows(life, streams, kinds))
    found = [window if draw(st.booleans()) else draw(time_windows(life, streams, kinds)) for _ in parts]
    return [_spelt(each) for each in found]


def _spelt(window: Window) -> Window:
    """On the input of a join TUMBLING must be written."""
    if window.kind != "tumbling":
        return window
    clause = window.clause.replace("]", " TUMBLING]")
    return Window(clause, window.starts, window.ends, window.inside, window.is_answered, window.kind)


def _in_same_windows(parts: Sources, windows: Sequence[Window], aliases: Sequence[str]) -> list[str]:
    """Inputs with the windows of their rows. Which windows are answered follows from all inputs together."""
    answered = " AND ".join(f"({window.is_answered})" for window in windows)
    tables = []
    for part, window, alias in zip(parts, windows, aliases, strict=True):
        judged = Window(window.clause, window.starts, window.ends, window.inside, answered, window.kind)
        tables.append(f"({numbered(part.equivalent, judged)}) {alias}")
    return tables


@st.composite
def framed(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Windows of equal number joined with each other."""
    aliases = ("a", "b", "c")[: draw(st.sampled_from([2, 2, 3]))]
    parts = [draw(picked(sources)) for _ in aliases]
    windows = _frames(draw, life, parts)
    texts, _ = _from(parts, aliases, [f" {window.clause}" for window in windows])
    keys = [f"{alias}.{part.numbers[0]}" for alias, part in zip(aliases, parts, strict=True)]
    equal = " AND ".join(f"{keys[0]} = {key}" for key in keys[1:])
    same = " AND ".join(f"a.w = {alias}.w" for alias in aliases[1:])
    listed = f"{keys[0]} AS a, {aliases[-1]}.{parts[-1].numbers[1]} AS b"
    tables = ", ".join(_in_same_windows(parts, windows, aliases))
    return select(
        f"SELECT {listed} FROM {texts} WHERE {equal}",
        f"SELECT {listed}, {_newest(aliases)} AS _ts FROM {tables} WHERE {equal} AND {same}",
        ("a", "b"),
        parts,
        is_framed=True,
    )


@st.composite
def joined_by_rows(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Two inputs of which one or both count rows; all rows are in one order: by time, number of the input, position."""
    usable = [part for part in sources if part.has_positions]
    parts = [draw(picked(usable)) for _ in "ab"]
    forms = st.sampled_from(["rows", "rows", "range", "none"])
    kinds = [draw(forms), draw(st.just("rows"))]
    sizes = [draw(st.integers(0, 4)) for _ in "ab"]
    clauses = [
        {"rows": f" [ROWS {size}]", "range": _sliding(life, size), "none": ""}[kind]
        for kind, size in zip(kinds, sizes, strict=True)
    ]
    texts, _ = _from(parts, "ab", clauses)
    hint = draw(st.sampled_from(["", "/*+ WJOIN */ ", "/*+ PWJOIN(spread = TRUE) */ "]))
    keys = [f"{alias}.{part.numbers[0]}" for alias, part in zip("ab", parts, strict=True)]
    listed = f"{keys[0]} AS a, b.{parts[1].numbers[1]} AS b"
    tables = [f"(SELECT *, row_number() OVER (ORDER BY _ts, _pos) AS _rank FROM ({part.equivalent})) {alias}"
              for part, alias in zip(parts, "ab", strict=True)]  # fmt: skip
    # Rows of the first input come before those of the second at the same time.
    before = {
        "a": f"(SELECT count(*) FROM ({parts[0].equivalent}) o WHERE o._ts <= b._ts)",
        "b": f"(SELECT count(*) FROM ({parts[1].equivalent}) o WHERE o._ts < a._ts)",
    }
    recent = [
        {
            "rows": f"{alias}._rank > {before[alias]} - {size}",
            "range": f"abs(a._ts - b._ts) <= {life.timeline.ticks(size)}",
            "none": "true",
        }[kind]
        for alias, kind, size in zip("ab", kinds, sizes, strict=True)
    ]
    near = f"CASE WHEN a._ts <= b._ts THEN {recent[0]} ELSE {recent[1]} END"
    return select(
        f"SELECT {hint}{listed} FROM {texts} WHERE {keys[0]} = {keys[1]}",
        f"SELECT {listed}, {_newest('ab')} AS _ts FROM {', '.join(tables)} WHERE {keys[0]} = {keys[1]} AND {near}",
        ("a", "b"),
        parts,
    )


def _in_duckdb(kind: str) -> str:
    return kind.removeprefix("LEFT ") if kind.endswith(("SEMI", "ANTI")) else kind


def _shows_pairs(kind: str) -> bool:
    return not kind.endswith(("SEMI", "ANTI"))


@st.composite
def outer(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Two inputs joined left, right, full, semi or anti; ON has further conditions, WHERE comes after the join."""
    parts = [draw(picked(sources)) for _ in "ab"]
    kind = draw(st.sampled_from(_KINDS[1:]))
    lengths = [draw(_LENGTHS) for _ in "ab"]
    pairs = [pair_of(draw, part, alias) for part, alias in zip(parts, "ab", strict=True)]
    texts = ["{0} = {2}", "{1} < {3}", "{0} > 1", "{2} <> 2", "TRUE"]
    on = draw(st.lists(st.sampled_from(texts[1:]), max_size=2))
    condition = " AND ".join([texts[0], *on]).format(*pairs[0], *pairs[1])
    filtered = draw(st.sampled_from([0, 0, 1])) if _shows_pairs(kind) else 0
    where = draw(st.sampled_from(["", f" WHERE {draw(conditions(pairs[filtered], 1))}"]))
    clauses = [_sliding(life, size) for size in lengths]
    listed = f"{pairs[0][0]} AS a, {pairs[1][1] if _shows_pairs(kind) else pairs[0][1]} AS b"
    time = _newest("ab") if _shows_pairs(kind) else "a._ts"
    near = _near(life, "ab", lengths)
    return select(
        f"SELECT {listed} FROM {parts[0].source} a{clauses[0]} {kind} JOIN {parts[1].source} b{clauses[1]} ON {condition}{where}",
        f"SELECT {listed}, {time} AS _ts FROM ({parts[0].equivalent}) a {_in_duckdb(kind)} "
        f"JOIN ({parts[1].equivalent}) b ON {condition} AND {near}{where}",
        ("a", "b"),
        parts,
    )


@st.composite
def framed_outer(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Windows of equal number, each with its own outer, semi or anti join."""
    parts = [draw(picked(sources)) for _ in "ab"]
    kind = draw(st.sampled_from(_KINDS[1:]))
    windows = _frames(draw, life, parts)
    one, other = (f" {window.clause}" for window in windows)
    equal = f"a.{parts[0].numbers[0]} = b.{parts[1].numbers[0]}"
    listed = f"a.{parts[0].numbers[0]} AS a, {'b' if _shows_pairs(kind) else 'a'}.{parts[int(_shows_pairs(kind))].numbers[1]} AS b"
    time = _newest("ab") if _shows_pairs(kind) else "a._ts"
    tables = _in_same_windows(parts, windows, "ab")
    return select(
        f"SELECT {listed} FROM {parts[0].source} a{one} {kind} JOIN {parts[1].source} b{other} ON {equal}",
        f"SELECT {listed}, {time} AS _ts FROM {tables[0]} {_in_duckdb(kind)} JOIN {tables[1]} ON a.w = b.w AND {equal}",
        ("a", "b"),
        parts,
        is_framed=True,
    )


@st.composite
def outer_chain(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Three base streams joined two by two; what is missing in a row bounds nothing."""
    first, second = draw(st.sampled_from(_KINDS)), draw(st.sampled_from(_KINDS[1:]))
    streams = [draw(picked([part for part in sources if part.is_base])) for _ in "abc"]
    sizes = dict(zip("abc", [draw(st.sampled_from([0, 3, 8])) for _ in "abc"], strict=True))
    ticks = {alias: life.timeline.ticks(size) for alias, size in sizes.items()}
    seen = "ab" if _shows_pairs(first) else "a"
    key = draw(st.sampled_from(["a.k", f"{seen[-1]}.i", f"coalesce({', '.join(f'{alias}.k' for alias in seen)}, 0)"]))
    ons = "a.k = b.k", f"{key} = c.k AND a.i < c.i + 2"
    limits = [f"({alias}._ts IS NULL OR c._ts - {alias}._ts <= {ticks[alias]})" for alias in seen]
    near = _near(life, "ab", [sizes["a"], sizes["b"]]), " AND ".join([*limits, f"{_newest(seen)} - c._ts <= {ticks['c']}"])
    shown = seen + ("c" if _shows_pairs(second) else "")
    listed = f"a.k AS a, {shown[-1]}.i AS b"
    froms = [f"{part.source} {alias}{_sliding(life, sizes[alias])}" for part, alias in zip(streams, "abc", strict=True)]
    tables = [f"({part.equivalent}) {alias}" for part, alias in zip(streams, "abc", strict=True)]
    return select(
        f"SELECT {listed} FROM {froms[0]} {first} JOIN {froms[1]} ON {ons[0]} {second} JOIN {froms[2]} ON {ons[1]}",
        f"SELECT {listed}, {_newest(shown)} AS _ts FROM {tables[0]} {_in_duckdb(first)} "
        f"JOIN {tables[1]} ON {ons[0]} AND {near[0]} {_in_duckdb(second)} JOIN {tables[2]} ON {ons[1]} AND {near[1]}",
        ("a", "b"),
        streams,
    )


OUTER_JOINS: tuple[Shape, ...] = (outer, outer, framed_outer, outer_chain)
JOINS: tuple[Shape, ...] = (joined, joined, joined_groups, chained, framed, joined_by_rows, *OUTER_JOINS)
