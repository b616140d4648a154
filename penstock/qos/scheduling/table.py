"""All scheduling strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.errors import InvalidDeclaration, suggestion
from penstock.kernel.contracts import Policy
from penstock.qos.scheduling.path_capacity import PathCapacity
from penstock.qos.scheduling.round_robin import RoundRobin

POLICIES: Mapping[str, Callable[[], Policy]] = {
    "round_robin": RoundRobin,
    "path_capacity": PathCapacity,
}


def make_policy(name: str) -> Policy:
    if name not in POLICIES:
        raise InvalidDeclaration(f"there is no scheduling strategy '{name}'; {suggestion(name, POLICIES)}")
    return POLICIES[name]()
