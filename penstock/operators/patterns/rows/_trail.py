"""The rows a match has taken so far: which variable took each, and what conditions may ask about them.

Every depth of the trail has its own cells, made from those of the depth before. Going back is forgetting the deeper ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columnar.compiling import compiled
from penstock.operators.patterns._functions import compare_float
from penstock.operators.patterns._machine import Programs, Scratch, Values, holds
from penstock.operators.patterns.opcodes import GREATER, LESS
from penstock.operators.patterns.rows.conditions import CURRENT, FROM_FIRST


class Machine(NamedTuple):
    """The query in tables: instructions of the pattern, the program of each variable (-1: a bit of the row decides), bits of the
    variables that each name means, registers (kind, name, rows passed over), aggregates (name, column, whether float), and
    what programs need. Names are the variables and behind them subsets; -1 means all rows.
    """

    table: Any
    program: Any
    members: Any
    registers: Any
    slots: Any
    programs: Programs
    values: Values
    stack: Scratch


class Trail(NamedTuple):
    """`labels[d]` took the row at depth d, which is not shown if `hidden[d]`; `first[d]` and `last[d]` are the rows of each name,
    `cells[d]` the aggregates, after d rows. A row that does not exist is the one behind all others.
    """

    labels: Any
    hidden: Any
    first: Any
    last: Any
    cells: Any
    fcells: Any
    registers: Any
    #: Places to come back to: instruction and row.
    places: Any
    #: The last generation that tried an instruction at a row, and the present one.
    marks: Any
    generation: Any


def new_trail(machine: Machine, rows: int, longest: int, remembers: bool) -> Trail:
    """Room for the longest match; memory nobody touches costs nothing."""
    names, slots = len(machine.members), len(machine.slots)
    depth = 0 if remembers else longest
    cells = np.empty((depth + 1, 4 * slots), np.int64)
    cells[0] = 0
    first, last = np.empty((depth + 1, names), np.int64), np.empty((depth + 1, names), np.int64)
    first[0], last[0] = rows, rows
    marks = np.zeros((len(machine.table), rows) if remembers else (1, 1), np.int32)
    places = np.empty((len(machine.table) * (longest + 1), 2), np.int64)
    return Trail(
        np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64), first, last, cells, cells.view(np.float64),
        np.zeros(len(machine.registers), np.int64), places, marks, np.ones(1, np.int64),
    )  # fmt: skip


@compiled
def _count_in(machine: Machine, trail: Trail, variable: int, row: int, depth: int) -> None:  # pragma: no cover - compiled
    """Add a row to the aggregates over its variable and over all."""
    slots, cells, fcells, values = machine.slots, trail.cells, trail.fcells, machine.values
    for k in range(len(slots)):
        cell, column = 4 * k, slots[k, 1]
        if slots[k, 0] >= 0 and not (machine.members[slots[k, 0]] >> variable) & 1:
            continue
        if column < 0:
            cells[depth, cell] += 1
            continue
        if (values.nulls[row] >> column) & 1:
            continue
        is_first = cells[depth, cell] == 0
        if slots[k, 2]:
            number = values.floats[column, row]
            fcells[depth, cell + 1] = number if is_first else fcells[depth, cell + 1] + number
            if is_first or compare_float(LESS, number, fcells[depth, cell + 2]):
                fcells[depth, cell + 2] = number
            if is_first or compare_float(GREATER, number, fcells[depth, cell + 3]):
                fcells[depth, cell + 3] = number
            cells[depth, cell] += 1
            continue
        whole = values.ints[column, row]
        before = cells[depth, cell + 1]
        total = whole if is_first else np.int64(np.uint64(before) + np.uint64(whole))
        # A negative count says that the sum did not fit: it stays NULL, while the extremes go on.
        overflown = not is_first and ((before ^ total) & (whole ^ total)) < 0
        cells[depth, cell + 1] = total
        if is_first or whole < cells[depth, cell + 2]:
            cells[depth, cell + 2] = whole
        if is_first or whole > cells[depth, cell + 3]:
            cells[depth, cell + 3] = whole
        count = cells[depth, cell]
        cells[depth, cell] = -abs(count) - 1 if count < 0 or overflown else count + 1


@compiled
def _record(machine: Machine, trail: Trail, variable: int, row: int, depth: int) -> None:  # pragma: no cover - compiled
    """Let a variable take a row, for the time being."""
    trail.labels[depth] = variable
    nowhere = machine.values.nulls.shape[0] - 1
    for k in range(len(machine.members)):
        trail.first[depth + 1, k] = trail.first[depth, k]
        trail.last[depth + 1, k] = trail.last[depth, k]
        if (machine.members[k] >> variable) & 1:
            trail.last[depth + 1, k] = row
            if trail.first[depth, k] == nowhere:
                trail.first[depth + 1, k] = row
    for k in range(4 * len(machine.slots)):
        trail.cells[depth + 1, k] = trail.cells[depth, k]
    _count_in(machine, trail, variable, row, depth + 1)


@compiled
def _located(machine: Machine, trail: Trail, k: int, row: int, depth: int) -> Any:  # pragma: no cover - compiled
    """The row of register k, while `row` is tried at a depth."""
    kind, variable, passed = machine.registers[k, 0], machine.registers[k, 1], machine.registers[k, 2]
    nowhere = machine.values.nulls.shape[0] - 1
    if kind == CURRENT:
        return row
    if passed > depth:
        return nowhere
    if variable < 0:
        return row - depth + passed if kind == FROM_FIRST else row - passed
    if passed == 0:
        return trail.first[depth + 1, variable] if kind == FROM_FIRST else trail.last[depth + 1, variable]
    for at in range(depth + 1):
        place = at if kind == FROM_FIRST else depth - at
        if (machine.members[variable] >> trail.labels[place]) & 1:
            if passed == 0:
                return row - depth + place
            passed -= 1
    return nowhere


@compiled
def takes(machine: Machine, trail: Trail, bits: Any, variable: int, row: int, depth: int) -> bool:  # pragma: no cover - compiled
    """Whether a variable takes a row behind those of the trail; if so, the trail holds it."""
    program = machine.program[variable]
    if program < 0 and not (bits[row] >> variable) & 1:
        return False
    _record(machine, trail, variable, row, depth)
    if program < 0:
        return True
    for k in range(len(machine.registers)):
        trail.registers[k] = _located(machine, trail, k, row, depth)
    cells, fcells = trail.cells[depth + 1], trail.fcells[depth + 1]
    return holds(machine.programs, program, trail.registers, machine.values, cells, fcells, machine.stack)
