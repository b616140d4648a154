"""Outer, semi and anti joins of two streams with windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from penstock.columnar.hashing import UInt64s, mix_positions
from penstock.expressions.evaluate import mask
from penstock.expressions.nodes import Expr, columns_of
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import FOREVER, Elements, End, Metadata
from penstock.model.join_kinds import JoinKind
from penstock.model.schema import Schema
from penstock.model.windows import Lifespan, Window
from penstock.operators.joins.forgetting.extents import FramedExtents, each_window
from penstock.operators.joins.matching.combinations import OUTPUT_ROWS, Combination
from penstock.operators.joins.storing.debts import Debts
from penstock.operators.joins.storing.preserved_rows import PreservedRows
from penstock.operators.joins.storing.row_store import Run
from penstock.operators.joins.window_join import JoinOptions, WindowJoin

#: Rows of one input, their places in a batch, and the windows they are answers in.
Alone = tuple[Batch, Int64s, Int64s | None]


class PreservingJoin(WindowJoin):
    """A window join that also answers with rows that find no partner, or with the rows of one input only.

    Pairs are emitted at once, as by `WindowJoin`. A row without partner (NULL-extended in outer joins, alone in an anti
    join) is emitted as soon as it is proven that none can come: its window has passed the other input's frontier, the other
    input has closed its key, or has ended; never before, and once. A row of a semi join is emitted with its first partner.
    Rows with a NULL key have no partner, which is known at once. A pair counts only if the residual condition holds.

    In numbered windows all this holds window by window: a row is an answer without partner in each window in which it has
    none.

    Parameters
    ----------
    kind
        Any but inner.
    options
        As of `WindowJoin`. A trusted row without partner among what is stored is answered alone at once: it is not stored, so
        it cannot find one later.

    Notes
    -----
    A row emitted alone has its own event time, which is older than the frontier that proved it; so the output's frontier
    stays behind the oldest stored row whose answer is open. Without this an aggregate behind the join would close too early.

    Whether a row has found a partner is one bit beside the immutable run that holds it, see `PreservedRows`. Rows of semi and
    anti joins leave with their first partner.
    """

    def __init__(
        self,
        kind: JoinKind,
        schemas: Sequence[pa.Schema],
        keys: Sequence[Sequence[str]],
        windows: Sequence[Window],
        output_schema: pa.Schema,
        residual: Expr | None = None,
        life: Lifespan | None = None,
        **options: Unpack[JoinOptions],
    ) -> None:
        self.kind = kind
        super().__init__(schemas, keys, windows, output_schema, residual, life, **options)
        self._schemas = tuple(schemas)
        for port in kind.watched:
            self._rows[port] = self._watched_rows(port)
        self._counts["unmatched"] = 0
        #: Columns the residual condition reads, by input; a batch needs at least one to know its number of rows.
        self._read = [_columns_read(residual, schema) for schema in schemas]
        if not any(self._read):
            self._read[0] = [0]

    def _watched_rows(self, port: int) -> PreservedRows:
        rows = self._rows[port]
        return PreservedRows(
            rows.name, rows.keys, self._useful_until(port), lambda ts: self._debts(port, ts),
            until_settled=not self.kind.shows_pairs,
        )  # fmt: skip

    @property
    def _watched(self) -> Iterator[tuple[int, PreservedRows]]:
        return ((port, rows) for port, rows in enumerate(self._rows) if isinstance(rows, PreservedRows))

    def _debts(self, port: int, ts: Int64s) -> Debts:
        """All open."""
        if not isinstance(self._extents, FramedExtents):
            return Debts(self._extents.useful_until(port, ts), np.zeros(len(ts), np.bool_))
        first, counts = self._extents.copies({port: ts})
        _, numbers = each_window(first, counts)
        return Debts.numbered(self._extents.due(port, numbers), first, counts)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _found(self, port: int, batch: Batch, is_trusted: bool) -> Iterator[Batch]:
        """Results of new rows, with a partner or without."""
        alive = self._alive(batch)
        with_key = self._with_key(port, batch, alive)
        yield from self._without_key(port, batch, np.flatnonzero(alive & ~with_key))
        batch = batch.filter(with_key)
        self._counts["trusted"] += batch.num_rows if is_trusted else 0
        if batch.num_rows:
            yield from self._joined(port, self._arranged(port, batch), is_trusted)

    def _without_key(self, port: int, batch: Batch, rows: Int64s) -> list[Batch]:
        """NULL equals nothing: these rows are without partner from the beginning."""
        if port not in self.kind.preserved or not len(rows):
            return []
        chosen = batch.take(rows)
        debts = self._debts(port, chosen.ts)
        return self._unmatched(port, [(chosen, *debts.owners(np.arange(len(debts.due))))])

    def _joined(self, port: int, new: Combination, is_trusted: bool) -> Iterator[Batch]:
        batch, _ = new.parts[port]
        debts = self._debts(port, batch.ts) if port in self.kind.watched else None
        for run, pairs in self._wider(new, 1 - port):
            yield from self._matched(port, run, pairs, debts)
        if is_trusted:
            # Nothing could ever remove these rows, as their input has closed their key: all is decided now.
            yield from [] if debts is None else self._unmatched(port, [(batch, *debts.owners(debts.overdue(FOREVER)))])
        elif debts is None:
            self._store(port, new)
        else:
            yield from self._store_watched(port, new, debts)
        for _, rows in self._watched:
            rows.compact()

    def _matched(self, port: int, run: Run, pairs: Combination, debts: Debts | None) -> Iterator[Batch]:
        """Answers of pairs, and what they settle: of the new rows, and of the stored run."""
        pairs, numbers = self._numbered(pairs)
        pairs, numbers = self._that_pass(pairs, numbers)
        first: list[Alone] = []
        if debts is not None:
            batch, rows = pairs.parts[port]
            first.append((batch, *debts.owners(debts.settle(debts.places(rows, numbers)))))
        stored = self._rows[1 - port]
        if isinstance(stored, PreservedRows):
            first.append((run.batch, *stored.settle(run, pairs.parts[1 - port][1], numbers)))
        if self.kind.shows_pairs:
            yield from (self._result(pairs, start) for start in range(0, pairs.num_rows, OUTPUT_ROWS))
        elif self.kind is JoinKind.LEFT_SEMI:
            yield from self._alone(0, first)

    def _that_pass(self, pairs: Combination, numbers: Int64s | None) -> tuple[Combination, Int64s | None]:
        """Pairs for which the residual condition holds."""
        if self.residual is None or not pairs.num_rows:
            return pairs, numbers
        starts = range(0, pairs.num_rows, OUTPUT_ROWS)
        passing = np.concatenate([mask(self.residual, self._read_by_residual(pairs, start)) for start in starts])
        if passing.all():
            return pairs, numbers
        chosen = np.flatnonzero(passing)
        return pairs.subset(chosen), None if numbers is None else numbers[chosen]

    def _read_by_residual(self, pairs: Combination, start: int) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        fields: list[pa.Field] = []
        for port, wanted in enumerate(self._read):
            batch, rows = pairs.parts[port]
            taken = pa.array(rows[start : start + OUTPUT_ROWS])
            columns += [batch.rows.column(at).take(taken) for at in wanted]
            fields += [self._schemas[port].field(at) for at in wanted]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _store_watched(self, port: int, new: Combination, debts: Debts) -> list[Batch]:
        """Keep the rows that are still of use; the others, and windows that have passed, are decided."""
        batch, _ = new.parts[port]
        until = self._rows[port].useful_until(batch)
        keep = self._useful(port, until, new.keys)
        overdue = debts.overdue(self._horizon(port), lost=~keep)
        debts.settled[overdue] = True
        results = self._unmatched(port, [(batch, *debts.owners(overdue))])
        rows = self._rows[port]
        assert isinstance(rows, PreservedRows)
        if rows.until_settled:
            opened = debts.open_rows()
            rows.decided += int(np.count_nonzero(keep & ~opened))
            keep &= opened
        if keep.all():
            rows.insert_with(batch, new.hashes, until, debts)
        else:
            chosen = np.flatnonzero(keep)
            rows.insert_with(batch.take(chosen), new.hashes[chosen], until[chosen], debts.chosen(chosen))
        return results

    # -- rows alone ---------------------------------------------------------------------------------------------------

    def _unmatched(self, port: int, found: Iterable[Alone]) -> list[Batch]:
        """Answers of rows of which is proven that they have no partner."""
        if port not in self.kind.preserved:
            # Nobody asks for them, but they must be looked up: that settles them.
            for _ in found:
                pass
            return []
        results = self._alone(port, found)
        self._counts["unmatched"] += sum(result.num_rows for result in results)
        return results

    def _alone(self, port: int, found: Iterable[Alone]) -> list[Batch]:
        results: list[Batch] = []
        for batch, rows, numbers in found:
            for start in range(0, len(rows), OUTPUT_ROWS):
                piece = slice(start, start + OUTPUT_ROWS)
                results.append(self._shaped(port, batch, rows[piece], None if numbers is None else numbers[piece]))
        return results

    def _shaped(self, port: int, batch: Batch, rows: Int64s, numbers: Int64s | None) -> Batch:
        """Rows of one input in the shape of the output; their position names input and window too."""
        columns = own = self._columns(port, batch, rows)
        pos = batch.pos[rows]
        if self.kind.shows_pairs:
            missing = [pa.nulls(len(rows), item.type) for item in self._schemas[1 - port]]
            columns = [*own, *missing] if port == 0 else [*missing, *own]
            pos = mix_positions(pos, np.full(len(rows), -1 - port))
        if numbers is not None:
            pos = mix_positions(pos, numbers)
        return Batch(pa.RecordBatch.from_arrays(columns, schema=self.output_schema), batch.ts[rows], pos)

    # -- metadata -----------------------------------------------------------------------------------------------------

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, End):
            # Whatever the query has not seen by now it will not see.
            alone = self._overdue([FOREVER, FOREVER])
            self._counts["results"] += sum(answer.num_rows for answer in alone)
            return alone
        return super().on_metadata(port, mark)

    def _purge_closed(self, port: int, among: UInt64s | None) -> list[Batch]:
        other, alone = 1 - port, list[Batch]()
        rows = self._rows[other]
        if isinstance(rows, PreservedRows):
            alone = self._unmatched(other, rows.take_closed(partial(self._closed_by_all_others, other), among))
        super()._purge_closed(port, among)
        return alone

    def _overdue(self, horizons: Sequence[int]) -> list[Batch]:
        return [batch for at, rows in self._watched for batch in self._unmatched(at, rows.take_overdue(horizons[at]))]

    def _oldest_to_come(self) -> int:
        # A row that may still be emitted alone has its own time.
        return min(super()._oldest_to_come(), *(rows.oldest for _, rows in self._watched))

    # -- state --------------------------------------------------------------------------------------------------------

    def counters(self) -> Mapping[str, int]:
        watched: list[Any] = [rows for _, rows in self._watched]
        own = {"owed": sum(rows.owed for rows in watched), "decided": sum(rows.decided for rows in watched)}
        return {**super().counters(), **own}


def _columns_read(residual: Expr | None, schema: pa.Schema) -> list[int]:
    if residual is None:
        return []
    known = Schema.from_arrow(schema)
    return sorted({known.index(name) for name in columns_of(residual) if name in known})
