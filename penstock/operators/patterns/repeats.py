"""Rows that tell of an event once more."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.columnar.codes import Bools, group_codes, shared, validity
from penstock.expressions.event_queries import EventQuery
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import NEVER
from penstock.model.event_patterns import EventOrder
from penstock.operators.patterns._repeats import first_of_each
from penstock.operators.segments import SegmentLog
from penstock.operators.union import input_of

#: Stored beside key and event: when the event was last met, and when its trace was last active.
_LAST, _ACTIVE = pa.field("_last", pa.int64()), pa.field("_active", pa.int64())


class Repeats:
    """Lets the first row of each event of a trace through.

    A source that delivers at least once sends some rows again. Where a column names the event, a row is passed over if one of
    the same name came before it in its trace; with a window, if one came no longer than the window before it. Rows without a
    name are events of their own.

    Parameters
    ----------
    query
        Tells key, name of events, and what ends a trace.
    schema
        Columns of the rows.
    streams
        Streams that were merged. Their positions do not tell whose row came first, so at one time rows of earlier streams do.

    Notes
    -----
    It keeps the names of a window, or of the traces under way.

    Examples
    --------
    >>> from penstock.model.event_patterns import seq
    >>> rows = pa.RecordBatch.from_pydict({"id": [1, 1, 2], "name": ["x", "x", "x"]})
    >>> repeats = Repeats(EventQuery(seq("A", "B"), ("id",), within=5, id_column="name"), rows.schema)
    >>> batch = Batch(rows, np.array([1, 2, 3]), np.arange(3))
    >>> repeats.without(batch, np.zeros(3, np.int64), frontier=4).rows.to_pylist()
    [{'id': 1, 'name': 'x'}, {'id': 2, 'name': 'x'}]
    """

    def __init__(self, query: EventQuery, schema: pa.Schema, streams: int = 1) -> None:
        self.query, self.passed_over, self._streams = query, 0, streams
        self._names = [*query.key, query.id_column]
        self._schema = pa.schema([*(schema.field(name) for name in self._names), _LAST, _ACTIVE])
        self._known = pa.RecordBatch.from_pylist([], self._schema)
        self.log, self._is_written = SegmentLog("events"), True

    def without(self, rows: Batch, classes: Int64s, frontier: int) -> Batch:
        """The rows that are the first of their event; no earlier ones than the frontier will come."""
        held = self._known.num_rows
        if not held and not rows.num_rows:
            return rows
        if self._streams > 1:
            order = np.lexsort((rows.pos, input_of(rows.pos, self._streams), rows.ts))
            rows, classes = rows.take(order), classes[order]
        columns = [pa.concat_arrays([self._known.column(name), rows.column(name)]) for name in self._names]
        keys, _, number = group_codes(columns[:-1], held + rows.num_rows)
        events, of_event, named = group_codes(columns)
        last, active = np.full(named, NEVER, np.int64), np.full(number, NEVER, np.int64)
        last[events[:held]] = int64s(self._known.column(_LAST.name))
        active[keys[:held]] = int64s(self._known.column(_ACTIVE.name))
        ttl, within = (-1 if span is None else span for span in (self.query.trace_ttl, self.query.within))
        owners, is_named = keys[of_event], validity(columns[-1])
        is_first, goes_on = first_of_each(
            keys[held:], events[held:], shared(is_named[held:]), shared(rows.ts), shared(classes), owners, last, active,
            within, ttl, self.query.order is EventOrder.TOTAL,
        )  # fmt: skip
        kept = np.flatnonzero(goes_on & self._may_matter(is_named[of_event], last, active, owners, frontier))
        taken = [column.take(pa.array(of_event[kept])) for column in columns]
        times = [pa.array(last[kept]), pa.array(active[owners[kept]])]
        self._known, self._is_written = pa.RecordBatch.from_arrays([*taken, *times], schema=self._schema), False
        self.passed_over += int(np.count_nonzero(~is_first))
        first = rows.filter(is_first)
        return first if self._streams == 1 else first.in_order()

    def _may_matter(self, is_named: Bools, last: Int64s, active: Int64s, owners: Int64s, frontier: int) -> Bools:
        """Events that a later row may repeat; where silence ends traces also one of each trace, that tells when it was active."""
        found = is_named
        if self.query.within is not None:
            found = found & (last >= frontier - self.query.within)
        if self.query.trace_ttl is not None:
            newest = np.full(len(active), NEVER, np.int64)
            np.maximum.at(newest, owners, last)
            found = (found | (last == newest[owners])) & (active[owners] >= frontier - self.query.trace_ttl)
        return found

    def write(self) -> None:
        """Bring the segment up to date, before it is read."""
        if not self._is_written:
            self._is_written = True
            self.log.clear()
            if self._known.num_rows:
                self.log.add(self._known)

    def reload(self, next_number: int, segments: Mapping[str, pa.RecordBatch]) -> None:
        self.log.reload(next_number, segments)
        self._known, self._is_written = self.log.whole(self._schema), True
