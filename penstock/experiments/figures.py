"""Draw figures: one style, legible in print and for the colour-blind, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, Series

#: Okabe and Ito: told apart with every kind of colour vision, and ordered from dark to light for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), "-")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "xx", "--", "\\\\", "++")

_SETTINGS: Any = {
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    # Where a legend cannot avoid a line, its ground keeps the words legible.
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    # Names inside an SVG are otherwise random, and files that are compared would always differ.
    "svg.hashsalt": "penstock",
}

#: Shares of the width: between error bars of two series at the same place, and before a marker at 0.
_BESIDE, _ROOM = 0.012, 0.04

#: Letters of a label of which no two fit side by side, and of three together that do.
_LONG_LABEL = 35

#: Letters that fit below a diagram, and what numbers above bars need of its height.
_LETTERS, _NUMBERS, _NUMBERS_ON_LOG = 56, 1.07, 1.6
#: More bars than this have no numbers: these would stand on each other.
_MOST_NUMBERS = 20

#: A figure of one diagram is wider: it has to carry its title alone.
_PANEL_INCHES, _SINGLE_INCHES = (4.8, 3.3), (6.2, 3.6)


@contextmanager
def _canvas(panels: int) -> Iterator[tuple[Any, list[Any]]]:
    """A figure and its axes; matplotlib is imported here because it takes a while and most commands draw nothing."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 2 if panels in (2, 4) else min(panels, 3)
    rows = -(-panels // columns)
    with rc_context(dict(_SETTINGS)):
        width, height = _PANEL_INCHES if panels > 1 else _SINGLE_INCHES
        size = (width * columns, height * rows + 0.3)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
        for unused in axes[panels:]:
            unused.set_visible(False)
        yield figure, axes[:panels]


def draw(drawing: Drawing, stem: Path) -> tuple[Path, Path]:
    """Write `stem`.png and `stem`.svg; equal drawings give equal files.

    Examples
    --------
    >>> import tempfile
    >>> from penstock.experiments.contracts import Series
    >>> line = Panel("time (s)", "tuples in state", (Series("PJoin-1", [0, 1, 2], [0, 5, 5]),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in draw(Drawing("State", (line,)), Path(folder) / "state")]
    ['state.png', 'state.svg']
    """
    with _canvas(len(drawing.panels)) as (figure, axes):
        for axis, panel in zip(axes, drawing.panels, strict=True):
            _draw_panel(axis, panel)
        _share_percentages(axes, drawing.panels)
        figure.suptitle(drawing.title, fontsize=11.5, fontweight="bold")
        png, svg = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
        _save_small(figure, png)
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def _share_percentages(axes: Sequence[Any], panels: Sequence[Panel]) -> None:
    """Shares of the same thing side by side are compared by eye, so they need the same scale."""
    if len({panel.y_label for panel in panels}) == 1 and panels[0].y_label.endswith("(%)"):
        top = max(axis.get_ylim()[1] for axis in axes)
        for axis in axes:
            axis.set_ylim(top=top)


def _save_small(figure: Any, path: Path) -> None:
    """A PNG with a palette: diagrams have few colours, and the file is a third of the size."""
    from PIL import Image

    with BytesIO() as buffer:
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        with Image.open(buffer) as drawn:
            drawn.convert("RGB").quantize(96).save(path, optimize=True)


def _draw_panel(axis: Any, panel: Panel) -> None:
    {"lines": _lines, "steps": _steps, "bars": _bars, "markers": _markers}[panel.style](axis, panel)
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    if panel.title:
        axis.set_title(panel.title, pad=22 if panel.style == "bars" and len(panel.series) > 1 else None)
    if panel.log_y:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    _readable_thousands(axis, panel.log_y)
    if len(panel.series) > 1:
        _legend(axis, panel)


def _legend(axis: Any, panel: Panel) -> None:
    # Bars and more than three lines leave no free corner; other diagrams mostly do, and there the legend should be near the lines.
    if panel.style == "bars":
        axis.legend(loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=len(panel.series), borderaxespad=0.2)
    elif len(panel.series) > (2 if panel.style == "steps" or _has_tall_bars(panel) else 3):
        letters = [len(series.label) for series in panel.series]
        columns = 1 if max(letters) > _LONG_LABEL else 2 if len(letters) > 3 or sum(letters) > _LONG_LABEL else 3
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)
    else:
        axis.legend(loc="best")


def _has_tall_bars(panel: Panel) -> bool:
    """Whether points have error bars upwards, which the search for a free corner does not see."""
    return any(series.spread is not None and not series.is_spread_in_x for series in panel.series)


def _readable_thousands(axis: Any, is_log: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    if is_log:
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        return
    top = axis.get_ylim()[1]
    axis.yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=top > 4))
    if top >= 10_000:
        unit, name = (1e6, " M") if top >= 1e6 else (1e3, " k")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}{name if value else ''}"))


def _lines(axis: Any, panel: Panel) -> None:
    for series, colour, dash in zip(panel.series, cycle(COLOURS), cycle(DASHES), strict=False):
        # What lies on the axis is drawn over it, or a state of 0 would not be seen.
        axis.plot(series.x, series.y, label=series.label, color=colour, linestyle=dash, clip_on=panel.log_y)
        _spread(axis, series, series.x, colour)
    _times(axis)


def _spread(axis: Any, series: Series, places: Any, colour: str) -> None:
    """Least and greatest value of each point, where they are known."""
    if series.spread is None:
        return
    middle = np.asarray(series.x if series.is_spread_in_x else series.y, np.float64)
    lows, highs = (np.asarray(values, np.float64) for values in series.spread)
    reach = np.array([np.maximum(middle - lows, 0), np.maximum(highs - middle, 0)])
    way = {"xerr": reach} if series.is_spread_in_x else {"yerr": reach}
    axis.errorbar(places, series.y, fmt="none", ecolor=colour, elinewidth=1.0, capsize=2.5, alpha=0.8, **way)


def _steps(axis: Any, panel: Panel) -> None:
    for series, colour, dash in zip(panel.series, cycle(COLOURS), cycle(DASHES), strict=False):
        axis.step(series.x, series.y, where="post", label=series.label, color=colour, linestyle=dash, clip_on=panel.log_y)
    _times(axis)


def _times(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_xlim(left=0)
    axis.margins(x=0.01)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))


def _markers(axis: Any, panel: Panel) -> None:
    first, last = (end([float(x) for series in panel.series for x in series.x]) for end in (min, max))
    for at, (series, colour, dash) in enumerate(zip(panel.series, cycle(COLOURS), cycle(DASHES), strict=False)):
        axis.plot(series.x, series.y, label=series.label, color=colour, linestyle=dash, marker=MARKERS[at % len(MARKERS)])
        # Side by side, as bars of several series at one place would hide each other.
        beside = (at - (len(panel.series) - 1) / 2) * _BESIDE * (last - first)
        _spread(axis, series, np.asarray(series.x, np.float64) + beside, colour)
    if panel.ticks:
        axis.set_xticks(range(len(panel.ticks)), panel.ticks)
        return
    _times(axis)
    if first == 0:  # else half of the first marker, and its error bar, would lie on the axis
        axis.set_xlim(left=-_ROOM * last)


def _bars(axis: Any, panel: Panel) -> None:
    is_crowded = len(panel.series) * len(panel.ticks) > _MOST_NUMBERS
    width = 0.8 / len(panel.series)
    for at, (series, colour, hatch) in enumerate(zip(panel.series, cycle(COLOURS), cycle(HATCHES), strict=False)):
        places = np.asarray(series.x, np.float64) + (at - (len(panel.series) - 1) / 2) * width
        bars = axis.bar(places, series.y, width * 0.92, label=series.label, color=colour, hatch=hatch, edgecolor="white")
        _spread(axis, series, places, "#333333")
        if is_crowded:
            continue
        if series.spread is None:
            axis.bar_label(bars, [_short(value) for value in series.y], fontsize=7.5, padding=1)
            continue
        for place, value, high in zip(places, series.y, series.spread[1], strict=True):  # above the error bar, not across it
            axis.annotate(_short(value), (place, high), (0, 3), textcoords="offset points", ha="center", fontsize=7.5)
    _name_bars(axis, panel.ticks)
    axis.set_ylim(top=axis.get_ylim()[1] * (_NUMBERS_ON_LOG if panel.log_y else _NUMBERS))
    axis.grid(visible=False, axis="x")


def _name_bars(axis: Any, names: Sequence[str]) -> None:
    """Names below bars: in several lines if they are long, and slanted if that does not suffice."""
    room = _LETTERS // max(len(names), 1)
    lines = [fill(name, room, break_long_words=False, break_on_hyphens=False) for name in names]
    longest = max((len(line) for name in lines for line in name.split("\n")), default=0)
    axis.set_xticks(range(len(names)), lines)
    if longest > room:
        axis.set_xticks(range(len(names)), names, rotation=25, ha="right", rotation_mode="anchor")


def _short(value: float) -> str:
    """A number as it stands above a bar.

    Examples
    --------
    >>> [_short(value) for value in (0.0, 0.38, 2.71, 365.4, 39371.0, 5.94e6)]
    ['0', '0.38', '2.71', '365', '39 k', '5.9 M']
    """
    if value >= 1e6:
        return f"{value / 1e6:.1f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
