"""The driver's part: shards report, the orderer decides, controls bring the decision back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from flag_filters import drifting, flag_filters, flag_schema

from penstock.model.elements import Control, Heartbeat
from penstock.operators.filtering.descriptors import Filter
from penstock.operators.filtering.operator import AdaptiveFilter
from penstock.operators.filtering.orderer import Orderer
from penstock.operators.filtering.predicates import OnArrow
from penstock.operators.filtering.reports import ShardReport
from penstock.operators.filtering.settings import FilterSettings, Mode, OrderSettings
from penstock.operators.filtering.window import ProfileRows

ADAPTIVE = ("agreedy", "sweep", "independent", "local_swaps")


def settings(algorithm: str) -> FilterSettings:
    order = OrderSettings(algorithm, probability=0.5, window_rows=200, stage_rows=100, min_fill=100)
    return FilterSettings(order, 256, mode=Mode.GLOBAL)


def shard(algorithm: str) -> AdaptiveFilter:
    return AdaptiveFilter(flag_schema(4), flag_filters(4), settings(algorithm), "f")


def shipped(report: ShardReport) -> ShardReport:
    """By way of JSON, as between processes."""
    return ShardReport.from_json(json.loads(json.dumps(report.to_json())))


def sent(control: Control) -> Control:
    return Control(control.epoch, control.kind, json.loads(json.dumps(dict(control.detail))))


@pytest.mark.parametrize("algorithm", ADAPTIVE)
def test_two_shards_follow_one_orderer(algorithm: str):
    shards, orderer = [shard(algorithm), shard(algorithm)], Orderer(flag_filters(4), settings(algorithm), "f")
    batch, kept, orders = drifting(12_000), [], []
    for number, start in enumerate(range(0, 12_000, 500)):
        for place, operator in enumerate(shards):
            (found,) = operator.on_batch(0, batch.slice(start + place * 250, 250))
            kept += found.pos.tolist()
        orderer.absorb(number, [shipped(operator.report()) for operator in shards])
        decision = orderer.decide()
        if decision is not None:
            for operator in shards:
                operator.on_control(sent(decision))
        assert shards[0].order == shards[1].order == orderer.order
        orders.append(orderer.order)
    expected = [at for at, row in enumerate(zip(*batch.rows.to_pydict().values(), strict=True)) if all(row)]
    assert kept == expected
    assert orders[10][0] == "f3"
    assert orders[-1][0] == "f0"


def measured(mode: Mode) -> AdaptiveFilter:
    """Filters of unknown cost, as a task makes them anew for each micro-batch."""
    filters = [Filter(f"f{i}", OnArrow(lambda column: column, (f"b{i}",))) for i in range(4)]
    order = OrderSettings("agreedy", probability=0.5, window_rows=200, min_fill=100)
    return AdaptiveFilter(flag_schema(4), filters, FilterSettings(order, 256, mode=mode), "f")


def test_between_decisions_a_shard_repairs_the_order_once_it_knows_costs():
    batch, told = drifting(6000), Control(0, "filter_costs", {"operator": "f", "costs": {f"f{i}": 1.0 for i in range(4)}})
    unknowing, obedient, repairing = measured(Mode.BOTH), measured(Mode.GLOBAL), measured(Mode.BOTH)
    obedient.on_control(told)
    repairing.on_control(told)
    kept = [[part.pos.tolist() for part in each.on_batch(0, batch)] for each in (unknowing, obedient, repairing)]
    assert kept[0] == kept[1] == kept[2]
    assert unknowing.order == obedient.order == ("f0", "f1", "f2", "f3")
    assert repairing.order[0] == "f0"
    assert repairing.policy.reorderings >= 2
    assert sum(repairing.counts.evaluations) < 0.8 * sum(obedient.counts.evaluations)
    # The driver learns from all of them alike, whatever they do meanwhile.
    assert len(unknowing.report().rows) == len(obedient.report().rows) == len(repairing.report().rows) == 200


def test_a_policy_that_needs_one_stage_for_all_is_not_repaired_by_shards():
    batch = drifting(6000)
    order = OrderSettings("sweep", probability=0.5, stage_rows=100)
    operator = AdaptiveFilter(flag_schema(4), flag_filters(4), FilterSettings(order, 256, mode=Mode.BOTH), "f")
    operator.on_batch(0, batch)
    assert operator.policy.version == 0


def test_shards_that_repair_orders_are_told_costs_when_they_change():
    order = OrderSettings(window_rows=4, min_fill=4)
    orderer = Orderer(plain("ab"), FilterSettings(order, mode=Mode.BOTH), "f")
    assert orderer.decide() is None
    found = []
    for batch, seconds in enumerate((1e-3, 1.1e-3, 9e-3)):
        orderer.absorb(batch, [ShardReport("f", 0, ProfileRows.empty(), [[(1000, seconds)], [(1000, 2e-3)]], 0, 1000, 0)])
        found.append(orderer.decide())
    assert found[0] is not None
    assert (found[0].kind, sorted(found[0].detail["costs"])) == ("filter_costs", ["a", "b"])
    assert found[1] is None
    assert found[2] is not None
    again = Orderer(plain("ab"), FilterSettings(order, mode=Mode.BOTH), "f")
    again.restore(json.loads(json.dumps(orderer.snapshot())))
    assert again.decide() is None


def report(bits: list[int], version: int = 0, filters: int = 2, ts: int = 0) -> ShardReport:
    words = np.array(bits, np.uint64)
    rows = ProfileRows(words, np.full(len(words), 2**filters - 1, np.uint64), np.full(len(words), ts))
    return ShardReport("f", version, rows, [[]] * filters, ts, 10 * len(bits), 2 * len(bits))


def plain(names: str, **declared) -> list[Filter]:
    return [Filter(name, OnArrow(lambda rows: rows), **declared) for name in names]


def orderer_of(algorithm: str = "agreedy", rows: int = 4, **declared) -> Orderer:
    order = OrderSettings(algorithm, window_rows=rows, stage_rows=rows, min_fill=rows)
    return Orderer(plain("ab", **declared), FilterSettings(order), "f")


def test_a_repeated_micro_batch_is_absorbed_once():
    orderer = orderer_of(declared_cost=1.0)
    orderer.absorb(3, [report([2, 2])])
    before = orderer.snapshot()
    orderer.absorb(3, [report([2, 2])])
    orderer.absorb(2, [report([2, 2])])
    assert orderer.snapshot() == before
    assert orderer.decide() is None


def test_a_restored_orderer_goes_on_alike():
    first, second = orderer_of(declared_cost=1.0), orderer_of(declared_cost=1.0)
    first.absorb(0, [report([2, 2, 1])])
    second.restore(json.loads(json.dumps(first.snapshot())))
    for orderer in (first, second):
        orderer.absorb(0, [report([1, 1, 1])])
        orderer.absorb(1, [report([2, 2])])
    assert first.order == second.order == ("b", "a")
    assert first.snapshot() == second.snapshot()


def test_rows_profiled_for_another_stage_are_passed_over():
    orderer = orderer_of("sweep", declared_cost=1.0)
    orderer.absorb(0, [report([1, 2, 1])])
    orderer.absorb(1, [report([2] * 9, version=7)])
    assert orderer.order == ("a", "b")
    orderer.absorb(2, [report([2])])
    assert orderer.decide() is not None


def test_measured_costs_decide_on_the_driver():
    orderer = orderer_of()
    slow, fast = [(100, 1.0), (200, 2.0)], [(100, 0.001), (200, 0.002)]
    told = report([1, 1, 1, 2])
    orderer.absorb(0, [ShardReport("f", 0, told.rows, [slow, fast], 0, 40, 8)])
    decision = orderer.decide()
    assert decision is not None
    assert decision.detail["costs"] == pytest.approx({"a": 0.01, "b": 0.00001})
    assert orderer.order == ("b", "a")
    operator = AdaptiveFilter(
        flag_schema(2), [Filter(name, OnArrow(lambda x: x, (f"b{i}",))) for i, name in enumerate("ab")], label="f"
    )
    operator.on_control(sent(decision))
    assert operator.order == ("b", "a")
    assert operator.costs.estimates().tolist() == pytest.approx([0.01, 0.00001])


def test_the_newest_rows_of_a_batch_are_kept():
    orderer = orderer_of(declared_cost=1.0)
    orderer.absorb(0, [report([1] * 4, ts=9), report([2] * 4, ts=5)])
    assert orderer.policy.window.bits.tolist() == [1] * 4


def test_profiles_grow_old_although_nothing_is_profiled():
    order = OrderSettings(window_rows=8, min_fill=8, max_age=10)
    orderer = Orderer(plain("ab", declared_cost=1.0), FilterSettings(order), "f")
    orderer.absorb(0, [report([1, 2, 2], ts=5)])
    assert len(orderer.policy.window) == 3
    orderer.absorb(1, [report([], ts=30)])
    assert len(orderer.policy.window) == 0
    operator = AdaptiveFilter(flag_schema(2), flag_filters(2), FilterSettings(order), "f")
    operator.on_metadata(0, Heartbeat(77))
    assert operator.report().now == 77


def test_estimates_compare_current_greedy_and_optimal_order():
    orderer = orderer_of(rows=8, declared_cost=1.0)
    orderer.absorb(0, [report([1, 2, 2, 2])])
    found = orderer.estimates()
    assert found is not None
    assert (found.current, found.greedy, found.optimal) == pytest.approx((1.95, 1.85, 1.85))


def test_reports_of_other_filters_are_ignored():
    orderer = orderer_of(declared_cost=1.0)
    told = report([2] * 4)
    orderer.absorb(0, [ShardReport("other", 0, told.rows, [], 0, 1, 1)])
    assert orderer.order == ("a", "b")
    assert orderer.estimates() is None


def test_a_report_is_handed_over_once():
    operator = shard("agreedy")
    operator.on_batch(0, drifting(1000))
    first, second = operator.report(), operator.report()
    assert len(first.rows) == 200  # at most a window
    assert (len(second.rows), second.rows_in, first.rows_in) == (0, 0, 1000)
