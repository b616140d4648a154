"""The worked examples, to the printed digits."""

from __future__ import annotations

import pytest
from shedding_paths import G2, G3, G4, G5, at, clusters_of, model_of, path, shared_segments, steps

from penstock.errors import Defect
from penstock.kernel.work import Item, PlannedOperator, Terms, WaitingWork, WorkPlan
from penstock.model.elements import Heartbeat
from penstock.qos.scheduling.earliest_deadline import EarliestDeadline
from penstock.qos.shedding.allocation import InGroups
from penstock.qos.shedding.controller import Mode, SheddingController, SheddingSettings
from penstock.qos.shedding.paths import PathClusters
from penstock.qos.shedding.placement import MergeRule, PlacedShedder, Placement, error_per_path

AS_PUBLISHED = SheddingSettings(headroom=1.0, counts_backlog=False)


def shared(clusters: PathClusters) -> list[tuple[str, int]]:
    return [("".join(node.place[0] for node in found.nodes), found.frequency) for found in shared_segments(clusters)]


def controller() -> SheddingController:
    model = model_of(G4, G3, 100_000)
    return SheddingController(model, Placement(model, G4).shedders(), G4, AS_PUBLISHED)


@pytest.mark.parametrize(("load", "excess"), [(1.25, 0.25), (1.0, 0.0), (0.4, 0.0)])
def test_the_load_above_one_is_shed(load: float, excess: float) -> None:
    """G1."""
    only = path("A", error=1.0)
    model = model_of([only], {"A": (1_000, 1)})
    found = SheddingController(model, Placement(model, [only]).shedders(), [only], AS_PUBLISHED).estimate(at(A=1_000 * load))
    assert found.excess == pytest.approx(excess)
    assert found.mode is (Mode.SHEDDING if excess else Mode.NO_SHEDDING)


@pytest.mark.parametrize(("rate", "load"), [(2_500, 1.25), (1_000, 0.5)])
def test_a_shared_segment_counts_once(rate: float, load: float) -> None:
    """G2."""
    paths = [path("ABC"), path("ABD")]
    assert model_of(paths, G2).load(at(A=rate)) == pytest.approx(load)
    assert shared(clusters_of(paths)) == [("AB", 2)]


@pytest.mark.parametrize(("rate", "load"), [(1_000, 0.96), (1_250, 1.2), (1041.667, 1.0)])
def test_segments_shared_by_some_of_those_that_share_another(rate: float, load: float) -> None:
    """G3."""
    assert model_of(G4, G3).load(at(A=rate)) == pytest.approx(load, abs=1e-6)
    assert shared(clusters_of(G4)) == [("AB", 3), ("CE", 2)]


@pytest.mark.parametrize(
    ("name", "rate", "demand", "paths", "least", "weight"),
    [
        ("A", 1250, 0.00096, 3, 0.15, 0.372222), ("B", 1000, 0.001075, 3, 0.15, 0.336111), ("C", 500, 0.0014, 2, 0.25, 0.34),
        ("E", 250, 0.0023, 2, 0.25, 0.2825), ("D", 500, 0.0005, 1, 0.15, 0.216667), ("F", 250, 0.0005, 1, 0.15, 0.108333),
        ("G", 200, 0.001, 1, 0.5, 0.196), ("H", 200, 0.00125, 1, 0.25, 0.242),
    ],
)  # fmt: skip
def test_weights_of_all_places(name: str, rate: float, demand: float, paths: int, least: float, weight: float) -> None:
    """G4."""
    model = model_of(G4, G3, 100_000)
    node = model.chain((name, 0))[-1]
    found = Placement(model, G4).weighed(node)
    assert found is not None
    assert model.rate((name, 0), at(A=1250)) == pytest.approx(rate)
    assert model.demand(node) == pytest.approx(demand)
    assert (len(found.paths), found.capacity) == (paths, least)
    assert 1250 * found.worth == pytest.approx(weight, abs=5e-7)


def by_place(found: list[PlacedShedder]) -> dict[str, tuple[float, float]]:
    return {each.place[0]: (each.capacity, 1250 * each.worth) for each in found}


@pytest.mark.parametrize("rule", MergeRule)
def test_merged_shedders_use_all_that_is_tolerated(rule: MergeRule) -> None:
    """G4."""
    found = by_place(Placement(model_of(G4, G3, 100_000), G4, rule).shedders())
    expected = {"A": (0.15, 0.372222), "C": (0.10, 0.325), "G": (0.25, 0.192)}
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        assert found[name] == pytest.approx(numbers, abs=5e-7)


def test_savings_behind_an_active_shedder_are_smaller() -> None:
    """G4: at 1250 rows per second the first shedder drops all it may, the second what is missing then."""
    found = controller().estimate(at(A=1250))
    assert {place[0]: share for place, share in found.shares.items()} == pytest.approx({"A": 0.15, "C": 0.0617647}, abs=5e-8)
    assert found.excess == pytest.approx(0.2)
    assert found.effective == pytest.approx(1.0)
    lost = [1 - 0.85, 1 - 0.85 * (1 - found.shares["C", 0])]
    assert lost == pytest.approx([0.15, 0.2025])


def test_savings_that_are_only_added_up_shed_too_little() -> None:
    """G4: why rates are calculated anew."""
    assert model_of(G4, G3, 100_000).load(at(A=1250), {("A", 0): 0.15, ("C", 0): 0.053571}) == pytest.approx(1.004875, abs=1e-6)


def test_what_cannot_be_shed_is_told() -> None:
    """G4."""
    found = controller().estimate(at(A=1400))
    assert found.offered == pytest.approx(1.344)
    assert found.residual == pytest.approx(0.0533936)
    assert found.effective == pytest.approx(1.0533936)
    assert not found.is_feasible
    assert {place[0]: share for place, share in found.shares.items()} == pytest.approx({"A": 0.15, "C": 0.1, "G": 0.25})
    assert model_of(G4, G3, 100_000).load(at(A=1250), found.shares) == pytest.approx(0.94053, abs=1e-8)
    assert controller().estimate(at(A=1329.03)).is_feasible
    assert not controller().estimate(at(A=1329.05)).is_feasible


@pytest.mark.parametrize(
    ("error", "weights", "best"),
    [(0.5, (0.055, 0.053, 0.049), "X"), (0.05, (-0.125, 0.035, 0.04), "Z"), (0.01, (-0.925, -0.045, 0), "")],
)
def test_the_best_place_depends_on_what_is_tolerated(error: float, weights: tuple[float, ...], best: str) -> None:
    """G5."""
    only = [path("XYZ", error)]
    model = model_of(only, G5, 100_000)
    placement = Placement(model, only)
    found = [placement.weighed(node) for node in model.chain(("Z", 0))]
    assert [1_000 * each.worth for each in found if each is not None] == pytest.approx(weights)
    assert "".join(each.place[0] for each in placement.shedders()) == best


def test_paths_come_and_go() -> None:
    """G6."""
    clusters = PathClusters()
    for number, text in enumerate(["ABC", "ABD", "AB", "XY", "ABC"]):
        clusters.insert(str(number), steps(text))
    frequencies = {node.place[0]: node.frequency for head in clusters.heads for node in head.walk()}
    assert frequencies == {"A": 4, "B": 4, "C": 2, "D": 1, "X": 1, "Y": 1}
    assert shared(clusters) == [("AB", 4), ("C", 2)]
    clusters.delete("4", steps("ABC"))
    clusters.delete("2", steps("AB"))
    assert shared(clusters) == [("AB", 2)]
    clusters.delete("0", steps("ABC"))
    clusters.delete("1", steps("ABD"))
    assert [head.place[0] for head in clusters.heads] == ["X"]
    for unknown in ("ABC", "X", "XYZ"):
        with pytest.raises(Defect, match="was never inserted"):
            clusters.delete("3", steps(unknown))
    assert [node.place[0] for node in clusters.heads[0].walk()] == ["X", "Y"]


@pytest.mark.parametrize(("inputs", "each"), [(1, 0.15), (2, 0.078046), (3, 0.052732)])
def test_what_meets_in_joins_shares_what_is_tolerated(inputs: int, each: float) -> None:
    """G9."""
    assert error_per_path(0.15, inputs) == pytest.approx(each, abs=5e-7)
    assert 1 - (1 - error_per_path(0.15, inputs)) ** inputs == pytest.approx(0.15)


@pytest.mark.parametrize(("since_s", "picked"), [(9.0, "P"), (8.6, "R")])
def test_a_deadline_counts_from_the_arrival(since_s: float, picked: str) -> None:
    """G10: with the age in place of the arrival P would go first both times."""
    plan = WorkPlan(
        tuple(PlannedOperator(name, answers=(name,)) for name in "PR"),
        {"P": Terms(after_arrival_us=600_000), "R": Terms(after_arrival_us=1_500_000)},
    )
    policy, work = EarliestDeadline(), WaitingWork(plan)
    policy.plan(plan)
    work.now_ns = 10_000_000_000
    work.add("P", Item(0, Heartbeat(1), since_ns=9_700_000_000))
    work.add("R", Item(0, Heartbeat(1), since_ns=round(since_s * 1e9)))
    choice = policy.pick(work)
    assert choice is not None
    assert choice.operator == picked


def test_groups_give_the_same_here() -> None:
    model = model_of(G4, G3, 100_000)
    settings = SheddingSettings(headroom=1.0, counts_backlog=False, ranking=InGroups())
    found = SheddingController(model, Placement(model, G4).shedders(), G4, settings).estimate(at(A=1250))
    assert found.effective == pytest.approx(1.0)
