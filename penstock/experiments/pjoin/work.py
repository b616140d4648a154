"""How much PJoin works, and how fast it answers: E-PJ-3, 5, 7, 8 and 10.

Work is what grows with the state: tuples compared by probes and tuples scanned by purges.
"""

from __future__ import annotations

import numpy as np

from penstock.experiments.contracts import Claim, Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.joins.items import Trace
from penstock.experiments.joins.xjoin_pjoin.config import Access, PJoinConfig
from penstock.experiments.joins.xjoin_pjoin.registry import PAIRED
from penstock.experiments.measures import counted, growth, in_seconds, linear_fit, listed, rate_between
from penstock.experiments.pjoin.setup import (
    EVERY,
    SECONDS,
    STATEMENTS,
    Streams,
    average,
    pjoin,
    play,
    play_seeds,
    total_work,
    work,
    xjoin,
)
from penstock.experiments.pjoin.timing import compared, is_ahead, limited_by_processor
from penstock.model.batch import Int64s
from penstock.workloads.itemised import PUNCTUATION, Items

_TIME = "time (s)"


def steady_output(settings: Settings) -> ReproductionOutcome:
    """E-PJ-3: comparisons and output over time, 30 tuples per punctuation."""
    ours, theirs = (play_seeds(config, 30, 30, settings) for config in (pjoin(1), xjoin()))
    comparisons = tuple(
        Series(label, in_seconds(traces[0].sampled_at), growth(traces[0].samples["probe_comparisons"]) / EVERY)
        for label, traces in (("PJoin-1", ours), ("XJoin", theirs))
    )
    limited, panel = limited_by_processor(settings)
    claims = (_pace("E-PJ-3a", ours, at_most=1.5), _pace("E-PJ-3b", theirs, at_least=4.0), _same_work(ours, theirs), limited)
    panels = (Panel(_TIME, "comparisons per second", comparisons), panel)
    return ReproductionOutcome(claims, Drawing("PJoin-1 and XJoin, 30 tuples per punctuation", panels))


def _pace(id: str, traces: list[Trace], at_most: float = np.inf, at_least: float = 0.0) -> Claim:
    """Compare the last quarter of the stream with the first."""
    quarter = float(in_seconds(traces[0].sampled_at)[-1]) / 4
    early, late = (
        average(rate_between(trace.sampled_at, trace.samples["probe_comparisons"], *span) for trace in traces)
        for span in ((0.0, quarter), (3 * quarter, 4 * quarter))
    )
    held = at_least <= late / early <= at_most
    measured = f"{counted(early)} per second early, {counted(late)} late: {late / early:.2f} times"
    return STATEMENTS[id].judged(id, held, measured, early=early, late=late)


def _same_work(ours: list[Trace], theirs: list[Trace]) -> Claim:
    """Work instead of time: what a processor that only compares and scans would show."""
    pairs = [
        compared(work(mine).tolist(), work(other).tolist(), mine.samples["results"].tolist())[1]
        for mine, other in zip(ours, theirs, strict=True)
    ]
    final = [average(curves[at][-1] for curves in pairs) for at in (0, 1)]
    return STATEMENTS["E-PJ-3c"].judged(
        "E-PJ-3c",
        all(is_ahead(curves) for curves in pairs),
        f"{counted(final[0])} against {counted(final[1])} results for the work PJoin-1 needs",
        pjoin_results=final[0],
        xjoin_results=final[1],
    )


def purge_thresholds(settings: Settings) -> ReproductionOutcome:
    """E-PJ-5: work for purge thresholds 1 to 800, by scans and by index."""
    thresholds = (1, 10, 100, 400, 800)
    scan, index = (
        [_mean_work(pjoin(threshold, access), 10, 10, settings) for threshold in thresholds]
        for access in (Access.SCAN, Access.INDEX)
    )
    other = _mean_work(xjoin(), 10, 10, settings)
    least = thresholds[int(np.argmin(scan))]
    is_u_shaped = least in (10, 100) and scan[0] > min(scan) and scan[2] < scan[3] < scan[4]
    claims = (
        STATEMENTS["E-PJ-5a"].judged(
            "E-PJ-5a", is_u_shaped, f"{listed(scan)}; XJoin {counted(other)}", work=scan, xjoin_work=other
        ),
        STATEMENTS["E-PJ-5b"].judged("E-PJ-5b", least == 100, f"least at {least}", least_at=least),
        STATEMENTS["E-PJ-5c"].judged("E-PJ-5c", index[0] <= 1.01 * min(index), listed(index), work=index),
    )
    places = range(len(thresholds))
    bars = (Series("purge by scan", places, scan), Series("purge by index", places, index))
    ticks = tuple(map(str, thresholds))
    panel = Panel(
        "purge threshold (punctuations)", "tuples compared and scanned", bars, "bars", ticks, title=f"XJoin: {counted(other)}"
    )
    return ReproductionOutcome(claims, Drawing("Work by purge threshold, 10 tuples per punctuation", (panel,)))


def _mean_work(config: PJoinConfig, tuples_a: int, tuples_b: int, settings: Settings) -> float:
    return average(total_work(trace) for trace in play_seeds(config, tuples_a, tuples_b, settings))


def fewer_punctuations(settings: Settings) -> ReproductionOutcome:
    """E-PJ-7: B closes a value every 20 or every 40 tuples."""
    sizes = (20, 40)
    runs = {size: play_seeds(pjoin(1), 10, size, settings) for size in sizes}
    scans = [average(trace.totals["purge_scanned"] for trace in runs[size]) for size in sizes]
    total = [average(total_work(trace) for trace in runs[size]) for size in sizes]
    claim = STATEMENTS["E-PJ-7"].judged(
        "E-PJ-7",
        scans[0] > scans[1] and total[0] > total[1],
        f"scanned {listed(scans)}, work {listed(total)}",
        purge_scanned=scans,
        work=total,
    )
    probes = [both - scanned for both, scanned in zip(total, scans, strict=True)]
    bars = (Series("scanned by purges", range(2), scans), Series("compared by probes", range(2), probes))
    panel = Panel("tuples per punctuation of B", "tuples", bars, "bars", tuple(map(str, sizes)))
    lines = tuple(
        Series(f"B {size} tuples per punctuation", in_seconds(runs[size][0].sampled_at), work(runs[size][0])) for size in sizes
    )
    over_time = Panel(_TIME, "tuples compared and scanned", lines)
    return ReproductionOutcome((claim,), Drawing("Work of PJoin-1, A 10 tuples per punctuation", (panel, over_time)))


def asymmetric_work(settings: Settings) -> ReproductionOutcome:
    """E-PJ-8: eager, lazy and no purge with asymmetric streams."""
    access = (Access.SCAN, Access.INDEX)
    eager, lazy = ([_mean_work(pjoin(n, way), 10, 20, settings) for way in access] for n in (1, 100))
    other = _mean_work(xjoin(), 10, 20, settings)
    claims = (
        STATEMENTS["E-PJ-8a"].judged(
            "E-PJ-8a",
            eager[0] > other > lazy[0],
            f"PJoin-1 {counted(eager[0])}, XJoin {counted(other)}, PJoin-100 {counted(lazy[0])}",
            pjoin_1=eager[0],
            xjoin=other,
            pjoin_100=lazy[0],
        ),
        STATEMENTS["E-PJ-8b"].judged(
            "E-PJ-8b",
            eager[1] < other,
            f"PJoin-1 {counted(eager[1])}, PJoin-100 {counted(lazy[1])}, XJoin {counted(other)}",
            pjoin_1=eager[1],
            pjoin_100=lazy[1],
            xjoin=other,
        ),
    )
    bars = (
        Series("purge by scan", range(3), [eager[0], lazy[0], other]),
        Series("purge by index", range(3), [eager[1], lazy[1], other]),
    )
    panel = Panel("join", "tuples compared and scanned", bars, "bars", ("PJoin-1", "PJoin-100", "XJoin (no purge)"))
    return ReproductionOutcome(claims, Drawing("Work with A 10 and B 20 tuples per punctuation", (panel,)))


def paired_propagation(settings: Settings) -> ReproductionOutcome:
    """E-PJ-10: punctuations leave as soon as both streams have announced them."""
    config = PJoinConfig.published(1, registry=PAIRED.with_spilled_state())
    streams = [Streams(40, 40, seed, settings.seconds(SECONDS)) for seed in settings.seed_numbers()]
    runs = [(play(config, stream), stream.items()) for stream in streams]
    fits = [linear_fit(in_seconds(trace.sampled_at), _punctuations(trace).astype(np.float64)) for trace, _ in runs]
    pairs = [(trace.totals["propagated"], _least_punctuations(items)) for trace, items in runs]
    claims = (
        STATEMENTS["E-PJ-10a"].judged("E-PJ-10a", min(fits) > 0.99, f"R² {min(fits):.4f} or more", r_squared=fits),
        STATEMENTS["E-PJ-10b"].judged(
            "E-PJ-10b",
            all(left == arrived for left, arrived in pairs),
            ", ".join(f"{left} of {arrived}" for left, arrived in pairs),
            propagated=[left for left, _ in pairs],
            announced=[arrived for _, arrived in pairs],
        ),
    )
    trace, items = runs[0]
    at = in_seconds(trace.sampled_at)
    lines = (
        Series("arrived on both inputs", at, _arrived(items, trace.sampled_at)),
        Series("left the join", at, _punctuations(trace)),
    )
    panel = Panel(_TIME, "punctuations", lines, "steps")
    return ReproductionOutcome(claims, Drawing("Paired propagation, 40 tuples per punctuation", (panel,)))


def _punctuations(trace: Trace) -> Int64s:
    return trace.samples["propagated"]


def _least_punctuations(items: Items) -> int:
    return min(items.of_stream(at).punctuations for at in (0, 1))


def _arrived(items: Items, times_us: Int64s) -> Int64s:
    """Punctuations that both streams have announced by each time: they come in the same order on both."""
    marks = items.take(items.kinds == PUNCTUATION)
    counts = [np.searchsorted(marks.of_stream(at).times_us, times_us, side="right") for at in (0, 1)]
    least: Int64s = np.minimum(*counts)
    return least
