"""`penstock reproduce` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from penstock.cli import app


def penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_reproduction_prints_its_claims_as_data_and_writes_its_figures(tmp_path: Path) -> None:
    result = penstock("reproduce", "mpwjoin", "--quick", "--json", "--out", str(tmp_path))
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["reproduction"] == "mpwjoin"
    assert report["quick"]
    names = {path.name for path in (tmp_path / "mpwjoin").iterdir()}
    assert names == {"claims.md", "claims.json"} | {f"E-MW-{at}.{kind}" for at in (1, 2, 3) for kind in ("png", "svg")}
    assert json.loads((tmp_path / "mpwjoin" / "claims.json").read_text()) == report


def test_an_unknown_reproduction_gets_the_nearest_name_and_writes_nothing(tmp_path: Path) -> None:
    result = penstock("reproduce", "pwjion", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "Did you mean 'pwjoin'?" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_help_lists_the_reproductions() -> None:
    result = penstock("reproduce", "--help")
    assert result.exit_code == 0
    for name in ("pjoin", "pwjoin", "mpwjoin"):
        assert name in result.stdout
