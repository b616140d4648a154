"""The engines that are compared, and the order process run through each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from penstock.experiments.ccep.orders import EVENTS_PER_ORDER, LIMIT, SCHEMA, TYPES, OrderTraffic, order_batches, order_events
from penstock.experiments.contracts import Settings, statements
from penstock.experiments.measures import held_bytes
from penstock.expressions.event_queries import EventQuery
from penstock.expressions.match_output import MATCH_ID
from penstock.expressions.parse import parse
from penstock.metadata.constraints.clauses import Constraint, exclusive, prior
from penstock.metadata.constraints.conditions import ConditionOptions, FailingConditions
from penstock.metadata.constraints.constraint_set import ConstraintSet
from penstock.metadata.constraints.queries import registered
from penstock.metadata.constraints.workflows.workflow import order_fulfilment
from penstock.model.batch import Batch, Int64s, int64s
from penstock.model.elements import Heartbeat
from penstock.model.event_patterns import EventPattern, both, either, seq
from penstock.operators.patterns.operator import PatternMatch

STATEMENTS = statements(Path(__file__).parent)

_ENDS = ("CancelOrder", "RejectOrder", "FinishOrder")
_SUPPLIER, _STOCK = seq("OrderFromSupplier", "GenerateQuote"), seq("UseRemoteStock", "GenerateInvoice")


def _query(pattern: EventPattern, *conditions: str) -> EventQuery:
    return EventQuery(pattern, ("order_id",), tuple(map(parse, conditions)), terminal=_ENDS)


#: The queries as published.
Q1 = _query(seq("CheckInventory", "UseRemoteStock", "GenerateInvoice"), "GenerateInvoice.price > 200")
Q2 = _query(seq(both(_SUPPLIER, _STOCK), "FinishOrder"), "GenerateQuote.price > 200")
Q3 = _query(seq(either(_SUPPLIER, _STOCK), "FinishOrder"), "GenerateQuote.price > 200")

_STOCKS, _INVOICE = exclusive("UseLocalStock", "UseRemoteStock"), prior("GenerateInvoice", "SendInvoice")
_OUTCOME, _QUOTE = exclusive("CancelOrder", "FinishOrder"), prior("GenerateQuote", "SendQuote")
_PUBLISHED: dict[EventPattern, tuple[Constraint, ...]] = {
    Q1.pattern: (_STOCKS, _INVOICE),
    Q2.pattern: (_STOCKS, _OUTCOME, _QUOTE, _INVOICE),
    Q3.pattern: (_STOCKS, _OUTCOME, _QUOTE, _INVOICE),
}
#: What the published engine does: branches by their tree, no rule about single events or about traces that matched.
PUBLISHED = ConditionOptions(disjunctions="hierarchy", reflexive=False, exhaustion=False, suffixes=False)

#: Events of a stream whose processing is timed: one of the published length is over in a tenth of a second.
_TIMED_EVENTS = 4_000_000

#: Engines: without constraints, with those the publication lists, with all the workflow gives.
ENGINES = ("R", "C", "C+")


#: Savings that are known: two experiments may look at the same runs.
_KNOWN: dict[tuple[EventPattern, OrderTraffic], dict[str, Saving]] = {}


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What one run did.

    Attributes
    ----------
    matches, identity
        How many, and a number made of which.
    peak
        Most events kept at the end of a batch, once the first orders have ended.
    peak_bytes
        Most bytes of all arrays the search holds then, its tables about traces among them; 0 where they were not looked at.
    seconds
        Processor time.
    """

    matches: int
    identity: int
    peak: int
    peak_bytes: int
    seconds: float


def rules_of(query: EventQuery, engine: str) -> tuple[ConstraintSet | None, ConditionOptions | None]:
    """Constraints of an engine, and how they are used."""
    if engine == "R":
        return None, None
    if engine == "C":
        return ConstraintSet(("order_id",), TYPES, _PUBLISHED[query.pattern]), PUBLISHED
    return order_fulfilment().constraints(), None


@lru_cache(maxsize=1)
def _stream(traffic: OrderTraffic, rows: int) -> list[Batch]:
    return order_batches(traffic, rows)


def play(query: EventQuery, traffic: OrderTraffic, engine: str, rows: int, is_timed: bool = False) -> EngineRun:
    """Run a query over the stream in batches of some rows; what is timed is not looked at in between."""
    rules, options = rules_of(query, engine)
    search = PatternMatch(query, SCHEMA, constraints=rules, options=options)
    batches = _stream(traffic, rows)
    matches, identity, peak, peak_bytes, warm = 0, 0, 0, 0, EVENTS_PER_ORDER * traffic.side_by_side
    began = time.process_time()
    for batch in batches:
        search.on_batch(0, batch)
        for element in search.on_metadata(0, Heartbeat(int(batch.ts[-1]) + 1)):
            if isinstance(element, Batch):
                matches += element.num_rows
                identity += int(int64s(element.column(MATCH_ID)).astype(np.uint64).sum() % 2**53)
        if batch.ts[0] >= warm and not is_timed:
            peak, peak_bytes = max(peak, search.counters()["kept_events"]), max(peak_bytes, held_bytes(search))
    spent = time.process_time() - began
    return EngineRun(matches, identity % 2**53, peak, peak_bytes, spent)


def probes(query: EventQuery, traffic: OrderTraffic, engine: str) -> int:
    """Leaves that events are offered to in an engine that takes them one at a time; all orders go on side by side here.

    An event is offered to every leaf whose predecessors have events, unless its order was given up or its branch was.
    """
    rules, options = rules_of(query, engine)
    known = rules or ConstraintSet(("order_id",), TYPES, ())
    conditions = registered(query, known, options or PUBLISHED).conditions
    kinds, prices, lengths = order_events(traffic)
    codes = np.array([conditions.theory.code[name] for name in TYPES])[kinds]
    passes = prices > LIMIT
    tests = {str(condition).split(".")[0] for condition in query.conditions}
    seen, matched, failed = (np.zeros(len(kinds), np.int64) for _ in range(3))
    matched[:], failed[:] = conditions.graph.completed(0), conditions.failed_at_start
    total = 0
    for place in range(EVENTS_PER_ORDER):
        is_live = (place < lengths) & (failed & 1 == 0)
        kind, gained = codes[:, place], np.zeros(len(kinds), np.int64)
        for leaf, name in enumerate(conditions.graph.types):
            holder = next(p for p, part in enumerate(conditions.graph.partitions) if part.leaves >> leaf & 1)
            enabled = is_live & (conditions.graph.before[leaf] & ~matched == 0) & (failed >> holder & 1 == 0)
            total += int(np.count_nonzero(enabled))
            fits = enabled & (kind == conditions.theory.code[name]) & (passes[:, place] | (name not in tests))
            gained |= np.where(fits, 1 << leaf, 0)
        matched = _mapped(matched | gained, conditions.graph.completed)
        seen |= 1 << kind
        failed = np.where(
            is_live, _mapped(failed | _failing(conditions, kind, seen, matched), lambda f: _settled(conditions, f)), failed
        )
    return total


def _failing(conditions: FailingConditions, kind: Int64s, seen: Int64s, matched: Int64s) -> Int64s:
    failed = np.array(conditions.plus)[kind]
    for partition in range(len(conditions.graph.partitions)):
        minus, local = (np.array([row[partition] for row in table])[kind] for table in (conditions.minus, conditions.local))
        failed |= np.where((minus & ~seen != 0) | (local & ~matched != 0), 1 << partition, 0)
    return failed


def _settled(conditions: FailingConditions, failed: int) -> int:
    return conditions.settled(failed, (1 << len(conditions.terms)) - 1)[0]


def _mapped(values: Int64s, function: Callable[[int], int]) -> Int64s:
    """The function of each value; there are few different ones."""
    found, place = np.unique(values, return_inverse=True)
    return np.array([function(int(value)) for value in found], np.int64)[place]


@dataclass(frozen=True, slots=True)
class Saving:
    """Shares saved against the engine without constraints, and whether the matches are the same.

    Attributes
    ----------
    memory, bytes, probes
        Of the events kept, of the bytes of all arrays (negative: more is needed), of the leaves that events are offered to.
    megabytes
        All arrays of the engine, and of the one without constraints.
    """

    memory: float
    bytes: float
    probes: float
    is_same: bool
    megabytes: tuple[float, float]


def savings(query: EventQuery, traffic: OrderTraffic) -> dict[str, Saving]:
    """What each engine with constraints saves on one stream; a batch has one event of an order on average."""
    if (query.pattern, traffic) not in _KNOWN:
        _KNOWN[query.pattern, traffic] = _savings(query, traffic)
    return _KNOWN[query.pattern, traffic]


def _savings(query: EventQuery, traffic: OrderTraffic) -> dict[str, Saving]:
    plain = play(query, traffic, "R", traffic.side_by_side)
    found = {}
    for engine in ENGINES[1:]:
        run = play(query, traffic, engine, traffic.side_by_side)
        same = (run.matches, run.identity) == (plain.matches, plain.identity)
        offered = [probes(query, traffic, each) for each in (engine, "R")]
        sizes = run.peak_bytes / 1e6, plain.peak_bytes / 1e6
        found[engine] = Saving(1 - run.peak / plain.peak, 1 - sizes[0] / sizes[1], 1 - offered[0] / offered[1], same, sizes)
    return found


def times_of(query: EventQuery, traffic: OrderTraffic, settings: Settings) -> dict[str, list[float]]:
    """Processor time of each engine in large batches: several turns of all engines, after one that compiles."""
    long = replace(traffic, events=int(settings.timed(_TIMED_EVENTS)))
    runs: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for _ in range(settings.repetitions + 1):
        for engine in ENGINES:
            runs[engine].append(play(query, long, engine, 20_000, is_timed=True).seconds)
    return {engine: found[1:] for engine, found in runs.items()}


def scaled(traffic: OrderTraffic, settings: Settings, seed: int = 1) -> OrderTraffic:
    """A stream of the experiments: a quarter of the published length, because several are run; shorter in quick runs."""
    if settings.is_quick:
        return replace(traffic, events=36_000, side_by_side=600, seed=seed)
    return replace(traffic, events=traffic.events // 4, seed=seed)
