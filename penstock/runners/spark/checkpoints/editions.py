"""Which edition of an application a micro-batch belongs to: the newest one decided when it was planned."""

from __future__ import annotations

from penstock.model.elements import PLAN
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint, decisions_planned


class Editions:
    """Reads the decisions of a checkpoint as far as micro-batches have got.

    A micro-batch that is repeated has the edition it had before, as its offsets say.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._read = 0
        self._newest: Edition | None = None

    def at(self, epoch: int) -> Edition:
        """The edition of a micro-batch; they are asked for in order."""
        planned = decisions_planned(self._checkpoint.directory, epoch)
        for kind, detail in self._checkpoint.control.read(self._read, planned):
            if kind == PLAN:
                self._newest = Edition.from_json(detail)
        self._read = max(self._read, planned)
        if self._newest is None:
            self._newest = self._checkpoint.first_edition()
        return self._newest
