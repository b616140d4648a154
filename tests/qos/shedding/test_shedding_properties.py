"""What holds for all paths, rates and contracts; paths are drawn, and load is counted in the plainest way."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shedding_paths import at, clusters_of, model_of, path, shared_segments, steps

from penstock.errors import InvalidDeclaration
from penstock.kernel.work import Place
from penstock.qos.shedding.allocation import InGroups, allocate, by_weight, weights
from penstock.qos.shedding.controller import SheddingController, SheddingSettings
from penstock.qos.shedding.errors_of_loss import EVEN, ErrorCurve
from penstock.qos.shedding.load import LoadModel, OperatorFigures
from penstock.qos.shedding.paths import PathClusters, segment_tree
from penstock.qos.shedding.placement import MergeRule, Placement, QueryPath

#: A path is drawn as a word; words with the same beginning share operators, named by it, so that each is reached on one way.
words = st.text("ABC", min_size=1, max_size=5)
tolerated = st.sampled_from([0.0, 0.05, 0.15, 0.25, 0.5, 1.0])
drawn_paths = st.lists(st.tuples(words, tolerated), min_size=1, max_size=6)
seeds = st.integers(0, 1_000)


def spelled(word: str) -> tuple[Place, ...]:
    return tuple((word[: length + 1], 0) for length in range(len(word)))


def paths_of(drawn: list[tuple[str, float]]) -> list[QueryPath]:
    return [QueryPath(f"{number}:{word}", word, spelled(word), error, 1.0) for number, (word, error) in enumerate(drawn)]


def figures_for(paths: list[QueryPath], seed: int) -> dict[Place, OperatorFigures]:
    draw = np.random.default_rng(seed)
    places = sorted({place for each in paths for place in each.steps})
    return {place: OperatorFigures(draw.uniform(500, 5_000), draw.choice([0.0, 0.3, 0.8, 1.0, 1.5])) for place in places}


def drawn_model(paths: list[QueryPath], seed: int, test_s: float = 0.0) -> LoadModel:
    return LoadModel(clusters_of(paths), figures_for(paths, seed), test_s)


def rates_for(model: LoadModel, load: float) -> dict[Place, float]:
    """Rates that make this load, the same for all clusters."""
    even = {head.place: 100.0 for head in model.clusters.heads}
    return {place: rate * load / model.load(even) for place, rate in even.items()}


def shape(clusters: PathClusters) -> list[object]:
    return [(node.place, node.frequency, sorted(node.ends)) for head in clusters.heads for node in head.walk()]


@settings(deadline=None)
@given(drawn=drawn_paths, seed=seeds)
def test_load_counts_every_operator_once(drawn: list[tuple[str, float]], seed: int) -> None:
    """P4, in both ways: operator by operator, and path by path less what is shared (7.8)."""
    paths = paths_of(drawn)
    model = drawn_model(paths, seed)
    rates = rates_for(model, 1.3)

    def arriving(place: Place) -> float:
        before = [figure.selectivity for step, figure in model.figures.items() if place[0].startswith(step[0]) and step != place]
        return float(rates[place[0][0], 0] * np.prod(before))

    single = sum(arriving(place) / figure.capacity for place, figure in model.figures.items())
    assert model.load(rates) == pytest.approx(single)
    by_path = sum(arriving(place) / model.figures[place].capacity for each in paths for place in each.steps)
    twice = sum(
        (found.frequency - 1) * sum(arriving(node.place) / model.figures[node.place].capacity for node in found.nodes)
        for found in shared_segments(model.clusters)
    )
    assert model.load(rates) == pytest.approx(by_path - twice)


@settings(deadline=None)
@given(drawn=drawn_paths)
@example(drawn=[("ABC", 0.1), ("ABD", 0.1)])
def test_segments_are_disjoint_and_belong_to_the_same_paths(drawn: list[tuple[str, float]]) -> None:
    clusters = clusters_of(paths_of(drawn))
    segments = [found for head in clusters.heads for found in segment_tree(head).walk()]
    places = [node.place for found in segments for node in found.nodes]
    assert sorted(places) == sorted({node.place for head in clusters.heads for node in head.walk()})
    assert all(len({node.paths for node in found.nodes}) == 1 for found in segments)
    for found in segments:
        assert all(child.nodes[0].paths != found.nodes[0].paths for child in found.children)


@settings(deadline=None)
@given(before=drawn_paths, more=drawn_paths, order=st.randoms(use_true_random=False))
def test_paths_that_came_and_went_leave_no_trace(
    before: list[tuple[str, float]], more: list[tuple[str, float]], order: object
) -> None:
    """P6."""
    clusters, was = clusters_of(paths_of(before)), shape(clusters_of(paths_of(before)))
    added = [(f"+{each.id}", each.steps) for each in paths_of(more)]
    for id, places in added:
        clusters.insert(id, places)
    order.shuffle(added)  # type: ignore[attr-defined]
    for id, places in added:
        clusters.delete(id, places)
    assert shape(clusters) == was


@settings(deadline=None)
@given(drawn=drawn_paths, seed=seeds, rule=st.sampled_from(MergeRule), test_s=st.sampled_from([0.0, 1e-5]))
def test_capacities_keep_to_what_every_path_tolerates(
    drawn: list[tuple[str, float]], seed: int, rule: MergeRule, test_s: float
) -> None:
    """P3 (ii) and P8."""
    paths = paths_of(drawn)
    shedders = Placement(drawn_model(paths, seed, test_s), paths, rule).shedders()
    for each in paths:
        mine = [found.capacity for found in shedders if each.id in found.paths]
        assert sum(mine) <= each.max_error + 1e-9
        assert 1 - np.prod([1 - share for share in mine]) <= each.max_error + 1e-9
    assert len({found.place for found in shedders}) == len(shedders)


@settings(deadline=None)
@given(drawn=st.lists(st.tuples(words, st.sampled_from([0.15, 0.25, 0.5])), min_size=1, max_size=6), seed=seeds)
def test_shedders_that_cost_nothing_stand_at_the_heads_of_segments_and_use_up_all_budgets(
    drawn: list[tuple[str, float]], seed: int
) -> None:
    paths = paths_of(drawn)
    figures = {
        place: OperatorFigures(each.capacity, max(each.selectivity, 0.3)) for place, each in figures_for(paths, seed).items()
    }
    model = LoadModel(clusters_of(paths), figures)
    found = {each.place: each.capacity for each in Placement(model, paths).shedders()}
    left, expected = {each.id: each.max_error for each in paths}, {}
    for head in model.clusters.heads:
        for segment in segment_tree(head).walk():
            mine = segment.nodes[0].paths
            least = min(left[id] for id in mine)
            left |= {id: left[id] - least for id in mine}
            if least > 1e-9:
                expected[segment.nodes[0].place] = least
    assert found == pytest.approx(expected)


@settings(deadline=None)
@given(drawn=drawn_paths, seed=seeds, load=st.floats(0.5, 3.0), test_s=st.sampled_from([0.0, 1e-6]), grouped=st.booleans())
def test_no_shedder_is_active_for_nothing(
    drawn: list[tuple[str, float]], seed: int, load: float, test_s: float, grouped: bool
) -> None:
    """P5 and P8, after an allocation."""
    paths = paths_of(drawn)
    model = drawn_model(paths, seed, test_s)
    shedders, rates = Placement(model, paths).shedders(), rates_for(model, load)
    settings = SheddingSettings(counts_backlog=False, ranking=InGroups() if grouped else by_weight)
    found = SheddingController(model, shedders, paths, settings).estimate(rates)
    assert found.effective == pytest.approx(model.load(rates, found.shares))
    if found.is_feasible:
        assert found.effective <= settings.limit + 1e-9
        for place in found.shares:
            fewer = {other: share for other, share in found.shares.items() if other != place}
            assert model.load(rates, fewer) > settings.limit - 1e-9
    else:
        useful = {each.place for each in shedders if each.worth > 1e-9}
        assert all(found.shares[each.place] == each.capacity for each in shedders if each.place in found.shares)
        assert found.residual == pytest.approx(found.effective - settings.limit)
        for place in useful - found.shares.keys():  # it would have cost more than it saved
            node = model.chain(place)[-1]
            capacity = next(each.capacity for each in shedders if each.place == place)
            assert capacity * model.demand(node, found.shares) <= test_s + 1e-9
    for each in paths:
        if not each.max_error:
            assert not any(place in found.shares for place in each.steps)


@settings(deadline=None)
@given(drawn=drawn_paths, seed=seeds, loads=st.lists(st.floats(0.2, 2.5), min_size=2, max_size=8))
def test_steady_rates_change_nothing_after_the_first_look(drawn: list[tuple[str, float]], seed: int, loads: list[float]) -> None:
    """Whatever happened before, the same rates again lead to no other decision, and less load is never shed more."""
    paths = paths_of(drawn)
    model = drawn_model(paths, seed)
    controller = SheddingController(model, Placement(model, paths).shedders(), paths, SheddingSettings(counts_backlog=False))
    before = controller.estimate(rates_for(model, loads[0]))
    for earlier, load in pairwise(loads):
        now = controller.estimate(rates_for(model, load))
        again = controller.estimate(rates_for(model, load))
        assert again.shares == pytest.approx(now.shares)
        assert again.mode is now.mode
        if load <= earlier:
            assert all(share <= before.shares.get(place, 0.0) + 1e-9 for place, share in now.shares.items())
        before = again


def test_a_load_that_falls_a_little_changes_nothing_and_one_that_falls_much_ends_shedding() -> None:
    only = [path("A", 0.5)]
    model = model_of(only, {"A": (1_000, 1)})
    controller = SheddingController(model, Placement(model, only).shedders(), only)
    found = [controller.estimate(at(A=rate)) for rate in (1_200.0, 1_180.0, 1_100.0, 940.0)]
    shares = [each.shares.get(("A", 0), 0.0) for each in found]
    assert shares[0] == shares[1] > shares[2] > shares[3] == 0


def test_what_waits_counts_by_how_soon_it_must_be_answered() -> None:
    only = [path("A", 0.5, latency=2.0)]
    model = model_of(only, {"A": (1_000, 1)})
    found = [
        SheddingController(model, Placement(model, only).shedders(), only, settings).estimate(at(A=900.0), {("A", 0): 400})
        for settings in (SheddingSettings(), SheddingSettings(counts_backlog=False))
    ]
    assert [each.excess for each in found] == pytest.approx([0.15, 0.0])


independent = st.lists(st.tuples(st.floats(0.05, 1.0), st.floats(100, 5_000)), min_size=1, max_size=6)


@settings(deadline=None)
@given(drawn=independent, part=st.floats(0.05, 1.0))
def test_greedy_allocation_causes_the_least_error_where_shedders_cost_nothing(
    drawn: list[tuple[float, float]], part: float
) -> None:
    """Against all choices of shedders that drop all they may and one that drops a part."""
    letters = "ABCDEF"[: len(drawn)]
    paths = [path(letter, error) for letter, (error, _) in zip(letters, drawn, strict=True)]
    model = model_of(paths, {letter: (capacity, 1) for letter, (_, capacity) in zip(letters, drawn, strict=True)})
    rates = {(letter, 0): 100.0 for letter in letters}
    shedders = Placement(model, paths).shedders()
    saving = {each.place: each.capacity * 100.0 * model.demand(model.chain(each.place)[-1]) for each in shedders}
    excess = part * sum(saving.values())
    best = np.inf
    for chosen in product((False, True), repeat=len(shedders)):
        full = [each for each, is_chosen in zip(shedders, chosen, strict=True) if is_chosen]
        missing = excess - sum(saving[each.place] for each in full)
        error = sum(each.capacity for each in full)
        if missing <= 1e-12:
            best = min(best, error)
            continue
        others = [each for each in shedders if each not in full and saving[each.place] >= missing - 1e-12]
        best = min([best, *(error + each.capacity * missing / saving[each.place] for each in others)])
    shares: dict[Place, float] = {}
    _, residual = allocate(model, by_weight(shedders, weights(shedders, rates)), rates, shares, excess)
    assert residual == pytest.approx(0.0, abs=1e-9)
    assert sum(shares.values()) == pytest.approx(best)
    grouped: dict[Place, float] = {}
    allocate(model, InGroups(40)(shedders, weights(shedders, rates)), rates, grouped, excess)
    assert sum(grouped.values()) <= 2 * best + 1e-9


def test_a_shedder_costs_more_than_it_saves_where_a_test_costs_more_than_the_work() -> None:
    only = [path("A", 0.1)]
    assert Placement(model_of(only, {"A": (10_000, 1)}, tests_per_s=900), only).shedders() == []


@pytest.mark.parametrize(("tests_per_s", "place"), [(100_000, "A"), (1_000, "B")])
def test_a_shedder_stands_behind_a_selective_operator_only_if_tests_cost_more_than_it(tests_per_s: float, place: str) -> None:
    """It pays if (1 - selectivity) / (tolerated · tests per second) > 1 / capacity."""
    only = [path("AB", 0.5)]
    (found,) = Placement(model_of(only, {"A": (2_000, 0.1), "B": (50, 1)}, tests_per_s), only).shedders()
    assert found.place == (place, 0)


def test_no_shedder_stands_where_the_column_is_gone_or_queries_prefer_to_lose_different_rows() -> None:
    only = [path("AB", 0.5)]
    model = model_of(only, {"A": (2_000, 0.5), "B": (500, 1)})
    (found,) = Placement(model, only, is_legal=lambda place, drop: place[0] == "B").shedders()
    assert found.place == ("B", 0)
    assert Placement(model, only, is_legal=lambda place, drop: False).shedders() == []


def test_behind_a_join_no_shedder_stands_as_nobody_could_say_whose_rows_it_drops() -> None:
    paths = [
        QueryPath("left", "q", (("join", 0), ("out", 0)), 0.5, 1.0),
        QueryPath("right", "q", (("join", 1), ("out", 0)), 0.5, 1.0),
    ]
    figures = {("join", 0): OperatorFigures(50_000, 1), ("join", 1): OperatorFigures(50_000, 1), ("out", 0): OperatorFigures(100)}
    model = LoadModel(clusters_of(paths), figures)
    assert [found.place for found in Placement(model, paths).shedders()] == [("join", 0), ("join", 1)]


def test_a_stream_that_is_silent_is_not_shed() -> None:
    paths = [path("A", 0.5), path("B", 0.5)]
    model = model_of(paths, {"A": (1_000, 1), "B": (1_000, 1)})
    found = SheddingController(model, Placement(model, paths).shedders(), paths).estimate(at(A=1_200.0, B=0.0))
    assert [place[0] for place in found.shares] == ["A"]


def test_a_path_without_a_bound_on_latency_counts_and_its_backlog_does_not() -> None:
    paths = [path("A", 0.5, latency=None)]
    model = model_of(paths, {"A": (1_000, 1)})
    found = SheddingController(model, Placement(model, paths).shedders(), paths).estimate(at(A=900.0), {("A", 0): 100_000})
    assert (found.offered, found.excess) == (0.9, 0.0)


@pytest.mark.parametrize(
    ("error", "latency", "named"),
    [(1.2, 1.0, "max_relative_error"), (float("nan"), 1.0, "max_relative_error"), (0.1, 0.0, "max_latency")],
)
def test_contracts_that_make_no_sense_are_refused_by_name(error: float, latency: float, named: str) -> None:
    with pytest.raises(InvalidDeclaration, match=f"query 'alerts' has a {named}"):
        QueryPath("alerts", "alerts", steps("A"), error, latency)


@pytest.mark.parametrize(("capacity", "selectivity"), [(0.0, 1.0), (float("inf"), 1.0), (float("nan"), 1.0), (100.0, -1.0)])
def test_figures_that_tell_nothing_are_refused(capacity: float, selectivity: float) -> None:
    with pytest.raises(InvalidDeclaration):
        OperatorFigures(capacity, selectivity)


curves = st.lists(st.tuples(st.integers(1, 100), st.floats(0, 1)), min_size=1, max_size=5, unique_by=lambda each: each[0]).map(
    lambda drawn: ErrorCurve(tuple(zip(sorted(x / 100 for x, _ in drawn), sorted(y for _, y in drawn), strict=True)))
)


@settings(deadline=None)
@given(curve=curves, error=st.floats(0, 1))
def test_the_share_of_an_error_is_the_greatest_that_causes_no_more(curve: ErrorCurve, error: float) -> None:
    share = curve.share(error)
    assert 0 <= share <= 1
    assert curve.error(share) <= error + 1e-9
    assert share == 1 or curve.error(min(share + 1e-6, 1.0)) >= error - 1e-9


def test_random_loss_is_its_own_error() -> None:
    assert (EVEN.error(0.3), EVEN.share(0.3)) == (0.3, 0.3)
    for points in ((), ((0.5, 0.2), (0.4, 0.3)), ((0.5, 0.2), (0.9, 0.1)), ((1.5, 0.2),)):
        with pytest.raises(InvalidDeclaration, match="no error curve"):
            ErrorCurve(points)


def test_a_query_that_tolerates_loss_of_cheap_rows_better_loses_more_of_them() -> None:
    forgiving = ErrorCurve(((0.5, 0.05), (1.0, 1.0)))
    only = [QueryPath("q", "q", steps("A"), 0.05, 1.0, curve=forgiving)]
    (found,) = Placement(model_of(only, {"A": (1_000, 1)}), only).shedders()
    assert found.capacity == pytest.approx(0.5)
