"""Estimated and measured state of the joins of a job, while it runs.

What the kernel reports anyway, rows and event time of each entry and state of each operator, gives rates and what is measured;
the declarations give how long a row stays in a window. How long values stay open, which decides where punctuations bound the
state, is known only if the joins are watched (`with_statistics`): that costs something for each row, so it is for the asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from penstock.kernel.graph import GraphNode
from penstock.lowering.jobs import Job, Stage
from penstock.lowering.multiway import with_copies
from penstock.metadata.statistics import Ewma, WatchedInput
from penstock.model.elements import FOREVER, NEVER
from penstock.operators.joins.approximate import expected_recall
from penstock.operators.watched import Watched
from penstock.plan.analysis.estimation import (
    Basis,
    Comparison,
    InputEstimate,
    JoinStatistics,
    compare,
    declared_estimates,
    watched_inputs,
)
from penstock.plan.analysis.propagate import propagate
from penstock.plan.nodes.base import walk
from penstock.plan.nodes.joins import WindowJoin

#: Micro-batches after which a measured state counts half.
_HALF_LIFE = 10.0
#: Counters by operator or entry, summed over shards.
Counters: TypeAlias = Mapping[str, Mapping[str, int]]


def joins_of(job: Job) -> dict[str, WindowJoin]:
    """The joins of a job by the operator's name, as reports have it."""
    return {operator: node for _, operator, node in _placed_joins(job)}


def joins_by_query(job: Job) -> dict[str, list[str]]:
    """The joins that stand in each query itself, not in those that it reads; names of queries in lower case."""
    found: dict[str, list[str]] = {}
    for query, operator, _ in _placed_joins(job):
        found.setdefault(query.lower(), []).append(operator)
    return found


def _placed_joins(job: Job) -> Iterator[tuple[str, str, WindowJoin]]:
    """Every join that runs, with a query it stands in and the name of its operator; equal ones are one operator."""
    for number, catalog in job.plans.items():
        for query in catalog.in_order():
            for node in walk(query.plan):
                if isinstance(node, WindowJoin) and (number, repr(node)) in job.placements:
                    yield query.name, job.placements[number, repr(node)][1], node


def with_statistics(job: Job) -> Job:
    """The same job with every join watched. State and answers are the same: a checkpoint of either fits the other."""
    # A multiway join has no key whose values could be followed, and forgets by windows alone.
    inputs = {name: watched_inputs(node) for name, node in joins_of(job).items() if node.has_common_key}
    return replace(job, stages=tuple(_watched(stage, inputs) for stage in job.stages))


def _watched(stage: Stage, inputs: Mapping[str, tuple[WatchedInput, ...]]) -> Stage:
    nodes = tuple(_wrapped(node, inputs[node.id]) if node.id in inputs else node for node in stage.graph.nodes)
    return replace(stage, graph=replace(stage.graph, nodes=nodes))


def _wrapped(node: GraphNode, inputs: tuple[WatchedInput, ...]) -> GraphNode:
    return replace(node, make=partial(Watched, node.make, inputs))


@dataclass(frozen=True, slots=True)
class JoinMemory:
    """State of one join: what was estimated, what was measured.

    Parameters
    ----------
    estimates
        For each input.
    measured_rows, peak_rows
        Rows in state after a micro-batch: the mean of the last ones, and the most.
    recall
        Expected share of the answers that came, of a join that may lose some.
    """

    operator: str
    estimates: tuple[InputEstimate, ...]
    measured_rows: float
    peak_rows: int
    recall: float | None = None

    @property
    def comparison(self) -> Comparison | None:
        """Both figures side by side; None where declarations and rates do not suffice for an estimate."""
        return compare(self.operator, self.estimates, self.measured_rows)

    def to_json(self) -> dict[str, Any]:
        found = self.comparison
        return {
            "operator": self.operator,
            "estimated_rows": None if found is None else round(found.estimated_rows, 1),
            "measured_rows": round(self.measured_rows, 1),
            "peak_rows": self.peak_rows,
            "error": None if found is None else round(found.error, 4),
            "recall": None if self.recall is None else round(self.recall, 6),
            "inputs": [part.to_json() for part in self.estimates],
        }

    @classmethod
    def from_json(cls, coded: Mapping[str, Any]) -> JoinMemory:
        estimates = tuple(map(InputEstimate.from_json, coded["inputs"]))
        return cls(coded["operator"], estimates, coded["measured_rows"], coded["peak_rows"], coded["recall"])

    def __str__(self) -> str:
        found = self.comparison
        measured = f"{self.measured_rows:,.0f} rows measured, {self.peak_rows:,} at most"
        text = f"{self.operator}: {measured}; no estimate" if found is None else f"{found}; {self.peak_rows:,} at most"
        return text if self.recall is None else f"{text}; expected recall {self.recall:.1%}"


class MemoryMonitor:
    """Follows the reports of a job, micro-batch by micro-batch.

    Parameters
    ----------
    job
        If it was made by `with_statistics`, lives of values are known.
    learnt
        What an earlier run of the same plan knew at its end: how long values stay open, if its joins were watched.

    Examples
    --------
    >>> from penstock.language.application import parse_application
    >>> from penstock.lowering.stages import build_job
    >>> catalog = parse_application('''
    ...   CREATE STREAM a (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE STREAM b (k BIGINT, ts BIGINT, WATERMARK ts DELAY OF 0);
    ...   CREATE CQ q AS SELECT a.k FROM a [RANGE 5], b [ROWS 7] WHERE a.k = b.k''')
    >>> monitor = MemoryMonitor(build_job(catalog, 2))
    >>> for clock in (10, 20):
    ...     entries = {name: {"used": 3 * clock, "frontier": clock} for name in ("a@1.0", "b@1.1")}
    ...     monitor.update({"WindowJoin1": {"state_rows": 20}}, entries)
    >>> print(*monitor.joins())
    WindowJoin1: about 22 rows estimated, 20 measured (10% off); 20 at most
    """

    def __init__(self, job: Job, learnt: Iterable[JoinMemory] = ()) -> None:
        known = {join.operator: join.estimates for join in learnt}
        self._declared = {name: _with_stays(found, known.get(name, ())) for name, found in _declared(job).items()}
        joins = joins_of(job)
        self._feeds = {node.id: _feeds(stage, node) for stage in job.stages for node in stage.graph.nodes if node.id in joins}
        self.statistics = {name: JoinStatistics(watched_inputs(node)) for name, node in joins.items()}
        self._measured = {name: Ewma(_HALF_LIFE) for name in joins}
        self._peaks: dict[str, int] = {}
        self._recalls: dict[str, float] = {}
        self._watched: set[str] = set()

    def update(self, operators: Counters, entries: Counters) -> None:
        """Take in the report of one micro-batch."""
        for name in self.statistics:
            if name in operators:
                self._update(name, operators, entries)

    def _update(self, name: str, operators: Counters, entries: Counters) -> None:
        counted, feeds = operators[name], self._feeds[name]
        rows = counted.get("state_rows", 0)
        self._peaks[name] = max(self._peaks.get(name, 0), rows)
        # What is left behind the end of the streams is no state to compare with.
        if not any(entries.get(entry, {}).get("frontier") == FOREVER for _, entry in feeds):
            self._measured[name].update(rows)
        recall = expected_recall(counted)
        if recall is not None:
            self._recalls[name] = recall
        if "rows.0" in counted:
            self._watched.add(name)
            self.statistics[name].update(counted)
        else:
            self.statistics[name].update(_arrivals(feeds, operators, entries))

    def joins(self) -> tuple[JoinMemory, ...]:
        """Every join that has reported."""
        estimates = self.estimates()
        return tuple(
            JoinMemory(name, estimates[name], self._measured[name].value, peak, self._recalls.get(name))
            for name, peak in self._peaks.items()
        )

    def estimates(self) -> dict[str, tuple[InputEstimate, ...]]:
        """Memory of each input of each join."""
        return {name: self._estimated(name) for name in self.statistics}

    def _estimated(self, name: str) -> tuple[InputEstimate, ...]:
        declared, seen = self._declared[name], self.statistics[name]
        if name not in self._watched:
            return tuple(_at_rate(estimate, seen.rate(port)) for port, estimate in enumerate(declared))
        measured = seen.estimates([part.name for part in declared], [part.bytes_per_row for part in declared])
        # How many rows a window of rows holds need not be measured.
        return tuple(known if known.count is not None else found for known, found in zip(declared, measured, strict=True))


def _declared(job: Job) -> dict[str, tuple[InputEstimate, ...]]:
    """What declarations say about the joins of a job."""
    found: dict[str, tuple[InputEstimate, ...]] = {}
    for number, judged in ((number, judged) for number, catalog in job.plans.items() for judged in propagate(catalog).values()):
        known = {id(item.node): item.known for item in judged}
        for item in judged:
            node = item.node
            if isinstance(node, WindowJoin) and (number, repr(node)) in job.placements:
                inputs = [known[id(part)] for part in node.parts]
                declared = declared_estimates(node, inputs, item.holdings)
                found[job.placements[number, repr(node)][1]] = with_copies(node, declared, job.shards)
    return found


def _with_stays(declared: tuple[InputEstimate, ...], learnt: tuple[InputEstimate, ...]) -> tuple[InputEstimate, ...]:
    """Declared estimates with the stays that were measured in an earlier run; counted windows need none."""
    if len(learnt) != len(declared):
        return declared
    return tuple(
        replace(mine, stay=found.stay, basis=Basis.MEASURED, is_possibly_unsafe=found.is_possibly_unsafe, is_bound=False)
        if found.basis is Basis.MEASURED and mine.count is None
        else mine
        for mine, found in zip(declared, learnt, strict=True)
    )


def _at_rate(estimate: InputEstimate, rate: float | None) -> InputEstimate:
    """A declared estimate with the rate at which rows came."""
    if rate is None or estimate.count is not None:
        return estimate
    known = Basis.CLOSING if estimate.stay is None else Basis.WINDOW
    return replace(estimate, rate=rate, basis=known if estimate.basis is Basis.NO_RATE else estimate.basis)


def _feeds(stage: Stage, join: GraphNode) -> list[tuple[str, str]]:
    """For each input of a join who sends its rows, an operator or an entry, and the entry whose event time it has."""
    sources = {node.id: node.sources for node in stage.graph.nodes}
    found = []
    for sender, _ in join.sources:
        entry = sender
        while entry in sources:
            entry = sources[entry][0][0]
        found.append((sender, entry))
    return found


def _arrivals(feeds: list[tuple[str, str]], operators: Counters, entries: Counters) -> dict[str, int]:
    """Rows and event time of each input as `JoinStatistics` reads them; nothing where event time has no value yet."""
    found: dict[str, int] = {}
    for port, (sender, entry) in enumerate(feeds):
        clock = entries.get(entry, {}).get("frontier", NEVER)
        if NEVER < clock < FOREVER:
            # In process operators and entries come in one report.
            rows = entries.get(sender, {}).get("used", operators.get(sender, {}).get("rows_out", 0))
            found |= {f"rows.{port}": rows, f"clock.{port}": clock, f"closings.{port}": 0}
    return found
