"""What Penstock remembers beside Spark's own checkpoint: who it is, the number of shards, the plan, the decisions."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointMoved, DamagedRecord, StateFormat
from penstock.kernel.segments import FORMAT
from penstock.model.elements import PLAN
from penstock.runners.editions.edition import Edition
from penstock.runners.spark.checkpoints.decision_history import NAME as HISTORY
from penstock.runners.spark.checkpoints.decision_history import DecisionHistory
from penstock.runners.spark.checkpoints.lock import CheckpointLock
from penstock.runners.spark.checkpoints.records import copy_of, create_record, read_record, replace_record
from penstock.runners.spark.data_path.control import CONTROL_NAME, ControlLog
from penstock.runners.spark.data_path.loop import Loop
from penstock.runners.spark.ownership.claims import IDENTITY, Writer

#: Records without which a checkpoint cannot be continued; each has a copy.
SETTLED = (IDENTITY.name, "shards", "now_us", "plan")
#: What a run has learnt: without it, it learns again.
LEARNT = ("orders", "joins", "policy", "contracts", "costs", "losses")
#: Those that a start adds to a checkpoint of an earlier version.
ADDED_LATER = (IDENTITY.name,)
#: State format of checkpoints that do not say which they have.
_UNSAID = "2 or older"
#: A path that Spark has written, up to the checkpoint.
_ROOT = re.compile(r'"file:(?://)?(/[^"]*?)/spark/state/')


class Checkpoint:
    """The directory of one application; starting again with it goes on where the last run stopped.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(folder).fixed_at_first_start("shards", 4), Checkpoint(folder).fixed_at_first_start("shards", 8)
    (4, 4)
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.control = ControlLog(self.directory / "penstock" / "control")
        self.loop = Loop(self.directory / "penstock" / "loop")
        self.lock = CheckpointLock(self.directory / "penstock" / "lock")
        self.history = DecisionHistory(self.directory / "penstock" / HISTORY)

    @property
    def requests(self) -> Path:
        """Where others ask a run to change."""
        return self.directory / "penstock" / "requests"

    @property
    def spark(self) -> str:
        """Where Spark keeps offsets, commits and state."""
        return str(self.directory / "spark")

    # -- records ------------------------------------------------------------------------------------------------------

    def fixed_at_first_start(self, name: str, wanted: Any) -> Any:
        """A value that the first start fixes for all later ones."""
        # As an object: half of a number would be a number too.
        self._settle(name, {"value": wanted})
        return self.recall(name)

    def _settle(self, name: str, value: dict[str, Any]) -> None:
        """Write a record and its copy, unless there is one already."""
        file = self.record(name)
        if file.exists():
            return
        if copy_of(file).exists() or (name not in ADDED_LATER and self.last("offsets") is not None):
            raise DamagedRecord(file, "is missing")
        if create_record(file, value):
            replace_record(copy_of(file), value)

    def remember(self, name: str, value: Any) -> None:
        """Replace a value that later starts go on with."""
        replace_record(self.record(name), value)

    def recall(self, name: str) -> Any:
        """What was last remembered; None if nothing was."""
        found = read_record(self.record(name))
        return found["value"] if isinstance(found, dict) and found.keys() == {"value"} else found

    def refuse_damaged(self) -> None:
        """Read everything that a run will read, so that damage is named before anything has started."""
        for name in (*SETTLED, *LEARNT):
            self.recall(name)
        self.control.read(0, max(len(self.control), self.decisions_carried()))
        for epoch in self.loop.epochs():
            self.loop.read(epoch - 1, epoch)

    def record(self, name: str) -> Path:
        return self.directory / "penstock" / name

    # -- identity -----------------------------------------------------------------------------------------------------

    def identity(self, application: str) -> dict[str, Any]:
        """Who this checkpoint is: made by the first start, kept when it is moved, and never that of another one at this path."""
        file, last = self.record(IDENTITY.name), self.last("offsets")
        created = datetime.now(UTC).isoformat(timespec="seconds")
        here, since = str(self.directory.resolve()), -1 if last is None else last
        fresh = {"id": uuid.uuid4().hex, "application": application, "created": created, "directory": here, "since": since}
        self._settle(file.name, fresh)
        found = read_record(file)
        if not isinstance(found, dict) or not {"id", "directory", "since"} <= found.keys():
            raise DamagedRecord(file, "does not say whose checkpoint this is")
        return found

    def writer(self, application: str, content: str) -> Writer:
        """What the checkpoint is called in directories it writes to."""
        known = self.identity(application)
        return Writer(known["id"], str(self.directory.resolve()), application, content, known["since"])

    def refuse_moved(self, application: str) -> None:
        """Spark has written the path of the checkpoint into it, and would read from the place where it was."""
        known, here = self.identity(application), str(self.directory.resolve())
        roots = [root for root in state_roots(self.directory) if os.path.realpath(root) != here]
        if is_copy(self.directory, known):
            roots = [known["directory"]]
        if roots:
            raise CheckpointMoved(
                f"the checkpoint was moved or copied here from '{roots[0]}', and Spark has written that path into it; move it "
                f"back, or let `penstock doctor {self.directory} --repair` put in the new path",
                f"checkpoint '{self.directory}'",
            )
        if known["directory"] != here:
            self.identify({**known, "directory": here})

    def identify(self, identity: dict[str, Any]) -> None:
        for file in (self.record(IDENTITY.name), copy_of(self.record(IDENTITY.name))):
            replace_record(file, identity)

    # -- plan ---------------------------------------------------------------------------------------------------------

    def first_edition(self) -> Edition:
        """The application as the first micro-batch knew it."""
        return Edition.from_json(self._plan()["edition"])

    def edition(self) -> Edition | None:
        """The application as it was last decided; None before the first start."""
        if self.recall("plan") is None:
            if self.last("offsets") is None:
                return None
            raise self._without_plan()
        plans = [detail for kind, detail in self.control.read(0, len(self.control)) if kind == PLAN]
        return Edition.from_json(plans[-1]) if plans else self.first_edition()

    def _plan(self) -> dict[str, Any]:
        known: dict[str, Any] = self.recall("plan")
        if (format_ := known.get("format", _UNSAID)) != FORMAT:
            raise self._other_format(format_)
        return known

    def _without_plan(self) -> DamagedRecord | StateFormat:
        """Checkpoints of early versions have no such record, and no copy of it."""
        file = self.record("plan")
        return DamagedRecord(file, "is missing") if copy_of(file).exists() else self._other_format(_UNSAID)

    def _other_format(self, format_: int | str) -> StateFormat:
        return StateFormat(
            f"the checkpoint holds state format {format_}, this Penstock reads format {FORMAT}; "
            "restart with the version that wrote it, or with a new checkpoint",
            f"checkpoint '{self.directory}'",
        )

    def settle_edition(self, edition: Edition) -> None:
        """Remember what the application is from the next micro-batch on."""
        # Without a planned micro-batch there is neither progress nor state: a mistake of the first start may be mended.
        if self.last("offsets") is None:
            for file in (self.record("plan"), copy_of(self.record("plan"))):
                replace_record(file, {"format": FORMAT, "edition": edition.to_json()})
        if self.edition() != edition:
            self.control.append(PLAN, edition.to_json())

    # -- progress -----------------------------------------------------------------------------------------------------

    def decisions_carried(self) -> int:
        """How many decisions finished micro-batches have taken in."""
        last = self.last("commits")
        return 0 if last is None else decisions_planned(self.directory, last)

    def has_ended(self) -> bool:
        """Whether finished micro-batches know that the streams have ended; an end decided but not carried is still to come."""
        return any(kind == "end" for kind, _ in self.control.read(0, self.decisions_carried()))

    def last(self, log: str) -> int | None:
        """Number of the newest entry in one of Spark's logs."""
        return max(entries(self.directory, log), default=None)


def entries(checkpoint: Path, log: str) -> list[int]:
    """Numbers in one of Spark's logs."""
    folder = checkpoint / "spark" / log
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def decisions_planned(checkpoint: Path, epoch: int) -> int:
    """How many decisions a micro-batch and those before it take in."""
    return batch_planned(checkpoint, epoch).decisions


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """What Spark has written of a micro-batch before it ran; a repeated one has the same.

    Parameters
    ----------
    decisions
        How many decisions it and those before it take in.
    planned_ms
        When Spark planned it, in milliseconds since 1970.
    offsets
        How far each source is read, by name, in JSON.
    """

    decisions: int
    planned_ms: int
    offsets: Mapping[str, str]


def batch_planned(checkpoint: Path, epoch: int) -> PlannedBatch:
    """What is known of a micro-batch that has been planned."""
    file = checkpoint / "spark" / "offsets" / str(epoch)
    try:
        # A version and something about the micro-batch, then a line for each source: its name and its offset.
        _, about, *offsets = file.read_text().splitlines()
        planned_ms = int(json.loads(about).get("batchTimestampMs", 0))
        found = {name: offset for name, _, offset in (line.partition(":") for line in offsets)}
        decisions = int(json.loads(found[CONTROL_NAME])["decisions"]) if CONTROL_NAME in found else 0
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise DamagedRecord(file, f"of Spark cannot be read ({failure})") from failure
    return PlannedBatch(decisions, planned_ms, found)


def is_copy(checkpoint: Path, identity: dict[str, Any]) -> bool:
    """Whether the checkpoint that this was made from is still there: both would write under one name."""
    before = Path(identity["directory"])
    try:
        other = read_record(before / IDENTITY)
    except DamagedRecord:
        return False
    return isinstance(other, dict) and other.get("id") == identity["id"] and not before.samefile(checkpoint)


def state_files(checkpoint: Path) -> list[Path]:
    """Files of Spark that hold absolute paths: where the schemas of the state are."""
    return sorted(file for file in checkpoint.glob("spark/state/*/_metadata/v2/*") if file.name.isdigit())


def state_roots(checkpoint: Path) -> list[str]:
    """Where the checkpoint lies according to what Spark has written into it."""
    found = [_ROOT.findall(file.read_text(errors="replace")) for file in state_files(checkpoint)]
    return list(dict.fromkeys(root for roots in found for root in roots))
