"""Random conditions and integer terms over columns, deeply nested, in the words that both languages share."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@st.composite
def terms(draw: st.DrawFn, columns: Sequence[str], depth: int = 3) -> str:
    """An integer term; it grows at most twofold with each level, so that nothing overflows."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*columns, *columns, "0", "1", "3"]))
    one, other = draw(terms(columns, depth - 1)), draw(terms(columns, depth - 1))
    forms = ["({0} + {1})", "({0} - {1})", "({0} * 2 - {1})", "COALESCE({0}, {1})", "ABS({0} - {1})", "NULLIF({0}, {1})"]
    if depth > 1 and draw(st.booleans()):
        return f"CASE WHEN {draw(conditions(columns, depth - 2))} THEN {one} ELSE {other} END"
    return draw(st.sampled_from(forms)).format(one, other)


@st.composite
def conditions(draw: st.DrawFn, columns: Sequence[str], depth: int = 2) -> str:
    """A condition; some are NULL for some rows."""
    if depth > 0 and draw(st.booleans()):
        one, other = draw(conditions(columns, depth - 1)), draw(conditions(columns, depth - 1))
        return draw(st.sampled_from(["({0} AND {1})", "({0} OR {1})", "(NOT ({0}))", "(NOT ({0} OR {1}))"])).format(one, other)
    one, other = draw(terms(columns, min(depth, 1))), draw(terms(columns, min(depth, 1)))
    listed = "{0} IN (1, 3)", "{0} BETWEEN 0 AND {1}", "{0} IS NULL", "{0} IS NOT NULL", "{0} NOT IN (2, 4)"
    compared = [f"{{0}} {word} {{1}}" for word in _COMPARISONS]
    return draw(st.sampled_from([*listed, *compared])).format(one, other)
