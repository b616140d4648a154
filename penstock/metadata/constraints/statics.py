"""Can a query match at all? The static check, with a proof when it cannot.

A conjunctive query (or one term of a disjunctive one) can match unless what must occur contradicts itself, or what must be
ordered runs in a circle. `refute` decides this for the rest of a query behind any prefix of a trace; without a prefix it
is the static check.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, sections 26.2, 26.3. Differs: the temporal test
asks for a cycle with a strict edge, where the source asks whether the constraints alone deny one pair of the query, which
is too weak; and it is repeated at run time, where a required event may have no legal position.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.metadata.constraints.clauses import Constraint
from penstock.metadata.constraints.query_graph import QueryGraph
from penstock.metadata.constraints.theory import Proof, Theory, bits
from penstock.model.event_patterns import EventOrder

#: Above so many terms a disjunctive query is judged by its partitions only.
MOST_TERMS = 4096


@dataclass(frozen=True, slots=True)
class _Edge:
    """What `source` stands before `target` by; a query's own order has no constraint."""

    source: int
    target: int
    is_strict: bool
    constraint: Constraint | None


def refute(
    theory: Theory,
    graph: QueryGraph,
    leaves: int,
    seen: int = 0,
    order: EventOrder = EventOrder.TIMESTAMP,
    reuse: bool = True,
    absences: bool = True,
) -> Proof | None:
    """Why no consistent trace that begins with the seen types matches the given leaves after them; None if one may.

    Parameters
    ----------
    leaves
        Real leaves of a conjunctive part of the query that are not matched yet.
    seen
        Types of the events so far, whether or not they passed a predicate.
    order
        Whether events of one time are simultaneous.
    reuse
        Whether two leaves may be matched by one event.
    absences
        Whether types that were not seen did not come. Otherwise what is required beyond the leaves may have come before.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.query_graph import query_graph
    >>> from penstock.model.event_patterns import seq
    >>> theory = Theory(ConstraintSet((), ("A", "B"), (prior("B", "A"),)))
    >>> print(refute(theory, query_graph(seq("A", "B")), leaves=0b11))
    A comes before B in the pattern; no B comes after a A by prior(B, A)
    """
    needed = theory.mask(graph.types[leaf] for leaf in bits(leaves))
    required = theory.closure(seen | needed)
    if required & theory.falsity:
        return theory.proof(seen | needed, theory.falsity)
    missing = needed | (required & ~seen if absences else 0)
    gone = missing & theory.killed_by(seen)
    if gone:
        return _proof_of_gone(theory, seen, needed, gone & -gone)
    return _temporal_proof(theory, graph, leaves, missing & ~needed, order, reuse)


def _proof_of_gone(theory: Theory, seen: int, needed: int, gone: int) -> Proof:
    """A type must still come and cannot."""
    number = gone.bit_length() - 1
    killer = next(x for x in bits(seen) if theory.kills[x] & gone)
    why = theory.proof(seen | needed, gone)
    lines = (*why.lines, f"{theory.names[killer]} was seen and {theory.order_line(number, killer)}")
    return Proof(lines, (*why.used, theory.order_sources[number, killer]))


def _temporal_proof(theory: Theory, graph: QueryGraph, leaves: int, extra: int, order: EventOrder, reuse: bool) -> Proof | None:
    nodes = {leaf: theory.code[graph.types[leaf]] for leaf in bits(leaves)}
    place = {leaf: leaf for leaf in nodes}
    if order is EventOrder.TOTAL:
        merged = _merge_single_events(theory, nodes, place)
        if merged is not None and not reuse:
            name, source = theory.names[merged], theory.order_sources[merged, merged]
            return Proof((f"the pattern needs two events {name}, and there is only one by {source}",), (source,))
    offset = graph.leaf_count  # nodes of required types stand behind the leaves
    types = {place[leaf]: number for leaf, number in nodes.items()}
    types |= {offset + number: number for number in bits(extra)}
    edges = [_Edge(place[first], place[second], True, None) for second in nodes for first in nodes if graph.precedes(first, second)]
    for first, one in types.items():
        for second, other in types.items():
            if first != second and theory.kills[other] >> one & 1:
                edges.append(_Edge(first, second, order is EventOrder.TOTAL and one != other, theory.order_sources[one, other]))
    cycle = _strict_cycle(edges)
    return None if cycle is None else _proof_of_cycle(theory, types, cycle)


def _merge_single_events(theory: Theory, nodes: dict[int, int], place: dict[int, int]) -> int | None:
    """Under total order all leaves of a type that occurs once are one event; returns a type that was merged."""
    holder: dict[int, int] = {}
    merged = None
    for leaf, number in nodes.items():
        if theory.kills[number] >> number & 1:
            place[leaf] = holder.setdefault(number, leaf)
            merged = number if place[leaf] != leaf else merged
    return merged


def _strict_cycle(edges: list[_Edge]) -> list[_Edge] | None:
    """A shortest cycle that contains a strict edge."""
    leaving: dict[int, list[_Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.source, []).append(edge)
    found: list[_Edge] | None = None
    for edge in edges:
        if edge.is_strict:
            path = _path(leaving, edge.target, edge.source)
            if path is not None and (found is None or len(path) + 1 < len(found)):
                found = [edge, *path]
    return found


def _path(leaving: dict[int, list[_Edge]], start: int, goal: int) -> list[_Edge] | None:
    came: dict[int, _Edge | None] = {start: None}
    waiting = [start]
    for node in waiting:  # grows while it is walked: breadth first
        if node == goal:
            break
        for edge in leaving.get(node, ()):
            if edge.target not in came:
                came[edge.target] = edge
                waiting.append(edge.target)
    if goal not in came:
        return None
    path: list[_Edge] = []
    edge_back = came[goal]
    while edge_back is not None:
        path.append(edge_back)
        edge_back = came[edge_back.source]
    return path[::-1]


def _proof_of_cycle(theory: Theory, types: dict[int, int], cycle: list[_Edge]) -> Proof:
    lines = []
    for edge in cycle:
        one, other = types[edge.source], types[edge.target]
        if edge.constraint is None:
            lines.append(f"{theory.names[one]} comes before {theory.names[other]} in the pattern")
        else:
            lines.append(theory.order_line(one, other))
    return Proof(tuple(lines), tuple(dict.fromkeys(edge.constraint for edge in cycle if edge.constraint is not None)))


@dataclass(frozen=True, slots=True)
class StaticVerdict:
    """What is known of a query before any event.

    Attributes
    ----------
    terms
        Terms of the disjunctive normal form that may match, each as a set of partitions; None: too many to list.
    dead_terms
        The others, each with its proof.
    dead_partitions
        Branches that cannot be matched together with what surrounds them, with the proof.
    """

    terms: tuple[int, ...] | None
    dead_terms: tuple[tuple[int, Proof], ...]
    dead_partitions: tuple[tuple[int, Proof], ...]
    is_satisfiable: bool

    @property
    def proofs(self) -> tuple[Proof, ...]:
        """Why the query, or a part of it, never matches."""
        found = self.dead_terms or self.dead_partitions
        return tuple(dict.fromkeys(proof for _, proof in found))


def static_check(
    theory: Theory, graph: QueryGraph, order: EventOrder = EventOrder.TIMESTAMP, reuse: bool = True, most_terms: int = MOST_TERMS
) -> StaticVerdict:
    """Judge a whole query, disjunctions included.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import exclusive
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.query_graph import query_graph
    >>> from penstock.model.event_patterns import either, seq
    >>> theory = Theory(ConstraintSet((), ("A", "B", "C"), (exclusive("A", "B"),)))
    >>> verdict = static_check(theory, query_graph(seq("A", either("B", "C"))))
    >>> verdict.is_satisfiable, [str(proof) for proof in verdict.proofs]
    (True, ['A and B never occur together by exclusive(A, B)'])
    """
    dead_partitions = []
    for number in range(len(graph.partitions)):
        proof = refute(theory, graph, graph.leaves_of(graph.above(number)), order=order, reuse=reuse)
        if proof is not None:
            dead_partitions.append((number, proof))
    if graph.term_count() > most_terms:
        failed = propagated(graph, sum(1 << number for number, _ in dead_partitions))
        return StaticVerdict(None, (), tuple(dead_partitions), not failed & 1)
    terms, dead_terms = [], []
    for term in graph.terms():
        proof = refute(theory, graph, graph.leaves_of(term), order=order, reuse=reuse)
        if proof is None:
            terms.append(term)
        else:
            dead_terms.append((term, proof))
    return StaticVerdict(tuple(terms), tuple(dead_terms), tuple(dead_partitions), bool(terms))


def propagated(graph: QueryGraph, failed: int) -> int:
    """Failed partitions with what follows: a disjunction without branches fails its holder, and a holder all it holds."""
    for virtual in sorted(graph.branches, reverse=True):  # inner disjunctions have the higher numbers
        branches = graph.branches[virtual]
        if all(failed >> branch & 1 for branch in branches):
            failed |= 1 << graph.partitions[branches[0]].parent
    for number in bits(failed):
        failed |= graph.below(number)
    return failed
