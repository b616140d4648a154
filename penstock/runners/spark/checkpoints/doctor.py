"""Look through a checkpoint for damage, and repair what can be repaired without guessing.

Nothing of Spark's own is changed except paths of a checkpoint that was moved: its offsets, commits and state decide what is
computed again, and whoever guesses there loses rows or counts them twice.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.errors import DamagedRecord, UserError
from penstock.model.elements import BUDGET, CONTINUE
from penstock.runners.spark.checkpoints.checkpoint import (
    ADDED_LATER,
    LEARNT,
    SETTLED,
    Checkpoint,
    decisions_planned,
    entries,
    is_copy,
    state_files,
    state_roots,
)
from penstock.runners.spark.checkpoints.lock import is_held
from penstock.runners.spark.checkpoints.records import copy_of, read_record, replace_record
from penstock.runners.spark.ownership.claims import IDENTITY
from penstock.runners.spark.ownership.folders import LocalFolder


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Parameters
    ----------
    help
        What a repair does, or why there is none and what else helps.
    repair
        Does it; None if nothing can.
    """

    file: Path
    text: str
    help: str
    repair: Callable[[], object] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"file": str(self.file), "found": self.text, "help": self.help, "can_be_repaired": self.repair is not None}


@dataclass(frozen=True)
class Diagnosis:
    """What was found, and whether it was repaired."""

    checkpoint: Path
    findings: tuple[Finding, ...]
    repaired: tuple[Finding, ...] = ()
    is_in_use: bool = False

    @property
    def is_healthy(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        lines = [f"repaired: {finding.file}: it {finding.text}; {finding.help}" for finding in self.repaired]
        for finding in self.findings:
            lines.append(f"✗ {finding.file}: it {finding.text}")
            lines.append(f"  {'--repair: ' if finding.repair else 'cannot be repaired: '}{finding.help}")
        lines += ["✓ the checkpoint is in order"] if self.is_healthy else []
        return "\n".join([*(["a run is using the checkpoint now"] if self.is_in_use else []), *lines])

    def to_json(self) -> dict[str, Any]:
        return {
            "checkpoint": str(self.checkpoint),
            "is_healthy": self.is_healthy,
            "is_in_use": self.is_in_use,
            "findings": [finding.to_json() for finding in self.findings],
            "repaired": [finding.to_json() for finding in self.repaired],
        }


def examine(checkpoint: Path) -> Diagnosis:
    """What is damaged; changes nothing."""
    place = Checkpoint(checkpoint)
    if not place.record("").is_dir():
        raise UserError(f"'{checkpoint}' is the checkpoint of no run: it has no folder 'penstock'")
    return Diagnosis(checkpoint, tuple(_findings(place)), is_in_use=is_held(place.lock.file))


def repair(checkpoint: Path) -> Diagnosis:
    """Repair what can be repaired; the rest stays as it is.

    Raises
    ------
    CheckpointInUse
        While a run is using it.
    """
    place = Checkpoint(checkpoint)
    wanted = [finding for finding in examine(checkpoint).findings if finding.repair]
    place.lock.take()
    try:
        for finding in wanted:
            assert finding.repair is not None
            finding.repair()
        left = tuple(_findings(place))
    finally:
        place.lock.release()
    return Diagnosis(checkpoint, left, tuple(wanted))


def _findings(place: Checkpoint) -> Iterator[Finding]:
    yield from _spark_logs(place)
    for name in SETTLED:
        yield from _settled(place, name)
    for name in LEARNT:
        yield from _learnt(place.record(name))
    yield from _decisions(place)
    yield from _moved(place)
    drafts = [*place.record("").glob(".*.draft"), *place.control.directory.glob(".*.draft")]
    yield from (Finding(draft, "was left behind by a crash", "removes it", draft.unlink) for draft in drafts)


# -- Penstock's records ------------------------------------------------------------------------------------------------


def _damage(file: Path) -> str:
    """What is wrong with a record; empty if nothing is."""
    try:
        return "" if read_record(file) is not None else "is missing"
    except DamagedRecord as damage:
        return damage.what


def _settled(place: Checkpoint, name: str) -> Iterator[Finding]:
    file, copy = place.record(name), copy_of(place.record(name))
    text = _damage(file)
    if not text and name == IDENTITY.name and _identity(place) is None:
        text = "does not say whose checkpoint this is"
    if not text:
        if copy.exists() and _damage(copy):
            yield Finding(copy, f"is the copy of '{name}' and {_damage(copy)}", "copies it again", partial(_copy, file, copy))
    elif not _damage(copy):
        yield Finding(file, text, "restores it from its copy", partial(_copy, copy, file))
    elif file.exists() or (place.last("offsets") is not None and name not in ADDED_LATER):
        yield _without_copy(place, name, text)


def _copy(source: Path, target: Path) -> None:
    replace_record(target, read_record(source))


def _without_copy(place: Checkpoint, name: str, text: str) -> Finding:
    """Checkpoints of earlier versions have no copies."""
    file, last = place.record(name), place.last("offsets")
    if last is None:
        return Finding(file, text, "removes it: no micro-batch was planned, the next start settles it", partial(_remove, file))
    if name == IDENTITY.name:
        remedy = "removes it: the next start gives the checkpoint a new name, which its directories do not know: it needs --append"
        return Finding(file, text, remedy, partial(_remove, file))
    if name == "shards" and (shards := _shards_of_spark(place.directory, last)) is not None:
        remedy = f"writes {shards}, the number of partitions in Spark's offsets"
        return Finding(file, text, remedy, partial(replace_record, file, {"value": shards}))
    remedy = 'take it from a backup, or, if no query says NOW, write {"value": 0} into it'
    return Finding(file, text, remedy if name == "now_us" else "take it from a backup, or use a new checkpoint")


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
    copy_of(file).unlink(missing_ok=True)


def _shards_of_spark(checkpoint: Path, epoch: int) -> int | None:
    try:
        conf = json.loads((checkpoint / "spark" / "offsets" / str(epoch)).read_text().splitlines()[1])["conf"]
        return int(conf["spark.sql.shuffle.partitions"])
    except (OSError, ValueError, LookupError):
        return None


def _learnt(file: Path) -> Iterator[Finding]:
    if file.exists() and (text := _damage(file)):
        yield Finding(file, text, "removes it: the next run learns again what it held", file.unlink)


# -- decisions ---------------------------------------------------------------------------------------------------------


def _decisions(place: Checkpoint) -> Iterator[Finding]:
    try:
        carried = place.decisions_carried()
        last = place.last("offsets")
        planned = 0 if last is None else decisions_planned(place.directory, last)
    except DamagedRecord:
        return  # reported as a log of Spark; nobody can tell which decisions are still needed
    for number in range(max(len(place.control), planned)):
        try:
            place.control.read(number, number + 1)
        except DamagedRecord as damage:
            yield _decision(place, number, damage.what, carried, planned)


def _decision(place: Checkpoint, number: int, text: str, carried: int, planned: int) -> Finding:
    file, copy = place.control.file(number), copy_of(place.control.file(number))
    if not _damage(copy):
        return Finding(file, text, "restores it from its copy", partial(_copy, copy, file))
    if carried <= number < planned:
        return Finding(
            file, text, "the micro-batch that is to be repeated has taken the decision in, and must take in the same again: take "
            "it from a backup, or use a new checkpoint",
        )  # fmt: skip
    if number < carried:
        remedy = "notes that it is lost: shards have it; budget and memory are decided anew by the next run"
        return Finding(file, text, remedy, partial(_note_lost, place, number))
    remedy = "replaces it by one that changes nothing: no micro-batch has taken it in, so decide again what it said"
    return Finding(file, text, remedy, partial(replace_record, file, {"kind": CONTINUE, "detail": {}}))


def _note_lost(place: Checkpoint, number: int) -> None:
    replace_record(place.control.file(number), {"kind": CONTINUE, "detail": {}})
    # It may have been the one that a run without a limit looks for.
    place.control.append(BUDGET, {"ns": None})
    place.control.append("memory", {"bytes": None})


# -- Spark's files -----------------------------------------------------------------------------------------------------


def _spark_logs(place: Checkpoint) -> Iterator[Finding]:
    """Its newest entries: those are what a crash of the machine leaves half written."""
    remedy = "it is Spark's, and says what is computed again: take it from a backup, or use a new checkpoint with new directories"
    for log in ("offsets", "commits"):
        numbers = entries(place.directory, log)
        for number in numbers[-2:]:
            file = place.directory / "spark" / log / str(number)
            if not file.read_bytes().startswith(b"v"):
                yield Finding(file, "is empty or cut short", remedy)
    missing = set(entries(place.directory, "commits")[-1:]) - set(entries(place.directory, "offsets"))
    yield from (Finding(place.directory / "spark" / "offsets" / str(number), "is missing", remedy) for number in missing)
    metadata = place.directory / "spark" / "metadata"
    if metadata.exists() and (text := _damage(metadata)):
        yield Finding(metadata, text, remedy)


def _moved(place: Checkpoint) -> Iterator[Finding]:
    here = str(place.directory.resolve())
    roots = [root for root in state_roots(place.directory) if os.path.realpath(root) != here]
    identity = _identity(place)
    if identity is not None and is_copy(place.directory, identity):
        remedy = (
            "puts in the new path and a new name: its answers go to new directories, or beside those of the original with --append"
        )
        text = f"was copied from '{identity['directory']}', which is still there"
        yield Finding(place.directory, text, remedy, partial(_settle_here, place, roots, uuid.uuid4().hex))
    elif roots:
        remedy = "puts in the new path"
        yield Finding(place.directory, f"was moved here from '{roots[0]}'", remedy, partial(_settle_here, place, roots, None))


def _identity(place: Checkpoint) -> dict[str, Any] | None:
    try:
        found = read_record(place.record(IDENTITY.name))
    except DamagedRecord:
        return None
    return found if isinstance(found, dict) and {"id", "directory", "since"} <= found.keys() else None


def _settle_here(place: Checkpoint, roots: list[str], new_id: str | None) -> None:
    """Files first, the name last: a repair that is interrupted is done again."""
    here = os.path.abspath(place.directory)
    for file in state_files(place.directory):
        text = file.read_text()
        moved = text
        for root in roots:
            for scheme in ("file:", "file://"):
                moved = moved.replace(f'"{scheme}{root}/spark/state/', f'"{scheme}{here}/spark/state/')
        if moved != text:
            _rewrite(file, moved)
    identity = _identity(place)
    if identity is not None:
        name = {"id": new_id, "since": -1} if new_id else {}
        if new_id:
            _rename_claims(LocalFolder(place.directory / "quarantine"), identity["id"], new_id)
        place.identify({**identity, **name, "directory": str(place.directory.resolve())})


def _rename_claims(folder: LocalFolder, old: str, new: str) -> None:
    """Refused rows inside the checkpoint were copied with it, so they are its own."""
    for name, claim in folder.claims().items():
        if claim.get("id") == old:
            folder.replace_claim(name, {**claim, "id": new})


def _rewrite(file: Path, text: str) -> None:
    # Without its checksum the file is read as it is; with the old one it would be refused.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    draft = file.with_name(f".{file.name}.moved")
    draft.write_text(text)
    os.replace(draft, file)
