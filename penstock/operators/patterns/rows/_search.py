"""The backtracking search for row patterns, in compiled loops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled, entrance
from penstock.model.elements import FOREVER
from penstock.operators.patterns._events import grown
from penstock.operators.patterns.rows._trail import Machine, Trail, takes
from penstock.operators.patterns.rows.program import ACCEPT, JUMP, SPLIT, START

#: What the search from one row says: there is no match, this is it, later rows decide, or it is too much work.
FAILED, FOUND, OPEN, CROWDED = 0, 1, 2, 3
#: Where to go on behind a match.
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = 0, 1, 2, 3
#: Labels of the row at which a match without rows was found, and of a row that is in no match.
NOBODY, UNMATCHED = -1, -2


class Rows(NamedTuple):
    """Rows sorted by partition and time; partition k is `[bounds[k], bounds[k + 1])`, its first start is `firsts[k]`, and rows
    before `covered[k]` are in a match already.

    A bit per variable says that the row meets what is demanded, where that does not depend on the match.
    """

    ts: Any
    bits: Any
    bounds: Any
    firsts: Any
    covered: Any


class RowSearchRules(NamedTuple):
    has_window: bool
    within: int
    skip: int
    #: Bits of the variables to one of whose rows the search goes.
    skip_to: int
    #: No condition depends on the match: what has failed at a row fails there again.
    remembers: bool
    most_steps: int
    #: Rows that are in no match are reported, each like a match.
    shows_unmatched: bool


class Found(NamedTuple):
    """Matches: first row, how many, when decided, in which partition; the variables of their rows one after the other, and
    whether each is not shown. A match without rows has the row at which it was found, taken by `NOBODY`; a row in no match
    stands here like a match, taken by `UNMATCHED`.
    """

    first: Any
    length: Any
    decided: Any
    partition: Any
    labels: Any
    hidden: Any


@compiled
def _find(  # pragma: no cover - compiled
    rows: Rows, machine: Machine, rules: RowSearchRules, trail: Trail, floor: int, start: int, end: int, frontier: int
) -> Any:
    """Search from one row: outcome, length, and the time by which it is known."""
    ts, table, places = rows.ts, machine.table, trail.places
    closes: Any = np.int64(FOREVER)
    if rules.has_window and ts[start] < FOREVER - rules.within:
        closes = ts[start] + rules.within
    is_open = frontier != FOREVER and frontier <= closes
    generation, is_cut, outcome = trail.generation[0], False, FAILED
    instruction, row, top, steps = 0, start, 0, 0
    latest: Any = ts[start]
    while True:
        code = table[instruction, 0]
        if code == ACCEPT:
            outcome = FOUND
            break
        if code == JUMP:
            instruction = table[instruction, 1]
            continue
        if code == SPLIT:
            places[top, 0], places[top, 1] = table[instruction, 2], row
            top += 1
            instruction = table[instruction, 1]
            continue
        variable, is_taken = table[instruction, 1], False
        if code == START:
            if row == floor:
                instruction += 1
                continue
        elif row == end and is_open:
            outcome = OPEN
            break
        elif row == end or ts[row] > closes:
            is_cut = True
            if rules.has_window:
                latest = max(latest, closes)
        elif rules.remembers:
            if trail.marks[instruction, row] != generation:
                trail.marks[instruction, row] = generation
                latest = max(latest, ts[row])
                is_taken = (rows.bits[row] >> variable) & 1 != 0
                trail.labels[row - start] = variable
        else:
            steps += 1
            if steps > rules.most_steps:
                outcome = CROWDED
                break
            latest = max(latest, ts[row])
            is_taken = takes(machine, trail, rows.bits, variable, row, row - start)
        if is_taken:
            trail.hidden[row - start] = table[instruction, 2]
            row += 1
            instruction += 1
        elif top == 0:
            break
        else:
            top -= 1
            instruction, row = places[top, 0], places[top, 1]
    # Marks of a search that ran out without meeting the end of the rows or of the window hold for later starts too.
    if is_cut or outcome != FAILED:
        trail.generation[0] += 1
    return outcome, row - start, latest


@compiled
def _next_start(rules: RowSearchRules, labels: Any, start: int, length: int) -> Any:  # pragma: no cover - compiled
    if rules.skip == PAST_LAST or labels[0] < 0:
        return start + length
    target = 0
    if rules.skip == TO_FIRST:
        for depth in range(length - 1, -1, -1):
            if (rules.skip_to >> labels[depth]) & 1:
                target = depth
    elif rules.skip == TO_LAST:
        for depth in range(length):
            if (rules.skip_to >> labels[depth]) & 1:
                target = depth
    return start + max(target, 1)


@entrance
def search(rows: Rows, machine: Machine, rules: RowSearchRules, trail: Trail, frontier: int) -> Any:  # pragma: no cover - compiled
    """Matches, the first undecided start of each partition and where its last match ends, and a partition that is too much work
    (or -1).
    """
    partitions, number, used = len(rows.bounds) - 1, 0, 0
    first, length = np.empty(16, np.int64), np.empty(16, np.int64)
    decided, partition = np.empty(16, np.int64), np.empty(16, np.int64)
    labels, hidden, resume = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(partitions, np.int64)
    crowded, covered = -1, rows.covered.copy()
    for k in range(partitions):
        start, end = rows.firsts[k], rows.bounds[k + 1]
        known: Any = rows.ts[rows.bounds[k]]
        while start < end and crowded < 0:
            outcome, taken, latest = _find(rows, machine, rules, trail, rows.bounds[k], start, end, frontier)
            if outcome == CROWDED:
                crowded = k
            if outcome >= OPEN:
                break
            # What an earlier start left open keeps a later one waiting.
            known = max(known, latest)
            if outcome == FAILED and (not rules.shows_unmatched or start < covered[k]):
                start += 1
                continue
            if outcome == FAILED:
                taken, trail.labels[0], trail.hidden[0] = 1, UNMATCHED, 0
            elif taken == 0:
                taken, trail.labels[0], trail.hidden[0] = 1, NOBODY, 0
            first, length, decided = grown(first, number + 1), grown(length, number + 1), grown(decided, number + 1)
            partition = grown(partition, number + 1)
            labels, hidden = grown(labels, used + taken), grown(hidden, used + taken)
            first[number], length[number], decided[number], partition[number] = start, taken, known, k
            for depth in range(taken):
                labels[used + depth], hidden[used + depth] = trail.labels[depth], trail.hidden[depth]
            number, used = number + 1, used + taken
            covered[k] = max(covered[k], start + taken)
            start = _next_start(rules, trail.labels, start, taken)
        resume[k] = min(start, end)
    found = Found(first[:number], length[:number], decided[:number], partition[:number], labels[:used], hidden[:used])
    return found, resume, covered, crowded


@entrance
def run_aggregates(starts: Any, chosen: Any, ints: Any, floats: Any, ranks: Any) -> Any:  # pragma: no cover - compiled
    """Aggregates over the chosen values of each match, up to every row of it.

    Count (negative when an integer sum did not fit), both sums, and the places of the least and the greatest value.
    """
    size = len(chosen)
    count, least, greatest = np.zeros(size, np.int64), np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    total, ftotal = np.zeros(size, np.int64), np.zeros(size, np.float64)
    for match in range(len(starts) - 1):
        for at in range(starts[match], starts[match + 1]):
            if at > starts[match]:
                count[at], least[at], greatest[at] = count[at - 1], least[at - 1], greatest[at - 1]
                total[at], ftotal[at] = total[at - 1], ftotal[at - 1]
            if not chosen[at]:
                continue
            before, value = total[at], ints[at]
            total[at] = np.int64(np.uint64(before) + np.uint64(value))
            overflown = ((before ^ total[at]) & (value ^ total[at])) < 0
            # The first value is the sum itself: adding it to 0.0 would lose the sign of -0.0.
            ftotal[at] = floats[at] if count[at] == 0 else ftotal[at] + floats[at]
            if least[at] < 0 or ranks[at] < ranks[least[at]]:
                least[at] = at
            if greatest[at] < 0 or ranks[at] > ranks[greatest[at]]:
                greatest[at] = at
            count[at] = -abs(count[at]) - 1 if count[at] < 0 or overflown else count[at] + 1
    return count, total, ftotal, least, greatest
