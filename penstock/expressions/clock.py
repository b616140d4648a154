"""Operations on timestamps and dates. Clock time is UTC, whatever a session says.

The calendar is computed here, for every timestamp and date there is: Arrow's own knows years up to 32767, Spark's timestamps reach
the year 294247 and its dates the year 5881580.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expressions.distinct_values import by_distinct_value
from penstock.expressions.numeric import Datum, checked, column, nulls, values
from penstock.expressions.text import constants
from penstock.expressions.typing import DATE, TRUNCATIONS, Typed
from penstock.model.schema import TIMESTAMP

Function = Callable[..., Datum]
Numbers = npt.NDArray[np.int64]

SECOND_MICROS, DAY_MICROS = 1_000_000, 86_400_000_000
#: The day nearest to the epoch whose midnight is no timestamp any more, before or behind it.
_UNREACHABLE_DAY = 106_751_992
#: Days from 1 March of the year 0, with which the arithmetic of leap years begins, to the epoch; days in 400 years.
_EPOCH_DAY, _ERA_DAYS = 719_468, 146_097


def micros(value: Datum) -> Datum:
    """Timestamps as microseconds since the epoch, bigints as they are."""
    return value if value.type == pa.int64() else pc.cast(value, pa.int64())


def shifted(name: str, result: pa.DataType) -> Function:
    """Addition or subtraction in which timestamps take part."""
    compute = checked(name)
    return lambda one, other: pc.cast(compute(micros(one), micros(other)), result)


def clock_part(unit_micros: int, cycle: int) -> Function:
    """Hour, minute or second of a timestamp, as an int."""

    def apply(value: Datum) -> Datum:
        found = np.mod(values(micros(value)), unit_micros * cycle) // unit_micros
        return column(np.asarray(found, np.int32), nulls(value), pa.int32())

    return apply


def calendar_part(number: int) -> Function:
    """Year (0), month (1) or day (2) of a date, as an int."""

    def apply(value: Datum) -> Datum:
        found = _civil(_days(value))[number]
        return column(np.asarray(found, np.int32), nulls(value), pa.int32())

    return apply


def truncated(node: Typed) -> Function:
    """The start of the unit a timestamp is in; NULL where that is before the first timestamp."""
    unit = str(constants(node, 0)[0]).lower()
    length = TRUNCATIONS[unit]
    if length is None:
        return lambda _, value: _midnights(_first_day(unit, values(micros(value)) // DAY_MICROS), value)

    def apply(_: Datum, value: Datum) -> Datum:
        moments = values(micros(value))
        rest = np.mod(moments, length)
        unreachable = moments < np.iinfo(np.int64).min + rest
        return _timestamps(moments - np.where(unreachable, 0, rest), nulls(value) | unreachable)

    return apply


def date_of(value: Datum) -> Datum:
    """The day of a timestamp."""
    return pc.cast(column(np.asarray(values(micros(value)) // DAY_MICROS, np.int32), nulls(value), pa.int32()), DATE)


def seconds_of(value: Datum) -> Datum:
    """Whole seconds since the epoch of a timestamp."""
    return column(np.asarray(values(micros(value)) // SECOND_MICROS), nulls(value), pa.int64())


def midnight_of(value: Datum) -> Datum:
    """The moment a date begins; NULL where no timestamp is that far away."""
    return _midnights(_days(value), value)


def date_text(value: Datum) -> Datum:
    """A date as text; years of other than four digits have a sign, as in Java."""
    usual = pc.and_(pc.greater_equal(value, _FIRST_USUAL), pc.less_equal(value, _LAST_USUAL))
    all_usual = usual.as_py() if isinstance(value, pa.Scalar) else pc.all(usual).as_py()
    return pc.cast(value, pa.string()) if all_usual is not False else _date_texts(pc.cast(pc.cast(value, pa.int32()), pa.string()))


_FIRST_USUAL, _LAST_USUAL = (pa.scalar(day, pa.int32()).cast(DATE) for day in (-719_528, 2_932_896))


def _date_text(day: str) -> str:
    year, month, number = (int(part) for part in _civil(np.asarray(int(day), np.int64)))
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{number:02}"


_date_texts = by_distinct_value(_date_text, pa.string())


def _days(date: Datum) -> Numbers:
    return np.asarray(values(pc.cast(date, pa.int32())), np.int64)


def _midnights(days: Numbers, source: Datum) -> Datum:
    unreachable = np.abs(days) >= _UNREACHABLE_DAY
    return _timestamps(np.where(unreachable, 0, days) * DAY_MICROS, nulls(source) | unreachable)


def _timestamps(moments: Numbers, missing: Any) -> Datum:
    return pc.cast(column(np.asarray(moments), missing, pa.int64()), TIMESTAMP)


def _first_day(unit: str, days: Numbers) -> Numbers:
    if unit == "week":
        return days - np.mod(days + 3, 7)  # the epoch was a Thursday
    year, month, _ = _civil(days)
    first = {"month": month, "quarter": (month - 1) // 3 * 3 + 1, "year": np.ones_like(month)}[unit]
    return _day_number(year, first)


def _civil(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Year, month and day of days since the epoch in the Gregorian calendar, also before it was made.

    Years begin with March here, so that the leap day is the last of its year and months follow a rule: 153 days in five.
    """
    era, day_of_era = np.divmod(days + _EPOCH_DAY, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    month = np.where(march_month < 10, march_month + 3, march_month - 9)
    year = era * 400 + year_of_era + (month <= 2)
    return year, month, day_of_year - (153 * march_month + 2) // 5 + 1


def _day_number(year: Numbers, month: Numbers) -> Numbers:
    """Days since the epoch of the first day of a month; the inverse of `_civil`."""
    from_march = year - (month <= 2)
    era, year_of_era = np.divmod(from_march, 400)
    day_of_year = (153 * np.mod(month + 9, 12) + 2) // 5
    result: Numbers = era * _ERA_DAYS + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _EPOCH_DAY
    return result
