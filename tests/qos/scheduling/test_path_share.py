"""`path_share`: the order of paths by what they need of the processor, and what it says of rates that nobody knows."""

from __future__ import annotations

from dataclasses import replace

from penstock.qos.scheduling.path_share import PathShare
from penstock.testing.scheduling import operator, per_unit, plan_of


def explained(*rates: float) -> list[str]:
    """Paths `p0`, `p1`, … whose rows take 100 ms each."""
    prices = [replace(per_unit(10.0), rate=rate) for rate in rates]
    policy = PathShare()
    policy.plan(plan_of(*(operator(f"p{at}", price, entrances=(0,), answers=f"q{at}") for at, price in enumerate(prices))))
    return [line for line in policy.explained() if "path" in line]


def test_shares_come_from_known_rates() -> None:
    assert explained(4.0, 2.0) == [
        "1. path 'p1': 20 % of the processor, as 2 rows/s take 100 ms each; weight 1",
        "2. path 'p0': 40 % of the processor, as 4 rows/s take 100 ms each; weight 1",
    ]


def test_without_any_rate_no_share_is_invented() -> None:
    assert explained(0.0, 0.0) == [
        "1. path 'p0': a row takes 100 ms; how many rows come is not known, so all paths count alike; weight 1",
        "2. path 'p1': a row takes 100 ms; how many rows come is not known, so all paths count alike; weight 1",
    ]


def test_it_is_said_which_rate_is_taken_for_one_that_is_not_known() -> None:
    _, second, third = explained(2.0, 0.0, 6.0)
    expected = "as 4 rows/s (the mean of the others, as its own rate is not known) take 100 ms each; weight 1"
    assert second == f"2. path 'p1': 40 % of the processor, {expected}"
    assert third.startswith("3. path 'p2': 60 %")


def test_inputs_of_one_join_are_told_apart() -> None:
    policy = PathShare()
    join = operator("j", per_unit(10.0), per_unit(5.0), entrances=(0, 1), answers="q")
    policy.plan(plan_of(join))
    expected = "path 'j': a row takes 100 ms and 200 ms; how many rows come is not known, so all paths count alike; weight 1"
    assert policy.explained()[0] == f"1. {expected}"
