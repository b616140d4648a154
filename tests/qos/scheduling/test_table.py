"""Strategies are found by name, and told parameters by name."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidDeclaration
from penstock.kernel.contracts import Policy
from penstock.qos.scheduling.starvation import StarvationFree
from penstock.qos.scheduling.table import POLICIES, make_policy

MEMORY = {"threshold": {"memory": "200 MB"}}


def test_all_strategies_are_made_by_name() -> None:
    made: dict[str, Policy] = {}
    for name in POLICIES:
        made[name] = make_policy(name, {**MEMORY.get(name, {}), "oldest_every": 0})
    assert sorted(type(policy).__name__ for policy in made.values()) == sorted(
        "".join(word.capitalize() for word in name.split("_")) for name in POLICIES
    )


def test_what_may_starve_picks_the_oldest_now_and_then_unless_told_otherwise() -> None:
    wrapped = {name for name in POLICIES if isinstance(make_policy(name, MEMORY.get(name)), StarvationFree)}
    assert set(POLICIES) - wrapped == {"fifo", "round_robin", "weighted_round_robin"}
    for name in POLICIES:
        told = {**MEMORY.get(name, {}), "max_age": "10 seconds", "oldest_every": 0}
        assert isinstance(make_policy(name, told), StarvationFree)


def test_a_wrong_name_says_which_exist() -> None:
    with pytest.raises(InvalidDeclaration, match="Did you mean 'round_robin'"):
        make_policy("round-robin")


def test_values_may_be_written_as_text_or_as_numbers() -> None:
    texts = {"memory": "1 kB", "beta": "0.8", "upper": "700 B", "lower": "300 B", "dynamic": "yes", "oldest_every": "7"}
    assert make_policy("threshold", texts)
    assert make_policy("threshold", {"memory": 1000, "beta": 0.8, "upper": 700, "lower": 300, "dynamic": True})
    assert make_policy("weighted_round_robin", {"weights": {"alerts": 3}})


@pytest.mark.parametrize(
    ("name", "parameters", "complaint"),
    [
        ("threshold", {}, "needs 'memory'"),
        ("threshold", {"memory": "200"}, "'200' is no size of memory"),
        ("threshold", {"memory": 0}, "memory: 0 is no whole number >= 1"),
        ("threshold", {"memory": "200 MB", "beta": 0.5}, "beta: 0.5 is no number with 0.5 < x < 1"),
        ("threshold", {"memory": "200 MB", "beta": 1}, "0.5 < x < 1"),
        ("threshold", {"memory": "200 MB", "beta": "nan"}, "0.5 < x < 1"),
        ("threshold", {"memory": "200 MB", "upper": "200 MB"}, "0 < upper < memory does not hold: they are 200.0 MB and 200.0 MB"),
        ("threshold", {"memory": "200 MB", "upper": "90 MB", "lower": "90 MB"}, "0 <= lower < upper does not hold"),
        ("threshold", {"memory": "200 MB", "lower": "100 MB"}, "0 <= lower < memory / 2 does not hold: they are 100.0 MB"),
        ("threshold", {"memory": "200 MB", "normal": "path_answer"}, "Did you mean 'path_answers'"),
        ("threshold", {"memory": "200 MB", "betta": 0.9}, "has no parameter 'betta'"),
        ("segment", {"oldest_evry": 50}, "has no parameter 'oldest_evry'; it has dynamic, oldest_every, max_age. Did you mean"),
        ("segment", {"oldest_every": -1}, "oldest_every: -1 is no whole number >= 0"),
        ("segment", {"oldest_every": 1.5}, "no whole number"),
        ("segment", {"oldest_every": "often"}, "no whole number"),
        ("segment", {"oldest_every": True}, "no whole number"),
        ("segment", {"max_age": "0 seconds"}, "max_age: '0 seconds' is no length of time > 0"),
        ("segment", {"max_age": "soon"}, "'soon' is no duration"),
        ("segment", {"max_age": 10}, "10 is no length of time > 0; write a number and a unit"),
        ("segment", {"dynamic": "perhaps"}, "neither true nor false"),
        ("fifo", {"dynamic": True}, "'fifo' has no parameter 'dynamic'"),
        ("round_robin", {"slices": 0}, "slices: 0 is no whole number >= 1"),
        ("weighted_round_robin", {"weights": {"q": 0}}, "weights: 0 is no number with 0 < x"),
        ("weighted_round_robin", {"weights": {"q": float("inf")}}, "weights: inf is no number"),
        ("weighted_round_robin", {"weights": 3}, "3 is no mapping from queries to weights"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_and_say_what_would_be_right(name: str, parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        make_policy(name, parameters)
    assert complaint in str(caught.value)


def test_every_strategy_and_parameter_is_described() -> None:
    for name, strategy in POLICIES.items():
        assert strategy.description.endswith("."), name
        assert all(parameter.meaning for parameter in strategy.parameters), name
        assert len({parameter.name for parameter in strategy.parameters}) == len(strategy.parameters), name
