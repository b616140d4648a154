"""Strategies are found by name, and told parameters by name."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidDeclaration
from penstock.qos.scheduling.table import POLICIES, make_policy


def test_all_strategies_are_made_by_name() -> None:
    for name in POLICIES:
        assert make_policy(name)


def test_a_wrong_name_says_which_exist() -> None:
    with pytest.raises(InvalidDeclaration, match="Did you mean 'round_robin'"):
        make_policy("round-robin")
