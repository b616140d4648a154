"""How the user wants the conditions of a query ordered."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.errors import InvalidConfiguration, Place
from penstock.model.hint_options import Options, problem_of


@dataclass(frozen=True, slots=True)
class OrderHint:
    """Settings of an adaptive order the user insists on: `/*+ ORDER(policy = 'sweep') */`."""

    options: Options = ()
    #: Where it stands, for messages.
    place: Place | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if text := problem_of("ORDER", self.options):
            raise InvalidConfiguration(text, self.place or f"hint {self}")

    def __str__(self) -> str:
        written = ", ".join(f"{name} = {value!r}" for name, value in self.options)
        return f"ORDER({written})" if written else "ORDER"
