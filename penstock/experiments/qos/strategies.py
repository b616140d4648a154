"""The optimiser chooses among strategies: E-QS-1 to 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.experiments.contracts import Drawing, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import listed, ranged, spread_of
from penstock.experiments.qos.setup import FIXED, LABELS, STATEMENTS, Outcome, length_s, promise, runs, settled
from penstock.model.qos import Measure, Priority, QoSSpecification

#: Promises as published: seconds of latency, bytes of queues before and behind the middle of the stream.
_RELAXED, _STRICT, _AMPLE, _SCARCE = 1.0, 0.5, 10e6, 1e6


def _memory(priority: Priority, settings: Settings) -> tuple[QoSSpecification, float]:
    """Latency that must be kept, and memory that becomes scarce in the middle of the stream, with that moment."""
    half = length_s(settings) / 2
    pieces = ((0, _AMPLE, half, _AMPLE), (half, _SCARCE, 2 * half, _SCARCE))
    latency = promise(Measure.LATENCY, Priority.MUST_SATISFY, (0, _STRICT, 1, _STRICT))
    return QoSSpecification((latency, promise(Measure.MEMORY, priority, *pieces))), half


def _latencies(found: Mapping[str, Sequence[Outcome]]) -> dict[str, list[float]]:
    return {name: [each.mean_latency for each in outcomes] for name, outcomes in found.items()}


def one_measure(settings: Settings) -> ReproductionOutcome:
    """E-QS-1: latency alone, best effort."""
    contract = QoSSpecification((promise(Measure.LATENCY, Priority.BEST_EFFORT, (0, _RELAXED, 1, _RELAXED)),))
    found = runs(contract, settings)
    latencies = _latencies(found)
    switches = [each.switches for each in found[""]]
    is_first = [
        len(mine) == 1 and mine[0][1] == "path_capacity" and mine[0][0] == _first_broken(each, _RELAXED)
        for mine, each in zip(switches, found[""], strict=True)
    ]
    after = [
        each.latency_after(settled(mine[0][0])) / other.latency_after(settled(mine[0][0]))
        for mine, each, other in zip(switches, found[""], found["path_capacity"], strict=True)
        if mine and settled(mine[0][0]) < length_s(settings)
    ]
    whole = [mine / other for mine, other in zip(latencies[""], latencies["path_capacity"], strict=True)]
    means = [float(np.mean(latencies[name])) for name in FIXED]
    claims = (
        STATEMENTS["E-QS-1a"].judged(
            "E-QS-1a", all(is_first), f"on {sum(is_first)} of {len(is_first)} streams; {ranged(list(map(len, switches)))} switches",
            switches=[len(mine) for mine in switches],
        ),
        STATEMENTS["E-QS-1b"].judged(
            "E-QS-1b", bool(after) and abs(float(np.mean(after)) - 1) <= 0.05,
            f"{ranged(after)} times that of PC" if after else "no stream goes on so long", ratio=after,
        ),
        STATEMENTS["E-QS-1c"].judged("E-QS-1c", min(whole) >= 0.98, f"{ranged(whole)} times that of PC", ratio=whole),
        STATEMENTS["E-QS-1d"].judged("E-QS-1d", means[0] < means[1] < means[2], f"{listed(means)} s", seconds=means),
    )  # fmt: skip
    return ReproductionOutcome(claims, Drawing("Latency, best effort", (_over_time(found, 0, "latency (s)"), _bars(latencies))))


def other_class(settings: Settings) -> ReproductionOutcome:
    """E-QS-2: latency that must be kept, and memory nobody cares about."""
    contract, half = _memory(Priority.DONT_CARE, settings)
    found = runs(contract, settings)
    switches = [each.switches for each in found[""]]
    kept = [[strategy for _, strategy in mine] == ["path_capacity"] for mine in switches]
    broken = [sum(value > _SCARCE for value in each.measured(1, half)) for each in found[""]]
    claims = (
        STATEMENTS["E-QS-2"].judged(
            "E-QS-2", all(kept) and min(broken) > 0,
            f"on {sum(kept)} of {len(kept)} streams; memory too large at {ranged(broken)} looks", looks=broken,
        ),
    )  # fmt: skip
    panels = (_over_time(found, 0, "latency (s)"), _over_time(found, 1, "queues (MB)", 1e6))
    return ReproductionOutcome(claims, Drawing("Latency must be kept, memory does not matter", panels))


def same_class(settings: Settings) -> ReproductionOutcome:
    """E-QS-3: latency and memory that both must be kept."""
    contract, half = _memory(Priority.MUST_SATISFY, settings)
    found = runs(contract, settings)
    before = [[strategy for at, strategy in each.switches if at < half] for each in found[""]]
    later = [[strategy for at, strategy in each.switches if at >= half] for each in found[""]]
    is_before = [mine[:1] == ["path_capacity"] for mine in before]
    is_later = [bool(mine) and mine[0] in ("segment", "simple_segment") for mine in later]
    memory = [
        float(np.mean(mine.measured(1, half)) / np.mean(other.measured(1, half)))
        for mine, other in zip(found[""], found["path_capacity"], strict=True)
    ]
    broken = {name: [sum(each.broken_s) for each in outcomes] for name, outcomes in found.items()}
    means = {name: float(np.mean(values)) for name, values in broken.items()}
    claims = (
        STATEMENTS["E-QS-3a"].judged("E-QS-3a", all(is_before), f"on {sum(is_before)} of {len(is_before)} streams"),
        STATEMENTS["E-QS-3b"].judged("E-QS-3b", all(is_later), f"on {sum(is_later)} of {len(is_later)} streams"),
        STATEMENTS["E-QS-3c"].judged(
            "E-QS-3c", float(np.mean(memory)) <= 0.8, f"{ranged(memory)} times that of PC", ratio=memory
        ),
        STATEMENTS["E-QS-3d"].judged(
            "E-QS-3d", means[""] < min(means[name] for name in FIXED),
            f"optimiser {means['']:.0f} s; {listed([means[name] for name in FIXED])} s", optimiser=means[""],
            fixed=[means[name] for name in FIXED],
        ),
    )  # fmt: skip
    panels = (
        _over_time(found, 0, "latency (s)"),
        _over_time(found, 1, "queues (MB)", 1e6),
        _bars(broken, "promises broken, both together (s)"),
    )
    return ReproductionOutcome(claims, Drawing("Latency and memory must be kept", panels))


def _first_broken(found: Outcome, bound: float) -> float:
    """The first look with a latency above the bound."""
    return next((at for at, values, _ in found.looks if values[0] > bound), np.inf)


def _over_time(found: Mapping[str, Sequence[Outcome]], at: int, label: str, scale: float = 1.0) -> Panel:
    series = []
    for name, outcomes in found.items():
        points = min(len(each.looks) for each in outcomes)
        values = np.array([each.measured(at)[:points] for each in outcomes]) / scale
        x = [moment for moment, _, _ in outcomes[0].looks[:points]]
        series.append(Series(LABELS[name], x, *spread_of(values)))
    return Panel("time (s)", label, tuple(series))


def _bars(found: Mapping[str, Sequence[float]], label: str = "mean latency (s)") -> Panel:
    rows = np.array(list(found.values())).T
    return Panel(
        "strategy", label, (Series("all", range(len(found)), *spread_of(rows)),), "bars", tuple(LABELS[name] for name in found)
    )
