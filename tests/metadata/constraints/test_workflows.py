"""Constraints of workflows: every run satisfies them, and none that holds is missing."""

from __future__ import annotations

from itertools import product

import networkx
import pytest
from constraint_oracle import all_matches, is_consistent
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidWorkflow
from penstock.metadata.constraints.clauses import AtMostOnce, Exclusive, Prior, Require, Terminal
from penstock.metadata.constraints.conditions import ConditionOptions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.registration import register
from penstock.metadata.constraints.workflows.nets import net_of_edges, reachability
from penstock.metadata.constraints.workflows.tree_extraction import tree_relations
from penstock.metadata.constraints.workflows.trees import Choice, Interruptible, Loop, Parallel, Sequence, Silent, Task, optional
from penstock.metadata.constraints.workflows.workflow import Workflow, order_fulfilment
from penstock.model.event_patterns import both, either, seq
from penstock.testing.constraint_reference import TraceStatus, Tracker


def interleaved(one, other):
    if not one or not other:
        return {one + other}
    return {(one[0], *rest) for rest in interleaved(one[1:], other)} | {(other[0], *rest) for rest in interleaved(one, other[1:])}


def language(tree):
    """All runs of a tree; loops without a limit run at most twice more than they must."""
    match tree:
        case Task(name, events):
            return {"one": {(name,)}, "none": {()}, "several": {(name,), (name, name)}}[events]
        case Silent():
            return {()}
        case Choice(parts):
            return set().union(*map(language, parts))
        case Sequence(parts):
            return {sum(runs, ()) for runs in product(*map(language, parts))}
        case Parallel(parts):
            found = {()}
            for part in parts:
                found = {run for one, other in product(found, language(part)) for run in interleaved(one, other)}
            return found
        case Loop(body, least, most):
            once = language(body)
            times = range(least, (least + 2 if most is None else most) + 1)
            return {sum(runs, ()) for count in times for runs in product(once, repeat=count)}
        case Interruptible(body, by):
            whole = language(body)
            return whole | {(*run[:cut], by) for run in whole for cut in range(len(run))}


def holding(names, runs):
    """Every order, exclusion and requirement that all runs satisfy."""
    pairs = list(product(names, names))

    def order(a, b):
        return all(not (run[i] == b and run[j] == a) for run in runs for i in range(len(run)) for j in range(i + 1, len(run)))

    prior = {(a, b) for a, b in pairs if order(a, b)}
    exclusive = {(a, b) for a, b in pairs if a != b and all(not {a, b} <= set(run) for run in runs)}
    require = {(a, b) for a, b in pairs if a != b and all(a not in run or b in run for run in runs)}
    return prior, exclusive, require


@st.composite
def trees(draw, unique=True, most_tasks=4):
    """Small process trees; the number of runs stays small enough to list them."""
    labels = iter(list("ABCDEFGH")) if unique else None

    def leaf():
        if draw(st.integers(0, 5)) == 0:
            return Silent()
        return Task(next(labels) if labels is not None else draw(st.sampled_from("ABC")))

    def grow(budget, depth):
        kind = draw(st.sampled_from(["leaf", "sequence", "choice", "parallel", "loop"])) if budget > 1 and depth else "leaf"
        if kind == "leaf":
            return leaf()
        if kind == "loop":
            least = draw(st.integers(0, 1))
            return Loop(grow(budget, 0 if budget < 2 else depth - 1), least, draw(st.integers(1, 2)))
        cut = draw(st.integers(1, budget - 1))
        parts = (grow(cut, depth - 1), grow(budget - cut, depth - 1))
        return {"sequence": Sequence, "choice": Choice, "parallel": Parallel}[kind](parts)

    return grow(draw(st.integers(1, most_tasks)), 3)


@settings(max_examples=150, deadline=None)
@given(trees(), st.booleans())
def test_property_c_unique_tasks_give_exactly_what_holds_in_all_runs(tree, interruptible):
    whole = Interruptible(tree, "Stop") if interruptible else tree
    relations, runs = tree_relations(whole), language(whole)
    if interruptible and not relations.names[:-1]:
        return  # a process without events cannot be broken off
    expected = holding(relations.names, runs)
    assert (relations.prior, relations.exclusive, relations.require) == expected


@settings(max_examples=100, deadline=None)
@given(trees(unique=False), st.booleans())
def test_property_c_no_run_violates_what_is_extracted_from_repeated_tasks(tree, interruptible):
    whole = Interruptible(tree, "Stop") if interruptible else tree
    relations, runs = tree_relations(whole), language(whole)
    prior, exclusive, require = holding(relations.names, runs)
    assert relations.prior <= prior
    assert relations.exclusive <= exclusive
    assert relations.require <= require


@settings(max_examples=60, deadline=None)
@given(trees())
def test_registered_constraints_say_the_same_as_the_relations(tree):
    workflow = Workflow.from_tree(tree, ("id",))
    rules = workflow.constraints()
    for run in sorted(language(tree))[:20]:
        assert is_consistent([(name,) for name in run], rules)
    told = {(order.first, order.second) for order in rules.orders()}
    assert told | workflow.relations.exclusive == workflow.relations.prior | workflow.relations.exclusive


def pairs(text):
    return {(a, b) for entry in text.split() for a, others in [entry.split("→")] for b in others.split(",")}


def tree_of(text):
    return Workflow.from_yaml(f"{{key: [id], tree: {text}}}")


def test_golden_sequence_with_choice_and_loop():
    found = tree_of("{sequence: [A, {choice: [B, C]}, {repeat: {body: D, least: 1, most: 3}}, E]}").relations
    assert found.exclusive == pairs("B→C C→B")
    assert found.prior == pairs("A→A B→B C→C E→E A→B,C,D,E B→D,E C→D,E D→E B→C C→B")
    assert found.require == pairs("A→D,E B→A,D,E C→A,D,E D→A,E E→A,D")


def test_golden_repeated_choice():
    found = tree_of("{repeat: {body: {sequence: [A, {choice: [B, C]}]}, least: 1, most: 2}}").relations
    assert (found.prior, found.exclusive, found.require) == (set(), set(), pairs("B→A C→A"))


def test_golden_parallel_with_an_optional_part():
    found = tree_of("{parallel: [{sequence: [A, B]}, {optional: C}]}").relations
    assert (found.prior, found.exclusive) == (pairs("A→A B→B C→C A→B"), set())
    assert found.require == pairs("A→B B→A C→A,B")


def test_golden_order_fulfilment():
    relations = order_fulfilment().relations
    reflexive = {a for a, b in relations.prior if a == b}
    vacuous = relations.prior & relations.exclusive
    assert set(relations.names) - reflexive == {"GenerateQuote"}
    assert (len(relations.names), len(relations.prior), len(reflexive), len(vacuous)) == (21, 235, 20, 40)
    assert (len(relations.exclusive) // 2, len(relations.require)) == (20, 278)
    assert set(relations.terminal) == {"RejectOrder", "FinishOrder", "CancelOrder"}

    def stopped_by(name):
        return {a for a, b in relations.prior if b == name}

    quote = "CheckCredit GenerateQuote OrderFromSupplier ReceiveOrder RejectOrder SendQuote"
    invoice = "CheckCredit CheckInventory GenerateInvoice ReceiveOrder RejectOrder SendInvoice UseLocalStock UseRemoteStock"
    assert stopped_by("SendQuote") == set(quote.split())
    assert stopped_by("SendInvoice") == set(invoice.split())


@settings(max_examples=60, deadline=None)
@given(trees(most_tasks=4), st.data())
def test_property_b_with_extracted_constraints_no_run_loses_a_match(tree, data):
    rules = Workflow.from_tree(tree, ("id",)).constraints()
    if len(rules.event_types) < 2:
        return
    run = data.draw(st.sampled_from(sorted(language(tree))))
    chosen = st.lists(st.sampled_from(rules.event_types), min_size=2, max_size=3)
    pattern = data.draw(st.sampled_from([seq, both, either]))(*data.draw(chosen))
    options = ConditionOptions(disjunctions=data.draw(st.sampled_from(["hierarchy", "mask"])))
    registration = register(pattern, rules, ("id",), on_static_unsat="empty", options=options)
    atoms = frozenset(range(len(pattern.parts)))
    passed = [atoms if data.draw(st.booleans()) else frozenset() for _ in run]
    events = [(time, name, passes) for time, (name, passes) in enumerate(zip(run, passed, strict=True))]
    follower = Tracker(registration.conditions)
    state, live = follower.start(), set()
    for time, name, passes in events:
        if state.status is TraceStatus.LIVE:
            live.add(time)
        state = follower.advance(state, [follower.event(name, passes)])
    assert {max(time for _, time in match) for match in all_matches(pattern, events)} <= live


def test_a_graph_of_gateways_gives_the_constraints_of_its_tree():
    kinds = {
        "in": {"kind": "start"},
        "out": {"kind": "end"},
        "fork": {"kind": "parallel"},
        "join": {"kind": "parallel"},
        "either": {"kind": "choice"},
        "or": {"kind": "choice"},
    }
    edges = [("in", "A"), ("A", "fork"), ("fork", "B"), ("fork", "either"), ("either", "C"), ("either", "D")]
    edges += [("C", "or"), ("D", "or"), ("B", "join"), ("or", "join"), ("join", "E"), ("E", "out")]
    by_graph = Workflow.from_edges(edges, kinds, ("id",)).relations
    by_tree = tree_of("{sequence: [A, {parallel: [B, {choice: [C, D]}]}, E]}").relations
    assert (by_graph.prior, by_graph.exclusive, by_graph.require) == (by_tree.prior, by_tree.exclusive, by_tree.require)
    graph = networkx.DiGraph(edges)
    networkx.set_node_attributes(graph, kinds)
    assert Workflow.from_graph(graph, ("id",)).relations == by_graph


@st.composite
def loops_and_jumps(draw):
    """A site map: pages 0..n in a row, so that the end can be reached, and some other links."""
    count = draw(st.integers(2, 4))
    links = draw(st.lists(st.tuples(st.integers(0, count - 2), st.integers(0, count - 1)), max_size=3))
    return sorted({(i, i + 1) for i in range(count - 1)} | {link for link in links if link[0] != link[1]}), count


@settings(max_examples=60, deadline=None)
@given(loops_and_jumps())
def test_no_walk_through_a_graph_violates_its_constraints(case):
    links, count = case
    graph = networkx.DiGraph([(f"P{a}", f"P{b}") for a, b in links])
    relations = Workflow.from_graph(graph, starts=["P0"], ends=[f"P{count - 1}"]).relations
    walks, waiting = set(), [("P0",)]
    for walk in waiting:
        if walk[-1] == f"P{count - 1}":
            walks.add(walk)
        elif len(walk) < 8:
            waiting += [(*walk, after) for after in graph.successors(walk[-1])]
    prior, exclusive, require = holding(relations.names, walks)
    assert (relations.prior, relations.exclusive, relations.require) == (prior, exclusive, require)


@pytest.mark.parametrize(
    ("edges", "kinds", "message"),
    [
        ([("A", "f"), ("f", "B"), ("f", "C"), ("B", "D"), ("C", "D")], {"f": "parallel"}, "still under way"),
        (
            [("A", "x"), ("x", "B"), ("x", "C"), ("B", "j"), ("C", "j"), ("j", "D")],
            {"x": "choice", "j": "parallel"},
            "stuck after A, B",
        ),
        ([("A", "B"), ("B", "C"), ("C", "B"), ("A", "D")], {}, "cannot end any more after A"),
        ([("A", "B"), ("B", "A")], {}, "no start or no end"),
        (
            [("s", "A"), ("A", "f"), ("f", "A"), ("f", "B"), ("B", "B"), ("z", "e")],
            {"s": "start", "f": "parallel", "e": "end"},
            "more than 200 states; it is unbounded",
        ),
    ],
)
def test_an_unsound_graph_is_refused_with_a_witness(edges, kinds, message):
    described = {name: {"kind": kind} for name, kind in kinds.items()}
    with pytest.raises(InvalidWorkflow, match=message):
        reachability(net_of_edges(edges, described), most_states=200)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{key: [id]}", "'tree' or 'edges'"),
        ("[", "not YAML"),
        ("{tree: {sequnce: [A]}}", "is no part of a process"),
        ("{tree: {sequence: A}}", "needs a list"),
        ("{tree: {repeat: {body: A, least: 2, most: 1}}}", "cannot run 2 to 1"),
        ("{tree: {repeat: {least: 2}}}", "lacks body"),
        ("{tree: {repeat: {body: A, most: x}}}", "no number of times"),
        ("{tree: {task: {name: A, events: many}}}", "one, none or several"),
        ("{tree: {sequence: [A, {interruptible: {body: B, by: C}}]}}", "only the whole process"),
        ("{tree: {interruptible: {body: A, by: A}}}", "its own name"),
        ("{edges: [[A]]}", "list of pairs"),
        ("{edges: [[A, B]], nodes: {C: {kind: task}}}", "no edge touches C"),
        ("{edges: [[A, B]], nodes: {A: {kind: or}}}", "is of kind 'or'"),
        ("{tree: A, colour: red}", "unknown entries colour"),
        ("{tree: A, key: 3}", "the key is 3"),
    ],
)
def test_a_bad_process_description_says_what_is_wrong(text, message):
    with pytest.raises(InvalidWorkflow, match=message):
        Workflow.from_yaml(text)


def test_tasks_that_emit_none_or_several_events():
    found = tree_of("{sequence: [{task: {name: A, events: several}}, {task: {name: B, events: none}}, C]}").relations
    assert found.names == ("A", "C")
    assert found.prior == pairs("C→C A→C")


def test_tasks_of_one_name_are_announced_as_incomplete():
    assert "several tasks of one name" in Workflow.from_tree(Choice((Task("A"), Sequence((Task("A"), Task("B")))))).notices[0]


def test_the_shortest_form_of_the_constraints():
    rules = Workflow.from_tree(Sequence((Task("A"), Choice((Task("B"), Task("C"))), optional(Task("D")))), ("id",)).constraints()
    assert isinstance(rules, ConstraintSet)
    assert rules.constraints == (
        Terminal("D"),
        AtMostOnce("A"),
        AtMostOnce("B"),
        AtMostOnce("C"),
        Exclusive(("B", "C")),
        Prior("A", "B"),
        Prior("A", "C"),
        Require("B", "A"),
        Require("C", "A"),
        Require("D", "A"),
    )
