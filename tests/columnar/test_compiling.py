"""What was compiled from other sources is forgotten."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.columnar import compiling


def looked_at(folder: Path) -> set[str]:
    compiling._SEEN.discard(folder)
    compiling.forget_outdated(folder)
    return {path.name for path in (folder / "__pycache__").iterdir() if path.name != "loops.stamp"}


def test_loops_are_forgotten_when_a_file_beside_them_has_changed(tmp_path: Path) -> None:
    kept = tmp_path / "__pycache__"
    kept.mkdir()
    (tmp_path / "_nodes.py").write_text("A = 1")
    assert looked_at(tmp_path) == set()
    (kept / "_arriving.insert-1.nbi").touch()
    (kept / "_arriving.insert-1.1.nbc").touch()
    (kept / "_arriving.cpython-311.pyc").touch()
    assert len(looked_at(tmp_path)) == 3, "nothing has changed"
    os.utime(tmp_path / "_nodes.py", ns=(1, 1))
    assert looked_at(tmp_path) == {"_arriving.cpython-311.pyc"}


def test_what_was_compiled_before_there_were_stamps_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "_loops.run-1.nbi").touch()
    assert looked_at(tmp_path) == set()
