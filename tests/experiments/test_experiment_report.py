"""Claims, figures and reports, with a reproduction small enough to see through."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from penstock.experiments.contracts import (
    Basis,
    Claim,
    Drawing,
    Experiment,
    Panel,
    Reproduction,
    ReproductionOutcome,
    Series,
    Settings,
    Style,
)
from penstock.experiments.figures import COLOURS, draw
from penstock.experiments.report import Report
from penstock.experiments.running import reproduce

PNG = b"\x89PNG\r\n\x1a\n"


def outcome(settings: Settings) -> ReproductionOutcome:
    seeds = len(settings.seed_numbers())
    claims = (
        Claim("E-1a", "It rains | sometimes.", "above 1 mm", "2 mm", True, {"rain_mm": 2.0, "days": [1, 2], "seeds": seeds}),
        Claim("E-1b", "It snows.", "above 1 mm", "0 mm", False, {"snow_mm": 1 / 3}, Basis.FORMULA),
    )
    return ReproductionOutcome(claims, Drawing("Weather", (Panel("day", "rain (mm)", (Series("here", [0, 1], [1, 2]),)),)))


TOY = Reproduction("toy", "Weather: a toy", "ding2008", (Experiment("E-1", "rain", "Figure 1", "A bucket.", outcome),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return reproduce(TOY, Settings(seeds=3), folder)


def test_a_reproduction_writes_its_figures_and_claims(report: Report, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["E-1.png", "E-1.svg", "claims.json", "claims.md"]
    assert (folder / "E-1.png").read_bytes().startswith(PNG)
    assert json.loads((folder / "claims.json").read_text())["held"] == 1
    assert report.summary == "1 of 2 claims held"


def test_json_has_every_claim_with_its_numbers(report: Report) -> None:
    coded = report.to_json()
    assert {name: coded[name] for name in ("reproduction", "reference", "seeds", "quick", "claims", "held")} == {
        "reproduction": "toy", "reference": "ding2008", "seeds": 3, "quick": False, "claims": 2, "held": 1,
    }  # fmt: skip
    (experiment,) = coded["experiments"]
    first, second = experiment["claims"]
    assert first["numbers"] == {"rain_mm": 2, "days": [1, 2], "seeds": 3}
    assert second == {
        "id": "E-1b", "text": "It snows.", "expected": "above 1 mm", "measured": "0 mm", "held": False,
        "basis": "formula", "numbers": {"snow_mm": 0.333333},
    }  # fmt: skip


def test_markdown_says_which_claims_did_not_hold_and_shows_the_figures(report: Report) -> None:
    page = report.to_markdown()
    assert "| E-1a | held | It rains \\| sometimes. | above 1 mm | 2 mm | 3 streams |" in page
    assert "| E-1b | **not held** | It snows. | above 1 mm | 0 mm | a formula, no stream |" in page
    assert "![E-1](./E-1.png)" in page
    assert "1 of 2 claims held. The last column says what each was judged by." in page


@pytest.mark.parametrize(("load", "is_busy"), [(None, False), (0.9, False), (4.0, True)])
def test_a_page_made_on_a_busy_machine_says_so(report: Report, load: float | None, is_busy: bool) -> None:
    page = replace(report, load=load).to_markdown()
    assert ("The machine was busy, with 4.0 processes for each processor" in page) is is_busy


def test_the_table_for_people_names_claim_verdict_and_measurement(report: Report) -> None:
    console = Console(width=120, record=True, file=StringIO())
    report.print_to(console)
    text = console.export_text()
    assert "Weather: a toy: 1 of 2 claims held" in text
    for line in (("E-1a", " held", "It rains", "2 mm"), ("E-1b", "not held", "It snows", "0 mm")):
        assert any(all(word in row for word in line) for row in text.splitlines())


def test_quick_settings_do_less() -> None:
    full, quick = Settings(seeds=8), Settings(seeds=8, is_quick=True)
    assert (len(full.seed_numbers()), full.repetitions) == (8, 5)
    assert (len(quick.seed_numbers()), quick.repetitions) == (2, 1)


def test_every_style_is_drawn_with_labels_and_legend(tmp_path: Path) -> None:
    styles: tuple[tuple[Style, bool], ...] = (
        ("lines", False),
        ("steps", True),
        ("bars", False),
        ("markers", False),
    )
    panels = tuple(
        Panel("purge threshold", f"tuples {at}", _three_series(at), style, ("one", "ten", "hundred"), log_y, f"title {at}")
        for at, (style, log_y) in enumerate(styles)
    )
    _, svg = draw(Drawing("All panels", panels), tmp_path / "figure")
    texts = {"".join(item.itertext()).strip() for item in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")}
    wanted = {text for at in range(len(styles)) for text in (f"title {at}", f"tuples {at}", f"join {at}.0", f"join {at}.2")}
    assert wanted | {"All panels", "purge threshold"} <= texts


def test_spreads_are_drawn_as_error_bars_in_both_directions(tmp_path: Path) -> None:
    plain = Series("join", [0.0, 1.0], [1.0, 2.0])
    upward = replace(plain, spread=([0.5, 1.5], [1.5, 3.0]))
    sideways = replace(plain, spread=([0.0, 0.5], [0.5, 1.5]), is_spread_in_x=True)
    styles: tuple[Style, ...] = ("lines", "markers", "bars")
    for style in styles:
        panels = [Panel("time (s)", "tuples", (series,), style, ("a", "b")) for series in (plain, upward, sideways)]
        files = {draw(Drawing("Time", (panel,)), tmp_path / "figure")[1].read_bytes() for panel in panels}
        assert len(files) == 3


def _three_series(panel: int) -> tuple[Series, ...]:
    values = np.array([1.0, 20_000.0, 4e6])
    return tuple(Series(f"join {panel}.{at}", np.arange(3), values * (at + 1)) for at in range(3))


def test_equal_drawings_give_equal_files(tmp_path: Path) -> None:
    drawing = outcome(Settings()).drawing
    once, again = (draw(drawing, tmp_path / name) for name in ("once", "again"))
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_colours_differ_in_brightness_so_that_print_tells_them_apart() -> None:
    levels = [
        sum(int(colour[at : at + 2], 16) * weight for at, weight in ((1, 0.3), (3, 0.59), (5, 0.11))) for colour in COLOURS[:3]
    ]
    assert len({round(level / 12) for level in levels}) == 3
