"""What came of all runs: a table for people, and the same as data. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock.apps.overload.comparison import Outcome
from penstock.apps.overload.timeline import Timeline


def outcome_rows(runs: Sequence[Timeline]) -> list[tuple[str, ...]]:
    """The table: queries with their promises, then all of them, then rows that were left out; a column for each run."""
    rows = [(bound.query, str(bound), *(f"{run.broken_s.get(bound.query, 0.0):.0f} s" for run in runs)) for bound in runs[0].bounds]
    return [
        *rows,
        ("all together", "", *(f"{run.all_broken_s:.0f} s" for run in runs)),
        ("rows left out", "", *(f"{run.shed_share:.1%}" for run in runs)),
        ("all rows accounted for", "", *("yes" if run.balance.is_complete else "NO" for run in runs)),
    ]


def print_outcome(console: Console, found: Outcome) -> None:
    """The table, what was decided, and what became of the rows of the run with contracts."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("seconds with answers later than promised")
    table.add_column("promised", no_wrap=True)
    for run in found.runs:
        table.add_column(run.name, justify="right", no_wrap=True)
    for row in outcome_rows(found.runs):
        table.add_row(*row, style="bold" if row[0] == "all together" else "")
    console.print(table)
    first = found.runs[0]
    for note in first.notes:
        console.print(f"{first.name}, {note}", highlight=False, soft_wrap=True)
    console.print(f"{first.name}: {first.balance}", highlight=False, soft_wrap=True)


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
