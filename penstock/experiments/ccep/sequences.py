"""Queries that fail early, late, by one branch or by all: E-CC-1 to 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.experiments.ccep.engines import Q1, Q2, Q3, STATEMENTS, Saving, savings, scaled, times_of
from penstock.experiments.ccep.orders import OrderTraffic
from penstock.experiments.contracts import Claim, Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import is_increasing, middle, spread_of
from penstock.expressions.event_queries import EventQuery

#: By fail ratio and stream what each engine saves.
Savings = Mapping[float, Sequence[Mapping[str, Saving]]]
#: Processor time of each engine, turn by turn, by fail ratio.
Times = Mapping[float, Mapping[str, list[float]]]

_RATIO, _SAVED = "share of orders that fail (%)", "saved against no constraints (%)"
_STOCK_FAILS = "share of orders that fail by their stock (%)"
_MEASURES = {"memory": "events kept", "probes": "probes"}
_NAMES = {"R": "no constraints", "C": "listed constraints", "C+": "all of the workflow"}


def ratios(settings: Settings) -> tuple[float, ...]:
    """Fail ratios that are run."""
    return (0.0, 0.5, 0.9) if settings.is_quick else (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def over_ratios(query: EventQuery, traffic: Callable[[float], OrderTraffic], settings: Settings) -> Savings:
    """Savings at every fail ratio, on every stream."""
    return {ratio: on_streams(query, traffic(ratio), settings) for ratio in ratios(settings)}


def on_streams(query: EventQuery, traffic: OrderTraffic, settings: Settings) -> list[dict[str, Saving]]:
    """Savings on independent streams alike."""
    return [savings(query, scaled(traffic, settings, seed)) for seed in settings.seed_numbers()]


def times_over_ratios(query: EventQuery, traffic: Callable[[float], OrderTraffic], settings: Settings) -> Times:
    """Processor time at every fail ratio."""
    return {ratio: times_of(query, traffic(ratio), settings) for ratio in ratios(settings)}


def failing_early(ratio: float) -> OrderTraffic:
    """Orders fail at once, when goods are taken from local stock."""
    return OrderTraffic(remote=1 - ratio)


def failing_late(ratio: float) -> OrderTraffic:
    """Orders fail by the price of their invoice."""
    return OrderTraffic(invoices_missing=ratio)


def one_branch(ratio: float) -> OrderTraffic:
    """Half of the orders have no high quote; the share from local stock varies."""
    return OrderTraffic(remote=1 - ratio, quotes_missing=0.5)


def other_branch(ratio: float) -> OrderTraffic:
    """Half of the orders are served locally; the share without a high quote varies."""
    return OrderTraffic(remote=0.5, quotes_missing=ratio)


def percent(values: Sequence[float]) -> str:
    return " / ".join(f"{100 * value:.0f}" for value in values) + " %"


def mean(streams: Sequence[Mapping[str, Saving]], engine: str, measure: str) -> float:
    return float(np.mean([getattr(each[engine], measure) for each in streams]))


def curve(found: Savings, engine: str, measure: str) -> list[float]:
    return [mean(streams, engine, measure) for streams in found.values()]


def apart(found: Savings, engine: str, measure: str) -> float:
    """How far streams lie apart at most, in points."""
    values = [[getattr(each[engine], measure) for each in streams] for streams in found.values()]
    return 100 * max(float(max(each) - min(each)) for each in values)


def _same(id: str, found: Savings) -> Claim:
    runs = [saving for streams in found.values() for each in streams for saving in each.values()]
    same = sum(saving.is_same for saving in runs)
    return STATEMENTS[id].judged(id, same == len(runs), f"equal in {same} of {len(runs)} runs", equal=same, runs=len(runs))


def _panel(found: Savings, title: str = "", engines: Sequence[str] = ("C", "C+"), ratio: str = _RATIO) -> Panel:
    x = [100 * ratio for ratio in found]
    lines = [
        Series(f"{_MEASURES[measure]}, {_NAMES[engine]}", x, *_by_stream(found, engine, measure))
        for measure in _MEASURES
        for engine in engines
    ]
    return Panel(ratio, _SAVED, tuple(lines), "markers", title=title)


def _by_stream(found: Savings, engine: str, measure: str) -> tuple[list[float], tuple[list[float], list[float]]]:
    values = [[100 * getattr(each[engine], measure) for each in streams] for streams in found.values()]
    return spread_of(np.array(values).T.tolist())


def _bytes_panel(found: Savings, ratio: str = _RATIO) -> Panel:
    """All arrays of each engine."""
    x = [100 * ratio for ratio in found]

    def sizes(engine: str) -> list[list[float]]:
        """By stream and fail ratio; each engine with constraints also knows what the one without needed."""
        place = int(engine == "R")
        return [
            [streams[at]["C" if place else engine].megabytes[place] for streams in found.values()] for at in range(len(found[0.0]))
        ]

    lines = [Series(name, x, *spread_of(sizes(engine))) for engine, name in _NAMES.items()]
    return Panel(ratio, "bytes of all arrays (MB)", tuple(lines), "markers", title="all memory")


def _time_panel(spent: Times, ratio: str = _RATIO) -> Panel:
    x = [100 * ratio for ratio in spent]
    turns = {engine: [each[engine] for each in spent.values()] for engine in _NAMES}
    lines = [
        Series(name, x, np.median(turns[engine], axis=1).tolist(), (list(map(min, turns[engine])), list(map(max, turns[engine]))))
        for engine, name in _NAMES.items()
    ]
    return Panel(ratio, "processor time of all events (s)", tuple(lines), "markers", title="time")


def _against_plain(over: float) -> str:
    """
    Examples
    --------
    >>> _against_plain(0.75), _against_plain(1.21)
    ('25 % less', '21 % more')
    """
    return f"{abs(1 - over):.0%} {'less' if over <= 1 else 'more'}".replace("%", " %")


def _goal(id: str, spent: Mapping[str, list[float]], goal: float) -> Claim:
    """A goal for time: so much less than without constraints, by the median of turns."""
    turns = {name: [mine / plain for mine, plain in zip(spent[name], spent["R"], strict=True)] for name in ("C", "C+")}
    over = {name: float(np.median(found)) for name, found in turns.items()}
    measured = (
        f"{_against_plain(over['C'])} with the listed constraints, {_against_plain(over['C+'])} with all; "
        f"turn by turn {middle(turns['C'])} and {middle(turns['C+'])} times the time without"
    )
    held = min(over.values()) <= 1 - goal
    return STATEMENTS[id].judged(id, held, measured, time_c=over["C"], time_all=over["C+"])


def sequence_failing_early(settings: Settings) -> ReproductionOutcome:
    """E-CC-1: the sequence query, goods from local stock."""
    found, spent = over_ratios(Q1, failing_early, settings), times_over_ratios(Q1, failing_early, settings)
    memory, probes = curve(found, "C", "memory"), curve(found, "C", "probes")
    claims = (
        _same("E-CC-1a", found),
        STATEMENTS["E-CC-1b"].judged(
            "E-CC-1b",
            is_increasing(memory) and is_increasing(probes) and mean(found[0.9], "C", "memory") >= 0.55,
            f"events kept {percent(memory)}, probes {percent(probes)}; {_apart_text(found, 'C')}",
            memory=memory,
            probes=probes,
        ),
        STATEMENTS["E-CC-1c"].judged("E-CC-1c", memory[0] == 0, percent(memory[:1]), memory=memory[:1]),
        _goal("E-CC-1d", spent[0.9], 0.25),
        _goal("E-CC-1e", spent[0.0], -0.05),
        _all_bytes("E-CC-1f", found),
    )
    return ReproductionOutcome(
        claims,
        Drawing(
            "Sequence query, orders that fail early",
            (_panel(found, "events kept and probes"), _bytes_panel(found), _time_panel(spent)),
        ),
    )


def _apart_text(found: Savings, *engines: str) -> str:
    points = max(apart(found, engine, "memory") for engine in engines)
    return f"streams lie at most {points:.1f} points apart"


def _all_bytes(id: str, found: Savings) -> Claim:
    """Bytes of everything the search holds at a fail ratio of 90 %."""
    saved = {engine: mean(found[0.9], engine, "bytes") for engine in ("C", "C+")}
    sizes = {engine: np.mean([each[engine].megabytes for each in found[0.9]], axis=0) for engine in saved}
    measured = (
        f"{sizes['C'][0]:.2f} MB with the listed constraints and {sizes['C+'][0]:.2f} MB with all, {sizes['C'][1]:.2f} MB without"
    )
    return STATEMENTS[id].judged(id, min(saved.values()) > 0, measured, listed=saved["C"], every=saved["C+"])


def sequence_failing_late(settings: Settings) -> ReproductionOutcome:
    """E-CC-2: the sequence query, invoices below the limit."""
    late, early = over_ratios(Q1, failing_late, settings), over_ratios(Q1, failing_early, settings)
    high = [ratio for ratio in ratios(settings) if ratio >= 0.7]
    less = all(
        mean(late[ratio], "C", measure) < mean(early[ratio], "C", measure) for ratio in high for measure in ("memory", "probes")
    )
    listed, every = curve(late, "C", "memory"), curve(late, "C+", "memory")
    claims = (
        _same("E-CC-2a", late),
        STATEMENTS["E-CC-2b"].judged(
            "E-CC-2b",
            less and mean(late[0.9], "C", "memory") >= 0.45,
            f"events kept {percent(listed)}; {_apart_text(late, 'C')}",
            memory=listed,
        ),
        STATEMENTS["E-CC-2c"].judged(
            "E-CC-2c",
            all(more >= less for less, more in zip(listed, every, strict=True)) and mean(late[0.9], "C+", "memory") >= 0.6,
            f"events kept {percent(every)}; {_apart_text(late, 'C+')}",
            memory=every,
        ),
    )
    return ReproductionOutcome(claims, Drawing("Sequence query, orders that fail late", (_panel(late),)))


def conjunction_early_branch(settings: Settings) -> ReproductionOutcome:
    """E-CC-3: the AND query, local stock varies."""
    found, spent = over_ratios(Q2, one_branch, settings), times_over_ratios(Q2, one_branch, settings)
    single = mean(on_streams(Q1, failing_early(0.9), settings), "C", "memory")
    memory = curve(found, "C", "memory")
    best = mean(found[0.9], "C", "memory")
    claims = (
        _same("E-CC-3a", found),
        STATEMENTS["E-CC-3b"].judged(
            "E-CC-3b",
            best > single and best >= 0.68,
            f"{percent([best])}, the sequence query {percent([single])}; {_apart_text(found, 'C')}",
            memory=memory,
        ),
        _goal("E-CC-3c", spent[0.9], 0.40),
        _all_bytes("E-CC-3d", found),
    )
    panels = (
        _panel(found, "events kept and probes", ratio=_STOCK_FAILS),
        _bytes_panel(found, _STOCK_FAILS),
        _time_panel(spent, _STOCK_FAILS),
    )
    return ReproductionOutcome(claims, Drawing("AND query, half of the orders fail by their quotes", panels))


def conjunction_late_branch(settings: Settings) -> ReproductionOutcome:
    """E-CC-4: the AND query, quotes vary."""
    late, early = over_ratios(Q2, other_branch, settings), over_ratios(Q2, one_branch, settings)
    memory = curve(late, "C", "memory")
    low = [mean(late[ratio], "C", "memory") for ratio in ratios(settings) if ratio < 0.5]
    is_flat = max(low) - min(low) <= 0.05
    high = [ratio for ratio in ratios(settings) if ratio > 0.5]
    is_lower = all(mean(late[ratio], "C", "memory") < mean(early[ratio], "C", "memory") for ratio in high)
    claims = (
        _same("E-CC-4a", late),
        STATEMENTS["E-CC-4b"].judged(
            "E-CC-4b", is_flat and is_lower, f"events kept {percent(memory)}; {_apart_text(late, 'C')}", memory=memory
        ),
    )
    panels = (
        _panel(late, "half fail by their stock", ("C",), "share of orders that fail by their quotes (%)"),
        _panel(early, "half fail by their quotes", ("C",), _STOCK_FAILS),
    )
    return ReproductionOutcome(claims, Drawing("AND query: the branch that fails first decides", panels))


def disjunction(settings: Settings) -> ReproductionOutcome:
    """E-CC-5: the OR query, both branches."""
    ends = [on_streams(Q3, _both(quotes, stock), settings) for quotes, stock in ((0.0, 0.9), (0.9, 0.0))]
    found = over_ratios(Q3, lambda ratio: _both(ratio, ratio), settings)
    memory, single = curve(found, "C", "memory"), [mean(streams, "C", "memory") for streams in ends]
    diagonal = memory[1:] if memory[0] == 0 else memory
    claims = (
        _same("E-CC-5a", {**found, -1.0: ends[0], -2.0: ends[1]}),
        STATEMENTS["E-CC-5b"].judged(
            "E-CC-5b",
            max(single) <= 0.25 and mean(found[0.9], "C", "memory") >= 0.28 and is_increasing(diagonal),
            f"one branch {percent(single)}, both {percent(memory)}; {_apart_text(found, 'C')}",
            one_branch=single,
            both_branches=memory,
        ),
    )
    return ReproductionOutcome(claims, Drawing("OR query, both branches fail", (_panel(found),)))


def _both(quotes: float, stock: float) -> OrderTraffic:
    return OrderTraffic(remote=1 - stock, quotes_missing=quotes)
