"""What a micro-batch belongs to: the edition of the application and the decisions that were known when it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.model.elements import BUDGET, PLAN
from penstock.runners.decisions import Decisions
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint, batch_planned


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What is in force in a micro-batch; `planned_ms` and `offsets` as `PlannedBatch` has them.

    Parameters
    ----------
    budget_ns
        Priced work of each shard; None: all there is.
    """

    epoch: int
    edition: Edition
    decisions: Decisions
    planned_ms: int
    offsets: Mapping[str, str]
    budget_ns: int | None = None


class Editions:
    """Reads the decisions of a checkpoint as far as micro-batches have got.

    A micro-batch that is repeated has the edition and the decisions it had before, as its offsets say.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._read = 0
        self._newest: Edition | None = None
        self._decisions = Decisions()
        self._budget_ns: int | None = None

    def at(self, epoch: int) -> BatchContext:
        """What is in force in a micro-batch; they are asked for in order."""
        planned = batch_planned(self._checkpoint.directory, epoch)
        found = self._checkpoint.control.read(self._read, planned.decisions)
        for kind, detail in found:
            if kind == PLAN:
                self._newest = Edition.from_json(detail)
            elif kind == BUDGET:
                self._budget_ns = detail.get("ns")
        self._decisions = self._decisions.followed_by(found)
        self._read = max(self._read, planned.decisions)
        if self._newest is None:
            self._newest = self._checkpoint.first_edition()
        return BatchContext(epoch, self._newest, self._decisions, planned.planned_ms, planned.offsets, self._budget_ns)
