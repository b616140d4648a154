"""Refuses contracts that no run could keep, before anything starts."""

from __future__ import annotations

from penstock.errors import InvalidDeclaration
from penstock.model.durations import duration
from penstock.model.qos import Measure, Priority
from penstock.plan.catalog import Catalog


def refuse_unkeepable(catalog: Catalog, trigger: str | None) -> None:
    """Refuse latencies that the time between micro-batches alone exceeds.

    Parameters
    ----------
    trigger
        Time between micro-batches; None: they follow each other at once.
    """
    us = duration(trigger) if trigger else None
    if not us:
        return
    for query in catalog.queries.values():
        latency = query.contract.of(Measure.LATENCY) if query.contract else None
        if latency is None or latency.priority is not Priority.MUST_SATISFY:
            continue
        strictest = min(corner for piece in latency.graph.intervals for corner in (piece.y1, piece.y2))
        gap = us / 1e6
        if strictest <= gap:
            raise InvalidDeclaration(
                f"LATENCY <= {strictest:g} s MUST cannot be kept with a trigger of {gap:g} s: rows wait up to {gap:g} s for their "
                f"micro-batch, and {gap:g} s + work > {strictest:g} s; choose a trigger of at most {strictest / 3:.2g} s, which "
                "leaves two thirds for the work",
                f"query '{query.name}'",
            )
