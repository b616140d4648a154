"""The experiments in quick mode: claims that counters decide, and numbers near those of the reference simulation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock.experiments
from penstock.experiments.ccep import engines, orders
from penstock.experiments.contracts import Basis, ReproductionOutcome, Settings
from penstock.experiments.table import REPRODUCTIONS, reproduction_named

EXPERIMENTS = {experiment.id: experiment for name in REPRODUCTIONS for experiment in reproduction_named(name).experiments}

#: Claims about time: they depend on the machine, and one quick timing decides nothing.
TIMED = {"E-PJ-3d", "E-PW-2b", "E-PW-2c", "E-PW-3b", "E-PW-6b", "E-MW-1c", "E-MW-2e", "E-MW-3d", "E-AG-4b"}
TIMED |= {"E-LS-6a", "E-LS-6b", "E-LS-6c", "E-LS-7a", "E-LS-7b", "E-LS-7c"}
TIMED |= {"E-CC-1d", "E-CC-1e", "E-CC-3c", "E-QS-4"}

#: Claims that our set-ups do not confirm; they are shown as they come out. Counted with its probes of profiling a join does not
#: pay for them within the streams of E-AG-13, what is remembered of traces is more than the events that constraints save, and the
#: longest bursts change latency by 13.6 % where 12 % were expected.
NOT_CONFIRMED = {"E-AG-8c", "E-AG-9b", "E-AG-13c", "E-AG-14b", "E-CC-1f", "E-CC-3d", "E-CP-5b"}
#: Sixteen queries that share operators are served in another order than eight paths, and who is served by age alone is not served
#: soon where queues are long; see docs/reproductions.md.
NOT_CONFIRMED |= {"E-SC-1b", "E-SC-2d", "E-SC-3f", "E-SC-6c", "E-SC-6d"}
NOT_CONFIRMED |= {"E-TS-3a", "E-TS-5b", "E-TS-6b", "E-TS-7b", "E-TS-8a", "E-TS-9a", "E-TS-9b", "E-TS-9c", "E-TS-10a", "E-QS-3d"}
#: Claims that two short streams do not show.
NEEDS_FULL_STREAMS = {"E-QS-1b", "E-QS-3b", "E-TS-1b", "E-TS-3b", "E-TS-4", "E-TS-5a", "E-TS-7d", "E-TS-8b"}


@cache
def quick(id: str) -> ReproductionOutcome:
    return EXPERIMENTS[id].run(Settings(seeds=2, is_quick=True))


def statements(name: str) -> dict[str, Any]:
    folder = Path(str(penstock.experiments.__file__)).parent / name
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return found


def measured_and_reference(id: str, claim_id: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    (claim,) = (claim for claim in quick(id).claims if claim.id == claim_id)
    return dict(claim.numbers), statements(name)[claim_id]["reference"]


@pytest.mark.parametrize("id", EXPERIMENTS)
def test_claims_that_counters_decide_hold(id: str) -> None:
    claims = quick(id).claims
    assert {claim.id for claim in claims if not claim.held} <= TIMED | NOT_CONFIRMED | NEEDS_FULL_STREAMS
    assert all(claim.text and claim.expected and claim.measured for claim in claims)


def test_every_claim_says_what_it_is_judged_by() -> None:
    claims = [claim for id in EXPERIMENTS for claim in quick(id).claims]
    assert {claim.id for claim in claims if claim.basis is Basis.TIME} == TIMED
    assert {claim.id for claim in claims if claim.basis is Basis.FORMULA} == {
        "E-AG-1a", "E-AG-2", "E-AG-3", "E-AG-5a", "E-AG-6a", "E-AG-6b",
        "E-CP-1c", "E-CP-1d", "E-CP-2b", "E-CP-6a", "E-CP-6b", "E-CP-6e", "E-CP-6f", "E-CP-6g",
    }  # fmt: skip


@pytest.mark.parametrize("id", EXPERIMENTS)
def test_curves_of_time_have_error_bars(id: str) -> None:
    for panel in quick(id).drawing.panels:
        if panel.x_label.startswith("processor") or panel.y_label.startswith(("processor", "time over")):
            assert all(series.spread is not None for series in panel.series)


@pytest.mark.parametrize("id", EXPERIMENTS)
def test_claims_have_finite_numbers(id: str) -> None:
    for claim in quick(id).claims:
        values = np.concatenate([np.zeros(0), *(np.ravel(value) for value in claim.numbers.values())])
        assert np.isfinite(values).all()
        assert claim.id not in TIMED or (len(values) and (values > 0).all())


@pytest.mark.parametrize("id", EXPERIMENTS)
def test_figures_have_labelled_axes_and_data(id: str) -> None:
    for panel in quick(id).drawing.panels:
        assert panel.y_label
        assert panel.x_label.endswith((" (s)", " (ms)")) or not panel.x_label.startswith(("time", "processor"))
        for series in panel.series:
            assert len(series.x) == len(series.y) > 0
            assert np.isfinite(np.asarray(series.y, np.float64)).all()


@pytest.mark.parametrize(
    ("name", "count"), [("pjoin", 10), ("pwjoin", 6), ("mpwjoin", 3), ("agreedy", 14), ("ccep", 6), ("capacity", 6)]
)
def test_every_experiment_is_there_with_its_claims(name: str, count: int) -> None:
    ids = [experiment.id for experiment in reproduction_named(name).experiments]
    assert len(ids) == len(set(ids)) == count
    assert {claim_id.rstrip("abcdefg") for claim_id in statements(name)} == set(ids)
    assert {claim.id for id in ids for claim in quick(id).claims} == set(statements(name))


# The reference simulation drew other random numbers and gave punctuations a little time of their own, so that its streams have
# up to 5 % fewer tuples. Tolerances are that and the chance of two seeds.


def test_states_in_lockstep_are_those_of_the_reference_simulation() -> None:
    found, expected = measured_and_reference("E-PJ-2", "E-PJ-2b", "pjoin")
    assert found["mean_state"] == pytest.approx(expected["mean_state"], rel=0.06)


def test_windows_save_what_they_saved_in_the_reference_simulation() -> None:
    found, expected = measured_and_reference("E-PW-1", "E-PW-1b", "pwjoin")
    for name in ("saving_2ms", "saving_10ms"):
        assert found[name] == pytest.approx(expected[name], abs=0.08)
    assert found["wjoin_state_2ms"] == pytest.approx(expected["wjoin_state_2ms"], rel=0.02)
    assert found["state_2ms"] == pytest.approx(expected["state_2ms"], rel=0.15)


def test_punctuations_leave_as_in_the_reference_simulation() -> None:
    found, expected = measured_and_reference("E-PW-4", "E-PW-4a", "pwjoin")
    for name in ("pwjoin_10ms", "pjoin_10ms"):
        assert found[name] == pytest.approx(expected[name], abs=6)
    found, expected = measured_and_reference("E-PW-5", "E-PW-5b", "pwjoin")
    assert found["at_10_20_38_s_10ms"] == pytest.approx(expected["at_10_20_38_s_10ms"], abs=8)


def test_lookups_and_accesses_are_those_of_the_reference_simulation() -> None:
    for id in ("E-MW-1", "E-MW-2"):
        found, expected = measured_and_reference(id, f"{id}b", "mpwjoin")
        assert np.mean(found["mwjoin_lookups"]) == pytest.approx(expected["mwjoin_lookups"], rel=0.03)
        found, expected = measured_and_reference(id, f"{id}c", "mpwjoin")
        assert np.mean(found["mwjoin_accessed"]) == pytest.approx(expected["mwjoin_accessed"], rel=0.05)


def test_equal_settings_give_equal_counters() -> None:
    again = EXPERIMENTS["E-PW-5"].run(Settings(seeds=2, is_quick=True))
    assert [claim.to_json() for claim in again.claims] == [claim.to_json() for claim in quick("E-PW-5").claims]


def test_probes_of_the_order_queries_are_those_of_the_reference_model() -> None:
    traffic = {"sequence": orders.OrderTraffic(remote=0.1), "and": orders.OrderTraffic(remote=0.1, quotes_missing=0.5)}
    for query, name, published in ((engines.Q1, "sequence", 0.67), (engines.Q2, "and", 0.68)):
        counts = [engines.probes(query, traffic[name], engine) for engine in ("C", "R")]
        assert 1 - counts[0] / counts[1] == pytest.approx(published, abs=0.01)


def test_b_g19_the_published_numbers_of_the_order_stream_agree() -> None:
    # 20,000 orders of 400,000 events and 200,000 of 4,000,000; 72 % of the memory and 51 % of the time as factors of 3.5 and 2.
    assert orders.OrderTraffic().events / orders.EVENTS_PER_ORDER == 20_000
    assert 10 * orders.OrderTraffic().events / orders.EVENTS_PER_ORDER == 200_000
    for saved, factor in ((0.72, 3.5), (0.51, 2.0)):
        assert 1 / (1 - saved) == pytest.approx(factor, abs=0.1)
