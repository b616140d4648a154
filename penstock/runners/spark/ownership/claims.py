"""Whose a directory is: the files of a micro-batch are known by its number, and every checkpoint counts from 0.

The first checkpoint that writes into a directory owns it and calls its files `epoch=N`. Another one is refused, because it would
take those files for its own of a repeated micro-batch; if it is told to append, its files are called `epoch=N-MARK`, with a mark
of its own. Both are written down in `_penstock` inside the directory, a name that readers skip.
"""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import DamagedRecord, ForeignDirectory
from penstock.runners.spark.checkpoints.records import read_record
from penstock.runners.spark.ownership.folders import Folder

#: Where a checkpoint keeps who it is.
IDENTITY = Path("penstock") / "identity"
_OWNER = "owner"
#: What the owner's files are called: answers, and refused rows.
_EPOCH = re.compile(r"epoch=(\d+)(-stage=\d+-shard=\d+\.parquet)?")


@dataclass(frozen=True, slots=True)
class Writer:
    """A checkpoint that writes into a directory, and what.

    Parameters
    ----------
    id
        Identity of the checkpoint: another one at the same path is another writer.
    content
        Such as "answers of query 'busy'".
    since
        Last micro-batch that was planned when the checkpoint got its identity: what it wrote before, it wrote without a name.
    """

    id: str
    checkpoint: str
    application: str
    content: str
    since: int = -1

    @property
    def mark(self) -> str:
        """What its files are called beside another owner's."""
        return hashlib.sha256(f"{self.id} {self.content}".encode()).hexdigest()[:8]

    def is_in(self, claim: Mapping[str, Any]) -> bool:
        return (claim.get("id"), claim.get("content")) == (self.id, self.content)

    def claim(self) -> dict[str, Any]:
        begun = datetime.now(UTC).isoformat(timespec="seconds")
        return {**asdict(self), "host": socket.gethostname(), "begun": begun}


class _Decision(NamedTuple):
    """The name of the writer's claim, and what is to be done for it: create it, or write it over one that is there."""

    name: str
    is_new: bool = False
    is_outdated: bool = False

    @property
    def mark(self) -> str:
        return "" if self.name == _OWNER else self.name


def check_claim(folder: Folder, writer: Writer, append: bool) -> None:
    """Refuse a directory that another checkpoint owns; writes nothing."""
    _decide(folder, writer, append)


def claim(folder: Folder, writer: Writer, append: bool) -> str:
    """Make the directory the writer's, or join it; returns the mark of its files, empty for the owner.

    Raises
    ------
    ForeignDirectory
        When another checkpoint owns it and `append` does not say to go on beside it.
    """
    decision = _decide(folder, writer, append)
    if decision.is_outdated:
        folder.replace_claim(decision.name, writer.claim())
    elif decision.is_new and not folder.create_claim(decision.name, writer.claim()):
        # Somebody was faster.
        return claim(folder, writer, append)
    return decision.mark


def _decide(folder: Folder, writer: Writer, append: bool) -> _Decision:
    claims = folder.claims()
    for name, known in claims.items():
        if writer.is_in(known):
            # Of a checkpoint that was moved, others should hear where it is.
            return _Decision(name, is_outdated=known.get("checkpoint") != writer.checkpoint)
    last = max((int(found[1]) for name in folder.names() if (found := _EPOCH.fullmatch(name))), default=-1)
    owner = claims.get(_OWNER)
    if owner is None and last <= writer.since:
        return _Decision(_OWNER, is_new=True)
    if owner is not None and last < 0 and _is_gone(owner):
        return _Decision(_OWNER, is_outdated=True)
    if append:
        return _Decision(writer.mark, is_new=True)
    raise ForeignDirectory(_refusal(folder, writer, owner), f"directory '{folder.text}'")


def _is_gone(claim: Mapping[str, Any]) -> bool:
    """Whether the checkpoint of a claim is certainly no more: deleted, or created anew at the same path."""
    if claim.get("host") != socket.gethostname():
        return False
    try:
        identity = read_record(Path(claim["checkpoint"]) / IDENTITY)
    except DamagedRecord:
        return False
    return identity is None or identity["id"] != claim["id"]


def _refusal(folder: Folder, writer: Writer, owner: Mapping[str, Any] | None) -> str:
    return (
        f"the directory holds {_whose(writer, owner)}. Files are named by the number of their micro-batch, which every checkpoint "
        f"counts from 0: {writer.content} of this run would meet files of their names, and be lost. "
        f"{_continue(writer, owner)}another directory, or go on beside the files there with --append (from Python append=True): "
        "new files then have names of their own"
    )


def _whose(writer: Writer, owner: Mapping[str, Any] | None) -> str:
    if owner is None:
        return "files of micro-batches that carry no name of a checkpoint, and that this checkpoint has not written"
    if not owner:
        return "files of a checkpoint whose name, in the file '_penstock/owner', cannot be read"
    if owner["id"] == writer.id:
        return f"{owner['content']} of this very checkpoint"
    end = ", which is no longer there" if _is_gone(owner) else ""
    begun = f"begun {owner['begun']} with checkpoint '{owner['checkpoint']}'{end}"
    return f"{owner['content']} of application '{owner['application']}', {begun}"


def _continue(writer: Writer, owner: Mapping[str, Any] | None) -> str:
    if not owner or owner["id"] == writer.id or _is_gone(owner):
        return "Choose "
    return f"Continue with --checkpoint {owner['checkpoint']}, choose "
