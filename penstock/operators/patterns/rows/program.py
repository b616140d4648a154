"""A row pattern as a table of instructions for the backtracking search."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.errors import InvalidEventPattern
from penstock.model.batch import Int64s
from penstock.model.row_patterns import (
    Alternation,
    Excluded,
    PartitionStart,
    Repeated,
    RowPattern,
    Sequence,
    Variable,
    variables_of,
)

#: Take a row by a variable, shown or not · go on at the first place, later perhaps at the second · go on elsewhere · the match
#: is complete · go on if no row stands before in the partition.
TAKE, SPLIT, JUMP, ACCEPT, START = 0, 1, 2, 3, 4
#: Longer programs come from repetitions of repetitions with large numbers.
MOST_INSTRUCTIONS = 4096


@dataclass
class Program:
    """Instructions in a table of three columns: code and two operands (variable, or places to go on).

    Examples
    --------
    >>> from penstock.model.row_pattern_text import parse_row_pattern
    >>> print(Program(parse_row_pattern("a b+ | c")))
    0: split 1, 5
    1: take a
    2: take b
    3: split 2, 4
    4: jump 6
    5: take c
    6: accept
    """

    pattern: RowPattern
    _code: list[list[int]] = field(default_factory=list)
    _is_hidden: bool = False

    def __post_init__(self) -> None:
        self.variables = variables_of(self.pattern)
        self._emit(self.pattern)
        self._add(ACCEPT)

    @property
    def table(self) -> Int64s:
        return np.array(self._code, np.int64)

    def _add(self, code: int, one: int = 0, other: int = 0) -> int:
        if len(self._code) >= MOST_INSTRUCTIONS:
            raise InvalidEventPattern(f"the pattern ({self.pattern}) is too large; use smaller numbers of repetitions")
        self._code.append([code, one, other])
        return len(self._code) - 1

    def _emit(self, pattern: RowPattern) -> None:
        match pattern:
            case Variable():
                self._add(TAKE, self.variables.index(pattern.name), int(self._is_hidden))
            case Sequence():
                for part in pattern.parts:
                    self._emit(part)
            case Alternation():
                self._alternation(pattern)
            case Repeated():
                self._repetition(pattern)
            case PartitionStart():
                self._add(START)
            case Excluded():
                before, self._is_hidden = self._is_hidden, True
                self._emit(pattern.part)
                self._is_hidden = before

    def _alternation(self, pattern: Alternation) -> None:
        ends = []
        for part in pattern.parts[:-1]:
            split = self._add(SPLIT)
            self._emit(part)
            ends.append(self._add(JUMP))
            self._code[split][1:] = [split + 1, len(self._code)]
        self._emit(pattern.parts[-1])
        for end in ends:
            self._code[end][1] = len(self._code)

    def _repetition(self, pattern: Repeated) -> None:
        start = len(self._code)
        for _ in range(pattern.least):
            start = len(self._code)
            self._emit(pattern.part)
        if pattern.most is not None:
            splits = []
            for _ in range(pattern.most - pattern.least):
                splits.append(self._add(SPLIT))
                self._emit(pattern.part)
            for split in splits:
                self._go_on(split, split + 1, len(self._code), pattern.is_reluctant)
        elif pattern.least:
            # The last obligatory one is the one that may be repeated.
            split = self._add(SPLIT)
            self._go_on(split, start, split + 1, pattern.is_reluctant)
        else:
            split = self._add(SPLIT)
            self._emit(pattern.part)
            self._add(JUMP, split)
            self._go_on(split, split + 1, len(self._code), pattern.is_reluctant)

    def _go_on(self, split: int, inside: int, outside: int, is_reluctant: bool) -> None:
        self._code[split][1:] = [outside, inside] if is_reluctant else [inside, outside]

    def __str__(self) -> str:
        return "\n".join(f"{at}: {self._text(*line)}" for at, line in enumerate(self._code))

    def _text(self, code: int, one: int, other: int) -> str:
        if code == TAKE:
            return f"take {self.variables[one]}{' unseen' if other else ''}"
        return {SPLIT: f"split {one}, {other}", JUMP: f"jump {one}", START: "start of partition"}.get(code, "accept")
