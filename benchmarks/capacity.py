"""Latency and the highest rate that `penstock plan` predicts after a trial, against runs at 30, 60 and 85 % load.

python -m benchmarks.capacity [--trial 30] [--seconds 30] [--warm-up 15]

The queries of `penstock demo burst` without the burst, with answers in memory as in the trial. The trial runs at 30,000 rows a
second; the highest rate is measured by a run that has more rows than it can process, in micro-batches of at most 100,000 rows.
Latency counts from the time at which a row falls due to the end of its micro-batch. `busy` is how many processes wanted a core:
other work makes runs slower than a trial.

`trial` are predictions before the runs. `model` are those with costs fitted to the micro-batches of all runs together: what is left
there is the error of the formula, without that of the trial and of other work that came or went meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from benchmarks.common import main, session
from penstock.apps.table import example_named
from penstock.apps.trial import measure
from penstock.language.application import parse_application
from penstock.lowering.capacity import planned_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.qos.capacity.batch_costs import fitted
from penstock.qos.capacity.gated_server import GatedServer, highest_rate
from penstock.qos.capacity.planning import CapacityPlan, Machine
from penstock.runners.spark.driver.app import App
from penstock.runners.spark.driver.latency import oldest_due_us
from penstock.runners.spark.driver.run import Run

CORES, TRIAL_RATE, MOST_ROWS, FLOOD = 2, 30_000, 100_000, 1_000_000
LOADS = (0.3, 0.6, 0.85)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trial", type=float, default=30, help="seconds of the trial")
    parser.add_argument("--seconds", type=float, default=30, help="measured, of each run")
    parser.add_argument("--warm-up", type=float, default=15, help="before that")
    return parser.parse_args()


def text_at(rate: float, more: str = "") -> str:
    """The queries with a steady stream that does not end."""
    text = example_named("burst").file.read_text().replace("'12000', schedule '15:2,35:1'", f"'{rate:.0f}'{more}")
    return text.replace(", total '840000'", "")


def planned(costs: Mapping[str, Any], rate: float, most_rows: int = 0) -> CapacityPlan:
    text = text_at(rate, f", max_rows_per_batch '{most_rows}'" if most_rows else "")
    job = looped(build_job(parse_application(text, "burst", now=0), CORES))
    return CapacityPlan(planned_application(job, "burst", (), costs).at({"tick": rate}), Machine(CORES))


def steady(text: str, given: argparse.Namespace) -> tuple[Run, list[Any]]:
    """A run, and its micro-batches behind the warm-up."""
    run = App.from_text(text, "burst").start(tempfile.mkdtemp(prefix="penstock-bench-"), spark=session(CORES), shards=CORES)
    try:
        while not run.reports():
            time.sleep(0.1)
        time.sleep(given.warm_up)
        first = run.reports()[-1].epoch
        found = {}
        ends = time.monotonic() + given.seconds
        while time.monotonic() < ends:
            found |= {report.epoch: report for report in run.reports() if report.epoch > first}
            time.sleep(1)
        return run, [found[epoch] for epoch in sorted(found)]
    finally:
        run.stop()


def mean_latency(run: Run, reports: Sequence[Any]) -> float:
    """Of the rows of all micro-batches, from due to committed."""
    total = rows = 0.0
    for report, following in pairwise(reports):
        oldest, newest = oldest_due_us(run.job, report), oldest_due_us(run.job, following)
        if oldest is not None and newest is not None and following.epoch == report.epoch + 1:
            ended = began_s(report) + report.duration_ms / 1000
            total += (ended - (oldest + newest) / 2e6) * report.input_rows
            rows += report.input_rows
    return total / rows


def began_s(report: Any) -> float:
    return datetime.fromisoformat(str(report.spark["timestamp"]).replace("Z", "+00:00")).timestamp()


def rows_of(report: Any) -> int:
    """Rows of the stream; Spark counts them once for each of the entries that read it."""
    return max((entry.get("arrived", 0) for entry in report.entries.values()), default=0)


def highest(reports: Sequence[Any]) -> float:
    """Rows of the stream per second."""
    return sum(map(rows_of, reports[:-1])) / (began_s(reports[-1]) - began_s(reports[0]))


def said(name: str, found: Mapping[str, Any]) -> None:
    print(f"{name:10s} {dict(found)}", file=sys.stderr, flush=True)


def compared(predicted: float, measured: float) -> dict[str, float]:
    return {"predicted": round(predicted, 4), "measured": round(measured, 4), "error": round(predicted / measured - 1, 3)}


def run() -> Mapping[str, Any]:
    given = arguments()
    costs = measure(text_at(TRIAL_RATE), "burst", given.trial, CORES)
    plan = planned(costs, TRIAL_RATE)
    learnt = plan.application.costs
    rate = plan.rate * plan.highest_factor
    line: dict[str, Any] = {
        "fixed_s": round(learnt.fixed_s, 4), "row_us": round(plan.row_s * 1e6, 3), "estimated": list(plan.estimated),
        "highest_rate_unlimited": round(rate),
    }  # fmt: skip
    said("trial", line)
    measured, batches = dict[int, float](), list[tuple[float, float]]()
    for load in LOADS:
        ran, reports = steady(text_at(load * rate), given)
        share = round(100 * load)
        measured[share] = mean_latency(ran, reports)
        batches += [(rows_of(report), report.duration_ms / 1000) for report in reports]
        server = planned(costs, load * rate).server()
        assert server is not None
        line[f"trial_{share}"] = {**compared(server.latency_s, measured[share]), "batches": len(reports), "busy": busy()}
        said(f"{load:.0%}", line[f"trial_{share}"])
    _, reports = steady(text_at(FLOOD, f", max_rows_per_batch '{MOST_ROWS}'"), given)
    limited = planned(costs, TRIAL_RATE, MOST_ROWS)
    line["trial_rate"] = {
        **compared(limited.rate * limited.highest_factor, highest(reports)),
        "batches": len(reports),
        "busy": busy(),
    }
    said("highest", line["trial_rate"])
    pooled = fitted(batches, CORES, 0.0)
    for share, found in measured.items():
        server = GatedServer(share / 100 * rate, pooled.fixed_s, pooled.row_s, fixed_deviation_s=pooled.deviation_s)
        line[f"model_{share}"] = compared(server.latency_s, found)
    line["model_rate"] = compared(highest_rate(pooled.fixed_s, pooled.row_s, most_rows=MOST_ROWS), highest(reports))
    said("model", {name: value for name, value in line.items() if name.startswith("model")})
    return {**{f"worst_{kind}": worst(line, kind) for kind in ("trial", "model")}, **line}


def worst(line: Mapping[str, Any], kind: str) -> dict[str, float]:
    """The largest errors of latency and of the highest rate."""
    errors = [abs(line[f"{kind}_{round(100 * load)}"]["error"]) for load in LOADS]
    return {"latency": max(errors), "rate": abs(line[f"{kind}_rate"]["error"])}


def busy() -> float:
    return round(os.getloadavg()[0], 1)


if __name__ == "__main__":
    main("capacity", run)
