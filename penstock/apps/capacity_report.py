"""A plan of capacity for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from penstock.qos.capacity.planning import CapacityPlan, Outcome, QueryPrediction, Verdict

#: Operators that are shown, and loads that are too small to be.
_MOST_OPERATORS, _LEAST_LOAD = 10, 0.0005
#: Times the rates below which a bound is exceeded whatever the rates.
_LEAST_FACTOR = 0.005
_OUTCOMES = {
    Outcome.MEETS: "meets",
    Outcome.UNCERTAIN: "may violate",
    Outcome.VIOLATES: "violates",
    Outcome.OVERLOADED: "cannot meet",
}


def seconds_text(seconds: float | None) -> str:
    """A length of time with the digits that mean something.

    Examples
    --------
    >>> [seconds_text(each) for each in (0.0834, 1.234, 75.0, None)]
    ['83 ms', '1.23 s', '75 s', '-']
    """
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def bytes_text(size: float | None) -> str:
    """A size of memory.

    Examples
    --------
    >>> [bytes_text(each) for each in (512.0, 3_210_000.0, 2.5e9, None)]
    ['1 kB', '3.2 MB', '2.5 GB', '-']
    """
    if size is None:
        return "-"
    return (
        f"{size / 1e9:.1f} GB"
        if size >= 1e9
        else f"{size / 1e6:.1f} MB"
        if size >= 1e5
        else f"{max(size / 1e3, 1 if size else 0):.0f} kB"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@dataclass(frozen=True)
class CapacityReport:
    """What `penstock plan` says.

    Parameters
    ----------
    source
        Where the costs come from, in words.
    """

    plan: CapacityPlan
    source: str

    def to_json(self) -> dict[str, Any]:
        plan, machine = self.plan, self.plan.machine
        server, memory = plan.server(), plan.memory_bytes()
        return {
            "application": plan.application.name,
            "source": self.source,
            "estimated": list(plan.estimated),
            "rates": dict(plan.application.rates),
            "measured_rates": dict(plan.application.measured_rates),
            "cores": machine.cores,
            "trigger_s": machine.trigger_s,
            "load": round(plan.load, 6),
            "is_overloaded": plan.is_overloaded,
            "shed": round(plan.shed, 6),
            "cores_needed": plan.cores_needed(),
            "is_sensitive_to_bursts": plan.is_sensitive_to_bursts,
            "highest_rate": _finite(plan.rate * plan.highest_factor),
            "headroom": _finite(plan.highest_factor),
            "batch": None if server is None else {
                "seconds": round(server.batch_s, 6), "cycle_s": round(server.cycle_s, 6), "rows": round(server.rows, 1),
                "fixed_s": round(server.fixed_s, 6), "row_s": float(f"{server.row_s:.6g}"),
            },
            "memory_bytes": None if memory is None else round(memory),
            "queries": [asdict(query) for query in plan.queries],
            "operators": [{"operator": name, "load": float(f"{load:.6g}")} for name, load in plan.operator_loads()],
            "limits": [{"what": limit.what, "factor": _finite(limit.factor)} for limit in plan.limits()],
            "verdicts": [{**asdict(each), "up_to": _finite(each.up_to)} for each in plan.verdicts()],
        }  # fmt: skip

    def __str__(self) -> str:
        plan = self.plan
        rates = ", ".join(f"{stream} {rate:,.0f}/s" for stream, rate in plan.application.rates.items())
        every = (
            f"a micro-batch every {seconds_text(plan.machine.trigger_s)}"
            if plan.machine.trigger_s
            else "micro-batches back to back"
        )
        cores = f"{plan.machine.cores} core{'' if plan.machine.cores == 1 else 's'}"
        lines = [f"application {plan.application.name}: {rates}; {cores}, {every}", f"costs: {self.source}", ""]
        lines += self._overload() if plan.is_overloaded else self._batches()
        lines += ["", *self._limits(), "", *_table(_QUERY_COLUMNS, [_query_row(query) for query in plan.queries])]
        lines += ["", "load by operator, as a share of all cores", *self._operators()]
        if plan.is_sensitive_to_bursts:
            lines += ["", "at this load bursts make latency much longer than predicted, which holds for rows that come at random"]
        verdicts = plan.verdicts()
        lines += ["", "contracts", *(f"  {_verdict_text(each)}" for each in verdicts)] if verdicts else []
        lines += ["", "estimated, not measured", *(f"  {text}" for text in plan.estimated)] if plan.estimated else []
        return "\n".join(lines)

    def _overload(self) -> list[str]:
        plan = self.plan
        worst = ", ".join(f"{name} {_percent(load)}" for name, load in plan.operator_loads()[:3])
        return [
            f"OVERLOADED: rows need {_percent(plan.load)} of the time, so the backlog grows without end, and there is no latency",
            f"to keep up, drop {_percent(plan.shed)} of the rows or give it more cores; most work: {worst}",
        ]

    def _batches(self) -> list[str]:
        plan, server = self.plan, self.plan.server()
        assert server is not None
        memory = bytes_text(plan.memory_bytes())
        return [
            f"load {_percent(plan.load)}: a micro-batch of {server.rows:,.0f} rows takes {seconds_text(server.batch_s)}, "
            f"{seconds_text(server.fixed_s)} of it whatever it holds; memory of state and of a micro-batch {memory}",
        ]

    def _limits(self) -> list[str]:
        plan, limits = self.plan, self.plan.limits()
        shown = [f"{limit.what} at {_factor_text(plan, limit.factor)}" for limit in limits if isfinite(limit.factor)]
        if not shown:
            return ["nothing ends, however high the rates"]
        most = _factor_text(plan, plan.highest_factor) if isfinite(plan.highest_factor) else "any rate"
        lines = [f"highest sustainable rate: {most}", f"what ends first: {'; then '.join(shown)}"]
        return [*lines, self._cores()] if limits[0].factor <= 1 else lines

    def _cores(self) -> str:
        needed = self.plan.cores_needed()
        return "no number of cores suffices" if needed is None else f"needed: {needed} cores, if they share the work as well"

    def _operators(self) -> list[str]:
        loads = self.plan.operator_loads()
        shown = [(name, load) for name, load in loads[:_MOST_OPERATORS] if load >= _LEAST_LOAD] or loads[:1]
        operators = sum(load for _, load in loads)
        rest = self.plan.load - operators
        lines = [f"  {name:24s} {_percent(load):>8s}" for name, load in shown]
        lines += (
            [f"  {f'{len(loads) - len(shown)} others':24s} {_percent(operators - sum(load for _, load in shown)):>8s}"]
            if len(loads) > len(shown)
            else []
        )
        return [*lines, f"  {'reading and writing':24s} {_percent(max(rest, 0.0)):>8s}"]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if isfinite(value) else None


def _factor_text(plan: CapacityPlan, factor: float) -> str:
    return f"{plan.rate * factor:,.0f} rows/s ({factor:.2f} times)"


_QUERY_COLUMNS = ("query", "latency", "95 % within", "rows in", "answers", "state")


def _query_row(query: QueryPrediction) -> tuple[str, ...]:
    return (
        query.query, seconds_text(query.latency_s), seconds_text(query.latency_p95_s), f"{query.rows_in:,.0f}/s",
        f"{query.answers:,.1f}/s", bytes_text(query.state_bytes),
    )  # fmt: skip


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (columns, *rows)
    ]


def _verdict_text(verdict: Verdict) -> str:
    shown = _shown(verdict.what)
    bound = f"{'at least' if verdict.what == 'throughput' else 'at most'} {shown(verdict.bound)}"
    until = ""
    if isfinite(verdict.up_to):
        until = f"; up to {verdict.up_to:.2f} times the rates" if verdict.up_to >= _LEAST_FACTOR else "; at any rate"
    found = "more rows come than can be processed" if verdict.predicted is None else f"{shown(verdict.predicted)} predicted"
    return f"{verdict.query}: {_OUTCOMES[verdict.outcome]} {verdict.what} {bound} ({found}{until})"


def _shown(what: str) -> Callable[[float | None], str]:
    """How values of a bound are written."""
    return {"memory": bytes_text, "throughput": _rate_text}.get(what, seconds_text)


def _rate_text(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.1f}/s"
