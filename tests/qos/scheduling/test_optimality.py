"""How near strategies come to the best order there is, by exhaustive search over small backlogs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.kernel.contracts import Policy
from penstock.kernel.work import Item, PlannedOperator, Price, WaitingWork, WorkPlan
from penstock.qos.scheduling.chain import Chain
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.segment import Segment
from penstock.testing.scheduling import UNIT_NS, line, plan_of, rows
from penstock.testing.scheduling_simulator import Arrival, Simulation

#: Rows of a tuple, so that three operators that keep halves and thirds leave whole rows.
TUPLE = 216


@dataclass(frozen=True)
class Backlog:
    """Paths as operators (nanoseconds a row, rows kept of six), and on which path each waiting tuple is."""

    paths: tuple[tuple[tuple[int, int], ...], ...]
    tuples: tuple[int, ...]

    @property
    def plan(self) -> WorkPlan:
        return plan_of(*(one for at, _ in enumerate(self.paths) for one in self.line(at)))

    def line(self, at: int) -> list[PlannedOperator]:
        prices = (Price(0, row_ns, kept / 6, 1, 1) for row_ns, kept in self.paths[at])
        return line(f"p{at}_", *prices, answers=f"q{at}")

    def costs(self, at: int) -> tuple[list[int], int]:
        """Nanoseconds of a tuple at each operator of a path, and how many rows are left of it."""
        left, found = TUPLE, []
        for row_ns, kept in self.paths[at]:
            found.append(left * row_ns)
            left = left * kept // 6
        return found, left

    def best(self, weights: Sequence[int]) -> int:
        """The least sum over all tuples of weight times completion, over all interleavings of operators."""
        costs = [self.costs(at)[0] for at in self.tuples]
        found = {(0,) * len(costs): 0}
        for state in product(*(range(len(cost) + 1) for cost in costs)):
            now = sum(sum(cost[:done]) for cost, done in zip(costs, state, strict=True))
            forerunners = []
            for at, done in enumerate(state):
                if done:
                    before = found[(*state[:at], done - 1, *state[at + 1 :])]
                    forerunners.append(before + (weights[at] * now if done == len(costs[at]) else 0))
            if forerunners:
                found[state] = min(forerunners)
        return found[tuple(map(len, costs))]

    def completions(self, policy: Policy) -> list[int]:
        """When each tuple has left by a strategy, for which a slice is a tuple."""
        simulation = Simulation(policy, self.plan, quantum_ns=TUPLE * 10**6)
        simulation.run(Arrival(0, f"p{at}_1", TUPLE) for at in self.tuples)
        ends: dict[int, list[int]] = {}
        for answered in simulation.answered:
            ends.setdefault(int(answered.query[1:]), []).append(answered.at_ns)
        return [ends[at].pop(0) for at in self.tuples]


def backlogs() -> st.SearchStrategy[Backlog]:
    stage = st.tuples(st.integers(1, 5), st.sampled_from([2, 3, 6]))
    return st.lists(st.lists(stage, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).flatmap(
        lambda paths: st.builds(
            Backlog, st.just(tuple(paths)), st.lists(st.integers(0, len(paths) - 1), min_size=1, max_size=5).map(tuple)
        )
    )


@settings(deadline=None)
@given(backlogs())
def test_of_a_backlog_path_capacity_has_the_least_latency_per_tuple(backlog: Backlog) -> None:
    assert sum(backlog.completions(PathCapacity())) == backlog.best([1] * len(backlog.tuples))


@settings(deadline=None)
@given(backlogs())
def test_of_a_backlog_path_answers_has_the_least_latency_per_answer(backlog: Backlog) -> None:
    weights = [backlog.costs(at)[1] for at in backlog.tuples]
    ends = backlog.completions(PathAnswers())
    assert sum(weight * end for weight, end in zip(weights, ends, strict=True)) == backlog.best(weights)


def test_path_capacity_does_not_have_the_least_latency_per_answer() -> None:
    backlog = Backlog((((1, 2),), ((2, 6),)), (0, 1))
    weights = [backlog.costs(at)[1] for at in backlog.tuples]
    ends = backlog.completions(PathCapacity())
    assert sum(weight * end for weight, end in zip(weights, ends, strict=True)) > backlog.best(weights)


@dataclass(frozen=True)
class Burst:
    """Paths as operators (units of work a tuple, bytes in front of it), and when tuples arrive on which of them."""

    paths: tuple[tuple[tuple[int, int], ...], ...]
    tuples: tuple[tuple[int, int], ...]

    @property
    def plan(self) -> WorkPlan:
        return plan_of(
            *(
                one
                for at, path in enumerate(self.paths)
                for one in line(f"p{at}_", *(Price(0, units * UNIT_NS, 1, size, 1) for units, size in path))
            )
        )

    @property
    def horizon(self) -> int:
        work = sum(units for _, at in self.tuples for units, _ in self.paths[at])
        return work + max(time for time, _ in self.tuples) + 1

    def memory(self, at: int, done: int) -> int:
        """Of a tuple of a path for which so many units have been done."""
        for units, size in self.paths[at]:
            if done < units:
                return size
            done -= units
        return 0

    def least_memory(self) -> list[int]:
        """At each time the least memory that any strategy could have, which may do any unit of any tuple, or nothing."""
        states, fresh = set[tuple[int, ...]](), {(0,) * len(self.tuples)}
        found, least = [], 10**9
        for now in range(self.horizon):
            here = [number for number, (time, _) in enumerate(self.tuples) if time <= now]
            new = [number for number in here if self.tuples[number][0] == now]
            states |= fresh
            looked_at = states if new else fresh
            memories = [self._memory(here, state) for state in looked_at]
            least = min(memories) if new else min([least, *memories])
            found.append(least)
            # What could be done before now to tuples that were here has been done to all states before.
            fresh = {next_ for state in fresh for next_ in self._next(here, state)}
            fresh |= {next_ for state in states for next_ in self._next(new, state)}
            fresh -= states
        return found

    def _memory(self, here: Sequence[int], state: Sequence[int]) -> int:
        return sum(self.memory(self.tuples[number][1], state[number]) for number in here)

    def _next(self, numbers: Sequence[int], state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        for number in numbers:
            if state[number] < sum(units for units, _ in self.paths[self.tuples[number][1]]):
                yield (*state[:number], state[number] + 1, *state[number + 1 :])

    def memory_of(self, policy: Policy) -> list[int]:
        """At each time the memory by a strategy that is asked before every unit, also inside a tuple."""
        plan = self.plan
        consumers = {operator.id: operator.consumers for operator in plan.operators}
        prices = {operator.id: operator.prices[0] for operator in plan.operators}
        policy.plan(plan)
        work, done, found = WaitingWork(plan), dict[str, int](), []
        for now in range(self.horizon):
            work.now_ns = now * UNIT_NS
            for number, (time, at) in enumerate(self.tuples):
                if time == now:
                    work.add(f"p{at}_1", Item(0, rows(1), work.now_ns, number))
            found.append(work.memory)
            choice = policy.pick(work)
            if choice is None:
                continue
            name = choice.operator
            done[name] = done.get(name, 0) + 1
            if done[name] * UNIT_NS == prices[name].row_ns:
                done[name] = 0
                item = work.take(choice)
                for consumer, port in consumers[name]:
                    work.add(consumer, Item(port, item.element, item.since_ns, item.number))
        return found

    @property
    def allowance(self) -> int:
        """Of each path the largest memory that one of its tuples can take."""
        return sum(max(size for _, size in path) for path in self.paths)


@st.composite
def bursts(draw: st.DrawFn) -> Burst:
    stage = st.tuples(st.integers(1, 3), st.integers(1, 10))
    paths = draw(st.lists(st.lists(stage, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3))
    arrivals = st.tuples(st.integers(0, 4), st.integers(0, len(paths) - 1))
    return Burst(tuple(paths), tuple(sorted(draw(st.lists(arrivals, min_size=1, max_size=4)))))


#: G7: the whole of X releases faster than any part of Y, but only after two units.
G7 = Burst((((1, 10), (1, 10)), ((1, 10), (8, 6))), ((0, 0), (0, 1), (1, 0)))


@settings(deadline=None)
@given(bursts())
@example(G7)
def test_segments_never_hold_more_than_the_best_strategy_and_a_tuple_per_path(burst: Burst) -> None:
    for policy in (Segment(), Chain()):
        pairs = zip(burst.memory_of(policy), burst.least_memory(), strict=True)
        assert all(memory <= least + burst.allowance for memory, least in pairs)


def test_segments_do_hold_more_than_the_best_strategy() -> None:
    assert burst_peaks(G7, Segment()) == (30, 26)


def burst_peaks(burst: Burst, policy: Policy) -> tuple[int, int]:
    """The peak by a strategy and the least that is possible at every time, which in G7 one order reaches."""
    return max(burst.memory_of(policy)), max(burst.least_memory())
