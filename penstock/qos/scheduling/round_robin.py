"""Operators take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.kernel.contracts import OperatorView
from penstock.model.elements import Control


class RoundRobin:
    """Visit operators cyclically and skip those without input; each visit serves one slice.

    Choose it when no statistics exist or no operator may ever wait long: it never starves anybody.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Section 6.2.

    Examples
    --------
    >>> policy = RoundRobin()
    >>> views = [OperatorView(name, 1, 1, (), True) for name in "ab"]
    >>> [policy.pick(views) for _ in range(3)]
    ['a', 'b', 'a']
    """

    def __init__(self) -> None:
        self._last = ""

    def pick(self, operators: Sequence[OperatorView]) -> str | None:
        names = [view.id for view in operators]
        start = names.index(self._last) + 1 if self._last in names else 0
        for view in (*operators[start:], *operators[:start]):
            if view.waiting_elements:
                self._last = view.id
                return view.id
        return None

    def on_control(self, decision: Control) -> None:
        """Nothing can be decided about taking turns."""

    def snapshot(self) -> Mapping[str, Any]:
        return {"last": self._last}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._last = state.get("last", "")
