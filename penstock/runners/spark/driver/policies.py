"""Which scheduling strategy holds: that of the newest wish, wherever it was said.

A wish is the `SET POLICY` of a text, the option of a start, or what somebody says while the application runs. The decisions of the
checkpoint have them in order, so the last one holds. What a start merely repeats, because the text or the option is as it was at
the start before, is no new wish: what was said in between stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.language.application import policy_in
from penstock.lowering.scheduling import check_policy, check_policy_stays
from penstock.model.elements import POLICY
from penstock.model.service import ChosenPolicy
from penstock.plan.catalog import Catalog
from penstock.runners.editions.edition import ADD, Step
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint

#: What the last start was told, beside the checkpoint's other records.
TOLD = "policy"


def policy_of_steps(steps: Iterable[Step], application: str) -> ChosenPolicy | None:
    """The last strategy that added texts set."""
    found = [policy_in(text, application) for kind, text in steps if kind == ADD]
    return next((policy for policy in reversed(found) if policy is not None), None)


@dataclass(frozen=True, slots=True)
class Told:
    """What a start is told by its text and by its option."""

    text: ChosenPolicy | None = None
    option: ChosenPolicy | None = None

    def newest(self, before: Told) -> ChosenPolicy | None:
        """What was not said at the start before; the option counts more."""
        if self.option is not None and self.option != before.option:
            return self.option
        return self.text if self.text != before.text else None

    def to_json(self) -> dict[str, Any]:
        return {"text": _detail(self.text), "option": _detail(self.option)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Told:
        return cls(_chosen(found.get("text")), _chosen(found.get("option")))


class Policies:
    """The strategies of a checkpoint. Each decision is read once: there are more of them the longer an application runs."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._read = 0
        self._newest: ChosenPolicy | None = None

    @property
    def current(self) -> ChosenPolicy | None:
        """What holds; None: nobody has said anything."""
        control = self._checkpoint.control
        stop = len(control)
        for kind, detail in control.read(self._read, stop):
            if kind == POLICY:
                self._newest = _chosen(detail)
        self._read = max(self._read, stop)
        return self._newest

    def check_start(self, told: Told, catalog: Catalog) -> None:
        """Refuse a start with a strategy that cannot be.

        Parameters
        ----------
        catalog
            The application as it will run, with queries that have come and gone since its text.
        """
        if told.option is not None:
            check_policy(catalog, told.option)
        self.check(told.newest(self._before()), catalog)

    def check(self, wish: ChosenPolicy | None, catalog: Catalog) -> None:
        """Refuse a wish that cannot be, or, without one, other queries with which what holds cannot be."""
        holding = wish or self.current
        if wish is not None:
            check_policy(catalog, wish)
        elif holding is not None:
            check_policy_stays(catalog, holding)

    def begin(self, told: Told) -> None:
        """Let the newest wish hold, also of those that a start has."""
        before = self._before()
        self.wish(told.newest(before))
        if told != before:
            self._checkpoint.remember(TOLD, told.to_json())

    def wish(self, policy: ChosenPolicy | None) -> int | None:
        """Let a strategy hold from the next micro-batch on; the number of the decision, if it needs one."""
        if policy is None or policy == self.current:
            return None
        return self._checkpoint.control.append(POLICY, _detail(policy))

    def _before(self) -> Told:
        found = self._checkpoint.recall(TOLD)
        return Told() if found is None else Told.from_json(found)


def _detail(policy: ChosenPolicy | None) -> dict[str, Any] | None:
    return None if policy is None else {"name": policy.name, **policy.parameters}


def _chosen(detail: Mapping[str, Any] | None) -> ChosenPolicy | None:
    if detail is None:
        return None
    return ChosenPolicy(detail["name"], {name: value for name, value in detail.items() if name != "name"})
