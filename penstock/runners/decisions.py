"""What packing tasks must know of all decisions so far: of each operator the newest ones, which make earlier ones void."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.model.elements import SHED, Control
from penstock.operators.filtering.reports import COSTS, ORDER

#: Kind and detail of a decision.
Decision: TypeAlias = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions by the operator or entry that they are about, folded; a value.

    Parameters
    ----------
    operators
        About filters, by name.
    shed
        What is left out of entries, or in front of operators (`GroupBy2#0`), by name: the share, and which rows.

    Examples
    --------
    >>> some = Decisions().followed_by([(ORDER, {"operator": "f", "order": ["a"]}), (COSTS, {"operator": "f", "costs": {}})])
    >>> [control.kind for control in some.of("f")]
    ['filter_order', 'filter_costs']
    >>> Decisions.from_text(some.followed_by([(ORDER, {"operator": "f", "order": ["b"]})]).text).of("f")
    (Control(epoch=0, kind='filter_order', detail={'operator': 'f', 'order': ['b']}),)
    """

    operators: Mapping[str, tuple[Decision, ...]] = field(default_factory=dict)
    shed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def followed_by(self, decisions: Iterable[Decision]) -> Decisions:
        """With further decisions; those that packing tasks need not know leave no trace."""
        found, shed = dict(self.operators), dict(self.shed)
        for kind, detail in decisions:
            if kind == ORDER:  # it says what conditions cost, too
                found[detail["operator"]] = ((kind, detail),)
            elif kind == COSTS:
                before = [each for each in found.get(detail["operator"], ()) if each[0] == ORDER]
                found[detail["operator"]] = (*before, (kind, detail))
            elif kind == SHED:
                shed[detail["entry"]] = {name: value for name, value in detail.items() if name != "entry"}
        shed = {entry: each for entry, each in shed.items() if each["share"]}
        return self if (found, shed) == (self.operators, self.shed) else Decisions(found, shed)

    def about(self, operators: Collection[str]) -> Decisions:
        """Without decisions about operators that are gone."""
        return Decisions({name: each for name, each in self.operators.items() if name in operators}, self.shed)

    def leaving_out(self, shed: Mapping[str, Mapping[str, Any]]) -> Decisions:
        """With what a controller has found for one micro-batch; what somebody has decided by hand counts more."""
        return Decisions(self.operators, {**shed, **self.shed}) if shed else self

    def of(self, operator: str) -> tuple[Control, ...]:
        """What an operator that begins now must hear."""
        return tuple(Control(0, kind, detail) for kind, detail in self.operators.get(operator, ()))

    @property
    def text(self) -> str:
        """As JSON; empty if nothing is decided."""
        if not self.operators and not self.shed:
            return ""
        return json.dumps({"operators": self.operators, "shed": self.shed}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Decisions:
        if not text:
            return cls()
        found = json.loads(text)
        operators = {name: tuple((kind, detail) for kind, detail in each) for name, each in found["operators"].items()}
        return cls(operators, found["shed"])


NO_DECISIONS = Decisions()
