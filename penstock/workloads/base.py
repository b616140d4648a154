"""The part all workloads share: from a range of offsets to a record batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption, UnknownName
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Field, Schema
from penstock.workloads.coins import Flags
from penstock.workloads.contracts import MARK, OFF, PART, Marks, Options, Rows

#: Values of a stream's own columns, by name: NumPy for numbers, Arrow for text.
Columns = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamShape:
    """What the shared part must know of a stream.

    Parameters
    ----------
    key, timestamp
        Columns that hold the key (for null keys) and the event time.
    ticks
        Ticks of the clock per row; per `rows` rows if these are several.
    clock
        Streams with the same clock have the same arrival times.
    has_marks
        Whether the stream knows when values are finished.
    rows, first
        Of every `ticks` ticks so many in a row bring a row each, from tick `first` on.

    Examples
    --------
    >>> bids = StreamShape(Schema.of(price=pa.int64()), "price", "ts", clock="nexmark", ticks=50, rows=46, first=4)
    >>> bids.tick_of(np.array([0, 45, 46])).tolist(), bids.rows_before(50)
    ([4, 49, 54], 46)
    """

    schema: Schema
    key: str
    timestamp: str
    clock: str
    ticks: int = 1
    has_marks: bool = False
    rows: int = 1
    first: int = 0

    def tick_of(self, index: Int64s) -> Int64s:
        """The tick that brings each row."""
        if self.rows == 1:
            return index * self.ticks + self.first
        return index // self.rows * self.ticks + self.first + index % self.rows

    def rows_before(self, tick: int) -> int:
        """How many rows come before a tick."""
        cycles, rest = divmod(tick, self.ticks)
        return cycles * self.rows + min(max(rest - self.first, 0), self.rows)


class ColumnarWorkload(ABC):
    """A workload given by the values of row i: a subclass knows nothing about offsets, times or faults."""

    name: ClassVar[str]
    default_rate: ClassVar[float]

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, StreamShape]:
        """The streams."""

    @abstractmethod
    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        """Columns of these rows, without the event time."""

    def mark_flags(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> Flags:
        """Which offsets of a source partition hold a punctuation; the same in each partition."""
        return np.zeros(len(offsets), np.bool_)

    def mark_texts(self, stream: str, offsets: Int64s, partitions: int, options: Options) -> pa.Array:
        """Texts of the punctuations at these offsets."""
        return pa.nulls(len(offsets), pa.string())

    @property
    def streams(self) -> Mapping[str, Schema]:
        return {name: shape.schema for name, shape in self.shapes.items()}

    def shape(self, stream: str) -> StreamShape:
        shape = self.shapes.get(stream)
        if shape is None:
            raise UnknownName(f"workload '{self.name}'", "stream", stream, self.shapes)
        return shape

    def schema(self, stream: str, options: Options) -> Schema:
        shape = self.shape(stream)
        added = [Field(PART, pa.int32()), Field(OFF, pa.int64())] if options.with_positions else []
        if options.marks is not Marks.NONE:
            if not shape.has_marks:
                raise InvalidOption(
                    f"stream '{stream}' of workload '{self.name}' embeds no punctuations; leave out the option, "
                    f"or declare what is known of its columns (unique, clustered, ordered)",
                    "marks",
                )
            added.append(Field(MARK, pa.string()))
        return Schema((*shape.schema.fields, *added), f"{self.name}.{stream}")

    def rows_at(self, stream: str, ticks: int) -> int:
        return self.shape(stream).rows_before(ticks)

    def ticks_of(self, stream: str, rows: int) -> int:
        return int(self.shape(stream).tick_of(np.array(rows)))

    def ticks_due(self, stream: str, elapsed_us: int, options: Options) -> int:
        return options.arrivals(self.shape(stream).clock).due(elapsed_us)

    def rows_due(self, stream: str, elapsed_us: int, options: Options) -> int:
        return self.rows_at(stream, self.ticks_due(stream, elapsed_us, options))

    def generate(self, stream: str, partition: int, partitions: int, start: int, stop: int, options: Options) -> pa.RecordBatch:
        shape, schema = self.shape(stream), self.schema(stream, options)
        rows = Rows(partition, partitions, start, stop)
        content = self._content(stream, rows, options)
        arrays = {n: _array(v, schema[n].type) for n, v in self.values(stream, content, options).items()}
        arrays[shape.timestamp] = _clock_array(self._event_times(shape, content, options))
        arrays = _with_faults(shape, arrays, content, options)
        if options.marks is not Marks.NONE:
            arrays = self._with_marks(stream, arrays, rows, options)
        if options.with_positions:
            arrays[PART] = pa.array(np.full(stop - start, partition, np.int32))
            arrays[OFF] = pa.array(rows.offsets)
        return pa.RecordBatch.from_arrays([arrays[item.name] for item in schema], schema=schema.arrow)

    def _content(self, stream: str, rows: Rows, options: Options) -> Int64s:
        """Number of the row whose values each row shows."""
        if not options.disorder.duplicate_fraction:
            return rows.index
        fixed = np.zeros(rows.stop - rows.start, np.bool_)
        if options.marks is not Marks.NONE:
            # Punctuations and the rows after them: repeating across a punctuation could break what it says.
            for offsets in (rows.offsets, rows.offsets - 1):
                fixed |= self.mark_flags(stream, offsets, rows.partitions, options)
        return options.disorder.originals(rows.index, rows.partitions, fixed)

    def _with_marks(self, stream: str, arrays: dict[str, pa.Array], rows: Rows, options: Options) -> dict[str, pa.Array]:
        """Punctuation rows carry their time and nothing else; faults do not touch them."""
        shape = self.shape(stream)
        flags = self.mark_flags(stream, rows.offsets, rows.partitions, options)
        texts = self.mark_texts(stream, rows.offsets[flags], rows.partitions, options)
        arrivals = _clock_array(self._arrival_times(shape, rows.index, options) + options.start_us)
        result = {name: _without(array, flags) for name, array in arrays.items()}
        result[shape.timestamp] = pc.if_else(pa.array(flags), arrivals, arrays[shape.timestamp])
        result[MARK] = pc.replace_with_mask(pa.nulls(len(flags), pa.string()), pa.array(flags), texts)
        return result

    def _arrival_times(self, shape: StreamShape, index: Int64s, options: Options) -> Int64s:
        return options.arrivals(shape.clock).at(shape.tick_of(index))

    def _event_times(self, shape: StreamShape, index: Int64s, options: Options) -> Int64s:
        arrivals = self._arrival_times(shape, index, options)
        return options.disorder.event_times(arrivals, index) + options.start_us


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _clock_array(micros: Int64s) -> pa.Array:
    return pa.array(micros).view(TIMESTAMP)


def _without(array: pa.Array, flags: Flags) -> pa.Array:
    """NULL where flagged."""
    return pc.if_else(pa.array(flags), pa.scalar(None, array.type), array) if flags.any() else array


def _with_faults(shape: StreamShape, arrays: dict[str, pa.Array], index: Int64s, options: Options) -> dict[str, pa.Array]:
    disorder, faulty = options.disorder, dict(arrays)
    if disorder.null_fraction:
        faulty[shape.key] = _without(arrays[shape.key], disorder.null_keys(index))
    if disorder.bad_fraction:
        faulty[shape.timestamp] = _without(arrays[shape.timestamp], disorder.bad_rows(index))
    return faulty
