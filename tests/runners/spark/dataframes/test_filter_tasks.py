"""Tasks of adaptive filters without shards: what they take from the log, what they hand back; no JVM."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.errors import FilterFailed
from penstock.lowering.given_filters import filtered_by
from penstock.lowering.stages import build_job
from penstock.model.declarations import Constraint, ConstraintKind, Source, StreamDeclaration
from penstock.model.order_hints import OrderHint
from penstock.model.schema import TIMESTAMP, Schema
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.relational import Scan
from penstock.runners.spark.data_path.control import ControlLog
from penstock.runners.spark.dataframes import filter_tasks
from penstock.runners.spark.dataframes.filter_tasks import DirectFilter, direct_filter, filtering_task, prepared

SCHEMA = Schema.of(x=pa.int64(), s=pa.string(), ts=TIMESTAMP)


def even(x: pd.Series) -> pd.Series:
    return x % 2 == 0


def fifth(x: pd.Series) -> pd.Series:
    return x % 5 == 0


def picky(x: pd.Series) -> pd.Series:
    if (x == 30).any():
        raise ValueError("not thirty")
    return x >= 0


def direct(
    log: Path, *conditions, quarantine: str = "", constraints: tuple[Constraint, ...] = (), **options
) -> DirectFilter | None:
    catalog = Catalog("test")
    stream = StreamDeclaration("input", SCHEMA, Source("dataframe"), "ts", 0, constraints)
    catalog.add_stream(stream)
    hint = OrderHint(tuple({"mode": "both", **options}.items()))
    catalog.add_query(ContinuousQuery("answer", filtered_by(Scan(stream), list(conditions), hint)))
    return direct_filter(build_job(catalog, 1, filters_early=False), "run", str(log), quarantine)


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batch 7, task 1."""
    monkeypatch.setattr(filter_tasks, "batch_id", lambda: 7)
    monkeypatch.setattr(filter_tasks, "partition_id", lambda: 1)
    monkeypatch.setattr(filter_tasks, "query_id", lambda: "c0ffee")
    monkeypatch.setattr(filter_tasks, "first_position", lambda: 7 << 38)


def rows(count: int) -> pa.RecordBatch:
    numbers = np.arange(count)
    times = pa.array(numbers, pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(numbers.astype(str)), times], ["_c0", "_c1", "_c2"])


def test_a_task_hands_back_rows_that_pass_and_one_report(tmp_path: Path, in_task: None):
    chosen = direct(tmp_path, even, fifth, probability=1.0)
    assert chosen is not None
    *answers, report = filtering_task(chosen)(iter([rows(100), rows(60)]))
    assert [part["x"].to_pylist() for part in answers] == [list(range(0, 100, 10)), list(range(0, 60, 10))]
    assert all(part["_penstock_report"].null_count == part.num_rows for part in answers)
    (text,) = report["_penstock_report"].to_pylist()
    told = json.loads(text)
    assert (told["run"], told["epoch"], told["shard"]) == ("run", 7, 1)
    ((label, heard),) = told["told"].items()
    assert label == chosen.recipe.label
    assert (heard["report"]["rows_in"], heard["report"]["drops"]) == (160, 144)
    assert report.drop_columns(["_penstock_report"]).to_pylist() == [{"x": None, "s": None, "ts": None}]


def test_a_task_without_rows_reports_all_the_same(tmp_path: Path, in_task: None):
    chosen = direct(tmp_path, even, fifth)
    assert chosen is not None
    (report,) = filtering_task(chosen)(iter([]))
    assert report.num_rows == 1


def test_a_task_starts_with_the_order_meant_for_its_micro_batch(tmp_path: Path):
    chosen = direct(tmp_path, even, fifth)
    assert chosen is not None
    log = ControlLog(tmp_path)
    mirror = {"order": [1, 0], "epoch": 1, "version": 1}
    log.append("filter_order", {"operator": chosen.recipe.label, "mirror": mirror, "costs": {"even": 2.0, "fifth": 1.0}, "from": 5})
    log.append("filter_costs", {"operator": chosen.recipe.label, "costs": {"even": 3.0}, "from": 6})
    log.append("filter_order", {"operator": "another", "mirror": {**mirror, "order": [0, 1]}, "from": 0})
    before, then, later = (prepared(chosen.recipe, chosen.log, epoch) for epoch in (4, 5, 6))
    assert (before.order, before.costs.estimates().tolist()) == (("even", "fifth"), pytest.approx([1.1e-6, 1.1e-6]))
    assert (then.order, then.costs.estimates().tolist()) == (("fifth", "even"), [2.0, 1.0])
    assert (later.order, later.costs.estimates().tolist()) == (("fifth", "even"), [3.0, 1.0])


def test_a_stream_with_promises_needs_shards(tmp_path: Path):
    assert direct(tmp_path, even, fifth, constraints=(Constraint(ConstraintKind.UNIQUE, "x"),)) is None
    assert direct(tmp_path, even, fifth, mode="shard") is None


def test_rows_that_cannot_be_judged_are_kept_apart_or_fail_the_task(tmp_path: Path, in_task: None):
    kept_apart = direct(tmp_path / "log", even, picky, quarantine=str(tmp_path / "bad"), on_error="dead_letter", probability=0.0)
    failing = direct(tmp_path / "log", even, picky, on_error="dead_letter", probability=0.0)
    assert kept_apart is not None
    assert failing is not None
    answer, report = filtering_task(kept_apart)(iter([rows(40)]))
    assert answer["x"].to_pylist() == [number for number in range(0, 40, 2) if number != 30]
    assert json.loads(report["_penstock_report"][0].as_py())["refused"] == {"filter-failed": 1}
    assert len(list((tmp_path / "bad").glob("*.parquet"))) == 1
    with pytest.raises(FilterFailed, match="quarantine directory"):
        list(filtering_task(failing)(iter([rows(40)])))
