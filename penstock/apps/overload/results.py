"""What came of all runs: a table for people, and the same as data. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock.apps.overload.comparison import CONTRACTS, Outcome
from penstock.apps.overload.timeline import Timeline


def outcome_rows(runs: Sequence[Timeline]) -> list[tuple[str, ...]]:
    """The table: what is promised, then a row for each run with seconds by query, in all, and the part of the rows left out."""
    bounds = runs[0].bounds
    promised = [("promised", *(f"{bound.seconds:g} s" for bound in bounds), "", "")]
    classes = [("", *(bound.class_text for bound in bounds), "", "")]
    return [*promised, *classes, *(_row(run, [bound.query for bound in bounds]) for run in runs)]


def _row(run: Timeline, queries: Sequence[str]) -> tuple[str, ...]:
    seconds = [f"{run.broken_s.get(query, 0.0):.0f} s" for query in queries]
    return (run.name, *seconds, f"{run.all_broken_s:.0f} s", f"{run.shed_share:.1%}")


def print_outcome(console: Console, found: Outcome) -> None:
    """The table, what was decided, and what became of all rows."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for name in (*(bound.query for bound in found.runs[0].bounds), "in all", "left out"):
        table.add_column(name, justify="right")
    for row in outcome_rows(found.runs):
        table.add_row(*row, style={"promised": "dim", "": "dim", CONTRACTS: "bold"}.get(row[0], ""))
    losing = ", ".join(query for each in found.runs[0].losing.values() for query in each.queries)
    console.print(f"\nseconds in which answers came later than promised; rows left out, of those for {losing}", highlight=False)
    console.print(table)
    if not found.is_whole:
        console.print("Interrupted: strategies that are not there were not tried.", highlight=False)
    for line in _remarks(found.runs):
        console.print(line, highlight=False, soft_wrap=True)


def _remarks(runs: Sequence[Timeline]) -> Iterator[str]:
    for note in runs[0].notes:
        yield f"{runs[0].name}, {note}"
    wrong = [run for run in runs if not run.balance.is_complete]
    yield f"rows of all inputs, {runs[0].name}: {runs[0].balance}"
    if wrong:
        yield "\n".join(f"NOT all rows are accounted for, {run.name}: {run.balance}" for run in wrong)
    else:
        yield "In every run all rows are accounted for."


def capacity_text(found: Outcome) -> str:
    """What was measured and what follows from it.

    Examples
    --------
    >>> from penstock.apps.overload.load import Capacity, Load
    >>> print(capacity_text(Outcome(Capacity(0.2, 5e-5, 4e-5), Load(8_750))))
    this machine can process 17,500 rows/s; 8,750 rows/s come, and 26,250 rows/s from second 7.5 to second 17.5
    """
    begin, end = found.load.burst
    return (
        f"this machine can process {found.capacity.rows_per_second:,.0f} rows/s; {found.load.rate:,} rows/s come, and "
        f"{found.load.rate_at(begin):,} rows/s from second {begin:g} to second {end:g}"
    )


def outcome_json(found: Outcome, figure: Path | None) -> dict[str, Any]:
    """The same as figures."""
    return {
        "capacity": {
            "rows_per_second": round(found.capacity.rows_per_second), "fixed_ms": round(found.capacity.fixed_s * 1000),
            "row_us": round(found.capacity.row_s * 1e6, 2), "budget_ms": round(found.capacity.budget_s * 1000),
        },
        "load": {"rate": found.load.rate, "burst": found.load.burst, "seconds": found.load.seconds},
        "runs": {run.name: _run_json(run) for run in found.runs}, "is_whole": found.is_whole,
        "figure": str(figure) if figure else None,
    }  # fmt: skip


def _run_json(run: Timeline) -> dict[str, Any]:
    balance = run.balance
    return {
        "violation_s": {query: round(seconds, 1) for query, seconds in run.broken_s.items()},
        "violation_s_in_all": round(run.all_broken_s, 1), "shed_share": round(run.shed_share, 4), "notes": list(run.notes),
        "rows": {
            "read": balance.read, "used": balance.used, "filtered": balance.filtered, "late": balance.late, "bad": balance.bad,
            "shed": balance.shed, "is_complete": balance.is_complete,
        },
        "strategies": [[span.strategy, round(span.begin, 1), round(span.end, 1)] for span in run.spans()],
    }  # fmt: skip
