"""What happens when contracts cannot all be met, and shedding by what was measured."""

from __future__ import annotations

import pytest
from shedding_paths import G2, G3, G4, at, model_of, path

from penstock.qos.shedding.controller import SheddingController, SheddingSettings
from penstock.qos.shedding.feedback import FeedbackController
from penstock.qos.shedding.placement import Placement

SUSPENDS = SheddingSettings(headroom=1.0, counts_backlog=False, suspends=True)


def test_the_query_of_least_weight_stops_first_and_goes_on_last() -> None:
    paths = [path("A", 0.1), path("B", 0.1), path("C", 0.1)]
    model = model_of(paths, {"A": (1_000, 1), "B": (1_000, 1), "C": (1_000, 1)})
    controller = SheddingController(model, Placement(model, paths).shedders(), paths, SUSPENDS, {"A": 3.0, "B": 0.5, "C": 1.0})
    found = [controller.estimate(at(A=rate, B=rate, C=rate)) for rate in (300.0, 450.0, 1_100.0, 450.0, 300.0)]
    assert [each.suspended for each in found] == [(), ("B",), ("B", "C"), ("B",), ()]
    assert all(each.is_feasible for each in found)
    assert all(each.effective <= 1.0 + 1e-9 for each in found)
    assert found[1].shares["B", 0] == 1.0
    assert found[4].shares == {}


def test_of_equal_queries_the_one_that_saves_most_stops() -> None:
    """G4 at 1400 rows per second: what no other query needs of Q2 is H, of Q3 is G, of Q1 are D and F."""
    model = model_of(G4, G3, 100_000)
    found = SheddingController(model, Placement(model, G4).shedders(), G4, SUSPENDS).estimate(at(A=1_400))
    assert found.suspended == ("ABDF",)
    assert found.shares["D", 0] == 1.0
    assert found.is_feasible
    assert found.effective == pytest.approx(model.load(at(A=1_400), found.shares))


def test_what_queries_share_goes_on_when_one_of_them_stops() -> None:
    paths = [path("ABC"), path("ABD")]
    model = model_of(paths, G2)
    found = SheddingController(model, [], paths, SUSPENDS).estimate(at(A=2_500))
    assert found.suspended == ("ABD",)
    assert found.effective == pytest.approx(0.75)
    endless = SheddingController(model, [], paths, SUSPENDS).estimate(at(A=25_000))
    assert endless.suspended == ("ABD", "ABC")
    assert endless.residual == pytest.approx(4.0)


def test_one_more_shedder_for_every_look_at_which_a_query_is_late_and_one_less_when_all_are_in_time() -> None:
    model = model_of(G4, G3, 100_000)
    shedders = Placement(model, G4).shedders()
    controller, rates = FeedbackController(model, shedders, G4), at(A=1_250)
    looks = [{"ABCEG": 1.2}, {"ABCEG": 1.2, "ABDF": 1.1}, {"ABCEG": 0.9}, {"ABDF": 1.5}, {"ABCEG": 1.5}, {}, {"ABDF": 0.5}, {}, {}]
    found = [controller.look(rates, latencies) for latencies in looks]
    names = ["".join(sorted(place[0] for place in each.shares)) for each in found]
    assert names == ["A", "AC", "AC", "AC", "ACG", "AC", "A", "", ""]
    assert dict(found[4].shares) == pytest.approx({("A", 0): 0.15, ("C", 0): 0.10, ("G", 0): 0.25})
    assert [each.is_feasible for each in found] == [True, True, True, True, False, True, True, True, True]
