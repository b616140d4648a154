"""What is said of rows that come later than a stream declares."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.language.application import parse_application
from penstock.lowering.stages import build_job
from penstock.model.schema import TIMESTAMP
from penstock.runners.local.runner import LocalRunner


@pytest.mark.parametrize(
    ("kind", "delay", "arrow", "bound"),
    [
        ("TIMESTAMP", "INTERVAL 90 SECONDS", TIMESTAMP, "90 seconds"),
        ("TIMESTAMP", "INTERVAL 2 MINUTES", TIMESTAMP, "2 minutes"),
        ("BIGINT", "90000000", pa.int64(), "90000000"),
    ],
)
def test_the_disorder_bound_is_a_duration_where_event_time_is_clock_time(
    kind: str, delay: str, arrow: pa.DataType, bound: str
) -> None:
    stream = f"CREATE STREAM a (k BIGINT, ts {kind}, WATERMARK ts DELAY OF {delay}) USING feed;"
    text = f"{stream} CREATE CQ q AS SELECT DISTINCT k FROM a;"
    runner = LocalRunner(build_job(parse_application(text), 1))
    for time in (1_000_000_000, 1):
        columns = [pa.array([7]), pa.array([time], pa.int64()).cast(arrow)]
        runner.run({"a": pa.RecordBatch.from_arrays(columns, names=["k", "ts"])})
    (late,) = runner.collected.refused
    assert late.text.endswith(f"by more than the declared disorder bound of {bound}")
