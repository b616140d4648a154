"""Compiled loops over profile rows. A profile row is one word: bit k is set when filter k rejects the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columnar.compiling import entrance

_ONE = np.uint64(1)
_NONE = np.uint64(0)


@entrance
def is_set(word: Any, bit: int) -> bool:  # pragma: no cover - compiled
    return bool((word >> np.uint64(bit)) & _ONE)


@entrance
def rejecting_position(word: Any, order: Any) -> int:  # pragma: no cover - compiled
    """The first position whose filter rejects the row; the number of filters when none does."""
    position = 0
    while position < len(order) and not is_set(word, order[position]):
        position += 1
    return position


@entrance
def mixed(x: Any) -> Any:  # pragma: no cover - compiled
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@entrance
def toss(seed: Any, places: Any, lane: Any, limit: Any, out: Any) -> None:  # pragma: no cover - compiled
    """Whether the 53 random bits of each place are less than `limit`."""
    began = mixed(seed)
    for k in range(len(places)):
        out[k] = mixed(mixed(began + places[k]) + lane) >> np.uint64(11) < limit


# -- matrix view ------------------------------------------------------------------------------------------------------


@entrance
def count_rows(view: Any, order: Any, words: Any, sign: int) -> None:  # pragma: no cover - compiled
    """Figure 3: each rejecting filter from the first rejecting position on counts in the rows up to it."""
    for k in range(len(words)):
        first = rejecting_position(words[k], order)
        for column in range(first, len(order)):
            if is_set(words[k], order[column]):
                for row in range(first + 1):
                    view[row, column] += sign


@entrance
def scan_row(words: Any, order: Any, row: int, out: Any) -> None:  # pragma: no cover - compiled
    """`out[c]`: profile rows that pass the positions before `row` and are rejected at position c, for c from `row` on."""
    before = _NONE
    for position in range(row):
        before |= _ONE << np.uint64(order[position])
    out[row:] = 0
    for k in range(len(words)):
        if words[k] & before == _NONE:
            for column in range(row, len(order)):
                if is_set(words[k], order[column]):
                    out[column] += 1


@entrance
def may_come(order: Any, after: Any, position: int, column: int) -> bool:  # pragma: no cover - compiled
    """Whether everything that must precede the filter at `column` stands before `position`."""
    missing = after[order[column]]
    if missing == _NONE:
        return True
    for earlier in range(position):
        missing &= ~(_ONE << np.uint64(order[earlier]))
    return bool(missing == _NONE)


@entrance
def violated_pair(
    view: Any, order: Any, costs: Any, alpha: float, least: int, after: Any
) -> tuple[int, int]:  # pragma: no cover - compiled
    """The smallest violated position and the first column that beats it; (-1, -1) when the order is right."""
    for row in range(len(order) - 1):
        left = view[row, row] / costs[order[row]]
        for column in range(row + 1, len(order)):
            count = view[row, column]
            if count >= least and left < alpha * count / costs[order[column]] and may_come(order, after, row, column):
                return row, column
    return -1, -1


@entrance
def best_column(view: Any, order: Any, costs: Any, row: int, after: Any) -> int:  # pragma: no cover - compiled
    """The position whose filter rejects most per unit of cost among rows that reach `row`; ties stay where they are."""
    best = row
    for column in range(row + 1, len(order)):
        gain, leading = view[row, column] / costs[order[column]], view[row, best] / costs[order[best]]
        if gain > leading and may_come(order, after, row, column):
            best = column
    return best


# -- Sweep, Independent, LocalSwaps -----------------------------------------------------------------------------------


@entrance
def sweep_rows(words: Any, order: Any, watched: int, own: Any, seen: Any) -> None:  # pragma: no cover - compiled
    """Rejections by each position up to the watched one, and by the watched filter among rows that reach each position."""
    for k in range(len(words)):
        first = rejecting_position(words[k], order)
        if first > watched:
            continue
        own[first] += 1
        if is_set(words[k], order[watched]):
            for row in range(first + 1):
                seen[row] += 1


@entrance
def count_filters(words: Any, counts: Any, sign: int) -> None:  # pragma: no cover - compiled
    """Rejections by each filter, whatever the others say."""
    for k in range(len(words)):
        for number in range(len(counts)):
            if is_set(words[k], number):
                counts[number] += sign


@entrance
def violated_rank(
    counts: Any, order: Any, costs: Any, alpha: float, least: int, after: Any
) -> tuple[int, int]:  # pragma: no cover - compiled
    """The smallest position with a later filter that rejects more per unit of cost; (-1, -1) when there is none."""
    for row in range(len(order) - 1):
        left = counts[order[row]] / costs[order[row]]
        for column in range(row + 1, len(order)):
            count = counts[order[column]]
            if count >= least and left < alpha * count / costs[order[column]] and may_come(order, after, row, column):
                return row, column
    return -1, -1


@entrance
def count_neighbours(words: Any, order: Any, own: Any, following: Any, sign: int) -> None:  # pragma: no cover - compiled
    """Two diagonals: `own[i]` rejected at i, `following[i]` reached i and rejected by the filter at i + 1."""
    for k in range(len(words)):
        first = rejecting_position(words[k], order)
        if first == len(order):
            continue
        own[first] += sign
        if first > 0:
            following[first - 1] += sign
        if first + 1 < len(order) and is_set(words[k], order[first + 1]):
            following[first] += sign


@entrance
def violated_neighbour(
    own: Any, following: Any, order: Any, costs: Any, alpha: float, least: int, after: Any
) -> int:  # pragma: no cover - compiled
    """The first position whose successor should stand before it; -1 when there is none."""
    for row in range(len(order) - 1):
        here, there = order[row], order[row + 1]
        is_beaten = own[row] / costs[here] < alpha * following[row] / costs[there]
        if is_beaten and following[row] >= least and not is_set(after[there], here):
            return row
    return -1


# -- row by row -------------------------------------------------------------------------------------------------------
# Each loop takes rows in one at a time, comparing after each, and stops before the first row that would change the order.
# `history` is the window followed by the new rows; `held` is the length of the window now, `room` its limit.


@entrance
def rows_before_greedy_violation(
    view: Any, order: Any, history: Any, held: int, room: int, costs: Any, alpha: float, least: int, after: Any, fill: int
) -> int:  # pragma: no cover - compiled
    for k in range(len(history) - held):
        new, old = history[held + k : held + k + 1], history[max(held + k - room, 0) : held + k - room + 1]
        is_full = held + k >= room
        if is_full:
            count_rows(view, order, old, -1)
        count_rows(view, order, new, +1)
        if min(held + k + 1, room) >= fill and violated_pair(view, order, costs, alpha, least, after)[0] >= 0:
            count_rows(view, order, new, -1)
            if is_full:
                count_rows(view, order, old, +1)
            return k
    return len(history) - held


@entrance
def rows_before_rank_violation(
    counts: Any, order: Any, history: Any, held: int, room: int, costs: Any, alpha: float, least: int, after: Any, fill: int
) -> int:  # pragma: no cover - compiled
    for k in range(len(history) - held):
        new, old = history[held + k : held + k + 1], history[max(held + k - room, 0) : held + k - room + 1]
        is_full = held + k >= room
        if is_full:
            count_filters(old, counts, -1)
        count_filters(new, counts, +1)
        if min(held + k + 1, room) >= fill and violated_rank(counts, order, costs, alpha, least, after)[0] >= 0:
            count_filters(new, counts, -1)
            if is_full:
                count_filters(old, counts, +1)
            return k
    return len(history) - held


@entrance
def rows_before_neighbour_violation(
    own: Any,
    following: Any,
    order: Any,
    history: Any,
    held: int,
    room: int,
    costs: Any,
    alpha: float,
    least: int,
    after: Any,
    fill: int,
) -> int:  # pragma: no cover - compiled
    for k in range(len(history) - held):
        new, old = history[held + k : held + k + 1], history[max(held + k - room, 0) : held + k - room + 1]
        is_full = held + k >= room
        if is_full:
            count_neighbours(old, order, own, following, -1)
        count_neighbours(new, order, own, following, +1)
        if min(held + k + 1, room) >= fill and violated_neighbour(own, following, order, costs, alpha, least, after) >= 0:
            count_neighbours(new, order, own, following, -1)
            if is_full:
                count_neighbours(old, order, own, following, +1)
            return k
    return len(history) - held


# -- exact optimum ----------------------------------------------------------------------------------------------------


@entrance
def cheapest_orders(passing: Any, costs: Any, after: Any, best: Any, last: Any) -> None:  # pragma: no cover - compiled
    """Least cost of applying each set of filters first, and the filter that comes last in it; subsets in counting order."""
    best[:] = np.inf
    best[0] = 0.0
    for done in range(len(best)):
        if best[done] == np.inf:
            continue
        for number in range(len(costs)):
            if done >> number & 1 or np.int64(after[number]) & ~done:
                continue
            cost = best[done] + costs[number] * passing[done]
            if cost < best[done | 1 << number]:
                best[done | 1 << number] = cost
                last[done | 1 << number] = number
