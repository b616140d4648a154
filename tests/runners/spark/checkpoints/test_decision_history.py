"""Lines that are only added, whatever a crash leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import DamagedRecord
from penstock.runners.spark.checkpoints.decision_history import DecisionHistory


def test_half_a_line_is_none_and_spoils_no_other(tmp_path: Path) -> None:
    history = DecisionHistory(tmp_path / "history")
    history.append({"a": 1})
    with (tmp_path / "history").open("ab") as file:
        file.write(b'{"a": 2, "b')
    assert history.entries() == [{"a": 1}]
    history.append({"a": 3})
    assert history.entries() == [{"a": 1}, {"a": 3}]


def test_other_content_is_damage(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(b'{"a": 1}\n\0\0\0\0\n')
    with pytest.raises(DamagedRecord, match="no JSON"):
        DecisionHistory(tmp_path / "history").entries()
