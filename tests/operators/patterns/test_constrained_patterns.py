"""Properties B and B' on the operator: constraints never change an answer that obeys them, nor lose a match silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pattern_cases import SCHEMA, events, query, read
from test_pattern_properties import DISORDER, queries, streams

from penstock.errors import ConstraintViolated
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MatchOutput
from penstock.expressions.parse import parse
from penstock.metadata.constraints.clauses import AtMostOnce, Constraint, Exclusive, Horn, Never, Prior, Require, Terminal
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.theory import Theory
from penstock.metadata.constraints.violations import ViolationPolicy
from penstock.model.elements import Heartbeat, Quarantined
from penstock.model.event_patterns import EventOrder, Strategy, absent, atom, both, either, normalised, seq
from penstock.model.pattern_terms import terms_of
from penstock.operators.patterns.operator import PatternMatch
from penstock.testing.checks import check_all, inputs
from penstock.testing.pattern_reference import Match, matches, traces
from penstock.testing.reference import Row
from penstock.testing.streams import batch_of, run, run_with_restarts, stream_of
from penstock.testing.tapes import batch_cuts

ALPHABET = ("A", "B", "C", "Z", "D", "E")
NAMES = st.sampled_from(ALPHABET[:4])
PAIRS = st.lists(NAMES, min_size=2, max_size=2, unique=True)
ORDERS = st.one_of(st.builds(Prior, NAMES, NAMES), st.builds(AtMostOnce, NAMES), PAIRS.map(lambda pair: Exclusive(tuple(pair))))
CLAUSES = st.builds(Horn, st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple), st.one_of(st.none(), NAMES))
CONSTRAINTS = st.one_of(ORDERS, ORDERS, PAIRS.map(lambda pair: Require(*pair)), CLAUSES, st.builds(Terminal, NAMES))
MODES, FLAGS = st.sampled_from(["hierarchy", "mask", None]), st.booleans()
OPTIONS = st.builds(
    ConditionOptions,
    exact=st.sampled_from([False, False, True]),
    disjunctions=MODES,
    reflexive=FLAGS,
    exhaustion=FLAGS,
    suffixes=st.sampled_from([True, True, False]),
)


def is_consistent(trace: Sequence[Row], rule: ConstraintSet, order: EventOrder) -> bool:
    """Whether a complete trace obeys a constraint, by definition."""
    place = {row.pos: (row.ts, row.pos) if order is EventOrder.TOTAL else (row.ts, 0) for row in trace}
    present = {row.values["type"] for row in trace}
    for pair in rule.orders():
        for one, other in product(trace, trace):
            is_pair = (one.values["type"], other.values["type"]) == (pair.second, pair.first)
            if is_pair and place[one.pos] < place[other.pos]:
                return False
    return all(not clause.body <= present or clause.head in present for clause in rule.clauses())


def obeyed(query: EventQuery, rows: Sequence[Row], drawn: Sequence[Constraint]) -> ConstraintSet:
    """Those of the constraints that every trace obeys."""
    kept = []
    for one in drawn:
        rule = ConstraintSet(("id",), ALPHABET, (one,))
        # Silence may cut a trace where its process goes on: what is required then says nothing of the parts.
        says_enough = query.trace_ttl is None or not any(clause.head for clause in rule.clauses())
        if says_enough and all(is_consistent(trace, rule, query.order) for trace in traces(query, rows)):
            kept.append(one)
    return ConstraintSet(("id",), ALPHABET, tuple(kept))


def searched(
    sought: EventQuery, rows: Sequence[Row], rules: ConstraintSet, **options: Any
) -> tuple[list[Match], PatternMatch, list[str]]:
    """Matches, the operator afterwards, and why it set rows aside."""
    cuts, restarts = options.pop("cuts", ()), options.pop("restarts", False)
    elements = stream_of(rows, SCHEMA, cuts)
    built = []

    def make() -> PatternMatch:
        built.append(PatternMatch(sought, SCHEMA, constraints=rules, on_static_unsat="empty", **options))
        return built[-1]

    out = run_with_restarts(make, elements) if restarts else run(make(), elements)
    return sorted(read(sought, out)), built[-1], [each.text for each in out if isinstance(each, Quarantined)]


def check_obedient(
    sought: EventQuery | None, rows: list[Row], drawn: list[Constraint], chosen: ConditionOptions, cuts: Any, disorder: list[int]
) -> None:
    if sought is None:
        return
    rules, expected = obeyed(sought, rows, drawn), sorted(matches(sought, rows, SCHEMA))
    found, _, complaints = searched(sought, [row for row in rows if row.values["id"] is not None], rules, options=chosen)
    assert found == expected
    assert complaints == []
    arrival = sorted(range(len(rows)), key=lambda place: rows[place].ts + disorder[place % len(disorder)])
    late = [rows[place] for place in arrival]
    assert searched(sought, late, rules, options=chosen, cuts=cuts)[0] == expected, "another batching gives another answer"
    assert searched(sought, late, rules, options=chosen, cuts=cuts, restarts=True)[0] == expected, "a restart changes the answer"


MANY = st.lists(CONSTRAINTS, min_size=2, max_size=9)


@given(queries(Strategy.ANY), streams(), MANY, OPTIONS, batch_cuts(), DISORDER)
@settings(max_examples=60, deadline=None)
def test_property_b_constraints_keep_every_match_under_any_match(
    sought: EventQuery | None, rows: list[Row], drawn: list[Constraint], chosen: ConditionOptions, cuts: Any, late: list[int]
) -> None:
    check_obedient(sought, rows, drawn, chosen, cuts, late)


@given(
    st.one_of(queries(Strategy.NEXT), queries(Strategy.PARTITION), queries(Strategy.STRICT)),
    streams(),
    MANY,
    OPTIONS,
    batch_cuts(),
    DISORDER,
)
@settings(max_examples=40, deadline=None)
def test_property_b_constraints_keep_every_match_under_the_other_strategies(
    sought: EventQuery | None, rows: list[Row], drawn: list[Constraint], chosen: ConditionOptions, cuts: Any, late: list[int]
) -> None:
    check_obedient(sought, rows, drawn, chosen, cuts, late)


@st.composite
def dense_streams(draw: st.DrawFn) -> list[Row]:
    """Nearly all events are of one trace, so that patterns match and constraints speak."""
    rows, clock = [], 0
    for number in range(draw(st.integers(3, 8))):
        clock += draw(st.sampled_from([0, 1, 1, 1, 2]))
        values = {"type": draw(st.sampled_from("ABCD")), "id": draw(st.sampled_from([1, 1, 1, 2])), "n": number}
        rows.append(Row(clock, number, {**values, "p": draw(st.sampled_from([0, 1, 1])), "x": None, "s": None}))
    return rows


@st.composite
def short_queries(draw: st.DrawFn) -> EventQuery:
    """Two to four events, mostly different ones, sometimes with an absence, a condition or alternatives."""
    types = [*draw(st.permutations("ABCD")), *draw(st.lists(st.sampled_from("ABCD"), max_size=1))]
    leaves: list[Any] = [atom(name, f"v{number}", draw(st.sampled_from(["", "", "", "+"]))) for number, name in enumerate(types)]
    shapes = [
        lambda: seq(*leaves[:2]),
        lambda: seq(*leaves[:3]),
        lambda: seq(leaves[0], both(leaves[1], leaves[2])),
        lambda: both(*leaves[:2]),
        lambda: seq(leaves[0], either(leaves[1], seq(leaves[2], leaves[3]))),
        lambda: either(seq(*leaves[:2]), seq(leaves[3], leaves[2])),
        lambda: seq(either(leaves[0], leaves[1]), either(leaves[2], leaves[-1])),
        lambda: seq(leaves[0], absent(types[3], "n"), leaves[1]),
        lambda: seq(leaves[0], leaves[1], absent(types[2], "n")),
    ]
    pattern = draw(st.sampled_from(shapes))()
    own = [f"v0.p >= {draw(st.integers(0, 1))}"] if "v0" in str(pattern) and draw(st.booleans()) else []
    within, terminal = draw(st.sampled_from([(30, ()), (3, ()), (30, ("E",)), (None, ("E",))]))
    if any(not absence.before for absence in terms_of(normalised(pattern))[0].absences):
        within = within or 30
    order = draw(st.sampled_from(EventOrder))
    return EventQuery(pattern, ("id",), tuple(map(parse, own)), within, order=order, terminal=terminal)


SHORT = st.lists(
    st.one_of(
        st.builds(Prior, st.sampled_from("ABCD"), st.sampled_from("ABCD")),
        st.lists(st.sampled_from("ABCD"), min_size=2, max_size=2, unique=True).map(lambda pair: Exclusive(tuple(pair))),
        st.lists(st.sampled_from("ABCD"), min_size=2, max_size=2, unique=True).map(lambda pair: Require(*pair)),
        st.builds(Terminal, st.sampled_from("ABCD")),
        st.builds(AtMostOnce, st.sampled_from("ABCD")),
    ),
    min_size=2,
    max_size=12,
)


@given(short_queries(), dense_streams(), SHORT, OPTIONS, batch_cuts())
@settings(max_examples=120, deadline=None)
def test_property_b_on_short_patterns_that_match_often(
    sought: EventQuery, rows: list[Row], drawn: list[Constraint], chosen: ConditionOptions, cuts: Any
) -> None:
    rules, expected = obeyed(sought, rows, drawn), sorted(matches(sought, rows, SCHEMA))
    assert searched(sought, rows, rules, options=chosen)[0] == expected
    assert searched(sought, rows, rules, options=chosen, cuts=cuts, restarts=True)[0] == expected


@given(short_queries(), dense_streams(), SHORT)
@settings(max_examples=60, deadline=None)
def test_exact_reasoning_gives_up_at_least_as_early(sought: EventQuery, rows: list[Row], drawn: list[Constraint]) -> None:
    # It looks at more types, which keep a trace in the window longer: of a trace forgotten there nothing can be compared.
    sought = replace(sought, within=sought.within and 30)
    rules = obeyed(sought, rows, drawn)
    searches = [
        PatternMatch(sought, SCHEMA, constraints=rules, options=ConditionOptions(exact=exact), on_static_unsat="empty")
        for exact in (False, True)
    ]
    found: list[list[Match]] = [[], []]
    for time in dict.fromkeys(row.ts for row in rows):
        for number, search in enumerate(searches):
            search.on_batch(0, batch_of([row for row in rows if row.ts == time], SCHEMA))
            found[number] += read(sought, search.on_metadata(0, Heartbeat(time + 1)))
        fast, exact = (search.counters() for search in searches)
        assert exact["kept_events"] <= fast["kept_events"]
        assert exact["failed_traces"] >= fast["failed_traces"]
    assert found[0] == found[1]


CHECKED = pa.schema({"k": pa.int64(), "type": pa.string(), "v": pa.float64()})
#: Texts of the shared inputs are "", "a" and "ab"; they obey nothing.
BROKEN = ConstraintSet(("k",), ("a", "ab", "x"), (Prior("a", "ab"), AtMostOnce("ab")))


@pytest.mark.parametrize("policy", [ViolationPolicy.RECORD, ViolationPolicy.SHADOW])
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_the_operator_under_constraints_passes_the_shared_checks(policy: ViolationPolicy, data: st.DataObject) -> None:
    sought = EventQuery(seq(atom("a", "a"), atom("ab", "b")), ("k",), within=6)
    shown = MatchOutput(columns=("k", "type"))
    check_all(
        lambda: PatternMatch(sought, CHECKED, shown, constraints=BROKEN, on_violation=policy),
        data.draw(inputs([CHECKED])),
        [CHECKED],
        data.draw(batch_cuts()),
    )


def test_a_trace_that_left_the_window_is_forgotten_there_and_not_at_the_end_of_a_batch() -> None:
    sought, rows = query(atom("B", "b"), within=0), events("a0 b1")
    rules = ConstraintSet(("id",), ALPHABET, (Prior("B", "A"),))
    assert searched(sought, rows, rules)[0] == searched(sought, rows, rules, cuts=range(3))[0] == [(0, ((1,),))]


def with_ends(sought: EventQuery, rules: ConstraintSet) -> EventQuery:
    """The query where keys may be used again: what ends a trace by constraint begins another one."""
    theory = Theory(rules)
    return replace(sought, terminal=tuple(dict.fromkeys((*sought.terminal, *theory.members(theory.terminals)))))


def ended(rows: Sequence[Row], sought: EventQuery) -> list[Row]:
    """The rows of traces, and where a type ends them an event of it for each, so that what is missing shows."""
    keyed = [row for row in rows if row.values["id"] is not None]
    if not sought.terminal or not keyed:
        return keyed
    clock, number = max(row.ts for row in keyed) + 1, max(row.pos for row in keyed) + 1
    keys = sorted({row.values["id"] for row in keyed})
    ends = [{**keyed[0].values, "type": sought.terminal[0], "id": key, "n": number + at} for at, key in enumerate(keys)]
    return [*keyed, *(Row(clock, values["n"], values) for values in ends)]


WRONG = st.lists(st.one_of(CONSTRAINTS, st.builds(Terminal, NAMES), st.builds(Never, NAMES)), max_size=4)
ANY_QUERY = st.one_of(queries(Strategy.ANY), *(queries(each) for each in Strategy))


def check_wrong(
    sought: EventQuery, rows: Sequence[Row], rules: ConstraintSet, reuse_keys: bool, chosen: ConditionOptions, cuts: Any
) -> None:
    """Wrong constraints: the answer is right, or the quarantine says what may be wrong with it."""
    sought = with_ends(sought, rules) if reuse_keys else sought
    keyed = ended(rows, sought)
    expected = sorted(matches(sought, keyed, SCHEMA))
    found, after, complaints = searched(sought, keyed, rules, options=chosen)
    for restarts in (False, True):
        again = searched(sought, keyed, rules, options=chosen, cuts=cuts, restarts=restarts)
        assert again[0] == found, "another batching, or a restart, gives another answer"
        assert sorted(set(again[2])) == sorted(set(complaints)), "another batching, or a restart, complains of something else"
    shown, shadow, warned = searched(sought, keyed, rules, options=chosen, on_violation=ViolationPolicy.SHADOW)
    assert shown == expected, "the shadow gives nothing up"
    assert all("may be" not in text for text in warned), "nothing is lost in the shadow"
    if after.registration is None or not after.registration.verdict.is_satisfiable:
        return
    if set(expected) - set(found):
        assert any("may be" in text for text in complaints)
        assert after.counters()["violations"] > 0
    if set(found) - set(expected):
        assert any("may be false" in text for text in complaints)
    if not any("may be false" in text for text in complaints):
        assert shadow.counters()["lost"] == len(expected) - len(found)
    if complaints:
        with pytest.raises(ConstraintViolated):
            searched(sought, keyed, rules, options=chosen, on_violation=ViolationPolicy.ERROR)
    else:
        assert searched(sought, keyed, rules, options=chosen, on_violation=ViolationPolicy.ERROR)[0] == expected


@given(ANY_QUERY, streams(), WRONG, st.booleans(), OPTIONS, batch_cuts())
@settings(max_examples=60, deadline=None)
def test_wrong_constraints_never_change_an_answer_in_silence(
    sought: EventQuery | None, rows: list[Row], drawn: list[Constraint], reuse_keys: bool, chosen: ConditionOptions, cuts: Any
) -> None:
    if sought is not None:
        check_wrong(sought, rows, ConstraintSet(("id",), ALPHABET, tuple(drawn)), reuse_keys, chosen, cuts)


@given(short_queries(), dense_streams(), SHORT, st.booleans(), OPTIONS, batch_cuts())
@settings(max_examples=100, deadline=None)
def test_wrong_constraints_never_change_a_short_pattern_in_silence(
    sought: EventQuery, rows: list[Row], drawn: list[Constraint], reuse_keys: bool, chosen: ConditionOptions, cuts: Any
) -> None:
    check_wrong(sought, rows, ConstraintSet(("id",), ALPHABET, tuple(drawn[:4])), reuse_keys, chosen, cuts)
