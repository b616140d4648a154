"""The directories of an application, claimed for the checkpoint that writes to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.declarations import Destination
from penstock.plan.catalog import Catalog
from penstock.runners.destinations import QUARANTINE, answers_of, is_local
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.ownership.claims import check_claim, claim
from penstock.runners.spark.ownership.folders import LocalFolder, answers_folder, quarantine_folder


@dataclass(frozen=True, slots=True)
class Claims:
    """What files of a run are called besides, by directory: nothing where its checkpoint is the owner.

    Parameters
    ----------
    checkpoint
        Its identity.
    """

    checkpoint: str
    answers: Mapping[str, str] = field(default_factory=dict)
    quarantine: str = ""

    def mark_of(self, destination: Destination) -> str:
        return self.answers.get(destination.directory, "")


def _directories(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Directories of answers, each with what it holds."""
    for query in catalog.queries.values():
        yield from ((item.directory, answers_of(query.name)) for item in query.destinations if item.directory)


def check_local_directories(catalog: Catalog, place: Checkpoint, quarantine: str, append: bool) -> None:
    """Refuse directories of other checkpoints as far as they can be seen without Spark; writes nothing into them."""
    for path, content in [*_directories(catalog), (quarantine, QUARANTINE)]:
        if is_local(path):
            check_claim(LocalFolder(path), place.writer(catalog.name, content), append)


def claim_directories(catalog: Catalog, place: Checkpoint, quarantine: str, append: bool, spark: Any) -> Claims:
    """Make all directories the checkpoint's own, or join those of others if `append` says so."""
    name = catalog.name
    wanted = [(answers_folder(path, spark), path, place.writer(name, content)) for path, content in _directories(catalog)]
    refused, keeper = quarantine_folder(quarantine), place.writer(name, QUARANTINE)
    # All or none: a refusal of the last one must not leave claims in the others.
    for folder, _, writer in wanted:
        check_claim(folder, writer, append)
    check_claim(refused, keeper, append)
    marks = {path: claim(folder, writer, append) for folder, path, writer in wanted}
    return Claims(keeper.id, marks, claim(refused, keeper, append))
