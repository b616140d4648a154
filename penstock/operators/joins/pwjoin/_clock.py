"""Time of a core: frontiers, and what they let expire."""

from __future__ import annotations

from typing import Any

from penstock.model.elements import FOREVER, NEVER
from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled, entry
from penstock.operators.joins.pwjoin.trace import GREATEST_KEY, LEAST_KEY, Fate, Kind

_TUPLE, _HEARTBEAT, _NULL, _LATE = int(Kind.TUPLE), int(Kind.HEARTBEAT), int(Kind.NULL_KEY), int(Fate.LATE)


@compiled
def minus(horizon: Any, length: Any) -> Any:
    """Least time that is still in a window of this length; the end of all other inputs ends every window."""
    if horizon in (FOREVER, NEVER):
        return horizon
    if length == lay.INFINITE or horizon < NEVER + length:
        return NEVER
    return horizon - length


@compiled
def set_limits(m: Any) -> None:
    """What has left each window, from the frontiers of the other streams."""
    for stream in range(m.numbers[lay.STREAMS]):
        horizon = m.numbers[lay.NOW]
        if m.numbers[lay.CLOCK] != 0:
            horizon = FOREVER
            for other in range(m.numbers[lay.STREAMS]):
                if other != stream:
                    horizon = min(horizon, m.streams[other, lay.FRONTIER])
        if not m.streams[stream, lay.BY_ROWS]:
            m.streams[stream, lay.LIMIT] = minus(horizon, m.streams[stream, lay.WINDOW])
        elif horizon == FOREVER:
            m.streams[stream, lay.LIMIT] = FOREVER


@compiled
def count_row(m: Any, stream: Any, number: Any) -> None:
    """The stream has had `number` rows; whatever its window of rows does not hold any more may go."""
    m.streams[stream, lay.ARRIVED] = max(m.streams[stream, lay.ARRIVED], number)
    if m.streams[stream, lay.BY_ROWS] and m.streams[stream, lay.WINDOW] != lay.INFINITE and m.streams[stream, lay.LIMIT] != FOREVER:
        m.streams[stream, lay.LIMIT] = m.streams[stream, lay.ARRIVED] - m.streams[stream, lay.WINDOW] + 1


@entry
def count_rows(m: Any, stream: Any, number: Any) -> None:
    """`count_row` for the host."""
    count_row(m, stream, number)


@compiled
def count_ranks(m: Any, ranks: Any, item: Any, stream: Any) -> None:
    """Somebody else has counted the rows of all streams, and so numbered this one."""
    if len(ranks):
        for other in range(m.numbers[lay.STREAMS]):
            count_row(m, other, ranks[item, other])
        m.numbers[lay.GIVEN] = ranks[item, stream] + 1


@compiled
def end_stream(m: Any, stream: Any, low: Any, high: Any) -> Any:
    """Whether a punctuation of this range ends its stream in a way that moves time on."""
    if low != LEAST_KEY or high != GREATEST_KEY:
        return False
    m.streams[stream, lay.ENDED] = 1
    if m.numbers[lay.CLOCK] == 0:
        return False
    m.streams[stream, lay.FRONTIER] = FOREVER
    set_limits(m)
    return True


@compiled
def tick(m: Any, kind: Any, stream: Any, ts: Any) -> None:
    """Let an item move time on: every kind of item does in a global order, its own stream's in source order."""
    clock = m.numbers[lay.CLOCK]
    if clock == 0:
        if ts > m.numbers[lay.NOW]:
            m.numbers[lay.NOW] = ts
            set_limits(m)
        return
    m.numbers[lay.NOW] = max(m.numbers[lay.NOW], ts)
    if (clock == 1 or kind == _HEARTBEAT) and ts > m.streams[stream, lay.FRONTIER]:
        m.streams[stream, lay.FRONTIER] = ts
        set_limits(m)


@compiled
def is_late(m: Any, kind: Any, stream: Any, ts: Any, item: Any, fates: Any) -> Any:
    """Refuse a tuple behind its frontier."""
    if kind != _TUPLE and kind != _NULL:
        return False
    frontier = m.numbers[lay.NOW] if m.numbers[lay.CLOCK] == 0 else m.streams[stream, lay.FRONTIER]
    if ts >= frontier:
        return False
    m.counts[lay.N_LATE] += 1
    fates[item] = _LATE
    if not m.numbers[lay.ON_LATE]:
        m.numbers[lay.ERROR_ITEM] = item
    return True
