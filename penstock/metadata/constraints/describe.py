"""What constraints do to a query, in words: for `explain`."""

from __future__ import annotations

from penstock.metadata.constraints.conditions import FailingCondition
from penstock.metadata.constraints.registration import Registration
from penstock.metadata.constraints.theory import bits

_TITLES = {
    "global": "fail at once",
    "absence": "fail unless something came before",
    "local": "fail while something is unmatched",
    "joint": "fail together",
}


def describe(registration: Registration) -> list[str]:
    """Lines about leaves, branches, verdict, failing conditions with their proofs, and the events that must be looked at.

    Conditions that tell nothing another one did not tell before are not listed: they are not watched either.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.registration import register
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet(("id",), ("A", "B", "C"), (exclusive("B", "C"),))
    >>> print(*describe(register(seq("A", "B"), rules, ("id",))), sep="\\n")
    leaves: A, B after A
    verdict: can match
    fail at once:
      C fails the query: B and C never occur together by exclusive(B, C)
    events to look at: A, B, C
    """
    watched = registration.conditions.condensed()
    return [
        f"leaves: {', '.join(_leaf_lines(registration))}",
        *_branch_lines(registration),
        *_verdict_lines(registration),
        *_condition_lines(watched.entries),
        *_expensive_lines(watched.too_expensive),
        f"events to look at: {', '.join(registration.theory.members(watched.relevant))}",
        *(f"note: {notice}" for notice in registration.notices),
    ]


def _leaf_lines(registration: Registration) -> list[str]:
    graph = registration.graph
    lines = []
    for leaf, name in enumerate(graph.types):
        earlier = [other for other in range(graph.leaf_count) if graph.precedes(other, leaf)]
        # Only what stands directly before: the rest follows.
        direct = [one for one in earlier if not any(graph.precedes(one, other) for other in earlier)]
        lines.append(name + (f" after {' and '.join(graph.types[one] for one in direct)}" if direct else ""))
    return lines


def _branch_lines(registration: Registration) -> list[str]:
    graph, conditions = registration.graph, registration.conditions
    if len(graph.partitions) == 1:
        return []
    own = [[graph.types[leaf] for leaf in bits(graph.leaves_of(1 << number))] for number in range(1, len(graph.partitions))]
    how = f"{len(conditions.terms)} alternatives alive at the start" if conditions.mode == "mask" else "by the tree of branches"
    return [f"branches ({conditions.mode}: {how}):", *(f"  the branch of {', '.join(types) or 'nothing'}" for types in own)]


def _verdict_lines(registration: Registration) -> list[str]:
    verdict = registration.verdict
    if not verdict.is_satisfiable:
        return ["verdict: can never match", *(f"  {proof}" for proof in verdict.proofs)]
    lines = [f"  never: {proof}" for proof in verdict.proofs]
    return ["verdict: can match" + (", except some alternatives" if lines else ""), *lines]


def _condition_lines(entries: tuple[FailingCondition, ...]) -> list[str]:
    lines = []
    for kind, title in _TITLES.items():
        chosen = [f"  {entry}" for entry in entries if entry.kind == kind]
        lines += [f"{title}:", *chosen] if chosen else []
    return lines


def _expensive_lines(entries: tuple[FailingCondition, ...]) -> list[str]:
    return ["not watched, because that costs more than it spares:", *(f"  {entry}" for entry in entries)] if entries else []
