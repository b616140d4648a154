"""Parameters of joins that may change while a query runs, checked before a shard hears of them.

A decision is written once and read by every later run of its checkpoint. A mistake in it would stop them all, so it is found
here, where somebody can still correct it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidConfiguration, suggestion
from penstock.lowering.heartbeats import check_time
from penstock.lowering.jobs import Job
from penstock.lowering.join_variants import pjoin_config
from penstock.lowering.statistics import joins_of
from penstock.model.elements import Control
from penstock.model.join_variants import JoinVariant
from penstock.operators.joins.pjoin.config import CHANGEABLE, PJoinConfig
from penstock.operators.joins.pjoin.operator import CONTROL, PROPAGATE
from penstock.operators.joins.pjoin.registry import Registry

_TUNABLE = (JoinVariant.PJOIN, JoinVariant.XJOIN)


@dataclass(frozen=True, slots=True)
class TunableJoin:
    """A join with parameters that may change: its operator, the queries that use it, what its hint says."""

    operator: str
    queries: frozenset[str]
    config: PJoinConfig


def tunable_joins(job: Job) -> tuple[TunableJoin, ...]:
    """The joins of a job whose parameters may change."""
    users = {node.id: node.queries for stage in job.stages for node in stage.graph.nodes}
    return tuple(
        TunableJoin(name, users[name], pjoin_config(node.hint))
        for name, node in joins_of(job).items()
        if node.hint is not None and node.hint.variant in _TUNABLE
    )


def tuning(job: Job, query: str, changes: Mapping[str, Any]) -> Control:
    """A decision that changes parameters of a query's joins.

    Equal joins of several queries are one operator, so they change together.

    Raises
    ------
    InvalidConfiguration
        When there is no such query, none of its joins has parameters, or one of the changes is not legal.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> from penstock.lowering.stages import build_job
    >>> catalog = parse_application('''
    ...   CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE CQ q AS SELECT /*+ PJOIN */ a.k FROM a, b WHERE a.k = b.k''')
    >>> tuning(build_job(catalog, 2), "q", {"purge_threshold": 100}).detail
    {'to': ['WindowJoin1'], 'purge_threshold': 100}
    """
    if not changes:
        raise InvalidConfiguration(f"nothing is to change; there are {', '.join(CHANGEABLE)}", f"query '{query}'")
    joins = _joins_of_query(job, query)
    for join in joins:
        join.config.changed(changes)
    coded = {name: value.to_json() if isinstance(value, Registry) else value for name, value in changes.items()}
    return Control(0, CONTROL, {"to": [join.operator for join in joins], **coded})


def request(job: Job, query: str) -> Control:
    """A decision that asks a query's joins for punctuations."""
    return Control(0, PROPAGATE, {"to": [join.operator for join in _joins_of_query(job, query)]})


def _joins_of_query(job: Job, query: str) -> list[TunableJoin]:
    named = next((name for name in job.outputs if name.lower() == query.lower()), None)
    if named is None:
        raise InvalidConfiguration(f"there is no query '{query}'; {suggestion(query, job.outputs)}", "parameters of a join")
    joins = [join for join in tunable_joins(job) if named in join.queries]
    if not joins:
        text = "none of its joins has parameters that may change; the hint /*+ PJOIN */ or /*+ XJOIN */ makes one that has"
        raise InvalidConfiguration(text, f"query '{named}'")
    return joins


def check_decision(job: Job, decision: Control) -> None:
    """Refuse a decision about joins or time that could not be obeyed; other kinds are not looked at."""
    check_time(job, decision)
    if decision.kind != CONTROL:
        return
    changes = {name: value for name, value in decision.detail.items() if name != "to"}
    named = decision.detail.get("to")
    for join in tunable_joins(job):
        if named is None or join.operator in named:
            join.config.changed(changes)
