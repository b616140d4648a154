"""One step of one run: may this event be taken here, and what does the run look like afterwards?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, inlined
from penstock.operators.patterns._events import Frame, Search
from penstock.operators.patterns._functions import compare_float
from penstock.operators.patterns._machine import holds
from penstock.operators.patterns.opcodes import GREATER, LESS
from penstock.operators.patterns.tables import STRICT, TermTables


class Runs(NamedTuple):
    """Partial matches: last node, mask of filled places, time of the first event, registers and aggregates."""

    head: Any
    filled: Any
    started: Any
    registers: Any
    cells: Any


class Buffer(NamedTuple):
    """The match buffer: events that runs took, each with the node before it; runs that split share nodes."""

    event: Any
    place: Any
    before: Any
    marked: Any


@inlined
def closed_places(tables: TermTables, filled: int) -> Any:  # pragma: no cover - compiled
    """Places whose list is finished because something after it has begun."""
    closed = 0
    for place in range(len(tables.atoms)):
        closed |= int(tables.successors[place] & filled != 0) << place
    return closed


@inlined
def load(runs: Runs, run: int, frame: Frame) -> None:  # pragma: no cover - compiled
    for k in range(len(frame.registers)):
        frame.registers[k] = runs.registers[run, k]
    for k in range(len(frame.cells)):
        frame.cells[k] = runs.cells[run, k]


@compiled
def _count_in(search: Search, frame: Frame, place: int, event: int, only_before: bool) -> None:  # pragma: no cover - compiled
    """Add an event to the aggregates of a list."""
    slots, cells, fcells, values = search.tables.slots, frame.cells, frame.fcells, search.values
    for k in range(len(slots)):
        if slots[k, 1] != place or (only_before and slots[k, 4] == 0):
            continue
        cell, column = slots[k, 0], slots[k, 2]
        if column < 0:
            cells[cell] += 1
            continue
        if (values.nulls[event] >> column) & 1:
            continue
        is_first = cells[cell] == 0
        if slots[k, 3]:
            number = values.floats[column, event]
            fcells[cell + 1] = number if is_first else fcells[cell + 1] + number
            if is_first or compare_float(LESS, number, fcells[cell + 2]):
                fcells[cell + 2] = number
            if is_first or compare_float(GREATER, number, fcells[cell + 3]):
                fcells[cell + 3] = number
            cells[cell] += 1
            continue
        whole = values.ints[column, event]
        total = whole if is_first else np.int64(np.uint64(cells[cell + 1]) + np.uint64(whole))
        # A negative count says that the sum did not fit: it stays NULL, while the extremes go on.
        overflown = not is_first and ((cells[cell + 1] ^ total) & (whole ^ total)) < 0
        cells[cell + 1] = total
        if is_first or whole < cells[cell + 2]:
            cells[cell + 2] = whole
        if is_first or whole > cells[cell + 3]:
            cells[cell + 3] = whole
        cells[cell] = -abs(cells[cell]) - 1 if cells[cell] < 0 or overflown else cells[cell] + 1


@compiled
def _holds_along(search: Search, buffer: Buffer, frame: Frame, row: int, head: int) -> bool:  # pragma: no cover - compiled
    """Test a condition for every event of a list that was there before the condition could be tested."""
    tables, current = search.tables, 2 * search.rules.atoms + 1
    place = tables.conditions[row, 3]
    number, node = 0, head
    while node >= 0:
        number += int(buffer.place[node] == place)
        node = buffer.before[node]
    listed, at, node = frame.listed, number, head
    while node >= 0:
        if buffer.place[node] == place:
            at -= 1
            listed[at] = buffer.event[node]
        node = buffer.before[node]
    for k in range(len(tables.slots)):
        if tables.slots[k, 1] == place and tables.slots[k, 4] != 0:
            frame.cells[tables.slots[k, 0]] = 0
    for at in range(number):
        frame.registers[current] = listed[at]
        frame.registers[current + 1] = listed[max(at - 1, 0)]
        is_exempt = at == 0 and tables.conditions[row, 4] != 0
        if not is_exempt and not _holds(search, frame, row):
            return False
        _count_in(search, frame, place, listed[at], True)
    return True


@inlined
def _holds(search: Search, frame: Frame, row: int) -> bool:  # pragma: no cover - compiled
    program = search.tables.conditions[row, 0]
    return holds(search.programs, program, frame.registers, search.values, frame.cells, frame.fcells, search.stack)


@inlined
def _is_in_order(
    search: Search, runs: Runs, run: int, buffer: Buffer, event: int, place: int, appends: bool
) -> bool:  # pragma: no cover - compiled
    """Whether order, window, contiguity and reuse allow the event at this place."""
    events, tables, rules = search.events, search.tables, search.rules
    filled, rank = runs.filled[run], events.rank[event]
    if appends:
        if tables.successors[place] & filled or events.rank[runs.registers[run, 2 * tables.atoms[place] + 1]] >= rank:
            return False
    else:
        if (filled >> place) & 1 or tables.predecessors[place] & ~filled:
            return False
        for other in range(len(tables.atoms)):
            if (tables.predecessors[place] >> other) & 1 and events.rank[runs.registers[run, 2 * tables.atoms[other] + 1]] >= rank:
                return False
    if filled == 0:
        return True
    if rules.has_window and events.ts[event] - runs.started[run] > rules.within:
        return False
    if rules.strategy == STRICT and events.numbers[event] != events.numbers[buffer.event[runs.head[run]]] + 1:
        return False
    if not rules.reuse:
        node = runs.head[run]
        while node >= 0:
            if buffer.event[node] == event:
                return False
            node = buffer.before[node]
    return True


@inlined
def extends(  # pragma: no cover - compiled
    search: Search, runs: Runs, run: int, buffer: Buffer, frame: Frame, event: int, place: int, appends: bool
) -> bool:
    """Whether a run may take an event at a place; if so, the frame holds the run afterwards."""
    if not _is_in_order(search, runs, run, buffer, event, place, appends):
        return False
    tables, atom, current = search.tables, search.tables.atoms[place], 2 * search.rules.atoms + 1
    before = runs.filled[run]
    after = before | (1 << place)
    closed_before, closed_after = closed_places(tables, before), closed_places(tables, after)
    load(runs, run, frame)
    frame.registers[current] = event
    frame.registers[current + 1] = frame.registers[2 * atom + 1] if appends else event
    if not appends:
        frame.registers[2 * atom] = event  # the first event may be compared with itself
    for row in range(len(tables.conditions)):
        if tables.conditions[row, 3] != place or (tables.conditions[row, 4] != 0 and not appends):
            continue
        is_ready = tables.conditions[row, 1] & ~after == 0 and tables.conditions[row, 2] & ~closed_after == 0
        if is_ready and not _holds(search, frame, row):
            return False
    frame.registers[2 * atom + 1] = event
    _count_in(search, frame, place, event, False)
    for row in range(len(tables.conditions)):
        bound, closed, iterated = tables.conditions[row, 1], tables.conditions[row, 2], tables.conditions[row, 3]
        if iterated == place or bound & ~after or closed & ~closed_after:
            continue
        if before != 0 and bound & ~before == 0 and closed & ~closed_before == 0:
            continue  # it could be tested earlier, and was
        if iterated >= 0:
            if not _holds_along(search, buffer, frame, row, runs.head[run]):
                return False
        elif not _holds(search, frame, row):
            return False
    return True


@compiled
def completes(search: Search, buffer: Buffer, frame: Frame, filled: int, head: int) -> bool:  # pragma: no cover - compiled
    """Whether the run in the frame, all of whose places are filled, meets what waited for its lists to be finished."""
    closed = closed_places(search.tables, filled)
    for row in range(len(search.tables.conditions)):
        if search.tables.conditions[row, 2] & ~closed == 0:
            continue
        if search.tables.conditions[row, 3] >= 0:
            if not _holds_along(search, buffer, frame, row, head):
                return False
        elif not _holds(search, frame, row):
            return False
    return True
