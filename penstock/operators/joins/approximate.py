"""A window join that may forget rows on a probability, within a budget on lost results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columnar.codes import group_codes
from penstock.expressions.nodes import Expr
from penstock.kernel.contracts import State
from penstock.metadata.probabilistic import RecallBudget, propagated
from penstock.model.batch import Batch
from penstock.model.elements import Element, Elements, Herald, Metadata
from penstock.model.punctuation import Punctuation
from penstock.model.scoped import ScopedPunctuation, scoped_from_herald
from penstock.model.windows import Lifespan, Window
from penstock.operators.joins.window_join import JoinOptions, WindowJoin

#: Expected losses are reported in millionths of a result: counters are whole numbers, and are added up over shards.
_MILLION = 1_000_000


class ApproximateJoin(WindowJoin):
    """`WindowJoin` of two inputs that uses probable punctuations in approximate mode.

    When one input says that values will probably not come again, stored rows of the other input with these values are
    forgotten, as long as the results expected to be lost stay within `epsilon` of all results. What is emitted is right;
    some results may be missing. With `epsilon` 0 it is the exact join.

    Parameters
    ----------
    epsilon
        Share of the results that may be lost, on average.
    residual, options
        As of `WindowJoin`. What would be lost is estimated without the residual condition, so less is purged than might be.

    Notes
    -----
    Differs from the source: a statement that ends after some rows never purges. A value may come again behind its scope, and
    the formula `(1-c)·r` does not count the results that would be lost there; such a statement is a hint for memory only.
    Ordinary punctuations are used and passed on as before, and a probable one never becomes an ordinary one.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 32.3.
    """

    def __init__(
        self, schemas: Sequence[pa.Schema], keys: Sequence[Sequence[str]], windows: Sequence[Window], output_schema: pa.Schema,
        epsilon: float, life: Lifespan | None = None, residual: Expr | None = None, **options: Unpack[JoinOptions],
    ) -> None:  # fmt: skip
        super().__init__(schemas, keys, windows, output_schema, residual, life, **options)
        self.budget = RecallBudget(epsilon)
        #: Rows and different keys of each input, as far as batches show them: rows of a value that come at a time.
        self._seen = [[0, 0] for _ in self.keys]

    def on_batch(self, port: int, batch: Batch) -> Elements:
        if batch.num_rows:
            self._seen[port][0] += batch.num_rows
            self._seen[port][1] += group_codes([batch.column(key) for key in self.keys[port]], batch.num_rows).number
        return super().on_batch(port, batch)

    def _answers(self, port: int, batch: Batch, is_trusted: bool = False) -> Iterator[Batch]:
        for result in super()._answers(port, batch, is_trusted):
            self.budget.emitted += result.num_rows
            yield result

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        statement = scoped_from_herald(mark) if isinstance(mark, Herald) else None
        if statement is None:
            return super().on_metadata(port, mark)
        (pattern, *others) = statement.patterns
        # A scope speaks about the rows of this input, not about results: it goes no further.
        if statement.is_positive or statement.rows is not None or others or not pattern.is_exploitable_for(self.keys[port]):
            return ()
        self._forget(1 - port, port, statement, pattern)
        return self._announced(port, statement, pattern)

    def _forget(self, side: int, port: int, statement: ScopedPunctuation, pattern: Punctuation) -> None:
        """Purge stored rows that match what the other input doubts, values with most rows first, within the budget."""
        named = pattern.rename(dict(zip(self.keys[port], self.keys[side], strict=True)))
        runs = [run.batch.rows.filter(pa.array(doubted)) for run, doubted in self._rows[side].matching(named)]
        found = [rows.select(list(self.keys[side])) for rows in runs if rows.num_rows]
        if not found:
            return
        keys = pa.concat_batches(found)
        codes = group_codes(keys.columns, keys.num_rows)
        stored = np.bincount(codes.codes, minlength=codes.number)
        order = np.argsort(-stored, kind="stable")
        chosen = np.zeros(codes.number, np.bool_)
        chosen[order] = self.budget.spend(statement.confidence, stored[order].astype(np.float64) * self._rows_at_a_time(port))
        if chosen.any():
            gone = keys.take(pa.array(codes.first_row[chosen]))
            self._rows[side].purge(lambda columns: _among(columns, gone))

    def _rows_at_a_time(self, port: int) -> float:
        """Rows of a value that come if it comes again: as many as came together so far."""
        rows, values = self._seen[port]
        return max(rows / values, 1.0) if values else 1.0

    def _announced(self, port: int, statement: ScopedPunctuation, pattern: Punctuation) -> list[Element]:
        """What the output may be told: only if no stored row of this input can make results of the values."""
        named = pattern.project(self.keys[port])
        if named is None or self._rows[port].holds(named):
            return []
        announced: list[Element] = []
        for keys in self.keys:
            output = named.rename(dict(zip(self.keys[port], keys, strict=True)))
            doubtful = propagated(output.extend(self.output_schema.names), [statement])
            assert isinstance(doubtful, ScopedPunctuation)
            announced.append(doubtful.to_herald())
        return announced

    def snapshot(self) -> State:
        state = super().snapshot()
        return State({**state.meta, "budget": self.budget.to_json(), "seen": [list(pair) for pair in self._seen]}, state.segments)

    def restore(self, state: State) -> None:
        super().restore(state)
        meta: Mapping[str, Any] = state.meta
        self.budget = RecallBudget.from_json(meta["budget"])
        self._seen = [list(pair) for pair in meta["seen"]]

    def counters(self) -> Mapping[str, int]:
        return {
            **super().counters(),
            "lost_millionths": round(self.budget.lost * _MILLION),
            "values_given_up": self.budget.purged_values,
        }


def expected_recall(counters: Mapping[str, int]) -> float | None:
    """Expected share of all results that were emitted, from counters summed over shards; None for other operators.

    Examples
    --------
    >>> expected_recall({"results": 90, "lost_millionths": 10_000_000})
    0.9
    """
    if "lost_millionths" not in counters:
        return None
    lost, emitted = counters["lost_millionths"] / _MILLION, counters["results"]
    return emitted / (emitted + lost) if lost else 1.0


def _among(columns: Sequence[pa.Array], keys: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows have one of the keys."""
    arrays = [pa.concat_arrays([wanted, column]) for wanted, column in zip(keys.columns, columns, strict=True)]
    codes = group_codes(arrays).codes
    result: npt.NDArray[np.bool_] = codes[keys.num_rows :] <= codes[: keys.num_rows].max(initial=-1)
    return result
