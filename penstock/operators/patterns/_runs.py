"""Runs: partial matches that grow event by event, for repetition, skip-till-next-match and contiguity.

A run is a set of filled leaves, the first and last event of each, aggregates of its lists and a pointer into the match
buffer. Simultaneous events act as a set: each is offered to the runs as they were before, and none is between others.

References
----------
[agrawal2008] Agrawal, Diao, Gyllstrom, Immerman. Efficient Pattern Matching over Event Streams. SIGMOD 2008, section 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import allocating, compiled, entrance, inlined
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
from penstock.operators.patterns._frames import Buffer, Runs, completes, extends, load
from penstock.operators.patterns.tables import ANY, NEXT, TermTables

#: Places in `counts`: runs, nodes, matches, their nodes; of the trace at hand the oldest start of an undecided run, the
#: time of the next decision, and whether it is to be gone through again with more room.
RUNS, NODES, MATCHES, MATCH_NODES, OLDEST, DUE, CRAMPED = range(7)


class Found(NamedTuple):
    """Matches: match m has nodes `starts[m]` up to `starts[m + 1]` of `place` and `event`, and was decided at `decided[m]`."""

    starts: Any
    decided: Any
    place: Any
    event: Any


class Task(NamedTuple):
    """One search over all traces."""

    search: Search
    horizon: Horizon
    absents: Absents
    frame: Frame
    counts: Any
    keep: Any
    #: Whether a list at the end can go on growing, and whether only its longest form is reported.
    is_open: bool
    waits: bool


class Memory(NamedTuple):
    """What grows."""

    runs: Runs
    buffer: Buffer
    found: Found


@allocating
def _roomier(memory: Memory) -> Memory:  # pragma: no cover - compiled
    """The same with twice the room for everything."""
    runs, buffer, found = memory.runs, memory.buffer, memory.found
    run, node, match, part = 2 * len(runs.head), 2 * len(buffer.event), 2 * len(found.decided), 2 * len(found.place)
    ends, masks, starts = grown(runs.head, run), grown(runs.filled, run), grown(runs.started, run)
    events, places = grown(buffer.event, node), grown(buffer.place, node)
    return Memory(
        Runs(ends, masks, starts, grown(runs.registers, run), grown(runs.cells, run)),
        Buffer(events, places, grown(buffer.before, node), grown(buffer.marked, node)),
        Found(grown(found.starts, match + 1), grown(found.decided, match), grown(found.place, part), grown(found.event, part)),
    )


@inlined
def _move(runs: Runs, source: int, target: int) -> None:  # pragma: no cover - compiled
    if source == target:
        return
    runs.head[target], runs.filled[target], runs.started[target] = runs.head[source], runs.filled[source], runs.started[source]
    for k in range(runs.registers.shape[1]):
        runs.registers[target, k] = runs.registers[source, k]
    for k in range(runs.cells.shape[1]):
        runs.cells[target, k] = runs.cells[source, k]


@compiled
def _mark(buffer: Buffer, node: int, keep: Any) -> None:  # pragma: no cover - compiled
    """Keep the events of a run; what is marked already is marked to its start."""
    while node >= 0 and not buffer.marked[node]:
        buffer.marked[node] = True
        keep[buffer.event[node]] = -1
        node = buffer.before[node]


@compiled
def _report(task: Task, memory: Memory, run: int, at: int, trace: int) -> None:  # pragma: no cover - compiled
    """Add the run in the frame, if it is a match and decided now; one that is decided later is kept in mind."""
    search, counts, buffer, frame = task.search, task.counts, memory.buffer, task.frame
    head, started, settled = memory.runs.head[run], memory.runs.started[run], search.events.settled[trace]
    if search.tables.is_trailing:
        at = max(at, min(started + search.rules.within, settled))
    at = min(at, search.events.ends[trace])
    if at < task.horizon.old or not completes(search, buffer, frame, memory.runs.filled[run], head):
        return
    if at >= task.horizon.new:
        counts[DUE], counts[OLDEST] = min(counts[DUE], at), min(counts[OLDEST], started)
        _mark(buffer, head, task.keep)
        return
    if not is_absent(search, frame, task.absents, started, search.events.ts[buffer.event[head]], settled):
        return
    number, node = 0, head
    while node >= 0:
        number += 1
        node = buffer.before[node]
    found = memory.found
    if counts[MATCHES] == len(found.decided) or counts[MATCH_NODES] + number > len(found.place):
        counts[CRAMPED] = 1
        return
    counts[MATCH_NODES] += number
    place, node = counts[MATCH_NODES], head
    while node >= 0:
        place -= 1
        found.place[place], found.event[place] = buffer.place[node], buffer.event[node]
        node = buffer.before[node]
    found.decided[counts[MATCHES]] = at
    counts[MATCHES] += 1
    found.starts[counts[MATCHES]] = counts[MATCH_NODES]


@compiled
def _report_stored(task: Task, memory: Memory, run: int, at: int, trace: int) -> None:  # pragma: no cover - compiled
    """Report a run that was only waiting to grow longer."""
    load(memory.runs, run, task.frame)
    _report(task, memory, run, at, trace)


@compiled
def _add(task: Task, memory: Memory, run: int, event: int, place: int, trace: int) -> None:  # pragma: no cover - compiled
    """Store what became of a run, which is in the frame, and report it if all its places are filled."""
    counts, frame, now = task.counts, task.frame, task.search.events.ts[event]
    runs, buffer = memory.runs, memory.buffer
    if counts[RUNS] == len(runs.head) or counts[NODES] == len(buffer.event):
        counts[CRAMPED] = 1
        return
    node, new = counts[NODES], counts[RUNS]
    buffer.event[node], buffer.place[node], buffer.before[node], buffer.marked[node] = event, place, runs.head[run], False
    counts[NODES] += 1
    runs.head[new], runs.filled[new] = node, runs.filled[run] | (1 << place)
    runs.started[new] = now if runs.filled[run] == 0 else runs.started[run]
    for k in range(len(frame.registers)):
        runs.registers[new, k] = frame.registers[k]
    for k in range(len(frame.cells)):
        runs.cells[new, k] = frame.cells[k]
    is_full = runs.filled[new] == (1 << len(task.search.tables.atoms)) - 1
    if is_full and not task.waits:
        _report(task, memory, new, now, trace)
    if not is_full or task.is_open:
        counts[RUNS] += 1


@compiled
def _expire(task: Task, memory: Memory, now: int, trace: int) -> None:  # pragma: no cover - compiled
    """Remove runs that no event can extend any more, because of the window."""
    counts, within, runs = task.counts, task.search.rules.within, memory.runs
    full = (1 << len(task.search.tables.atoms)) - 1
    target = 1
    for run in range(1, counts[RUNS]):
        if now - runs.started[run] <= within:
            _move(runs, run, target)
            target += 1
        elif task.waits and runs.filled[run] == full:
            _report_stored(task, memory, run, runs.started[run] + within, trace)
    counts[RUNS] = target


@compiled
def _offer_to_all(task: Task, memory: Memory, first: int, stop: int, trace: int) -> None:  # pragma: no cover - compiled
    """Skip till any: each run stays, and takes each event in each place as a new run.

    Pairs of event and place come in one order, and new runs are offered the later pairs: every combination arises once.
    """
    search, counts = task.search, task.counts
    for event in range(first, stop):
        for place in range(len(search.tables.atoms)):
            if not (search.events.classes[event] >> search.tables.atoms[place]) & 1:
                continue
            run = 0
            while run < counts[RUNS] and counts[RUNS] <= search.rules.most_runs and not counts[CRAMPED]:
                appends = search.tables.is_repeated[place] and (memory.runs.filled[run] >> place) & 1 != 0
                if extends(search, memory.runs, run, memory.buffer, task.frame, event, place, appends):
                    _add(task, memory, run, event, place, trace)
                run += 1


@inlined
def _last_place(tables: TermTables, filled: int) -> Any:  # pragma: no cover - compiled
    place = -1
    while place + 1 < len(tables.atoms) and (filled >> (place + 1)) & 1:
        place += 1
    return place


@inlined
def _offer_to_run(task: Task, memory: Memory, run: int, first: int, stop: int, trace: int) -> Any:  # pragma: no cover - compiled
    """Offer simultaneous events to one run of a chain, as more of its last list and as its next place."""
    search = task.search
    place, took = _last_place(search.tables, memory.runs.filled[run]), False
    for event in range(first, stop):
        for step in range(2):
            appends, here = step == 0, place + step
            if here < 0 or here >= len(search.tables.atoms) or (appends and not search.tables.is_repeated[here]):
                continue
            if not (search.events.classes[event] >> search.tables.atoms[here]) & 1:
                continue
            if extends(search, memory.runs, run, memory.buffer, task.frame, event, here, appends):
                took = True
                _add(task, memory, run, event, here, trace)
    return took


@compiled
def _offer_in_turn(task: Task, memory: Memory, first: int, stop: int, trace: int) -> None:  # pragma: no cover - compiled
    """Next match and contiguity: a run goes into what it becomes; one that takes nothing stays, or dies of the gap."""
    counts, before, target = task.counts, task.counts[RUNS], 1
    full = (1 << len(task.search.tables.atoms)) - 1
    for run in range(before):
        took = _offer_to_run(task, memory, run, first, stop, trace)
        if run == 0 or took:
            continue
        if task.search.rules.strategy == NEXT:
            _move(memory.runs, run, target)
            target += 1
        elif task.waits and memory.runs.filled[run] == full:
            _report_stored(task, memory, run, task.search.events.ts[first], trace)
    for run in range(before, counts[RUNS]):
        _move(memory.runs, run, target)
        target += 1
    counts[RUNS] = target


@compiled
def _settle(task: Task, memory: Memory, trace: int) -> None:  # pragma: no cover - compiled
    """After the last event of a trace: report lists that are over, and keep what undecided runs need."""
    search, counts, keep = task.search, task.counts, task.keep
    events, rules, end = search.events, search.rules, search.events.ends[trace]
    full = (1 << len(search.tables.atoms)) - 1
    for run in range(1, counts[RUNS]):
        over = min(end, FOREVER - 1)
        if rules.has_window:
            over = min(over, memory.runs.started[run] + rules.within)
        if task.waits and memory.runs.filled[run] == full:
            _report_stored(task, memory, run, over, trace)
        if over >= task.horizon.new and not events.is_spent[trace]:
            counts[OLDEST] = min(counts[OLDEST], memory.runs.started[run])
            if rules.strategy == ANY:
                _mark(memory.buffer, memory.runs.head[run], keep)
    if rules.strategy != ANY:
        # Which events a run took depends on those it was offered: all since the oldest start are needed.
        for i in range(events.bounds[trace], events.bounds[trace + 1]):
            if events.ts[i] >= counts[OLDEST]:
                keep[i] = -1


@allocating
def _new_memory(frame: Frame) -> Memory:  # pragma: no cover - compiled
    """Room to start with; run 0 is the empty one, and what extends it starts a run."""
    heads, masks, starts = np.full(64, -1, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64)
    runs = Runs(heads, masks, starts, np.zeros((64, len(frame.registers)), np.int64), np.zeros((64, len(frame.cells)), np.int64))
    buffer = Buffer(np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.bool_))
    found = Found(np.zeros(65, np.int64), np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64))
    return Memory(runs, buffer, found)


@inlined
def _can_start(search: Search, first: int, stop: int) -> Any:  # pragma: no cover - compiled
    """Whether one of these events is of a type that a chain starts with; most are not, and then nothing needs to be done."""
    can, bit = False, search.tables.atoms[0]
    for event in range(first, stop):
        can = can or (search.events.classes[event] >> bit) & 1 != 0
    return can


@inlined
def _may_go_on(search: Search, first: int, stop: int) -> Any:  # pragma: no cover - compiled
    """Whether a run that starts just before `first` is not dead at once, as no event may lie between those of a match."""
    events, tables, may = search.events, search.tables, False
    if search.rules.strategy == NEXT or first == stop or len(tables.atoms) == 1:
        return True
    wanted = 1 << tables.atoms[1]
    if tables.is_repeated[0]:
        wanted |= 1 << tables.atoms[0]
    event = first
    while event < stop and events.rank[event] == events.rank[first]:
        may = may or events.classes[event] & wanted != 0
        event += 1
    return may


@compiled
def _follow_trace(task: Task, memory: Memory, trace: int) -> None:  # pragma: no cover - compiled
    """Add the matches of one trace, unless there is not room enough."""
    events, rules, counts = task.search.events, task.search.rules, task.counts
    counts[RUNS], counts[NODES], counts[OLDEST], counts[DUE], counts[CRAMPED] = 1, 0, FOREVER, FOREVER, 0
    list_absent(task.search, trace, task.absents, task.keep)
    i, stop = events.bounds[trace], events.bounds[trace + 1]
    while i < stop and not counts[CRAMPED]:
        first = i
        while i < stop and events.rank[i] == events.rank[first]:
            i += 1
        is_idle = counts[RUNS] == 1 and rules.strategy != ANY
        if is_idle and not (_can_start(task.search, first, i) and _may_go_on(task.search, i, stop)):
            continue
        if rules.has_window:
            _expire(task, memory, events.ts[first], trace)
        if rules.strategy == ANY:
            _offer_to_all(task, memory, first, i, trace)
        else:
            _offer_in_turn(task, memory, first, i, trace)
        if counts[RUNS] > rules.most_runs:
            return
    if not counts[CRAMPED]:
        _settle(task, memory, trace)


@entrance
def follow(search: Search, horizon: Horizon, keep: Any) -> Any:  # pragma: no cover - compiled
    """All matches of a term that are decided within the horizon.

    Returns
    -------
    the matches, how many, per trace when the next pending one will be decided, and the trace with too many runs or -1;
    `keep` gets the bits of each event's class that a later match may need
    """
    events, tables, longest = search.events, search.tables, longest_trace(search.events)
    is_open = False
    for k in range(len(tables.sinks)):
        is_open = is_open or tables.is_repeated[tables.sinks[k]]
    absents = Absents(np.empty((len(tables.absences), longest), np.int64), np.zeros(len(tables.absences), np.int64))
    frame, counts = new_frame(search.rules, tables, longest), np.zeros(7, np.int64)
    task = Task(search, horizon, absents, frame, counts, keep, is_open, search.rules.maximal and is_open)
    memory, due = _new_memory(frame), np.full(len(events.ends), FOREVER, np.int64)
    for trace in range(len(events.ends)):
        matches, nodes = counts[MATCHES], counts[MATCH_NODES]
        _follow_trace(task, memory, trace)
        while counts[CRAMPED]:
            memory = _roomier(memory)
            counts[MATCHES], counts[MATCH_NODES] = matches, nodes
            _follow_trace(task, memory, trace)
        if counts[RUNS] > search.rules.most_runs:
            return memory.found, counts[MATCHES], due, trace
        due[trace] = counts[DUE]
    return memory.found, counts[MATCHES], due, -1
