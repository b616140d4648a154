"""What the queries have to do with it: how much they share, how much their weights differ. E-TS-5 and 6."""

from __future__ import annotations

import numpy as np

from penstock.experiments.contracts import Drawing, ReproductionOutcome, Settings
from penstock.experiments.measures import is_increasing
from penstock.experiments.tuple_scheduling.setup import (
    LABELS,
    PAIRS,
    STATEMENTS,
    Scores,
    lines,
    means,
    shown,
    standard,
    sweep,
)

_LOAD = 1.4
#: Queries and operators; the more queries for an operator, the more is shared.
_SHARING = ((20, 48), (22, 44), (24, 40), (26, 36), (28, 32))
#: How far weights are spread around 5.5, in parts of 1 to 10.
_SPREADS = (0.0, 0.33, 0.67, 1.0)


def leads(found: Scores) -> list[float]:
    """By how much strategies that look at all an arrival sets going are ahead of the others, at each point."""
    gains = [np.array(means(found[better])) - np.array(means(found[plain])) for plain, better in PAIRS]
    result: list[float] = np.mean(gains, axis=0).tolist()
    return result


def are_ahead(found: Scores) -> list[bool]:
    """Of each pair: whether it is so at every point."""
    return [
        all(mine >= theirs for mine, theirs in zip(means(found[better]), means(found[plain]), strict=True))
        for plain, better in PAIRS
    ]


def sharing(settings: Settings) -> ReproductionOutcome:
    """E-TS-5: the more is shared, the more it matters to see all that an arrival sets going."""
    found = sweep(
        [standard(settings, queries=queries, operators=operators, load=_LOAD) for queries, operators in _SHARING], settings
    )
    lead = leads(found)
    claims = (
        STATEMENTS["E-TS-5a"].judged(
            "E-TS-5a", all(are_ahead(found)), f"ahead by {shown(lead)} on average", lead=lead
        ),
        STATEMENTS["E-TS-5b"].judged("E-TS-5b", is_increasing(lead), f"{shown(lead)} from 20/48 to 28/32", lead=lead),
    )  # fmt: skip
    x = [queries / operators for queries, operators in _SHARING]
    panel = lines(found, x, "queries per operator")
    return ReproductionOutcome(claims, Drawing("Shared operators", (panel,)))


def weights(settings: Settings) -> ReproductionOutcome:
    """E-TS-6: weights that differ."""
    found = sweep([standard(settings, spread=spread, load=_LOAD) for spread in _SPREADS], settings)
    deadlines = [means(found[name]) for name in ("basic_deadline", "deadline")]
    equal = {name: means(found[name])[0] for name in LABELS}
    best = max(equal, key=lambda name: equal[name])
    claims = (
        STATEMENTS["E-TS-6a"].judged(
            "E-TS-6a", all(row[-1] > row[0] for row in deadlines),
            f"Basic+DD {shown(deadlines[0])}; OptProfit+DD {shown(deadlines[1])}", basic=deadlines[0], fragments=deadlines[1],
        ),
        STATEMENTS["E-TS-6b"].judged(
            "E-TS-6b", max(equal["basic_deadline"], equal["deadline"]) < min(equal[name] for name in ("profit", "profit_deadline")),
            f"{', '.join(f'{LABELS[name]} {score:.3f}' for name, score in equal.items())}; best is {LABELS[best]}",
            equal=list(equal.values()),
        ),
    )  # fmt: skip
    panel = lines(found, [4.5 * spread for spread in _SPREADS], "weights: 5.5 and up to so much more or less")
    return ReproductionOutcome(claims, Drawing("Weights of queries", (panel,)))
