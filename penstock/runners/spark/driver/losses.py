"""What is left out of each micro-batch: decided when it begins, remembered before any task of it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.checkpoints.editions import BatchContext

if TYPE_CHECKING:
    from penstock.runners.spark.driver.shedding import LossController

#: What a run knows about loss, beside the checkpoint's other records.
LOSSES = "losses"
#: Micro-batches that can be repeated are the newest two; more are kept only to be looked at.
_KEPT = 4

#: Which share of the rows is left out, and which rows, by entry or by place in front of an operator; as `Decisions` has it.
Shed: TypeAlias = Mapping[str, Mapping[str, Any]]


class Losses:
    """The losses of all micro-batches. One that is repeated after a crash, or by a restart in place, loses the same rows again."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        #: Who decides; nobody does while no contract allows loss.
        self.controller: LossController | None = None
        self.begin()

    def begin(self) -> None:
        """Spark's query starts: micro-batches that it has planned before are repeated as they were."""
        last = self._checkpoint.last("offsets")
        self._planned = -1 if last is None else last
        found = self._checkpoint.recall(LOSSES) or {}
        #: What the controller of an earlier run has learnt.
        self.learnt: Mapping[str, Any] = found.get("learnt", {})
        #: From which micro-batch on what is left out; oldest first.
        self._known: list[tuple[int, Shed]] = [(int(epoch), shed) for epoch, shed in found.get("since", ())]

    def of(self, epoch: int, context: BatchContext) -> Shed:
        """What is left out of a micro-batch that is about to run."""
        before = next((shed for since, shed in reversed(self._known) if since <= epoch), {})
        wanted = self.controller.decide(context) if self.controller is not None else {}
        if epoch <= self._planned or wanted == before:
            return before
        learnt = self.controller.learnt() if self.controller is not None else {}
        self._known = [*(each for each in self._known if each[0] < epoch), (epoch, wanted)][-_KEPT:]
        self._checkpoint.remember(LOSSES, {"since": self._known, "learnt": learnt})
        return wanted
