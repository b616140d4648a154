"""Split rows by shard, before the exchange: positions, punctuations, headers for every shard.

The same function packs a Spark task and a local batch, so both hosts take the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidPattern
from penstock.kernel.damage import BAD, CALENDAR
from penstock.kernel.packets import LAST, NOBODY, OVER, PAST, Packet, PacketKind
from penstock.kernel.promises import derive, unique_of
from penstock.kernel.row_filters import EntryFilter, EntryShedder, Unjudged
from penstock.kernel.spreading import by_shard, split_mark
from penstock.metadata.listed import ListedMarks, read_listed
from penstock.metadata.scoped import coded, read_statement
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.declarations import MOST_PARTITIONS, RowPolicy, StreamDeclaration
from penstock.model.elements import NEVER
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.scoped import ScopedPunctuation

#: System columns a host adds to the user's columns before packing.
TIME, PARTITION, POSITION, MARK, KEEP = "_time", "_partition", "_position", "_mark", "_keep"
#: Whether a column that must have a value, and that the entry does not have, has none.
MISSING = "_missing"
#: Number of a row among those that the task has read together; and before the names of columns that do not cross, because only
#: filters and shedders look at them.
ROW, READ = "_row", "_read:"
#: Their types; texts where nothing is said.
SYSTEM_TYPES = {TIME: pa.int64(), PARTITION: pa.int64(), POSITION: pa.int64(), KEEP: pa.bool_(), MISSING: pa.bool_()}

_NOT_SHOWN = (KEEP, PARTITION, MISSING, ROW)

#: Low bits of a position that name the source partition, where partitions count their own offsets.
_PARTITION_BITS = MOST_PARTITIONS.bit_length() - 1
_MOST_POSITIONS = 1 << 47

#: The greatest event time, and less its sign the smallest.
_MOST_TIME = 1 << 62


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
        source partition, for operators that do not care. `EVERYWHERE`: all rows go to all shards.
    weight
        The column of the entry that says how many rows each one stands for, now that some are shed; empty for none.
    """

    entry: str
    stream: StreamDeclaration
    columns: pa.Schema
    kept: tuple[tuple[str, str], ...]
    keys: tuple[str, ...] | None
    shards: int
    weight: str = ""

    @property
    def schema(self) -> Schema:
        return Schema.from_arrow(self.columns, f"stream '{self.stream.name}'")

    @property
    def closable(self) -> dict[str, str]:
        """Stream columns that punctuations may speak of, with their names here: those declared, or all where none is."""
        declared = self.stream.punctuations.columns if self.stream.punctuations is not None else ()
        known = {self.stream.schema[name].name for name in declared}
        return {old: new for old, new in self.kept if not known or old in known}


def pack(
    rows: pa.RecordBatch, route: Route, base: int, entry_filter: EntryFilter | None = None, shedder: EntryShedder | None = None
) -> Iterator[tuple[int, Packet]]:
    """Packets by shard for one record batch of a source partition (or of several, if a column names them).

    Whether rows are late is not known here: that depends on what earlier micro-batches promised, not on the rows, files or
    tasks beside them.

    Parameters
    ----------
    rows
        Entry columns, then the system columns that the host knows.
    base
        Position of the first row where the source has no positions of its own.
    entry_filter
        Judges rows that are sound, that the condition of the entry keeps, and that are not left out.
    shedder
        Leaves out some of the rows that the condition keeps. They are counted, and what is known from them passes: promises,
        how far time has come, values that are closed.
    """
    for partition, part, positions in _by_partition(rows, base):
        yield from _pack_partition(part, positions, route, partition, base, entry_filter, shedder)


def _by_partition(rows: pa.RecordBatch, base: int) -> Iterator[tuple[int, pa.RecordBatch, Int64s]]:
    """Rows and positions of each source partition, in the order of the positions; without rows nobody has said anything."""
    names = rows.schema.names
    positions = np.arange(base, base + rows.num_rows)
    if PARTITION not in names and POSITION not in names:
        yield 0, rows, positions
        return
    owners = int64s(pc.fill_null(rows.column(PARTITION), NOBODY)) if PARTITION in names else np.zeros(rows.num_rows, np.int64)
    if POSITION in names:
        offsets = int64s(pc.fill_null(rows.column(POSITION), -1))
        # Partitions count from zero each; positions of the stream must differ, or ties would have no order.
        own = (offsets << _PARTITION_BITS) | owners if PARTITION in names else offsets
        most = _MOST_POSITIONS if PARTITION in names else LAST
        owners = np.where((offsets >= 0) & (offsets < most), owners, NOBODY)
        positions = np.where(owners == NOBODY, positions, own)
    owners = np.where((owners >= 0) & (owners < MOST_PARTITIONS), owners, NOBODY)
    for owner in np.unique(owners).tolist() or [NOBODY if PARTITION in names else 0]:
        chosen = np.flatnonzero(owners == owner)
        if (np.diff(positions[chosen]) < 0).any():
            chosen = chosen[np.argsort(positions[chosen], kind="stable")]
        is_all = len(chosen) == rows.num_rows and (np.diff(chosen) == 1).all()
        yield owner, rows if is_all else rows.take(pa.array(chosen)), positions[chosen]


def _pack_partition(
    rows: pa.RecordBatch, positions: Int64s, route: Route, partition: int, base: int, entry_filter: EntryFilter | None,
    shedder: EntryShedder | None,
) -> Iterator[tuple[int, Packet]]:  # fmt: skip
    first, last = (int(positions[0]), int(positions[-1])) if len(positions) else (base, base - 1)
    found = _take_marks(rows, positions, route, partition)
    rows, positions = found.rows, found.positions
    good, bad = _sound(rows, route, partition)
    yield from _refused(rows, positions, bad, route, partition, first, found.unreadable)
    batch = _entry_batch(rows, positions, good, route, shedder.weight if route.weight and shedder is not None else 1.0)
    asked = _mask(rows, KEEP)[good]
    spared = _spared(batch, _looked_at(rows, good) if shedder is not None else {}, asked, partition, shedder)
    kept = spared
    unjudged: list[Unjudged] = []
    if entry_filter is not None:  # filters may cost a lot, so they see only what is not left out
        wanted = good.copy()
        wanted[good] = spared
        passed, unjudged = _filtered(rows, positions, wanted, entry_filter)
        kept = passed[good]
    yield from _unjudged(rows, positions, unjudged, route, partition, first)
    edges, derived, broken = derive(batch, route.stream, dict(route.kept), kept)
    edges |= _scope_edge(found.scopes, positions, route) | _time_edges(found, route)
    broken |= _after_listed(batch, found.listed, route)
    home = partition % route.shards
    shares = by_shard(batch.filter(kept & ~broken), route.keys, route.shards, home)
    unseen = unique_of(batch.filter(~kept), route.stream, dict(route.kept)) if not kept.all() else []
    said = _in_place([*_as_punctuations(found.listed, route), *found.marks, *derived], route)
    routed = _route_marks([*said, *unseen], route, home)
    newest = max(int(batch.ts.max(initial=NEVER)), found.newest)
    for shard in range(route.shards):
        yield shard, Packet(
            route.entry, PacketKind.ROWS, partition, first, shares.get(shard), newest, marks=tuple(routed.get(shard, ())),
            total=rows.num_rows + len(found.unreadable) if shard == home else 0,
            filtered=int((~asked | (spared & ~kept)).sum()) - sum(len(item.rows) for item in unjudged) if shard == home else 0,
            shed=int((asked & ~spared).sum()) if shard == home else 0, edges=edges, last=last,
        )  # fmt: skip
    # A row the query does not want is filtered, whatever else is wrong with it: shards would not see it either.
    if (kept & broken).any():
        for shard, share in by_shard(batch.filter(kept & broken), route.keys, route.shards, home).items():
            yield shard, Packet(route.entry, PacketKind.VIOLATING, partition, first, share)


def _spared(
    batch: Batch, more: Mapping[str, pa.Array], asked: npt.NDArray[np.bool_], partition: int, shedder: EntryShedder | None
) -> npt.NDArray[np.bool_]:
    """Of the rows that the query asks for, those that are not shed; a shedder may look at `more` columns."""
    if shedder is None or not asked.any():
        return asked
    columns = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True)) | dict(more)
    shown = replace(batch, rows=pa.RecordBatch.from_pydict(columns)) if more else batch
    found = asked.copy()
    found[asked] = shedder(shown.filter(asked), partition)
    return found


def _looked_at(rows: pa.RecordBatch, good: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Columns of the stream that do not cross, of the sound rows."""
    chosen = pa.array(good)
    return {name: rows.column(name).filter(chosen) for name in rows.schema.names if name.startswith(READ)}


def _in_place(marks: Sequence[Punctuation], route: Route) -> list[Punctuation]:
    """Punctuations where they stand among rows that have an order, else behind all rows of the micro-batch."""
    return list(marks) if route.stream.has_order else [replace(mark, pos=LAST) for mark in marks]


def _mask(rows: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    if name not in rows.schema.names:
        return np.ones(rows.num_rows, np.bool_)
    result: npt.NDArray[np.bool_] = pc.fill_null(rows.column(name), False).to_numpy(zero_copy_only=False)
    return result


def _sound(rows: pa.RecordBatch, route: Route, partition: int) -> tuple[npt.NDArray[np.bool_], dict[str, npt.NDArray[np.bool_]]]:
    """Usable rows, and masks of the others by reason; the first reason that holds counts."""
    reasons = {
        "malformed": _is_malformed(rows),
        "no-position": np.full(rows.num_rows, partition == NOBODY),
        "no-timestamp": rows.column(TIME).is_null().to_numpy(zero_copy_only=False),
        "bad-timestamp": _is_out_of_range(rows.column(TIME), route.stream.has_clock_time),
        "missing-value": _misses_a_value(rows, route),
    }
    good = np.ones(rows.num_rows, np.bool_)
    bad = {}
    for reason, mask in reasons.items():
        bad[reason] = mask & good
        good &= ~mask
    return good, {reason: mask for reason, mask in bad.items() if mask.any()}


def _is_out_of_range(times: pa.Array, is_clock: bool) -> npt.NDArray[np.bool_]:
    """Event times that leave no room for a window: sums with them would not fit 64 bits, and the last number means the end."""
    ts = int64s(pc.fill_null(times, 0))
    low, high = CALENDAR if is_clock else (-_MOST_TIME, _MOST_TIME)
    result: npt.NDArray[np.bool_] = (ts < low) | (ts > high)
    return result


def _is_malformed(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    if BAD not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    result: npt.NDArray[np.bool_] = rows.column(BAD).is_valid().to_numpy(zero_copy_only=False)
    return result


def _misses_a_value(rows: pa.RecordBatch, route: Route) -> npt.NDArray[np.bool_]:
    """Rows with NULL in a column declared NOT NULL, whether or not the query reads it."""
    missing = _mask(rows, MISSING) if MISSING in rows.schema.names else np.zeros(rows.num_rows, np.bool_)
    for source, entry in route.kept:
        if not route.stream.schema[source].nullable and rows.column(entry).null_count:
            missing |= rows.column(entry).is_null().to_numpy(zero_copy_only=False)
    return missing


def _entry_batch(rows: pa.RecordBatch, positions: Int64s, good: npt.NDArray[np.bool_], route: Route, weight: float) -> Batch:
    arrays = [
        pa.array(np.full(rows.num_rows, weight)) if item.name == route.weight else _as(rows.column(item.name), item.type)
        for item in route.columns
    ]
    columns = pa.RecordBatch.from_arrays(arrays, schema=route.columns)
    return Batch(columns, _times(rows), positions).filter(good)


def _times(rows: pa.RecordBatch) -> Int64s:
    """Event times; of rows without one it does not matter what stands there."""
    column = rows.column(TIME)
    return int64s(pc.fill_null(column, 0) if column.null_count else column)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Hosts hand over the same values under other types: time zones of the session, large strings."""
    return column if column.type == kind else column.cast(kind)


def _refused(
    rows: pa.RecordBatch, positions: Int64s, bad: Mapping[str, npt.NDArray[np.bool_]], route: Route, partition: int,
    first: int, bad_marks: Sequence[tuple[int, str]],
) -> Iterator[tuple[int, Packet]]:  # fmt: skip
    home, hidden = partition % route.shards, {*_NOT_SHOWN, route.weight}
    for reason, mask in bad.items():
        chosen = np.flatnonzero(mask)
        shown = rows.drop_columns([name for name in rows.schema.names if name in hidden or name.startswith(READ)])
        batch = Batch(shown.take(pa.array(chosen)), np.zeros(len(chosen), np.int64), positions[chosen])
        yield home, Packet(route.entry, PacketKind.BAD, partition, first, batch, reason=reason)
    if bad_marks:
        texts = pa.RecordBatch.from_pydict({"punctuation": [text for _, text in bad_marks]})
        where = np.array([position for position, _ in bad_marks], np.int64)
        batch = Batch(texts, np.zeros(len(where), np.int64), where)
        yield home, Packet(route.entry, PacketKind.BAD, partition, first, batch, reason="bad-punctuation")


def _filtered(
    rows: pa.RecordBatch, positions: Int64s, wanted: npt.NDArray[np.bool_], entry_filter: EntryFilter
) -> tuple[npt.NDArray[np.bool_], list[Unjudged]]:
    passed, unjudged = entry_filter(rows, _times(rows), positions, np.flatnonzero(wanted))
    found = np.zeros(rows.num_rows, np.bool_)
    found[passed] = True
    return found, unjudged


def _unjudged(
    rows: pa.RecordBatch, positions: Int64s, found: Sequence[Unjudged], route: Route, partition: int, first: int
) -> Iterator[tuple[int, Packet]]:
    """Rows that no filter could judge: nothing is wrong with them, but neither wanted nor unwanted they are set apart."""
    if not found:
        return
    columns = {item.name: rows.column(item.name) for item in route.columns}
    for name in rows.schema.names:
        if name.startswith(READ):
            columns.setdefault(name.removeprefix(READ), rows.column(name))
    shown, times = pa.RecordBatch.from_pydict(columns), _times(rows)
    for item in found:
        batch = Batch(shown.take(pa.array(item.rows)), times[item.rows], positions[item.rows])
        yield (
            partition % route.shards,
            Packet(route.entry, PacketKind.BAD, partition, first, batch, reason=item.reason, text=item.text),
        )


# -- punctuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marked:
    """Rows with their positions, and the punctuations that stood among them."""

    rows: pa.RecordBatch
    positions: Int64s
    #: Those of the simplest form, in columns.
    listed: Sequence[ListedMarks] = ()
    marks: Sequence[Punctuation] = ()
    scopes: Sequence[tuple[int, ScopedPunctuation]] = ()
    #: Position of each text that cannot be read, and what is wrong with it.
    unreadable: Sequence[tuple[int, str]] = ()
    #: Position and last time of statements that nothing up to a time follows.
    times: Sequence[tuple[int, int]] = ()
    #: Whether one says that nothing follows at all.
    is_over: bool = False
    #: The greatest event time in a row that is a punctuation.
    newest: int = NEVER


def _take_marks(rows: pa.RecordBatch, positions: Int64s, route: Route, partition: int) -> _Marked:
    """Embedded punctuations apart from rows. Records that did not parse, or that no partition sent, are rows: bad ones."""
    if MARK not in rows.schema.names or rows.column(MARK).null_count == rows.num_rows or partition == NOBODY:
        return _Marked(rows, positions)
    is_mark = rows.column(MARK).is_valid().to_numpy(zero_copy_only=False) & ~_is_malformed(rows)
    places = np.flatnonzero(is_mark)
    texts = rows.column(MARK).take(pa.array(places))
    listed, is_read = read_listed(texts, positions[places], route.stream.schema)
    marks: list[Punctuation] = []
    scopes: list[tuple[int, ScopedPunctuation]] = []
    unreadable: list[tuple[int, str]] = []
    times: list[tuple[int, int]] = []
    is_over = False
    for index in np.flatnonzero(~is_read).tolist():  # other forms are few; each becomes an object anyway
        text, position = texts[index].as_py(), int(positions[places[index]])
        try:
            said = _statement(text, route, position)
            if isinstance(said, Punctuation):
                is_over |= said.is_end_of_stream
                times += [(position, last) for last in _past(said, route.stream.timestamp)]
            mark = _about_entry(said, route)
            if isinstance(mark, ScopedPunctuation):
                scopes.append((position, mark))
            elif mark is not None:
                marks.append(mark)
        except InvalidPattern as found:
            if route.stream.punctuations is not None and route.stream.punctuations.on_bad is RowPolicy.ERROR:
                raise
            unreadable.append((position, f"{text}: {found.message}"))
    keep = np.flatnonzero(~is_mark)
    newest = _newest(rows.column(TIME).take(pa.array(places)), route.stream.has_clock_time)
    return _Marked(rows.take(pa.array(keep)), positions[keep], listed, marks, scopes, unreadable, times, is_over, newest)


def _newest(times: pa.Array, is_clock: bool) -> int:
    """How far rows that are punctuations show their partition to have come; those without a usable time show nothing."""
    known = times.filter(pa.array(~_is_out_of_range(times, is_clock))).drop_null()
    return int(int64s(known).max(initial=NEVER))


def _past(mark: Punctuation, timestamp: str) -> list[int]:
    """The last of the times up to which nothing follows, if the punctuation says that and nothing else."""
    ((name, pattern),) = restricted.items() if len(restricted := mark.restricted) == 1 else (("", None),)
    if pattern is None or name != timestamp or not pattern.is_range or pattern.lo is not None or pattern.hi is None:
        return []
    last = int(pattern.hi) if pattern.hi_inclusive else int(pattern.hi) - 1
    return [last] if -_MOST_TIME <= last <= _MOST_TIME else []


def _time_edges(found: _Marked, route: Route) -> dict[str, Any]:
    """What punctuations say about the stream's time, and whether one partition speaks for all."""
    is_global = route.stream.punctuations is not None and route.stream.punctuations.is_global
    place = (lambda position: position) if route.stream.has_order else (lambda _: LAST)
    past = [[last, place(position), is_global] for position, last in found.times]
    return ({PAST: past} if past else {}) | ({OVER: is_global} if found.is_over else {})


def _as_punctuations(listed: Sequence[ListedMarks], route: Route) -> list[Punctuation]:
    renamed = route.closable
    found = [item.punctuation(renamed[item.column]) for item in listed if item.column in renamed]
    is_global = route.stream.punctuations is not None and route.stream.punctuations.is_global
    return [replace(mark.extend(route.columns.names), is_global=is_global) for mark in found]


def _after_listed(batch: Batch, listed: Sequence[ListedMarks], route: Route) -> npt.NDArray[np.bool_]:
    """Rows that follow the punctuation of their value. Judged here, where every punctuation still has its own position."""
    renamed = route.closable
    wrong = np.zeros(batch.num_rows, np.bool_)
    for item in listed if route.stream.has_order else ():
        if item.column in renamed:
            wrong |= item.precede(batch.column(renamed[item.column]), batch.pos)
    return wrong


def _statement(text: str, route: Route, position: int) -> Punctuation | ScopedPunctuation:
    """A punctuation from its JSON text, in the stream's names."""
    stream = route.stream
    offset = position >> _PARTITION_BITS if stream.partition_column and stream.position_column else position
    return read_statement(text, stream.schema, f"stream '{stream.name}', position {offset}", position)


def _about_entry(found: Punctuation | ScopedPunctuation, route: Route) -> Punctuation | ScopedPunctuation | None:
    """A statement in the entry's names; None if it says nothing about the entry's columns."""
    is_global = route.stream.punctuations is not None and route.stream.punctuations.is_global
    if isinstance(found, Punctuation):
        return in_entry_names(found, route, is_global, route.closable)
    patterns = [in_entry_names(pattern, route, is_global, dict(route.kept)) for pattern in found.patterns]
    # What is said about a column that the entry does not have says nothing about the others.
    return None if None in patterns else replace(found, patterns=tuple(pattern for pattern in patterns if pattern is not None))


def _scope_edge(scopes: Sequence[tuple[int, ScopedPunctuation]], positions: Int64s, route: Route) -> dict[str, Any]:
    """The rows that have passed, and what is left of each scope behind them; for streams whose rows may carry scopes."""
    if route.stream.punctuations is None or not (scopes or len(positions)):
        return {}
    # Without order any row may have come behind the scope; the shards know how many there are.
    has_order = route.stream.has_order
    left = [scope.after(int(np.count_nonzero(positions > at))) if has_order else scope for at, scope in scopes]
    return {"scope:": [len(positions), [coded(scope) for scope in left]]}


def in_entry_names(mark: Punctuation, route: Route, is_global: bool, names: Mapping[str, str]) -> Punctuation | None:
    """The statement over the entry's columns; None if it restricts one that `names` does not have."""
    projected = mark.project(list(names))
    if projected is None:
        return None
    renamed = projected.rename(names).extend(route.columns.names)
    return Punctuation(renamed.names, renamed.patterns, renamed.ts, mark.pos, is_global or mark.is_global)


def _route_marks(marks: Iterable[Punctuation], route: Route, home: int) -> dict[int, list[Punctuation]]:
    """Constants to their shard, lists split, everything else to all shards; what says nothing is counted at home."""
    routed: dict[int, list[Punctuation]] = {}
    for mark in marks:
        shares = split_mark(mark, route.keys, route.shards, route.schema)
        for shard, share in [(home, mark)] if mark.is_empty else shares:
            routed.setdefault(shard, []).append(share)
    return routed
