"""Segments: worked examples exactly, and the tree algorithm against all prefixes of all orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.work import PlannedOperator, Price, WorkPlan
from penstock.qos.scheduling.capacities import bottom_up, path_capacity, paths, release_capacity
from penstock.qos.scheduling.path_answers import PathAnswers
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.segment import Segment
from penstock.qos.scheduling.segmentation import (
    Block,
    block_of,
    greedy_blocks,
    memory_optimal_blocks,
    segments,
    two_blocks,
)
from penstock.qos.scheduling.stretches import Stretch
from penstock.qos.scheduling.trees import Step, trees
from penstock.testing.scheduling import UNIT_NS, line, operator, per_unit, plan_of

CUTS = (greedy_blocks, memory_optimal_blocks, two_blocks)


def exact(capacity: str, selectivity: str = "1", size: str = "1") -> Price:
    return per_unit(Fraction(capacity), Fraction(selectivity), Fraction(size))


def path(*prices: Price) -> Step:
    """A path of operators p1, p2, …"""
    (tree,) = trees(plan_of(*line("p", *prices)))
    return tree


def blocks(cut: Callable[[Step], list[Block]], tree: Step) -> dict[str, Fraction]:
    """Capacities per unit of time by operators, written as 1 23 for p1 and p2, p3."""
    return {
        "".join(step.operator.removeprefix("p") for step in block.steps): Fraction(block.capacity) * UNIT_NS for block in cut(tree)
    }


def own(tree: Step) -> list[Any]:
    return [release_capacity([step]) * UNIT_NS for step in tree.walk()]


def test_g3_greedy_segments_end_too_early() -> None:
    tree = path(*map(exact, ["10", "9", "7.5", "5", "4"], ["9/10", "5/6", "2/3", "4/5", "1/2"]))
    assert own(tree) == [1, Fraction(3, 2), Fraction(5, 2), 1, 4]
    assert [step.time_ns for step in tree.walk()] == [UNIT_NS // 10] * 5
    assert blocks(greedy_blocks, tree) == {"123": Fraction(5, 3), "45": Fraction(5, 2)}
    assert blocks(memory_optimal_blocks, tree) == blocks(two_blocks, tree) == {"12345": 2}
    assert path_capacity(tree) * UNIT_NS == 2


def test_g4_the_simple_segments_are_the_optimal_ones() -> None:
    tree = path(*map(exact, ["10", "1", "2", "1/2"], ["1/5", "9/10", "1/2", "1"]))
    assert own(tree) == [8, Fraction(1, 10), 1, Fraction(1, 2)]
    assert blocks(greedy_blocks, tree) == {"1": 8, "23": Fraction(11, 29), "4": Fraction(1, 2)}
    assert blocks(memory_optimal_blocks, tree) == blocks(two_blocks, tree) == {"1": 8, "234": Fraction(20, 47)}
    assert path_capacity(tree) * UNIT_NS == Fraction(100, 57)


def test_g5_greedy_segments_are_the_optimal_ones() -> None:
    tree = path(*map(exact, ["10", "1", "1/2", "1/5"], ["1/5", "1/2", "4/5", "1"]))
    assert own(tree) == [8, Fraction(1, 2), Fraction(1, 10), Fraction(1, 5)]
    optimal = {"1": 8, "2": Fraction(1, 2), "34": Fraction(1, 6)}
    assert blocks(greedy_blocks, tree) == blocks(memory_optimal_blocks, tree) == optimal
    assert blocks(two_blocks, tree) == {"1": 8, "234": Fraction(1, 4)}
    assert path_capacity(tree) * UNIT_NS == Fraction(10, 9)


def test_g5_an_operator_that_takes_memory_is_one_with_the_next() -> None:
    tree = path(exact("10", "1/2", "2"), exact("4", "3", "2"), exact("5", "1/10", "4"))
    assert own(tree) == [10, -40, 20]
    assert blocks(memory_optimal_blocks, tree) == {"1": 10, "23": Fraction(40, 17)}


#: A → B → {C | D → E}.
G8 = [
    operator("A", exact("10", "1/2", "4"), to="B", entrances=(0,)),
    operator("B", exact("5", "4/5", "4"), to="C D"),
    operator("C", exact("2", "1/2", "2"), answers="c"),
    operator("D", exact("20", "1/10", "2"), to="E"),
    operator("E", exact("1", "1/2", "2"), answers="e"),
]


def test_g8_a_path_that_branches() -> None:
    (tree,) = trees(plan_of(*G8))
    steps = {step.operator: step for step in tree.walk()}
    assert [step.time_ns * 100 / UNIT_NS for step in steps.values()] == [10, 10, 20, 2, 4]
    assert [step.released for step in steps.values()] == [2, *map(Fraction, ("2/5", "4/5", "18/25", "2/25"))]
    assert path_capacity(tree) * UNIT_NS == Fraction(50, 23)
    assert release_capacity(tree.walk()) * UNIT_NS == 4 * Fraction(50, 23)
    optimal = {"A": 20, "BD": Fraction(28, 3), "C": 4, "E": 2}
    assert blocks(memory_optimal_blocks, tree) == optimal
    assert [step.operator for step in bottom_up(tree)] == list("ABDCE")
    assert [release_capacity([step]) * UNIT_NS for step in bottom_up(tree)] == [20, 4, 36, 4, 2]
    assert blocks(greedy_blocks, tree) == optimal
    assert {frozenset(names): capacity for names, capacity in blocks(two_blocks, tree).items()} == {
        frozenset("A"): 20,
        frozenset("BCDE"): Fraction(2, 1) / Fraction(9, 25),
    }


def test_an_operator_alone_is_a_segment() -> None:
    for cut in CUTS:
        assert blocks(cut, path(exact("3", "1/2", "7"))) == {"1": 21}


def test_a_path_on_which_memory_only_grows_until_its_end_is_one_segment() -> None:
    tree = path(exact("1", "2"), exact("1", "2"), exact("1", "2"))
    assert own(tree)[:2] == [-1, -1]
    assert blocks(memory_optimal_blocks, tree) == {"123": Fraction(1, 7)}


def test_behind_an_operator_that_lets_nothing_pass_nothing_is_reckoned() -> None:
    for cut in CUTS:
        assert list(blocks(cut, path(exact("1", "0"), exact("1")))) == ["1"]


def prices(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Price]:
    fractions = st.builds(Fraction, numbers, numbers)
    return st.builds(per_unit, fractions, fractions, fractions)


@st.composite
def plans(draw: st.DrawFn, most: int = 8) -> WorkPlan:
    """A tree with one entrance: each operator but the first hangs on one before it."""
    count = draw(st.integers(1, most))
    hangs_on = [draw(st.integers(0, at - 1)) for at in range(1, count)]
    found = draw(st.lists(prices(st.integers(1, 4)), min_size=count, max_size=count))
    return plan_of(
        *(
            operator(
                f"o{at}",
                price,
                to=" ".join(f"o{child}" for child, parent in enumerate(hangs_on, 1) if parent == at),
                entrances=(0,) if not at else (),
                answers="" if at in hangs_on else f"q{at}",
            )
            for at, price in enumerate(found)
        )
    )


def prefixes(forest: Sequence[Step]) -> Iterator[list[Step]]:
    """All sets of steps that hold each step's forerunner, of several trees; the empty one, too."""
    if not forest:
        yield []
        return
    first, *others = forest
    for rest in prefixes(others):
        yield rest
    for inside in prefixes(first.children):
        for rest in prefixes(others):
            yield [first, *inside, *rest]


def best_connected(root: Step) -> Block:
    """Of all parts of a tree that begin at its root the one that releases fastest; of equal ones the largest."""
    parts = [block_of([root, *inside]) for inside in prefixes(root.children)]
    return max(parts, key=lambda block: (block.capacity, len(block.steps)))


def enumerated(tree: Step) -> list[Block]:
    """Algorithm 3 as in the book, by exhaustive search: again and again the best prefix of what is left."""
    left, found = [tree], []
    while left:
        best = max((best_connected(root) for root in left), key=lambda block: (block.capacity, len(block.steps)))
        found.append(best)
        taken = {step.operator for step in best.steps}
        left = [root for root in left if root.operator not in taken]
        left += [child for step in best.steps for child in step.children if child.operator not in taken]
    return found


def named(found: Sequence[Block]) -> dict[frozenset[str], float]:
    return {frozenset(step.operator for step in block.steps): block.capacity for block in found}


@settings(deadline=None)
@given(plans())
def test_the_tree_algorithm_finds_what_exhaustive_search_finds(plan: WorkPlan) -> None:
    (tree,) = trees(plan)
    assert named(memory_optimal_blocks(tree)) == named(enumerated(tree))


@settings(deadline=None)
@given(plans(most=7))
def test_no_set_of_operators_from_the_entrance_on_releases_faster_than_the_first_segment(plan: WorkPlan) -> None:
    (tree,) = trees(plan)
    first = memory_optimal_blocks(tree)[0].capacity
    assert all(block_of([tree, *inside]).capacity <= first for inside in prefixes(tree.children))


@settings(deadline=None)
@given(plans())
def test_segments_of_a_tree_release_ever_slower_and_hold_each_operator_once(plan: WorkPlan) -> None:
    (tree,) = trees(plan)
    found = memory_optimal_blocks(tree)
    assert all(one.capacity >= other.capacity for one, other in pairwise(found))
    for cut in CUTS:
        assert sorted(step.operator for block in cut(tree) for step in block.steps) == [one.id for one in plan.operators]
    assert all(block.capacity > 0 for block in found)


@settings(deadline=None)
@given(st.lists(prices(st.integers(1, 4)), min_size=1, max_size=6))
def test_capacities_of_the_segments_of_a_path_strictly_decrease(found: list[Price]) -> None:
    capacities = [block.capacity for block in memory_optimal_blocks(path(*found))]
    assert all(one > other for one, other in pairwise(capacities))


@st.composite
def shared_plans(draw: st.DrawFn) -> list[PlannedOperator]:
    """Operators of two ports, some with entrances, that feed later ones."""
    count = draw(st.integers(1, 6))
    return [
        operator(
            f"o{at}",
            *draw(st.lists(prices(st.integers(1, 3)), min_size=2, max_size=2)),
            to=" ".join(
                f"o{other}.{port}"
                for other in draw(st.sets(st.integers(at + 1, count), max_size=2))
                if other < count
                for port in [draw(st.integers(0, 1))]
            ),
            entrances=tuple(sorted(draw(st.sets(st.integers(0, 1))))),
            answers="q",
        )
        for at in range(count)
    ]


def found_segments(cut: Callable[[Step], list[Block]], operators: Sequence[PlannedOperator]) -> dict[frozenset[str], float]:
    return {stretch.operators: stretch.priority for stretch in segments(plan_of(*operators), cut)}


@settings(deadline=None)
@given(shared_plans(), st.sampled_from(CUTS), st.randoms())
def test_segments_do_not_depend_on_the_order_of_paths(operators: list[PlannedOperator], cut: Any, random: Any) -> None:
    shuffled = random.sample(operators, len(operators))
    # What nothing is expected to reach gets a path of its own where it comes first, so only what is reached may be shuffled.
    reached = {step.operator for tree in trees(plan_of(*operators)) for step in tree.walk()}
    if len(reached) == len(operators):
        assert found_segments(cut, operators) == found_segments(cut, shuffled)


@settings(deadline=None)
@given(shared_plans(), st.sampled_from(CUTS))
def test_no_segment_is_part_of_another_and_each_operator_is_in_one(operators: list[PlannedOperator], cut: Any) -> None:
    found = list(found_segments(cut, operators))
    assert not [(one, other) for one in found for other in found if one < other]
    assert frozenset().union(*found) == {one.id for one in operators}


def test_the_same_segment_of_two_paths_has_the_mean_of_their_capacities() -> None:
    plan = plan_of(
        operator("a", exact("10", "1/10"), to="j.0", entrances=(0,)),
        operator("b", exact("10", "1/10"), to="j.1", entrances=(0,)),
        operator("j", exact("1"), exact("3"), answers="q"),
    )
    found = segments(plan, memory_optimal_blocks)
    assert {stretch.operators: stretch.priority * UNIT_NS for stretch in found} == {
        frozenset("a"): 9,
        frozenset("b"): 9,
        frozenset("j"): 2,
    }


def test_segments_of_the_same_operators_have_the_mean_of_their_capacities_by_rates_of_arrival() -> None:
    plan = plan_of(
        operator("a", replace(exact("10", "1/10"), rate=300), to="j.0", entrances=(0,)),
        operator("b", replace(exact("10", "1/10"), rate=100), to="j.1", entrances=(0,)),
        operator("j", exact("1"), exact("3"), answers="q"),
    )
    (found,) = [stretch for stretch in segments(plan, memory_optimal_blocks) if stretch.operators == frozenset("j")]
    assert found.priority * UNIT_NS == (300 * 1 + 100 * 3) / 400


def test_an_entrance_without_a_known_rate_counts_like_the_mean_of_the_others() -> None:
    both = operator("j", replace(exact("1"), rate=300), replace(exact("3"), rate=100), exact("8"), entrances=(0, 1, 2), answers="q")
    (found,) = segments(plan_of(both), memory_optimal_blocks)
    assert found.priority * UNIT_NS == pytest.approx((300 * 1 + 100 * 3 + 200 * 8) / 600)


def test_paths_of_the_same_operators_have_the_mean_of_their_capacities_by_rates_of_arrival() -> None:
    """Both inputs of a self-join lead through it; ten times as much comes on the slow one."""
    plan = plan_of(operator("j", replace(exact("1"), rate=1_000), replace(exact("3"), rate=100), entrances=(0, 1), answers="q"))
    for policy in (PathCapacity(), PathAnswers()):
        (found,) = policy.stretches(plan)
        assert found.priority * UNIT_NS == pytest.approx((1_000 * 1 + 100 * 3) / 1_100)


def test_it_is_said_where_a_mean_comes_from() -> None:
    policy = Segment()
    policy.plan(
        plan_of(
            operator("a", per_unit(10.0, 0.1, 8), to="j.0", entrances=(0,)),
            operator("j", per_unit(1.0, 1.0, 10), per_unit(3.0, 1.0, 20), entrances=(1,), answers="q"),
        )
    )
    assert policy.explained() == [
        "1. segment 'a': 70 B/s, as a row that enters releases 7 B in 100 ms",
        "   'a': 100 ms and 8 B per row, selectivity 0.1; rows that reach it: 1 per row that enters",
        "2. on 2 paths, by the mean of",
        "   segment 'j': 10 B/s, as a row that enters releases 1 B in 100 ms",
        "     'j': 1 s and 10 B per row, selectivity 1; rows that reach it: 0.1 per row that enters",
        "   segment 'j': 60 B/s, as a row that enters releases 20 B in 333.3 ms",
        "     'j': 333.3 ms and 20 B per row, selectivity 1; rows that reach it: 1 per row that enters",
    ]


def test_it_is_said_by_what_a_mean_is_weighted() -> None:
    policy = PathCapacity()
    fast, slow = replace(per_unit(1.0, 1.0, 10), rate=1_000.0), replace(per_unit(4.0, 1.0, 10), rate=3_000.0)
    policy.plan(plan_of(operator("j", fast, slow, entrances=(0, 1), answers="q")))
    assert [line for line in policy.explained() if "path" in line] == [
        "1. on 2 paths, by the mean of",
        "   path 'j': 1 rows/s, as a row takes 1 s (1,000 rows/s arrive)",
        "   path 'j': 4 rows/s, as a row takes 250 ms (3,000 rows/s arrive)",
    ]


def test_of_nested_segments_the_larger_one_stays_and_of_overlapping_ones_both() -> None:
    slow, fast = exact("1", "1"), exact("1", "1/10")
    plan = plan_of(
        operator("a", fast, to="d.0", entrances=(0,)),
        operator("b", slow, to="d.1", entrances=(0,)),
        operator("c", slow, to="d.1", entrances=(0,)),
        operator("d", exact("1/2"), exact("1/2"), answers="q"),
    )

    def names(found: Sequence[Stretch]) -> set[str]:
        return {"".join(sorted(stretch.operators)) for stretch in found}

    assert names(segments(plan, memory_optimal_blocks)) == {"a", "bd", "cd"}


def test_every_operator_is_on_a_path_even_if_nothing_is_expected_to_reach_it() -> None:
    plan = plan_of(
        operator("a", exact("1", "0"), to="b", entrances=(0,)),
        operator("b", exact("2"), exact("4"), to="c"),
        operator("c", exact("2")),
    )
    assert [[step.operator for step in tree.walk()] for tree in paths(plan)] == [["a"], ["b", "c"], ["b", "c"]]
