"""A workload's stream as a source hands it out: which rows are due, in which ranges, with which columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

import pyarrow as pa

from penstock.errors import InvalidOption, UnknownName
from penstock.model.schema import Schema
from penstock.workloads.arrivals import parse_schedule
from penstock.workloads.base import ColumnarWorkload
from penstock.workloads.contracts import MARK, OFF, PART, START_US, Marks, Options, Rows, Workload
from penstock.workloads.disorder import Disorder
from penstock.workloads.table import workload_named
from penstock.workloads.texts import (
    read_as,
    read_choice,
    read_duration_us,
    read_flag,
    read_instant_us,
    read_number,
    read_whole,
)

#: Rows per record batch: large enough that fixed costs vanish, small enough that a few fit into a processor's cache.
CHUNK_ROWS = 65_536

#: Enough for a share of rows per tick that is exact to four digits.
_MANY_TICKS = 10_000_000

_FRACTIONS = ("late_fraction", "duplicate_fraction", "null_fraction", "bad_fraction")
_PACE = ("partitions", "total", "rows_per_batch", "max_rows_per_batch")
_STYLE = ("rate", "arrivals", "schedule", "seed", "start", "marks", "positions", "disorder", "late_by", *_FRACTIONS)


@dataclass(frozen=True, slots=True)
class Playback:
    """One stream of a workload and the pace at which it is handed out.

    Progress is counted in ticks of the workload's clock, so streams of one workload that are read with the same options
    stay together: `total`, `rows_per_batch` and `max_rows_per_batch` are ticks, that is rows of the workload's fastest
    streams, and proportionally fewer rows of a slower one.

    Parameters
    ----------
    partitions
        Source partitions.
    total
        Ticks after which the stream ends; 0 for a stream without end.
    rows_per_batch
        If not 0, every micro-batch gets exactly this many ticks whatever the time: runs are repeatable to the batch.
    max_rows_per_batch
        If not 0, most ticks a micro-batch gets when rows fall due by the clock.
    """

    workload: Workload
    stream: str
    options: Options
    partitions: int = 1
    total: int = 0
    rows_per_batch: int = 0
    max_rows_per_batch: int = 0

    def __post_init__(self) -> None:
        for name in ("total", "rows_per_batch", "max_rows_per_batch"):
            if getattr(self, name) < 0:
                raise InvalidOption(f"{getattr(self, name)} is negative; write 0 for no limit", name)
        if self.partitions < 1:
            raise InvalidOption(f"{self.partitions} source partitions hold no rows; there must be at least 1", "partitions")

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Playback:
        """Read options as they stand in a declaration; unknown names are refused with the nearest one.

        The stream may be given in one word with the workload: `auction.bid`.

        Examples
        --------
        >>> feed = Playback.from_text({"workload": "pairs", "stream": "left", "total": "1000", "keys": "10"})
        >>> feed.schema.names, feed.end
        (('id', 'key', 'value', 'ts'), 1000)
        """
        name, _, stream_in_name = _required(texts, "workload").partition(".")
        kind = workload_named(name)
        parameters = {item.name for item in fields(kind)}  # type: ignore[arg-type]
        known = ("workload", "stream", *_PACE, *_STYLE, *sorted(parameters))
        for name in texts:
            if name not in known:
                raise UnknownName("the feed", "option", name, known, f"workload '{kind.name}'")
        hints = get_type_hints(kind)
        workload = kind(**{name: read_as(hints[name], name, texts[name]) for name in parameters & set(texts)})
        stream = texts.get("stream", stream_in_name).strip() or _only_stream(workload)
        pace = {name: read_whole(name, texts[name]) for name in _PACE if name in texts}
        return cls(workload, stream, _read_style(workload, texts), **pace).checked()

    def checked(self) -> Playback:
        """Raise now what the first row would raise: unknown stream, marks where there are none."""
        self.workload.generate(self.stream, 0, self.partitions, 0, 1, self.options)
        return self

    @property
    def schema(self) -> Schema:
        return self.workload.schema(self.stream, self.options)

    @property
    def rows_per_second(self) -> float:
        """Rows of this stream per second on average; the option `rate` counts ticks of the workload's clock."""
        return self.options.rate * self.rows_at(_MANY_TICKS) / _MANY_TICKS

    @property
    def end(self) -> int | None:
        """Tick at which the stream ends."""
        return self.total or None

    def due(self, elapsed_us: int) -> int:
        """Ticks due after this time, at most to the end of the stream."""
        due = self.workload.ticks_due(self.stream, elapsed_us, self.options)
        return min(due, self.total) if self.total else due

    def next_tick(self, start: int, elapsed_us: int, max_rows: int | None = None) -> int:
        """Where the next micro-batch ends.

        Parameters
        ----------
        start
            Where it begins.
        elapsed_us
            Time since the stream began.
        max_rows
            Most rows of this stream that may be read; None for no limit.
        """
        stop = start + self.rows_per_batch if self.rows_per_batch else self.due(elapsed_us)
        if self.total:
            stop = min(stop, self.total)
        if max_rows is not None:
            stop = min(stop, self.workload.ticks_of(self.stream, self.rows_at(start) + max_rows))
        # Ticks without a row of this stream must not start a micro-batch, unless batches are counted.
        has_news = self.rows_per_batch or self.rows_at(stop) > self.rows_at(start)
        return max(stop, start) if has_news else start

    def rows_at(self, tick: int) -> int:
        """Rows of this stream before a tick."""
        return self.workload.rows_at(self.stream, tick)

    def ranges(self, start: int, stop: int) -> list[Rows]:
        """Offsets of each source partition between two ticks; partitions without rows are left out."""
        first, last = self.rows_at(start), self.rows_at(stop)
        spans = ((part, self._offset(first, part), self._offset(last, part)) for part in range(self.partitions))
        return [Rows(part, self.partitions, low, high) for part, low, high in spans if low < high]

    def _offset(self, rows: int, part: int) -> int:
        return max(-(-(rows - part) // self.partitions), 0)

    def batches(self, rows: Rows, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, in pieces of at most `CHUNK_ROWS`, with the columns and types of `schema`."""
        wanted = self.schema.arrow if schema is None else schema
        source = self.providing(wanted.names)
        for start in range(rows.start, rows.stop, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, rows.stop)
            made = source.workload.generate(self.stream, rows.part, rows.partitions, start, stop, source.options)
            yield _fitted(made, source.schema, wanted)

    def providing(self, names: list[str]) -> Playback:
        """The same stream with the position columns if these names ask for them."""
        asked = {name.lower() for name in names}
        if self.options.with_positions or not asked & {PART, OFF}:
            return self
        return replace(self, options=replace(self.options, with_positions=True))


def _fitted(made: pa.RecordBatch, schema: Schema, wanted: pa.Schema) -> pa.RecordBatch:
    if made.schema.equals(wanted):
        return made
    columns = []
    for item in wanted:
        if item.name.lower() == MARK and item.name not in schema:
            # A declaration may always have the column; without punctuations it is empty.
            columns.append(pa.nulls(made.num_rows, item.type))
            continue
        column = made.column(schema.index(item.name))
        try:
            columns.append(column if column.type == item.type else column.cast(item.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidOption(
                f"column '{item.name}' of {schema.owner} is {column.type} and cannot be read as {item.type}", "schema"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _required(texts: Mapping[str, str], name: str) -> str:
    if name not in texts:
        raise InvalidOption(f"the option '{name}' is missing", "feed")
    return texts[name].strip()


def _only_stream(workload: Workload) -> str:
    names = list(workload.streams)
    if len(names) > 1:
        raise InvalidOption(f"workload '{workload.name}' has the streams {', '.join(names)}; choose one", "stream")
    return names[0]


def _read_style(workload: ColumnarWorkload, texts: Mapping[str, str]) -> Options:
    seed = read_whole("seed", texts.get("seed", "1"))
    arrivals = read_choice("arrivals", texts.get("arrivals", "constant"), ("constant", "poisson"))
    marks = read_choice("marks", texts.get("marks", "none"), tuple(Marks))
    options = Options(
        rate=read_number("rate", texts["rate"]) if "rate" in texts else workload.default_rate,
        is_poisson=arrivals == "poisson",
        schedule=parse_schedule(texts.get("schedule", "")),
        seed=seed,
        start_us=read_instant_us("start", texts["start"]) if "start" in texts else START_US,
        marks=Marks(marks),
        with_positions=read_flag("positions", texts.get("positions", "false")),
        disorder=_read_disorder(seed, texts),
    )
    return options


def _read_disorder(seed: int, texts: Mapping[str, str]) -> Disorder:
    values: dict[str, Any] = {name: read_number(name, texts[name]) for name in _FRACTIONS if name in texts}
    if "disorder" in texts:
        values["bound_us"] = read_duration_us("disorder", texts["disorder"])
    if "late_by" in texts:
        values["late_us"] = read_duration_us("late_by", texts["late_by"])
    return Disorder(seed=seed, **values)
