"""What all strategies share that schedule jobs: an arrival at an operator, with everything it still sets going.

They differ in what a job is and is worth (`valuation`), in the order of waiting jobs, and in what may interrupt the running one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from math import ceil, inf
from typing import Any

import numpy as np

from penstock.kernel.work import LONG_AGO_US, Choice, Item, Place, Price, Queue, WaitingWork, WorkPlan
from penstock.model.batch import Batch, Int64s
from penstock.model.elements import NEVER, Heartbeat
from penstock.model.punctuation import Punctuation
from penstock.qos.scheduling.batching import ArrivalBatches
from penstock.qos.scheduling.checks import repeated_places
from penstock.qos.scheduling.last_ditch import LastDitch
from penstock.qos.scheduling.valuation import JobByJob, Known, ProfitOf, Validity, Valuation, Worth, known_places, usable

#: No deadline.
ALWAYS_NS = 2**62

#: Arrivals are cut into batches of so many rows at least: a decision for fewer would cost more than it gains.
LEAST_ROWS = 1024

#: So many items of a queue are looked at behind the first that is not late.
LOOKED_AT = 64


class Order(Enum):
    """Which waiting job is the next."""

    #: The one that earns most for its time; among equals the one that is due first.
    PROFIT = "profit"
    #: The one that can wait least; among equals the one that earns most for its time.
    DEADLINE = "deadline"
    #: The one that earns most for its time; among equals the one that can wait least.
    PROFIT_DEADLINE = "profit_deadline"


@dataclass(slots=True, eq=False)
class WaitingJob:
    """An item that can run now, with all that belongs to the same job.

    Parameters
    ----------
    item, position
        What waits, and where in the queue.
    own_ns, cost_ns
        Time of the operator, and of the whole job.
    profit
        Of the rows that will be in time.
    latest_ns, deadline_ns
        When it must start, and when it must have ended.
    places
        Where the job leads.
    judged_ns, until_ns
        When this was found out, and until when it would be found again.
    rank
        Smaller is earlier.
    """

    operator: str
    item: Item
    position: int
    own_ns: int
    cost_ns: float
    profit: float
    latest_ns: float
    deadline_ns: float
    places: tuple[Place, ...]
    judged_ns: int
    until_ns: float = inf
    density: float = 0.0
    rank: tuple[Any, ...] = ()

    @property
    def number(self) -> int:
        return self.item.number

    @property
    def key(self) -> tuple[str, int, int]:
        """Tells it from others."""
        return self.operator, self.item.port, self.item.number

    def still_holds(self, item: Item, now_ns: int) -> bool:
        return item is self.item and self.judged_ns <= now_ns <= self.until_ns


@dataclass(frozen=True, slots=True)
class Stake:
    """What the queries of one validity still get from an item."""

    profit: float
    latest_ns: float
    deadline_ns: float


@dataclass(frozen=True, slots=True)
class Running:
    """The job that was begun: an arrival, and where its job leads."""

    number: int
    places: tuple[Place, ...]


class SchedulesJobs:
    """Base of the strategies that choose between arrivals, and so see their deadlines.

    The running job goes on until it is done, unless something happens that lets the others be looked at: rows come in (or, job by
    job, rows reach any queue), or a waiting job must start now. Elements without rows run as soon as they are in front.

    Nothing is dropped. A job that cannot be in time is late from then on: rows that are not may overtake it, and it is served,
    the oldest first, when nothing else waits. Of the items of one operator and port the oldest that is not late goes first.

    Parameters
    ----------
    valuation
        What belongs to a job, and what it is worth.
    order
        Which waiting job is the next.
    last_ditch
        The test for jobs that must start now; None: jobs are late only when even the newest row is no longer of use.
    profit
        Whether profit is a share of all answers of a query (`answers`), or of the rows that enter (`weight`).
    splitting
        Whether rows of an item that can still be in time count if others cannot. Without, the oldest row decides for all.

    Notes
    -----
    Differs from the source. A job is what lies behind the waiting item, reckoned by the same rule, and not the rest of what was
    reckoned when it came in; for the repaired rule that earns at least as much. Queries have validities, not inputs: a job is
    late when no query behind it can be answered in time, and until then only the others count. The kernel runs an item slice by
    slice from its front: so a row is in time if it is when those before it have run too, late rows of an item that are still in
    front are part of its cost, and what has left slice by slice is no longer part of its profit. How long a slice takes is not
    known beforehand; a job asks to interrupt the running one if it could not start after another slice like the last one.
    """

    def __init__(
        self,
        valuation: Valuation,
        order: Order,
        last_ditch: LastDitch | None = None,
        profit: ProfitOf = "answers",
        splitting: bool = True,
    ) -> None:
        self._valuation = valuation
        self._order = order
        self._last_ditch = last_ditch
        self._profit = profit
        self._splitting = splitting or last_ditch is None
        #: Rows that reach any queue are news then, and not only those that come in.
        self.goes_operator_by_operator = isinstance(valuation, JobByJob)
        self._plan: WorkPlan | None = None
        self._known: dict[Place, Known] = {}
        self._position: dict[str, int] = {}
        #: Rows that came to each entrance: as the present profits have it, and newly counted.
        self._rates: dict[Place, float] = {}
        self._arrivals: dict[Place, float] = {}
        self._running: Running | None = None
        #: Of each operator: how many items at the front of its queue are late, and arrival and port of the last of them.
        self._late: dict[str, tuple[int, int, int]] = {}
        #: Jobs that have asked to interrupt the running one; each may do so once.
        self._asked: set[tuple[str, int, int]] = set()
        self._has_news = True
        self._items = 0
        #: Not state, only saves time: of each place the job in front.
        self._in_front: dict[Place, WaitingJob] = {}
        #: When the next waiting job must start.
        self._critical_ns = inf
        #: When something was picked last, and how long something picked took.
        self._picked_ns: int | None = None
        self._slice_ns = 0
        self._batches = ArrivalBatches(LEAST_ROWS)
        #: How long jobs could wait on average when they were last compared, if one of them had a deadline.
        self._laxity_ns: float | None = None
        #: How often waiting jobs were compared.
        self.reschedulings = 0

    # Plans and arrivals

    def plan(self, plan: WorkPlan) -> None:
        if plan == self._plan:
            return
        if self._plan is not None:
            self._rates = dict(self._arrivals)
            self._arrivals = {place: rows / 2 for place, rows in self._arrivals.items()}
            self._late, self._asked, self._running, self._has_news = {}, set(), None, True
        self._plan = plan
        self._reckon(plan)

    def _reckon(self, plan: WorkPlan) -> None:
        plan = usable(plan)
        self._in_front = {}
        self._worth = Worth(plan, self._profit, self._rates)
        self._known = known_places(plan, self._worth)
        self._position = {operator.id: position for position, operator in enumerate(plan.operators)}
        self._ports = {operator.id: len(operator.prices) for operator in plan.operators}

    def on_arrival(self, operator: str, item: Item, now_ns: int) -> None:
        """Rows from outside: profits are shares of how many come, and waiting jobs are compared again."""
        if item.rows:
            self._has_news = True
            place = operator, item.port
            self._arrivals[place] = self._arrivals.get(place, 0.0) + item.rows

    def cut(self, places: Sequence[Place], rows: Batch) -> Sequence[int]:
        """Rows that have come close together, and can wait for each other, are one batch; others have other deadlines."""
        validity_us = min((found for place in places if (found := self._validity_us(place)) is not None), default=None)
        if validity_us is None:
            return ()
        laxity_us = validity_us if self._laxity_ns is None else max(self._laxity_ns, 0.0) / 1_000
        operator, port = places[0]
        return self._batches.cut(f"{operator}.{port}", np.clip(rows.ts, -LONG_AGO_US, LONG_AGO_US), laxity_us)

    def _validity_us(self, place: Place) -> int | None:
        """After their own time, how long rows that enter here are of use; None: the time is not what counts."""
        known = self._known.get(place)
        counted = known.validities if known is not None else 0
        limits = [validity.after_event_us for number, validity in enumerate(self._worth.validities) if counted >> number & 1]
        return min((limit for limit in limits if limit is not None), default=None)

    # Picking

    def pick(self, work: WaitingWork) -> Choice | None:
        if not work.waiting:
            return None
        mark = self._mark(work)
        if mark is not None:
            return mark
        self._measure(work.now_ns)
        job = self._going_on(work)
        has_news = self._is_news(work)
        if job is None or has_news or work.now_ns + self._horizon_ns(job) > self._critical_ns:
            job = self._compared(work, job, has_news)
        if self.goes_operator_by_operator:
            self._items = _count(work)
        return Choice(job.operator, job.position) if job is not None else self._in_background(work)

    def _mark(self, work: WaitingWork) -> Choice | None:
        """An element without rows that is in front of a queue."""
        found = [queue.operator for queue in work.waiting.values() if not queue.head.rows]
        if not found:
            return None
        operator = min(found, key=self._position_of)
        self._forget_late_head(operator)
        self._items -= 1
        return Choice(operator)

    def _position_of(self, operator: str) -> tuple[int, str]:
        """Sorts operators as the plan does; those that it does not know are last."""
        return self._position.get(operator, len(self._position)), operator

    def _measure(self, now_ns: int) -> None:
        if self._picked_ns is not None and now_ns > self._picked_ns:
            self._slice_ns = now_ns - self._picked_ns
        self._picked_ns = now_ns

    def _horizon_ns(self, job: WaitingJob) -> int:
        """How long the others wait at least if this job goes on: what is picked may be a slice of its item."""
        return min(job.own_ns, self._slice_ns) if self._slice_ns else job.own_ns

    def _is_news(self, work: WaitingWork) -> bool:
        has_news = self._has_news or (self.goes_operator_by_operator and _count(work) > self._items)
        self._has_news = False
        return has_news

    def _going_on(self, work: WaitingWork) -> WaitingJob | None:
        """What is left of the running job; older items in the same queue go first."""
        running, found = self._running, []
        for place in running.places if running is not None else ():
            queue = work.waiting.get(place[0])
            if queue is not None and running is not None and self._holds(queue, place[1], running.number):
                found += [job for job in self._jobs_of(queue, work.now_ns) if job.item.port == place[1]]
        # Among equals what is nearest to the answers.
        return max(found, key=lambda job: (job.density, self._position_of(job.operator), job.item.port), default=None)

    def _holds(self, queue: Queue, port: int, number: int) -> bool:
        """Whether rows of an arrival are in a queue, as far as is looked."""
        first = self._known_late(queue)
        near = islice(queue.items, first, first + LOOKED_AT)
        return any(item.number == number and item.port == port and item.rows for item in near)

    def _compared(self, work: WaitingWork, running: WaitingJob | None, has_news: bool) -> WaitingJob | None:
        """The job to run after a look at all of them."""
        jobs = [job for queue in work.waiting.values() for job in self._jobs_of(queue, work.now_ns)]
        self.reschedulings += 1
        self._critical_ns = inf
        laxities = [job.latest_ns - work.now_ns for job in jobs if job.latest_ns != inf]
        self._laxity_ns = sum(laxities) / len(laxities) if laxities else None
        if not jobs:
            self._running = None
            return None
        first = min(jobs, key=_by_rank)
        if running is None or (has_news and self._is_better(first, running)):
            running = self._begun(first)
        if self._last_ditch is not None:
            running = self._after_last_ditch(jobs, running, work.now_ns, self._last_ditch)
        return running

    def _begun(self, job: WaitingJob) -> WaitingJob:
        self._running = Running(job.number, job.places)
        return job

    def _is_better(self, job: WaitingJob, running: WaitingJob) -> bool:
        if self._order is Order.DEADLINE:
            return job.latest_ns < running.latest_ns
        return job.density > running.density

    def _after_last_ditch(self, jobs: Sequence[WaitingJob], running: WaitingJob, now_ns: int, test: LastDitch) -> WaitingJob:
        """Ask for every job that must start now, the most urgent first; then note when the next one must."""
        self._asked &= {job.key for job in jobs}
        critical = [job for job in jobs if job.latest_ns < now_ns + self._horizon_ns(running)]
        for job in sorted(critical, key=lambda job: (job.latest_ns, job.rank)):
            if job.latest_ns >= now_ns + self._horizon_ns(running):
                break
            if job.key in self._asked or self._is_running(job):
                continue
            self._asked.add(job.key)
            if test.interrupts(job, running, now_ns):
                running = self._begun(job)
        asking = (job.latest_ns for job in jobs if job.key not in self._asked and not self._is_running(job))
        self._critical_ns = min(asking, default=inf)
        return running

    def _is_running(self, job: WaitingJob) -> bool:
        running = self._running
        return running is not None and job.number == running.number and (job.operator, job.item.port) in running.places

    def _in_background(self, work: WaitingWork) -> Choice:
        """The oldest late item."""
        queue = min(work.waiting.values(), key=lambda queue: (queue.head.age_key, self._position_of(queue.operator)))
        self._forget_late_head(queue.operator)
        return Choice(queue.operator)

    def _forget_late_head(self, operator: str) -> None:
        """It may have been a slice of it only; then it is found late again."""
        count, number, port = self._late.pop(operator, (0, 0, 0))
        if count > 1:
            self._late[operator] = count - 1, number, port

    # Jobs

    def _jobs_of(self, queue: Queue, now_ns: int) -> Iterator[WaitingJob]:
        """The oldest item of each port that is not late, if it may overtake those before it.

        Rows may overtake rows, and promises about time or values: these speak of rows behind them. Promises overtake nothing.
        """
        items = queue.items
        ports: set[int] = set()
        position = self._known_late(queue)
        end = min(len(items), position + LOOKED_AT)
        while position < end:
            item = items[position]
            if item.rows and item.port not in ports:
                job = self._job(queue.operator, position, item, now_ns)
                if job is not None:
                    ports.add(item.port)
                    yield job
                    if len(ports) == self._ports.get(queue.operator, 1):
                        return
                elif not ports:
                    self._late[queue.operator] = position + 1, item.number, item.port
                    end = min(len(items), position + 1 + LOOKED_AT)
            if not isinstance(item.element, Batch | Heartbeat | Punctuation):
                return
            position += 1

    def _known_late(self, queue: Queue) -> int:
        """How many items at the front are late; zero if somebody else has taken some of them away."""
        count, number, port = self._late.get(queue.operator, (0, 0, 0))
        if not count:
            return 0
        if count <= len(queue.items):
            last = queue.items[count - 1]
            if last.number == number and last.port == port:
                return count
        del self._late[queue.operator]
        return 0

    def _job(self, operator: str, position: int, item: Item, now_ns: int) -> WaitingJob | None:
        """None if it is late."""
        place = operator, item.port
        job = self._in_front.get(place)
        if job is not None and job.still_holds(item, now_ns):
            job.position = position
            return job
        job = self._judged(operator, position, item, now_ns)
        if job is not None:
            job.density = job.profit / job.cost_ns
            job.rank = self._rank(job)
            self._in_front[place] = job
        return job

    def _rank(self, job: WaitingJob) -> tuple[Any, ...]:
        """Ties by age and plan."""
        last = job.number, self._position_of(job.operator), job.item.port
        if self._order is Order.DEADLINE:
            return job.latest_ns, -job.density, *last
        return -job.density, job.deadline_ns if self._order is Order.PROFIT else job.latest_ns, *last

    def _judged(self, operator: str, position: int, item: Item, now_ns: int) -> WaitingJob | None:
        place = operator, item.port
        known = self._known.get(place)
        if known is None or not known.validities:
            # Nobody is answered by it, so it never is late.
            own_ns = known.price.of(item.rows) if known is not None else 0
            return WaitingJob(operator, item, position, own_ns, own_ns or 1, 0.0, inf, inf, (place,), now_ns)
        own_ns = known.price.of(item.rows)
        counted, until_ns = known.validities, inf
        while counted:
            prospect = known.prospects.get(counted)
            if prospect is None:
                prospect = known.prospects[counted] = self._valuation.prospect(known.tree, counted, self._worth)
            stakes = [self._stake(item, earning, known.price, now_ns) for earning in prospect.earnings]
            missed = sum(1 << earning[0] for earning, stake in zip(prospect.earnings, stakes, strict=True) if stake is None)
            until_ns = min([until_ns, *(stake.latest_ns for stake in stakes if stake)])
            if not missed:
                return WaitingJob(
                    operator,
                    item,
                    position,
                    own_ns,
                    cost_ns=(own_ns + prospect.behind_ns * item.rows) or 1,
                    profit=sum(stake.profit for stake in stakes if stake),
                    latest_ns=min((stake.latest_ns for stake in stakes if stake), default=inf),
                    deadline_ns=min((stake.deadline_ns for stake in stakes if stake), default=inf),
                    places=prospect.places,
                    judged_ns=now_ns,
                    until_ns=until_ns,
                )
            counted &= ~missed
        return None

    def _stake(self, item: Item, earning: tuple[int, float, float], price: Price, now_ns: int) -> Stake | None:
        """None if it is too late for them."""
        number, profit, behind_ns = earning
        validity = self._worth.validities[number]
        # Strategies without deadlines give up what has expired, not what will have.
        row_ns, call_ns = (price.row_ns + behind_ns, price.call_ns) if self._last_ditch is not None else (0.0, 0.0)
        needed_ns = ceil(call_ns + row_ns * item.rows)
        deadline_ns = _deadline_ns(validity, item)
        if now_ns + needed_ns <= deadline_ns:
            return Stake(profit * item.rows, deadline_ns - needed_ns, deadline_ns)
        return _part_in_time(validity, item, profit, row_ns, now_ns, call_ns) if self._splitting else None

    @property
    def serving(self) -> tuple[str, object]:
        return "", self._running

    # State

    def snapshot(self) -> Mapping[str, Any]:
        running = self._running
        return {
            "running": None if running is None else [running.number, [list(place) for place in running.places]],
            "late": {operator: list(late) for operator, late in self._late.items()},
            "asked": sorted(map(list, self._asked)),
            "has_news": self._has_news,
            "items": self._items,
            "critical_ns": None if self._critical_ns == inf else self._critical_ns,
            "picked_ns": self._picked_ns,
            "slice_ns": self._slice_ns,
            "laxity_ns": self._laxity_ns,
            "batches": self._batches.snapshot(),
            "reschedulings": self.reschedulings,
            "rates": _listed(self._rates),
            "arrivals": _listed(self._arrivals),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        running = state.get("running")
        self._running = None if running is None else Running(running[0], tuple((name, port) for name, port in running[1]))
        self._late = {operator: (count, number, port) for operator, (count, number, port) in state.get("late", {}).items()}
        self._asked = {(operator, port, number) for operator, port, number in state.get("asked", ())}
        self._has_news = state.get("has_news", True)
        self._items = state.get("items", 0)
        critical_ns = state.get("critical_ns")
        self._critical_ns = inf if critical_ns is None else critical_ns
        self._picked_ns = state.get("picked_ns")
        self._slice_ns = state.get("slice_ns", 0)
        self._laxity_ns = state.get("laxity_ns")
        self._batches.restore(state.get("batches", {}))
        self.reschedulings = state.get("reschedulings", 0)
        self._arrivals = _by_place(state.get("arrivals", ()))
        rates = _by_place(state.get("rates", ()))
        if rates != self._rates:
            self._rates = rates
            if self._plan is not None:
                self._reckon(self._plan)

    def explained(self) -> Sequence[str]:
        if self._plan is None:
            return []
        lines = [_terms_line(self._plan, query) for query in self._worth.queries]
        for entrance in self._worth.entrances:
            lines.append(f"rows that enter at '{entrance.operator}', port {entrance.port}:")
            lines += (f"  {line}" for line in self._valuation.explained(entrance, self._known, self._worth))
        if repeated := repeated_places(self._plan):
            lines.append(f"reached on several paths; counted once for each, run once: {', '.join(repeated)}")
        return lines


def _deadline_ns(validity: Validity, item: Item) -> float:
    """Of the oldest row. A row from the future is no younger than its arrival."""
    deadline_ns = inf if validity.after_arrival_us is None else item.since_ns + validity.after_arrival_us * 1_000
    if validity.after_event_us is not None and item.oldest_us != NEVER:
        deadline_ns = min(deadline_ns, (min(item.oldest_us, item.since_ns // 1_000) + validity.after_event_us) * 1_000)
    return deadline_ns


def _deadlines_ns(validity: Validity, item: Item) -> Int64s:
    """The same for each row."""
    assert isinstance(item.element, Batch)
    found = np.full(item.rows, ALWAYS_NS)
    if validity.after_arrival_us is not None:
        found[:] = item.since_ns + validity.after_arrival_us * 1_000
    if validity.after_event_us is not None:
        times_us = np.clip(item.element.ts, -LONG_AGO_US, item.since_ns // 1_000)
        found = np.minimum(found, (times_us + validity.after_event_us) * 1_000)
    return found


def _part_in_time(validity: Validity, item: Item, profit: float, row_ns: float, now_ns: int, call_ns: float) -> Stake | None:
    """Of the rows that can be in time if the item starts now and runs slice by slice, in order."""
    due_ns = _deadlines_ns(validity, item)
    done_ns = now_ns + np.ceil(call_ns + row_ns * np.arange(1, item.rows + 1)).astype(np.int64)
    in_time = due_ns[due_ns >= done_ns]
    return Stake(profit * len(in_time), now_ns, int(in_time.min())) if len(in_time) else None


def _by_rank(job: WaitingJob) -> tuple[Any, ...]:
    return job.rank


def _count(work: WaitingWork) -> int:
    return sum(len(queue.items) for queue in work.waiting.values())


def _terms_line(plan: WorkPlan, query: str) -> str:
    terms = plan.terms_of(query)
    limits = [(terms.after_event_us, "the time of its rows"), (terms.after_arrival_us, "their arrival")]
    texts = [f"{us / 1e6:.6g} s after {what}" for us, what in limits if us is not None]
    return f"{query}: weight {terms.weight:.6g}, {'valid until ' + ' and '.join(texts) if texts else 'always valid'}"


def _listed(counts: Mapping[Place, float]) -> list[list[Any]]:
    return [[*place, rows] for place, rows in sorted(counts.items())]


def _by_place(listed: Sequence[Sequence[Any]]) -> dict[Place, float]:
    return {(operator, port): rows for operator, port, rows in listed}
