"""Counters of the shards sorted by what people ask for: readers of streams, queries, operators with state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.lowering.jobs import Job
from penstock.runners.spark.driver.reports import BatchReport


@dataclass(frozen=True, slots=True)
class ReaderCounts:
    """What became of the rows of a stream for the queries that share one entry.

    Nothing is lost silently: every row read was used, set aside by a WHERE, quarantined, or shed.

    Examples
    --------
    >>> ReaderCounts("bid", ("busy",), read=10, used=7, filtered=2, late=1, bad=0, violating=0).is_complete
    True
    """

    stream: str
    queries: tuple[str, ...]
    read: int
    used: int
    filtered: int
    late: int
    bad: int
    violating: int
    after_end: int = 0
    shed: int = 0

    @property
    def quarantined(self) -> int:
        return self.late + self.bad + self.violating + self.after_end

    @property
    def is_complete(self) -> bool:
        return self.read == self.used + self.filtered + self.quarantined + self.shed

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "quarantined": self.quarantined, "is_complete": self.is_complete}


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Rows that reached a query and answers it gave; an operator shared by several queries counts for each."""

    query: str
    rows_in: int
    rows_out: int
    state_rows: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorCounts:
    """An operator that keeps state, and how it got rid of rows: out of the window, or closed by a punctuation.

    An event pattern under constraints gives traces up that cannot match any more, and passes over the rest of their events.
    """

    operator: str
    queries: tuple[str, ...]
    state_rows: int
    state_bytes: int
    expired: int
    purged: int
    queue_rows: int
    given_up: int = 0
    passed_over: int = 0
    shed: int = 0

    @property
    def losses(self) -> str:
        """Rows that were left out in front of it, for people; "" if none were.

        Examples
        --------
        >>> OperatorCounts("GroupBy4", ("loose",), 0, 0, 0, 0, 0, shed=1200).losses
        '1,200 rows were left out in front of GroupBy4 (for loose); they count as used above'
        """
        if not self.shed:
            return ""
        queries = ", ".join(self.queries)
        return f"{self.shed:,} rows were left out in front of {self.operator} (for {queries}); they count as used above"

    @property
    def constraint_savings(self) -> str:
        """What constraints have spared, for people; "" if nothing.

        Examples
        --------
        >>> OperatorCounts("PatternMatch6", ("large", "alerts"), 54, 1757, 0, 0, 0, given_up=95, passed_over=225).constraint_savings
        'PatternMatch6 (for large, alerts) gave up 95 traces that could not match any more, and passed over 225 of their events'
        """
        if not self.given_up:
            return ""
        return (
            f"{self.operator} (for {', '.join(self.queries)}) gave up {self.given_up:,} traces that could not match any more, and "
            f"passed over {self.passed_over:,} of their events"
        )


def count_readers(job: Job, report: BatchReport) -> list[ReaderCounts]:
    """One line per entry of a source."""
    return list(count_readers_by_entry(job, report).values())


def count_readers_by_entry(job: Job, report: BatchReport) -> dict[str, ReaderCounts]:
    """The same with the names of the entries."""
    found = {}
    for stage in job.stages:
        for source in stage.sources:
            name = source.route.entry
            counted = report.entries.get(name, {})
            refused = counted.get("violating", 0) - counted.get("trusted", 0)
            plain = {kind: counted.get(kind, 0) for kind in ("read", "used", "filtered", "late", "bad", "after_end", "shed")}
            found[name] = ReaderCounts(source.route.stream.name, _queries_of_entry(job, name), violating=refused, **plain)
    return found


def _queries_of_entry(job: Job, entry: str) -> tuple[str, ...]:
    users = [
        node.queries for stage in job.stages for node in stage.graph.nodes if any(source == entry for source, _ in node.sources)
    ]
    return _ordered(job, frozenset().union(*users))


def _ordered(job: Job, queries: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in job.outputs if name in queries)


def count_queries(job: Job, report: BatchReport) -> list[QueryCounts]:
    readers = count_readers(job, report)
    answering = {name: port[0] for stage in job.stages for name, port in stage.graph.outputs.items()}
    found = []
    for query in job.outputs:
        mine = [counters for _, queries, counters in _operators(job, report) if query in queries]
        found.append(
            QueryCounts(
                query,
                rows_in=sum(reader.used for reader in readers if query in reader.queries),
                rows_out=report.operators.get(answering.get(query, ""), {}).get("rows_out", 0),
                state_rows=sum(counters.get("state_rows", 0) for counters in mine),
                state_bytes=sum(counters.get("state_bytes", 0) for counters in mine),
            )
        )
    return found


def count_operators(job: Job, report: BatchReport) -> list[OperatorCounts]:
    """Operators that have kept anything so far, or in front of which rows were left out, in the order rows pass them."""
    kinds = ("state_rows", "state_bytes", "expired", "purged", "queue_rows")
    return [
        OperatorCounts(
            node,
            _ordered(job, queries),
            **{kind: counters.get(kind, 0) for kind in kinds},
            given_up=counters.get("failed_traces", 0),
            passed_over=counters.get("skipped", 0),
            shed=counters.get("shed", 0),
        )
        for node, queries, counters in _operators(job, report)
        if any(counters.get(kind, 0) for kind in (*kinds, "failed_traces", "shed"))
    ]


def _operators(job: Job, report: BatchReport) -> Iterator[tuple[str, frozenset[str], Mapping[str, int]]]:
    for stage in job.stages:
        for node in stage.graph.nodes:
            yield node.id, node.queries, report.operators.get(node.id, {})


def rows_arrived(job: Job, report: BatchReport) -> int:
    """Rows that the streams brought with this micro-batch; one that several entries read counts once."""
    return sum(arrived_by_stream(job, report).values())


def arrived_by_stream(job: Job, report: BatchReport) -> dict[str, int]:
    """The same for each stream."""
    arrived = {name: counters.get("arrived", 0) for name, counters in report.entries.items()}
    return {stream: max(arrived.get(name, 0) for name in names) for stream, names in _entries_by_stream(job).items()}


def set_aside(job: Job, report: BatchReport) -> dict[str, int]:
    """Rows in the quarantine since the checkpoint began, by reason.

    Of a stream that several entries read the entry with most of a reason counts: what one refuses another mostly refuses too.
    """
    found: Counter[str] = Counter()
    streams = _entries_by_stream(job).keys()
    most: dict[str, Counter[str]] = {}
    for owner, reasons in report.set_aside.items():
        # Also entries of queries that are gone: they are called after their stream.
        stream = owner.partition("@")[0]
        if stream in streams:
            most[stream] = most.get(stream, Counter()) | Counter(reasons)
        else:
            found += Counter(reasons)
    return dict(sum(most.values(), found))


def _entries_by_stream(job: Job) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for stage in job.stages:
        for source in stage.sources:
            found.setdefault(source.route.stream.name, []).append(source.route.entry)
    return found


def late_and_quarantined(readers: Iterable[ReaderCounts]) -> tuple[int, int]:
    """Late rows, and all that were quarantined where they entered, since the checkpoint began; each stream counts once."""
    late, quarantined = Counter[str](), Counter[str]()
    for reader in readers:
        late |= Counter({reader.stream: reader.late})
        quarantined |= Counter({reader.stream: reader.quarantined})
    return late.total(), quarantined.total()
