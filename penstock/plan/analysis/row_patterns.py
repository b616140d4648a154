"""When the search for row patterns forgets, and what is known of its matches."""

from __future__ import annotations

from penstock.model.row_patterns import has_start, most_rows
from penstock.plan.analysis.holdings import BoundedBy, Growth, Holding, rows_within, sum_text, waiting
from penstock.plan.analysis.knowledge import Knowledge
from penstock.plan.nodes.row_patterns import RowPatternMatch
from penstock.plan.nodes.wording import length_text


def judge_row_pattern(node: RowPatternMatch, known: Knowledge) -> list[Holding]:
    """Rows that wait for earlier ones, rows of open matches, earlier rows that PREV reads, numbers of matches."""
    clock, query = node.input.has_clock_time, node.query
    found = [waiting(known, clock), _open_rows(node, known, clock)]
    if query.lookback:
        rows = "the last row" if query.lookback == 1 else f"the last {query.lookback} rows"
        reader = "^" if has_start(query.pattern) and query.lookback == 1 else "PREV"
        found.append(_per_partition(node, "earlier rows", f"{reader} may read {rows} before a match", query.lookback))
    if query.numbers_matches:
        found.append(_per_partition(node, "numbers of matches", "MATCH_NUMBER() counts for ever", 1))
    return found


def _open_rows(node: RowPatternMatch, known: Knowledge, clock: bool) -> Holding:
    within, longest = node.query.within, most_rows(node.query.pattern)
    if within is not None:
        why = f"a match lies within {length_text(within, clock)}"
        size = f"≤ rate × {sum_text(within, known.lag, clock)}"
        return Holding("rows of open matches", why, BoundedBy.WINDOW, None, size, rows_within(known.rate, within + known.lag))
    if longest is not None:
        return _per_partition(node, "rows of open matches", f"a match has at most {longest} rows", longest)
    why = f"({node.query.pattern}) may go on for ever; write WITHIN behind the pattern"
    return Holding("rows of open matches", why, growth=Growth.ROWS)


def _per_partition(node: RowPatternMatch, what: str, why: str, rows: int) -> Holding:
    """So many rows of each key; keys may be ever new ones."""
    if not node.query.key:
        return Holding(what, why, BoundedBy.COUNT, None, f"≤ {rows}", float(rows))
    key = ", ".join(node.query.key)
    return Holding(what, f"{why}, and {key} may have ever new values", growth=Growth.KEYS, size=f"≤ {rows} × values of {key}")


def through_row_pattern(node: RowPatternMatch, known: Knowledge) -> Knowledge:
    """A match has the time at which it is decided, so event time goes on as before; punctuations do not."""
    return Knowledge((), known.stalled, known.lag)
