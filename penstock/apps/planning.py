"""`penstock plan`: what an application would do at some rates on some machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.apps.capacity_figure import draw_capacity
from penstock.apps.capacity_report import CapacityReport
from penstock.apps.reading import read_costs, read_prices, read_text
from penstock.apps.running import default_checkpoint
from penstock.errors import InvalidOption, UserError
from penstock.language.application import parse_application
from penstock.lowering.capacity import planned_application
from penstock.lowering.looped import looped
from penstock.lowering.stages import build_job
from penstock.model.durations import micros_of
from penstock.model.qos import QoSSpecification
from penstock.model.sizes import size_in_bytes
from penstock.plan.catalog import Catalog
from penstock.qos.capacity.planning import CapacityPlan, Machine


def parse_rates(items: Sequence[str]) -> dict[str, float]:
    """Rates written `stream=rows` per second.

    Examples
    --------
    >>> parse_rates(["bid=20000", "auction=1e3"])
    {'bid': 20000.0, 'auction': 1000.0}
    """
    found = {}
    for item in items:
        stream, equals, text = item.partition("=")
        try:
            rate = float(text.replace(",", "").replace("_", ""))
        except ValueError:
            rate = -1.0
        if not equals or not stream.strip() or not 0 <= rate < float("inf"):
            raise InvalidOption(
                f"'{item}' is no rate; write stream=rows, with the rows that come per second, such as bid=20000", "--rate"
            )
        found[stream.strip()] = rate
    return found


def plan_application(
    name: str, rates: Sequence[str], cores: int | None, trigger: str | None, checkpoint: Path | None, trial: str | None,
    memory: str | None, contracts: Mapping[str, QoSSpecification] | None = None,
) -> CapacityReport:  # fmt: skip
    """Predict how an application does.

    Costs come from a checkpoint, or from a trial run; where neither is named, from the checkpoint that `penstock run` uses by
    itself if it has any, else from a trial of 20 seconds.

    Parameters
    ----------
    trial
        How long a trial takes; 0 seconds: nothing is measured, typical costs are assumed.
    contracts
        What queries ask for, by name; None: what the text says.
    """
    if checkpoint is not None and trial is not None:
        raise InvalidOption("costs come either from a run or from a trial; give --checkpoint or --trial, not both", "--trial")
    text, application = read_text(name)
    catalog = parse_application(text, application, now=0)
    if not catalog.queries:
        raise UserError("there is no CREATE CQ, so there is nothing to plan", f"application '{application}'")
    asked, seconds = parse_rates(rates), _seconds(trial, "--trial") if trial is not None else None
    costs, told, source = _costs(name, text, application, cores, checkpoint, seconds)
    shards = cores or (int(costs["cores"]) if costs is not None else 2)
    found = planned_application(looped(build_job(catalog, shards)), application, told, costs).at(asked)
    if source.startswith(_TRIAL):
        found = replace(found, estimated=(*found.estimated, _YOUNG))
    machine = Machine(shards, _seconds(trigger, "--trigger") if trigger else 0.0, size_in_bytes(memory) if memory else None)
    return CapacityReport(CapacityPlan(found, machine, _promised(catalog) if contracts is None else dict(contracts)), source)


def _promised(catalog: Catalog) -> dict[str, QoSSpecification]:
    return {query.name: query.contract for query in catalog.queries.values() if query.contract is not None}


#: How the source of costs begins where it is a trial, and why those are not to be relied on.
_TRIAL = "measured by a trial run"
_YOUNG = "how costs fall in the first minutes of a run: those of a trial are often too high"


def _costs(
    name: str, text: str, application: str, cores: int | None, checkpoint: Path | None, trial_s: float | None
) -> tuple[Mapping[str, Any] | None, list[Mapping[str, Any]], str]:
    """What is known of costs: the record of a run, prices that it told its shards, and where they come from in words."""
    usual = default_checkpoint(name)
    place = checkpoint or (usual if trial_s is None and (usual / "penstock").is_dir() else None)
    if place is not None:
        known = read_costs(place)
        if known is not None or checkpoint is not None:
            told = read_prices(place)
            source = (
                f"as the run of {place} has measured them, {len(known['batches'])} micro-batches"
                if known
                else f"as the run of {place} has told its shards"
            )
            return known, told, source if known or told else f"assumed; the run of {place} has measured nothing yet"
    if trial_s == 0:
        return None, [], "assumed, as nothing is measured"
    from penstock.apps.trial import measure  # starts Spark

    length = trial_s or TRIAL_SECONDS
    return measure(text, application, length, cores or 2), [], f"{_TRIAL} of {length:g} s"


#: How long a trial takes unless somebody says otherwise.
TRIAL_SECONDS = 20.0


def _seconds(text: str, option: str) -> float:
    return micros_of(text, option) / 1e6 if text.strip() not in ("0", "0s") else 0.0


def print_plan(report: CapacityReport, as_json: bool, figure: Path | None) -> None:
    """Print it, and draw it if a file is named."""
    if figure is not None:
        draw_capacity(report.plan, figure)
    print(json.dumps(report.to_json(), indent=2) if as_json else report)
    if figure is not None and not as_json:
        print(f"\nfigure: {figure}")
