"""Loss on the driver: a micro-batch that would take too long for what was promised begins with fewer rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from penstock.kernel.work import Place, Price
from penstock.lowering.jobs import Job
from penstock.lowering.loss_paths import entrance, query_paths, shedders
from penstock.lowering.sheddable import drop_detail
from penstock.lowering.shedding import has_weights
from penstock.model.drop_preferences import DropPreference
from penstock.model.durations import micros_of
from penstock.model.qos import Measure, Priority
from penstock.qos.shedding.allocation import InGroups, by_weight
from penstock.qos.shedding.batch_load import BatchLoad, MeasuredBatch
from penstock.qos.shedding.controller import LoadEstimate, SheddingController, SheddingSettings
from penstock.qos.shedding.load import LoadModel
from penstock.qos.shedding.placement import PlacedShedder
from penstock.runners.queue_shedding import place_name
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint, batch_planned
from penstock.runners.spark.checkpoints.editions import BatchContext
from penstock.runners.spark.data_path.sources import source_name
from penstock.runners.spark.driver.arrivals import Arrivals
from penstock.runners.spark.driver.counters import arrived_by_stream
from penstock.runners.spark.driver.loss_history import LossHistory, Lost
from penstock.runners.spark.driver.losses import Shed
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.service import terms_of

#: Micro-batches of which nothing is learnt: workers start, loops are compiled.
_WARM_UP = 1
#: The newest micro-batches by whose work prices are corrected, and by how much that must move before places are chosen anew.
_COMPARED, _MOVED = 3, 0.2
#: Work that is a smaller part of its micro-batch is too little to tell anything.
_WORTH_COMPARING = 0.05
#: Micro-batches after which places are chosen anew, with newer prices.
_REPLAN = 10
#: How much of the newest figure counts, where figures of micro-batches are evened out.
_NEWEST = 0.3
#: Work that there is always time for; with none at all shares would have no meaning.
_LEAST_ROOM_S = 1e-3
#: A query that had nothing to do for so long was idle: rows that come then have not waited.
_IDLE_S = 0.2
#: From so many shedders on they are ranked in groups, which takes less time and changes less often.
_MANY = 100
#: Shares below this are none.
_LEAST_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class _Places:
    """Where rows can be left out, and who decides where they are."""

    model: LoadModel
    placed: Mapping[Place, PlacedShedder]
    controller: SheddingController

    def detail(self, place: Place, share: float) -> Mapping[str, Any]:
        """Queries that stand still lose all rows, whether a shedder stands there or not."""
        known = self.placed.get(place)
        return drop_detail(known.drop if known is not None and share < 1 else DropPreference(), round(share, 3))


@dataclass(frozen=True, slots=True)
class _Worked:
    """A micro-batch: rows that its queries asked for, what it left out of them, how long operators worked, and how long it took."""

    rows: Mapping[Place, float]
    shed: Shed
    work_s: float
    seconds: float


class LossController:
    """Says how many rows of each entry, and in front of which operators, a micro-batch leaves out.

    It knows how many rows the micro-batch has, from offsets where these tell and from the rates of the streams where not; what
    micro-batches cost beside the work of operators (`BatchLoad`); and what operators cost, by their prices. The rest is
    load shedding as in the simulator: places of most worth, least error first, all rows again when the load falls.

    Parameters
    ----------
    report
        The newest micro-batch.
    prices
        Of operators, by port, as they have been measured.
    trigger
        Time between micro-batches; None: they follow each other at once.
    cores
        That shards run on.
    suspends
        Whether queries get no rows, those of least weight first, if all loss that contracts allow is not enough.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Chapter 7.
    """

    def __init__(
        self, job: Job, checkpoint: Checkpoint, report: Callable[[], BatchReport | None],
        prices: Callable[[], Mapping[str, Sequence[Price]]], trigger: str | None, cores: int, suspends: bool = False,
    ) -> None:  # fmt: skip
        self._job, self._checkpoint, self._report, self._prices = job, checkpoint, report, prices
        self._latency_s, self._asking = _strictest_latency(job)
        self._trigger_s = micros_of(trigger, "trigger") / 1e6 if trigger else 0.0
        self._parallel = job.shards / ceil(job.shards / max(cores, 1))
        self._load = BatchLoad(self._latency_s, self._trigger_s)
        self._suspends = suspends
        self._paths = query_paths(job, job.contracts)
        self._queries = {path.id: path.query for path in self._paths}
        self._weights = {query: terms_of(job, query).weight for query in job.outputs}
        entries = {source.route.entry: source.route.stream.name for stage in job.stages for source in stage.sources}
        self._streams = entries
        self._arrivals = Arrivals({stream: source_name(stream) for stream in entries.values()})
        #: Part of the rows of an entry that its queries ask for; rows read, not wanted and left out up to the last micro-batch.
        self._asked = dict.fromkeys(entries, 1.0)
        self._totals: dict[str, tuple[int, int, int]] = {}
        self._budget_s: float | None = None
        self._heard, self._epoch = 0, -1
        self._planned_ms: int | None = None
        self._last: BatchReport | None = None
        self._places: _Places | None = None
        #: What the newest micro-batch leaves out; those before it with their work; and by how much prices are corrected.
        self._shed: Shed = {}
        self._shed_epoch = -1
        self._worked: deque[_Worked] = deque(maxlen=_COMPARED)
        self._price_level = 1.0
        self._history = LossHistory(checkpoint.history, self._latency_s, self._asking)

    @property
    def is_needed(self) -> bool:
        """Whether there is a latency to keep, and anything may be lost for it."""
        return bool(self._latency_s) and (self._suspends or any(path.max_error for path in self._paths))

    def learnt(self) -> Mapping[str, Any]:
        """What another one can go on with, after a start or when queries have come or gone."""
        last = self._worked[-1] if self._worked else None
        rows = [[*place, number] for place, number in last.rows.items()] if last is not None else []
        worked = [rows, last.shed, last.work_s, last.seconds] if last is not None else None
        return {"load": self._load.snapshot(), "arrivals": self._arrivals.learnt, "worked": worked}

    def go_on(self, learnt: Mapping[str, Any]) -> None:
        """Begin with what another one has learnt: then the first micro-batch is judged already."""
        if not learnt:
            return
        last = self._checkpoint.last("offsets")
        if last is not None:
            planned = batch_planned(self._checkpoint.directory, last)
            self._arrivals.go_on(learnt["arrivals"], planned.offsets)
            self._planned_ms = planned.planned_ms
        self._load.restore(learnt["load"])
        if learnt["worked"] is not None:
            rows, shed, work_s, seconds = learnt["worked"]
            self._worked.append(_Worked({(name, port): number for name, port, number in rows}, shed, work_s, seconds))
        self._heard = _WARM_UP + 1

    def correct(self, is_broken: bool, seconds: float) -> None:
        """Hear whether answers were too late in the last seconds, as measured: if so, use less of the time there is."""
        if is_broken:
            self._load.correct()
        else:
            self._load.relax(seconds)

    # -- one micro-batch ----------------------------------------------------------------------------------------------

    def decide(self, context: BatchContext) -> Shed:
        """What the micro-batch that begins leaves out."""
        report = self._report()
        if report is not None and report.epoch != self._epoch:
            self._learn(report)
        self._budget_s = None if context.budget_ns is None else context.budget_ns / 1e9
        before_ms, self._planned_ms = self._planned_ms, context.planned_ms
        since_s = (context.planned_ms - before_ms) / 1000 if before_ms is not None else 0.0
        rows = self._arrivals.expected(context.offsets, since_s)
        if self._heard <= _WARM_UP or not self._load.is_known or not any(rows.values()):
            return {}
        places = self._places
        if places is None or self._heard % _REPLAN == 0 or abs(self._dearer(places.model) - 1) > _MOVED:
            places = self._places = self._chosen_places(places)
        found = self._estimate(places, rows, self._waited_s(since_s))
        self._tell(places, found, sum(rows.values()), context)
        self._shed_epoch = context.epoch
        self._shed = {
            self._name(place): places.detail(place, share) for place, share in found.shares.items() if share >= _LEAST_SHARE
        }
        return self._shed

    def _waited_s(self, since_s: float) -> float:
        """How long the oldest rows have waited: since the micro-batch before was planned, if it left no pause."""
        took_s = self._last.duration_ms / 1000 if self._last is not None else 0.0
        return since_s if since_s <= max(took_s, self._trigger_s) + _IDLE_S else self._trigger_s

    def _estimate(self, places: _Places, rows: Mapping[str, float], waited_s: float) -> LoadEstimate:
        total = sum(rows.values())
        room_s = self._load.room_s(total, waited_s)
        room_s = max(room_s if self._budget_s is None else min(room_s, self._budget_s), _LEAST_ROOM_S)
        rates = {entrance(entry): rows[stream] * self._asked[entry] / room_s for entry, stream in self._streams.items()}
        found = places.controller.estimate(rates, self._waiting(places) if self._budget_s is not None else {})
        most = {place: each.capacity for place, each in places.placed.items()} | {
            place: share for place, share in found.shares.items() if share == 1
        }
        all_s, least_s, some_s = (places.model.load(rates, shares) * room_s for shares in ({}, most, found.shares))
        if found.shares and not self._load.can_help(total, all_s, least_s):
            found, some_s = replace(found, shares={}), all_s
        self._load.expect(total, some_s)
        return found

    def _waiting(self, places: _Places) -> dict[Place, int]:
        """Rows that a budget has left in queues; of operators with several inputs they count at the first."""
        queues = self._last.operators if self._last is not None else {}
        known = dict(sorted(places.model.figures, reverse=True))
        return {
            (node, known[node]): found["queue_rows"] for node, found in queues.items() if found.get("queue_rows") and node in known
        }

    def _chosen_places(self, before: _Places | None) -> _Places:
        """Places for shedders by the newest prices; those that are active stay so where they still have a place."""
        for _ in range(2):  # by the prices that are known, then by what operators really took
            model, placed = shedders(
                self._job, self._paths, self._prices(), self._load.entry_s, self._parallel / self._price_level,
                self._may_lose_inside, self._weights,
            )  # fmt: skip
            self._price_level *= self._dearer(model)
        ranking = InGroups() if len(placed) > _MANY else by_weight
        settings = SheddingSettings(headroom=1.0, suspends=self._suspends, ranking=ranking)
        controller = SheddingController(model, placed, self._paths, settings, self._weights)
        if before is not None:
            controller.go_on_from(before.controller)
        return _Places(model, {each.place: each for each in placed}, controller)

    def _dearer(self, model: LoadModel) -> float:
        """How many times as much operators took in the newest micro-batches as prices say; those are learnt more slowly."""
        if self._budget_s is not None:  # what waits in queues is not the work of the rows that came
            return 1.0
        found = expected = whole = 0.0
        # Of rows that came to other queries nothing is known.
        for worked in (each for each in self._worked if each.rows.keys() <= model.figures.keys()):
            shares = {
                place: float(worked.shed[name]["share"]) for place in model.figures if (name := self._name(place)) in worked.shed
            }
            entering = sum(
                rows * (1 - shares.get(place, 0.0)) / model.figures[place].capacity for place, rows in worked.rows.items()
            )
            expected += model.load(worked.rows, shares) - entering
            found, whole = found + worked.work_s, whole + worked.seconds
        return found / expected if expected > 0 and found > _WORTH_COMPARING * whole else 1.0

    def _may_lose_inside(self, query: str) -> bool:
        """Estimates know which share of an entry was left out, not what is left out behind it."""
        return not has_weights(self._job, query)

    def _name(self, place: Place) -> str:
        return place[0] if place[0] in self._streams else place_name(place)

    # -- learning -----------------------------------------------------------------------------------------------------

    def _learn(self, report: BatchReport) -> None:
        self._epoch, self._last = report.epoch, report
        self._heard += 1
        arrived = arrived_by_stream(self._job, report)
        self._arrivals.hear(arrived)
        lost = self._lost(report)
        self._count_asked(report)
        if self._heard > _WARM_UP:
            work_s, seconds = report.work_ns / 1e9 / self._parallel, report.duration_ms / 1000
            self._load.hear(MeasuredBatch(sum(arrived.values()), seconds, work_s, lost))
            rows = {entrance(entry): arrived[stream] * self._asked[entry] for entry, stream in self._streams.items()}
            self._worked.append(_Worked(rows, self._shed if report.epoch == self._shed_epoch else {}, work_s, seconds))

    def _count_asked(self, report: BatchReport) -> None:
        """While rows are left out nobody knows which of them the filters behind would have rejected."""
        for entry in self._streams:
            counted = report.entries.get(entry, {})
            now = counted.get("read", 0), counted.get("filtered", 0), counted.get("shed", 0)
            before = self._totals.get(entry)
            self._totals[entry] = now
            read, filtered, shed = (new - old for new, old in zip(now, before, strict=True)) if before is not None else (0, 0, 0)
            if read > 0 and not shed:
                self._asked[entry] += _NEWEST * (min(max(1 - filtered / read, 0.0), 1.0) - self._asked[entry])

    def _lost(self, report: BatchReport) -> int:
        """Rows that the micro-batch lost before operators; of a stream that several entries read the one counts that lost most."""
        most: dict[str, int] = {}
        for entry, stream in self._streams.items():
            now, before = report.entries.get(entry, {}).get("shed", 0), self._totals.get(entry)
            most[stream] = max(most.get(stream, 0), now - before[2] if before is not None else 0)
        return sum(most.values())

    # -- history ------------------------------------------------------------------------------------------------------

    def _tell(self, places: _Places, found: LoadEstimate, rows: float, context: BatchContext) -> None:
        excess = found.residual / max(found.offered, found.residual) if found.residual else 0.0
        self._history.hear([self._lost_at(places, *each) for each in found.shares.items()], excess, rows, self._last, context)

    def _lost_at(self, places: _Places, place: Place, share: float) -> Lost:
        where = place[0] if place[0] in self._streams else f"those that come to {place[0]}"
        return Lost(where, share, sorted({self._queries[path] for path in places.model.chain(place)[-1].paths}))


def _strictest_latency(job: Job) -> tuple[float, str]:
    """The shortest latency that must be kept, and whose it is; 0 if there is none."""
    bounds = [
        (min(corner for piece in latency.graph.intervals for corner in (piece.y1, piece.y2)), query)
        for query, contract in job.contracts.items()
        if (latency := contract.of(Measure.LATENCY)) is not None and latency.priority is Priority.MUST_SATISFY
    ]
    return min(bounds, default=(0.0, ""))
