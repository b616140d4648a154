"""`penstock why`: what was decided about contracts while an application ran, and for which reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.apps.reading import read_catalog
from penstock.errors import UnknownQuery, UserError
from penstock.plan.catalog import Catalog
from penstock.qos.contract_meter import LOOK_SECONDS
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.driver.contracts import EFFECT

_ACTIONS = {
    "switch": "another strategy",
    "shed": "shed more rows",
    "restore": "shed fewer rows",
    "cannot": "the contract cannot be met",
    "keep": "nothing was changed",
}
_CLASSES = {"must_satisfy": "MUST", "best_effort": "BEST EFFORT", "dont_care": "DONT CARE"}


@dataclass(frozen=True)
class Explanation:
    """The history of decisions, oldest first."""

    entries: Sequence[Mapping[str, Any]]
    #: Why there are none, if so.
    nothing: str = ""

    def to_json(self) -> list[Mapping[str, Any]]:
        return list(self.entries)

    def __str__(self) -> str:
        if not self.entries:
            return f"nothing has been decided: {self.nothing}"
        return "\n".join(line for entry in self.entries for line in _lines(entry))


def why(file: str, checkpoint: Path, query: str | None = None) -> Explanation:
    """What was decided in the runs of a checkpoint; of one query: what concerned it."""
    catalog = read_catalog(file)
    if not (checkpoint / "penstock").is_dir():
        raise UserError(f"'{checkpoint}' is the checkpoint of no run; name that of the run with --checkpoint")
    place = Checkpoint(checkpoint)
    edition = place.edition()
    if edition is not None:  # queries may have come while it ran
        catalog = edition.catalog
    if query is not None and query.lower() not in catalog.queries:
        raise UnknownQuery(f"'{file}'", "query", query, [known.name for known in catalog.queries.values()])
    entries = place.history.entries()
    return Explanation([found for entry in entries if (found := _about(entry, query)) is not None], _nothing(catalog, query))


def _nothing(catalog: Catalog, query: str | None) -> str:
    """Why a history may be empty; the first look at contracts is part of it."""
    asked = [known for name, known in catalog.queries.items() if query is None or name == query.lower()]
    if not any(known.contract is not None and known.contract.expectations for known in asked):
        whose = "no query has a contract" if query is None else f"query '{query}' has no contract"
        return f"{whose} that promises anything, as WITH QOS (LATENCY <= INTERVAL 2 SECONDS MUST) does"
    return f"contracts are looked at every {LOOK_SECONDS:g} seconds after two micro-batches, and the run has not come so far"


def _about(entry: Mapping[str, Any], query: str | None) -> Mapping[str, Any] | None:
    """An entry with what concerns a query; None if nothing does."""
    if query is None:
        return entry
    mine = [item for item in entry["measured"] if item["query"].lower() == query.lower()]
    loses = query.lower() in map(str.lower, entry.get("losing", ()))
    return {**entry, "measured": entry["measured"] if loses else mine} if mine or loses else None


def _lines(entry: Mapping[str, Any]) -> list[str]:
    at = datetime.fromtimestamp(entry["at_ms"] / 1000).strftime("%Y-%m-%d %H:%M:%S")
    if entry["action"] == EFFECT:
        return [f"{at}  what it did", *map(_measured, entry["measured"])]
    what = _ACTIONS[entry["action"]]
    if entry["action"] == "switch":
        what += f": '{entry['strategy']}' instead of '{entry['before']}'"
    lines = [f"{at}  batch {entry['epoch']}: {what}", f"    because {entry['reason']}", *map(_measured, entry["measured"])]
    if entry["scores"]:
        scores = sorted(entry["scores"].items(), key=lambda item: -item[1])
        lines.append("    scores: " + ", ".join(f"{name} {value:g}" for name, value in scores))
    return lines


def _measured(item: Mapping[str, Any]) -> str:
    mark = "kept" if item["is_kept"] else "broken"
    return f"    {item['query']}: {item['text']} {_CLASSES[item['class']]}: {mark}"
