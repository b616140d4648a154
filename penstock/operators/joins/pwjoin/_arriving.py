"""What all states do with a tuple before and after they join it."""

from __future__ import annotations

from typing import Any

from penstock.model.elements import FOREVER, NEVER
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._clock import count_row, minus
from penstock.operators.joins.pwjoin._compiled import compiled
from penstock.operators.joins.pwjoin.trace import Fate

_VIOLATION, _TRUSTED, _NULL, _EXPIRED = int(Fate.VIOLATION), int(Fate.TRUSTED), int(Fate.NULL), int(Fate.EXPIRED)
#: Not yet a fate: the tuple may be joined.
ACCEPTED = -1
_ERROR, _TRUST = 0, 2


@compiled
def save_counts(m: Any) -> None:
    """Remember the counters, in case the results of the tuple find no room and it is tried again."""
    if m.numbers[lay.COLLECT]:
        for at in range(len(m.counts)):
            m.saved[at] = m.counts[at]


@compiled
def restore_counts(m: Any) -> None:
    for at in range(len(m.counts)):
        m.counts[at] = m.saved[at]


@compiled
def judged(m: Any, stream: Any, mask: Any, item: Any) -> Any:
    """Whether a tuple breaks a punctuation of its own stream, and what the policy says then."""
    if not mask & (1 << stream):
        return ACCEPTED
    if m.numbers[lay.ON_VIOLATION] == _TRUST:
        m.counts[lay.N_TRUSTED] += 1
        return _TRUSTED
    m.counts[lay.N_VIOLATIONS] += 1
    if m.numbers[lay.ON_VIOLATION] == _ERROR:
        m.numbers[lay.ERROR_ITEM] = item
    return _VIOLATION


@compiled
def _number(m: Any, stream: Any) -> Any:
    """Number of the next row of a stream, from 1; as given, where somebody else counts."""
    given = m.numbers[lay.GIVEN]
    return given if given > 0 else m.streams[stream, lay.ARRIVED] + 1


@compiled
def null_key(m: Any, stream: Any, item: Any) -> Any:
    """A tuple that joins nothing: it only counts, as one of the rows of its stream."""
    fate = judged(m, stream, m.streams[stream, lay.ENDED] << stream, item)
    if fate == _VIOLATION:
        return fate
    m.counts[lay.N_NULL] += fate == ACCEPTED
    count_arrival(m, stream, fate)
    return _NULL


@compiled
def count_arrival(m: Any, stream: Any, fate: Any) -> None:
    """Rows count whatever became of them, dropped ones too (ER-19); refused ones never were part of the stream."""
    if fate != _VIOLATION:
        count_row(m, stream, _number(m, stream))


@compiled
def place_in_window(m: Any, stream: Any, ts: Any) -> Any:
    """What the window of its stream sees of a new tuple: its time, or its number."""
    return _number(m, stream) if m.streams[stream, lay.BY_ROWS] else ts


@compiled
def is_expired(m: Any, stream: Any, at: Any) -> Any:
    """Whether a new tuple has left its window already, or has none."""
    if at < m.streams[stream, lay.LIMIT]:
        return True
    return m.streams[stream, lay.BY_ROWS] == 1 and m.streams[stream, lay.WINDOW] == 0


@compiled
def partner_bounds(m: Any, stream: Any, other: Any, ts: Any) -> Any:
    """Least and greatest time of partners in another stream, where order of arrival does not decide it."""
    if m.numbers[lay.CLOCK] == 0:
        return NEVER, FOREVER
    length = m.streams[stream, lay.WINDOW]
    high = FOREVER if length == lay.INFINITE or ts > FOREVER - length else ts + length
    return minus(ts, m.streams[other, lay.WINDOW]), high
