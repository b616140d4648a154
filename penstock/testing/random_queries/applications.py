"""Random applications: base streams, their rows, and queries over streams, over each other and over selects in FROM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pyarrow as pa

from penstock.testing.random_queries.joins import JOINS, OUTER_JOINS, joined
from penstock.testing.random_queries.patterns import FUNCTION, PATTERNS, events
from penstock.testing.random_queries.selects import SELECTS, Select, Shape, Sources, distinct, filtered, grouped, select
from penstock.testing.random_queries.timeline import Life, Timeline, lives
from penstock.testing.reference import Row
from penstock.testing.tapes import rows

STREAMS = ("l", "r", "q")
#: No row of a random stream is older than the newest before it by more than this.
DISORDER = 4


@dataclass(frozen=True, slots=True)
class Query:
    """A continuous query: its name, its statement behind the name, and the equivalent query over whole tables."""

    name: str
    statement: str
    equivalent: str


@dataclass(frozen=True, slots=True)
class Application:
    """Queries over the base streams, and how time is told in all of them."""

    queries: tuple[Query, ...]
    timeline: Timeline

    @property
    def text(self) -> str:
        return (
            FUNCTION
            + declarations(self.timeline)
            + "".join(f"CREATE CQ {query.name} {query.statement};\n" for query in self.queries)
        )


def declarations(timeline: Timeline) -> str:
    """The base streams. Of the third it is said that numbers of rows grow, so that groups and joins without window can end."""
    bound = f"INTERVAL {timeline.length(DISORDER)}" if timeline.is_clock else str(DISORDER)
    columns = f"ts {timeline.column_type}, k BIGINT, i BIGINT, s STRING, v DOUBLE, id BIGINT"
    promised = {"q": "UNIQUE (id), "}
    return "".join(
        f"CREATE STREAM {name} ({columns}, {promised.get(name, '')}WATERMARK ts DELAY OF {bound}) USING feed;\n" for name in STREAMS
    )


def schema(timeline: Timeline) -> pa.Schema:
    """Columns of every base stream."""
    time = pa.timestamp("us", "UTC") if timeline.is_clock else pa.int64()
    return pa.schema({"ts": time, "k": pa.int64(), "i": pa.int64(), "s": pa.string(), "v": pa.float64(), "id": pa.int64()})


def stream_rows(most: int = 14) -> st.SearchStrategy[list[Row]]:
    """Rows of a base stream; doubles are multiples of a quarter, so that sums are exact."""
    values = {
        "k": st.sampled_from([1, 2, 3, 4, None]),
        "i": st.integers(0, 3),
        "s": st.sampled_from(["", "a", "ab", None]),
        "v": st.sampled_from([-0.5, 0.0, 0.25, 3.75, None]),
    }
    return st.one_of(rows(values, most, DISORDER), rows(values, most, DISORDER, least=most // 2))


def table_of(found: Sequence[Row], timeline: Timeline, shift: int = 0) -> pa.RecordBatch:
    """A base stream in its order of arrival; `id` is the position. A negative `shift` sets it before 1970."""
    columns = {name: [row.values[name] for row in found] for name in ("k", "i", "s", "v")}
    times = [row.ts + shift for row in found]
    shown = [dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(seconds=ts) for ts in times] if timeline.is_clock else times
    return pa.RecordBatch.from_pydict({"ts": shown, **columns, "id": [row.pos for row in found]}, schema(timeline))


@st.composite
def tables(draw: st.DrawFn, timeline: Timeline, most: int = 14) -> dict[str, pa.RecordBatch]:
    """All base streams, after 1970, before it, or across it."""
    shift = draw(st.sampled_from([0, 0, -15, -45, 3]))
    return {name: table_of(draw(stream_rows(most)), timeline, shift) for name in STREAMS}


def _base(name: str, timeline: Timeline) -> Select:
    equivalent = f"SELECT *, {timeline.time_of('ts')} AS _ts, id AS _pos FROM {name}"
    return Select("", name, equivalent, ("k", "i"), frozenset({name}), has_positions=True, is_base=True)


@st.composite
def _lone_groups(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Groups without a window, over a stream whose declarations may close them."""
    source = draw(st.sampled_from([part for part in sources if part.streams == {"q"} and part.is_base]))
    key = draw(st.sampled_from(["id", "k", "id, k"]))
    shown = key.split(", ")[0]
    return select(
        f"SELECT {shown} AS g, count(*) AS n, sum(i) AS x0 FROM {source.source} GROUP BY {key}",
        f"SELECT {shown} AS g, count(*) AS n, sum(i) AS x0, max(_ts) AS _ts FROM ({source.equivalent}) GROUP BY {key}",
        ("g", "n"),
        [source],
    )


SHAPES: tuple[Shape, ...] = (*SELECTS, *JOINS, *PATTERNS, _lone_groups)
#: What may stand behind CREATE CQ; events are no selects, and may not stand in FROM.
STATEMENTS: tuple[Shape, ...] = (*SHAPES, events)


def _sources(made: Collection[tuple[str, Select]], life: Life) -> list[Select]:
    """Base streams and earlier queries, as far as they are in the life of the query that reads them."""
    named = [replace(found, source=name, is_base=False, is_framed=False) for name, found in made]
    known = [*(_base(name, life.timeline) for name in STREAMS), *named, *named]
    return [replace(part, equivalent=life.bounded(part.equivalent)) for part in known]


@st.composite
def queries(draw: st.DrawFn, timeline: Timeline, shapes: Sequence[Sequence[Shape]], most_nested: int = 3) -> list[Query]:
    """As many queries as there are lists of shapes, each of one of its list; later ones may read earlier ones."""
    made: list[tuple[str, Select]] = []
    found: list[Query] = []
    for number, usable in enumerate(shapes):
        shape = draw(st.sampled_from(list(usable)))
        # Event patterns have no life of their own.
        life = Life(timeline) if shape is events else draw(lives(timeline))
        sources = _sources(made, life)
        for _ in range(draw(st.integers(0, most_nested))):
            # Selects in FROM share the life of the query around them.
            sources.append(replace(draw(draw(st.sampled_from(SHAPES))(sources, life)), is_base=False))
        chosen = draw(shape(sources, life))
        name = f"cq{number}"
        made.append((name, chosen))
        partial = "EMIT PARTIAL " if life.is_partial and chosen.is_framed else ""
        found.append(Query(name, f"{life.span}{partial}AS {chosen.text}", _without_positions(chosen)))
    return found


def _without_positions(found: Select) -> str:
    return f"SELECT * EXCLUDE (_pos) FROM ({found.equivalent})" if found.has_positions else found.equivalent


def _applications(shapes: Sequence[Sequence[Shape]]) -> st.SearchStrategy[Application]:
    timelines = st.sampled_from([Timeline(), Timeline(), Timeline(is_clock=True)])
    return timelines.flatmap(lambda timeline: queries(timeline, shapes).map(lambda found: Application(tuple(found), timeline)))


def applications(most: int = 4) -> st.SearchStrategy[Application]:
    """A few queries of all shapes."""
    return st.integers(1, most).flatmap(lambda count: _applications([STATEMENTS] * count))


def outer_applications() -> st.SearchStrategy[Application]:
    """An outer, semi or anti join, and a query that reads it or the streams."""
    return _applications([OUTER_JOINS, (grouped, distinct, joined, *OUTER_JOINS, filtered)])
