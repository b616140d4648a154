"""How much better must what would be late be than what runs? E-TS-1 and 2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.experiments.contracts import Drawing, Floats, Panel, ReproductionOutcome, Series, Settings
from penstock.experiments.measures import spread_of
from penstock.experiments.tuple_scheduling.setup import LABELS, STATEMENTS, Task, means, outcomes, shown, standard

#: Thresholds that are tried, with deadlines first and with profit first; published are 1.3 and 0.65.
_PATIENT, _GREEDY = (1.0, 1.3, 2.0, 3.0, 4.5, 6.0), (0.1, 0.4, 0.6, 0.65, 0.75, 0.9, 1.0, 1.5)
_LOAD = 1.4


def _scores(names: Sequence[str], thresholds: Sequence[float], settings: Settings) -> dict[str, Floats]:
    setup = standard(settings, load=_LOAD)
    tasks = [Task(setup, name, parameters={"threshold": value}) for name in names for value in thresholds]
    found = [[each.score for each in row] for row in outcomes(tasks, settings)]
    return dict(zip(names, np.array(found).reshape(len(names), len(thresholds), -1), strict=True))


def _drawing(title: str, found: dict[str, Floats], thresholds: Sequence[float]) -> Drawing:
    series = tuple(Series(LABELS[name], thresholds, *spread_of(scores.T)) for name, scores in found.items())
    return Drawing(title, (Panel("threshold u", "score", series),))


def _listed(found: dict[str, Floats]) -> str:
    return "; ".join(f"{LABELS[name]} {shown(means(scores))}" for name, scores in found.items())


def patient(settings: Settings) -> ReproductionOutcome:
    """E-TS-1: with deadlines first."""
    found = _scores(("basic_deadline", "deadline"), _PATIENT, settings)
    rows = [means(scores) for scores in found.values()]
    chosen = [row[_PATIENT.index(1.3)] for row in rows]
    band = [[score for value, score in zip(_PATIENT, row, strict=True) if 1.2 <= value <= 3.0] for row in rows]
    claims = (
        STATEMENTS["E-TS-1a"].judged(
            "E-TS-1a", all(mine >= max(row) - 0.02 for mine, row in zip(chosen, rows, strict=True)),
            f"{shown(chosen)}, best {shown([max(row) for row in rows])}", basic=rows[0], fragments=rows[1],
        ),
        STATEMENTS["E-TS-1b"].judged(
            "E-TS-1b", all(max(part) - min(part) <= 0.03 for part in band), _listed(found),
            width=[max(part) - min(part) for part in band],
        ),
    )  # fmt: skip
    return ReproductionOutcome(claims, _drawing("Threshold with deadlines first", found, _PATIENT))


def greedy(settings: Settings) -> ReproductionOutcome:
    """E-TS-2: with profit first."""
    found = _scores(("basic_profit_deadline", "profit_deadline"), _GREEDY, settings)
    rows = [means(scores) for scores in found.values()]
    chosen = [row[_GREEDY.index(0.65)] for row in rows]
    band = [max(score for value, score in zip(_GREEDY, row, strict=True) if 0.6 <= value <= 0.9) for row in rows]
    above = [max(score for value, score in zip(_GREEDY, row, strict=True) if value >= 1.0) for row in rows]
    claims = (
        STATEMENTS["E-TS-2a"].judged(
            "E-TS-2a", all(mine >= best - 0.03 for mine, best in zip(chosen, band, strict=True)), _listed(found),
            basic=rows[0], fragments=rows[1],
        ),
        STATEMENTS["E-TS-2b"].judged(
            "E-TS-2b", all(other <= mine for mine, other in zip(chosen, above, strict=True)),
            f"{shown(above)} at best, {shown(chosen)} at 0.65", above=above, chosen=chosen,
        ),
    )  # fmt: skip
    return ReproductionOutcome(claims, _drawing("Threshold with profit first", found, _GREEDY))
