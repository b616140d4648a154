"""Filters that raise: a query fails only for rows that reach the filter in written order, whatever the order it runs in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import FilterFailed, FilterMisbehaved
from penstock.model.batch import Batch
from penstock.model.elements import Quarantined
from penstock.operators.filtering.descriptors import Arrangement, Filter
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.predicates import OnArrow, OnPandas, OnRows
from penstock.operators.filtering.settings import Algorithm, FilterSettings, OrderSettings

SCHEMA = pa.schema([("x", pa.int64())])
PASSES, REJECTS, RAISES = "passes", "rejects", "raises"


def rows(values: Sequence[int], start: int = 0) -> Batch:
    places = np.arange(start, start + len(values))
    return Batch(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=SCHEMA), places.copy(), places)


def judge(name: str, outcomes: Sequence[str]) -> Callable[[Sequence[int]], list[bool]]:
    """What a function of the user does: it judges all its rows, or raises on the first it cannot judge."""

    def judged(numbers: Sequence[int]) -> list[bool]:
        for number in numbers:
            if outcomes[number] == RAISES:
                raise ValueError(f"{name} cannot judge {number}")
        return [outcomes[number] == PASSES for number in numbers]

    return judged


KINDS: dict[str, Callable[[Callable[[Sequence[int]], list[bool]]], Any]] = {
    "arrow": lambda judged: OnArrow(lambda x: pa.array(judged(x.to_pylist()), pa.bool_()), ("x",)),
    "pandas": lambda judged: OnPandas(lambda x: np.array(judged(list(x)), np.bool_), ("x",)),
    "rows": lambda judged: OnRows(lambda x: judged([x])[0], ("x",)),
}


@dataclass(frozen=True)
class Case:
    """Filters, in written order, and what each does on each row."""

    filters: tuple[Filter, ...]
    outcomes: tuple[tuple[str, ...], ...]
    start: tuple[str, ...] | None
    settings: FilterSettings
    cuts: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.outcomes[0])

    def as_written(self, row: int) -> tuple[str, str]:
        """What becomes of a row, and what is said if that is a failure."""
        for number in Arrangement(self.filters).written:
            if self.outcomes[number][row] != PASSES:
                name = self.filters[number].name
                return self.outcomes[number][row], f"filter '{name}' raised ValueError: {name} cannot judge {row}"
        return PASSES, ""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size, count = draw(st.integers(1, 60)), draw(st.integers(2, 5))
    random = draw(st.randoms(use_true_random=False))
    outcomes, filters = [], list[Filter]()
    for number in range(count):
        weights = [random.random(), random.random(), random.choice((0.0, 0.2, 1.0))]
        outcomes.append(tuple(random.choices((PASSES, REJECTS, RAISES), weights, k=size)))
        predicate = KINDS[random.choice(list(KINDS))](judge(f"f{number}", outcomes[-1]))
        after = tuple(f"f{guard}" for guard in range(number) if random.random() < 0.15)
        filters.append(Filter(f"f{number}", predicate, random.random(), after, profilable=random.random() < 0.9))
    if random.random() < 0.3:
        filters.reverse()  # guards are then written behind what they guard
        outcomes.reverse()
    order = OrderSettings(
        random.choice(list(Algorithm)), probability=random.choice((0.0, 0.3, 1.0)), window_rows=20, stage_rows=5, min_fill=3,
        seed=random.randrange(99),
    )  # fmt: skip
    chosen = FilterSettings(
        order, chunk_rows=random.choice((1, 7, 1000)), seed=random.randrange(99), mode="shard",
        on_error=random.choice(("fail", "dead_letter")),
    )  # fmt: skip
    start = None
    if not any(item.after for item in filters) and random.random() < 0.5:
        start = tuple(random.sample([item.name for item in filters], count))
    cuts = tuple(sorted(random.sample(range(size), min(3, size))))
    return Case(tuple(filters), tuple(outcomes), start, chosen, cuts)


def run(case: Case) -> tuple[list[int], dict[int, str]]:
    """Rows that pass, and rows that are set aside with the reason."""
    operator = AdaptiveFilter(SCHEMA, case.filters, case.settings, order=case.start)
    kept, aside = list[int](), dict[int, str]()
    for start, stop in pairwise([0, *case.cuts, case.size]):
        for part in operator.on_batch(0, rows(range(start, stop), start)):
            if isinstance(part, Batch):
                kept += part.rows["x"].to_pylist()
            elif isinstance(part, Quarantined):
                aside |= dict.fromkeys(part.batch.rows["x"].to_pylist(), part.text)
    return kept, aside


@settings(max_examples=250, deadline=None)
@given(case=cases())
def test_rows_pass_and_fail_as_in_written_order(case):
    expected = [case.as_written(row) for row in range(case.size)]
    failing = {row: text for row, (outcome, text) in enumerate(expected) if outcome == RAISES}
    # A row that another filter rejects need not have been shown to the one that raises on it.
    certain = {row for row in failing if not any(outcomes[row] == REJECTS for outcomes in case.outcomes)}
    try:
        kept, aside = run(case)
    except FilterFailed as error:
        assert case.settings.on_error == "fail"
        said = re.search(r"filter 'f\d' raised ValueError: f\d cannot judge (\d+)", str(error))
        assert said is not None
        assert failing.get(int(said[1])) == said[0]
        return
    assert kept == [row for row, (outcome, _) in enumerate(expected) if outcome == PASSES]
    assert aside.items() <= failing.items()
    assert certain <= aside.keys()


@pytest.mark.parametrize("algorithm", ["agreedy", "sweep", "independent", "local_swaps", "random"])
def test_a_division_that_a_condition_protects_never_fails(algorithm):
    order = OrderSettings(algorithm, probability=1.0, window_rows=8, stage_rows=4, min_fill=4)
    filters = [
        Filter("not_zero", OnArrow(lambda x: pc.not_equal(x, 0), ("x",)), 1.0),
        Filter("inverse", OnRows(lambda x: 1 / x > 0.5, ("x",)), 1.0),
    ]
    operator = AdaptiveFilter(SCHEMA, filters, FilterSettings(order, mode="shard"), order=["inverse", "not_zero"])
    kept = [
        value
        for start in (0, 8, 16)
        for part in operator.on_batch(0, rows([5, 1, 0, 1, 7, 0, 9, 1], start))
        for value in part.rows["x"].to_pylist()
    ]
    assert kept == [1, 1, 1] * 3
    assert operator.counters()["failed"] == 0


def test_a_chunk_that_goes_as_written_is_counted_and_profiled():
    filters = [
        Filter("not_zero", OnArrow(lambda x: pc.not_equal(x, 0), ("x",)), 1.0),
        Filter("inverse", OnRows(lambda x: 1 / x > 0.5, ("x",)), 1.0),
    ]
    settings = FilterSettings(OrderSettings("agreedy", probability=1.0, min_fill=1000), mode="shard")
    operator = AdaptiveFilter(SCHEMA, filters, settings, order=["inverse", "not_zero"])
    operator.on_batch(0, rows([0, 9, 1, 0]))
    counters = operator.counters()
    assert counters["taken_as_written"] == 1
    # The nine is known to pass one filter and to fail the other; of a zero the other filter can say nothing.
    assert (counters["profiled"], counters["profile_errors"]) == (1, 2)
    assert counters["evaluations:inverse"] == 2


def test_an_answer_of_the_wrong_kind_counts_only_where_it_is_reached():
    odd = Filter("odd", OnRows(lambda x: x if x == 0 else x > 1, ("x",)), 1.0)
    positive = Filter("positive", OnArrow(lambda x: pc.greater(x, 0), ("x",)), 1.0)
    (kept,) = AdaptiveFilter(SCHEMA, [positive, odd], order=["odd", "positive"]).on_batch(0, rows([0, 1, 2]))
    assert kept.rows["x"].to_pylist() == [2]
    with pytest.raises(FilterMisbehaved):
        AdaptiveFilter(SCHEMA, [odd, positive]).on_batch(0, rows([0, 1, 2]))
