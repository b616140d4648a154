"""Ordinary jobs write the same rows with Penstock's operators in place of Spark's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[3] / "docs/examples/ten_jobs.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ten_jobs", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # Workers cannot import it: as in a program of its own, functions travel by value.
    cloudpickle.register_pickle_by_value(module)
    return module


@pytest.fixture(scope="module")
def written(example: ModuleType, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a job writes; each runs once."""
    folder = tmp_path_factory.mktemp("jobs")
    example.write_rows(folder / "rows", seconds=150)
    known: dict[str, list[tuple[str, ...]]] = {}

    def run(job: Any) -> list[tuple[str, ...]]:
        name = job.__name__
        if name not in known:
            known[name] = example.rows_of(job(example.read(spark, folder / "rows")), folder / name, name)
        return known[name]

    return run


@pytest.mark.parametrize("number", range(1, 11))
def test_a_job_writes_the_same_rows_with_penstock(number: int, example: ModuleType, written: Any) -> None:
    before, after = example.JOBS[number - 1]
    expected = written(before)
    assert len(expected) > 1
    assert written(after) == expected
