"""Constraints of a process graph, read off all the states it can reach: sound and complete for any graph."""

from __future__ import annotations

from penstock.metadata.constraints.workflows.nets import StateGraph
from penstock.metadata.constraints.workflows.tree_extraction import Relations


def net_relations(graph: StateGraph) -> Relations:
    """All order, exclusion and requirement between tasks that hold in every run.

    `b` follows `a` if some run has a b behind an a. Then a is prior to b iff no a follows a b; they exclude each other iff
    neither follows the other; a requires b iff no run without b contains an a.

    Examples
    --------
    >>> relations = net_relations(StateGraph(3, 2, ((0, "A", 1), (1, "B", 2), (1, "C", 2))))
    >>> sorted(relations.exclusive), sorted(relations.require)
    ([('B', 'C'), ('C', 'B')], [('B', 'A'), ('C', 'A')])
    """
    names = tuple(sorted(graph.labels))
    follows = _followers(graph)
    pairs = [(one, other) for one in names for other in names]
    prior = frozenset((one, other) for one, other in pairs if one not in follows[other])
    exclusive = frozenset(
        (one, other) for one, other in pairs if one != other and one not in follows[other] and other not in follows[one]
    )
    without = {name: _labels_without(graph, name) for name in names}
    require = frozenset((one, other) for one, other in pairs if one != other and one not in without[other])
    return Relations(names, prior, exclusive, require)


def _followers(graph: StateGraph) -> dict[str, set[str]]:
    """For each label, the labels that come behind it in some run; every state reaches the end, so each path is one of a run."""
    later: list[set[str]] = [set() for _ in range(graph.count)]
    changed = True
    while changed:
        changed = False
        for one, label, other in reversed(graph.steps):
            found = later[other] | ({label} if label else set())
            if not found <= later[one]:
                later[one] |= found
                changed = True
    follows: dict[str, set[str]] = {label: set() for label in graph.labels}
    for _, label, other in graph.steps:
        if label:
            follows[label] |= later[other]
    return follows


def _labels_without(graph: StateGraph, removed: str) -> set[str]:
    """Labels of complete runs that do not contain one label."""
    steps = [step for step in graph.steps if step[1] != removed]
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for one, _, other in steps:
        after.setdefault(one, []).append(other)
        before.setdefault(other, []).append(one)
    reached, back = _closure(after, 0), _closure(before, graph.final)
    return {label for one, label, other in steps if one in reached and other in back}


def _closure(neighbours: dict[int, list[int]], start: int) -> set[int]:
    found, waiting = {start}, [start]
    for state in waiting:
        for near in neighbours.get(state, ()):
            if near not in found:
                found.add(near)
                waiting.append(near)
    return found
