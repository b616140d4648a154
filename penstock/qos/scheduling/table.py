"""All scheduling strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidDeclaration, suggestion
from penstock.kernel.contracts import Policy
from penstock.qos.scheduling.parameters import Parameter, values_of, whole_number
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.round_robin import RoundRobin


@dataclass(frozen=True, slots=True)
class Strategy:
    """A row of the table.

    Parameters
    ----------
    description
        One line for people.
    make
        Makes the policy of the values of its parameters.
    """

    description: str
    make: Callable[..., Policy]
    parameters: tuple[Parameter, ...] = ()


POLICIES: Mapping[str, Strategy] = {
    "round_robin": Strategy(
        "Operators take turns; nobody waits long.",
        RoundRobin,
        (Parameter("slices", whole_number(1), 1, "slices served per visit, >= 1"),),
    ),
    "path_capacity": Strategy("The path that takes in rows fastest first: least mean latency per input row.", PathCapacity),
}

#: What chooses unless somebody says otherwise.
DEFAULT = "round_robin"


def make_policy(name: str, parameters: Mapping[str, Any] | None = None) -> Policy:
    """A strategy by its name.

    Examples
    --------
    >>> type(make_policy("round_robin", {"slices": 2})).__name__
    'RoundRobin'
    """
    strategy = POLICIES.get(name)
    if strategy is None:
        raise InvalidDeclaration(f"there is no scheduling strategy '{name}'; {suggestion(name, POLICIES)}")
    return strategy.make(**values_of(name, strategy.parameters, parameters or {}))
