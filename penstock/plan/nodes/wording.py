"""How nodes name windows, lives and items of lists."""

from __future__ import annotations

from penstock.expressions.nodes import Column, Expr
from penstock.model.durations import duration_text
from penstock.model.elements import FOREVER
from penstock.model.windows import Framed, Lifespan, Rows, Sliding, Unbounded, Window


def alias_text(alias: str, name: str) -> str:
    return f" as {alias}" if alias and alias != name else ""


def item_text(name: str, expr: Expr) -> str:
    return name if expr == Column(name) else f"{name} = {expr}"


def length_text(value: int, clock: bool) -> str:
    """A length of event time, with its unit where that is clock time."""
    return duration_text(value) if clock else str(value)


def life_lines(life: Lifespan) -> list[str]:
    """The life of a query, where it is not for ever."""
    return [] if life == Lifespan() else [life_text(life)]


def life_text(life: Lifespan) -> str:
    if not life.has_begin:
        return f"until {life.end}"
    return f"from {life.begin} to {'the end' if life.end == FOREVER else life.end}"


def window_text(window: Window, clock: bool) -> str:
    """A window in words; lengths of clock time get their unit.

    Examples
    --------
    >>> window_text(Framed(120_000_000, 30_000_000, 30_000_000), clock=True)
    'sliding 2 minutes advance 30 seconds'
    """
    if isinstance(window, Unbounded):
        return str(window)
    if isinstance(window, Rows):
        return "all rows" if window.size is None else f"last {window.size} rows"
    timed = clock and not (isinstance(window, Framed) and window.in_rows)

    def length(value: int) -> str:
        return length_text(value, timed)

    if isinstance(window, Sliding):
        return f"sliding {length(window.size)}"
    rows = " rows" if window.in_rows else ""
    text = f"{window.kind} {length(window.size)}{rows}"
    if window.kind not in ("tumbling", "fixed"):
        start, end = window.move_start, window.move_end
        text += f" advance {length(end)}" if start in (0, end) else f" move ({length(start)}, {length(end)})"
    return text + (f" partition by {', '.join(window.partition_by)}" if window.partition_by else "")
