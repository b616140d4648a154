"""The run-time optimiser: from what is measured of queries and what their contracts expect to what shall change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.model.qos import Priority
from penstock.qos.optimizer.decision_table import DEFAULT, DecisionTable
from penstock.qos.optimizer.history import Change, History, Key
from penstock.qos.optimizer.scores import Considered, Observation, best, considered, is_better, score

#: Rows are shed no longer when every promise that must be kept is kept with such a part to spare.
_MARGIN = 0.1


class Action(StrEnum):
    """What the optimiser can do."""

    KEEP = "keep"
    #: Let another strategy choose what runs first.
    SWITCH = "switch"
    #: Shed more rows for a query, or fewer.
    SHED = "shed"
    RESTORE = "restore"
    #: Nothing is left that could be done.
    CANNOT = "cannot"


@dataclass(frozen=True, slots=True)
class Decision:
    """What shall be done, and why.

    Parameters
    ----------
    strategy
        The one that works from now on.
    query
        The one whose rows are shed or restored, or whose contract cannot be met.
    violated
        What was worse than expected, of the most important class that had anything.
    scores
        Of the strategies that were compared; empty if nothing was.
    """

    action: Action
    strategy: str
    query: str = ""
    violated: tuple[Observation, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(slots=True)
class Shedding:
    """What a query could lose, as the optimiser sees it: places to drop rows at, the best first.

    Parameters
    ----------
    places
        How many there are; 0 if its contract allows no loss, or nothing may be lost without changing what answers mean.
    active
        How many of them drop rows now.
    """

    places: int = 0
    active: int = 0


class Optimizer:
    """Decides for all queries of an application, which share one strategy.

    Parameters
    ----------
    strategy
        The one that works at first.
    table
        How strategies rank.
    all_at_once
        Whether all rows of a query are let through as soon as its contract is met, as published; otherwise places are
        given up one at a time, the last one first, when there is some room.

    Notes
    -----
    The publication decides query by query, each with a scheduler of its own. Here all queries of a shard are served by one
    strategy, so measures of all of them are considered together, by class and by the importance of their queries; for one
    query this is the published rule. What the publication leaves open stands in section 10.4 of the specification.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 10.5, algorithm 7.
    """

    def __init__(self, strategy: str, table: DecisionTable = DEFAULT, all_at_once: bool = False) -> None:
        self.strategy, self.table, self.all_at_once = strategy, table, all_at_once
        self.history = History()

    def decide(self, observations: Sequence[Observation], shedding: Mapping[str, Shedding]) -> Decision:
        """What to do after one look at all measures.

        Parameters
        ----------
        shedding
            By query, changed by what is decided.
        """
        violated = [item for item in observations if item.is_violated]
        if not violated:
            return self._at_ease(observations, shedding)
        first = max((item.priority for item in violated), key=lambda priority: priority.weight)
        served = [item for item in violated if item.priority is first]
        higher = [item for item in observations if not item.is_violated and item.priority.weight > first.weight]
        candidate = self._candidate(served, higher, observations)
        if candidate is not None:
            return self._switched(candidate, served, observations, considered(served, higher), shedding)
        return self._shed(served, considered(served, higher), shedding)

    # -- strategies ---------------------------------------------------------------------------------------------------

    def _candidate(
        self, served: Sequence[Observation], higher: Sequence[Observation], observations: Sequence[Observation]
    ) -> str | None:
        """A strategy that suits better and has not just been given up for the opposite reason."""
        items = considered(served, higher)
        found = best(self.table, self.strategy, items)
        if not is_better(self.table, found, self.strategy, items):
            return None
        if not self.history.would_cycle(self._change(found, observations)):
            return found
        known = self.history.violated_before()
        both = considered([item for item in observations if item in served or item.key in known], higher)
        compromise = best(self.table, self.strategy, both)
        if compromise == self.strategy or self.history.would_cycle(self._change(compromise, observations)):
            return None
        return compromise

    def _change(self, strategy: str, observations: Sequence[Observation]) -> Change:
        violated = frozenset(item.key for item in observations if item.is_violated)
        return Change(self.strategy, strategy, violated, frozenset(item.key for item in observations) - violated)

    def _switched(
        self, strategy: str, served: Sequence[Observation], observations: Sequence[Observation], items: Sequence[Considered],
        shedding: Mapping[str, Shedding],
    ) -> Decision:  # fmt: skip
        self.history.add(self._change(strategy, observations))
        before, self.strategy = self.strategy, strategy
        for each in shedding.values():
            each.active = 0
        scores = self._scores(items)
        reason = f"{self._named(served)}; '{strategy}' suits that better than '{before}'"
        return Decision(Action.SWITCH, strategy, "", tuple(served), scores, reason)

    def _scores(self, items: Sequence[Considered]) -> dict[str, float]:
        return {strategy: score(self.table, strategy, items) for strategy in self.table.strategies}

    # -- rows that are shed -------------------------------------------------------------------------------------------

    def _shed(self, served: Sequence[Observation], items: Sequence[Considered], shedding: Mapping[str, Shedding]) -> Decision:
        """No strategy helps: shed, if the class allows it."""
        scores = self._scores(items)
        if served[0].priority is not Priority.MUST_SATISFY:
            reason = f"{self._named(served)}; no strategy suits that better, and only for promises with MUST rows are shed"
            return Decision(Action.KEEP, self.strategy, "", tuple(served), scores, reason)
        for item in sorted(served, key=_badness, reverse=True):
            room = shedding.get(item.query)
            if room is not None and room.active < room.places:
                room.active += 1
                reason = f"{self._named([item])}; no strategy suits that better, so more rows are shed"
                return Decision(Action.SHED, self.strategy, item.query, tuple(served), scores, reason)
        worst = max(served, key=_badness)
        reason = f"{self._named(served)}; no strategy suits that better, and no more rows may be shed: the contract cannot be met"
        return Decision(Action.CANNOT, self.strategy, worst.query, tuple(served), scores, reason)

    def _at_ease(self, observations: Sequence[Observation], shedding: Mapping[str, Shedding]) -> Decision:
        """Every contract is met: let more rows through."""
        must = [item for item in observations if item.priority is Priority.MUST_SATISFY]
        active = [query for query, room in shedding.items() if room.active]
        if not active or not (self.all_at_once or all(item.margin >= _MARGIN for item in must)):
            return Decision(Action.KEEP, self.strategy, reason="every contract is met")
        query = active[-1]
        shedding[query].active -= 1
        if self.all_at_once:
            for room in shedding.values():
                room.active = 0
        return Decision(Action.RESTORE, self.strategy, query, reason="every contract is met, with room: fewer rows are shed")

    def expects_anew(self) -> None:
        """Contracts expect something else from now on: taking back what was right before is no cycle."""
        self.history.clear()

    @staticmethod
    def _named(items: Sequence[Observation]) -> str:
        return ", ".join(f"{item.expectation.measure.value} of '{item.query}'" for item in items) + " is worse than promised"

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        pairs = [[*sorted(pair), count] for pair, count in self.history.repetitions.items()]
        return {
            "strategy": self.strategy,
            "changes": [change.to_json() for change in self.history.changes],
            "repetitions": sorted(pairs),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.strategy = state["strategy"]
        changes = [Change.from_json(item) for item in state["changes"]]
        self.history = History(changes, {frozenset((one, other)): count for one, other, count in state["repetitions"]})


def _badness(item: Observation) -> float:
    """By which part a measure is worse than promised, with the importance of its query."""
    return item.importance * item.expectation.relative_violation(item.measured, item.at, item.lookahead)


__all__ = ["Action", "Decision", "Key", "Optimizer", "Shedding"]
