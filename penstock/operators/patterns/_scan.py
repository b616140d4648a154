"""Sequence scan and construction: skip-till-any-match without repetition, over active instance stacks.

The scan puts each event on the stack of every leaf that may take it, with the height of the stacks before it (the most
recent instance in the previous stack); construction walks back from each last event, newest first, and cuts a branch as
soon as a condition fails.

References
----------
[wu2006] Wu, Diao, Rizvi. High-Performance Complex Event Processing over Streams. SIGMOD 2006, sections 4 and 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance, inlined
from penstock.model.elements import FOREVER
from penstock.operators.patterns._events import (
    Absents,
    Frame,
    Horizon,
    Search,
    grown,
    is_absent,
    list_absent,
    longest_trace,
    new_frame,
)
from penstock.operators.patterns._machine import holds

#: Bits of an event's class that are kept when it may take part in a later match: all.
ALL = -1


class Stacks(NamedTuple):
    """Active instances of one trace. Place p holds `items[p, base[p]:top[p]]`, those below `seen[p]` from before now.

    `heights[e, k]`: how many instances of the earlier place of edge e there were before instance k of its later place.
    """

    items: Any
    heights: Any
    base: Any
    seen: Any
    top: Any


class Walk(NamedTuple):
    """Where construction stands: per place the instance chosen and the lowest there is."""

    cursor: Any
    lowest: Any


class Matches(NamedTuple):
    """Events of each match by place, and when it was decided."""

    events: Any
    decided: Any


@inlined
def _is_enabled(search: Search, state: int, place: int) -> Any:  # pragma: no cover - compiled
    tables = search.tables
    if len(tables.enabled):
        return (tables.enabled[state] >> place) & 1 != 0
    return (tables.predecessors[place] & ~state) == 0


@inlined
def _push_group(
    search: Search, stacks: Stacks, first: int, stop: int, spared: int, is_spent: bool, keep: Any
) -> Any:  # pragma: no cover - compiled
    """Put simultaneous events on the stacks; returns where the next group starts."""
    events, tables = search.events, search.tables
    oldest, state = events.ts[first] - search.rules.within, 0
    for place in range(len(tables.atoms)):
        top = stacks.top[place]
        stacks.seen[place] = top
        while stacks.base[place] < top and events.ts[stacks.items[place, stacks.base[place]]] < oldest:
            stacks.base[place] += 1
        state |= int(stacks.base[place] < top) << place
    i = first
    while i < stop and events.rank[i] == events.rank[first]:
        for place in range(len(tables.atoms)):
            if (events.classes[i] >> tables.atoms[place]) & 1 and _is_enabled(search, state, place):
                top = stacks.top[place]
                for edge in range(tables.edge_starts[place], tables.edge_starts[place + 1]):
                    stacks.heights[edge, top] = stacks.seen[tables.edges[edge, 0]]
                stacks.items[place, top] = i
                stacks.top[place] = top + 1
                if place != spared and not is_spent:
                    keep[i] = ALL
        i += 1
    return i


@inlined
def _enter(search: Search, stacks: Stacks, walk: Walk, place: int, first_sink: int) -> None:  # pragma: no cover - compiled
    """Set out on the instances of a place that fit below those chosen; of the sinks `first_sink` is the first that is now."""
    tables = search.tables
    low, high = stacks.base[place], stacks.top[place]
    for k in range(len(tables.sinks)):
        if tables.sinks[k] == place:
            if k == first_sink:
                low = max(low, stacks.seen[place])
            elif k < first_sink:
                high = stacks.seen[place]
    for j in range(tables.next_starts[place], tables.next_starts[place + 1]):
        edge = tables.next_edges[j]
        high = min(high, stacks.heights[edge, walk.cursor[tables.edges[edge, 1]]])
    if tables.is_repeated[place]:
        # A collapsed list: the newest candidate stands for all, as what is before one of them is before that one.
        low = max(low, high - 1)
    walk.lowest[place], walk.cursor[place] = low, high


@inlined
def _fits(search: Search, frame: Frame, place: int) -> bool:  # pragma: no cover - compiled
    """Whether the event just chosen for `place` meets what can be tested now."""
    tables, registers = search.tables, frame.registers
    if not search.rules.reuse:
        for later in range(place + 1, len(tables.atoms)):
            if registers[2 * tables.atoms[later]] == registers[2 * tables.atoms[place]]:
                return False
    for j in range(tables.test_starts[place], tables.test_starts[place + 1]):
        if not holds(search.programs, tables.tests[j], registers, search.values, frame.cells, frame.fcells, search.stack):
            return False
    return True


@inlined
def _next_match(
    search: Search, stacks: Stacks, walk: Walk, frame: Frame, place: int, first_sink: int
) -> Any:  # pragma: no cover - compiled
    """Go on from `place` to the next full set of events, in the frame; whether there is one."""
    places, tables = len(search.tables.atoms), search.tables
    while place < places:
        walk.cursor[place] -= 1
        if walk.cursor[place] < walk.lowest[place]:
            place += 1
            continue
        event = stacks.items[place, walk.cursor[place]]
        frame.registers[2 * tables.atoms[place]] = event
        frame.registers[2 * tables.atoms[place] + 1] = event
        if not _fits(search, frame, place):
            continue
        if place == 0:
            return True
        place -= 1
        _enter(search, stacks, walk, place, first_sink)
    return False


@compiled
def _started(search: Search, frame: Frame, now: int) -> Any:  # pragma: no cover - compiled
    for place in range(len(search.tables.atoms)):
        now = min(now, search.events.ts[frame.registers[2 * search.tables.atoms[place]]])
    return now


@compiled
def _construct(  # pragma: no cover - compiled
    search: Search,
    stacks: Stacks,
    walk: Walk,
    frame: Frame,
    absents: Absents,
    horizon: Horizon,
    trace: int,
    matches: Matches,
    counts: Any,
    keep: Any,
) -> None:
    """Add the matches that end now and are decided within the horizon; `counts` are matches and time of the next decision.

    Matches that find no room are counted only.
    """
    events, tables = search.events, search.tables
    places = len(tables.atoms)
    for k in range(len(tables.sinks)):
        sink = tables.sinks[k]
        if stacks.seen[sink] == stacks.top[sink]:
            continue
        now = events.ts[stacks.items[sink, stacks.top[sink] - 1]]
        _enter(search, stacks, walk, places - 1, k)
        place = places - 1
        while _next_match(search, stacks, walk, frame, place, k):
            place, at, started = 0, now, now
            if len(tables.absences):
                started = _started(search, frame, now)
            if tables.is_trailing:
                at = max(now, min(started + search.rules.within, events.ends[trace], events.settled[trace]))
            if at >= horizon.new:
                counts[1] = min(counts[1], at)
                for each in range(places if events.is_spent[trace] else 0):
                    keep[frame.registers[2 * tables.atoms[each]]] = ALL
                continue
            if at < horizon.old or not is_absent(search, frame, absents, started, now, events.settled[trace]):
                continue
            number = counts[0]
            counts[0] = number + 1
            if number < len(matches.decided):
                for each in range(places):
                    matches.events[number, each] = frame.registers[2 * tables.atoms[each]]
                matches.decided[number] = at


@compiled
def _scan_trace(  # pragma: no cover - compiled
    search: Search,
    stacks: Stacks,
    walk: Walk,
    frame: Frame,
    absents: Absents,
    horizon: Horizon,
    trace: int,
    matches: Matches,
    counts: Any,
    keep: Any,
) -> None:
    """Add the matches of one trace."""
    events, tables = search.events, search.tables
    # The only sink of a term ends matches and is never looked back at, unless they have to wait for an absence.
    spared = tables.sinks[0] if len(tables.sinks) == 1 and not tables.is_trailing else -1
    delay = search.rules.within if tables.is_trailing else 0
    stacks.base[:] = 0
    stacks.top[:] = 0
    counts[1] = FOREVER
    list_absent(search, trace, absents, keep)
    i, stop = events.bounds[trace], events.bounds[trace + 1]
    while i < stop:
        now = events.ts[i]
        i = _push_group(search, stacks, i, stop, spared, events.is_spent[trace], keep)
        has_ended = False
        for k in range(len(tables.sinks)):
            has_ended = has_ended or stacks.seen[tables.sinks[k]] < stacks.top[tables.sinks[k]]
        if has_ended and now + delay >= horizon.old:
            _construct(search, stacks, walk, frame, absents, horizon, trace, matches, counts, keep)


@entrance
def scan(search: Search, horizon: Horizon, keep: Any) -> Any:  # pragma: no cover - compiled
    """All matches of a term that are decided within the horizon.

    Returns
    -------
    the matches, and per trace when the next pending one will be decided; `keep` gets the bits of each event's class that a
    later match may need
    """
    events, tables = search.events, search.tables
    places, longest = len(tables.atoms), longest_trace(events)
    items, heights = np.empty((places, longest), np.int64), np.empty((len(tables.edges), longest), np.int64)
    stacks = Stacks(items, heights, np.zeros(places, np.int64), np.zeros(places, np.int64), np.zeros(places, np.int64))
    walk = Walk(np.zeros(places, np.int64), np.zeros(places, np.int64))
    absents = Absents(np.empty((len(tables.absences), longest), np.int64), np.zeros(len(tables.absences), np.int64))
    frame = new_frame(search.rules, tables, longest)
    matches = Matches(np.empty((64, places), np.int64), np.empty(64, np.int64))
    counts, due = np.zeros(2, np.int64), np.full(len(events.ends), FOREVER, np.int64)
    for trace in range(len(events.ends)):
        before = counts[0]
        _scan_trace(search, stacks, walk, frame, absents, horizon, trace, matches, counts, keep)
        if counts[0] > len(matches.decided):
            # Too many to be written down: make room and go through the trace again.
            matches = Matches(grown(matches.events, counts[0]), grown(matches.decided, counts[0]))
            counts[0] = before
            _scan_trace(search, stacks, walk, frame, absents, horizon, trace, matches, counts, keep)
        due[trace] = counts[1]
    return Matches(matches.events[: counts[0]], matches.decided[: counts[0]]), due
