"""How much memory a join will need: formulas, declarations, reports, and what to do when an estimate is wrong."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from penstock.errors import OutOfMemory
from penstock.language.application import parse_application
from penstock.metadata.statistics import WatchedInput
from penstock.plan.analysis.estimation import (
    Basis,
    InputEstimate,
    JoinStatistics,
    compare,
    declared_estimates,
)
from penstock.plan.analysis.propagate import propagate
from penstock.plan.analysis.retuning import Retuning, allocate
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.joins import WindowJoin


def test_g26_rate_times_mean_stay() -> None:
    first = InputEstimate("s", 500, 0.5, 32, Basis.MEASURED)
    assert first.rows == pytest.approx(250)


def test_g26_without_a_punctuation_so_far_a_row_stays_for_its_window() -> None:
    (left, _) = reported([(15, 15)] * 2, rows=500)
    assert (left.rows, left.basis) == (7500, Basis.WINDOW)


def test_g26_without_window_and_punctuation_state_is_unbounded() -> None:
    (left, _) = reported([(None, None)] * 2, rows=500)
    assert left.rows == inf
    assert str(left) == "memory of left: unbounded"


def reported(windows: list[tuple[int | None, int | None]], rows: int, **more: int) -> tuple[InputEstimate, ...]:
    """Estimates after four reports, ten units of time apart."""
    seen = JoinStatistics([WatchedInput(("k",), window) for window in windows[0]])
    for clock in (10, 20, 30, 40):
        counters = {"shards": 2, "state_rows": 0}
        for port in (0, 1):
            counters |= {f"rows.{port}": rows * clock, f"clock.{port}": 2 * clock, f"closings.{port}": 0}
        seen.update(
            {
                **counters,
                **{name.replace("_at_", "."): value * (clock if "closings" in name else 1) for name, value in more.items()},
            }
        )
    return seen.estimates(("left", "right"), (32.0, 32.0))


def test_measured_stays_replace_windows() -> None:
    (left, right) = reported([(100, 100)], 7, closings_at_1=1, stay_at_0=1200, stay_rows_at_0=400)
    assert (left.rows, left.basis) == (pytest.approx(21), Basis.MEASURED)
    assert right.basis is Basis.WINDOW


def test_values_that_stay_open_longer_than_closed_ones_make_a_windowless_join_possibly_unsafe() -> None:
    open_values = {"stay_at_0": 1200, "stay_rows_at_0": 400, "open_rows_at_0": 100}
    (calm, _) = reported([(None, None)], 7, closings_at_1=1, overdue_rows_at_0=3, **open_values)
    (growing, _) = reported([(None, None)], 7, closings_at_1=1, overdue_rows_at_0=90, **open_values)
    (bounded, _) = reported([(50, 50)], 7, closings_at_1=1, overdue_rows_at_0=90, **open_values)
    assert (calm.is_possibly_unsafe, growing.is_possibly_unsafe, bounded.is_possibly_unsafe) == (False, True, False)
    assert str(growing).endswith("possibly unsafe")


def test_a_windowless_join_is_possibly_unsafe_until_the_first_value_was_closed_on_both_sides() -> None:
    (left, _) = reported([(None, None)], 7, closings_at_1=1)
    assert (left.rows, left.is_possibly_unsafe) == (None, True)


def test_rates_follow_a_change_with_the_half_life_and_survive_a_restored_shard() -> None:
    seen = JoinStatistics([WatchedInput(("k",), 5)] * 2, half_life=2)
    total = 0
    for batch in range(1, 40):
        total += 100 if batch < 20 else 300
        seen.update({"shards": 1, "rows.0": total, "clock.0": 10 * batch, "closings.0": batch, "stay.0": 0})
    assert seen.rate(0) == pytest.approx(30, rel=0.01)
    seen.update({"shards": 1, "rows.0": 0, "clock.0": 390, "closings.0": 0, "stay.0": 0})
    assert seen.rate(0) == pytest.approx(30, rel=0.01)
    assert seen.rate(1) is None


# -- declarations -----------------------------------------------------------------------------------------------------

STREAMS = """
CREATE STREAM a (k BIGINT, at TIMESTAMP, {a} WATERMARK at DELAY OF INTERVAL 1 SECONDS) USING feed OPTIONS (rate '100');
CREATE STREAM b (k BIGINT, at TIMESTAMP, {b} WATERMARK at DELAY OF INTERVAL 0 SECONDS) USING feed {rate};
CREATE CQ q AS SELECT a.k FROM a {wa}, b {wb} WHERE a.k = b.k;
"""


def declared(**parts: str) -> tuple[InputEstimate, ...]:
    blank = {"a": "", "b": "", "wa": "", "wb": "", "rate": "OPTIONS (rate '10')"}
    return estimates_of(parse_application(STREAMS.format(**(blank | parts))))


def estimates_of(catalog: Catalog) -> tuple[InputEstimate, ...]:
    judged = propagate(catalog)["q"]
    known = {id(found.node): found.known for found in judged}
    (join,) = [found for found in judged if isinstance(found.node, WindowJoin)]
    assert isinstance(join.node, WindowJoin)
    return declared_estimates(join.node, [known[id(part)] for part in join.node.parts], join.holdings)


def test_before_a_run_declared_rates_and_windows_give_the_estimate() -> None:
    (a, b) = declared(wa="[RANGE 20 SECONDS]", wb="[RANGE 3 SECONDS]")
    assert (a.rows, b.rows) == (pytest.approx(2000), pytest.approx(40))  # b waits one second longer for a
    assert a.num_bytes == pytest.approx(2000 * 32)


def test_before_a_run_only_punctuations_bound_a_windowless_join_and_that_is_possibly_unsafe() -> None:
    (a, b) = declared(a="UNIQUE (k),", b="UNIQUE (k),")
    assert (a.rows, a.basis, a.is_possibly_unsafe) == (None, Basis.CLOSING, True)
    assert str(b) == "memory of b: known once values have been closed, possibly unsafe"


def test_before_a_run_a_join_without_any_bound_says_so() -> None:
    assert [estimate.rows for estimate in declared()] == [inf, inf]


def test_without_a_rate_no_number_is_invented() -> None:
    (_, b) = declared(wa="[RANGE 20 SECONDS]", wb="[RANGE 3 SECONDS]", rate="")
    assert (b.rows, b.basis) == (None, Basis.NO_RATE)
    assert "rate is not declared" in str(b)


# -- comparing, retuning, sharing -------------------------------------------------------------------------------------


def test_an_estimate_is_compared_only_where_there_is_one() -> None:
    known, unknown = InputEstimate("a", 10, 5, 32, Basis.WINDOW), InputEstimate("b", None, 5, 32, Basis.NO_RATE)
    assert compare("Join", [known, unknown], 50) is None
    found = compare("Join", [known, known], 80)
    assert found is not None
    assert found.error == pytest.approx(0.25)


def test_an_estimate_is_replaced_after_three_wrong_batches_in_a_row_only() -> None:
    tuning = Retuning([InputEstimate("a", 10, 10, 32, Basis.WINDOW)])
    fresh = [InputEstimate("a", 10, 5, 32, Basis.MEASURED)]
    answers = [tuning.observe(rows, fresh) for rows in (50, 50, 95, 50, 50, 50, 50)]
    assert answers == [False, False, False, False, False, True, False]
    assert tuning.rows == pytest.approx(50)


def test_a_deviation_of_a_fifth_is_put_up_with() -> None:
    tuning = Retuning([InputEstimate("a", 10, 10, 32, Basis.WINDOW)])
    assert not any(tuning.observe(rows, []) for rows in (84, 120, 90, 84))


@given(
    wanted=st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0, 1e6), min_size=1, max_size=6),
    floor=st.floats(0, 100), spare=st.floats(0, 1e5),
)  # fmt: skip
@example(wanted={"a": 5e-324}, floor=0.0, spare=1.5)
@settings(max_examples=80, deadline=None)
def test_memory_is_shared_in_proportion_and_nobody_falls_below_the_floor(
    wanted: dict[str, float], floor: float, spare: float
) -> None:
    budget = floor * len(wanted) + spare
    shares = allocate(budget, wanted, floor)
    assert sum(shares.values()) == pytest.approx(budget, rel=1e-6, abs=1e-3)
    assert all(share >= floor - 1e-6 for share in shares.values())
    above = [name for name, share in shares.items() if share > floor * 1.001 + 1e-3 and wanted[name] > 1]
    for one, other in pairwise(above):
        assert shares[one] / wanted[one] == pytest.approx(shares[other] / wanted[other], rel=1e-3)


def test_less_memory_than_the_floors_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="give more memory"):
        allocate(10.0, {"a": 1.0, "b": 1.0}, floor_bytes=6.0)
