"""`penstock tune`, `policy` and `heartbeat`: tell a running application something from another terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.apps.reading import read_text
from penstock.errors import InvalidOption, StateFormat, UserError
from penstock.language.application import parse_policy
from penstock.lowering.heartbeats import heartbeat
from penstock.lowering.jobs import Job
from penstock.lowering.tuning import check_decision, tuning
from penstock.model.elements import POLICY, Control
from penstock.runners.editions.changes import changed
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint


def tune_application(name: str, query: str, settings: list[str], checkpoint: Path) -> int:
    """Write a decision that the run of a checkpoint carries with its next micro-batch, or the next run with its first one.

    Returns
    -------
    int
        The decision's number.
    """
    place, job = _running(name, checkpoint)
    return _decided(place, tuning(job, query, parse_settings(settings)))


def set_policy(name: str, policy: str, settings: list[str], checkpoint: Path) -> int:
    """Let another strategy choose the work of the run of a checkpoint; returns the decision's number."""
    place, job = _running(name, checkpoint)
    written = parse_policy(policy)
    more = parse_settings(settings, "penstock policy", "max_age='10 seconds'")
    decision = Control(0, POLICY, {"name": written.name, **written.parameters, **more})
    check_decision(job, decision)
    return _decided(place, decision)


def send_heartbeat(name: str, stream: str, moment: str, partition: int | None, checkpoint: Path) -> int:
    """Tell the run of a checkpoint that nothing older than a time comes from a stream; returns the decision's number."""
    place, job = _running(name, checkpoint)
    return _decided(place, heartbeat(job, stream, moment, partition))


def _running(name: str, checkpoint: Path) -> tuple[Checkpoint, Job]:
    """The checkpoint of an application and the plan that runs there, with queries that have come since its start."""
    place = Checkpoint(checkpoint)
    edition, shards = place.edition(), place.recall("shards")
    if shards is None or edition is None:
        raise UserError(f"'{checkpoint}' is the checkpoint of no run; name that of the run with --checkpoint")
    _, changes = changed(edition, shards, file=read_text(name)[0])
    if changes:
        raise StateFormat(
            f"the run of the checkpoint has other queries than '{name}'; name the text that it was started with, or look with "
            f"`penstock diff {name} --checkpoint {checkpoint}` what differs",
            f"checkpoint '{checkpoint}'",
        )
    return place, edition.job(shards)


def _decided(place: Checkpoint, decision: Control) -> int:
    place.control.read(0, len(place.control))  # a log with a damaged decision takes no others
    return place.control.append(decision.kind, decision.detail)


def parse_settings(items: list[str], command: str = "penstock tune", example: str = "memory_bytes=100000000") -> dict[str, Any]:
    """Parameters written `name=value`; a value is a number, a word, or JSON.

    Examples
    --------
    >>> parse_settings(["max_drop_markers=1000", "memory_bytes=null"])
    {'max_drop_markers': 1000, 'memory_bytes': None}
    """
    found = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise InvalidOption(f"'{item}' is no parameter; write name=value, such as {example}", command)
        found[name.strip()] = _value(text.strip())
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
