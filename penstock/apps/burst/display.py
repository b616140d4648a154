"""The comparison for people: a table while it goes on, what came of it, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.apps.burst.comparison import Comparison, Load, Side
from penstock.runners.spark.terminal.display import bytes_text

_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00")
#: What else tells lines apart.
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))


class ComparisonDisplay:
    """Draws the table anew in place, or says a line every five seconds where there is no terminal."""

    def __init__(self, console: Console, load: Load, is_plain: bool) -> None:
        self._console, self._load = console, load
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not is_plain else None
        self._said = -5.0

    def show(self, sides: Sequence[Side], seconds: float) -> None:
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(side_by_side(sides, seconds, self._load), refresh=True)
        elif seconds >= self._said + 5:
            self._said = seconds
            self._console.print(f"{seconds:5.0f} s  {_line(sides)}", highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._live is not None and self._live.is_started:
            self._live.stop()


def _line(sides: Sequence[Side]) -> str:
    return "   ".join(f"{side.name}: {_slowest(side)}" for side in sides)


def _slowest(side: Side) -> str:
    if not side.moments:
        return "starting"
    last = side.moments[-1]
    ages = ", ".join(f"{query} {ms / 1000:.1f} s" for query, ms in last.latency_ms.items())
    return f"{last.queue_rows:,} rows wait; answers of {ages}"


def side_by_side(sides: Sequence[Side], seconds: float, load: Load) -> RenderableType:
    """Latency and waiting rows of every query, a pair of columns for every run."""
    begin, end = load.burst
    now = max((side.moments[-1].second for side in sides if side.moments), default=0.0)
    phase = "twice as many trades come" if begin <= now < end else "the usual load" if now < begin else "the usual load again"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("query", no_wrap=True)
    for side in sides:
        table.add_column(f"{side.name}: latency", justify="right", no_wrap=True)
        table.add_column("waiting", justify="right", no_wrap=True)
    queries = next((side.last.queries for side in sides if side.last), ())
    for query in queries:
        table.add_row(query.query, *[text for side in sides for text in _service(side, query.query)])
    held = ", ".join(f"{side.name} {bytes_text(side.moments[-1].queue_bytes if side.moments else 0)}" for side in sides)
    return Group(Text(f"{seconds:.0f} s: {phase}", style="bold"), table, Text(f"in the queues: {held}"))


def _service(side: Side, query: str) -> tuple[Text, str]:
    served = next((each for each in side.last.service if each.query == query), None) if side.last else None
    if served is None or served.latency_ms is None:
        return Text(""), ""
    style = "bold red" if served.latency_ms > 5_000 else "yellow" if served.latency_ms > 2_000 else ""
    return Text(f"{served.latency_ms / 1000:.1f} s", style=style), f"{served.waiting_rows:,}"


def print_outcome(console: Console, found: Comparison) -> None:
    """Mean latencies, memory, and whether the answers are the same."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("mean latency of answers since the burst began")
    table.add_column("answers", justify="right")
    for name in found.sides:
        table.add_column(name, justify="right")
    for query, answers in found.answers.items():
        table.add_row(query, f"{answers:,}", *[_mean(side, query) for side in found.sides.values()])
    means = [f"{side.mean_latency_ms / 1000:.2f} s" for side in found.sides.values()]
    table.add_row("all of them", f"{sum(found.answers.values()):,}", *means, style="bold")
    peaks = [bytes_text(side.peak_bytes) for side in found.sides.values()]
    table.add_row("most memory of queues", "", *peaks)
    console.print(table)
    same = "Both gave the same answers." if found.are_equal else "The answers DIFFER: that must not be."
    console.print(f"budget: {found.budget_ns / 1e6:.1f} ms of priced work for each shard and half second. {same}", highlight=False)


def _mean(side: Side, query: str) -> str:
    answers, latencies = side.served.get(query, (0.0, 0.0))
    return f"{latencies / answers / 1000:.2f} s" if answers else ""


def draw(found: Comparison, file: Path) -> None:
    """Latency of every query, and what the queues hold, over time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(found.sides), 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    rows: Any = figure.subplots(2, len(found.sides), sharex=True, sharey="row", squeeze=False)
    for column, side in enumerate(found.sides.values()):
        _draw_latency(rows[0][column], side, list(found.answers))
        _draw_queues(rows[1][column], side)
        for axes in (rows[0][column], rows[1][column]):
            axes.axvspan(*found.load.burst, color="#eeeeee", zorder=0)
            axes.grid(color="#dddddd", linewidth=0.6)
    rows[0][0].set_ylabel("latency of answers (s)")
    rows[0][-1].legend(fontsize=8)
    rows[1][0].set_ylabel("in the queues (MB)")
    figure.savefig(file, dpi=110)


def _draw_latency(axes: Any, side: Side, queries: Sequence[str]) -> None:
    axes.set_title(side.name)
    for number, query in enumerate(queries):
        points = [(moment.second, moment.latency_ms[query] / 1000) for moment in side.moments if query in moment.latency_ms]
        if points:
            style = {"linestyle": _DASHES[number % len(_DASHES)], "color": _COLOURS[number % len(_COLOURS)]}
            axes.plot(*zip(*points, strict=True), label=query, **style)


def _draw_queues(axes: Any, side: Side) -> None:
    axes.plot([moment.second for moment in side.moments], [moment.queue_bytes / 1e6 for moment in side.moments], color="#000000")
    axes.set_xlabel("seconds; grey: twice the load")


def outcome_json(found: Comparison, figure: Path | None) -> dict[str, Any]:
    """The same as figures."""
    sides = {
        name: {
            "mean_latency_ms": round(side.mean_latency_ms), "peak_queue_bytes": side.peak_bytes,
            "latency_ms": {query: round(total / count) for query, (count, total) in side.served.items() if count},
        }
        for name, side in found.sides.items()
    }  # fmt: skip
    return {
        "answers": dict(found.answers), "are_equal": found.are_equal, "budget_ns": found.budget_ns, "sides": sides,
        "figure": str(figure) if figure else None,
    }  # fmt: skip
