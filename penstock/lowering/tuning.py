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
from penstock.lowering.scheduling import check_scheduling
from penstock.lowering.shedding import check_shedding
from penstock.lowering.statistics import joins_of
from penstock.model.elements import Control
from penstock.operators.joins.window_join import TUNE

#: What may change, and the least value of it.
CHANGEABLE: Mapping[str, int] = {"memory_bytes": 1, "max_drop_markers": 2}


@dataclass(frozen=True, slots=True)
class TunableJoin:
    """A join with parameters that may change: its operator, and the queries that use it."""

    operator: str
    queries: frozenset[str]


def tunable_joins(job: Job) -> tuple[TunableJoin, ...]:
    """The joins of a job whose parameters may change."""
    users = {node.id: node.queries for stage in job.stages for node in stage.graph.nodes}
    return tuple(TunableJoin(name, users[name]) for name, node in joins_of(job).items() if node.has_common_key)


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
    ...   CREATE CQ q AS SELECT a.k FROM a, b WHERE a.k = b.k''')
    >>> tuning(build_job(catalog, 2), "q", {"memory_bytes": 10_000_000}).detail
    {'to': ['WindowJoin1'], 'memory_bytes': 10000000}
    """
    if not changes:
        raise InvalidConfiguration(f"nothing is to change; there are {', '.join(CHANGEABLE)}", f"query '{query}'")
    joins = _joins_of_query(job, query)
    _check_changes(changes)
    return Control(0, TUNE, {"to": [join.operator for join in joins], **changes})


def _check_changes(changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if name not in CHANGEABLE:
            raise InvalidConfiguration(f"there is no parameter '{name}'; {suggestion(name, CHANGEABLE)}", "control of a join")
        if value is None and name == "memory_bytes":
            continue  # no limit
        if isinstance(value, bool) or not isinstance(value, int) or value < CHANGEABLE[name]:
            least = CHANGEABLE[name]
            raise InvalidConfiguration(f"{name} is {value!r}; it must be a whole number of at least {least}", "control of a join")


def _joins_of_query(job: Job, query: str) -> list[TunableJoin]:
    named = next((name for name in job.outputs if name.lower() == query.lower()), None)
    if named is None:
        raise InvalidConfiguration(f"there is no query '{query}'; {suggestion(query, job.outputs)}", "parameters of a join")
    joins = [join for join in tunable_joins(job) if named in join.queries]
    if not joins:
        raise InvalidConfiguration("it has no join on a key that all of its sources have in common", f"query '{named}'")
    return joins


def check_decision(job: Job, decision: Control) -> None:
    """Refuse a decision about joins, time, the order of work or loss that could not be obeyed; other kinds are not looked at."""
    check_time(job, decision)
    check_scheduling(job, decision)
    check_shedding(job, decision)
    if decision.kind == TUNE:
        _check_changes({name: value for name, value in decision.detail.items() if name != "to"})
