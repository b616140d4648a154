"""Cars on a highway that report where they are every 30 seconds; some stand still for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import happens, integers
from penstock.workloads.contracts import Options

#: Seconds between two reports of a car.
REPORT_SECONDS = 30

#: A trip is a sequence of legs of so many reports; a stalled car stands still for the first reports of a leg.
LEG_REPORTS, STALLED_REPORTS = 8, 5

#: Metres a car covers in a leg, by any course: 96 km/h on average.
LEG_METRES = 6_400

_REPORT = Schema.of(
    car_id=pa.int64(), speed=pa.float64(), lane=pa.int32(), segment_id=pa.int32(), xpos=pa.int64(), ts=TIMESTAMP
).named("traffic.report")


@dataclass(frozen=True)
class Traffic(ColumnarWorkload):
    """Stream `report` (car_id, speed in km/h to the next report, lane, segment_id, xpos in metres, ts).

    There are as many cars as report every 30 s at the given rate. A car drives leg after leg; with probability
    `stall_fraction` it stands still for the first five reports of a leg (so four or more equal positions within two
    minutes occur) and makes up for it in the rest. With evenly spaced arrivals a car reports exactly every 30 s.

    Parameters
    ----------
    stall_fraction
        Share of legs with a standstill.
    road_metres
        Length of the circular road.
    segment_metres
        Length of a segment of it.

    Examples
    --------
    >>> rows = Traffic(stall_fraction=1.0).generate("report", 0, 1, 0, 6, Options(rate=1 / 30))
    >>> rows.column("speed").to_pylist()
    [0.0, 0.0, 0.0, 0.0, 192.0, 192.0]
    """

    name: ClassVar[str] = "traffic"
    default_rate: ClassVar[float] = 100.0

    stall_fraction: float = 0.02
    road_metres: int = 160_000
    segment_metres: int = 1_600

    def __post_init__(self) -> None:
        if not 0 <= self.stall_fraction <= 1:
            raise InvalidOption(f"{self.stall_fraction} is no share; it must be between 0 and 1", "stall_fraction")
        if self.segment_metres < 1 or self.road_metres < self.segment_metres:
            raise InvalidOption(f"a road of {self.road_metres} m cannot have segments of {self.segment_metres} m", "road_metres")

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {"report": StreamShape(_REPORT, "car_id", "ts", clock=self.name)}

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        cars = max(round(options.rate * REPORT_SECONDS), 1)
        car, report = index % cars, index // cars
        driven = self._driven(car, report, cars, options)
        speed = (self._driven(car, report + 1, cars, options) - driven) * 3.6 / REPORT_SECONDS
        entry = integers(options.seed, "entry", car, self.road_metres)
        position = (entry + driven) % self.road_metres
        return {
            "car_id": car,
            "speed": speed,
            "lane": integers(options.seed, "lane", car, 4).astype(np.int32),
            "segment_id": (position // self.segment_metres).astype(np.int32),
            "xpos": position,
        }

    def _driven(self, car: Int64s, report: Int64s, cars: int, options: Options) -> Int64s:
        """Metres since the first report: every leg has the same length, so no sum over earlier legs is needed."""
        leg, place = report // LEG_REPORTS, report % LEG_REPORTS
        stalls = happens(options.seed, "stall", leg * cars + car, self.stall_fraction)
        # Five equal positions are four steps of standing; the last four steps cover the leg.
        late_start = np.maximum(place - (STALLED_REPORTS - 1), 0) * LEG_METRES // (LEG_REPORTS - STALLED_REPORTS + 1)
        result: Int64s = leg * LEG_METRES + np.where(stalls, late_start, place * LEG_METRES // LEG_REPORTS)
        return result
