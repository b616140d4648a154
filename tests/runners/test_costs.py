"""What a checkpoint remembers of micro-batches."""

from __future__ import annotations

from penstock.runners.costs import CostHistory


def history(known: object = None, plan: str = "a", cores: int = 2) -> CostHistory:
    return CostHistory(cores, 2, plan, known)  # type: ignore[arg-type]


def hear(costs: CostHistory, batches: int, rows: int = 1_000, begin: int = 0) -> CostHistory:
    for number in range(begin, begin + batches):
        read = {"s@1": ("s", rows * number, rows * number // 2), "s@2": ("s", rows * number, rows * number)}
        costs.hear(rows, read, {"Join1": (10, 200), "Select2": (0, 0)}, number * 0.5, 0.3)
    return costs


def test_the_first_micro_batches_of_a_run_do_not_count() -> None:
    assert hear(history(), 4).to_json({})["batches"] == []
    assert len(hear(history(), 9).to_json({})["batches"]) == 5


def test_a_stream_with_several_entries_counts_once_and_missed_micro_batches_count_too() -> None:
    costs = hear(history(), 6)
    costs.hear(1_000, {"s@1": ("s", 9_000, 4_500), "s@2": ("s", 9_000, 9_000)}, {}, 4.5, 0.3)
    found = costs.to_json({})
    assert found["rates"] == {"s": 2000.0}
    assert found["shares"] == {"s@1": 0.5, "s@2": 1.0}


def test_operators_without_state_are_left_out() -> None:
    assert hear(history(), 6).to_json({})["state"] == {"Join1": [10, 200]}


def test_micro_batches_without_rows_do_not_count() -> None:
    costs = hear(history(), 6)
    costs.hear(0, {}, {}, 9.0, 0.01)
    assert len(costs.to_json({})["batches"]) == 2


def test_a_restart_goes_on_where_queries_and_cores_are_the_same() -> None:
    known = hear(history(), 10).to_json({})
    assert len(hear(history(known), 5).to_json({})["batches"]) == 6 + 3
    assert len(hear(history(known, plan="b"), 5).to_json({})["batches"]) == 1
    assert len(hear(history(known, cores=4), 5).to_json({})["batches"]) == 1


def test_only_the_newest_are_kept() -> None:
    found = hear(hear(history(), 310), 10, 2_000, 310).to_json({})["batches"]
    assert len(found) == 300
    assert found[-1] == [2_000, 0.3]
