"""Strategies with profits and deadlines, driven over real queues with a clock of prices; every order is reckoned by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from driving import MS, Arrival, Run, drive, operator, plan_of, rows, within
from hypothesis import given, settings

from penstock.kernel.contracts import Explained, HearsArrivals, Policy
from penstock.kernel.work import Item, Terms, WaitingWork, WorkPlan
from penstock.model.elements import End, Heartbeat
from penstock.qos.scheduling.basic import Basic
from penstock.qos.scheduling.basic_deadline import BasicDeadline
from penstock.qos.scheduling.basic_profit_deadline import BasicProfitDeadline
from penstock.qos.scheduling.deadline import Deadline
from penstock.qos.scheduling.profit import Profit
from penstock.qos.scheduling.profit_deadline import ProfitDeadline

STRATEGIES: list[Callable[..., Any]] = [Basic, Profit, BasicDeadline, Deadline, BasicProfitDeadline, ProfitDeadline]
WITH_DEADLINES = STRATEGIES[2:]

#: Figure 4.2: the operators of two inputs, at a, f and i.
FIGURE = [
    operator("a", 1, "be", entrances=(0,)),
    operator("b", 1, "cd"),
    operator("c", 2, answers=["q1"]),
    operator("d", 1, answers=["q2"]),
    operator("e", 4, "f"),
    operator("f", [3, 3], "gh", entrances=(1,)),
    operator("g", 2, answers=["q3"]),
    operator("h", 1, answers=["q4"]),
    operator("i", 1, answers=["q5"], entrances=(0,)),
]


def two(s: tuple[float, float, float], *others: tuple[float, float, float]) -> tuple[WorkPlan, list[Arrival]]:
    """Jobs with cost, deadline and profit, each an operator of its own: 's', 't', 'u'; all come at once."""
    named = dict(zip("stuv", (s, *others), strict=False))
    plan = plan_of(
        *(operator(name, cost, answers=[name], entrances=(0,)) for name, (cost, _, _) in named.items()),
        **{name: within(deadline, profit) for name, (_, deadline, profit) in named.items()},
    )
    return plan, [Arrival(0, name, rows(0)) for name in named]


def after_a_slice(plan: WorkPlan, arrivals: list[Arrival]) -> tuple[WorkPlan, list[Arrival]]:
    """Something of 1 ms runs before, so that the strategy knows how long slices are."""
    first = operator("w", 1, answers=["w"], entrances=(0,))
    return plan_of(first, *plan.operators, **plan.terms), [Arrival(-1, "w", rows(0)), *arrivals]


# What is waiting


@pytest.mark.parametrize("make", STRATEGIES)
def test_it_is_a_policy_that_explains_itself_and_hears_arrivals(make: Callable[..., Any]) -> None:
    policy: Policy = make()
    assert isinstance(policy, Explained)
    assert isinstance(policy, HearsArrivals)
    assert policy.explained() == []
    assert policy.pick(WaitingWork(WorkPlan(()))) is None
    policy.plan(plan_of(*FIGURE, q1=within(5, 3)))
    lines = "\n".join(policy.explained())
    assert "q1: weight 3, valid until 0.005 s after their arrival" in lines
    assert "rows that enter at 'f', port 1:" in lines


def test_fragments_are_explained_with_their_figures() -> None:
    policy = Profit(profit="weight")
    policy.plan(
        plan_of(
            operator("a", 1, "bc", entrances=(0,)), operator("b", 1, answers=["q1"]), operator("c", 3, answers=["q2"]), q2=within(9)
        )
    )
    assert policy.explained() == [
        "q1: weight 1, always valid",
        "q2: weight 1, valid until 0.009 s after their arrival",
        "rows that enter at 'a', port 0:",
        "  1. a → b: 2000 µs and profit 1 a row, 0.5 a ms; for q1",
        "  2. c: 3000 µs and profit 1 a row, 0.3333 a ms; for q2",
    ]


@pytest.mark.parametrize("make", STRATEGIES)
def test_elements_without_rows_run_as_soon_as_they_are_in_front(make: Callable[..., Any]) -> None:
    plan = plan_of(*FIGURE, q5=within(1, 100), q1=within(1_000))
    run = drive(make(), plan, [Arrival(0, "i", rows(0)), Arrival(0, "a", Heartbeat(5)), Arrival(0, "a", rows(0))])
    assert run.chosen[0][:3] == ("a", 0, 1)
    assert {name for name, _ in run.marks} == set("abcdefgh")


@pytest.mark.parametrize("make", STRATEGIES)
def test_an_operator_that_answers_nobody_is_served_last_but_served(make: Callable[..., Any]) -> None:
    plan = plan_of(operator("a", 1, entrances=(0,)), operator("b", 1, answers=["q"], entrances=(0,)), q=within(5))
    assert drive(make(), plan, [Arrival(0, "a", rows(0)), Arrival(0, "b", rows(0))]).order == [("b", 1), ("a", 0)]


@pytest.mark.parametrize("make", STRATEGIES)
def test_an_operator_that_is_not_in_the_plan_is_served(make: Callable[..., Any]) -> None:
    work = WaitingWork(plan_of(operator("old")))
    work.add("old", Item(0, rows(0)))
    policy = make()
    policy.plan(plan_of(operator("new", answers=["q"])))
    assert policy.pick(work) == ("old", 0)


# Profit


def test_job_by_job_all_profit_behind_counts_for_the_own_price() -> None:
    """a: 2 queries behind it for 1 ms; b: 3 of them, but for 2 ms."""
    plan = plan_of(
        operator("a", 1, "x", entrances=(0,)),
        operator("b", 2, "y", entrances=(0,)),
        operator("x", 30, answers=["q1"]),
        operator("y", 1, answers=["q2"]),
        q1=Terms(weight=2),
        q2=Terms(weight=3),
    )
    arrivals = [Arrival(0, "a", rows(0)), Arrival(0, "b", rows(0))]
    assert drive(Basic(), plan, arrivals).order == [("a", 0), ("b", 1), ("y", 1), ("x", 0)]
    assert drive(Profit(), plan, arrivals).order == [("b", 1), ("y", 1), ("a", 0), ("x", 0)]


def test_a_shared_operator_is_paid_for_by_the_best_behind_it() -> None:
    """Figure 4.5 as operators: fragments (a, b, d), then (e, f, h), against an arrival elsewhere of density 1.5."""
    priced = [
        operator("a", 1, "be", entrances=(0,)),
        operator("b", 1, "cd"),
        operator("c", 2, answers=["q3"]),
        operator("d", 1, answers=["q4"]),
        operator("e", 4, "f"),
        operator("f", 3, "gh"),
        operator("g", 2, answers=["q7"]),
        operator("h", 1, answers=["q8"]),
        operator("z", 2, answers=["q9"], entrances=(0,)),
    ]
    weights = {"q3": 1, "q4": 6, "q7": 1, "q8": 10, "q9": 3}
    plan = plan_of(*priced, **{query: Terms(weight=weight) for query, weight in weights.items()})
    run = drive(Profit(profit="weight"), plan, [Arrival(0, "a", rows(0)), Arrival(0, "z", rows(0))])
    assert [name for name, _ in run.order] == list("abdzefhcg")


def test_a_running_fragment_is_only_left_for_a_better_one_when_rows_come_in() -> None:
    plan = plan_of(
        operator("a", 4, "b", entrances=(0,)),
        operator("b", 4, answers=["q"]),
        operator("c", 2, answers=["r"], entrances=(0,)),
        r=Terms(weight=10),
    )
    come = [Arrival(0, "a", rows(0, 1)), Arrival(1, "c", rows(2)), Arrival(3, "a", rows(3))]
    assert drive(Profit(), plan, come, slice_rows=1).order == [("a", 0), ("c", 1), ("b", 0), ("a", 0), ("b", 0), ("a", 2), ("b", 2)]


def test_profits_are_shares_of_the_answers_of_a_query_so_many_answers_are_not_worth_more() -> None:
    plan = plan_of(
        operator("many", 1, answers=["m"], entrances=(0,), selectivity=100.0),
        operator("few", 1, answers=["f"], entrances=(0,), selectivity=0.01),
        f=Terms(weight=2),
    )
    assert drive(Profit(), plan, [Arrival(0, "many", rows(0)), Arrival(0, "few", rows(0))]).order[0] == ("few", 1)


def test_after_a_new_plan_profits_are_shares_of_what_has_come() -> None:
    """Of the rows nine in ten went to 'busy', so each of its answers is a smaller share of all."""
    plan = plan_of(operator("busy", 1, answers=["b"], entrances=(0,)), operator("calm", 1, answers=["c"], entrances=(0,)))
    policy = Profit()
    policy.plan(plan)
    for name, count in (("busy", 9), ("calm", 1)):
        policy.on_arrival(name, Item(0, rows(*range(count))), 0)
    work = WaitingWork(plan)
    work.add("busy", Item(0, rows(0)))
    work.add("calm", Item(0, rows(0), number=1))
    assert policy.pick(work) == ("busy", 0)
    again = plan_of(*plan.operators, b=Terms(weight=1.5))
    policy.plan(again)
    assert policy.pick(work) == ("calm", 0)
    other = Profit()
    other.restore(policy.snapshot())
    other.plan(again)
    assert other.pick(work) == ("calm", 0)
    assert other.explained() == policy.explained()


def test_an_operator_that_has_let_nothing_pass_is_not_worthless() -> None:
    plan = plan_of(
        operator("a", 1, "b", entrances=(0,), selectivity=0.0),
        operator("b", 1, answers=["q"]),
        operator("c", 1, answers=["r"], entrances=(0,)),
        q=Terms(weight=9),
    )
    assert drive(Profit(), plan, [Arrival(0, "a", rows(0)), Arrival(0, "c", rows(0))]).order[0] == ("a", 0)


def test_a_price_of_zero_is_not_an_infinite_density() -> None:
    plan = plan_of(
        operator("free", 0, answers=["q"], entrances=(0,)),
        operator("dear", 0.001, answers=["r"], entrances=(0,)),
        r=Terms(weight=1.1),
    )
    assert drive(Profit(), plan, [Arrival(0, "free", rows(0)), Arrival(0, "dear", rows(0))]).order[0] == ("dear", 1)


# Deadlines


def test_what_can_wait_least_goes_first() -> None:
    plan, arrivals = two((1, 9, 1), (1, 5, 1), (3, 6, 1))
    assert [name for name, _ in drive(Deadline(), plan, arrivals).order] == ["u", "t", "s"]


def test_an_answer_at_its_deadline_is_in_time() -> None:
    plan, arrivals = two((2, 5, 1), (3, 5, 1))
    run = drive(Deadline(), plan, arrivals)
    assert [(one.query, one.at_ms, one.is_late) for one in run.answered] == [("t", 3, False), ("s", 5, False)]


def test_deadlines_are_the_earliest_of_those_of_event_and_arrival() -> None:
    plan = plan_of(operator("s", 1, answers=["s"], entrances=(0,)), s=Terms(1, after_event_us=20_000, after_arrival_us=25_000))
    run = drive(
        Deadline(), plan, [Arrival(100, "s", rows(100_000)), Arrival(119, "s", rows(100_000)), Arrival(119, "s", rows(100_000))]
    )
    assert [(one.at_ms, one.is_late) for one in run.answered] == [(101, False), (120, False), (121, True)]


def test_a_row_from_the_future_is_no_younger_than_its_arrival() -> None:
    plan = plan_of(
        operator("s", 1, answers=["s"], entrances=(0,)),
        operator("t", 1, answers=["t"], entrances=(0,)),
        s=Terms(1, after_event_us=5_000),
        t=Terms(1, after_event_us=9_000),
    )
    run = drive(Deadline(), plan, [Arrival(1, "t", rows(1_000)), Arrival(1, "s", rows(900_000))])
    assert run.order == [("s", 1), ("t", 0)]


@pytest.mark.parametrize("make", WITH_DEADLINES)
def test_what_is_late_on_arrival_runs_behind_everything_that_is_not(make: Callable[..., Any]) -> None:
    plan = plan_of(operator("s", 1, answers=["s"], entrances=(0,)), s=Terms(1, after_event_us=5_000))
    run = drive(make(), plan, [Arrival(100, "s", rows(90_000)), Arrival(100, "s", rows(97_000)), Arrival(100, "s", rows(98_000))])
    assert run.order == [("s", 1), ("s", 2), ("s", 0)]
    assert run.late == {0}


@pytest.mark.parametrize("make", STRATEGIES)
def test_a_greedy_strategy_gives_up_what_has_expired_and_others_what_will_have(make: Callable[..., Any]) -> None:
    """Two rows of 3 ms each, of use for 5 ms; a third arrival later earns less."""
    plan = plan_of(
        operator("s", 6, answers=["s"], entrances=(0,)),
        operator("t", 1, answers=["t"], entrances=(0,)),
        s=within(5, 100),
        t=within(50),
    )
    order = drive(make(), plan, [Arrival(0, "s", rows(0)), Arrival(0, "t", rows(0))]).order
    assert order == ([("s", 0), ("t", 1)] if make in (Basic, Profit) else [("t", 1), ("s", 0)])


@pytest.mark.parametrize("make", WITH_DEADLINES)
def test_a_promise_is_not_overtaken_by_what_it_speaks_of_nor_does_it_overtake(make: Callable[..., Any]) -> None:
    plan = plan_of(operator("s", 1, answers=["s"], entrances=(0,)), s=Terms(1, after_event_us=5_000))
    elements = [rows(1), Heartbeat(2), rows(97_000), End("x"), rows(98_000)]
    run = drive(make(), plan, [Arrival(100, "s", element) for element in elements])
    assert [number for _, _, number, _ in run.chosen] == [2, 0, 1, 3, 4]


@pytest.mark.parametrize("make", WITH_DEADLINES)
def test_an_item_of_which_some_rows_can_be_in_time_is_not_late(make: Callable[..., Any]) -> None:
    plan = plan_of(
        operator("s", 1, answers=["s"], entrances=(0,)),
        operator("t", 1, answers=["t"], entrances=(0,)),
        s=Terms(9, after_event_us=5_000),
    )
    arrivals = [Arrival(100, "t", rows(0)), Arrival(100, "s", rows(90_000, 99_000, 99_500))]
    assert drive(make(), plan, arrivals).order == [("s", 1), ("t", 0)]
    assert drive(make(splitting=False), plan, arrivals).order == [("t", 0), ("s", 1)]


@pytest.mark.parametrize("make", WITH_DEADLINES)
def test_of_an_item_that_takes_too_long_the_rows_in_front_are_in_time(make: Callable[..., Any]) -> None:
    """Ten rows of 1 ms, of use for 6 ms: worth more than what can wait, until 6 of them are answered."""
    plan = plan_of(
        operator("s", 1, answers=["s"], entrances=(0,)),
        operator("t", 1, answers=["t"], entrances=(0,)),
        s=within(6, 9),
        t=within(50),
    )
    run = drive(make(), plan, [Arrival(0, "s", rows(*range(10))), Arrival(0, "t", rows(0))], slice_rows=1)
    assert run.on_time("s") == 6
    assert run.order == [("s", 0), ("t", 1), ("s", 0)]


def test_a_query_that_is_late_does_not_take_others_with_it() -> None:
    """'b' can no longer be in time, 'c' can: then only 'c' counts, and what leads to it."""
    plan = plan_of(
        operator("a", 2, "bc", entrances=(0,)),
        operator("b", 9, answers=["b"]),
        operator("c", 1, answers=["c"]),
        operator("t", 1, answers=["t"], entrances=(0,)),
        b=within(8, 50),
        c=within(7, 1),
        t=within(100, 0.1),
    )
    run = drive(ProfitDeadline(), plan, [Arrival(0, "a", rows(0)), Arrival(0, "t", rows(0))])
    assert [name for name, _ in run.order] == ["a", "c", "t", "b"]


@pytest.mark.parametrize(("nl_deadline", "first"), [("path", "s"), ("subtree", "t")])
def test_an_inner_operator_must_end_before_the_longest_path_or_before_all_behind_it(nl_deadline: Any, first: str) -> None:
    """t, with 2 and 3 ms behind it: latest end 10 - 3 or 10 - 5; s: 6."""
    plan = plan_of(
        operator("s", 1, answers=["s"], entrances=(0,)),
        operator("t", 1, "xy", entrances=(0,)),
        operator("x", 2, answers=["t"]),
        operator("y", 3, answers=["t"]),
        s=within(6),
        t=within(10),
    )
    run = drive(BasicDeadline(nl_deadline=nl_deadline), plan, [Arrival(0, "s", rows(0)), Arrival(0, "t", rows(0))])
    assert run.order[0][0] == first


# Jobs that must start now


@pytest.mark.parametrize("make", [Deadline, BasicDeadline])
@pytest.mark.parametrize("slice_rows", [1, 10])
def test_deadlines_first_can_lose_jobs_that_all_could_be_in_time(make: Callable[..., Any], slice_rows: int) -> None:
    plan, _ = two((1, 12, 10), (1, 6, 0.5))
    arrivals = [Arrival(0, "s", rows(*range(10))), Arrival(0, "t", rows(0))]
    assert drive(make(), plan, arrivals, slice_rows).late == {1}
    assert drive(make(save_both=True), plan, arrivals, slice_rows).late == set()


def test_saving_both_loses_one_of_two_where_the_published_test_loses_both() -> None:
    plan, _ = two((1, 14, 10), (2, 7, 2), (2, 7, 2))
    plan, arrivals = after_a_slice(plan, [Arrival(0, "s", rows(*range(10))), Arrival(0, "t", rows(0)), Arrival(0, "u", rows(0))])
    assert drive(Deadline(), plan, arrivals, slice_rows=1).late == {2, 3}
    assert len(drive(Deadline(save_both=True), plan, arrivals, slice_rows=1).late) == 1


def test_profit_first_lets_a_job_through_that_earns_a_little_less_but_must_start() -> None:
    """Both could be in time: s can wait 20 ms, t 3 ms."""
    plan, _ = two((1, 30, 10), (1, 4, 7))
    plan = plan_of(*plan.operators, s=within(30, 1), t=within(4, 0.7))
    plan, arrivals = after_a_slice(plan, [Arrival(0, "s", rows(*range(10))), Arrival(0, "t", rows(0))])
    assert drive(Profit(), plan, arrivals, slice_rows=1).late == {2}
    run = drive(ProfitDeadline(), plan, arrivals, slice_rows=1)
    assert run.late == set()
    assert run.order == [("w", 0), ("s", 1), ("t", 2), ("s", 1)]


def test_a_job_asks_once_to_interrupt() -> None:
    """Below 1 each would displace the other at every slice for ever."""
    plan, _ = two((1, 8, 1), (1, 8, 1))
    plan = plan_of(*plan.operators, s=within(8), t=within(8))
    arrivals = [Arrival(0, "s", rows(*range(6))), Arrival(0, "t", rows(*range(6)))]
    order = drive(ProfitDeadline(), plan, arrivals, slice_rows=1).order
    assert len(order) <= 4


@pytest.mark.parametrize("make", [Deadline, ProfitDeadline])
def test_waiting_jobs_are_compared_rarely_while_a_fragment_runs(make: Callable[..., Any]) -> None:
    plan = plan_of(*FIGURE, **{f"q{number}": within(100_000) for number in range(1, 6)})
    policy = make()
    run = drive(policy, plan, [Arrival(0, "a", rows(*range(50))), Arrival(0, "i", rows(*range(50)))], slice_rows=1)
    assert policy.reschedulings <= 10 < len(run.chosen)


# All strategies, any work


@st.composite
def situations(draw: st.DrawFn) -> tuple[WorkPlan, list[Arrival]]:
    """Up to six operators in a tree with a second entrance; queries with weights and perhaps validities; rows and promises."""
    count = draw(st.integers(1, 6))
    above = [draw(st.integers(0, number - 1)) if number and draw(st.integers(0, 4)) else None for number in range(count)]
    names = "abcdef"[:count]
    operators = []
    for number, name in enumerate(names):
        below = [(names[child], 0) for child in range(count) if above[child] == number]
        joined = number > 0 and draw(st.booleans())
        entrances = ([0] if above[number] is None else []) + ([1] if joined else [])
        costs = [draw(st.integers(0, 5)), draw(st.integers(0, 5))]
        answers = [name] if not below or draw(st.booleans()) else []
        selectivity = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
        operators.append(operator(name, costs, below, answers, entrances, selectivity))
    terms = {}
    for name in names:
        event, arrival = (draw(st.one_of(st.none(), st.integers(1, 60))) for _ in range(2))
        limits = [None if limit is None else limit * 1_000 for limit in (event, arrival)]
        terms[name] = Terms(draw(st.integers(1, 10)), *limits)
    places = [(one.id, port) for one in operators for port in one.entrances]
    arrivals = []
    for _ in range(draw(st.integers(1, 12))):
        at, (name, port) = draw(st.integers(0, 60)), draw(st.sampled_from(places))
        if draw(st.integers(0, 5)):
            element: Any = rows(*(1_000 * max(0, at - draw(st.integers(0, 30))) for _ in range(draw(st.integers(1, 5)))))
        else:
            element = Heartbeat(at)
        arrivals.append(Arrival(at, name, element, port))
    return plan_of(*operators, **terms), arrivals


def answers(run: Run) -> list[tuple[str, int, int]]:
    return sorted((one.query, one.number, one.ts_us) for one in run.answered)


@pytest.mark.parametrize("make", STRATEGIES)
@settings(max_examples=60, deadline=None)
@given(situation=situations(), slice_rows=st.integers(1, 4))
def test_all_is_served_whatever_the_strategy_and_a_restart_before_each_pick_changes_nothing(
    make: Callable[..., Any], situation: tuple[WorkPlan, list[Arrival]], slice_rows: int
) -> None:
    plan, arrivals = situation
    run = drive(make(), plan, arrivals, slice_rows)
    again = drive(make(), plan, arrivals, slice_rows, saving=True, fresh=make)
    assert again.chosen == run.chosen
    served = {number for _, _, number, _ in run.chosen}
    assert served == set(range(len(arrivals)))


@pytest.mark.parametrize("make", WITH_DEADLINES)
@settings(max_examples=60, deadline=None)
@given(situation=situations())
def test_what_is_in_time_is_never_dispatched_behind_a_late_item_that_could_wait(
    make: Callable[..., Any], situation: tuple[WorkPlan, list[Arrival]]
) -> None:
    """P4: an item is only overtaken inside its queue if no query behind it could be answered in time any more."""
    plan, arrivals = situation
    policy = make(splitting=False)
    work = WaitingWork(plan)
    policy.plan(plan)
    for number, one in enumerate(arrivals):
        work.add(one.operator, Item(one.port, one.element, round(one.at_ms * MS), number))
    work.now_ns = 60 * MS
    while work.waiting:
        choice = policy.pick(work)
        assert choice is not None
        before = list(work.waiting[choice.operator].items)[: choice.position]
        chosen = work.take(choice)
        for passed in (item for item in before if item.rows and item.port == chosen.port):
            assert policy._job(choice.operator, 0, passed, work.now_ns) is None
