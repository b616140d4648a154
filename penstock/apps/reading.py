"""Applications as a command names them: a file, or an example by its name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.apps.table import EXAMPLES
from penstock.errors import NoSuchFile, UserError
from penstock.language.application import parse_application, read_utf8
from penstock.lowering.statistics import JoinMemory
from penstock.model.elements import STATISTICS
from penstock.operators.filtering.status import FilterStatus
from penstock.plan.catalog import Catalog
from penstock.runners.costs import RECORD as COSTS
from penstock.runners.spark.checkpoints.records import read_record


def application_file(name: str) -> Path:
    """The file a user means: a path, or the name of an example.

    Examples
    --------
    >>> application_file("auction").name
    'queries.sql'
    """
    path = Path(name)
    if path.is_file():
        return path
    if name in EXAMPLES:
        return EXAMPLES[name].file
    folder = path.parent
    near = sorted(item.name for item in folder.glob("*.sql")) if folder.is_dir() else []
    what = "is a directory" if path.is_dir() else "does not exist"
    raise NoSuchFile(name, what, [*(str(folder / item) for item in near), *EXAMPLES])


def application_name(path: Path) -> str:
    """What an application is called in messages and in Spark: its file's name, or its example's."""
    for example in EXAMPLES.values():
        if example.file == path:
            return example.name
    return path.stem


def read_text(name: str) -> tuple[str, str]:
    """The text of an application and its name."""
    path = application_file(name)
    return read_utf8(path), application_name(path)


def read_catalog(name: str) -> Catalog:
    """Streams and queries of an application; needs no Spark."""
    return parse_application(*read_text(name), now=time.time_ns() // 1000)


def read_filter_statuses(checkpoint: Path) -> tuple[FilterStatus, ...]:
    """How adaptive filters stood when the run of a checkpoint was last heard of; needs no Spark."""
    known = _recalled(checkpoint, "orders")
    return () if known is None else tuple(map(FilterStatus.from_json, known["standings"]))


def read_joins(checkpoint: Path) -> tuple[JoinMemory, ...]:
    """Estimated and measured state of joins when the run of a checkpoint was last heard of; needs no Spark."""
    return tuple(map(JoinMemory.from_json, _recalled(checkpoint, "joins") or ()))


def read_prices(checkpoint: Path) -> list[Mapping[str, Any]]:
    """What the run of a checkpoint has told shards about prices, oldest first; needs no Spark."""
    from penstock.runners.spark.data_path.control import ControlLog  # who explains a text alone need not wait for Spark's modules

    _recalled(checkpoint, "shards")
    log = ControlLog(checkpoint / "penstock" / "control")
    return [detail for kind, detail in log.read(0, len(log)) if kind == STATISTICS]


def read_costs(checkpoint: Path) -> Mapping[str, Any] | None:
    """What the run of a checkpoint has remembered of the cost of its micro-batches; None: nothing. Needs no Spark."""
    found: Mapping[str, Any] | None = _recalled(checkpoint, COSTS)
    return found


def _recalled(checkpoint: Path, name: str) -> Any:
    folder = checkpoint / "penstock"
    if not folder.is_dir():
        raise UserError(f"'{checkpoint}' is the checkpoint of no run; name that of a run with --checkpoint")
    record = folder / name
    return read_record(record)
