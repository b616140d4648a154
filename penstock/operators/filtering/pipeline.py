"""Columnar execution of a conjunction: rows that are left are sent to the next filter; a few that are not are profiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import FilterFailed, FilterMisbehaved, FunctionFailed, Place
from penstock.model.batch import Batch, Int64s
from penstock.operators.filtering.contract import FilterOrder
from penstock.operators.filtering.costs import CostModel
from penstock.operators.filtering.descriptors import Arrangement
from penstock.operators.filtering.predicates import Flags, flags_of, gathered
from penstock.operators.filtering.settings import OnError
from penstock.operators.filtering.tally import Tally
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


class Pipeline:
    """Evaluate filters on the rows that are left.

    Parameters
    ----------
    clock
        Nanoseconds for the cost model and reports; None: nothing is measured.
    """

    def __init__(
        self, arrangement: Arrangement, costs: CostModel, tally: Tally, on_error: OnError = OnError.FAIL, clock: Clock | None = None
    ) -> None:
        self.arrangement = arrangement
        self.costs = costs
        self.tally = tally
        self.on_error = on_error
        self.clock = clock

    def run(self, batch: Batch, policy: FilterOrder, coins: Flags | None) -> Passage:
        """Send a chunk through all filters in the policy's order, then profile the rejected rows whose coin says so."""
        started = self._now()
        rows, failed = batch.num_rows, list[tuple[int, str]]()
        left: Int64s | None = None
        dropped: list[tuple[int, Int64s]] = []
        ordered = len(self.arrangement.free)
        for position, number in enumerate(self.arrangement.whole(policy.order())):
            reaching = np.arange(rows) if left is None else left
            if not len(reaching):
                break
            passes, wrong = self._ask(number, batch, left, rows)
            failed += [(int(reaching[at]), text) for at, text in wrong]
            lost = ~passes
            lost[[at for at, _ in wrong]] = False
            gone = reaching[lost]
            self.tally.asked(number, position, len(reaching), len(gone))
            if coins is not None and position < ordered:
                dropped.append((position, gone[coins[gone]]))
            left = reaching[passes]
        kept = np.arange(rows) if left is None else left
        self.tally.chunk(rows, len(kept), len(failed))
        self.tally.times["processing"] += self._now() - started
        return Passage(kept, tuple(sorted(failed)), *self._profiled(batch, policy, dropped))

    # -- ordinary evaluation ------------------------------------------------------------------------------------------

    def _ask(self, number: int, batch: Batch, left: Int64s | None, whole: int) -> tuple[Flags, list[tuple[int, str]]]:
        """Which of the rows pass a filter, and on which it raised."""
        item = self.arrangement.filters[number]
        count = whole if left is None else len(left)
        asked = gathered(batch.rows, item.predicate.columns, left)
        started = self._now()
        try:
            flags = flags_of(item.predicate(asked), count, item.name)
        except FilterMisbehaved as error:
            raise error.at(Place(f"filter '{item.name}'")) from None
        except Exception as error:
            return self._one_by_one(number, batch, np.arange(whole) if left is None else left, error)
        if self.clock is not None:
            self.costs.add(number, count, (self._now() - started) * 1e-9)
        return flags, []

    def _one_by_one(self, number: int, batch: Batch, left: Int64s, cause: Exception) -> tuple[Flags, list[tuple[int, str]]]:
        """A filter has raised: find the rows it cannot judge, and judge the others."""
        name = self.arrangement.filters[number].name
        passes, texts = self._try(number, batch, left)
        wrong = [(at, text) for at, text in enumerate(texts) if text]
        if self.on_error is OnError.FAIL or not wrong:
            row = batch.rows.slice(int(left[wrong[0][0]]), 1).to_pylist()[0] if wrong else f"a batch of {len(left)} rows"
            text = wrong[0][1] if wrong else _said(cause)
            advice = "name the filter that guards it in `after`, or set on_error = 'dead_letter'"
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

    def _profiled(self, batch: Batch, policy: FilterOrder, dropped: list[tuple[int, Int64s]]) -> tuple[ProfileRows, Int64s]:
        at = np.concatenate([rows for _, rows in dropped]) if dropped else _NO_ROWS
        if not len(at):
            return ProfileRows.empty(), _NO_ROWS
        started = self._now()
        positions = np.concatenate([np.full(len(rows), position) for position, rows in dropped])
        arrival = np.argsort(at, kind="stable")
        at, positions = at[arrival], positions[arrival]
        bits, known, good = self._bits(batch, policy, at, positions)
        self.tally.add("profiled", int(good.sum()))
        self.tally.add("profile_errors", int((~good).sum()))
        self.tally.times["profiling"] += self._now() - started
        return ProfileRows(bits[good], known[good], batch.ts[at[good]]), at[good]

    def _bits(self, batch: Batch, policy: FilterOrder, at: Int64s, positions: Int64s) -> tuple[UInt64s, UInt64s, Flags]:
        """Ask the filters a policy wants about rejected rows, each filter once.

        No filter is asked about a row that one of its guards rejects: the greedy rule compares them only among rows that the
        guard passes, so the bit is never needed. What raises all the same would not have been evaluated without
        profiling, so such rows are left out and never fail the query.
        """
        order, guards = policy.order(), self.arrangement.free_guards
        own = np.array([1 << number for number in order], np.uint64)
        wanted = np.array([policy.wanted(position) for position in range(len(order))], np.uint64)[positions]
        bits, known = own[positions], (np.bitwise_or.accumulate(own)[positions]) | wanted
        good = np.ones(len(at), np.bool_)
        for number in order:  # in this order guards are asked before what they guard
            bit = np.uint64(1 << number)
            chosen = np.flatnonzero(good & ((wanted & bit) != 0) & ((bits & guards[number]) == 0))
            if len(chosen):
                passes, raised = self._ask_quietly(self.arrangement.free[number], batch, at[chosen])
                bits[chosen[~passes]] |= bit
                good[chosen[raised]] = False
                self.tally.add("extra_evaluations", len(chosen))
        return bits, known, good

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


def failed_rows(batch: Batch, failed: tuple[tuple[int, str], ...]) -> list[tuple[Batch, str]]:
    """Rows that could not be judged, together with those that failed alike."""
    by_text: dict[str, list[int]] = {}
    for at, text in failed:
        by_text.setdefault(text, []).append(at)
    return [(batch.take(_indices(places)), text) for text, places in by_text.items()]


def _indices(places: list[int]) -> npt.NDArray[np.int64]:
    return np.array(places, np.int64)
