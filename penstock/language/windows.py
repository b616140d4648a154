"""Meaning of window clauses, lengths and moments.

A missing ADVANCE means "slide with each row" on the input of a join and "tumble" on an aggregate or DISTINCT; both may
be written out as SLIDE PER TUPLE and TUMBLING. Lengths are integers in the unit of the timestamp: microseconds for
clock time, the attribute's own unit otherwise.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation

from penstock.errors import InvalidWindow, Place, SyntaxMistake
from penstock.expressions.literals import shortened
from penstock.language.syntax import Amount, WindowClause, Word, expected
from penstock.model.durations import UNIT_MICROS
from penstock.model.elements import FOREVER, NEVER
from penstock.model.windows import Framed, Lifespan, Rows, Sliding, Unbounded, Window

_COUNTED = ("tuple", "row")
_CLOCK = re.compile(r"^(\d{1,2}):(\d{2})(?::(\d{2}))?$")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: Windows that are different ones from every other start on.
_NEEDS_BEGIN = ("fixed", "growing", "shrinking")


def length(amount: Amount, clock: bool) -> int:
    """A stretch of event time; a clock needs units, an integer attribute must not have any."""
    total = Decimal(0)
    for number, unit in amount.parts:
        value = _number(number)
        if clock and unit is None:
            text = f"'{number.text}' has no unit, and the stream has clock time; write for example {number.text} SECONDS"
            raise InvalidWindow(text, number.place)
        if not clock and unit is not None:
            text = f"the stream's timestamp is an integer without units; write {number.text} without '{unit.text}'"
            raise InvalidWindow(text, unit.place)
        total += value * (_micros(unit) if unit else 1)
    return _whole(total, amount.place)


def _micros(unit: Word) -> int:
    name = unit.text.lower().removesuffix("s")
    if name not in UNIT_MICROS:
        raise SyntaxMistake(expected(unit.text, [f"{legal}s" for legal in UNIT_MICROS], "as unit of time"), unit.place)
    return UNIT_MICROS[name]


def _number(word: Word) -> Decimal:
    try:
        return Decimal(word.text.strip())
    except InvalidOperation:
        if match := _CLOCK.match(word.text.strip()):
            hours, minutes = int(match[1]), int(match[2])
            instead = (
                f"write {hours} HOURS" + (f" {minutes} MINUTES" if minutes else "") + ", or use BEGIN and END for times of day"
            )
            raise SyntaxMistake(f"'{word.text}' is a time of day, and a length is wanted; {instead}", word.place) from None
        instead = "write the number and its unit without quotes: 10 MINUTES"
        raise SyntaxMistake(f"'{shortened(word.text)}' is no number; {instead}", word.place) from None


def _whole(value: Decimal, place: Place) -> int:
    if value != value.to_integral_value():
        raise InvalidWindow(f"{value} is not a whole number of units", place)
    if abs(value) >= FOREVER:
        raise InvalidWindow(f"{shortened(str(value))} is more than a timestamp can count", place)
    return int(value)


def count(amount: Amount) -> int:
    """A number of rows; the word TUPLES may follow."""
    (number, unit), *more = amount.parts
    if more or (unit and unit.text.lower().removesuffix("s") not in _COUNTED):
        found = unit or more[0][0]
        raise InvalidWindow(f"a ROW window counts rows; '{found.text}' is no count. Use RANGE for a stretch of time", found.place)
    return _whole(_number(number), number.place)


def _is_one_tuple(amount: Amount | None) -> bool:
    if amount is None or len(amount.parts) != 1:
        return False
    number, unit = amount.parts[0]
    return number.text == "1" and unit is not None and unit.text.lower() in _COUNTED


def join_window(clause: WindowClause | None, clock: bool, life: Lifespan) -> Window:
    """The window of a join's input; without a clause rows are kept until metadata say otherwise."""
    if clause is None or clause.measure == "UNBOUNDED":
        return Unbounded()
    if clause.partition_by:
        text = "a window on a join's input is one for all values; leave PARTITION BY out, or put it on the aggregate"
        raise InvalidWindow(text, clause.place)
    slides = clause.form == "SLIDE" or _is_one_tuple(clause.advance)
    moves = not slides and bool(clause.advance or clause.move or clause.anchor or clause.form == "TUMBLING")
    if clause.measure == "ROWS":
        if moves or clause.size is None:
            text = "a ROW window on a join's input holds the last rows and slides with each; write [ROWS n] alone, or use RANGE"
            raise InvalidWindow(text, clause.place)
        return Rows(count(clause.size)).check(clause.place)
    if moves:
        return _frame(clause, clock, life)
    assert clause.size is not None
    return Sliding(length(clause.size, clock)).check(clause.place)


def aggregate_window(clause: WindowClause | None, clock: bool, life: Lifespan) -> Framed | Unbounded:
    """The window of an aggregate or DISTINCT over one input; `partition_by` is filled in by the caller."""
    if clause is None or clause.measure == "UNBOUNDED":
        return Unbounded()
    if clause.form == "SLIDE" or (clause.measure == "RANGE" and _is_one_tuple(clause.advance)):
        text = "an aggregate that slides with each row is not available; write ADVANCE with the step you need"
        raise InvalidWindow(text, clause.place)
    return _frame(clause, clock, life)


def _frame(clause: WindowClause, clock: bool, life: Lifespan) -> Framed:
    in_rows = clause.measure == "ROWS"

    def measure(amount: Amount) -> int:
        return count(amount) if in_rows else length(amount, clock)

    _refuse_contradictions(clause)
    advance = measure(clause.advance) if clause.advance else None
    if advance is not None and advance <= 0:
        raise InvalidWindow(f"ADVANCE {advance} never moves the window; it must be greater than 0", clause.place)
    size = measure(clause.size) if clause.size else advance
    if size is None:
        raise InvalidWindow("LANDMARK needs ADVANCE: how far the window grows from answer to answer", clause.place)
    if clause.move:
        moves = measure(clause.move[0]), measure(clause.move[1])
    elif clause.anchor == "FIXED":
        moves = 0, 0
    elif clause.anchor == "LANDMARK":
        if advance is None:
            raise InvalidWindow("LANDMARK needs ADVANCE: how far the window grows from answer to answer", clause.place)
        moves = 0, advance
    else:
        step = size if advance is None else advance
        moves = step, step
    frame = Framed(size, *moves, in_rows=in_rows).check(life, clause.place)
    if clock and not in_rows and not life.has_begin and frame.kind in _NEEDS_BEGIN:
        text = (
            f"a {frame.kind} window of time starts with the query: without BEGIN that would be 1970; "
            "write BEGIN '2026-05-01 08:00:00' (or Now) before AS"
        )
        raise InvalidWindow(text, clause.place)
    return frame


def _refuse_contradictions(clause: WindowClause) -> None:
    given = [word for word, part in (("ADVANCE", clause.advance), ("MOVE", clause.move), (clause.form, clause.form)) if part]
    if clause.anchor == "FIXED":
        given.append("FIXED")
    if clause.anchor == "LANDMARK" and (clause.move or clause.form):
        given.append("LANDMARK")
    if len(given) > 1:
        raise InvalidWindow(f"{' and '.join(given)} say different things about the window's movement; keep one", clause.place)


def lifespan(begin: Word | None, end: Word | None, clock: bool, now: int | None) -> Lifespan:
    """BEGIN and END in event time. A clock time without date is its next occurrence; `now` is handed in."""
    start = moment(begin, clock, now, now) if begin else NEVER
    if begin and start == FOREVER:
        raise InvalidWindow("a query that begins at Infinity never runs; give a time, or leave BEGIN out", begin.place)
    stop = moment(end, clock, now, start if begin else now) if end else FOREVER
    if end and stop <= start:
        since = f"BEGIN {begin.text}" if begin else "the beginning of time"
        raise InvalidWindow(f"END {end.text} does not lie after {since}; give a later one", end.place)
    return Lifespan(start, stop).check(begin.place if begin else None)


def moment(word: Word, clock: bool, now: int | None, after: int | None) -> int:
    """One time of BEGIN or END; a clock time is the first one later than `after`."""
    if word.upper == "INFINITY":
        return FOREVER
    if word.upper == "NOW":
        return _known(now, word)
    if not clock:
        return _whole_number(word)
    if match := _CLOCK.match(word.text.strip()):
        return _next_occurrence(word, match, _known(after, word))
    try:
        parsed = dt.datetime.fromisoformat(word.text.strip())
    except ValueError:
        legal = ["'YYYY-MM-DD HH:MM:SS'", "'HH:MM'", "Now", "Infinity"]
        raise SyntaxMistake(expected(word.text, legal, "as a time of this clock-time stream"), word.place) from None
    return ((parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(microseconds=1)


def _known(now: int | None, word: Word) -> int:
    if now is None:
        raise InvalidWindow(
            f"'{word.text}' depends on the present time, which was not given; pass now=…, or write a date", word.place
        )
    return now


def _whole_number(word: Word) -> int:
    try:
        value = int(word.text)
        if abs(value) > FOREVER:
            raise InvalidWindow(f"{shortened(word.text)} is more than a timestamp can count", word.place)
        return value
    except ValueError:
        legal = ["an integer", "Now", "Infinity"]
        raise SyntaxMistake(expected(word.text, legal, "as a time of this integer-time stream"), word.place) from None


def _next_occurrence(word: Word, match: re.Match[str], after: int) -> int:
    hour, minute, second = (int(part or 0) for part in match.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise SyntaxMistake(f"'{word.text}' is no clock time; write 'HH:MM' between 00:00 and 23:59", word.place)
    day = UNIT_MICROS["day"]
    today = after - after % day + (hour * 3600 + minute * 60 + second) * UNIT_MICROS["second"]
    return today if today > after else today + day
