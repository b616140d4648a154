"""The strategy that chooses a strategy."""

from __future__ import annotations

import json

import pytest
from driving import MS, Arrival, drive, operator, plan_of, rows, within

from penstock.kernel.contracts import Explained, HearsArrivals
from penstock.kernel.work import Item, Terms, WaitingWork, WorkPlan
from penstock.qos.scheduling.auto import ArrivingLoad, Auto, Mode
from penstock.qos.scheduling.profit import Profit

PLAN = plan_of(operator("a", 1, "b", entrances=(0,), selectivity=0.5), operator("b", 2, answers=["q"]), q=within(100))
WITHOUT = plan_of(*PLAN.operators)


def auto(plan: WorkPlan = PLAN) -> Auto:
    made = Auto(Profit)
    made.plan(plan)
    return made


def feed(policy: Auto, times_ms: list[float], count: int) -> list[Mode]:
    """Rows that take 2 ms each in all; the mode after each arrival."""
    work, modes = WaitingWork(PLAN), []
    for number, at in enumerate(times_ms):
        work.now_ns = round(at * MS)
        item = Item(0, rows(*[round(at * 1_000)] * count), work.now_ns, number)
        work.add("a", item)
        policy.on_arrival("a", item, work.now_ns)
        policy.pick(work)
        modes.append(policy.mode)
    return modes


def test_it_hears_arrivals_and_explains_itself() -> None:
    assert isinstance(auto(), HearsArrivals)
    assert isinstance(auto(), Explained)
    assert auto().explained()[:2] == ["strategy in use: deadline", "q: weight 1, valid until 0.1 s after their arrival"]


def test_queries_with_and_without_validities_get_different_strategies() -> None:
    policy = auto(WITHOUT)
    assert policy.mode is Mode.WITHOUT_VALIDITY
    policy.plan(PLAN)
    assert policy.mode is Mode.DEADLINE
    policy.plan(plan_of(*PLAN.operators, q=Terms(weight=4)))
    assert policy.mode is Mode.WITHOUT_VALIDITY


def test_load_is_what_arriving_rows_set_going_for_the_time_that_passes() -> None:
    load = ArrivingLoad()
    load.plan(PLAN)
    for number, at in enumerate([0, 10, 20, 30]):
        load.hear(("a", 0), Item(0, rows(*range(5)), at * MS, number), at * MS)
    assert load.value == pytest.approx(1.0)


def test_load_forgets_what_was_before_the_mean_laxity() -> None:
    load = ArrivingLoad()
    load.plan(PLAN)
    for number, at in enumerate([*range(0, 1_000, 10), *range(1_000, 1_200, 10)]):
        load.hear(("a", 0), Item(0, rows(*range(20 if at < 1_000 else 5)), at * MS, number), at * MS)
    assert load.value == pytest.approx(1.0)


def test_batches_rarer_than_the_mean_laxity_do_not_look_like_more_load() -> None:
    load = ArrivingLoad()
    load.plan(PLAN)
    for number, at in enumerate([0, 1_000, 2_000, 3_000]):
        load.hear(("a", 0), Item(0, rows(*range(500)), at * MS, number), at * MS)
    assert load.value == pytest.approx(1.0)


def test_it_goes_by_profit_above_the_threshold_and_back_well_below_it() -> None:
    policy = auto()
    times = [10.0 * number for number in range(100)]
    assert feed(policy, times[:30], count=8)[-1] is Mode.DEADLINE  # 1.6
    assert feed(policy, times[30:60], count=9)[-1] is Mode.PROFIT_DEADLINE  # 1.8
    assert feed(policy, times[60:80], count=7)[-1] is Mode.PROFIT_DEADLINE  # 1.4
    assert feed(policy, times[80:], count=6)[-1] is Mode.DEADLINE  # 1.2


def test_the_other_strategy_goes_on_where_the_one_stands() -> None:
    policy = auto()
    feed(policy, [10.0 * number for number in range(20)], count=9)
    before = policy.snapshot()["policy"]
    policy._go_on_with(Mode.DEADLINE)
    assert policy.snapshot()["policy"] == before


@pytest.mark.parametrize("plan_first", [True, False])
def test_a_restored_one_goes_on_in_the_same_mode(plan_first: bool) -> None:
    policy = auto()
    feed(policy, [10.0 * number for number in range(20)], count=9)
    other = Auto(Profit)
    if plan_first:
        other.plan(PLAN)
    other.restore(json.loads(json.dumps(policy.snapshot())))
    if not plan_first:
        other.plan(PLAN)
    assert other.mode is Mode.PROFIT_DEADLINE
    assert other.snapshot() == policy.snapshot()


@pytest.mark.parametrize("plan", [PLAN, WITHOUT])
def test_everything_is_served_and_restarts_change_nothing(plan: WorkPlan) -> None:
    arrivals = [Arrival(7 * number, "a", rows(*range(6 + number % 5))) for number in range(40)]
    run = drive(Auto(Profit), plan, arrivals, slice_rows=3)
    assert drive(Auto(Profit), plan, arrivals, slice_rows=3, saving=True, fresh=lambda: Auto(Profit)).chosen == run.chosen
    assert {number for _, _, number, _ in run.chosen} == set(range(40))
