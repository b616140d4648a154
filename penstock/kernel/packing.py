"""Split rows by shard, before the exchange: positions, lateness within the task, punctuations, headers for every shard.

The same function packs a Spark task and a local batch, so both hosts take the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columnar.hashing import hash_columns
from penstock.errors import InvalidPattern
from penstock.kernel.packets import Packet, PacketKind
from penstock.metadata.derivation import ClusteredAttribute
from penstock.metadata.embedded import read_punctuation
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.declarations import ConstraintKind, RowPolicy, StreamDeclaration
from penstock.model.elements import NEVER
from penstock.model.patterns import one_of
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema

#: System columns a host adds to the user's columns before packing.
TIME, PARTITION, POSITION, MARK, BAD, KEEP = "_time", "_partition", "_position", "_mark", "_bad", "_keep"


@dataclass(frozen=True, slots=True)
class Route:
    """How the rows of one stream enter one stage.

    Parameters
    ----------
    columns
        Columns of the entry.
    kept
        (stream column, entry column) for every column that is handed on unchanged: only of these can punctuations speak.
    keys
        Entry columns whose hash chooses the shard. None of them: everything goes to the first shard. None: rows go by
        source partition, for operators that do not care.
    """

    entry: str
    stream: StreamDeclaration
    columns: pa.Schema
    kept: tuple[tuple[str, str], ...]
    keys: tuple[str, ...] | None
    shards: int

    @property
    def schema(self) -> Schema:
        return Schema.from_arrow(self.columns, f"stream '{self.stream.name}'")


def pack(rows: pa.RecordBatch, route: Route, base: int, sequence: int = 0) -> Iterator[tuple[int, Packet]]:
    """Packets by shard for one record batch of a source partition (or of several, if a column names them).

    Parameters
    ----------
    rows
        Entry columns, then the system columns that the host knows.
    base
        Position of the first row where the source has no positions of its own.
    """
    for partition, part, first in _by_partition(rows):
        yield from _pack_partition(part, route, partition, base + first, sequence)


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    if PARTITION not in rows.schema.names:
        yield 0, rows, 0
        return
    ids = int64s(pc.fill_null(rows.column(PARTITION), 0))
    values, firsts = np.unique(ids, return_index=True)
    for value, first in zip(values.tolist(), firsts.tolist(), strict=True):
        part = rows if len(values) == 1 else rows.filter(pa.array(ids == value))
        yield value, part, first


def _pack_partition(rows: pa.RecordBatch, route: Route, partition: int, base: int, sequence: int) -> Iterator[tuple[int, Packet]]:
    total = rows.num_rows
    marks, rows, positions, bad_marks = _take_marks(rows, route, base)
    good, bad = _sound(rows)
    yield from _refused(rows, positions, bad, route, partition, sequence, bad_marks)
    batch = _entry_batch(rows, positions, good, route)
    kept = _mask(rows, KEEP)[good]
    late = _late_within_task(batch.ts, route.stream.disorder)
    newest = int(batch.ts.max()) if batch.num_rows else NEVER
    edges, derived = _derive(batch, route)
    filtered = int((~kept & ~late).sum())
    refused = batch.filter(late) if late.any() else None
    usable = batch.filter(kept & ~late)
    home = partition % route.shards
    shares = by_shard(usable, route.keys, route.shards, home)
    routed = _route_marks([*marks, *derived], route)
    for shard in range(route.shards):
        yield shard, Packet(
            route.entry, PacketKind.ROWS, partition, sequence, shares.get(shard), newest, marks=tuple(routed.get(shard, ())),
            total=total if shard == home else 0, filtered=filtered if shard == home else 0, edges=edges,
        )  # fmt: skip
    if refused is not None:
        yield home, Packet(route.entry, PacketKind.LATE, partition, sequence, refused, reason="late")


def _mask(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    if name not in rows.schema.names:
        return np.ones(rows.num_rows, np.bool_)
    result: npt.NDArray[np.bool_] = pc.fill_null(rows.column(name), False).to_numpy(zero_copy_only=False)
    return result


def _sound(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.bool_], dict[str, npt.NDArray[np.bool_]]]:
    """Usable rows, and masks of the others by reason."""
    untimed = rows.column(TIME).is_null().to_numpy(zero_copy_only=False)
    malformed = np.zeros(rows.num_rows, np.bool_)
    if BAD in rows.schema.names:
        malformed = rows.column(BAD).is_valid().to_numpy(zero_copy_only=False)
    untimed = untimed & ~malformed
    reasons = {"malformed": malformed, "no-timestamp": untimed}
    return ~(malformed | untimed), {reason: mask for reason, mask in reasons.items() if mask.any()}


def _entry_batch(rows: pa.RecordBatch, positions: Int64s, good: npt.NDArray[np.bool_], route: Route) -> Batch:
    columns = pa.RecordBatch.from_arrays([rows.column(name) for name in route.columns.names], schema=route.columns)
    if good.all():
        return Batch(columns, int64s(rows.column(TIME)), positions)
    ts = int64s(pc.fill_null(rows.column(TIME), 0))
    return Batch(columns, ts, positions).filter(good)


def _late_within_task(ts: Int64s, disorder: int) -> npt.NDArray[np.bool_]:
    """Rows older than an earlier row of the task by more than the declared bound: a broken promise, however batches are cut."""
    if len(ts) < 2:
        return np.zeros(len(ts), np.bool_)
    newest_before = np.concatenate(([ts[0]], np.maximum.accumulate(ts)[:-1]))
    result: npt.NDArray[np.bool_] = ts < newest_before - disorder
    return result


def _refused(
    rows: pa.RecordBatch, positions: Int64s, bad: Mapping[str, npt.NDArray[np.bool_]], route: Route, partition: int,
    sequence: int, bad_marks: Sequence[tuple[int, str]],
) -> Iterator[tuple[int, Packet]]:  # fmt: skip
    home = partition % route.shards
    for reason, mask in bad.items():
        chosen = np.flatnonzero(mask)
        shown = rows.drop_columns([name for name in (KEEP, PARTITION) if name in rows.schema.names])
        batch = Batch(shown.take(pa.array(chosen)), np.zeros(len(chosen), np.int64), positions[chosen])
        yield home, Packet(route.entry, PacketKind.BAD, partition, sequence, batch, reason=reason)
    if bad_marks:
        texts = pa.RecordBatch.from_pydict({"punctuation": [text for _, text in bad_marks]})
        where = np.array([position for position, _ in bad_marks], np.int64)
        batch = Batch(texts, np.zeros(len(where), np.int64), where)
        yield home, Packet(route.entry, PacketKind.BAD, partition, sequence, batch, reason="bad-punctuation")


def by_shard(batch: Batch, keys: tuple[str, ...] | None, shards: int, home: int) -> dict[int, Batch]:
    """Rows of each shard that gets any; their order is kept."""
    if not batch.num_rows:
        return {}
    if shards == 1 or not keys:
        return {0 if keys is not None else home: batch}
    numbers = shard_of([batch.column(key) for key in keys], batch.num_rows, shards)
    order = np.argsort(numbers, kind="stable")
    ordered = batch.take(order)
    bounds = np.searchsorted(numbers[order], np.arange(shards + 1)).tolist()
    return {
        shard: ordered.slice(bounds[shard], bounds[shard + 1] - bounds[shard])
        for shard in range(shards)
        if bounds[shard + 1] > bounds[shard]
    }


def shard_of(columns: Sequence[pa.Array], rows: int, shards: int) -> Int64s:
    """Shard of each row; the upper bits are used because join segments are sorted by the whole hash."""
    result: Int64s = ((hash_columns(columns, rows) >> np.uint64(33)) % np.uint64(shards)).astype(np.int64)
    return result


# -- punctuations ----------------------------------------------------------------------------------------------------


def _take_marks(
    rows: pa.RecordBatch, route: Route, base: int
) -> tuple[list[Punctuation], pa.RecordBatch, Int64s, list[tuple[int, str]]]:
    """Embedded punctuations, the remaining rows, the positions of these, and marks that cannot be read."""
    if POSITION in rows.schema.names:
        positions = int64s(pc.fill_null(rows.column(POSITION), 0))
    else:
        positions = np.arange(base, base + rows.num_rows, dtype=np.int64)
    if MARK not in rows.schema.names or rows.column(MARK).null_count == rows.num_rows:
        return [], rows, positions, []
    is_mark = rows.column(MARK).is_valid().to_numpy(zero_copy_only=False)
    marks, unreadable = [], []
    for index in np.flatnonzero(is_mark).tolist():  # punctuations are few; each becomes an object anyway
        text = rows.column(MARK)[index].as_py()
        try:
            marks.append(read_mark(text, route, int(positions[index])))
        except InvalidPattern as found:
            if route.stream.punctuations is not None and route.stream.punctuations.on_bad is RowPolicy.ERROR:
                raise
            unreadable.append((int(positions[index]), f"{text}: {found.message}"))
    present = [mark for mark in marks if mark is not None]
    keep = np.flatnonzero(~is_mark)
    return present, rows.take(pa.array(keep)), positions[keep], unreadable


def read_mark(text: str, route: Route, position: int) -> Punctuation | None:
    """A punctuation from its JSON text, in the entry's names; None if it says nothing about the entry's columns."""
    stream = route.stream
    is_global = stream.punctuations is not None and stream.punctuations.is_global
    where = f"stream '{stream.name}', position {position}"
    return in_entry_names(read_punctuation(text, stream.schema, where, position), route, is_global)


def in_entry_names(mark: Punctuation, route: Route, is_global: bool) -> Punctuation | None:
    projected = mark.project([old for old, _ in route.kept])
    if projected is None or projected.is_empty:
        return None
    renamed = projected.rename(dict(route.kept)).extend(route.columns.names)
    return Punctuation(renamed.names, renamed.patterns, renamed.ts, mark.pos, is_global or mark.is_global)


def _route_marks(marks: Iterable[Punctuation], route: Route) -> dict[int, list[Punctuation]]:
    """Constants to their shard, lists split, everything else to all shards."""
    routed: dict[int, list[Punctuation]] = {}
    for mark in marks:
        for shard, share in split_mark(mark, route.keys, route.shards, route.schema):
            routed.setdefault(shard, []).append(share)
    return routed


def split_mark(mark: Punctuation, keys: tuple[str, ...] | None, shards: int, schema: Schema) -> Iterator[tuple[int, Punctuation]]:
    if keys == () or shards == 1:
        yield 0, mark
        return
    if keys is not None and len(keys) == 1 and mark.pattern(keys[0]).values:
        key = keys[0]
        values = mark.pattern(key).values
        kind = schema[key].type
        array = pa.array(list(values), pa.int64() if pa.types.is_timestamp(kind) else kind)
        homes = shard_of([array], len(values), shards)
        for shard in np.unique(homes).tolist():
            mine = [value for value, home in zip(values, homes.tolist(), strict=True) if home == shard]
            yield shard, mark.narrowed(key, one_of(mine))
        return
    for shard in range(shards):
        yield shard, mark


def _derive(batch: Batch, route: Route) -> tuple[dict[str, Any], list[Punctuation]]:
    """What declared constraints say about this task's rows; a shard adds what they say across tasks."""
    edges: dict[str, Any] = {}
    marks: list[Punctuation] = []
    renamed = dict(route.kept)
    for constraint in route.stream.constraints:
        column = renamed.get(route.stream.schema[constraint.column].name)
        if column is None or not batch.num_rows or constraint.kind is ConstraintKind.UNIQUE:
            continue
        values = batch.column(column)
        if constraint.kind is ConstraintKind.ORDERED:
            greatest = pc.max(values)
            edges[f"ordered:{column}"] = _plain(greatest)
        else:
            edges[f"clustered:{column}"] = [_plain(values[0]), _plain(values[len(values) - 1])]
            marks += ClusteredAttribute(column).derive(batch.rows, batch.pos)
    return edges, marks


def _plain(value: pa.Scalar) -> Any:
    if pa.types.is_timestamp(value.type):
        return value.value
    return value.as_py()
