"""When the search for event patterns forgets, and what is known of its matches."""

from __future__ import annotations

from dataclasses import replace

from penstock.model.event_patterns import LastRun
from penstock.plan.analysis.holdings import BoundedBy, Holding, rows_within, sum_text, waiting
from penstock.plan.analysis.knowledge import Knowledge
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.nodes.wording import length_text


def judge_pattern(node: PatternMatch, known: Knowledge) -> list[Holding]:
    """Events that wait for earlier ones, events that later matches may need, and what events were called that may come again."""
    clock = node.input.has_clock_time
    kept = _by_window(node, known, clock) or _by_trace(node, clock)
    names = [replace(kept, what=f"each {node.query.id_column} that was met")] if node.query.id_column else []
    return [waiting(known, clock), kept, *names]


def _by_window(node: PatternMatch, known: Knowledge, clock: bool) -> Holding | None:
    """Without event time that advances no window ends; that is said of the rows that wait."""
    if node.query.within is None:
        return None
    within = node.query.within
    why = f"a match lies within {length_text(within, clock)}"
    size = f"≤ rate × {sum_text(within, known.lag, clock)}"
    return Holding("events", why, BoundedBy.WINDOW, None, size, rows_within(known.rate, within + known.lag))


def _by_trace(node: PatternMatch, clock: bool) -> Holding:
    key = ", ".join(node.query.key) or "the stream"
    if node.query.terminal:
        types = " or ".join(node.query.terminal)
        why, condition = f"{types} ends its trace", f"every {key} has its {types}"
    elif node.query.trace_ttl is not None:
        silence = length_text(node.query.trace_ttl, clock)
        why, condition = f"a trace ends after {silence} without events", f"every {key} falls silent for {silence}"
    else:
        why, condition = "constraints end traces", f"the trace of every {key} ends"
    return Holding("events", why, BoundedBy.TRACE, None, f"events of open traces of {key}", None, (condition,))


def through_pattern(node: PatternMatch, known: Knowledge) -> Knowledge:
    """A match has the time at which it is decided, so event time goes on; punctuations do not."""
    waits = bool(node.query.within) and (node.query.last_run is LastRun.MAXIMAL or _ends_with_absence(node))
    return Knowledge((), known.stalled, known.lag + ((node.query.within or 0) if waits else 0))


def _ends_with_absence(node: PatternMatch) -> bool:
    return any(not absence.before for term in node.query.terms for absence in term.absences)
