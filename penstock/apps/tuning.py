"""`penstock tune` and `penstock heartbeat`: tell a running application something from another terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.apps.reading import read_text
from penstock.errors import InvalidOption, UserError
from penstock.language.application import parse_application
from penstock.lowering.heartbeats import heartbeat
from penstock.lowering.looped import looped
from penstock.lowering.stages import Job, build_job
from penstock.lowering.tuning import tuning
from penstock.model.elements import Control
from penstock.plan.catalog import Catalog
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint


def tune_application(name: str, query: str, settings: list[str], checkpoint: Path) -> int:
    """Write a decision that the run of a checkpoint carries with its next micro-batch, or the next run with its first one.

    Returns
    -------
    int
        The decision's number.
    """
    place, catalog, job = _running(name, checkpoint)
    return _decided(place, tuning(job, query, parse_settings(settings)))


def beat(name: str, stream: str, moment: str, partition: int | None, checkpoint: Path) -> int:
    """Tell the run of a checkpoint that nothing older than a time comes from a stream; returns the decision's number."""
    place, _, job = _running(name, checkpoint)
    return _decided(place, heartbeat(job, stream, moment, partition))


def _running(name: str, checkpoint: Path) -> tuple[Checkpoint, Catalog, Job]:
    """The checkpoint of an application and the plan that runs there."""
    place = Checkpoint(checkpoint)
    shards, now_us = place.recalled("shards"), place.recalled("now_us")
    if shards is None or now_us is None:
        raise UserError(f"'{checkpoint}' is the checkpoint of no run; name that of the run with --checkpoint")
    # What BEGIN NOW means is part of the plan: the plan must be the one that runs.
    catalog = parse_application(*read_text(name), now=now_us)
    job = looped(build_job(catalog, shards))
    place.check_plan(job, catalog)
    return place, catalog, job


def _decided(place: Checkpoint, decision: Control) -> int:
    place.control.read(0, len(place.control))  # a log with a damaged decision takes no others
    return place.control.append(decision.kind, decision.detail)


def parse_settings(items: list[str]) -> dict[str, Any]:
    """Parameters written `name=value`; a value is a number, a word, or JSON.

    Examples
    --------
    >>> parse_settings(["purge_threshold=100", "registry=pull", "memory_rows=null"])
    {'purge_threshold': 100, 'registry': 'pull', 'memory_rows': None}
    """
    found = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise InvalidOption(f"'{item}' is no parameter; write name=value, such as purge_threshold=100", "penstock tune")
        found[name.strip()] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
