"""The reading for reasoners: in which interval a value must lie.

Sound rather than precise: an interval may be too wide, never too narrow, and `can_be_true` says False only when no row
can make the predicate true. NULL lies in no interval, because no comparison with it is true. NaN, greater than every
number, lies in an interval only when that has no upper end.

Bounds are values of the column's own kind: integers for integer and timestamp columns (microseconds), floats for float
and double columns, dates, texts, truth values. Columns are matched by the name as written.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from penstock.expressions.nodes import COMPARISONS, Call, Column, Expr, Literal, columns_of

#: Integers up to here are doubles, too.
_EXACT = 2**53
#: Relative error that results of float arithmetic may have; wide enough for columns of single precision.
_FLOAT_ERROR = 2.0**-22
_LARGEST_FLOAT = 3.4e38
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}


@dataclass(frozen=True, slots=True)
class Interval:
    """Values between two ends; an end that is None is open to everything.

    Examples
    --------
    >>> str(Interval(1, 10, hi_inclusive=False)), str(Interval(hi=5).intersect(Interval(3)))
    ('[1, 10)', '[3, 5]')
    """

    lo: Any = None
    hi: Any = None
    lo_inclusive: bool = True
    hi_inclusive: bool = True

    def __post_init__(self) -> None:
        # NaN is the greatest: as a lower end it is weakened to infinity, as an upper end it excludes nothing.
        if isinstance(self.lo, float) and math.isnan(self.lo):
            object.__setattr__(self, "lo", math.inf)
            object.__setattr__(self, "lo_inclusive", True)
        if isinstance(self.hi, float) and math.isnan(self.hi):
            object.__setattr__(self, "hi", None)

    @classmethod
    def point(cls, value: Any) -> Interval:
        return cls(value, value)

    @property
    def is_empty(self) -> bool:
        if self.lo is None or self.hi is None:
            return False
        if _below(self.hi, self.lo):
            return True
        return bool(self.lo == self.hi and not (self.lo_inclusive and self.hi_inclusive))

    @property
    def is_everything(self) -> bool:
        return self.lo is None and self.hi is None

    def contains(self, value: Any) -> bool:
        """Whether a value lies inside; NULL never does."""
        if value is None:
            return False
        if isinstance(value, float) and math.isnan(value):
            return self.hi is None
        return not self.intersect(Interval.point(value)).is_empty

    def intersect(self, other: Interval) -> Interval:
        """What lies in both."""
        lo, lo_inclusive = _tighter((self.lo, self.lo_inclusive), (other.lo, other.lo_inclusive), _below)
        hi, hi_inclusive = _tighter((self.hi, self.hi_inclusive), (other.hi, other.hi_inclusive), _above)
        return Interval(lo, hi, lo_inclusive, hi_inclusive)

    def hull(self, other: Interval) -> Interval:
        """The smallest interval around both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        lo, lo_inclusive = _looser((self.lo, self.lo_inclusive), (other.lo, other.lo_inclusive), _below)
        hi, hi_inclusive = _looser((self.hi, self.hi_inclusive), (other.hi, other.hi_inclusive), _above)
        return Interval(lo, hi, lo_inclusive, hi_inclusive)

    def __str__(self) -> str:
        if self.is_empty:
            return "∅"
        lo = "(-∞" if self.lo is None else f"{'[' if self.lo_inclusive else '('}{self.lo}"
        hi = "∞)" if self.hi is None else f"{self.hi}{']' if self.hi_inclusive else ')'}"
        return f"{lo}, {hi}"


EVERYTHING = Interval()
NOTHING = Interval(1, 0)

_End = tuple[Any, bool]


def _below(one: Any, other: Any) -> bool:
    """Whether `one` is certainly smaller; values of different kinds say nothing."""
    try:
        return bool(one < other)
    except TypeError:
        return False


def _above(one: Any, other: Any) -> bool:
    return _below(other, one)


def _tighter(one: _End, other: _End, is_outside: Callable[[Any, Any], bool]) -> _End:
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] and other[1]
    return other if is_outside(one[0], other[0]) else one


def _looser(one: _End, other: _End, is_outside: Callable[[Any, Any], bool]) -> _End:
    if one[0] is None or other[0] is None:
        return None, True
    if one[0] == other[0]:
        return one[0], one[1] or other[1]
    if is_outside(one[0], other[0]):
        return one
    return other if is_outside(other[0], one[0]) else (None, True)


# Values of expressions.


def bounds(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """Where the value of `expr` lies, if it is not NULL and columns lie where `known` says.

    Examples
    --------
    >>> total = Call("+", (Column("a"), Call("*", (Column("b"), Column("b")))))
    >>> str(bounds(total, {"a": Interval(0, 5), "b": Interval(-2, 3)}))
    '[-6, 14]'
    """
    if isinstance(expr, Column):
        return known.get(expr.name, EVERYTHING)
    if isinstance(expr, Literal):
        return NOTHING if expr.value is None else Interval.point(expr.value)
    parts = [bounds(arg, known) for arg in expr.args]
    if expr.op in ("+", "-", "*"):
        return _combined(expr.op, *parts)
    match expr.op:
        case "neg":
            return _combined("-", Interval.point(0), parts[0])
        case "abs":
            return _absolute(parts[0])
        case "coalesce" | "least" | "greatest":
            # NULL operands are passed over, so each may be the one that is left: only the hull is certain.
            return reduce(Interval.hull, parts)
        case "case":
            values = parts[1::2] + (parts[-1:] if len(parts) % 2 else [])
            return reduce(Interval.hull, values)
    return EVERYTHING


def _combined(op: str, one: Interval, other: Interval) -> Interval:
    if one.is_empty or other.is_empty:
        return NOTHING
    ends = (one.lo, one.hi, other.lo, other.hi)
    is_float = any(isinstance(end, float) for end in ends)
    try:
        if all(_is_finite(end) for end in ends):
            corners = [_APPLY[op](a, b) for a in ends[:2] for b in ends[2:]]
            return Interval(_outward(min(corners), -1, is_float), _outward(max(corners), 1, is_float))
        # An end at infinity can give NaN, which only an open upper end covers; the lower end holds for NaN as well.
        opposite = other.lo if op == "+" else other.hi
        if op != "*" and _is_finite(one.lo) and _is_finite(opposite):
            return Interval(_outward(_APPLY[op](one.lo, opposite), -1, is_float=True))
    except OverflowError:  # an integer too large for a double
        pass
    return EVERYTHING


_APPLY: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or math.isfinite(value))


def _outward(value: Any, direction: int, is_float: bool) -> Any:
    """The bound moved by what rounding can have cost; integers are exact."""
    if not is_float:
        return value
    moved = float(value) + direction * (abs(float(value)) * _FLOAT_ERROR + 1e-44)
    # Single precision overflows early.
    return direction * math.inf if moved * direction > _LARGEST_FLOAT else moved


def _absolute(part: Interval) -> Interval:
    if part.is_empty:
        return NOTHING
    if not (_is_finite(part.lo) and _is_finite(part.hi)):
        return Interval(0)
    low = 0 if part.lo <= 0 <= part.hi else min(abs(part.lo), abs(part.hi))
    return Interval(low, max(abs(part.lo), abs(part.hi)))


# Predicates.


def implied(expr: Expr) -> dict[str, Interval]:
    """For each column that `expr` restricts, where it must lie for `expr` to be true.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> {name: str(part) for name, part in implied(parse("a > 5 AND NOT (b < 2 OR b >= 9)")).items()}
    {'a': '(5, ∞)', 'b': '[2, 9)'}
    """
    found = _implied(expr, True)
    return dict.fromkeys(columns_of(expr), NOTHING) if found is None else found


#: Intervals per column; None when nothing can make the predicate true.
_Restriction = dict[str, Interval] | None


def _implied(expr: Expr, wanted: bool) -> _Restriction:
    """What follows from `expr` being true, or, if not `wanted`, false."""
    if isinstance(expr, Literal):
        return {} if expr.value is wanted else None
    if isinstance(expr, Column):
        return {expr.name: Interval.point(wanted)}
    if expr.op == "not":
        return _implied(expr.args[0], not wanted)
    if expr.op in ("and", "or"):
        parts = [_implied(arg, wanted) for arg in expr.args]
        return reduce(_both if (expr.op == "and") == wanted else _either, parts)
    if expr.op == "between":
        value, low, high = expr.args
        limits = Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))
        return _implied(limits, wanted)
    if expr.op == "in":
        matches = [_implied(Call("=", (expr.args[0], item)), wanted) for item in expr.args[1:]]
        return reduce(_either if wanted else _both, matches)
    return _implied_by_comparison(expr, wanted) if expr.op in COMPARISONS else {}


def _both(one: _Restriction, other: _Restriction) -> _Restriction:
    if one is None or other is None:
        return None
    result = dict(one)
    for name, interval in other.items():
        result[name] = result[name].intersect(interval) if name in result else interval
    return None if any(interval.is_empty for interval in result.values()) else result


def _either(one: _Restriction, other: _Restriction) -> _Restriction:
    if one is None or other is None:
        return other if one is None else one
    hulls = {name: one[name].hull(other[name]) for name in one.keys() & other.keys()}
    return {name: interval for name, interval in hulls.items() if not interval.is_everything}


def _implied_by_comparison(call: Call, wanted: bool) -> _Restriction:
    # `<=>` is true for two NULLs as well, unless one side is a constant that is none.
    if call.op == "<=>" and not (wanted and any(isinstance(arg, Literal) and arg.value is not None for arg in call.args)):
        return {}
    op = "=" if call.op == "<=>" else call.op if wanted else _NEGATED[call.op]
    one, other = call.args
    found: _Restriction = {}
    for side, against, relation in ((one, other, op), (other, one, _MIRRORED[op])):
        if isinstance(side, Column):
            interval = _satisfying(relation, bounds(against, {}))
            found = _both(found, {} if interval.is_everything else {side.name: interval})
    if not columns_of(call) and not _is_possible(op, bounds(one, {}), bounds(other, {})):
        return None
    return found


def _satisfying(op: str, against: Interval) -> Interval:
    """Values that stand in relation `op` to some value of `against`."""
    if against.is_empty:
        return NOTHING
    wide = _widened(against)
    match op:
        case "=":
            return wide
        case "<" | "<=":
            return Interval(None, wide.hi, True, wide.hi_inclusive and (op == "<=" or wide != against))
        case ">" | ">=":
            return Interval(wide.lo, None, wide.lo_inclusive and (op == ">=" or wide != against), True)
    return EVERYTHING


def _widened(interval: Interval) -> Interval:
    """Room for comparisons of integers with doubles: beyond 2^53 different integers are equal as doubles."""
    lo, hi = _rounded_out(interval.lo, -1), _rounded_out(interval.hi, 1)
    return Interval(lo, hi, interval.lo_inclusive or lo != interval.lo, interval.hi_inclusive or hi != interval.hi)


def _rounded_out(value: Any, direction: int) -> Any:
    if not _is_finite(value) or abs(value) < _EXACT:
        return value
    if isinstance(value, float):
        return math.nextafter(value, direction * math.inf)
    return value + direction * (abs(value) >> 51)


def can_be_true(expr: Expr, known: Mapping[str, Interval]) -> bool:
    """Whether some row with columns where `known` says can make `expr` true; False is certain.

    Examples
    --------
    >>> from penstock.expressions.parse import parse
    >>> can_be_true(parse("a < b"), {"a": Interval(5), "b": Interval(1, 5)})
    False
    """
    restriction = _implied(expr, True)
    if restriction is None:
        return False
    if any(known.get(name, EVERYTHING).intersect(part).is_empty for name, part in restriction.items()):
        return False
    return _can_be(expr, True, known)


def _can_be(expr: Expr, wanted: bool, known: Mapping[str, Interval]) -> bool:
    if isinstance(expr, Literal):
        return expr.value is wanted
    if isinstance(expr, Column):
        return known.get(expr.name, EVERYTHING).contains(wanted)
    if expr.op == "not":
        return _can_be(expr.args[0], not wanted, known)
    if expr.op in ("and", "or"):
        parts = [_can_be(arg, wanted, known) for arg in expr.args]
        return all(parts) if (expr.op == "and") == wanted else any(parts)
    if expr.op == "between":
        value, low, high = expr.args
        parts = [_can_be(Call(">=", (value, low)), wanted, known), _can_be(Call("<=", (value, high)), wanted, known)]
        return all(parts) if wanted else any(parts)
    if expr.op == "in" and wanted:
        return any(_can_be(Call("=", (expr.args[0], item)), True, known) for item in expr.args[1:])
    if expr.op in _NEGATED:
        op = expr.op if wanted else _NEGATED[expr.op]
        return _is_possible(op, bounds(expr.args[0], known), bounds(expr.args[1], known))
    return True


def _is_possible(op: str, one: Interval, other: Interval) -> bool:
    """Whether some value of `one` can stand in relation `op` to some value of `other`."""
    if one.is_empty or other.is_empty:
        return False
    return not _widened(one).intersect(_satisfying(op, other)).is_empty
