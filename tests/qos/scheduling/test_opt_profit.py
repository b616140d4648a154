"""Fragments: the worked examples, and the optimum of the linear program on random trees."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from penstock.qos.scheduling.opt_profit import Job, Number, affordable, earned, fragments

#: The walk-through (6.3); J1 is job 0.
WALK = [Job(1), Job(1, 0, 0), Job(2, 1, 1), Job(1, 6, 1), Job(4, 0, 0), Job(3, 0, 4), Job(2, 1, 5), Job(1, 10, 5)]
#: A root is released too early (6.4 a).
EARLY_ROOT = [Job(3), Job(4, 11, 0), Job(6, 0, 0), Job(1, 10, 2), Job(4, 10, 2)]
#: A mediocre child is tied to a dense parent (6.4 b): Q, P, c, Z and the leaves of Z.
DENSE_PARENT = [Job(100), Job(10, 100, 0), Job(1, 5, 1), Job(20, 0, 0), *(Job(1, 50, 3) for _ in range(20))]


def trees(least: int = 1) -> st.SearchStrategy[list[Job]]:
    """Three to nine jobs; only leaves earn."""

    def tree(parents: list[int], costs: list[int], profits: list[int]) -> list[Job]:
        above = [None, *(parent % (number + 1) for number, parent in enumerate(parents))]
        inner = set(above)
        jobs = zip(range(len(above)), costs, profits, above, strict=False)
        return [Job(cost, 0 if number in inner else profit, parent) for number, cost, profit, parent in jobs]

    parents = st.lists(st.integers(0, 8), min_size=2, max_size=8)
    many = {"min_size": 9, "max_size": 9}
    return st.builds(tree, parents, st.lists(st.integers(1, 6), **many), st.lists(st.integers(least, 12), **many))


def optimum(jobs: list[Job], budget: Number) -> Fraction:
    """Of the linear program: a point on the upper hull of what all sets of jobs that hold their parents cost and earn."""
    points: dict[Fraction, Fraction] = {}
    for chosen in _closed(jobs, 0, frozenset()):
        cost = sum((Fraction(jobs[job].cost) for job in chosen), Fraction(0))
        profit = sum((Fraction(jobs[job].profit) for job in chosen), Fraction(0))
        points[cost] = max(points.get(cost, Fraction(0)), profit)
    budget = Fraction(budget)
    best = max(profit for cost, profit in points.items() if cost <= budget)
    for low, high in ((a, b) for a in points for b in points if a <= budget < b):
        best = max(best, points[low] + (points[high] - points[low]) * (budget - low) / (high - low))
    return best


def _closed(jobs: list[Job], number: int, chosen: frozenset[int]) -> list[frozenset[int]]:
    if number == len(jobs):
        return [chosen]
    without = _closed(jobs, number + 1, chosen)
    if jobs[number].parent is None or jobs[number].parent in chosen:
        return without + _closed(jobs, number + 1, chosen | {number})
    return without


@pytest.mark.parametrize("published", [False, True])
def test_the_walk_through_schedules_the_same_fragments_by_both_rules(published: bool) -> None:
    found = fragments(WALK, published)
    assert [fragment.jobs for fragment in found] == [(0, 1, 3), (4, 5, 7), (2,), (6,)]
    assert [(fragment.cost, fragment.profit) for fragment in found[:2]] == [(3, 6), (8, 10)]
    assert [fragment.density for fragment in found] == [2, 1.25, 0.5, 0.5]


def test_half_of_the_batch_goes_through_the_last_fragment_within_the_budget() -> None:
    chosen = affordable(fragments(WALK), budget=420, rows=60)
    assert [(fragment.jobs, rows) for fragment, rows in chosen] == [((0, 1, 3), 60), ((4, 5, 7), 30)]
    assert sum(fragment.profit * rows for fragment, rows in chosen) == 660


def test_the_last_fragment_gets_whole_rows_only() -> None:
    assert [rows for _, rows in affordable(fragments([Job(2, 1)]), budget=7, rows=60)] == [3]
    assert affordable(fragments([Job(2, 1)]), budget=1, rows=60) == []


def test_the_published_rule_runs_a_root_too_early() -> None:
    published, repaired = fragments(EARLY_ROOT, published=True), fragments(EARLY_ROOT)
    assert [fragment.jobs for fragment in published] == [(0, 1), (2, 3, 4)]
    assert published[0].density == pytest.approx(11 / 7)
    assert [(fragment.profit, fragment.cost) for fragment in repaired] == [(31, 18)]
    assert float(earned(published, 3)) == pytest.approx(33 / 7)
    assert earned(repaired, 3) == optimum(EARLY_ROOT, 3) == Fraction(31, 6)


def test_the_published_rule_ties_a_mediocre_child_to_a_dense_parent() -> None:
    published, repaired = fragments(DENSE_PARENT, published=True), fragments(DENSE_PARENT)
    assert [(fragment.profit, fragment.cost) for fragment in published] == [(1105, 151)]
    assert [(fragment.profit, fragment.cost) for fragment in repaired] == [(1100, 150), (5, 1)]
    assert (float(earned(published, 150)), earned(repaired, 150)) == (pytest.approx(1097.68, abs=0.005), 1100)


def test_jobs_nobody_needs_come_last_and_parents_before_children() -> None:
    assert [fragment.jobs for fragment in fragments([Job(1), Job(2, 0, 0), Job(1, 0, 1)])] == [(0,), (1,), (2,)]
    assert [fragment.jobs for fragment in fragments([Job(1), Job(2, 0, 0), Job(1, 3, 0)])] == [(0, 2), (1,)]


def test_several_roots_are_ordered_by_what_they_earn() -> None:
    assert [fragment.jobs for fragment in fragments([Job(2, 2), Job(1, 3), Job(1, 1)])] == [(1,), (0,), (2,)]


@settings(max_examples=300)
@given(jobs=trees(), share=st.fractions(0, 1))
@example(jobs=EARLY_ROOT, share=Fraction(1, 6))
def test_repaired_fragments_earn_the_optimum_within_every_budget(jobs: list[Job], share: Fraction) -> None:
    budget = share * sum(job.cost for job in jobs)
    exact = [Job(Fraction(job.cost), Fraction(job.profit), job.parent) for job in jobs]
    assert earned(fragments(exact), budget) == optimum(exact, budget)


@given(jobs=trees(least=0), published=st.booleans())
def test_fragments_hold_each_job_once_behind_its_parent(jobs: list[Job], published: bool) -> None:
    found = fragments(jobs, published)
    order = [job for fragment in found for job in fragment.jobs]
    assert sorted(order) == list(range(len(jobs)))
    assert all(job.parent is None or order.index(job.parent) < order.index(number) for number, job in enumerate(jobs))
    assert sum(fragment.profit for fragment in found) == sum(job.profit for job in jobs)


@given(jobs=trees(least=0))
def test_repaired_fragments_never_get_denser(jobs: list[Job]) -> None:
    exact = [Job(Fraction(job.cost), Fraction(job.profit), job.parent) for job in jobs]
    assert all(before.density >= after.density for before, after in pairwise(fragments(exact)))


@settings(max_examples=200)
@given(jobs=trees())
def test_what_is_left_of_a_fragment_is_denser_than_the_fragment(jobs: list[Job]) -> None:
    """So a job that was begun goes on, although what is left of it is reckoned anew."""
    exact = [Job(Fraction(job.cost), Fraction(job.profit), job.parent) for job in jobs]
    first = fragments(exact)[0]
    kept = range(1, len(exact))
    rest = [Job(exact[n].cost, exact[n].profit, None if exact[n].parent == 0 else exact[n].parent - 1) for n in kept]
    if len(first.jobs) > 1:
        parts = [part for part in fragments(rest) if {job + 1 for job in part.jobs} & set(first.jobs)]
        assert all(part.density >= first.density for part in parts)
