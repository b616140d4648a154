"""Random selects over one source, and unions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import hypothesis.strategies as st

from penstock.testing.random_queries.terms import conditions, terms
from penstock.testing.random_queries.timeline import Life, Window, numbered, row_windows, time_windows

_AGGREGATES = (
    "count(*)", "count({c})", "sum({c})", "min({c})", "max({c})", "avg({c})", "count(DISTINCT {c})", "stddev({c})",
    "stddev_pop({c})", "var_samp({c})", "var_pop({c})", "count_if({c} > 1)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Select:
    """A select, what stands for it in FROM, and the equivalent query over whole tables.

    Parameters
    ----------
    numbers
        Its integer columns.
    streams
        The base streams it is made of.
    has_positions
        Whether its rows are those of one base stream, in the order of `_pos`.
    is_base
        Whether it is a base stream, with further columns.
    is_framed
        Whether it has windows, here or in a select in FROM, that the end of the query may cut off.
    """

    text: str
    source: str
    equivalent: str
    numbers: tuple[str, ...]
    streams: frozenset[str]
    has_positions: bool = False
    is_base: bool = False
    is_framed: bool = False


Sources: TypeAlias = Sequence[Select]
#: A select over some sources, within a life.
Shape: TypeAlias = Callable[[Sources, Life], st.SearchStrategy[Select]]


def select(
    text: str, equivalent: str, numbers: tuple[str, ...], parts: Sources, has_positions: bool = False, is_framed: bool = False
) -> Select:
    """A select that is also a source, in brackets."""
    is_framed = is_framed or any(part.is_framed for part in parts)
    return Select(text, f"({text})", equivalent, numbers, streams_of(parts), has_positions, is_framed=is_framed)


def streams_of(parts: Sources) -> frozenset[str]:
    return frozenset[str]().union(*(part.streams for part in parts))


def picked(sources: Sources) -> st.SearchStrategy[Select]:
    return st.sampled_from(list(sources))


def pair_of(draw: st.DrawFn, source: Select, alias: str = "") -> tuple[str, str]:
    """Two integer columns of a source."""
    prefix = f"{alias}." if alias else ""
    numbers = st.sampled_from(source.numbers)
    return prefix + draw(numbers), prefix + draw(numbers)


@st.composite
def filtered(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Conditions and terms, row by row."""
    source = draw(picked(sources))
    condition = draw(conditions(source.numbers))
    # A constant alone would be narrower, and a join wants keys of one type.
    listed = ", ".join(f"CAST({draw(terms(source.numbers))} AS BIGINT) AS {name}" for name in "ab")
    position = ", _pos" if source.has_positions else ""
    return select(
        f"SELECT {listed} FROM {source.source} x WHERE {condition}",
        f"SELECT {listed}, _ts{position} FROM ({source.equivalent}) WHERE {condition}",
        ("a", "b"),
        [source],
        source.has_positions,
    )


@dataclass(frozen=True, slots=True)
class _Grouping:
    """The parts of a grouping that do not depend on its window."""

    listed: str
    equivalent: str
    keys: str
    condition: str
    having: str
    numbers: tuple[str, ...]

    @property
    def group_by(self) -> str:
        return f" GROUP BY {self.keys}" if self.keys else ""


def _grouping(draw: st.DrawFn, source: Select) -> _Grouping:
    key, other = draw(st.permutations(source.numbers))[:2]
    argument = draw(st.sampled_from([other, *(["v", "s"] if source.is_base else [])]))
    usable = _AGGREGATES if argument != "s" else tuple(text for text in _AGGREGATES if text[:6] not in _OF_NUMBERS)
    calls = [text.format(c=argument) for text in draw(st.lists(st.sampled_from(usable), min_size=1, max_size=3))]
    chosen = draw(st.sampled_from(["", "max", "min"]))
    keys = draw(st.sampled_from(["", key, key, f"{key}, s" if source.is_base else key]))
    wanted = [*([f"{key} AS g"] if keys else []), "count(*) AS n"]
    own = [*wanted, *(f"{call} AS x{at}" for at, call in enumerate(calls))]
    # DuckDB's count_if is NULL where every condition is.
    theirs = [text.replace(f"count_if({argument} > 1)", f"count_if(coalesce({argument} > 1, false))") for text in own]
    if chosen:
        # Of rows with equal order that with the greatest argument, or least, is taken, and NULL is below everything.
        own.append(f"{chosen}_by({other}, {key}) AS y")
        theirs.append(f"arg_{chosen}_null({other}, ({key}, coalesce({other}, -1000000))) FILTER (WHERE {key} IS NOT NULL) AS y")
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1", f" HAVING min({other}) < 2 OR max({other}) IS NULL"]))
    condition = draw(st.sampled_from(["", f" WHERE {draw(conditions(source.numbers, 1))}"]))
    return _Grouping(", ".join(own), ", ".join(theirs), keys, condition, having, ("g", "n") if keys else ("n", "n"))


#: First letters of aggregates that are for numbers alone.
_OF_NUMBERS = ("sum({c", "avg({c", "stddev", "var_sa", "var_po", "count_")


@st.composite
def grouped(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Aggregates in windows of time, with their bounds or without, and DISTINCT over them."""
    source = draw(picked(sources))
    window = draw(time_windows(life, source.streams))
    made = _grouping(draw, source)
    bounds = draw(st.booleans()) and (window.kind != "landmark" or life.begin is not None)
    shown = [f"{life.timeline.shown(bound)} AS {name}" for name, bound in (("since", window.starts), ("until", window.ends))]
    own, theirs = (", window_start() AS since, window_end() AS until", ", " + ", ".join(shown)) if bounds else ("", "")
    rows = numbered(source.equivalent, window)
    over = f"w, {made.keys}" if made.keys else "w"
    groups = f"{made.equivalent}{theirs}, max(_ts) AS _ts"
    is_distinct = window.kind == "tumbling" and draw(st.integers(0, 3)) == 0
    equivalent = f"SELECT {groups} FROM ({rows}){made.condition} GROUP BY {over}{made.having}"
    if is_distinct:
        inner = f"SELECT {groups}, w FROM ({rows}){made.condition} GROUP BY {over}{made.having}"
        equivalent = f"SELECT * EXCLUDE (w) FROM (SELECT * EXCLUDE (_ts), min(_ts) AS _ts FROM ({inner}) GROUP BY ALL)"
    word = "SELECT DISTINCT" if is_distinct else "SELECT"
    text = f"{word} {made.listed}{own} FROM {source.source} x {window.clause}{made.condition}{made.group_by}{made.having}"
    return select(text, equivalent, made.numbers, [source], is_framed=True)


@st.composite
def counted(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Aggregates in windows of rows, in one sequence or in one for each key."""
    source = draw(picked([part for part in sources if part.has_positions]))
    key, other = source.numbers[:2]
    partition = draw(st.sampled_from(["", key]))
    window = draw(row_windows(life, partition))
    rows = _in_sequence(source, partition if window.kind == "partitioned" else "")
    listed = f"{key} AS g, count(*) AS n, sum({other}) AS x0"
    return select(
        f"SELECT {listed} FROM {source.source} x {window.clause} GROUP BY {key}",
        f"SELECT {listed}, max(_ts) AS _ts FROM ({numbered(rows, window)}) GROUP BY w, {key}",
        ("g", "n"),
        [source],
        is_framed=True,
    )


def _in_sequence(source: Select, partition: str) -> str:
    """The rows of a source with their numbers, in all or for each value of a column."""
    over = f"PARTITION BY {partition}" if partition else ""
    number = f"row_number() OVER ({over} ORDER BY _ts, _pos) - 1"
    return f"SELECT *, {number} AS _number, count(*) OVER ({over}) AS _total FROM ({source.equivalent})"


@st.composite
def distinct_rows(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """The first of equal rows in each window of rows."""
    source = draw(picked([part for part in sources if part.has_positions]))
    key, other = source.numbers[:2]
    window = draw(row_windows(life, draw(st.sampled_from(["", key]))))
    listed = f"{key} AS a, {other} AS b"
    rows = _in_sequence(source, key if window.kind == "partitioned" else "")
    return select(
        f"SELECT DISTINCT {listed} FROM {source.source} x {window.clause}",
        first_in_windows(f"SELECT {listed}, _ts, _number, _total FROM ({rows})", window),
        ("a", "b"),
        [source],
        is_framed=True,
    )


@st.composite
def distinct(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """The first of equal rows in each window, or for ever. It does not matter whether a window is ever completed."""
    source = draw(picked(sources))
    window = draw(time_windows(life, source.streams)) if draw(st.integers(0, 3)) else None
    pair = pair_of(draw, source)
    listed = f"{pair[0]} AS a, {pair[1]} AS b"
    return select(
        f"SELECT DISTINCT {listed} FROM {source.source} x {window.clause if window else ''}",
        first_in_windows(f"SELECT {listed}, _ts FROM ({source.equivalent})", window),
        ("a", "b"),
        [source],
        is_framed=window is not None,
    )


def first_in_windows(equivalent: str, window: Window | None) -> str:
    """The first of equal pairs (a, b) in each window; landmark windows hold the same first ones again and again."""
    if window is None or window.kind == "landmark":
        return f"SELECT a, b, min(_ts) AS _ts FROM ({equivalent}) GROUP BY a, b"
    inner = numbered(equivalent, window, answered_only=False)
    return f"SELECT a, b, _ts FROM (SELECT a, b, w, min(_ts) AS _ts FROM ({inner}) GROUP BY a, b, w)"


@st.composite
def united(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """UNION ALL of rows, or UNION in a window that stands on every branch, or without any."""
    parts = [draw(picked(sources)) for _ in range(draw(st.integers(2, 4)))]
    is_distinct = draw(st.booleans())
    window = draw(st.one_of(st.none(), time_windows(life, streams_of(parts)))) if is_distinct else None
    clause = f" x {window.clause}" if window else " x"
    texts, tables = [], []
    for part in parts:
        one, other = pair_of(draw, part)
        condition = draw(st.sampled_from(["", f" WHERE {draw(conditions(part.numbers, 1))}"]))
        texts.append(f"SELECT {one} AS a, {other} AS b FROM {part.source}{clause}{condition}")
        tables.append(f"SELECT {one} AS a, {other} AS b, _ts FROM ({part.equivalent}){condition}")
    everything = " UNION ALL ".join(tables)
    if not is_distinct:
        return select(" UNION ALL ".join(texts), everything, ("a", "b"), parts)
    words = [draw(st.sampled_from(["UNION", "UNION ALL"])) for _ in texts[2:]]
    text = texts[0] + "".join(f" {word} {branch}" for word, branch in zip([*words, "UNION"], texts[1:], strict=True))
    return select(text, first_in_windows(everything, window), ("a", "b"), parts, is_framed=window is not None)


@st.composite
def united_groups(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """UNION of groupings with one tumbling window."""
    parts = [draw(picked(sources)) for _ in "ab"]
    window = draw(time_windows(life, streams_of(parts), ("tumbling",)))
    texts, tables = [], []
    for part in parts:
        key, other = pair_of(draw, part)
        texts.append(f"SELECT {key} AS a, count({other}) AS b FROM {part.source} x {window.clause} GROUP BY {key}")
        rows = numbered(part.equivalent, window)
        tables.append(f"SELECT {key} AS a, count({other}) AS b, w, max(_ts) AS _ts FROM ({rows}) GROUP BY w, {key}")
    equivalent = f"SELECT a, b, _ts FROM (SELECT a, b, w, min(_ts) AS _ts FROM ({' UNION ALL '.join(tables)}) GROUP BY a, b, w)"
    return select(" UNION ".join(texts), equivalent, ("a", "b"), parts, is_framed=True)


#: Selects over one source, and unions.
SELECTS: tuple[Shape, ...] = (filtered, grouped, grouped, counted, distinct, distinct_rows, united, united_groups)
