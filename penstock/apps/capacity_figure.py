"""Latency against rate, drawn: where the application is, and where it ends."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

from penstock.qos.capacity.planning import CapacityPlan

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
#: Latencies above so many times that at the asked rate are left out, or nothing else could be seen.
_TALLEST = 8.0


def draw_capacity(plan: CapacityPlan, file: Path) -> None:
    """Mean latency over the rate of all streams together, the rates asked for, those measured, and the highest one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    points = plan.curve()
    axes.plot(
        [rate for rate, _ in points], [latency for _, latency in points], color=_COLOURS[0], linewidth=1.8, label="mean latency"
    )
    tail = plan.curve(share=0.95)
    axes.plot(
        [rate for rate, _ in tail],
        [latency for _, latency in tail],
        color=_COLOURS[0],
        linestyle=":",
        label="95 % of answers within",
    )
    now = plan.latency(plan.first_query)
    if now is not None:
        axes.plot([plan.rate], [now], "o", color=_COLOURS[1], label=f"asked: {plan.rate:,.0f} rows/s")
    measured = sum(plan.application.measured_rates.values())
    if measured and abs(measured - plan.rate) > 0.01 * plan.rate:
        axes.axvline(measured, color=_COLOURS[2], linestyle="--", linewidth=1.2, label=f"measured at {measured:,.0f} rows/s")
    if isfinite(plan.highest_factor):
        highest = plan.rate * plan.highest_factor
        axes.axvline(highest, color=_COLOURS[6], linewidth=1.2, label=f"highest: {highest:,.0f} rows/s")
    for number, verdict in enumerate(each for each in plan.verdicts() if each.what == "mean latency"):
        axes.axhline(
            verdict.bound, color=_COLOURS[3 + number % 3], linestyle="-.", linewidth=1.2, label=f"bound of {verdict.query}"
        )
    least = points[0][1] if points else 1.0
    axes.set_ylim(0, max(_TALLEST * least, 1.3 * (now or 0.0)))
    axes.set_xlim(left=0)
    axes.set_xlabel("rows per second, all streams")
    axes.set_ylabel(f"latency of '{plan.first_query}' (s)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=8, loc="upper left", framealpha=0.9)
    axes.set_title(f"{plan.application.name}, {plan.machine.cores} cores", fontsize=10)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
