"""A run on the terminal: a live table, or a line per second where there is no terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.model.qos import Priority
from penstock.operators.filtering.status import micros_text
from penstock.operators.patterns.complaints import REASON as CONSTRAINT_VIOLATED
from penstock.qos.contract_meter import Promise
from penstock.runners.spark.driver.counters import late_and_quarantined
from penstock.runners.spark.driver.run_history import BatchStatus, Summary
from penstock.runners.spark.driver.service import ServiceCounts

Row = Mapping[str, Any]
#: The last answers of each query, at most as many as asked for.
Samples = Callable[[int], Mapping[str, Sequence[Row]]]
#: One sentence about the newest batch.
Remark = Callable[[], str]

_MOST_SAMPLES = 3
_MOST_NAMES = 2
#: Re-orderings shown below an order, and micro-batches for which an order counts as new.
_MOST_CHANGES, _NEW_BATCHES = 3, 5
_FIRST = "the first batch is under way: Python workers start and operators are compiled"
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Display(Protocol):
    """Shows a run while it goes on. Calls come in this order: say, show (often), say, close."""

    def say(self, text: str) -> None: ...

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None: ...

    def close(self) -> None: ...


class Silence:
    """For scripts that want the summary only."""

    def say(self, text: str) -> None:
        """Nothing is said."""

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing was opened."""


class JsonLines(Silence):
    """Every micro-batch as one line of JSON."""

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        for status in news:
            print(json.dumps({"kind": "batch", **status.to_json()}), flush=True)


class PlainLines:
    """One line per second or so, for logs and pipes.

    Parameters
    ----------
    remark
        What to say besides about the newest batch; None: nothing.
    """

    def __init__(self, console: Console, remark: Remark | None = None) -> None:
        self.console = console
        self.remark = remark
        self._is_new = True
        self._reorderings: dict[str, int] = {}

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        if self._is_new and not news:
            self.say(_FIRST)
        self._is_new = False
        if news:
            self.say(f"{seconds:5.0f} s  {headline(news[-1])}")
            if self.remark is not None:
                self.say(f"         {self.remark()}")
            for status in news[-1].filters:
                changed = "re-ordered  " if status.reorderings > self._reorderings.get(status.operator, 0) else ""
                self._reorderings[status.operator] = status.reorderings
                self.say(f"         {changed}{status}")
            for held in news[-1].held:
                self.say(f"         {held}")
            for query, rows in samples(1).items():
                for row in rows:
                    self.say(f"         {query}: {row_text(row)}")

    def close(self) -> None:
        """Lines need no end."""


class LiveTable:
    """A table that is drawn anew in place; `remark` as in `PlainLines`."""

    def __init__(self, console: Console, title: str, remark: Remark | None = None) -> None:
        self.console = console
        self.title = title
        self.remark = remark
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._last: BatchStatus | None = None

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        if not self._live.is_started:
            self._live.start()
        for status in news:
            self._last = status
        self._live.update(self._drawn(seconds, samples), refresh=True)

    def close(self) -> None:
        if self._live.is_started:
            self._live.stop()

    def _drawn(self, seconds: float, samples: Samples) -> RenderableType:
        title = Text(f"{self.title}  {seconds:.0f} s", style="bold")
        if self._last is None:
            return Group(title, Text(_FIRST, style="dim"))
        tables = [_queries(self._last), _operators(self._last), *([_filters(self._last)] if self._last.filters else [])]
        spared = [
            Text(operator.constraint_savings, style="dim") for operator in self._last.operators if operator.constraint_savings
        ]
        remarks = [Text(self.remark(), style="bold")] if self.remark is not None else []
        remarks += [Text(str(held), style="yellow") for held in self._last.held]
        used = sum(table.row_count + 3 for table in tables) + 4 + 2 * len(remarks) + 2 * len(spared)
        per_query = (self.console.height - used - 3) // max(len(self._last.queries), 1)
        if per_query >= 1 and (answers := samples(min(per_query, _MOST_SAMPLES))):
            tables.append(_samples(answers))
        return Group(title, Text(headline(self._last)), *remarks, *tables, *spared)


def make_display(console: Console, title: str, is_plain: bool = False, remark: Remark | None = None) -> Display:
    return LiveTable(console, title, remark) if console.is_terminal and not is_plain else PlainLines(console, remark)


def headline(status: BatchStatus) -> str:
    """One line that says how it goes."""
    late, quarantined = late_and_quarantined(status.readers)
    parts = [
        f"batch {status.epoch}",
        f"{status.rows:,} rows, {status.rows_per_second:,.0f}/s",
        f"took {status.duration_ms / 1000:.2f} s",
        f"answered within {status.latency_ms / 1000:.2f} s",
        f"state {status.state_rows:,} rows, {bytes_text(status.state_bytes)}",
        f"late {late:,}, quarantined {quarantined:,}",
    ]
    if broken := status.refused.get(CONSTRAINT_VIOLATED):
        parts.append(f"{broken:,} broke a constraint")
    if status.backlog:
        oldest = max((query.oldest_ms for query in status.service), default=0)
        parts.append(f"{status.backlog:,} rows waiting, the oldest for {oldest / 1000:.1f} s; policy {status.policy}")
    if status.score is not None:
        parts.append(f"in time {status.score:.1%}")
    if status.promises:
        failing = [f"{promise.query}: {promise}" for promise in status.promises if not promise.is_kept]
        parts.append(f"contracts broken: {', '.join(failing)}" if failing else "contracts kept")
    return " · ".join(parts)


def _queries(status: BatchStatus) -> Table:
    has_deadlines = status.score is not None
    service = {query.query: query for query in status.service}
    timing = ["latency", *(["95 % within", "waiting", "oldest"] if status.backlog else []), *(["in time"] if has_deadlines else [])]
    table = _table("query", "rows in", "rows out", "state rows", "state", *timing, last="contract" if status.promises else "")
    for query in status.queries:
        served = service.get(query.query)
        shown = _service_text(served, bool(status.backlog), has_deadlines) if served is not None else [""] * len(timing)
        table.add_row(
            query.query,
            f"{query.rows_in:,}",
            f"{query.rows_out:,}",
            f"{query.state_rows:,}",
            bytes_text(query.state_bytes),
            *shown,
            *([_contract(status.promises, query.query)] if status.promises else []),
        )
    return table


def _contract(promises: Sequence[Promise], query: str) -> Text:
    """How the contract of a query stands: what is broken, else everything."""
    mine = [promise for promise in promises if promise.query == query]
    broken = [promise for promise in mine if not promise.is_kept]
    text = _cut(", ".join(map(str, broken or mine)))
    text.stylize("bold red" if any(each.priority is Priority.MUST_SATISFY for each in broken) else "yellow" if broken else "green")
    return text


def _service_text(served: ServiceCounts, is_waiting: bool, has_deadlines: bool) -> list[str]:
    """How old answers are, what waits, and what came in time."""
    found = ["" if served.latency_ms is None else f"{served.latency_ms / 1000:.2f} s"]
    if is_waiting:
        found.append("" if served.most_within_ms is None else f"{served.most_within_ms / 1000:.1f} s")
        found += [f"{served.waiting_rows:,}", f"{served.oldest_ms / 1000:.1f} s" if served.waiting_rows else ""]
    return found + ([in_time_text(served)] if has_deadlines else [])


def in_time_text(served: ServiceCounts) -> str:
    """The share of answers in time, where the query says until when.

    Examples
    --------
    >>> in_time_text(ServiceCounts("q", 1.0, 0, 0, 20, answers=200, in_time=199))
    '99.5%'
    """
    return "" if served.in_time is None or not served.answers else f"{served.in_time / served.answers:.1%}"


def _operators(status: BatchStatus) -> Table:
    table = _table("operator", "state rows", "state", "expired", "purged", "waiting", last="for")
    for operator in status.operators:
        counts = [operator.expired, operator.purged, operator.queue_rows]
        table.add_row(
            operator.operator, f"{operator.state_rows:,}", bytes_text(operator.state_bytes),
            *[f"{count:,}" for count in counts], _cut(few(operator.queries)),
        )  # fmt: skip
    return table


def _filters(status: BatchStatus) -> Table:
    """The present order of each adaptive filter, one line per condition, and the orders before; a new order stands out."""
    table = _table("filter", "re-orderings", "per row", "greedy", "best", last="tried in this order")
    for order in status.filters:
        costs = [order.current, order.greedy, order.optimal]
        numbers = [f"{order.reorderings:,}", *("" if cost is None else micros_text(cost) for cost in costs)]
        style = "bold yellow" if order.has_changed_since(status.epoch - _NEW_BATCHES) else None
        for place, name in enumerate(order.order, 1):
            first = [order.operator, *numbers] if place == 1 else [""] * 5
            table.add_row(*first, _cut(f"{place}. {name}"), style=style)
        for then in order.history[-_MOST_CHANGES:]:
            table.add_row(*[""] * 5, _cut(then), style="dim")
    return table


def _samples(samples: Mapping[str, Sequence[Row]]) -> Table:
    table = _table("query", last="last answers")
    for query, rows in samples.items():
        for number, row in enumerate(rows):
            table.add_row(query if not number else "", _cut(row_text(row)))
    return table


def _table(first: str, *numbers: str, last: str = "") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", title_justify="left")
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    if last:
        # The only column that may be narrowed, or numbers would be cut too.
        table.add_column(last)
    return table


def _cut(text: str) -> Text:
    """A text that is cut rather than wrapped where there is no room for it."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def row_text(row: Row) -> str:
    """An answer on one line.

    Examples
    --------
    >>> row_text({"item_id": 17, "price": 12.5000001, "seller": None})
    'item_id=17 price=12.50 seller=NULL'
    """
    return " ".join(f"{name}={_value_text(value)}" for name, value in row.items())


def _value_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.2f}"
    return value.strftime("%H:%M:%S") if hasattr(value, "strftime") else str(value)


def few(names: Sequence[str]) -> str:
    """Names on a line that stays short: numbers in front of a long one would be cut.

    Examples
    --------
    >>> few(["hot_items", "heat"]), few(["hot_items", "heat", "talk", "offers"])
    ('hot_items, heat', 'hot_items and 3 more')
    """
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"{names[0]} and {len(names) - 1} more"


def bytes_text(count: int) -> str:
    """A size as people say it.

    Examples
    --------
    >>> bytes_text(512), bytes_text(3429), bytes_text(25_000_000)
    ('512 B', '3.4 kB', '25.0 MB')
    """
    value, unit = float(count), _UNITS[0]
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


@dataclass(frozen=True, slots=True)
class Ending:
    """What is printed when a run is over."""

    summary: Summary
    verdict: str

    def print_to(self, console: Console) -> None:
        summary = self.summary
        console.print()
        console.print(
            f"{self.verdict}: {summary.batches:,} batches in {summary.seconds:.0f} s, {summary.rows:,} rows, "
            f"{summary.rows_per_second:,.0f} rows/s after the first batch", highlight=False, style="bold",
        )  # fmt: skip
        if not summary.batches:
            return
        console.print("since the checkpoint began:", highlight=False)
        console.print(self._readers())
        console.print(_answers(summary))
        console.print(
            f"state at most {summary.peak_state_rows:,} rows, {bytes_text(summary.peak_state_bytes)} · a batch took "
            f"{summary.batch_ms_median / 1000:.2f} s · answered within {summary.latency_ms_median / 1000:.2f} s "
            f"(median), {summary.latency_ms_worst / 1000:.2f} s (worst)",
            highlight=False,
        )
        if summary.score is not None:
            console.print(f"in time {summary.score:.1%} of all answers, by the weights of their queries", highlight=False)
        for promise in summary.promises:
            broken = f"broken for {promise.broken_s:.0f} s of this run" if promise.broken_s else "kept throughout"
            console.print(f"contract of {promise.query}: {broken}; at the end {promise}", highlight=False, markup=False)
        for operator in summary.operators:
            if operator.losses:
                console.print(operator.losses, highlight=False, markup=False)
            if operator.constraint_savings:
                console.print(f"constraints: {operator.constraint_savings}", highlight=False, markup=False)
        if summary.refused:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(summary.refused.items()))
            console.print(f"rows in the quarantine since the checkpoint began, by reason: {reasons}", highlight=False, markup=False)
        for held in summary.held:
            console.print(f"at the end {held}", highlight=False, markup=False)
        for status in summary.filters:
            lines = [f"order of {status}", *(f"  {then}" for then in status.history)]
            console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        for join in summary.joins:
            console.print(f"state of {join}", highlight=False, markup=False, soft_wrap=True)

    def _readers(self) -> Table:
        sheds = any(reader.shed for reader in self.summary.readers)
        table = _table(
            "stream", "rows read", "= used", "+ not wanted", "+ quarantined", *(["+ shed"] if sheds else []), "", last="by"
        )  # fmt: skip
        for reader in self.summary.readers:
            mark = "✓" if reader.is_complete else "✗ rows are missing"
            counts = [reader.read, reader.used, reader.filtered, reader.quarantined, *([reader.shed] if sheds else [])]
            table.add_row(reader.stream, *[f"{count:,}" for count in counts], mark, _cut(few(reader.queries)))
        return table


def _answers(summary: Summary) -> Table:
    has_deadlines = summary.score is not None
    served = {query.query: query for query in summary.service}
    table = _table("query", "rows in", "answers", *(["weight", "in time"] if has_deadlines else []))
    for query in summary.queries:
        counts = [f"{query.rows_in:,}", f"{query.rows_out:,}"]
        if has_deadlines and query.query in served:
            counts += [f"{served[query.query].weight:g}", in_time_text(served[query.query])]
        table.add_row(query.query, *counts)
    return table
