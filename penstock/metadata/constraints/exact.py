"""Run-time satisfiability from first principles: the reference, and a mode for queries that are worth it.

After each event (each group of simultaneous events) the rest of the query is refuted anew against everything seen so far.
This also finds the cases where a required event has no legal position left, which condition tables do not.

References
----------
[ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, section 26.3. Differs: includes the temporal
test of the remaining query, without which the claimed completeness does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.metadata.constraints.query_graph import QueryGraph
from penstock.metadata.constraints.statics import refute
from penstock.metadata.constraints.theory import Proof, Theory, bits
from penstock.model.event_patterns import EventOrder

#: Verdicts remembered; a process has fewer states, and what has none is not remembered for ever.
MOST_KNOWN = 65_536


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An event as the reasoner sees it: its type, and the real leaves of that type whose own predicates it passes."""

    event_type: int
    leaves: int


@dataclass(frozen=True, slots=True)
class ExactState:
    """Types seen so far, and for each term the leaves matched so far."""

    seen: int
    matched: tuple[int, ...]


def newly_matched(graph: QueryGraph, matched: int, group: Iterable[TraceEvent], allowed: int = -1) -> int:
    """Leaves matched after a group of simultaneous events: the first event that fits is as good as any later one."""
    gained = 0
    for event in group:
        for leaf in bits(event.leaves & allowed & ~matched):
            if not graph.before[leaf] & ~matched:
                gained |= 1 << leaf
    return graph.completed(matched | gained) if gained else matched


class ExactReasoner:
    """Decides after every group of events whether a trace can still match.

    Examples
    --------
    >>> from penstock.metadata.constraints.clauses import prior, require
    >>> from penstock.metadata.constraints.constraint_set import ConstraintSet
    >>> from penstock.metadata.constraints.query_graph import query_graph
    >>> from penstock.model.event_patterns import seq
    >>> rules = ConstraintSet((), ("A", "B", "W", "Z"), (require("Z", "W"), prior("B", "W"), prior("W", "A")))
    >>> reasoner = ExactReasoner(Theory(rules), query_graph(seq("A", "B")))
    >>> print(reasoner.refutation(reasoner.start()))
    None
    >>> print(reasoner.refutation(reasoner.advance(reasoner.start(), [TraceEvent(3, 0)])))
    A comes before B in the pattern; no B comes after a W by prior(B, W); no W comes after a A by prior(W, A)
    """

    def __init__(
        self,
        theory: Theory,
        graph: QueryGraph,
        order: EventOrder = EventOrder.TIMESTAMP,
        reuse: bool = True,
        absences: bool = True,
    ) -> None:
        self.theory, self.graph, self.order, self.reuse, self.absences = theory, graph, order, reuse, absences
        self.term_leaves = tuple(graph.leaves_of(term) for term in graph.terms())
        self._known: dict[ExactState, Proof | None] = {}

    def start(self) -> ExactState:
        """The state before the first event."""
        return ExactState(0, (self.graph.completed(0),) * len(self.term_leaves))

    def advance(self, state: ExactState, group: Iterable[TraceEvent]) -> ExactState:
        """The state after a group of simultaneous events; under total order a group is one event."""
        events = tuple(group)
        seen = state.seen
        for event in events:
            seen |= 1 << event.event_type
        # Each term counts for itself: a leaf behind a disjunction may be matched behind another branch than the term's.
        pairs = zip(state.matched, self.term_leaves, strict=True)
        return ExactState(seen, tuple(newly_matched(self.graph, matched, events, leaves) for matched, leaves in pairs))

    def refutation(self, state: ExactState) -> Proof | None:
        """Why no consistent trace that begins so matches the query, now or later; None if one does."""
        if state not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[state] = self._refuted(state)  # traces of one process repeat few states
        return self._known[state]

    def is_hopeless(self, seen: int, matched: int) -> bool:
        """Whether no trace with these types and leaves matches; a leaf that is matched is so for all terms that have it.

        Behind a disjunction that says less than `advance` knows: there a leaf counts for the term alone whose branch came first.
        """
        return self.refutation(ExactState(seen, (matched,) * len(self.term_leaves))) is not None

    def _refuted(self, state: ExactState) -> Proof | None:
        last: Proof | None = None
        for matched, leaves in zip(state.matched, self.term_leaves, strict=True):
            rest = leaves & ~matched
            last = refute(self.theory, self.graph, rest, state.seen, self.order, self.reuse, self.absences)
            if last is None:
                return None
        return last
