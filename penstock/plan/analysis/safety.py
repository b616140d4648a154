"""Is the state of every operator bounded, by what, and if not: what would bound it.

Examples
--------
>>> import pyarrow as pa
>>> from penstock.expressions.aggregates import AggregateCall
>>> from penstock.model.declarations import Source, StreamDeclaration
>>> from penstock.model.schema import Schema
>>> from penstock.model.windows import Framed
>>> from penstock.plan.catalog import ContinuousQuery
>>> from penstock.plan.nodes.relational import GroupBy, Scan
>>> bid = StreamDeclaration("bid", Schema.of(item=pa.int64(), ts=pa.int64()), Source("feed"), "ts")
>>> counted = GroupBy(Scan(bid), ("item",), (AggregateCall("count", None),), Framed(60, 60, 60))
>>> report = check(Catalog("demo", {"bid": bid}, {"q": ContinuousQuery("q", counted)}))
>>> print(report)
application demo: the state of every operator is bounded
<BLANKLINE>
query q
  bounded    GroupBy item: count(*) [tumbling 60]
             groups: a window of 60 goes when event time has passed it; ≤ rate × 60
<BLANKLINE>
note: event time of a stream advances as long as every partition of its source sends rows
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from penstock.plan.analysis.holdings import Holding
from penstock.plan.analysis.propagate import propagate
from penstock.plan.analysis.remedies import Remedy, Step, remedies_for
from penstock.plan.catalog import Catalog
from penstock.plan.nodes.base import Node

_INDENT = " " * 13


@dataclass(frozen=True)
class Verdict:
    """One operator of one query: what it keeps and why that is bounded or not."""

    query: str
    node: Node
    holdings: tuple[Holding, ...]
    remedies: tuple[Remedy, ...] = ()

    @property
    def operator(self) -> str:
        return self.node.describe()[0]

    @property
    def is_bounded(self) -> bool:
        return all(holding.is_bounded for holding in self.holdings)

    @property
    def bounded_by(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(holding.by) for holding in self.holdings if holding.by is not None))

    @property
    def growth(self) -> str:
        """What the state grows with; empty when it is bounded."""
        return next((str(holding.growth) for holding in self.holdings if holding.growth is not None), "")

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for holding in self.holdings for text in holding.conditions))

    def lines(self) -> list[str]:
        head = f"  {'bounded' if self.is_bounded else 'UNBOUNDED':<10} {self.operator}"
        if not self.holdings:
            return [f"{head}: keeps nothing"]
        held = [f"{_INDENT}{holding_text(holding)}" for holding in self.holdings]
        conditions = [f"{_INDENT}if {text}" for text in self.conditions]
        offers = [f"{_INDENT}{'or ' if at else 'to bound it: '}{remedy}" for at, remedy in enumerate(self.remedies)]
        return [head, *held, *conditions, *offers]

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "operator": self.operator,
            "bounded": self.is_bounded,
            "bounded_by": list(self.bounded_by),
            "growth": self.growth,
            "state": [_holding_json(holding) for holding in self.holdings],
            "conditions": list(self.conditions),
            "remedies": [[_step_json(step) for step in remedy.steps] for remedy in self.remedies],
        }


@dataclass(frozen=True)
class SafetyReport:
    """Verdicts of all operators, by query, inputs first."""

    application: str
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_bounded(self) -> bool:
        return all(verdict.is_bounded for verdict in self.verdicts)

    def noting(self, more: Iterable[str]) -> SafetyReport:
        """With what somebody else has to say."""
        return replace(self, notes=(*self.notes, *more))

    def of_query(self, query: str) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.query.lower() == query.lower())

    def __str__(self) -> str:
        grows = sum(not verdict.is_bounded for verdict in self.verdicts)
        what = (
            f"{grows} of {len(self.verdicts)} operators keep more and more" if grows else "the state of every operator is bounded"
        )
        lines = [f"application {self.application}: {what}"]
        for query in dict.fromkeys(verdict.query for verdict in self.verdicts):
            # The operator that gives the answers comes first, as in the plan.
            lines += ["", f"query {query}", *(line for verdict in reversed(self.of_query(query)) for line in verdict.lines())]
        return "\n".join([*lines, *([""] if self.notes else []), *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        return {
            "application": self.application,
            "bounded": self.is_bounded,
            "operators": [verdict.to_json() for verdict in self.verdicts],
            "notes": list(self.notes),
        }


def check(catalog: Catalog, with_remedies: bool = True) -> SafetyReport:
    """Judge every operator of every query.

    Parameters
    ----------
    with_remedies
        Also look for declarations that would bound what is not; each is tried before it is offered.
    """
    verdicts: list[Verdict] = []
    for query, judged in propagate(catalog).items():
        for index, found in enumerate(judged):
            if not found.node.inputs:
                continue
            remedies = () if found.is_bounded or not with_remedies else remedies_for(catalog, query, index, found)
            verdicts.append(Verdict(query, found.node, found.holdings, remedies))
    return SafetyReport(catalog.name, tuple(verdicts), _notes(catalog))


def holding_text(holding: Holding) -> str:
    """A holding in one line."""
    size = f"; {holding.size}" if holding.size else ""
    rows = f" ≈ {holding.rows:,.0f} rows" if holding.rows is not None and "rate" in holding.size else ""
    grows = f" ({holding.growth})" if holding.growth is not None else ""
    return f"{holding.what}: {holding.why}{size}{rows}{grows}"


def _holding_json(holding: Holding) -> dict[str, Any]:
    return {
        "what": holding.what,
        "why": holding.why,
        "bounded_by": str(holding.by) if holding.by else None,
        "growth": str(holding.growth) if holding.growth else None,
        "size": holding.size,
        "rows": holding.rows,
    }


def _step_json(step: Step) -> dict[str, Any]:
    where = {"query": step.query, "source": step.source} if step.query else {"stream": step.stream, "element": step.element}
    return {"text": str(step), "clause": step.clause, **where, "replaces": step.replaces, "instead": list(step.instead)}


def _notes(catalog: Catalog) -> tuple[str, ...]:
    """What the verdicts take for granted."""
    notes = []
    waiting = [stream.name for stream in catalog.streams.values() if stream.idle_us is None and not stream.arrival_time]
    if waiting:
        of = "a stream" if len(waiting) == len(catalog.streams) else ", ".join(waiting)
        notes.append(f"event time of {of} advances as long as every partition of its source sends rows")
    if any(stream.constraints or stream.punctuations for stream in catalog.streams.values()):
        notes.append(
            "closed values are remembered, to find rows that break the promise: "
            "adjacent whole numbers as one range, others one by one"
        )
    return tuple(notes)
