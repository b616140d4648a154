"""Who keeps queues short, and what a threshold is worth: E-SC-3 and 5."""

from __future__ import annotations

from penstock.experiments.contracts import Drawing, ReproductionOutcome, Settings
from penstock.experiments.measures import listed, ranged
from penstock.experiments.scheduling.setup import (
    COMPARED,
    DECISION_MS,
    SHOWN,
    STATEMENTS,
    UPPER,
    bars,
    free,
    over_time,
    priced,
    published,
    ratio,
    setup_named,
    values,
)

_MB = 1e6


def memory(settings: Settings) -> ReproductionOutcome:
    """E-SC-3: how long queues get."""
    sets = (free(settings), priced(settings), published(settings))
    costless, paths, queries = sets
    against_chain = [ratio(found, "peak", "segment", "chain") for found in sets]
    simplified = [ratio(found, "peak", "simple_segment", "segment") for found in sets]
    capacity = [ratio(found, "peak", "path_capacity", "segment") for found in sets]
    limits = [
        mine / (UPPER * optimal)
        for found in sets
        for mine, optimal in zip(values(found["threshold"], "peak"), values(found["segment"], "peak"), strict=True)
    ]
    claims = (
        STATEMENTS["E-SC-3a"].judged(
            "E-SC-3a", against_chain[0] <= 1.05 and against_chain[1] <= 1.0,
            f"{listed(against_chain[:2])} times", ratio=against_chain[:2],
        ),
        STATEMENTS["E-SC-3b"].judged(
            "E-SC-3b", max(simplified[:2]) <= 1.2, f"{listed(simplified[:2])} times", ratio=simplified[:2]
        ),
        STATEMENTS["E-SC-3c"].judged("E-SC-3c", min(capacity[:2]) >= 1.5, f"{listed(capacity[:2])} times", ratio=capacity[:2]),
        STATEMENTS["E-SC-3d"].judged("E-SC-3d", max(limits) <= 1.1, f"{ranged(limits)} of the threshold", ratio=max(limits)),
        STATEMENTS["E-SC-3e"].judged(
            "E-SC-3e", against_chain[2] <= 1.0 and simplified[2] <= 1.2,
            f"MOS {against_chain[2]:.2f} times Chain, SS {simplified[2]:.2f} times MOS", ratio=[against_chain[2], simplified[2]],
        ),
        STATEMENTS["E-SC-3f"].judged("E-SC-3f", capacity[2] >= 1.5, f"{capacity[2]:.2f} times", ratio=capacity[2]),
    )  # fmt: skip
    setup = setup_named("published", settings)
    titles = ("decisions cost nothing", f"{DECISION_MS} ms each")
    panels = (
        bars(dict(zip(titles, (costless, paths), strict=True)), "peak", SHOWN, "most memory, 8 paths (MB)", _MB),
        bars({titles[1]: queries}, "peak", SHOWN, "most memory, 16 queries (MB)", _MB),
        over_time(queries, setup, "memory", COMPARED, "memory, 16 queries (MB)", _MB),
    )
    return ReproductionOutcome(claims, Drawing("Memory of queues under waves of load", panels))


def threshold(settings: Settings) -> ReproductionOutcome:
    """E-SC-5: paths while there is memory, segments while there is not."""
    found = free(settings)
    names = ("segment", "threshold", "path_capacity")
    between = [low <= mine <= high for low, mine, high in zip(*(values(found[name], "peak") for name in names), strict=True)]
    peaks = [ratio(found, "peak", "threshold", other) for other in ("path_capacity", "segment")]
    latencies = [ratio(found, "per_output", "threshold", other) for other in ("path_capacity", "segment")]
    switches = values(found["threshold"], "switches")
    claims = (
        STATEMENTS["E-SC-5a"].judged(
            "E-SC-5a", all(between),
            f"on {sum(between)} of {len(between)} streams; {peaks[0]:.2f} times that of PC, {peaks[1]:.2f} times that of MOS",
            against_pc=peaks[0], against_mos=peaks[1],
        ),
        STATEMENTS["E-SC-5b"].judged(
            "E-SC-5b", latencies[0] >= 1.0 >= latencies[1],
            f"{latencies[0]:.2f} times that of PC, {latencies[1]:.2f} times that of MOS",
            against_pc=latencies[0], against_mos=latencies[1],
        ),
        STATEMENTS["E-SC-5c"].judged("E-SC-5c", max(switches) <= 22, f"{ranged(switches)} changes", switches=switches),
    )  # fmt: skip
    shown = {"8 paths": found}
    panels = (bars(shown, "peak", names, "most memory (MB)", _MB), bars(shown, "per_output", names, "latency per answer (s)"))
    return ReproductionOutcome(claims, Drawing("Threshold between its two modes", panels))
