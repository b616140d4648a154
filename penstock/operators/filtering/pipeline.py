"""Columnar execution of a conjunction: rows that are left are sent to the next filter; a few that are not are profiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import FilterFailed, FilterMisbehaved, FunctionFailed, Place
from penstock.model.batch import Batch, Int64s
from penstock.operators.filtering.contract import FilterOrder
from penstock.operators.filtering.costs import CostModel
from penstock.operators.filtering.descriptors import Arrangement
from penstock.operators.filtering.filter_counters import FilterCounters
from penstock.operators.filtering.predicates import Flags, flags_of, gathered
from penstock.operators.filtering.settings import OnError
from penstock.operators.filtering.window import ProfileRows, UInt64s

Clock = Callable[[], int]

_NO_ROWS: Int64s = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of the rows of a chunk.

    Parameters
    ----------
    kept
        Rows that pass every filter, ascending.
    failed
        Rows on which a filter raised, and what it said.
    profile
        Profiled rows in order of arrival, in the policy's numbers.
    profiled
        Where they stand in the chunk.
    """

    kept: Int64s
    failed: tuple[tuple[int, str], ...]
    profile: ProfileRows
    profiled: Int64s


@dataclass(frozen=True, slots=True)
class _Dropped:
    """Rows to profile that the filter at a position of the policy's order rejected, and the filters they passed before."""

    position: int
    rows: Int64s
    passed: frozenset[int]


class _Passing:
    """The rows of a chunk on their way.

    Parameters
    ----------
    coins
        Which rows are profiled if they are rejected; None: none.
    positions
        Where each filter stands in the policy's order.
    """

    def __init__(self, batch: Batch, coins: Flags | None, positions: Mapping[int, int]) -> None:
        self.batch = batch
        self.coins = coins
        self.positions = positions
        #: Rows that are left; None: all, which saves gathering them.
        self.left: Int64s | None = None
        self.passed: list[int] = []
        self.failed: list[tuple[int, str]] = []
        self.dropped: list[_Dropped] = []

    @property
    def rows(self) -> Int64s:
        return np.arange(self.batch.num_rows) if self.left is None else self.left

    @property
    def count(self) -> int:
        return self.batch.num_rows if self.left is None else len(self.left)

    def keep(self, number: int, passes: Flags, wrong: list[tuple[int, str]], is_ordered: bool) -> int:
        """Go on with the rows that pass a filter; the number of those it rejected."""
        reaching = self.rows
        self.failed += [(int(reaching[at]), text) for at, text in wrong]
        lost = ~passes
        lost[[at for at, _ in wrong]] = False
        gone = reaching[lost]
        if self.coins is not None and is_ordered:
            self.dropped.append(_Dropped(self.positions[number], gone[self.coins[gone]], frozenset(self.passed)))
        self.passed.append(number)
        self.left = reaching[passes]
        return len(gone)


class Pipeline:
    """Evaluate filters on the rows that are left.

    Parameters
    ----------
    clock
        Nanoseconds for the cost model and reports; None: nothing is measured.
    """

    def __init__(
        self,
        arrangement: Arrangement,
        costs: CostModel,
        counts: FilterCounters,
        on_error: OnError = OnError.FAIL,
        clock: Clock | None = None,
    ) -> None:
        self.arrangement = arrangement
        self.costs = costs
        self.counts = counts
        self.on_error = on_error
        self.clock = clock

    def run(self, batch: Batch, policy: FilterOrder, coins: Flags | None) -> Passage:
        """Send a chunk through all filters in the policy's order, then profile the rejected rows whose coin says so.

        A filter may raise on rows that a filter written before it rejects, and that it would not have seen in written order. So
        when one raises while such filters are still to come, the rows that are left take the rest of their way as written: what
        raises then raises on rows that reach it.
        """
        started = self._now()
        order = self.arrangement.whole(policy.order())
        passing = _Passing(batch, coins, {number: position for position, number in enumerate(order)})
        to_come = list(order)
        while to_come and passing.count:
            if not self._send(to_come[0], passing, is_written_order=not self._precede(to_come[0], to_come)):
                self.counts.add("taken_as_written", 1)
                to_come = [number for number in self.arrangement.written if number in to_come]
                self._send(to_come[0], passing, is_written_order=True)
            to_come = to_come[1:]
        self.counts.chunk(batch.num_rows, passing.count, len(passing.failed))
        self.counts.times["processing"] += self._now() - started
        return Passage(passing.rows, tuple(sorted(passing.failed)), *self._profiled(batch, policy, passing.dropped))

    def _precede(self, number: int, others: Sequence[int]) -> bool:
        """Whether one of the other filters is written before this one."""
        written = self.arrangement.written
        return any(written.index(other) < written.index(number) for other in others)

    # -- ordinary evaluation ------------------------------------------------------------------------------------------

    def _send(self, number: int, passing: _Passing, is_written_order: bool) -> bool:
        """Ask a filter about the rows that are left; False if it has raised and may only do so in written order."""
        answer = self._ask(number, passing, is_written_order)
        if answer is None:
            return False
        passes, wrong = answer
        position = passing.positions[number]
        is_ordered = position < len(self.arrangement.free)
        asked = passing.count
        gone = passing.keep(number, passes, wrong, is_ordered)
        self.counts.asked(number, position, asked, gone)
        return True

    def _ask(self, number: int, passing: _Passing, is_written_order: bool) -> tuple[Flags, list[tuple[int, str]]] | None:
        """Which of the rows pass a filter, and on which it raised."""
        item = self.arrangement.filters[number]
        asked = gathered(passing.batch.rows, item.predicate.columns, passing.left)
        started = self._now()
        try:
            flags = flags_of(item.predicate(asked), passing.count, item.name)
        except Exception as error:
            if not is_written_order:
                return None
            if isinstance(error, FilterMisbehaved):
                raise error.at(Place(f"filter '{item.name}'")) from None
            return self._one_by_one(number, passing.batch, passing.rows, error)
        if self.clock is not None:
            self.costs.add(number, passing.count, (self._now() - started) * 1e-9)
        return flags, []

    def _one_by_one(self, number: int, batch: Batch, left: Int64s, cause: Exception) -> tuple[Flags, list[tuple[int, str]]]:
        """A filter has raised: find the rows it cannot judge, and judge the others."""
        name = self.arrangement.filters[number].name
        passes, texts = self._try(number, batch, left)
        wrong = [(at, text) for at, text in enumerate(texts) if text]
        if self.on_error is OnError.FAIL or not wrong:
            row = batch.rows.slice(int(left[wrong[0][0]]), 1).to_pylist()[0] if wrong else f"a batch of {len(left)} rows"
            text = wrong[0][1] if wrong else _said(cause)
            advice = "write the condition that protects it before it, or set on_error = 'dead_letter'"
            raise FilterFailed(f"filter '{name}' raised {text} on {row}; {advice}", f"filter '{name}'") from cause
        return passes, [(at, f"filter '{name}' raised {text}") for at, text in wrong]

    def _try(self, number: int, batch: Batch, at: Int64s) -> tuple[Flags, list[str]]:
        """Judge rows each by itself; slow, and only used where a filter has raised."""
        item = self.arrangement.filters[number]
        passes, texts = np.zeros(len(at), np.bool_), [""] * len(at)
        for place in range(len(at)):
            try:
                row = gathered(batch.rows, item.predicate.columns, at[place : place + 1])
                passes[place] = flags_of(item.predicate(row), 1, item.name)[0]
            except Exception as error:
                texts[place] = _said(error)
        return passes, texts

    # -- profiling ----------------------------------------------------------------------------------------------------

    def _profiled(self, batch: Batch, policy: FilterOrder, dropped: list[_Dropped]) -> tuple[ProfileRows, Int64s]:
        at = np.concatenate([each.rows for each in dropped]) if dropped else _NO_ROWS
        if not len(at):
            return ProfileRows.empty(), _NO_ROWS
        started = self._now()
        part = np.concatenate([np.full(len(each.rows), number) for number, each in enumerate(dropped)])
        arrival = np.argsort(at, kind="stable")
        at, part = at[arrival], part[arrival]
        bits, known, good = self._bits(batch, policy, at, part, dropped)
        self.counts.add("profiled", int(good.sum()))
        self.counts.add("profile_errors", int((~good).sum()))
        self.counts.times["profiling"] += self._now() - started
        return ProfileRows(bits[good], known[good], batch.ts[at[good]]), at[good]

    def _bits(
        self, batch: Batch, policy: FilterOrder, at: Int64s, part: Int64s, dropped: list[_Dropped]
    ) -> tuple[UInt64s, UInt64s, Flags]:
        """Ask the filters a policy wants about rejected rows, each filter once.

        No filter is asked about a row that one of its guards rejects: the greedy rule compares them only among rows that the
        guard passes, so the bit is never needed. What raises all the same would not have been evaluated without
        profiling, so such rows are left out and never fail the query.
        """
        order, guards = policy.order(), self.arrangement.free_guards
        own = np.array([1 << order[each.position] for each in dropped], np.uint64)
        wanted = np.array([self._wanted(policy, each) for each in dropped], np.uint64)[part]
        bits, known = own[part], self._known(policy, dropped)[part]
        good = np.ones(len(at), np.bool_)
        for number in order:  # in this order guards are asked before what they guard
            bit = np.uint64(1 << number)
            chosen = np.flatnonzero(good & ((wanted & bit) != 0) & ((bits & guards[number]) == 0))
            if len(chosen):
                passes, raised = self._ask_quietly(self.arrangement.free[number], batch, at[chosen])
                bits[chosen[~passes]] |= bit
                good[chosen[raised]] = False
                self.counts.add("extra_evaluations", len(chosen))
        return bits, known, good

    def _wanted(self, policy: FilterOrder, dropped: _Dropped) -> int:
        """What the policy asks beyond a position, and what rows that went as written have not been asked before it."""
        before = {self.arrangement.free[number]: 1 << number for number in policy.order()[: dropped.position]}
        return policy.wanted(dropped.position) | sum(bit for number, bit in before.items() if number not in dropped.passed)

    def _known(self, policy: FilterOrder, dropped: list[_Dropped]) -> UInt64s:
        up_to = [sum(1 << number for number in policy.order()[: each.position + 1]) for each in dropped]
        return np.array([bits | policy.wanted(each.position) for bits, each in zip(up_to, dropped, strict=True)], np.uint64)

    def _ask_quietly(self, number: int, batch: Batch, at: Int64s) -> tuple[Flags, Flags]:
        item = self.arrangement.filters[number]
        try:
            flags = flags_of(item.predicate(gathered(batch.rows, item.predicate.columns, at)), len(at), item.name)
        except Exception:
            passes, texts = self._try(number, batch, at)
            return passes, np.array([bool(text) for text in texts])
        return flags, np.zeros(len(at), np.bool_)

    def _now(self) -> int:
        return self.clock() if self.clock else 0


def _said(error: Exception) -> str:
    """What a filter raised; behind a function of the user, what that raised."""
    cause = error.__cause__ if isinstance(error, FunctionFailed) and error.__cause__ is not None else error
    return f"{type(cause).__name__}: {cause}"
