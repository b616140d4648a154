"""How an application will run: plans, places, exchanges, and what bounds the state.

Examples
--------
>>> from penstock.language.application import parse_application
>>> catalog = parse_application('''
...   CREATE STREAM bid (item BIGINT, price DOUBLE, at TIMESTAMP, WATERMARK at DELAY OF INTERVAL 5 SECONDS)
...     USING feed OPTIONS (rate '100');
...   CREATE CQ busy AS SELECT item, COUNT(*) AS bids FROM bid [RANGE 1 MINUTE] WHERE price > 3 GROUP BY item
... ''', "demo")
>>> print(explain(catalog))
application demo: 1 round on 2 shards, state bounded
<BLANKLINE>
query busy
  Project item, bids = `count(*)`               round 1
    GroupBy item: count(*) [tumbling 1 minute]  round 1 by item
    . groups: a window of 1 minute goes when event time has passed it; ≤ rate × (1 minute + 5 seconds) ≈ 6,500 rows
      Project item                              Catalyst, 100 rows/s
        Select price > 3                        Catalyst, 100 rows/s
          Scan bid                              Catalyst, 100 rows/s
<BLANKLINE>
sources, as Catalyst reads them
  bid (feed) -> round 1 by item
  . crosses: item
  . where: (`price` > 3.0D)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from penstock.expressions.nodes import Column
from penstock.expressions.spark_sql import spark_sql
from penstock.kernel.spreading import EVERYWHERE
from penstock.lowering.contracts import ShownContract, contract_lines, shown_contracts
from penstock.lowering.jobs import Exchange, Job, SourceEntry
from penstock.lowering.looped import looped
from penstock.lowering.multiway import with_copies
from penstock.lowering.prefix import prefix_of
from penstock.lowering.scheduling import check_policy, scheduling_lines
from penstock.lowering.stages import PACKING, build_job
from penstock.lowering.statistics import JoinMemory
from penstock.lowering.table import lowering_of
from penstock.model.service import ChosenPolicy
from penstock.operators.filtering.status import FilterStatus
from penstock.plan.analysis.clock import clock_lines
from penstock.plan.analysis.estimation import InputEstimate, declared_estimates
from penstock.plan.analysis.generation import Choice, choices
from penstock.plan.analysis.join_choice import choose
from penstock.plan.analysis.propagate import Judged, propagate
from penstock.plan.analysis.safety import holding_text
from penstock.plan.catalog import Catalog, ContinuousQuery
from penstock.plan.nodes.base import Node
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.patterns import PatternMatch
from penstock.plan.rewrites.apply import rewritten

CATALYST, BEFORE, KERNEL, QUERY = "catalyst", "packing", "kernel", "query"
ONE_SHARD = "one shard"
_NOWHERE = (0, "", "")
#: Operators longer than this do not push the places of the others to the right.
_WIDEST = 76


@dataclass(frozen=True)
class Operation:
    """One node of a plan and where it runs.

    Parameters
    ----------
    text, more
        The node in one line, and further lines.
    where
        Catalyst, the packing tasks before the exchange, the kernel, or another query whose answers are read.
    keys
        Columns whose hash spreads its input over the shards; "any" where it does not matter.
    state
        What it keeps and what bounds it, one line each; `is_bounded` for all of them.
    rate
        Rows per second out of it, where the sources declare a rate; filters are taken to let everything pass.
    """

    text: str
    more: tuple[str, ...]
    where: str
    stage: int
    keys: str
    columns: tuple[str, ...]
    state: tuple[str, ...]
    state_rows: float | None
    is_bounded: bool
    rate: float | None
    shared_with: tuple[str, ...]
    inputs: tuple[Operation, ...]
    #: Name of the operator in reports, and estimated memory of each input of a join.
    name: str = ""
    memory: tuple[InputEstimate, ...] = ()

    @property
    def place(self) -> str:
        if self.where == QUERY:
            return "see there"
        first = {CATALYST: "Catalyst", BEFORE: "before the shuffle"}.get(self.where, f"round {self.stage}")
        by = (
            ""
            if self.where != KERNEL or self.keys == "any"
            else f" in {self.keys}"
            if self.keys == ONE_SHARD
            else f" by {self.keys}"
        )
        rate = f", {self.rate:,.0f} rows/s" if self.rate is not None else ""
        shared = f", shared with {', '.join(self.shared_with)}" if self.shared_with else ""
        return f"{first}{by}{rate}{shared}"

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.text,
            "details": list(self.more),
            "where": self.where,
            "round": self.stage if self.where == KERNEL and self.stage else None,
            "partitioned_by": self.keys or None,
            "columns": list(self.columns),
            "state": list(self.state),
            "state_rows": self.state_rows,
            "bounded": self.is_bounded,
            "rows_per_second": self.rate,
            "shared_with": list(self.shared_with),
            "memory": [_memory_json(estimate) for estimate in self.memory],
            "inputs": [part.to_json() for part in self.inputs],
        }


@dataclass(frozen=True)
class Explained:
    """One query: its plan and where its answers go."""

    name: str
    destinations: tuple[str, ...]
    plan: Operation


@dataclass(frozen=True)
class Explanation:
    """An application as it will run."""

    application: str
    job: Job
    queries: tuple[Explained, ...]
    choices: tuple[Choice, ...] = ()
    #: How adaptive filters stood, and what joins needed, when a run was last heard of.
    filters: tuple[FilterStatus, ...] = ()
    joins: tuple[JoinMemory, ...] = ()
    #: Streams whose time goes on without rows.
    clocked: tuple[str, ...] = ()
    #: What the strategy that chooses the work goes by.
    scheduling: tuple[str, ...] = ()
    #: What queries promise, and which rows may be left out for that.
    contracts: tuple[ShownContract, ...] = ()

    @property
    def is_bounded(self) -> bool:
        return all(operation.is_bounded for query in self.queries for operation, _ in _flat(query.plan))

    def __str__(self) -> str:
        stages = len(self.job.stages)
        state = "state bounded" if self.is_bounded else "state UNBOUNDED"
        lines = [f"application {self.application}: {_many(stages, 'round')} on {_many(self.job.shards, 'shard')}, {state}"]
        for query in self.queries:
            to = f" -> {', '.join(query.destinations)}" if query.destinations else ""
            lines += ["", f"query {query.name}{to}", *_tree(query.plan)]
        sources = [line for source, stage in self._sources() for line in _source_lines(source, stage)]
        exchanges = [_exchange_line(exchange, stage) for exchange, stage in self._exchanges()]
        lines += ["", "sources, as Catalyst reads them", *sources]
        lines += ["", "rows that need another key come round with the next micro-batch", *exchanges] if exchanges else []
        lines += ["", "time that goes on without rows", *(f"  {text}" for text in self.clocked)] if self.clocked else []
        lines += ["", "declared generators of punctuations", *(f"  {choice}" for choice in self.choices)] if self.choices else []
        lines += ["", "promises that are not checked", *(f"  {text}" for text in self.job.unwatched)] if self.job.unwatched else []
        lines += ["", "adaptive filters, as they stand", *_filter_lines(self.filters)] if self.filters else []
        lines += ["", "what runs first while work waits", *(f"  {text}" for text in self.scheduling)] if self.scheduling else []
        lines += ["", "contracts", *(f"  {text}" for text in contract_lines(self.contracts))] if self.contracts else []
        return "\n".join([*lines, *self._memory_lines()])

    def _memory_lines(self) -> list[str]:
        """Estimated memory of every join, each once however many queries share it."""
        found = {part.name: part for query in self.queries for part, _ in _flat(query.plan) if part.memory}
        lines = [line for name, part in found.items() for line in (f"  {name}", *(f"  . {text}" for text in part.memory))]
        told = ["", "memory of joins: rate × mean stay of a row", *lines] if lines else []
        return [*told, "", "memory of joins, as the run has measured it", *_needed(self.joins)] if self.joins else told

    def _sources(self) -> Iterator[tuple[SourceEntry, int]]:
        return ((source, stage.level) for stage in self.job.stages for source in stage.sources)

    def _exchanges(self) -> Iterator[tuple[Exchange, int]]:
        return ((exchange, stage.level) for stage in self.job.stages for exchange in stage.exchanges.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "application": self.application,
            "shards": self.job.shards,
            "rounds": [{"round": stage.level, "operators": [node.id for node in stage.graph.nodes]} for stage in self.job.stages],
            "bounded": self.is_bounded,
            "queries": [
                {"name": query.name, "destinations": list(query.destinations), "plan": query.plan.to_json()}
                for query in self.queries
            ],
            "generators": [
                {"stream": choice.stream, "clause": choice.generator.text, "used": choice.is_used, "why": choice.why}
                for choice in self.choices
            ],
            "unwatched": list(self.job.unwatched),
            "scheduling": list(self.scheduling),
            "contracts": [contract.to_json() for contract in self.contracts],
            "clocked": list(self.clocked),
            "filters": [status.to_json() for status in self.filters],
            "joins": [join.to_json() for join in self.joins],
            "sources": [_source_json(source, stage) for source, stage in self._sources()],
            "exchanges": [
                {"entry": exchange.entry, "from_round": stage, "keys": _keys(exchange.keys), "columns": list(exchange.schema.names)}
                for exchange, stage in self._exchanges()
            ],
        }


def _filter_lines(filters: Sequence[FilterStatus]) -> list[str]:
    """Orders and costs of adaptive filters, and how the orders came to be."""
    return [line for status in filters for line in (f"  {status}", *(f"  . {then}" for then in status.history))]


def _needed(joins: Sequence[JoinMemory]) -> list[str]:
    """Estimated and measured state of joins, and what the estimates rest on."""
    return [line for join in joins for line in (f"  {join}", *(f"  . {part}" for part in join.estimates))]


def explain(
    catalog: Catalog, shards: int = 2, filters: Sequence[FilterStatus] = (), joins: Sequence[JoinMemory] = (),
    policy: ChosenPolicy | None = None, prices: Iterable[Mapping[str, Any]] = (),
) -> Explanation:  # fmt: skip
    """Rewrite an application, cut it into stages, judge its state, and show all that.

    Memory of joins is estimated from declared rates and windows; `MemoryMonitor` sets it beside what a run measures.

    Parameters
    ----------
    filters, joins
        How adaptive filters of a run stand and what its joins need, to be shown too: `Run.filters`, `MemoryMonitor.joins`.
    policy, prices
        The strategy whose view of the operators is shown, and the prices that a run has measured. None: that of the text, if it
        sets one.
    """
    final = rewritten(catalog)
    job = build_job(final, shards, optimise=False)
    judged = {id(found.node): found for known in propagate(final).values() for found in known}
    users = {node.id: node.queries for stage in job.stages for node in stage.graph.nodes}
    users |= {name: queries for name, (_, queries) in job.early_filters.items()}
    explained = [_explained(query, job, judged, users) for query in final.in_order()]
    clocked = tuple(clock_lines(final))
    check_policy(catalog)
    check_policy(catalog, policy)
    shown = policy or catalog.policy
    scheduling = scheduling_lines(looped(job), shown, prices) if shown is not None else []
    return Explanation(
        catalog.name,
        job,
        tuple(explained),
        tuple(choices(final)),
        tuple(filters),
        tuple(joins),
        clocked,
        tuple(scheduling),
        shown_contracts(job),
    )


def _explained(query: ContinuousQuery, job: Job, judged: Mapping[int, Judged], users: Mapping[str, frozenset[str]]) -> Explained:
    def operation(node: Node) -> Operation:
        found = judged[id(node)]
        first, *more = node.describe()
        if isinstance(node, PatternMatch):  # it is said when each condition is tested
            more = [line for line in more if not line.startswith("where ")]
        where = QUERY if node.query_read else CATALYST if prefix_of(node) is not None else KERNEL
        stage, name, keys = job.placements.get((0, repr(node)), _NOWHERE) if where == KERNEL else _NOWHERE
        where = BEFORE if stage == PACKING else where
        sizes = [holding.rows for holding in found.holdings]
        return Operation(
            first,
            (*_variant(node, judged), *_about_operator(node), *more),
            where,
            stage,
            keys,
            node.schema.names,
            (*map(holding_text, found.holdings), *(f"if {text}" for text in _assumed(found))),
            sum(size for size in sizes if size is not None) if sizes and None not in sizes else None,
            found.is_bounded,
            found.known.rate,
            tuple(sorted(users.get(name, frozenset()) - {query.name})),
            tuple(operation(part) for part in node.inputs),
            name,
            _declared_memory(node, judged, job.shards),
        )

    destinations = tuple(
        " ".join([item.format, *(f"{key}={value}" for key, value in item.options.items())]) for item in query.destinations
    )
    return Explained(query.name, destinations, operation(query.plan))


def _variant(node: Node, judged: Mapping[int, Judged]) -> list[str]:
    """Which variant of the literature a join is, why, and what the options of its hint decide; nothing for other operators."""
    if not isinstance(node, WindowJoin):
        return []
    chosen = str(choose(node, [judged[id(part)].known for part in node.parts]))
    return [chosen, *(node.hint.explained() if node.hint is not None else ())]


def _about_operator(node: Node) -> list[str]:
    """Who orders conditions of an adaptive filter or probes of a multiway join, how patterns are sought; else nothing."""
    return lowering_of(node).explained(node) if node.inputs else []


def _declared_memory(node: Node, judged: Mapping[int, Judged], shards: int) -> tuple[InputEstimate, ...]:
    """What declarations say about the memory of a join; nothing for other operators."""
    if not isinstance(node, WindowJoin):
        return ()
    declared = declared_estimates(node, [judged[id(part)].known for part in node.parts], judged[id(node)].holdings)
    return with_copies(node, declared, shards)


def _memory_json(estimate: InputEstimate) -> dict[str, Any]:
    rows = estimate.rows if estimate.rows is not None and isfinite(estimate.rows) else None
    return {
        "input": estimate.name,
        "rows": rows,
        "bytes": None if rows is None else rows * estimate.bytes_per_row,
        "basis": str(estimate.basis),
        "possibly_unsafe": estimate.is_possibly_unsafe,
        "at_most": estimate.is_bound,
    }


def _assumed(found: Judged) -> list[str]:
    """What the data must fulfil for the state to be bounded, each once."""
    return list(dict.fromkeys(text for holding in found.holdings for text in holding.conditions))


# -- text --------------------------------------------------------------------------------------------------------------


def _flat(operation: Operation, depth: int = 1) -> Iterator[tuple[Operation, int]]:
    yield operation, depth
    for part in operation.inputs:
        yield from _flat(part, depth + 1)


def _tree(plan: Operation) -> list[str]:
    """One line for each operator, its place to the right, what more there is to say below it."""
    rows = [("  " * depth + operation.text, operation, depth) for operation, depth in _flat(plan)]
    width = max((len(text) for text, _, _ in rows if len(text) <= _WIDEST), default=0)
    lines: list[str] = []
    for text, operation, depth in rows:
        lines.append(f"{text.ljust(width)}  {operation.place}")
        lines += ["  " * depth + f". {line}" for line in (*operation.more, *operation.state)]
    return lines


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _keys(keys: tuple[str, ...] | None) -> str:
    if keys is None:
        return "in any shard"
    if keys == EVERYWHERE:
        return "copied to every shard"
    return f"by {', '.join(keys)}" if keys else f"in {ONE_SHARD}"


def _crossing(source: SourceEntry) -> list[str]:
    """Columns that leave Catalyst, each with what it is computed of unless that is a column of the same name."""
    schema = source.prefix.stream.schema
    return [
        f"{name} once rows are left out"
        if name == source.prefix.weight
        else name
        if isinstance(expr, Column) and name in (expr.name, expr.name.lower())
        else f"{name} = {spark_sql(expr, schema)}"
        for name, expr in source.prefix.items
    ]


def _condition(source: SourceEntry) -> str:
    condition = source.prefix.condition
    return spark_sql(condition, source.prefix.stream.schema) if condition is not None else ""


def _source_lines(source: SourceEntry, stage: int) -> list[str]:
    stream = source.prefix.stream
    form = f" ({stream.source.format})" if stream.source.format else ""
    where = [f"  . where: {_condition(source)}"] if source.prefix.conditions else []
    where += [f"  . then: {', '.join(item.name for item in source.prefix.filters)}"] if source.prefix.filters else []
    asked = "those that Kafka has" if stream.source.format.lower() == "kafka" else "those that rows show"
    known = f"{stream.known_partitions}, all waited for" if stream.known_partitions else asked
    parts = [f"  . source partitions by {stream.partition_column}: {known}"] if stream.partition_column else []
    return [
        f"  {stream.name}{form} -> round {stage} {_keys(source.route.keys)}",
        f"  . crosses: {', '.join(_crossing(source))}",
        *where,
        *parts,
    ]


def _source_json(source: SourceEntry, stage: int) -> dict[str, Any]:
    return {
        "stream": source.prefix.stream.name,
        "format": source.prefix.stream.source.format,
        "source_partitions": source.prefix.stream.known_partitions or None,
        "round": stage,
        "keys": _keys(source.route.keys),
        "columns": _crossing(source),
        "condition": _condition(source),
        "filters": [item.name for item in source.prefix.filters],
    }


def _exchange_line(exchange: Exchange, stage: int) -> str:
    """`entry` is "operator@stage.keys"."""
    operator, _, target = exchange.entry.partition("@")
    level = target.partition(".")[0]
    return f"  {operator}, round {stage} -> round {level} {_keys(exchange.keys)}: {', '.join(exchange.schema.names)}"
