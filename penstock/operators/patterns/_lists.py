"""Compiled: collapsed lists, that is all candidates for a repeated place between the other events of a match."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import compiled, entrance
from penstock.operators.patterns._events import Search


@entrance
def with_lists(search: Search, found: Any) -> Any:  # pragma: no cover - compiled
    """Matches with all candidates where a scan left one of them.

    Parameters
    ----------
    found
        For each match the event of each place.

    Returns
    -------
    where the events of each match start, and the place and number of each event
    """
    matches = len(found)
    starts = np.zeros(matches + 1, np.int64)
    none = np.empty(0, np.int64)
    for match in range(matches):
        starts[match + 1] = starts[match] + _put(search, found[match], none, none, 0)
    places, events = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    for match in range(matches):
        _put(search, found[match], places, events, starts[match])
    return starts, places, events


@compiled
def _put(search: Search, match: Any, places: Any, taken: Any, start: int) -> Any:  # pragma: no cover - compiled
    """Write the events of one match down, where there is room; returns how many there are."""
    events, tables = search.events, search.tables
    end = events.ts[match[0]]
    for place in range(len(match)):
        end = max(end, events.ts[match[place]])
    at = start
    for place in range(len(match)):
        first, stop = match[place], match[place] + 1
        if tables.is_repeated[place]:
            first, stop = _span(search, match, place)
        for event in range(first, stop):
            if tables.is_repeated[place] and not _is_candidate(search, match, place, event, end):
                continue
            if at < len(places):
                places[at], taken[at] = place, event
            at += 1
    return at - start


@compiled
def _span(search: Search, match: Any, place: int) -> Any:  # pragma: no cover - compiled
    """Events between those before and after the place, or from the start of the trace."""
    tables, bounds = search.tables, search.events.bounds
    first = bounds[np.searchsorted(bounds, match[place], side="right") - 1]
    stop = bounds[np.searchsorted(bounds, match[place], side="right")]
    for other in range(len(match)):
        if (tables.predecessors[place] >> other) & 1:
            first = max(first, match[other] + 1)
        if (tables.successors[place] >> other) & 1:
            stop = min(stop, match[other])
    return first, stop


@compiled
def _is_candidate(search: Search, match: Any, place: int, event: int, end: Any) -> bool:  # pragma: no cover - compiled
    """Whether an event may stand at the place: of simultaneous ones none is before another."""
    events, tables = search.events, search.tables
    if not (events.classes[event] >> tables.atoms[place]) & 1 or events.ts[event] < end - search.rules.within:
        return False
    for other in range(len(match)):
        if (tables.predecessors[place] >> other) & 1 and events.rank[match[other]] >= events.rank[event]:
            return False
        if (tables.successors[place] >> other) & 1 and events.rank[match[other]] <= events.rank[event]:
            return False
    return True
