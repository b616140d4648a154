"""Event time in two languages: units, the life of a query, and windows with the condition that a row is in the w-th."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass

import hypothesis.strategies as st

#: Windows have numbers from minus this to this: more than a random stream reaches.
_WINDOWS = 90
_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Integer timestamps that count as they are, or clock time in seconds.

    Examples
    --------
    >>> Timeline(True).length(3), Timeline(True).moment(-3), Timeline(False).moment(-3)
    ('3 SECONDS', "'1969-12-31 23:59:57'", '-3')
    """

    is_clock: bool = False

    @property
    def column_type(self) -> str:
        return "TIMESTAMP" if self.is_clock else "BIGINT"

    def ticks(self, number: int) -> int:
        """The number as the equivalent query counts."""
        return number * 1_000_000 if self.is_clock else number

    def length(self, number: int) -> str:
        return f"{number} SECONDS" if self.is_clock else str(number)

    def moment(self, number: int) -> str:
        return f"'{_EPOCH + dt.timedelta(seconds=number)}'" if self.is_clock else str(number)

    def shown(self, ticks: str) -> str:
        """A time as the equivalent query shows it in an answer."""
        return f"make_timestamp({ticks})" if self.is_clock else ticks

    def time_of(self, column: str) -> str:
        return f"epoch_us({column})" if self.is_clock else column


@dataclass(frozen=True, slots=True)
class Life:
    """BEGIN and END of a query, and whether windows that END cuts off are answered."""

    timeline: Timeline
    begin: int | None = None
    end: int | None = None
    is_partial: bool = False

    @property
    def span(self) -> str:
        """BEGIN and END as written."""
        begin = "" if self.begin is None else f"BEGIN {self.timeline.moment(self.begin)} "
        end = "" if self.end is None else f"END {self.timeline.moment(self.end)} "
        return begin + end

    @property
    def origin(self) -> int:
        return self.timeline.ticks(self.begin or 0)

    def bounded(self, equivalent: str) -> str:
        """Rows of a source that are part of the query."""
        limits = [] if self.begin is None else [f"_ts >= {self.timeline.ticks(self.begin)}"]
        limits += [] if self.end is None else [f"_ts < {self.timeline.ticks(self.end)}"]
        return f"SELECT * FROM ({equivalent}) WHERE {' AND '.join(limits)}" if limits else equivalent


def lives(timeline: Timeline) -> st.SearchStrategy[Life]:
    """Half of all queries have none; the others begin or end before 1970, at it, or within the rows."""
    spans = st.sampled_from(
        [(None, None)] * 5 + [(0, None), (-8, None), (3, 24), (0, 17), (-6, 9), (-30, 5), (None, 14), (5, None)]
    )
    partial = st.sampled_from([False, False, True])
    return st.tuples(spans, partial).map(lambda found: Life(timeline, *found[0], is_partial=found[1]))


@dataclass(frozen=True, slots=True)
class Window:
    """A window clause, and in the equivalent query which rows are in window `w`, and which windows are answered.

    `starts` and `ends` are the bounds of window `w`; `place` is where a row stands: `_ts`, or its number among the rows.
    """

    clause: str
    starts: str
    ends: str
    inside: str
    is_answered: str
    kind: str


def numbered(equivalent: str, window: Window, answered_only: bool = True) -> str:
    """The rows of a relation, once for each window they are in, with its number `w`."""
    condition = f"({window.inside}) AND ({window.is_answered})" if answered_only else window.inside
    return f"SELECT t.*, w FROM ({equivalent}) t, (SELECT unnest(range(-{_WINDOWS}, {_WINDOWS})) AS w) WHERE {condition}"


#: Kinds of windows in which both bounds move alike.
REGULAR = ("tumbling", "sliding", "hopping")


@st.composite
def time_windows(
    draw: st.DrawFn,
    life: Life,
    streams: Collection[str],
    kinds: Collection[str] = (*REGULAR, *REGULAR, "landmark", "fixed", "growing"),
) -> Window:
    """A window of time on an aggregate or DISTINCT; `streams` are those it comes from, which decide when all has ended."""
    timeline, ticks = life.timeline, life.timeline.ticks
    known = [kind for kind in kinds if kind not in ("fixed", "growing") or life.begin is not None or not timeline.is_clock]
    kind = draw(st.sampled_from(known))
    size = draw(st.integers(1, 9))
    steps = {"tumbling": st.just(size), "sliding": st.integers(1, size), "hopping": st.just(size + draw(st.integers(1, 3)))}
    step = draw(steps.get(kind, st.integers(1, 4)))
    start = {"landmark": 0, "fixed": 0}.get(kind, step)
    end = {"fixed": 0, "growing": step + draw(st.integers(1, 3))}.get(kind, step)
    clause = _clause(kind, timeline, size, start, end)
    starts, ends = f"{life.origin} + w * {ticks(start)}", f"{life.origin + ticks(size)} + w * {ticks(end)}"
    goes_back = kind in (*REGULAR, "landmark") and life.begin is None
    first = {"fixed": "w = 0"}.get(kind, "true" if goes_back else "w >= 0")
    opened = "true" if kind == "landmark" else f"_ts >= {starts}"
    inside = f"{first} AND {opened} AND _ts < {ends}"
    return Window(clause, starts, ends, inside, _is_answered(life, kind, ends, ticks(end), streams), kind)


def _clause(kind: str, timeline: Timeline, size: int, start: int, end: int) -> str:
    length = timeline.length(size)
    if kind in REGULAR:
        return f"[RANGE {length}]" if kind == "tumbling" else f"[RANGE {length}, ADVANCE {timeline.length(start)}]"
    if kind == "growing":
        return f"[RANGE {length} MOVE ({timeline.length(start)}, {timeline.length(end)})]"
    return f"[FIXED RANGE {length}]" if kind == "fixed" else f"[LANDMARK RANGE {length}, ADVANCE {timeline.length(end)}]"


def _is_answered(life: Life, kind: str, ends: str, step: int, streams: Collection[str]) -> str:
    """Windows that end within the query; those it cuts off only where asked for. Landmarks end with the streams."""
    limit = str(life.timeline.ticks(life.end)) if life.end is not None else newest_of(life.timeline, streams)
    is_first = "w = 0" if life.begin is not None else "false"
    if kind == "landmark" and (life.end is None or life.is_partial):
        # The first that reaches the limit holds all rows, and so would every later one.
        return f"{ends} - {step} <= {limit} OR {is_first}"
    return "true" if life.end is None or life.is_partial else f"{ends} <= {limit}"


def newest_of(timeline: Timeline, streams: Collection[str]) -> str:
    """The time of the newest row of some base streams."""
    times = " UNION ALL ".join(f"SELECT {timeline.time_of('ts')} AS t FROM {name}" for name in sorted(streams))
    return f"(SELECT max(t) FROM ({times}))"


@st.composite
def row_windows(draw: st.DrawFn, life: Life, partition: str) -> Window:
    """A window that counts rows, in one sequence or in one for each value of a column; places are `_number` of `_total`."""
    kind = draw(st.sampled_from(["regular", "regular", "fixed", "landmark"]))
    size = draw(st.integers(1, 4))
    step = draw(st.integers(1, 4)) if kind == "regular" else size
    start, end = {"regular": (step, step), "fixed": (0, 0), "landmark": (0, size)}[kind]
    part = f"PARTITION BY {partition} " if partition else ""
    texts = {"regular": f"ROWS {size}, ADVANCE {step}", "fixed": f"FIXED ROW {size}", "landmark": f"LANDMARK ADVANCE {size} TUPLES"}
    clause = f"[{part}{texts[kind]}]" if kind == "regular" else f"[{texts[kind]}]"
    starts, ends = f"w * {start}", f"{size} + w * {end}"
    is_number = "w = 0" if kind == "fixed" else "w >= 0"
    inside = f"{is_number} AND _number >= {starts} AND _number < {ends}"
    answered = f"{ends} <= _total"
    if life.is_partial:
        answered = f"{ends} - {end} <= _total - 1 OR w = 0" if kind == "landmark" else "true"
    return Window(clause, starts, ends, inside, answered, kind if kind != "regular" or not partition else "partitioned")
