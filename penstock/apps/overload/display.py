"""The run with contracts while it goes on: a table drawn in place, or a line every few seconds."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.apps.overload.comparison import Outcome
from penstock.apps.overload.timeline import Bound, Timeline
from penstock.runners.spark.driver.run_history import BatchStatus

#: Seconds between two lines.
_PAUSE = 3.0


class OverloadDisplay:
    """Shows one run."""

    def __init__(self, console: Console, is_plain: bool) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not is_plain else None
        self._outcome: Outcome | None = None
        self._said, self._notes = -_PAUSE, 0

    def begin(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def show(self, line: Timeline, status: BatchStatus | None) -> None:
        """After each look."""
        if self._outcome is None or status is None or not line.moments:
            return
        for note in line.notes[self._notes :]:
            self._console.print(note, highlight=False, soft_wrap=True)
        self._notes = len(line.notes)
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()
            self._live.update(live_view(line, status, self._outcome), refresh=True)
        elif line.second >= self._said + _PAUSE:
            self._said = line.second
            self._console.print(plain_line(line, self._outcome), highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._live is not None and self._live.is_started:
            self._live.stop()


def plain_line(line: Timeline, outcome: Outcome) -> str:
    """How it stands, in one line."""
    latest = _latest(line)
    ages = ", ".join(f"{bound.query} {latest[bound.query]:.1f} s" for bound in line.bounds if bound.query in latest)
    return f"{line.second:5.0f} s  {_load_text(line, outcome)}; {', '.join(_state(line))}; answers after {ages or '…'}"


def live_view(line: Timeline, status: BatchStatus, outcome: Outcome) -> RenderableType:
    """What comes, what is done about it, and how each query is served."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("query", no_wrap=True)
    for name in ("promised", "latency", "broken for", "waiting"):
        table.add_column(name, justify="right", no_wrap=True)
    latest, waiting = _latest(line), {served.query: served.waiting_rows for served in status.service}
    for bound in line.bounds:
        broken = f"{line.broken_s.get(bound.query, 0.0):.0f} s"
        table.add_row(bound.query, str(bound), _latency(bound, latest), broken, f"{waiting.get(bound.query, 0):,}")
    head = Text(f"{line.second:.0f} s: {_load_text(line, outcome)}", style="bold")
    return Group(head, Text("; ".join(_state(line))), table)


def _latest(line: Timeline) -> dict[str, float]:
    found: dict[str, float] = {}
    for moment in line.moments[-20:]:
        found |= moment.latency_s
    return found


def _latency(bound: Bound, latest: dict[str, float]) -> Text:
    seconds = latest.get(bound.query)
    if seconds is None:
        return Text("")
    return Text(f"{seconds:.1f} s", style="bold red" if seconds > bound.seconds else "green")


def _load_text(line: Timeline, outcome: Outcome) -> str:
    rate, most = outcome.load.rate_at(line.second), outcome.capacity.rows_per_second
    return f"{rate:,} rows/s come, {rate / most:.0%} of what can be processed"


def _state(line: Timeline) -> Iterator[str]:
    last = line.moments[-1]
    yield f"strategy {last.strategy}"
    for entry, share in last.left_out.items():
        yield f"{share:.0%} of the rows of {', '.join(line.losing[entry].queries)} left out"
