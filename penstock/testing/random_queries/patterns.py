"""Random queries with functions, row patterns and event patterns, as far as plain SQL has words for them."""

from __future__ import annotations

import hypothesis.strategies as st

from penstock.testing.random_queries.selects import Select, Shape, Sources, picked, select
from penstock.testing.random_queries.terms import conditions
from penstock.testing.random_queries.timeline import Life

#: Declared once for all applications; DuckDB calls it `length`.
FUNCTION = (
    "CREATE FUNCTION wide(x STRING) RETURNS INT USING python OPTIONS (callable 'pyarrow.compute:utf8_length', kind 'arrow');\n"
)
_POLICIES = ("agreedy", "sweep", "independent", "local_swaps", "fixed", "random")
_TEXTS = ("{wide}(s) >= 1", "{wide}(s) < 2", "s LIKE '%b'", "s LIKE 'a%'", "{wide}(s) + i <> 2", "s NOT LIKE '_'")


@st.composite
def searched(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Conditions that call functions or search texts, in an order that follows the data."""
    source = draw(picked([part for part in sources if part.is_base]))
    chosen = draw(st.lists(st.sampled_from(_TEXTS), min_size=2, max_size=4, unique=True))
    chosen.insert(draw(st.integers(0, 2)), draw(conditions(source.numbers, 1)))
    condition = " AND ".join(chosen)
    hint = draw(st.sampled_from(["", *(f"/*+ ORDER(policy = '{policy}', probability = 0.5) */ " for policy in _POLICIES)]))
    # A text that begins with what is sought is Catalyst's.
    is_ordered = len([text for text in chosen if "{wide}" in text or ("LIKE" in text and "'a%'" not in text)]) > 1
    return select(
        f"SELECT {hint if is_ordered else ''}k AS a, i AS b FROM {source.source} x WHERE {condition.format(wide='wide')}",
        f"SELECT k AS a, i AS b, _ts, _pos FROM ({source.equivalent}) WHERE {condition.format(wide='length')}",
        ("a", "b"),
        [source],
        has_positions=True,
    )


@st.composite
def recognized(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Two or three rows of a key behind one another, each way to begin."""
    source = draw(picked([part for part in sources if part.is_base]))
    names = "abc"[: draw(st.integers(2, 3))]
    within = draw(st.sampled_from([None, 2, 6]))
    forms = st.sampled_from([("i > PREV(i)", "{n}.i > {p}.i"), ("i <> a.i", "{n}.i <> a.i"), ("i >= 1", "{n}.i >= 1"), ("", "")])
    drawn = [draw(forms) for _ in names[1:]]
    defined = ", ".join(f"{name} AS {own}" for name, (own, _) in zip(names[1:], drawn, strict=True) if own)
    pairs = list(zip(names[1:], names, strict=False))
    theirs = [text.format(n=name, p=before) for (name, before), (_, text) in zip(pairs, drawn, strict=True) if text]
    is_filtered = draw(st.booleans())
    inner = f"(SELECT ts, k, i FROM {source.source} WHERE i < 3)" if is_filtered else source.source
    rows = f"SELECT * FROM ({source.equivalent}) WHERE i < 3" if is_filtered else source.equivalent
    numbered = f"SELECT *, row_number() OVER (PARTITION BY k ORDER BY _ts, _pos) AS _at FROM ({rows})"
    last = names[-1]
    joins = " ".join(f"JOIN ({numbered}) {name} ON a.k IS NOT DISTINCT FROM {name}.k AND {name}._at = {before}._at + 1"
                     for name, before in pairs)  # fmt: skip
    limits = [*theirs, *([] if within is None else [f"{last}._ts - a._ts <= {life.timeline.ticks(within)}"])]
    pattern = f"PATTERN ({' '.join(names)}){'' if within is None else f' WITHIN {life.timeline.length(within)}'}"
    text = (
        f"SELECT k AS a, n AS b FROM {inner} MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES {last}.i AS n "
        f"AFTER MATCH SKIP TO NEXT ROW {pattern}{f' DEFINE {defined}' if defined else ''})"
    )
    where = f" WHERE {' AND '.join(limits)}" if limits else ""
    return select(
        text, f"SELECT a.k AS a, {last}.i AS b, {last}._ts AS _ts FROM ({numbered}) a {joins}{where}", ("a", "b"), [source]
    )


@st.composite
def events(draw: st.DrawFn, sources: Sources, life: Life) -> Select:
    """Every pair of events of a key, one later than the other, with none of a third type between them or with any."""
    source = draw(picked([part for part in sources if part.is_base]))
    within = draw(st.sampled_from([2, 5, 9]))
    is_negated = draw(st.booleans())
    own, theirs = draw(st.sampled_from([("", "true"), (" AND p.i < q.i", "p.i < q.i"), (" AND q.i > 1", "q.i > 1")]))
    rows = f"({source.equivalent})"
    same = "{0}.k = p.k AND {0}.s = '{1}'"
    between = f"SELECT * FROM {rows} n WHERE {same.format('n', 'ab')} AND n._ts > p._ts AND n._ts < q._ts"
    negated, absent = (", !(ab n)", f" AND NOT EXISTS ({between})") if is_negated else ("", "")
    kinds = ("a", "a") if is_negated else draw(st.sampled_from([("a", "ab"), ("ab", "a"), ("a", "a")]))
    text = (
        f"EVENT SEQ({kinds[0]} p{negated}, {kinds[1]} q) FROM {source.source} TYPE s WHERE [k]{own} "
        f"WITHIN {life.timeline.length(within)} RETURN p.i AS a, q.i AS b"
    )
    near = f"q._ts > p._ts AND q._ts - p._ts <= {life.timeline.ticks(within)}"
    pair = f"p.s = '{kinds[0]}' AND {same.format('q', kinds[1])} AND {near} AND {theirs}{absent}"
    return select(
        text, f"SELECT p.k AS k, p.i AS a, q.i AS b, q._ts AS _ts FROM {rows} p, {rows} q WHERE {pair}", ("a", "b"), [source]
    )


PATTERNS: tuple[Shape, ...] = (searched, recognized)
