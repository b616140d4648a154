"""What keeps strategies with priorities from leaving something waiting for ever."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.kernel.contracts import CutsArrivals, Explained, HearsArrivals, Policy, ServesTogether
from penstock.kernel.work import Choice, Item, Place, WaitingWork, WorkPlan
from penstock.model.batch import Batch
from penstock.model.durations import duration_text
from penstock.qos.scheduling.fifo import OldestHead

Key = TypeVar("Key", bound=Hashable)


class StarvationFree:
    """Pick by another strategy, and now and then what has waited longest.

    Nothing waits for ever, whatever the load; that load stays too much for the machine is not cured by it.

    Parameters
    ----------
    policy
        Picks otherwise. It is not told what was picked beside it.
    oldest_every
        Each so many picks one goes to what has waited longest; 0: never.
    max_age_ns
        What has waited longer goes before everything else, oldest first; None: never.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 6.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Price
    >>> from penstock.model.elements import Heartbeat
    >>> from penstock.qos.scheduling.path_capacity import PathCapacity
    >>> fast, slow = (PlannedOperator(name, (Price(row_ns=row_ns),), entrances=(0,)) for name, row_ns in [("fast", 1), ("slow", 9)])
    >>> policy, work = StarvationFree(PathCapacity(), oldest_every=3), WaitingWork(WorkPlan((fast, slow)))
    >>> policy.plan(WorkPlan((fast, slow)))
    >>> work.add("slow", Item(0, Heartbeat(1), number=1))
    >>> work.add("fast", Item(0, Heartbeat(1), number=2))
    >>> [policy.pick(work).operator for _ in range(4)]
    ['fast', 'fast', 'slow', 'fast']
    """

    def __init__(self, policy: Policy, oldest_every: int = 0, max_age_ns: int | None = None) -> None:
        self._policy, self._oldest_every, self._max_age_ns = policy, oldest_every, max_age_ns
        self._oldest = OldestHead()
        #: Since the oldest was picked.
        self._picks = 0

    def plan(self, plan: WorkPlan) -> None:
        self._oldest.plan(plan)
        self._policy.plan(plan)

    def pick(self, work: WaitingWork) -> Choice | None:
        if not work.waiting:
            return self._policy.pick(work)
        self._picks += 1
        if self._picks == self._oldest_every:
            self._picks = 0
            return Choice(self._oldest.operator(work))
        if self._max_age_ns is not None:
            oldest = self._oldest.operator(work)
            if work.now_ns - work.waiting[oldest].head.since_ns > self._max_age_ns:
                return Choice(oldest)
        return self._policy.pick(work)

    def on_arrival(self, operator: str, item: Item, now_ns: int) -> None:
        if isinstance(self._policy, HearsArrivals):
            self._policy.on_arrival(operator, item, now_ns)

    def cut(self, places: Sequence[Place], rows: Batch) -> Sequence[int]:
        return self._policy.cut(places, rows) if isinstance(self._policy, CutsArrivals) else ()

    @property
    def serving(self) -> tuple[str, object]:
        return self._policy.serving if isinstance(self._policy, ServesTogether) else ("", None)

    def snapshot(self) -> Mapping[str, Any]:
        return {"picks": self._picks, "policy": self._policy.snapshot()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._picks = state.get("picks", 0)
        self._policy.restore(state.get("policy", {}))

    def explained(self) -> Sequence[str]:
        lines = list(self._policy.explained()) if isinstance(self._policy, Explained) else []
        if self._oldest_every:
            lines.append(f"1 of {self._oldest_every} picks goes to what has waited longest")
        if self._max_age_ns is not None:
            lines.append(f"what has waited longer than {duration_text(self._max_age_ns // 1_000)} goes first")
        return lines


def urgencies(work: WaitingWork, owners: Mapping[str, Key]) -> dict[Key, float]:
    """How pressing what waits for each owner of operators is, from 0 to 1: by the age of its oldest item times its memory.

    Both are relative to the largest among them. Under overload this does not keep anything from starving: queues that are
    served grow old and long as well.
    """
    ages: dict[Key, int] = {}
    sizes: dict[Key, int] = {}
    for name, queue in work.waiting.items():
        owner = owners[name]
        ages[owner] = max(ages.get(owner, 0), work.now_ns - queue.head.since_ns)
        sizes[owner] = sizes.get(owner, 0) + queue.memory
    oldest, largest = max(ages.values()), max(sizes.values())
    return {owner: (age / oldest if oldest else 1.0) * (sizes[owner] / largest if largest else 1.0) for owner, age in ages.items()}


def boosted(priority: float, urgency: float) -> float:
    """A priority that grows with the urgency; 0 is neutral, so priorities below it come nearer to it."""
    return priority * (urgency if priority > 0 else 1.0 - urgency)
