"""Row patterns as values: regular expressions over the rows of a partition, as `PATTERN (…)` of SQL writes them.

Every row of a match is taken by one variable. Alternatives stand in the order in which they are preferred, and a repetition
prefers more rows unless it is reluctant. What a variable demands of a row stands beside the pattern, in the query.

Examples
--------
>>> fall = Repeated(Variable("down"), 1, None)
>>> shape = Sequence((Variable("start"), fall, Alternation((Variable("up"), Variable("flat")))))
>>> str(shape)
'start down+ (up | flat)'
>>> variables_of(shape), least_rows(shape), most_rows(shape)
(('start', 'down', 'up', 'flat'), 3, None)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from penstock.errors import InvalidEventPattern

#: More variables than this do not fit the bits of a row's class.
MOST_VARIABLES = 60
#: PERMUTE of more parts has too many alternatives.
MOST_PERMUTED = 6


@dataclass(frozen=True, slots=True)
class Variable:
    """One row that meets the condition of the variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Sequence:
    """Its parts, each directly behind the one before; without parts it takes no row."""

    parts: tuple[RowPattern, ...]

    def __str__(self) -> str:
        return " ".join(f"({part})" if isinstance(part, Alternation) else str(part) for part in self.parts) or "()"


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of its parts; an earlier one is preferred."""

    parts: tuple[RowPattern, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Repeated:
    """A part `least` to `most` times in a row; None is without limit. Greedy, unless it is reluctant."""

    part: RowPattern
    least: int
    most: int | None
    is_reluctant: bool = False

    def __post_init__(self) -> None:
        if self.most is not None and (self.most < self.least or self.most == 0):
            raise InvalidEventPattern(f"'{self}' allows no number of rows; write {{n,m}} with n <= m and m > 0")
        if can_be_empty(self.part):
            raise InvalidEventPattern(
                f"'{self}' repeats what may take no row at all; let only one of the two be optional, as in A* instead of (A?)*"
            )

    def __str__(self) -> str:
        inner = str(self.part) if isinstance(self.part, Variable | Excluded) else f"({self.part})"
        return inner + _quantifier(self.least, self.most) + ("?" if self.is_reluctant else "")


@dataclass(frozen=True, slots=True)
class Excluded:
    """Rows that belong to the match but are not shown where all its rows are: `{- … -}`."""

    part: RowPattern

    def __str__(self) -> str:
        return f"{{- {self.part} -}}"


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """No row: the place before the first row of a partition, `^`."""

    def __str__(self) -> str:
        return "^"


RowPattern: TypeAlias = Variable | Sequence | Alternation | Repeated | Excluded | PartitionStart


def _quantifier(least: int, most: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (least, most) in short:
        return short[least, most]
    if least == most:
        return f"{{{least}}}"
    return f"{{{least},{'' if most is None else most}}}"


def permuted(parts: tuple[RowPattern, ...]) -> RowPattern:
    """`PERMUTE`: the parts in any order; orders are preferred as in a dictionary.

    Examples
    --------
    >>> str(permuted((Variable("a"), Variable("b"))))
    'a b | b a'
    """
    if len(parts) > MOST_PERMUTED:
        raise InvalidEventPattern(f"PERMUTE takes at most {MOST_PERMUTED} parts; found {len(parts)}")
    orders = tuple(Sequence(order) for order in permutations(parts))
    return orders[0] if len(orders) == 1 else Alternation(orders)


def parts_of(pattern: RowPattern) -> tuple[RowPattern, ...]:
    """The patterns one is made of; none for a variable."""
    match pattern:
        case Variable() | PartitionStart():
            return ()
        case Repeated() | Excluded():
            return (pattern.part,)
    return pattern.parts


def variables_of(pattern: RowPattern) -> tuple[str, ...]:
    """The variables in the order in which they are first named."""
    if isinstance(pattern, Variable):
        return (pattern.name,)
    return tuple(dict.fromkeys(name for part in parts_of(pattern) for name in variables_of(part)))


def has_start(pattern: RowPattern) -> bool:
    """Whether some part asks for the start of a partition."""
    return isinstance(pattern, PartitionStart) or any(map(has_start, parts_of(pattern)))


def least_rows(pattern: RowPattern) -> int:
    """Rows the shortest match has."""
    match pattern:
        case Variable():
            return 1
        case Sequence():
            return sum(map(least_rows, pattern.parts))
        case Alternation():
            return min(map(least_rows, pattern.parts))
        case Repeated():
            return pattern.least * least_rows(pattern.part)
        case Excluded():
            return least_rows(pattern.part)
        case PartitionStart():
            return 0


def most_rows(pattern: RowPattern) -> int | None:
    """Rows the longest match has; None when there is no limit."""
    match pattern:
        case Variable():
            return 1
        case Repeated():
            inner = most_rows(pattern.part)
            return None if inner is None or pattern.most is None else pattern.most * inner
        case Excluded():
            return most_rows(pattern.part)
        case PartitionStart():
            return 0
    lengths = [most_rows(part) for part in pattern.parts]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        return None
    return sum(known) if isinstance(pattern, Sequence) else max(known)


def can_be_empty(pattern: RowPattern) -> bool:
    return least_rows(pattern) == 0


def least_before(pattern: RowPattern) -> dict[str, int]:
    """For each variable the fewest rows of a match that stand before one of its own.

    Examples
    --------
    >>> least_before(Sequence((Repeated(Variable("a"), 0, 1), Variable("b"), Variable("a"))))
    {'a': 0, 'b': 0}
    """
    if isinstance(pattern, Variable):
        return {pattern.name: 0}
    found: dict[str, int] = {}
    ahead = 0
    for part in parts_of(pattern):
        for name, before in least_before(part).items():
            found[name] = min(found.get(name, ahead + before), ahead + before)
        if isinstance(pattern, Sequence):
            ahead += least_rows(part)
    return found
