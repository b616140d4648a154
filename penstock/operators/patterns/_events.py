"""Events of many traces in one set of arrays, and what all searches do with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import allocating, compiled, entrance
from penstock.model.elements import FOREVER, NEVER
from penstock.operators.patterns._machine import Programs, Scratch, Values, holds
from penstock.operators.patterns.tables import NAMED, TERMINAL, SearchRules, TermTables


class Events(NamedTuple):
    """Events sorted by trace and time; `rank` orders those of a trace, with equal ranks for simultaneous ones.

    Trace k is `[bounds[k], bounds[k + 1])`; `ends[k]` is the time at which it is known to be over, or `FOREVER`. Where
    `is_spent[k]`, constraints tell that no event will extend a match; from `settled[k]` on, that none which must be absent
    at the end of one can come.
    """

    ts: Any
    rank: Any
    classes: Any
    numbers: Any
    bounds: Any
    ends: Any
    is_spent: Any
    settled: Any


class Search(NamedTuple):
    """What does not change while one term is sought."""

    events: Events
    values: Values
    tables: TermTables
    rules: SearchRules
    programs: Programs
    stack: Scratch


class Frame(NamedTuple):
    """The (partial) match being looked at: events in registers, aggregates in cells, also as floats of the same bits."""

    registers: Any
    cells: Any
    fcells: Any
    #: Room for the events of one list.
    listed: Any


class Absents(NamedTuple):
    """Per absence of a term, the events of one trace that it is about, in order."""

    lists: Any
    counts: Any


class Horizon(NamedTuple):
    """What is decided from `old` on and before `new` is reported now."""

    old: int
    new: int


@entrance
def sort_by_code(codes: Any, number: int) -> Any:  # pragma: no cover - compiled
    """Rows by code, keeping their order within one."""
    starts = np.zeros(number + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(number):
        starts[code + 1] += starts[code]
    order = np.empty(len(codes), np.int64)
    for row in range(len(codes)):
        order[starts[codes[row]]] = row
        starts[codes[row]] += 1
    return order


@entrance
def rank_events(codes: Any, ts: Any, is_total: bool) -> Any:  # pragma: no cover - compiled
    rank = np.empty(len(ts), np.int64)
    for i in range(len(ts)):
        if i and codes[i] == codes[i - 1] and ts[i] == ts[i - 1] and not is_total:
            rank[i] = rank[i - 1]
        else:
            rank[i] = i
    return rank


@entrance
def split_traces(codes: Any, ts: Any, rank: Any, classes: Any, ttl: int, new: int) -> Any:  # pragma: no cover - compiled
    """Where traces start, when they are known to be over, and their last event of a type the query names.

    A trace ends where another key starts, after a terminal event, or after `ttl` (if not negative) of silence.
    """
    bounds = np.empty(len(ts) + 1, np.int64)
    ends, active = np.full(len(ts), FOREVER, np.int64), np.zeros(len(ts), np.int64)
    number, finished = -1, False
    for i in range(len(ts)):
        is_silent = number >= 0 and ttl >= 0 and ts[i] - ts[active[number]] > ttl
        if i == 0 or codes[i] != codes[i - 1] or is_silent or (finished and rank[i] != rank[i - 1]):
            number += 1
            bounds[number], active[number], finished = i, i, False
        if classes[i] & NAMED:
            active[number] = i
        if classes[i] & TERMINAL:
            finished = True
            ends[number] = ts[i]
    bounds[number + 1] = len(ts)
    for trace in range(number + 1):
        silent_at = ts[active[trace]] + ttl
        if ttl >= 0 and silent_at < new:
            ends[trace] = min(ends[trace], silent_at)
    return bounds[: number + 2], ends[: number + 1], active[: number + 1]


@entrance
def bridge_silence(bounds: Any, ts: Any, classes: Any, keep: Any, ttl: int) -> None:  # pragma: no cover - compiled
    """Keep the fewest further events (as named, no more) so that no two neighbours in what is kept of a trace are `ttl` apart.

    Otherwise a trace would look silent where only events that no match needs were dropped.
    """
    for trace in range(len(bounds) - 1):
        previous, candidate = -1, -1
        for i in range(bounds[trace], bounds[trace + 1]):
            if previous < 0:
                previous = i if keep[i] else -1
                continue
            if not classes[i] & NAMED:
                continue
            if ts[i] - ts[previous] > ttl and candidate >= 0:
                keep[candidate] |= NAMED
                previous = candidate
            candidate = i
            if keep[i]:
                previous, candidate = i, -1


@allocating
def grown(array: Any, needed: int) -> Any:  # pragma: no cover - compiled
    """The array with room for `needed` rows."""
    if needed <= len(array):
        return array
    size = max(2 * len(array), needed)
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@allocating
def new_frame(rules: SearchRules, tables: TermTables, longest: int) -> Frame:  # pragma: no cover - compiled
    size = 1
    for k in range(len(tables.slots)):
        size = max(size, tables.slots[k, 0] + 4)
    cells = np.zeros(size, np.int64)
    return Frame(np.zeros(2 * rules.atoms + 3, np.int64), cells, cells.view(np.float64), np.zeros(longest, np.int64))


@compiled
def longest_trace(events: Events) -> Any:  # pragma: no cover - compiled
    longest = 1
    for trace in range(len(events.ends)):
        longest = max(longest, events.bounds[trace + 1] - events.bounds[trace])
    return longest


@compiled
def list_absent(search: Search, trace: int, absents: Absents, keep: Any) -> None:  # pragma: no cover - compiled
    """Collect the events of a trace that must not occur somewhere; they are kept, for this purpose."""
    events, bits = search.events, search.tables.absences
    absents.counts[:] = 0
    if len(bits) == 0:
        return
    for i in range(events.bounds[trace], events.bounds[trace + 1]):
        for k in range(len(bits)):
            if (events.classes[i] >> bits[k]) & 1:
                absents.lists[k, absents.counts[k]] = i
                absents.counts[k] += 1
                keep[i] |= np.int64(1) << bits[k]


@compiled
def _first_after(search: Search, absents: Absents, k: int, rank: Any, ts: Any) -> Any:  # pragma: no cover - compiled
    """The first listed event later than `rank` and not older than `ts`."""
    events, first, last = search.events, 0, absents.counts[k]
    while first < last:
        middle = (first + last) // 2
        event = absents.lists[k, middle]
        if events.rank[event] <= rank or events.ts[event] < ts:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def _counts_against(search: Search, frame: Frame, k: int, event: int) -> bool:  # pragma: no cover - compiled
    """Whether an event meets the conditions under which it must be absent."""
    tables = search.tables
    frame.registers[2 * search.rules.atoms] = event
    for j in range(tables.absent_test_starts[k], tables.absent_test_starts[k + 1]):
        program = tables.absent_tests[j]
        if not holds(search.programs, program, frame.registers, search.values, frame.cells, frame.fcells, search.stack):
            return False
    return True


@compiled
def is_absent(  # pragma: no cover - compiled
    search: Search, frame: Frame, absents: Absents, t_start: int, t_end: int, settled: int
) -> bool:
    """Whether every absence holds for the match in the frame."""
    events, tables, within = search.events, search.tables, search.rules.within
    for k in range(len(tables.absences)):
        low: Any = np.int64(-1)
        high: Any = np.int64(FOREVER)
        oldest: Any = np.int64(NEVER)
        newest: Any = np.int64(FOREVER)
        for j in range(tables.after_starts[k], tables.after_starts[k + 1]):
            low = max(low, events.rank[frame.registers[2 * tables.atoms[tables.after[j]] + 1]])
        for j in range(tables.before_starts[k], tables.before_starts[k + 1]):
            high = min(high, events.rank[frame.registers[2 * tables.atoms[tables.before[j]]]])
        if tables.after_starts[k] == tables.after_starts[k + 1]:
            oldest = t_end - within
        if tables.before_starts[k] == tables.before_starts[k + 1]:
            newest = min(t_start + within, settled)
        for at in range(_first_after(search, absents, k, low, oldest), absents.counts[k]):
            event = absents.lists[k, at]
            if events.rank[event] >= high or events.ts[event] > newest:
                break
            if _counts_against(search, frame, k, event):
                return False
    return True


@entrance
def hash_matches(starts: Any, atoms: Any, pos: Any) -> Any:  # pragma: no cover - compiled
    """A number for each match, made of its events and the atoms that took them."""
    result = np.empty(len(starts) - 1, np.int64)
    for match in range(len(result)):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for k in range(starts[match], starts[match + 1]):
            mixed ^= np.uint64(pos[k]) + np.uint64(atoms[k] + 1) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(29)
        result[match] = np.int64(mixed >> np.uint64(1))
    return result
