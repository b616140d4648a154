"""What constraints tell of traces, as columns: a row per trace, advanced by compiled loops.

The plain form is `penstock.testing.constraint_reference`; both agree event by event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from penstock.columnar.codes import Bools
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.tables import ConditionTables, condition_tables, set_sizes, to_words, words_of
from penstock.model.batch import Int64s
from penstock.operators.patterns._constraints import FAILED, LIVE, REASONS

Bytes: TypeAlias = npt.NDArray[np.uint8]
#: Sets as rows of words, as wide as the members of the query's sets need.
Sets: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

_LEAST_SPARE = 256


class StateColumns(NamedTuple):
    """One row per trace: types seen, leaves matched, partitions failed, terms alive, status, whether it has matched."""

    seen: Sets
    matched: Sets
    failed: Sets
    alive: Sets
    status: Bytes
    had_match: Bools


class TraceStates:
    """The reasoning state of the traces of one query.

    Parameters
    ----------
    conditions
        Failing conditions of the query.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.registration import register
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "C"), (exclusive("B", "C"),))
    >>> states = TraceStates(register(seq("A", "B"), rules, ("id",)).conditions)
    >>> states.add(2)
    >>> len(states), states.columns.status.tolist()
    (2, [0, 0])
    """

    def __init__(self, conditions: FailingConditions) -> None:
        self.conditions, self.words = conditions, words_of(conditions)
        self.tables: ConditionTables = condition_tables(conditions)
        # Most sets are small, and there are as many of them as traces.
        self.kind = np.dtype(np.uint32 if max(set_sizes(conditions)) <= np.dtype(np.uint32).itemsize * 8 else np.uint64)
        #: The state of a trace without events: failed already if the query never matches.
        self.start = StateColumns(
            self._set(0),
            self._set(conditions.graph.completed(0)),
            self._set(conditions.failed_at_start),
            self._set((1 << len(conditions.terms)) - 1),
            np.array([FAILED if conditions.failed_at_start & 1 else LIVE], np.uint8),
            np.zeros(1, np.bool_),
        )
        #: Traces that failed, by the type of the event that failed them and the kind of the condition, in all.
        self.tally = np.zeros((len(conditions.theory.names), len(REASONS)), np.int64)
        self.hold(StateColumns._make(column[:0] for column in self.start))

    def _set(self, members: int) -> Sets:
        return to_words([members], self.words).astype(self.kind)

    def hold(self, columns: StateColumns) -> None:
        """Go on with these traces instead."""
        self.columns = self._room = columns

    def __len__(self) -> int:
        return len(self.columns.status)

    @property
    def nbytes(self) -> int:
        """Memory of the columns, with what is spare."""
        return sum(column.nbytes for column in cast(Iterable[Any], self._room))

    def add(self, count: int) -> None:
        """Begin traces, in the next slots."""
        first, stop = len(self), len(self) + count
        if stop > len(self._room.status):
            self._room = StateColumns._make(with_room(column[:first], stop) for column in cast(Iterable[Any], self._room))
        pairs: Iterable[tuple[Any, Any]] = zip(self._room, self.start, strict=True)
        for column, start in pairs:
            column[first:stop] = start[0]
        self.columns = StateColumns._make(column[:stop] for column in cast(Iterable[Any], self._room))

    def keep(self, slots: Int64s) -> None:
        """Keep these traces only; slot i is then what slot `slots[i]` was."""
        self.hold(StateColumns._make(_taken(column, slots) for column in cast(Iterable[Any], self.columns)))


def _taken(column: npt.NDArray[Any], slots: Int64s) -> npt.NDArray[Any]:
    """Some rows of a column; what has one word in a row is several times as fast without that dimension."""
    if column.ndim == 2 and column.shape[1] == 1:
        return column[:, 0].take(slots)[:, None]
    return column.take(slots, axis=0)


def with_room(column: npt.NDArray[Any], needed: int, spare: int = 0) -> npt.NDArray[Any]:
    """A column by slot with room for so many slots and some more, so that it is copied now and then and not with every batch."""
    more = needed + max(needed // 8 + _LEAST_SPARE, spare) - len(column)
    return np.concatenate((column, np.zeros((more, *column.shape[1:]), column.dtype)))
