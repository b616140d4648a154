"""The strategy for those who do not want to choose one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from penstock.kernel.contracts import CutsArrivals, Explained, HearsArrivals, Policy, ServesTogether
from penstock.kernel.work import Choice, Item, Place, WaitingWork, WorkPlan
from penstock.model.batch import Batch
from penstock.qos.scheduling.deadline import Deadline
from penstock.qos.scheduling.profit_deadline import ProfitDeadline
from penstock.qos.scheduling.trees import Step, trees

#: Arrivals are counted in so many stretches of time within those that are remembered.
STRETCHES = 16
#: Weight of an arrival in the mean laxity.
LATEST = 1 / 8


class Mode(StrEnum):
    """Which strategy serves."""

    WITHOUT_VALIDITY = "without_validity"
    DEADLINE = "deadline"
    PROFIT_DEADLINE = "profit_deadline"


class Auto:
    """Choose by what the queries ask for, and by how much comes in.

    If no query has a validity, one strategy serves all the time. With validities, what can wait least goes first while the
    processor keeps up more or less, and what earns most when clearly more comes in than can be done.

    Parameters
    ----------
    without_validity
        Makes the strategy for queries without validities.
    deadline, profit_deadline
        Make those for less and for more load.
    threshold
        Work that comes in for each unit of time at which the one gives way to the other.
    hysteresis
        How far beyond the threshold it must be, as a part of it.

    Notes
    -----
    The source leaves this open. Load is the price of all that arriving rows will set going, for the time of the mean laxity of
    arrivals; the threshold was read off simulations.

    Examples
    --------
    >>> from penstock.kernel.work import PlannedOperator, Terms
    >>> auto = Auto(Deadline)
    >>> auto.plan(WorkPlan((PlannedOperator("a", entrances=(0,), answers=("q",)),), {"q": Terms(after_arrival_us=5_000_000)}))
    >>> auto.mode.value
    'deadline'
    """

    def __init__(
        self,
        without_validity: Callable[[], Policy],
        deadline: Callable[[], Policy] = Deadline,
        profit_deadline: Callable[[], Policy] = ProfitDeadline,
        threshold: float = 1.5,
        hysteresis: float = 0.1,
    ) -> None:
        self._makers = {Mode.WITHOUT_VALIDITY: without_validity, Mode.DEADLINE: deadline, Mode.PROFIT_DEADLINE: profit_deadline}
        self._threshold = threshold
        self._hysteresis = hysteresis
        self._plan: WorkPlan | None = None
        self._mode = Mode.WITHOUT_VALIDITY
        self._policy = without_validity()
        self._load = ArrivingLoad()
        self._has_heard = False

    @property
    def mode(self) -> Mode:
        return self._mode

    def plan(self, plan: WorkPlan) -> None:
        self._plan = plan
        self._load.plan(plan)
        has_validity = any(plan.terms_of(query).has_validity for operator in plan.operators for query in operator.answers)
        if not has_validity:
            mode = Mode.WITHOUT_VALIDITY
        else:
            mode = Mode.DEADLINE if self._mode is Mode.WITHOUT_VALIDITY else self._mode
        if mode is not self._mode:
            self._mode, self._policy = mode, self._makers[mode]()
        self._policy.plan(plan)

    def on_arrival(self, operator: str, item: Item, now_ns: int) -> None:
        if item.rows and self._mode is not Mode.WITHOUT_VALIDITY:
            self._has_heard = True
            self._load.hear((operator, item.port), item, now_ns)
        if isinstance(self._policy, HearsArrivals):
            self._policy.on_arrival(operator, item, now_ns)

    def cut(self, places: Sequence[Place], rows: Batch) -> Sequence[int]:
        return self._policy.cut(places, rows) if isinstance(self._policy, CutsArrivals) else ()

    def pick(self, work: WaitingWork) -> Choice | None:
        if self._has_heard:
            self._has_heard = False
            self._choose_mode()
        return self._policy.pick(work)

    def _choose_mode(self) -> None:
        load = self._load.value
        if load is None:
            return
        if self._mode is Mode.DEADLINE and load > self._threshold * (1 + self._hysteresis):
            self._go_on_with(Mode.PROFIT_DEADLINE)
        elif self._mode is Mode.PROFIT_DEADLINE and load < self._threshold * (1 - self._hysteresis):
            self._go_on_with(Mode.DEADLINE)

    def _go_on_with(self, mode: Mode) -> None:
        """Both remember the same things, so the other goes on where this one stands."""
        before, self._mode, self._policy = self._policy.snapshot(), mode, self._makers[mode]()
        if self._plan is not None:
            self._policy.plan(self._plan)
        self._policy.restore(before)

    @property
    def serving(self) -> tuple[str, object]:
        return self._mode.value, self._policy.serving if isinstance(self._policy, ServesTogether) else None

    def snapshot(self) -> Mapping[str, Any]:
        return {
            "mode": self._mode.value,
            "policy": self._policy.snapshot(),
            "load": self._load.snapshot(),
            "has_heard": self._has_heard,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._mode = Mode(state.get("mode", Mode.WITHOUT_VALIDITY))
        self._policy = self._makers[self._mode]()
        self._has_heard = state.get("has_heard", False)
        self._load.restore(state.get("load", {}))
        if self._plan is not None:
            self._policy.plan(self._plan)
        self._policy.restore(state.get("policy", {}))

    def explained(self) -> Sequence[str]:
        load = self._load.value
        measured = "" if load is None else f"; {load:.3g} s of work come in each second"
        lines = self._policy.explained() if isinstance(self._policy, Explained) else ()
        return [f"strategy in use: {self._mode.value}{measured}", *lines]


class ArrivingLoad:
    """Work that arriving rows bring, for the time that passes: 1 is as much as can be done.

    It is measured over the mean laxity of arrivals, so that a burst counts if it lasts longer than its rows can wait.
    """

    def __init__(self) -> None:
        #: Of each entrance: time of all that a row sets going, and validities of the queries behind it in nanoseconds.
        self._row_ns: dict[Place, float] = {}
        self._validities: dict[Place, list[tuple[int | None, int | None]]] = {}
        self._least_ns = 1.0
        self._laxity_ns: float | None = None
        #: When each stretch began, and the work that came in it. The first only says since when the others are counted.
        self._stretches: list[tuple[int, float]] = []

    def plan(self, plan: WorkPlan) -> None:
        self._row_ns = {}
        self._validities = {}
        for tree in trees(plan):
            place = tree.operator, tree.port
            self._row_ns[place] = sum(step.time_ns for step in tree.walk())
            self._validities[place] = _validities(plan, tree)
        shortest = [min(limit for limit in pair if limit is not None) for pairs in self._validities.values() for pair in pairs]
        mean_ns = sum(shortest) / len(shortest) if shortest else 0.0
        # What is late on arrival must not make the time of measuring vanish.
        self._least_ns = max(mean_ns / 4, 1.0)
        if self._laxity_ns is None and shortest:
            self._laxity_ns = mean_ns

    def hear(self, place: Place, item: Item, now_ns: int) -> None:
        work_ns = self._row_ns.get(place, 0.0) * item.rows
        event_ns = min(item.oldest_us * 1_000, item.since_ns)
        due = [event_ns + after for after, _ in self._validities.get(place, ()) if after is not None]
        due += [item.since_ns + after for _, after in self._validities.get(place, ()) if after is not None]
        if due and self._laxity_ns is not None:
            self._laxity_ns += LATEST * (min(due) - now_ns - work_ns - self._laxity_ns)
        self._count(work_ns, now_ns)

    @property
    def window_ns(self) -> int:
        """Whole numbers: beside the time since 1970 a fraction is lost, and stretches would have no length."""
        return round(max(self._laxity_ns or 0.0, self._least_ns))

    def _count(self, work_ns: float, now_ns: int) -> None:
        stretches = self._stretches
        if stretches and now_ns <= stretches[-1][0] + self.window_ns // STRETCHES:
            stretches[-1] = stretches[-1][0], stretches[-1][1] + work_ns
        else:
            stretches.append((now_ns, work_ns))
        while len(stretches) > 2 and stretches[1][0] <= now_ns - self.window_ns:
            del stretches[0]

    @property
    def value(self) -> float | None:
        """None as long as all has come at once."""
        if len(self._stretches) < 2:
            return None
        return sum(work for _, work in self._stretches[1:]) / (self._stretches[-1][0] - self._stretches[0][0])

    def snapshot(self) -> Mapping[str, Any]:
        return {"laxity_ns": self._laxity_ns, "stretches": self._stretches}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._laxity_ns = state.get("laxity_ns", self._laxity_ns)
        self._stretches = [(began_ns, work_ns) for began_ns, work_ns in state.get("stretches", ())]


def _validities(plan: WorkPlan, tree: Step) -> list[tuple[int | None, int | None]]:
    """Of the queries behind an entrance, after the time of the row and after its arrival; in nanoseconds."""
    found = [plan.terms_of(query) for step in tree.walk() for query in step.answers]
    return [(_in_ns(terms.after_event_us), _in_ns(terms.after_arrival_us)) for terms in found if terms.has_validity]


def _in_ns(micros: int | None) -> int | None:
    return None if micros is None else micros * 1_000
