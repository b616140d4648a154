"""What an experiment is: a set-up that is run, a figure, and claims that held or did not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock.model.batch import Int64s

Floats = npt.NDArray[np.float64]
Number = float | int | list[float] | list[int]

Style = Literal["lines", "steps", "bars", "markers"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much work a reproduction does.

    Parameters
    ----------
    seeds
        Independent streams that are averaged where chance matters.
    is_quick
        Shorter streams, fewer seeds and one timing: for a first look and for tests.
    """

    seeds: int = 8
    is_quick: bool = False

    @property
    def repetitions(self) -> int:
        """Timings of which the median counts."""
        return 1 if self.is_quick else 5

    def timed(self, full: float) -> float:
        """Length of streams whose processing is timed: long enough for a second of work; a quick look is not."""
        return full / 10 if self.is_quick else full

    def seconds(self, full: float) -> float:
        """Length of the streams."""
        return full / 2 if self.is_quick else full

    def seed_numbers(self) -> range:
        """The seeds of the streams."""
        return range(1, 1 + (min(self.seeds, 2) if self.is_quick else self.seeds))


class Basis(StrEnum):
    """What a claim was judged by."""

    #: Independent streams, as many as the settings ask for.
    SEEDS = "seeds"
    #: One stream: the counters are exact, another stream would give others.
    STREAM = "stream"
    #: Processor time of repeated turns over one stream.
    TIME = "time"
    #: A formula was evaluated; no stream was run.
    FORMULA = "formula"
    #: Instances drawn with fixed seeds.
    INSTANCES = "instances"

    def words(self, settings: Settings) -> str:
        streams = len(settings.seed_numbers())
        return {
            Basis.SEEDS: f"{streams} streams",
            Basis.STREAM: "1 stream",
            Basis.TIME: f"time, {settings.repetitions} turn{'s' if settings.repetitions > 1 else ''}",
            Basis.FORMULA: "a formula, no stream",
            Basis.INSTANCES: "fixed instances",
        }[self]


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement and what became of it.

    Parameters
    ----------
    id
        The experiment and, where it makes several claims, a letter.
    text
        What is claimed.
    expected
        What must be measured for it to hold.
    measured
        What was measured, in words.
    held
        Whether it did.
    numbers
        The measured values.
    basis
        What it was judged by.
    """

    id: str
    text: str
    expected: str
    measured: str
    held: bool
    numbers: Mapping[str, Number] = field(default_factory=dict)
    basis: Basis = Basis.SEEDS

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "basis": str(self.basis),
            "text": self.text,
            "expected": self.expected,
            "measured": self.measured,
            "held": self.held,
            "numbers": {name: _plain(value) for name, value in self.numbers.items()},
        }


def _plain(value: Number) -> Any:
    """Six digits are more than chance leaves, and keep files that are compared free of rounding noise."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    number = float(f"{float(value):.6g}")
    return int(number) if number.is_integer() else number


@dataclass(frozen=True, slots=True)
class Series:
    """A line, a flight of steps or a row of bars in a figure.

    Parameters
    ----------
    spread
        Least and greatest value of each point, drawn as an error bar: of `y`, or of `x` where `is_spread_in_x`.
    """

    label: str
    x: Sequence[float] | Floats | Int64s
    y: Sequence[float] | Floats | Int64s
    spread: tuple[Sequence[float], Sequence[float]] | None = None
    is_spread_in_x: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram.

    Parameters
    ----------
    x_label, y_label
        With units.
    series
        What is drawn, in the order of the legend.
    style
        How. Bars have categories: the texts in `ticks`, at 0, 1, 2, …
    log_y
        Whether the vertical axis is logarithmic.
    title
        Above the diagram, where a figure has several.
    """

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    style: Style = "lines"
    ticks: tuple[str, ...] = ()
    log_y: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure as data: drawn by `figures`, compared by tests."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class ReproductionOutcome:
    """What an experiment has shown."""

    claims: tuple[Claim, ...]
    drawing: Drawing


@dataclass(frozen=True, slots=True)
class Experiment:
    """A set-up with its claims.

    Parameters
    ----------
    id
        Such as `E-PJ-1`.
    title
        What is compared.
    source
        The figure it repeats.
    setup
        The streams and the operators.
    run
        Runs it.
    """

    id: str
    title: str
    source: str
    setup: str
    run: Callable[[Settings], ReproductionOutcome]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The experiments of one operator.

    Parameters
    ----------
    name
        As on the command line.
    reference
        Key in docs/references.bib.
    seeds
        Independent streams, unless somebody asks for another number.
    files
        What is published beside the figures, by name: makers of texts.
    """

    name: str
    title: str
    reference: str
    experiments: tuple[Experiment, ...]
    seeds: int = 8
    files: Mapping[str, Callable[[], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim before it is tested, from `expected.json`.

    Parameters
    ----------
    reference
        Values of an independent simulation of the same set-up with another generator of random numbers: for orientation,
        never part of a test.
    """

    text: str
    expected: str
    reference: Mapping[str, Number]
    basis: Basis = Basis.SEEDS

    def judged(self, id: str, held: bool, measured: str, **numbers: Number) -> Claim:
        """The claim with what was measured."""
        return Claim(id, self.text, self.expected, measured, held, numbers, self.basis)


@cache
def statements(folder: Path) -> Mapping[str, Statement]:
    """The claims of a folder's `expected.json`, by id."""
    coded = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return {
        id: Statement(item["claim"], item["expected"], item.get("reference", {}), Basis(item["basis"]))
        for id, item in coded.items()
    }
