"""Results and output punctuations of a core."""

from __future__ import annotations

from typing import Any

from penstock.operators.joins.pwjoin import layout as lay
from penstock.operators.joins.pwjoin._compiled import compiled

#: Columns of the wheel: the partners of a stream in the scratch, from BEGIN to END, and the current one.
BEGIN, END, CURRENT = range(3)


@compiled
def emit_mark(m: Any, low: Any, high: Any, stream: Any, item: Any) -> None:
    """No result with these keys follows."""
    end = m.numbers[lay.MARKS]
    m.marks[end, lay.M_LOW] = low
    m.marks[end, lay.M_HIGH] = high
    m.marks[end, lay.M_TS] = m.numbers[lay.NOW]
    m.marks[end, lay.M_STREAM] = stream
    m.marks[end, lay.M_ITEM] = item
    m.numbers[lay.MARKS] = end + 1
    m.counts[lay.N_PROPAGATED] += 1


@compiled
def combinations(m: Any, stream: Any) -> Any:
    """Number of combinations of the gathered partners."""
    number = 1
    for other in range(m.numbers[lay.STREAMS]):
        if other != stream:
            number *= m.wheel[other, END] - m.wheel[other, BEGIN]
    return number


@compiled
def has_room(m: Any, number: Any) -> Any:
    """Whether so many results can be kept; otherwise the host is asked for room."""
    if m.numbers[lay.COLLECT] and m.numbers[lay.FOUND] + number > len(m.found):
        m.numbers[lay.NEEDED] = m.numbers[lay.FOUND] + number
        return False
    return True


@compiled
def _fit(m: Any, stream: Any, ts: Any) -> Any:
    """Whether the windows allow the current combination: the newest is at most W_k newer than part k, for every k."""
    newest = ts
    for other in range(m.numbers[lay.STREAMS]):
        if other != stream:
            newest = max(newest, m.nodes[m.scratch[m.wheel[other, CURRENT]], lay.TS])
    for other in range(m.numbers[lay.STREAMS]):
        length = m.streams[other, lay.WINDOW]
        if length != lay.INFINITE and not m.streams[other, lay.BY_ROWS]:
            mine = ts if other == stream else m.nodes[m.scratch[m.wheel[other, CURRENT]], lay.TS]
            if newest - mine > length:
                return False
    return True


@compiled
def _keep(m: Any, stream: Any, row: Any, item: Any) -> None:
    end = m.numbers[lay.FOUND]
    for other in range(m.numbers[lay.STREAMS]):
        if other == stream:
            m.found[end, other] = row
        else:
            m.found[end, other] = m.nodes[m.scratch[m.wheel[other, CURRENT]], lay.ROW]
    m.found[end, m.numbers[lay.STREAMS]] = item
    m.numbers[lay.FOUND] = end + 1


@compiled
def _turn(m: Any, stream: Any) -> Any:
    """Turn the wheels to the next combination; False after the last."""
    other = m.numbers[lay.STREAMS] - 1
    while other >= 0:
        if other != stream:
            m.wheel[other, CURRENT] += 1
            if m.wheel[other, CURRENT] < m.wheel[other, END]:
                return True
            m.wheel[other, CURRENT] = m.wheel[other, BEGIN]
        other -= 1
    return False


@compiled
def _keep_pairs(m: Any, stream: Any, row: Any, item: Any, number: Any) -> None:
    """Results of two streams: a loop without wheels, because most joins are of two streams."""
    found, nodes, scratch, other = m.found, m.nodes, m.scratch, 1 - stream
    end, begin = m.numbers[lay.FOUND], m.wheel[other, BEGIN]
    for at in range(number):
        found[end + at, stream] = row
        found[end + at, other] = nodes[scratch[begin + at], lay.ROW]
        found[end + at, 2] = item
    m.numbers[lay.FOUND] = end + number


@compiled
def emit_results(m: Any, stream: Any, ts: Any, row: Any, item: Any, number: Any) -> None:
    """Combine a tuple with its gathered partners."""
    if number == 0:
        return
    # In one global order whatever is stored is within its window; otherwise times decide.
    is_ordered = m.numbers[lay.CLOCK] == 0
    is_pair = m.numbers[lay.STREAMS] == 2
    if is_pair or (is_ordered and not m.numbers[lay.COLLECT]):
        # Of two streams only partners within both windows have been gathered.
        m.counts[lay.N_RESULTS] += number
        if m.numbers[lay.COLLECT]:
            _keep_pairs(m, stream, row, item, number)
        return
    for other in range(m.numbers[lay.STREAMS]):
        m.wheel[other, CURRENT] = m.wheel[other, BEGIN]
    goes_on = True
    while goes_on:
        if is_ordered or _fit(m, stream, ts):
            m.counts[lay.N_RESULTS] += 1
            if m.numbers[lay.COLLECT]:
                _keep(m, stream, row, item)
        goes_on = _turn(m, stream)
