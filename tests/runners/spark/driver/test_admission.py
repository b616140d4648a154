"""Queries whose contracts cannot be kept are refused before they start, by what earlier micro-batches have cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.errors import NotAdmitted
from penstock.language.application import parse_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.runners.costs import RECORD
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.admission import refuse_unfit


def costs(rate: float) -> dict[str, Any]:
    """A run whose micro-batches took 0.2 s and 0.1 ms for each row."""
    batches = [[rows, 0.2 + 1e-4 * rows] for rows in range(500, 5500, 250)]
    known = {"cores": 2, "shards": 2, "plan": "", "batches": batches, "rates": {"s": rate}, "shares": {}, "state": {}}
    return {**known, "prices": {}}


def judged(folder: Path, clause: str, rate: float | None, trigger: str | None = None) -> None:
    stream = "CREATE STREAM s (k BIGINT, ts TIMESTAMP, WATERMARK ts DELAY OF INTERVAL 1 SECOND);"
    text = f"{stream} CREATE CQ q {clause} AS SELECT k FROM s"
    catalog, checkpoint = parse_application(text), Checkpoint(folder)
    if rate is not None:
        checkpoint.record(RECORD).parent.mkdir(parents=True)
        checkpoint.remember(RECORD, costs(rate))
    refuse_unfit(looped(build_job(catalog, 2)), catalog, checkpoint, 2, trigger)


@pytest.mark.parametrize(
    ("clause", "rate"),
    [
        ("WITH QOS (LATENCY <= INTERVAL 2 SECONDS)", 8_000),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND BEST EFFORT)", 8_000),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND)", 1_000),
        ("WITH QOS (LATENCY <= INTERVAL 1 SECOND)", None),
        ("", 20_000),
    ],
)
def test_what_can_be_kept_or_need_not_be_is_admitted(tmp_path: Path, clause: str, rate: float | None) -> None:
    judged(tmp_path, clause, rate)


def test_a_refusal_says_what_is_predicted_and_what_would_fit(tmp_path: Path) -> None:
    """At 8,000 rows/s a micro-batch takes 0.2 s / (1 - 0.8) = 1 s, and an answer comes 1.5 s after its row."""
    with pytest.raises(
        NotAdmitted, match=r"mean latency of 'q': 1\.5\d* predicted, 1 promised; it would be kept up to 0\.8"
    ) as found:
        judged(tmp_path, "WITH QOS (LATENCY <= INTERVAL 1 SECOND)", 8_000)
    assert "(s=8,000/s)" in str(found.value)
    assert "1.25 times as much" in str(found.value)


def test_more_rows_than_can_be_processed(tmp_path: Path) -> None:
    with pytest.raises(NotAdmitted, match="more rows come than can be processed"):
        judged(tmp_path, "WITH QOS (LATENCY <= INTERVAL 1 MINUTE)", 12_000)


def test_the_time_between_micro_batches_counts(tmp_path: Path) -> None:
    with pytest.raises(NotAdmitted):
        judged(tmp_path, "WITH QOS (LATENCY <= INTERVAL 1 SECOND)", 1_000, trigger="1800 ms")
