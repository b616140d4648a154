"""Everything announced about one attribute, in as few entries as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.metadata.intervals import Int64s, IntervalSet
from penstock.metadata.ordinals import has_ordinals, interval_pattern, limits, ordinal, ordinals, span, value_at
from penstock.model.masks import Mask, booleans, comparable, in_value_set, value_set
from penstock.model.scalars import plain
from penstock.model.value_sets import ANY, Pattern, between, constant, one_of, one_of_sorted

#: The last value that cannot occur here after each of the given ones.
Widen: TypeAlias = Callable[[Int64s], Int64s]


class _Store(Protocol):
    """Values other than NULL: lists, which hold no NULL, and ranges."""

    def add_values(self, pattern: Pattern) -> None: ...
    def add_range(self, pattern: Pattern) -> None: ...
    def contains(self, value: Any) -> bool: ...
    def held(self, pattern: Pattern) -> Mask: ...
    def covers_range(self, pattern: Pattern) -> bool: ...
    def mask(self, array: pa.Array) -> Mask: ...
    def within(self, pattern: Pattern) -> list[Pattern]: ...
    def prune(self, known: AttributeSet) -> None: ...
    @property
    def is_everything(self) -> bool: ...
    @property
    def entries(self) -> int: ...


class _OrdinalStore:
    """Values that have ordinals, as integer intervals."""

    __slots__ = ("_holds_all_integers", "_intervals", "_kind", "_widen")

    def __init__(self, kind: pa.DataType, widen: Widen | None = None) -> None:
        self._kind = kind
        self._holds_all_integers = bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))
        self._widen = widen if pa.types.is_integer(kind) else None
        self._intervals = IntervalSet()

    @property
    def is_everything(self) -> bool:
        least, greatest = limits(self._kind)
        return bool(self._intervals.covers(np.array([least]), np.array([greatest]))[0])

    @property
    def entries(self) -> int:
        return len(self._intervals)

    def add_values(self, pattern: Pattern) -> None:
        if self._widen is not None:
            numbers = self._numbers(pattern)
            self._intervals.add_ranges(numbers, self._widen(numbers))
        elif pattern.is_constant:
            number = ordinal(pattern.value, self._kind)
            if number is not None:
                self._intervals.add_value(number)
        else:
            self._intervals.add_many(self._numbers(pattern))

    def _numbers(self, pattern: Pattern) -> Int64s:
        if self._holds_all_integers and pattern.numbers is not None:
            return pattern.numbers
        target = pa.float64() if pa.types.is_floating(self._kind) else self._kind
        held_as = pa.int64() if pa.types.is_timestamp(target) else target
        return ordinals(value_set(pattern.values, held_as))[0]

    def add_range(self, pattern: Pattern) -> None:
        low, high = span(pattern, self._kind)
        if low <= high:
            self._intervals.add(low, high)

    def contains(self, value: Any) -> bool:
        number = ordinal(value, self._kind)
        return number is not None and self._intervals.contains(number)

    def held(self, pattern: Pattern) -> Mask:
        if pattern.is_constant:
            return np.array([self.contains(pattern.value)])
        numbers = self._numbers(pattern)
        if numbers is pattern.numbers or len(numbers) == len(pattern.values):
            return self._intervals.contains_many(numbers)
        return np.array([self.contains(value) for value in pattern.values])

    def covers_range(self, pattern: Pattern) -> bool:
        low, high = span(pattern, self._kind)
        return low > high or bool(self._intervals.covers(np.array([low]), np.array([high]))[0])

    def mask(self, array: pa.Array) -> Mask:
        numbers, valid = ordinals(array)
        return self._intervals.contains_many(numbers) & valid

    def within(self, pattern: Pattern) -> list[Pattern]:
        lows, highs = self._intervals.within(*span(pattern, self._kind))
        single = lows == highs
        wide = np.flatnonzero(~single)
        listed = one_of(value_at(number, self._kind) for number in lows[single].tolist())
        ranges = [interval_pattern(int(lows[i]), int(highs[i]), self._kind) for i in wide]
        return ranges if listed.is_empty else [*ranges, listed]

    def spans(self) -> tuple[Int64s, Int64s]:
        return self._intervals.lows, self._intervals.highs

    def add_spans(self, lows: Int64s, highs: Int64s) -> None:
        self._intervals.add_ranges(lows, highs)

    def meet(self, other: _OrdinalStore) -> _OrdinalStore:
        both = _OrdinalStore(self._kind, self._widen)
        both._intervals = self._intervals.meet(other._intervals)
        return both

    def prune(self, known: AttributeSet) -> None:
        store = known.store
        if isinstance(store, _OrdinalStore):
            lows, highs = self._intervals.lows, self._intervals.highs
            self._intervals.keep(~store._intervals.covers(lows, highs))


class _GenericStore:
    """Values of any type: constants in a hash set, ranges in a list that merges what touches."""

    __slots__ = ("_constants", "_prepared", "_ranges")

    def __init__(self) -> None:
        self._constants: set[Any] = set()
        self._prepared: pa.Array | None = None
        self._ranges: list[Pattern] = []

    @property
    def is_everything(self) -> bool:
        return self._ranges == [between(None, None)]

    @property
    def entries(self) -> int:
        return len(self._constants) + len(self._ranges)

    def add_values(self, pattern: Pattern) -> None:
        self._constants.update(pattern.values if not self._ranges else filter(self._is_new, pattern.values))
        self._prepared = None

    def _is_new(self, value: Any) -> bool:
        return not self.contains(value)

    def add_range(self, pattern: Pattern) -> None:
        apart = []
        for old in self._ranges:
            whole = pattern.joined(old)
            if whole is None:
                apart.append(old)
            else:
                pattern = whole
        self._ranges = [*apart, pattern]
        self._constants = {value for value in self._constants if not pattern.matches(value)}
        self._prepared = None

    def contains(self, value: Any) -> bool:
        return value in self._constants or any(pattern.matches(value) for pattern in self._ranges)

    def held(self, pattern: Pattern) -> Mask:
        known = self.contains if self._ranges else self._constants.__contains__
        return np.fromiter(map(known, pattern.values), np.bool_, len(pattern.values))

    def covers_range(self, pattern: Pattern) -> bool:
        return any(pattern.issubset(old) for old in self._ranges)

    def mask(self, array: pa.Array) -> Mask:
        rows = comparable(array)
        if self._prepared is None or self._prepared.type != rows.type:
            self._prepared = value_set(tuple(self._constants), rows.type)
        found = in_value_set(rows, self._prepared)
        for pattern in self._ranges:
            found |= pattern.matches_array(rows)
        return found

    def within(self, pattern: Pattern) -> list[Pattern]:
        parts = [pattern & old for old in self._ranges]
        parts.append(one_of(filter(pattern.matches, self._constants)))
        return [part for part in parts if not part.is_empty]

    def prune(self, known: AttributeSet) -> None:
        self._constants = {value for value in self._constants if not known.contains(value)}
        self._prepared = None
        self._ranges = [pattern for pattern in self._ranges if not known.covers(pattern)]


class AttributeSet:
    """The union of patterns announced for one attribute.

    Parameters
    ----------
    kind
        Type of the attribute. With it, integers, dates, clock times and floats become coalescing intervals, so that
        ascending punctuations cost constant memory. None: constants in a hash set, ranges merge where they touch.
    nullable
        Whether NULL must be announced too before everything is.
    widen
        For integers: the last value up to which those after each given value cannot occur here anyway. They count as
        announced too, so that values which are only here and there of interest still make few intervals.

    Examples
    --------
    >>> closed = AttributeSet(pa.int64())
    >>> closed.add(between(1, 4)), closed.add(constant(5)), closed.add(between(2, 5))
    (True, True, False)
    >>> [str(pattern) for pattern in closed.patterns()]
    ['[1,5]']
    """

    __slots__ = ("_is_complete", "_kind", "_null", "_nullable", "_widen", "store")

    def __init__(self, kind: pa.DataType | None = None, nullable: bool = True, widen: Widen | None = None) -> None:
        self._kind, self._nullable, self._widen = kind, nullable, widen
        self._is_complete = self._null = False
        self.store: _Store = self._empty_store()

    def _empty_store(self) -> _Store:
        return _OrdinalStore(self._kind, self._widen) if has_ordinals(self._kind) else _GenericStore()

    @property
    def is_complete(self) -> bool:
        """Whether every value is announced."""
        return self._is_complete

    @property
    def entries(self) -> int:
        """Number of values and intervals remembered."""
        return self.store.entries + self._null + self._is_complete

    def _normal(self, pattern: Pattern) -> Pattern:
        return pattern if self._kind is None else pattern.normalised(self._kind, self._nullable)

    def add(self, pattern: Pattern) -> bool:
        """Remember a pattern; False when everything it holds was known."""
        pattern = self._normal(pattern)
        if self._covers(pattern):
            return False
        if pattern.is_range:
            self.store.add_range(pattern)
        elif pattern.has_values:
            self._null = self._null or pattern.has_null
            if (listed := _without_null(pattern)) is not None:
                self.store.add_values(listed)
        if pattern.is_wildcard or (self.store.is_everything and (self._null or not self._nullable)):
            self.store, self._null, self._is_complete = self._empty_store(), False, True
        return True

    def covers(self, pattern: Pattern) -> bool:
        """Whether every value of the pattern is known to be announced."""
        return self._covers(self._normal(pattern))

    def _covers(self, pattern: Pattern) -> bool:
        if self._is_complete or pattern.is_empty:
            return True
        if pattern.is_range:
            return self.store.covers_range(pattern)
        if pattern.is_wildcard or (pattern.has_null and not self._null):
            return False
        listed = _without_null(pattern)
        return listed is None or bool(self.store.held(listed).all())

    def contains(self, value: Any) -> bool:
        """Whether the value is announced."""
        value = plain(value)
        if self._is_complete or value is None:
            return self._is_complete or self._null
        return self.store.contains(value)

    def mask(self, array: pa.Array) -> Mask:
        """Which rows of a column hold an announced value."""
        if self._is_complete:
            return np.ones(len(array), np.bool_)
        found = self.store.mask(array)
        return found | booleans(array.is_null()) if self._null else found

    def restrict(self, pattern: Pattern) -> list[Pattern]:
        """The announced part of a pattern."""
        pattern = self._normal(pattern)
        if self._covers(pattern):
            return [] if pattern.is_empty else [pattern]
        if pattern.has_values:
            kept = self._listed(pattern, True)
            return [] if kept.is_empty else [kept]
        parts = self.store.within(pattern if pattern.is_range else between(None, None))
        return [*parts, constant(None)] if self._null and pattern.is_wildcard else parts

    def patterns(self) -> list[Pattern]:
        """Everything announced, as few patterns."""
        return self.restrict(ANY)

    def beyond(self, pattern: Pattern) -> Pattern:
        """The pattern without those of its listed values that are announced."""
        return self._listed(pattern, False) if pattern.has_values else pattern

    def _listed(self, pattern: Pattern, is_held: bool) -> Pattern:
        """Those of a pattern's values that are announced, or those that are not; all at once, because lists can be long."""
        listed = _without_null(pattern)
        null = [None] if pattern.has_null and (self._null or self._is_complete) is is_held else []
        if listed is None:
            return one_of(null)
        held = np.ones(_length(listed), np.bool_) if self._is_complete else self.store.held(listed)
        chosen = held == is_held
        if not null and chosen.all():
            return listed
        if not null and listed.numbers is not None:
            return one_of_sorted(listed.numbers[chosen])
        return one_of([*(listed.values[at] for at in np.flatnonzero(chosen).tolist()), *null])

    def meet(self, other: AttributeSet) -> AttributeSet | None:
        """What both have announced, as a set of its own; None where it cannot be told at once."""
        mine, theirs = self.store, other.store
        if not isinstance(mine, _OrdinalStore) or not isinstance(theirs, _OrdinalStore) or self._kind != other._kind:
            return None
        if self._is_complete or other._is_complete or self._null or other._null:
            return None
        both = AttributeSet(self._kind, self._nullable, self._widen)
        both.store = mine.meet(theirs)
        return both

    def spans(self) -> tuple[Int64s, Int64s] | None:
        """Everything announced as ordinals, first and last of each interval; None where it is kept in another way."""
        if not isinstance(self.store, _OrdinalStore) or self._null or self._is_complete:
            return None
        return self.store.spans()

    def add_spans(self, lows: Int64s, highs: Int64s) -> None:
        """Remember what `spans` of a set of the same type gave; all at once, because a checkpoint can hold many."""
        assert isinstance(self.store, _OrdinalStore)
        self.store.add_spans(lows, highs)

    def prune(self, known: AttributeSet) -> None:
        """Forget what another set holds."""
        if known.is_complete:
            self.store = self._empty_store()
        self._null = self._null and not known.contains(None)
        self.store.prune(known)


def _without_null(pattern: Pattern) -> Pattern | None:
    """A list without its NULL; None when nothing is left."""
    if not pattern.has_null:
        return pattern
    values = [value for value in pattern.values if value is not None]
    return one_of(values) if values else None


def _length(pattern: Pattern) -> int:
    return len(pattern.values if pattern.numbers is None else pattern.numbers)
