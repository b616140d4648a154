"""What Penstock remembers beside Spark's own checkpoint: the number of shards, the plan, the decisions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from penstock.errors import StateFormat
from penstock.lowering.stages import Job
from penstock.runners.spark.control import ControlLog


class Checkpoint:
    """The directory of one application; starting again with it goes on where the last run stopped.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(folder).settled("shards", 4), Checkpoint(folder).settled("shards", 8)
    (4, 4)
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.control = ControlLog(self.directory / "penstock" / "control")

    @property
    def spark(self) -> str:
        """Where Spark keeps offsets, commits and state."""
        return str(self.directory / "spark")

    def settled(self, name: str, wanted: Any) -> Any:
        """A value that the first start fixes for all later ones."""
        record = self._record(name)
        if not record.exists():
            _write(record, json.dumps(wanted))
        return json.loads(record.read_text())

    def remember(self, name: str, value: Any) -> None:
        """Replace a value that later starts go on with."""
        _write(self._record(name), json.dumps(value))

    def recalled(self, name: str) -> Any:
        """What was last remembered; None if nothing was."""
        record = self._record(name)
        return json.loads(record.read_text()) if record.exists() else None

    def settle_plan(self, job: Job) -> None:
        """Refuse an application whose state this is not, before Spark meets operators and sources it does not expect."""
        # Without a planned micro-batch there is neither progress nor state: a mistake of the first start may be mended.
        if not self._record("plan").exists() or self._last("offsets") is None:
            _write(self._record("plan"), json.dumps(_plan(job)))
        else:
            self.check_plan(job)

    def check_plan(self, job: Job) -> None:
        """Refuse an application of another plan."""
        known, plan = self.recalled("plan"), _plan(job)
        if known is not None and known != plan:
            raise StateFormat(
                "the checkpoint belongs to another plan: schema, filters, keys, windows, queries or streams of the application "
                f"have changed (checkpoint {known['plan']} over {', '.join(known['streams'])}; application {plan['plan']} over "
                f"{', '.join(plan['streams'])}); restart the old application, or use a new checkpoint",
                f"checkpoint '{self.directory}'",
            )

    def decisions_carried(self) -> int:
        """How many decisions finished micro-batches have taken in."""
        last = self._last("commits")
        if last is None:
            return 0
        for line in (self.directory / "spark" / "offsets" / str(last)).read_text().splitlines():
            # The first line is a version, the others are JSON: one of them is the offset of the control stream.
            if line.startswith("{") and "decisions" in (offset := json.loads(line)):
                return int(offset["decisions"])
        return 0

    def has_ended(self) -> bool:
        """Whether finished micro-batches know that the streams have ended; an end decided but not carried is still to come."""
        return any(kind == "end" for kind, _ in self.control.read(0, self.decisions_carried()))

    def _record(self, name: str) -> Path:
        return self.directory / "penstock" / name

    def _last(self, log: str) -> int | None:
        """Number of the newest entry in one of Spark's logs."""
        folder = self.directory / "spark" / log
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
        return max(numbers, default=None)


def _plan(job: Job) -> dict[str, Any]:
    return {"plan": job.fingerprint, "streams": [source.prefix.stream.name for stage in job.stages for source in stage.sources]}


def _write(record: Path, text: str) -> None:
    """In one step: a crash or a full disk leaves the old record or the new one, never half of it."""
    record.parent.mkdir(parents=True, exist_ok=True)
    draft = record.with_name(f".{record.name}.draft")
    draft.write_text(text)
    os.replace(draft, record)
