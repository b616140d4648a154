"""The ways to run a join, by the names of the literature."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.errors import InvalidConfiguration, Place
from penstock.model.hint_options import HINTS, HintValue, Options, problem_of


class JoinVariant(StrEnum):
    """What a join knows about its inputs decides how it can forget."""

    #: Windows of two inputs, no punctuations.
    WJOIN = "WJoin"
    #: Windows of three or more inputs, no punctuations.
    MWJOIN = "MWJoin"
    #: Windows and punctuations of two inputs.
    PWJOIN = "PWJoin"
    #: Punctuations of three or more inputs, with or without windows.
    MPWJOIN = "MPWJoin"
    #: Punctuations of two inputs, no windows.
    PJOIN = "PJoin"
    #: Neither: nothing is ever forgotten.
    XJOIN = "XJoin"
    #: Windows of three or more inputs on any equalities; the order of the probes follows the data.
    MJOIN = "MJoin"
    #: Probable punctuations of two inputs may purge too: answers may be missing.
    APPROXIMATE = "Approximate"


#: Hints that ask for a join which ignores punctuations: nothing of them may be leant on.
_IGNORING = (JoinVariant.WJOIN, JoinVariant.MWJOIN, JoinVariant.XJOIN, JoinVariant.MJOIN)


@dataclass(frozen=True, slots=True)
class JoinHint:
    """A variant the user insists on, with its parameters.

    Raises
    ------
    InvalidConfiguration
        When an option does not exist or its value is none that it takes: nobody can hold a hint that could not run.
    """

    variant: JoinVariant
    options: Options = ()
    #: Where it stands, for messages.
    place: Place | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if text := problem_of(self.variant.name, self.options):
            raise InvalidConfiguration(text, self.place or f"hint {self}")

    def value(self, option: str) -> HintValue | None:
        """What an option is, written or by default."""
        return HINTS[self.variant.name].value(self.options, option)

    def explained(self) -> tuple[str, ...]:
        """What each option that was written decides."""
        known = HINTS[self.variant.name]
        return tuple(
            f"{name} = {value!r}: {option.means}" for name, value in self.options if (option := known.option(name)) is not None
        )

    @property
    def heeds_punctuations(self) -> bool:
        """Whether punctuations remove rows of the join that the hint asks for, and go on behind it."""
        return self.variant not in _IGNORING

    def __str__(self) -> str:
        written = ", ".join(f"{name} = {value!r}" for name, value in self.options)
        return f"{self.variant.value}({written})" if written else self.variant.value
