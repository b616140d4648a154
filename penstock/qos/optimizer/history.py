"""Remembers changes of strategy, so that two of them do not take turns for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.model.qos import Measure

#: A measure of a query.
Key: TypeAlias = tuple[str, Measure]
#: So often a change may be undone because the opposite is violated.
MOST_REPETITIONS = 2


@dataclass(frozen=True, slots=True)
class Change:
    """One change of strategy, and why."""

    before: str
    after: str
    violated: frozenset[Key]
    satisfied: frozenset[Key]

    def to_json(self) -> dict[str, Any]:
        return {
            "before": self.before,
            "after": self.after,
            "violated": [[query, measure.value] for query, measure in sorted(self.violated)],
            "satisfied": [[query, measure.value] for query, measure in sorted(self.satisfied)],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Change:
        keys = [frozenset((query, Measure(measure)) for query, measure in found[name]) for name in ("violated", "satisfied")]
        return cls(found["before"], found["after"], keys[0], keys[1])


@dataclass(slots=True)
class History:
    """Changes since the contracts expect what they expect now.

    References
    ----------
    [chakravarthy2009] Section 10.5: alternation that changed expectations cause is legitimate, so they clear the history.
    """

    changes: list[Change] = field(default_factory=list)
    repetitions: dict[frozenset[str], int] = field(default_factory=dict)

    def would_cycle(self, change: Change) -> bool:
        """Whether a change has been taken back and made again too often."""
        return self._repeated(change) > MOST_REPETITIONS

    def add(self, change: Change) -> None:
        self.repetitions[frozenset((change.before, change.after))] = self._repeated(change)
        self.changes.append(change)

    def _repeated(self, change: Change) -> int:
        known = self.repetitions.get(frozenset((change.before, change.after)), 0)
        earlier = next((item for item in reversed(self.changes) if item.before == change.after), None)
        is_undone = earlier is not None and earlier.violated == change.satisfied and earlier.satisfied == change.violated
        return known + 1 if is_undone else known

    def clear(self) -> None:
        self.changes.clear()
        self.repetitions.clear()

    def violated_before(self) -> frozenset[Key]:
        """Everything that has ever been a reason."""
        return frozenset().union(*(change.violated for change in self.changes))
