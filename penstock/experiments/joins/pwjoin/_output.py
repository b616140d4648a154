"""Results and output punctuations."""

from __future__ import annotations

from typing import Any

from penstock.columnar.compiling import compiled, woven
from penstock.experiments.joins.pwjoin import layout as lay


@woven
def save_counts(m: Any) -> None:
    """Remember the counters, in case the results of a tuple find no room and it is tried again."""
    if m.numbers[lay.COLLECTS]:
        for at in range(len(m.counts)):
            m.saved[at] = m.counts[at]


@woven
def has_room(m: Any, number: Any) -> Any:
    """Whether so many results can be kept; otherwise the host is asked for room, and the tuple has not been counted."""
    if m.numbers[lay.COLLECTS] and m.numbers[lay.FOUND] + number > len(m.found):
        m.numbers[lay.NEEDED] = m.numbers[lay.FOUND] + number
        for at in range(len(m.counts)):
            m.counts[at] = m.saved[at]
        return False
    return True


@compiled
def emit_mark(m: Any, key: Any, stream: Any, item: Any) -> None:
    """No result with this key follows."""
    end = m.numbers[lay.MARKS]
    m.marks[end, lay.M_KEY] = key
    m.marks[end, lay.M_TS] = m.numbers[lay.NOW]
    m.marks[end, lay.M_STREAM] = stream
    m.marks[end, lay.M_ITEM] = item
    m.marks[end, lay.M_AFTER] = m.counts[lay.N_RESULTS]
    m.numbers[lay.MARKS] = end + 1
    m.counts[lay.N_PROPAGATED] += 1


@woven
def combinations(m: Any, stream: Any) -> Any:
    """Number of combinations of the gathered partners."""
    number = 1
    for other in range(m.numbers[lay.STREAMS]):
        if other != stream:
            number *= m.partners[other, lay.END] - m.partners[other, lay.BEGIN]
    return number


@woven
def emit_results(m: Any, stream: Any, item: Any, number: Any) -> None:
    """Combine a tuple with its gathered partners, `number` combinations."""
    m.counts[lay.N_RESULTS] += number
    if number == 0 or not m.numbers[lay.COLLECTS]:
        return
    for other in range(m.numbers[lay.STREAMS]):
        m.partners[other, lay.CURRENT] = m.partners[other, lay.BEGIN]
    goes_on = True
    while goes_on:
        end = m.numbers[lay.FOUND]
        for other in range(m.numbers[lay.STREAMS]):
            if other != stream:
                m.found[end, other] = m.nodes[m.scratch[m.partners[other, lay.CURRENT]], lay.ITEM]
        m.found[end, stream] = item
        m.found[end, m.numbers[lay.STREAMS]] = item
        m.numbers[lay.FOUND] = end + 1
        goes_on = _turn(m, stream)


@compiled
def _turn(m: Any, stream: Any) -> Any:
    """Turn to the next combination; False after the last."""
    other = m.numbers[lay.STREAMS] - 1
    while other >= 0:
        if other != stream:
            m.partners[other, lay.CURRENT] += 1
            if m.partners[other, lay.CURRENT] < m.partners[other, lay.END]:
                return True
            m.partners[other, lay.CURRENT] = m.partners[other, lay.BEGIN]
        other -= 1
    return False
