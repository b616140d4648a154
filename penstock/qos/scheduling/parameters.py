"""What strategies can be told, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from penstock.errors import InvalidDeclaration, suggestion
from penstock.model.durations import micros_of
from penstock.model.sizes import size_in_bytes


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a strategy.

    Parameters
    ----------
    read
        Makes a value of what was written; raises `InvalidDeclaration`, without name and place.
    default
        Value if nothing is written; `...`: it must be.
    meaning
        A line for people, with the range.
    """

    name: str
    read: Callable[[object], Any]
    default: Any
    meaning: str


def values_of(owner: str, parameters: tuple[Parameter, ...], written: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their values.

    Examples
    --------
    >>> beta = Parameter("beta", number(above=0, below=1), 0.9, "how near")
    >>> values_of("threshold", (beta,), {}), values_of("threshold", (beta,), {"beta": "0.7"})
    ({'beta': 0.9}, {'beta': 0.7})
    """
    known = {parameter.name: parameter for parameter in parameters}
    for name in written:
        if name not in known:
            raise InvalidDeclaration(f"scheduling strategy '{owner}' has no parameter '{name}'; {suggestion(name, known)}")
    return {name: _value(owner, parameter, written) for name, parameter in known.items()}


def _value(owner: str, parameter: Parameter, written: Mapping[str, Any]) -> Any:
    if parameter.name not in written:
        if parameter.default is ...:
            raise InvalidDeclaration(f"scheduling strategy '{owner}' needs '{parameter.name}': {parameter.meaning}")
        return parameter.default
    try:
        return parameter.read(written[parameter.name])
    except InvalidDeclaration as error:
        raise InvalidDeclaration(f"scheduling strategy '{owner}', {parameter.name}: {error.message}") from None


def number(above: float = -inf, below: float = inf) -> Callable[[object], float]:
    """Reads a number strictly between two others."""

    def read(written: object) -> float:
        found = _float(written)
        if not (isfinite(found) and above < found < below):
            low = "" if above == -inf else f"{above:g} < "
            high = "" if below == inf else f" < {below:g}"
            raise InvalidDeclaration(f"{written!r} is no number with {low}x{high}")
        return found

    return read


def whole_number(least: int) -> Callable[[object], int]:
    """Reads a whole number."""

    def read(written: object) -> int:
        found = _float(written)
        if not isfinite(found) or found != int(found) or found < least:
            raise InvalidDeclaration(f"{written!r} is no whole number >= {least}")
        return int(found)

    return read


def _float(written: object) -> float:
    """NaN for what is no number; True is none."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return float("nan")
    try:
        return float(written)
    except ValueError:
        return float("nan")


def size(written: object) -> int:
    """Reads a positive size of memory: a text such as 200 MB, or a number of bytes."""
    if isinstance(written, str):
        return size_in_bytes(written)
    return whole_number(1)(written)


def duration_ns(written: object) -> int:
    """Reads a positive length of time such as 10 seconds; in nanoseconds."""
    micros = micros_of(written) if isinstance(written, str) else 0
    if micros <= 0:
        raise InvalidDeclaration(f"{written!r} is no length of time > 0; write a number and a unit, such as 10 seconds")
    return micros * 1_000


def yes_or_no(written: object) -> bool:
    """Reads a truth value."""
    found = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(str(written).lower())
    if found is None:
        raise InvalidDeclaration(f"{written!r} is neither true nor false")
    return found


def one_of(*choices: str) -> Callable[[object], str]:
    """Reads one of some words."""

    def read(written: object) -> str:
        if written not in choices:
            raise InvalidDeclaration(f"there is no {written!r}; {suggestion(str(written), choices)}")
        return str(written)

    return read


def weights(written: object) -> dict[str, float]:
    """Reads positive numbers by name: a mapping, or a text.

    Examples
    --------
    >>> weights({"alerts": 2}), weights("alerts=2, pace = 0.5")
    ({'alerts': 2.0}, {'alerts': 2.0, 'pace': 0.5})
    """
    if isinstance(written, str):
        written = _pairs(written)
    if not isinstance(written, Mapping):
        raise InvalidDeclaration(f"{written!r} is no mapping from queries to weights")
    return {str(name): number(above=0)(weight) for name, weight in written.items()}


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, weight = (part.strip() for part in item.partition("="))
        if not (name and equals and weight):
            raise InvalidDeclaration(f"'{item.strip()}' is no query with its weight; write for example 'alerts=10, report=1'")
        if name.lower() in map(str.lower, found):
            raise InvalidDeclaration(f"the query '{name}' stands twice")
        found[name] = weight
    return found
