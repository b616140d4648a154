"""`penstock diff`, `add`, `drop` and `list`: queries of an application that come and go under its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.apps.reading import read_catalog, read_text
from penstock.errors import RefusedByRun, UserError
from penstock.language.application import read_utf8
from penstock.runners.destinations import refuse_shared_directories
from penstock.runners.editions.changes import Changes, changed, refuse_incompatible
from penstock.runners.editions.edition import ADD, DROP, Edition
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.checkpoints.lock import is_held
from penstock.runners.spark.driver.policies import Policies, Told, policy_of_steps
from penstock.runners.spark.driver.requests import ask
from penstock.runners.spark.ownership.directories import check_local_directories

#: Where runs without `--checkpoint` remember their progress.
_DEFAULT = Path(".penstock")


@dataclass(frozen=True)
class Difference:
    """What a start with another text would do."""

    checkpoint: Path
    changes: Changes

    @property
    def can_start(self) -> bool:
        return not self.changes.refused

    def to_json(self) -> dict[str, Any]:
        return {"checkpoint": str(self.checkpoint), "can_start": self.can_start, **self.changes.to_json()}

    def __str__(self) -> str:
        return changes_text(self.changes) or "no query"


def changes_text(changes: Changes) -> str:
    """What becomes of the queries, a line each.

    Examples
    --------
    >>> print(changes_text(Changes(kept=("busy",), fresh=("top", "expensive"), reset=("expensive",), dropped=("old",))))
    = busy: goes on with its state
    + top: new, begins empty
    + expensive: begins anew, without its state
    - old: dropped, its state is forgotten
    """
    lines = [f"= {name}: goes on with its state" for name in changes.kept]
    lines += [f"~ {name}: has changed, and goes on with its state" for name in changes.continued]
    lines += [
        f"+ {name}: {'begins anew, without its state' if name in changes.reset else 'new, begins empty'}" for name in changes.fresh
    ]
    lines += [f"- {name}: dropped, its state is forgotten" for name in changes.dropped]
    for name, found in changes.refused.items():
        lines.append(f"! {name}: cannot go on, its state means something else now (--reset {name} begins anew)")
        lines += [f"    {line}" for line in found]
    return "\n".join(lines)


def difference(name: str, checkpoint: Path, reset: Collection[str] = ()) -> Difference:
    """What a start of an application would do with the state of a checkpoint; changes nothing."""
    place, edition, shards = _known(checkpoint)
    following, changes = changed(edition, shards, file=read_text(name)[0], reset=reset, now_us=_now_us())
    Policies(place).check_start(Told(read_catalog(name).policy), following.catalog)
    return Difference(place.directory, changes)


def add_queries(given: str, checkpoint: Path, force: bool = False) -> Changes:
    """Add statements, given as text or as a file, to the application of a checkpoint, running or not.

    Parameters
    ----------
    force
        Whether a run takes them also if a promise would not be kept. One that does not run judges that when it starts.
    """
    path = Path(given)
    is_file = len(given) < 4096 and "\n" not in given and path.suffix == ".sql"
    if is_file and not path.is_file():
        raise UserError(f"there is no file '{given}'; give statements such as \"CREATE CQ …\", or a file that holds them")
    return _change(checkpoint, ADD, read_utf8(path) if is_file else given, force)


def drop_query(query: str, checkpoint: Path) -> Changes:
    """Drop a query of the application of a checkpoint, running or not."""
    return _change(checkpoint, DROP, query)


def _change(checkpoint: Path, kind: str, text: str, force: bool = False) -> Changes:
    place, edition, shards = _known(checkpoint)
    if is_held(place.lock.file):
        found = ask(place.requests, kind, text, lambda: is_held(place.lock.file), force=force)
        if "text" in found:
            raise RefusedByRun(found["code"], found["text"])
        return Changes.from_json(found["changes"])
    place.lock.take()
    try:
        following, changes = changed(edition, shards, later=[(kind, text)], now_us=_now_us())
        refuse_incompatible(changes, f"checkpoint '{checkpoint}'")
        policies, wish = Policies(place), policy_of_steps([(kind, text)], following.name)
        policies.check(wish, following.catalog)
        refuse_shared_directories(following.catalog)
        check_local_directories(following.catalog, place, str(place.directory / "quarantine"), append=False)
        place.settle_edition(following)
        policies.wish(wish)
        return changes
    finally:
        place.lock.release()


@dataclass(frozen=True)
class Listing:
    """The queries of a checkpoint."""

    checkpoint: Path
    edition: Edition
    is_running: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "checkpoint": str(self.checkpoint),
            "is_running": self.is_running,
            "queries": [
                {"name": query.name, "since": self._since(name), "was_added": self._was_added(name), "to": self._to(name)}
                for name, query in self.edition.catalog.queries.items()
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.checkpoint}: {'running' if self.is_running else 'not running'}"]
        for name, query in self.edition.catalog.queries.items():
            added = ", added while it ran" if self._was_added(name) else ""
            lines.append(f"  {query.name}: since {self._since(name)}{added}; to {', '.join(self._to(name))}")
        return "\n".join(lines)

    def _since(self, name: str) -> str:
        began = self.edition.began(name)
        moment = 0 if began is None else began.now_us
        return datetime.fromtimestamp(moment / 1e6, UTC).isoformat(" ", "seconds")

    def _was_added(self, name: str) -> bool:
        return name not in Edition.first(self.edition.name, self.edition.file, self.edition.now_us).catalog.queries

    def _to(self, name: str) -> list[str]:
        found = self.edition.catalog.queries[name].destinations
        return [" ".join([item.format, *([item.directory] if item.directory else [])]) for item in found] or ["memory"]


def listing(checkpoint: Path) -> Listing:
    """What runs, or would go on, with a checkpoint."""
    place, edition, _ = _known(checkpoint)
    return Listing(place.directory, edition, is_held(place.lock.file))


def only_checkpoint() -> Path:
    """The checkpoint that is meant when none is named: there is only one where runs leave theirs."""
    found = sorted(path for path in _DEFAULT.glob("*") if (path / "penstock").is_dir()) if _DEFAULT.is_dir() else []
    if len(found) == 1:
        return found[0]
    listed = f"there are {', '.join(map(str, found))}" if found else f"there is none in {_DEFAULT}"
    raise UserError(f"name the checkpoint of the run with --checkpoint; {listed}")


def _known(checkpoint: Path) -> tuple[Checkpoint, Edition, int]:
    place = Checkpoint(checkpoint)
    edition, shards = place.edition(), place.recall("shards")
    if edition is None or shards is None:
        raise UserError(f"'{checkpoint}' is the checkpoint of no run; name that of the run with --checkpoint")
    return place, edition, shards


def _now_us() -> int:
    return time.time_ns() // 1000
