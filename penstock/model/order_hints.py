"""How the user wants the conditions of a query ordered."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.errors import Place
from penstock.model.join_variants import HintValue


@dataclass(frozen=True, slots=True)
class OrderHint:
    """Settings of an adaptive order the user insists on: `/*+ ORDER(policy = 'sweep') */`."""

    options: tuple[tuple[str, HintValue], ...] = ()
    #: Where it stands, for messages.
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        written = ", ".join(f"{name} = {value!r}" for name, value in self.options)
        return f"ORDER({written})" if written else "ORDER"
