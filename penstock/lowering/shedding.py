"""Decisions about rows that are left out: what could not be obeyed, or would change what answers mean, is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import Any

from penstock.errors import InvalidConfiguration, suggestion
from penstock.kernel.packing import READ
from penstock.lowering.jobs import Job
from penstock.model.drop_preferences import DropKind
from penstock.model.elements import SHED, Control
from penstock.plan.nodes.base import Node, walk
from penstock.plan.nodes.relational import Scan
from penstock.qos.shedding.table import check_preference, preference_of

#: What a decision must say, and what it may.
_REQUIRED, _OPTIONAL = {"entry", "share"}, {"seed", "anywhere", "kind", "column", "center", "mode"}


def check_shedding(job: Job, decision: Control) -> None:
    """Refuse to leave rows out where that cannot be; other kinds are not looked at."""
    if decision.kind != SHED:
        return
    detail = decision.detail
    entries = {source.route.entry: source for stage in job.stages for source in stage.sources}
    if not set(detail) >= _REQUIRED or set(detail) - _REQUIRED - _OPTIONAL:
        raise InvalidConfiguration(
            "shedding says which share of the rows of an entry is left out, as {'entry': 'bid@1.0', 'share': 0.1}, with 'seed', "
            f"'kind', 'column', 'center', 'mode' and 'anywhere' if they matter; found {dict(detail)}"
        )
    if detail["entry"] not in entries:
        raise InvalidConfiguration(f"there is no entry '{detail['entry']}'; {suggestion(str(detail['entry']), entries)}")
    share, seed = detail["share"], detail.get("seed", 0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not isfinite(share) or not 0 <= share <= 1:
        raise InvalidConfiguration(f"the share that is left out of '{detail['entry']}' is {share!r}; give a number from 0 to 1")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidConfiguration(f"the seed of the rows left out of '{detail['entry']}' is {seed!r}; give a whole number")
    preference, source = preference_of(detail), entries[detail["entry"]]
    for query in readers_of(job, detail["entry"]):
        if preference.column not in [f"{READ}{name}" for name in source.prefix.ranked]:
            check_preference(preference, source.route.columns, query)
    if source.route.weight and share:
        _check_weights(detail)
    if share and detail.get("anywhere") is not True:
        _check_meaning(job, detail)


def _check_weights(detail: Mapping[str, Any]) -> None:
    """Rows that stand for others must be a fair sample of them, and there must be some."""
    kind = preference_of(detail).kind
    if kind is not DropKind.RANDOM:
        text = f"with the {kind} rows left out, the rest is no fair sample. Leave rows out at random"
    elif detail["share"] == 1:
        text = "no row is left to estimate from. Give a share below 1"
    else:
        return
    entry = detail["entry"]
    raise InvalidConfiguration(f"of the rows of '{entry}' counts and sums, or the fraction that is kept, are estimated: {text}")


def _check_meaning(job: Job, detail: Mapping[str, Any]) -> None:
    entry = detail["entry"]
    for query in readers_of(job, entry):
        for reason in changed_meanings(job, query):
            raise InvalidConfiguration(
                f"query '{query}' reads '{entry}' and has {reason}: with rows left out some of its answers would be wrong, not "
                "only missing. Allow it with 'anywhere': true if that is what you want"
            )


def readers_of(job: Job, entry: str) -> list[str]:
    """Queries whose answers depend on rows of an entry, in lower case: those that the operators behind it lead to."""
    reached, before = {entry}, 0
    while len(reached) > before:
        before = len(reached)
        for stage in job.stages:
            for node in stage.graph.nodes:
                reached |= {node.id} if any(source in reached for source, _ in node.sources) else set()
            for name, exchange in stage.exchanges.items():
                reached |= {exchange.entry} if stage.graph.outputs[name][0] in reached else set()
    ports = {name: port for stage in job.stages for name, port in stage.graph.outputs.items() if name not in stage.exchanges}
    return sorted(name.lower() for name, (node, _) in ports.items() if node in reached)


def changed_meanings(job: Job, query: str, exact: Collection[str] = ()) -> Iterator[str]:
    """Parts of a query, in lower case, and of those it reads, whose answers would be wrong if rows were left out before them.

    Parameters
    ----------
    exact
        Queries for which nothing is left out, in lower case: what they have does not matter to those that read them.
    """
    waiting, seen = [query], {*exact}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for node in _nodes(job, name):
            if node.needs_every_row:
                yield node.needs_every_row
            if node.query_read and node.query_read.lower() not in seen:
                waiting.append(node.query_read.lower())


def has_weights(job: Job, query: str) -> bool:
    """Whether a query estimates anything from the shares of entries that are left out."""
    return any(scan.is_weighed for scan in _nodes(job, query.lower()) if isinstance(scan, Scan))


def _nodes(job: Job, query: str) -> Iterator[Node]:
    plans = (found.plan for catalog in job.plans.values() for found in catalog.queries.values() if found.name.lower() == query)
    return (node for plan in plans for node in walk(plan))
