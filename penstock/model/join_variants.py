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
    #: Neither: nothing is ever forgotten, rows that do not fit into memory are spilled.
    XJOIN = "XJoin"
    #: Windows of three or more inputs on any equalities; the order of the probes follows the data.
    MJOIN = "MJoin"
    #: Probable punctuations of two inputs may purge too: answers may be missing.
    APPROXIMATE = "Approximate"


class Passing(StrEnum):
    """Which punctuations of its inputs a join hands on."""

    #: Each one, once no row that it matches is stored.
    ALL = "all"
    #: Those on the key that every input has announced.
    PAIRED = "paired"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MetadataUse:
    """What a join does with the punctuations it hears: the proof that its state is bounded may lean on nothing else."""

    #: Whether they remove rows that are stored.
    removes: bool = True
    #: Whether the rows of a key go when one input has closed it and the last of its own rows has gone.
    finishes: bool = True
    passing: Passing = Passing.ALL
    #: Whether those that cannot go on stay, one by one, until they can.
    keeps_waiting: bool = False


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
    def use(self) -> MetadataUse:
        """What the operator that this hint asks for does with punctuations.

        Examples
        --------
        >>> JoinHint(JoinVariant.PJOIN, (("registry", "pull"),)).use
        MetadataUse(removes=True, finishes=True, passing=<Passing.NONE: 'none'>, keeps_waiting=True)
        """
        match self.variant:
            case JoinVariant.PJOIN:
                return self._use_of_registry()
            case JoinVariant.PWJOIN | JoinVariant.MPWJOIN:
                is_early = bool(self.value("early_propagation"))
                return MetadataUse(finishes=is_early, passing=Passing.ALL if is_early else Passing.PAIRED)
            case JoinVariant.APPROXIMATE:
                return MetadataUse()
            case _:
                return MetadataUse(removes=False, passing=Passing.NONE)

    def _use_of_registry(self) -> MetadataUse:
        registry = self.value("registry")
        if not self.value("uses_punctuations") or registry == "xjoin":
            return MetadataUse(removes=False, passing=Passing.NONE)
        if registry == "pull" or (registry == "time_push" and self.value("propagate_time") is None):
            return MetadataUse(passing=Passing.NONE, keeps_waiting=True)
        return MetadataUse(passing=Passing.PAIRED if registry == "paired" else Passing.ALL, keeps_waiting=True)

    def __str__(self) -> str:
        written = ", ".join(f"{name} = {value!r}" for name, value in self.options)
        return f"{self.variant.value}({written})" if written else self.variant.value
