"""Loss on the driver: when micro-batches take too long for what was promised, rows are left out before the shuffle."""

from __future__ import annotations

from collections.abc import Callable

from penstock.lowering.jobs import Job
from penstock.lowering.sheddable import SheddableEntry
from penstock.model.durations import micros_of
from penstock.model.elements import SHED
from penstock.model.qos import Measure, Priority
from penstock.qos.optimizer.optimizer import Action
from penstock.qos.shedding.batch_load import BatchLoad, MeasuredBatch
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.latency import BatchClock
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.service import sheddable

#: Micro-batches of which nothing is learnt: workers start, loops are compiled.
_WARM_UP = 2
#: Smaller changes of a share are not worth a decision.
_STEP = 0.02


class ShedController(Listener):
    """Hears the reports of micro-batches and writes `shed` decisions when shares change.

    Parameters
    ----------
    trigger
        Time between micro-batches; None: they follow each other at once.
    """

    name = "penstock-shedding"

    def __init__(self, job: Job, checkpoint: Checkpoint, report: Callable[[], BatchReport | None], trigger: str | None) -> None:
        super().__init__(report)
        self._job, self._checkpoint = job, checkpoint
        self._entries = sheddable(job)
        bounds = [
            (min(corner for piece in latency.graph.intervals for corner in (piece.y1, piece.y2)), query)
            for query, contract in job.contracts.items()
            if (latency := contract.of(Measure.LATENCY)) is not None and latency.priority is Priority.MUST_SATISFY
        ]
        #: The strictest latency that must be kept, and whose it is.
        self._latency_s, self._asking = min(bounds, default=(0.0, ""))
        self._load = BatchLoad(self._latency_s, micros_of(trigger, "trigger") / 1e6 if trigger else 0.0)
        self._clock = BatchClock()
        self._heard = 0
        self._before = {entry.entry: (0, 0) for entry in self._entries}
        self._shares = self._decided()
        self._cannot = False

    @property
    def is_needed(self) -> bool:
        """Whether anything may be left out, or still is by a decision of an earlier run."""
        return bool(self._shares) or bool(self._entries and self._latency_s)

    def _decided(self) -> dict[str, float]:
        control = self._checkpoint.control
        known = {detail["entry"]: float(detail["share"]) for kind, detail in control.read(0, len(control)) if kind == SHED}
        return {entry: share for entry, share in known.items() if share}

    def hear(self, report: BatchReport) -> None:
        times = self._clock.hear(self._job, report)
        asked, shed = self._new_rows(report)
        self._heard += 1
        if self._heard <= _WARM_UP or not self._latency_s:
            if self._heard == 1 and not self._latency_s:
                self._leave_out({}, report)
            return
        total = sum(asked.values())
        most = sum(entry.most * asked[entry.entry] for entry in self._entries) / total if total else 0.0
        batch = MeasuredBatch(total, sum(shed.values()), report.duration_ms / 1000, times.since_ms / 1000)
        share = self._load.hear(batch, most)
        self._leave_out(self._allotted(share * total, asked) if total else dict(self._shares), report)
        self._complain(report, most)

    def _new_rows(self, report: BatchReport) -> tuple[dict[str, int], dict[str, int]]:
        """Rows since the last micro-batch that queries asked for, by entry, and those of them that were left out."""
        asked, shed = {}, {}
        for entry in self._entries:
            counted = report.entries.get(entry.entry, {})
            now = counted.get("read", 0) - counted.get("filtered", 0), counted.get("shed", 0)
            before = self._before[entry.entry] if self._heard else now
            asked[entry.entry], shed[entry.entry] = (max(new - old, 0) for new, old in zip(now, before, strict=True))
            self._before[entry.entry] = now
        return asked, shed

    def _allotted(self, rows: float, asked: dict[str, int]) -> dict[str, float]:
        """Shares that leave out so many rows together: of the least important queries first."""
        found = {}
        for entry in self._entries:
            there = asked[entry.entry]
            mine = min(rows, entry.most * there)
            if mine > 0:
                found[entry.entry] = mine / there
            rows -= mine
        return found

    def _leave_out(self, wanted: dict[str, float], report: BatchReport) -> None:
        by_name = {entry.entry: entry for entry in self._entries}
        for name in sorted(self._shares.keys() | wanted.keys()):
            share, before = wanted.get(name, 0.0), self._shares.get(name, 0.0)
            if share == before or (share and abs(share - before) < _STEP):
                continue
            entry = by_name.get(name)
            detail = entry.decision(share) if entry is not None else {"entry": name, "share": 0.0}
            self._checkpoint.control.append(SHED, detail)
            self._note(Action.SHED if share > before else Action.RESTORE, entry, share, report)
            if share:
                self._shares[name] = share
            else:
                self._shares.pop(name, None)

    def _complain(self, report: BatchReport, most: float) -> None:
        """Say once that more would have to be left out than contracts allow."""
        cannot = self._load.excess > most + _STEP
        if cannot and not self._cannot:
            self._note(Action.CANNOT, None, self._load.excess, report)
        self._cannot = cannot

    def _note(self, action: Action, entry: SheddableEntry | None, share: float, report: BatchReport) -> None:
        reasons = {
            Action.SHED: f"micro-batches take longer than a latency of at most {self._latency_s:g} s of '{self._asking}' allows",
            Action.RESTORE: "fewer rows come, or they cost less",
            Action.CANNOT: f"{share:.0%} of the rows would have to be left out, and contracts do not allow that",
        }
        what = "" if entry is None else f"; {share:.1%} of the rows of {entry.entry} are left out, for {', '.join(entry.queries)}"
        self._checkpoint.history.append(
            {
                "at_ms": round(report.batch_ns / 1e6), "epoch": report.epoch, "action": action.value, "strategy": report.policy,
                "before": report.policy, "query": self._asking, "reason": reasons[action] + what, "scores": {},
                "measured": [
                    {
                        "query": self._asking, "measure": Measure.LATENCY.value, "measured": report.duration_ms / 1000,
                        "expected": self._latency_s, "class": Priority.MUST_SATISFY.value, "is_kept": action is Action.RESTORE,
                        "text": f"the micro-batch took {report.duration_ms / 1000:.2f} s, latency promised {self._latency_s:.2f} s",
                    }
                ],
            }
        )  # fmt: skip
