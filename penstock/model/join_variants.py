"""The ways to run a join, by the names of the literature."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from penstock.errors import Place

HintValue: TypeAlias = str | int | float | bool


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


@dataclass(frozen=True, slots=True)
class JoinHint:
    """A variant the user insists on, with its parameters."""

    variant: JoinVariant
    options: tuple[tuple[str, HintValue], ...] = ()
    #: Where it stands, for messages.
    place: Place | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        written = ", ".join(f"{name} = {value!r}" for name, value in self.options)
        return f"{self.variant.value}({written})" if written else self.variant.value
