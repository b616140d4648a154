"""One picture: what came, what was done about it, and what became of the promises. Needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.apps.overload.comparison import Outcome
from penstock.apps.overload.load import TIMES
from penstock.apps.overload.timeline import Timeline

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
#: Widths of lines: of those that lie on each other, the edges of the first ones stay visible.
_WIDTHS = (6.0, 4.6, 3.4, 2.2, 1.1)
_STRATEGIES = {
    "auto": ("#BFD9EE", "queries that need little time first"),
    "path_answers": ("#F5C99B", "what gives most answers for its time first"),
    "round_robin": ("#D9D9D9", "all in turn"),
    "segment": ("#BFE3D0", "what frees most memory first"),
    "simple_segment": ("#E5CCE0", "what frees much memory soon first"),
}
_OTHER, _BURST, _TOO_MUCH = "#EEEEEE", "#F2F2F2", "#F4B6A6"
#: A strategy is explained where there is room: in so much of the time.
_WIDE = 0.4


def draw(found: Outcome, file: Path) -> None:
    """The run with contracts in four panels with one axis of time; below, the best of the others for comparison."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first, rival = found.runs[0], best_of(found.runs[1:])
    heights = [2.2, 0.5, 1.5, 2.8, *([2.8] if rival else [])]
    figure = Figure(figsize=(10.5, 1.3 * sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    for each in axes:
        each.axvspan(*found.load.burst, color=_BURST, zorder=0)
        each.spines[["top", "right"]].set_visible(False)
    _draw_load(axes[0], first, found)
    _draw_strategies(axes[1], first)
    _draw_loss(axes[2], first)
    top = _top([first, *([rival] if rival else [])])
    _draw_latency(axes[3], first, top, "With contracts: how old answers are when they come")
    if rival:
        _draw_latency(
            axes[4], rival, top, f"For comparison, the best run without: strategy '{rival.name}' all the time, no row left out"
        )
    axes[-1].set_xlim(0, found.load.seconds)
    axes[-1].set_xlabel("seconds since the stream began")
    figure.savefig(file, dpi=110)


def best_of(runs: list[Timeline]) -> Timeline | None:
    """That whose promises were broken for the shortest time."""
    return min(runs, key=lambda run: run.all_broken_s, default=None)


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10.5, fontweight="bold")


def _draw_load(axes: Any, line: Timeline, found: Outcome) -> None:
    most = found.capacity.rows_per_second
    points = [(second, rate) for begin, end, rate in line.arriving() for second in (begin, end)]
    seconds, rates = [second for second, _ in points], [rate for _, rate in points]
    axes.plot(seconds, rates, color="#000000", linewidth=1.4, label="trades that arrive")
    axes.fill_between(seconds, rates, most, where=[rate > most for rate in rates], color=_TOO_MUCH, label="too many")
    axes.axhline(most, color=_COLOURS[0], linestyle="--", linewidth=1.4, label="what this machine can process")
    axes.set_ylim(0, 1.25 * max([most, *rates]))
    axes.set_ylabel("trades per second")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(fontsize=8.5, loc="upper right", frameon=False)
    begin, end = found.load.burst
    times = ("", "", "twice", "three times")[TIMES]
    _title(axes, f"From second {begin:g} to {end:g} {times} as many trades arrive: more than can be processed")


def _draw_strategies(axes: Any, line: Timeline) -> None:
    for span in line.spans():
        colour, meaning = _STRATEGIES.get(span.strategy, (_OTHER, ""))
        length, middle = span.end - span.begin, (span.begin + span.end) / 2
        axes.barh(0, length, left=span.begin, height=1.0, color=colour, edgecolor="white")
        text = f"{span.strategy}: {meaning}" if meaning and length > _WIDE * line.second else span.strategy
        axes.text(middle, 0, text, ha="center", va="center", fontsize=9, clip_on=True)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.5, 0.5)
    _title(axes, "Strategy in force: who is served first while work waits")


def _draw_loss(axes: Any, line: Timeline) -> None:
    for entry, losing in line.losing.items():
        names, colour = ", ".join(losing.queries), _colour(line, losing.queries[0])
        points = [(moment.second, 100 * moment.left_out[entry]) for moment in line.moments if entry in moment.left_out]
        if points:
            seconds, shares = zip(*points, strict=True)
            axes.step(seconds, shares, where="post", color=colour, linewidth=1.4)
            axes.fill_between(seconds, shares, step="post", color=colour, alpha=0.25, label=f"left out, of the trades for {names}")
        axes.axhline(100 * losing.most, color=colour, linestyle="--", linewidth=1.2, label=f"the most that {names} allows")
    axes.set_ylim(0, 100)
    axes.set_ylabel("per cent")
    if line.losing:
        axes.legend(fontsize=8.5, loc="upper right", frameon=False)
    _title(axes, "Trades left out, the smallest first")


def _colour(line: Timeline, query: str) -> str:
    names = [bound.query for bound in line.bounds]
    return _COLOURS[names.index(query) % len(_COLOURS)] if query in names else "#000000"


def _top(runs: list[Timeline]) -> float:
    latencies = [seconds for run in runs for moment in run.moments for seconds in moment.latency_s.values()]
    bounds = [bound.seconds for run in runs for bound in run.bounds]
    return 1.12 * max([*latencies, *bounds, 1.0])


def _draw_latency(axes: Any, line: Timeline, top: float, title: str) -> None:
    for number, bound in enumerate(line.bounds):
        points = [(moment.until, moment.latency_s[bound.query]) for moment in line.moments if bound.query in moment.latency_s]
        if points:
            seconds, ages = zip(*points, strict=True)
            colour = _colour(line, bound.query)
            axes.plot(seconds, ages, color=colour, linewidth=_WIDTHS[number % len(_WIDTHS)], label=bound.query)
            late = [age > bound.seconds for age in ages]
            axes.fill_between(seconds, ages, bound.seconds, where=late, color=_TOO_MUCH, interpolate=True, zorder=1)
    axes.fill_between([], [], color=_TOO_MUCH, label="later than promised")
    _draw_bounds(axes, line)
    axes.set_ylim(0, top)
    axes.set_ylabel("seconds")
    axes.legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    _title(axes, title)


def _draw_bounds(axes: Any, line: Timeline) -> None:
    promised: dict[float, list[str]] = {}
    for bound in line.bounds:
        promised.setdefault(bound.seconds, []).append(bound.query)
    most = max(map(len, promised.values()), default=0)
    for seconds, queries in promised.items():
        colour = "#000000" if len(queries) > 1 else _colour(line, queries[0])
        names = "all others" if len(queries) == most and len(promised) > 1 else ", ".join(queries)
        axes.axhline(seconds, color=colour, linestyle="--", linewidth=1.2)
        axes.text(0.1, seconds, f"promised: at most {seconds:g} s ({names})", fontsize=8.5, va="bottom", color=colour)
