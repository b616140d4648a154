"""What every figure of the model must be before anything is reckoned with it."""

from __future__ import annotations

from math import isfinite

from penstock.errors import InvalidModel, Overloaded

#: By so much may rounding make a second moment smaller than the square of the mean.
_ROUNDING = 1e-9


def required(name: str, value: float, above: float | None = None) -> float:
    """A finite number of at least 0, or above another one.

    Examples
    --------
    >>> required("rate", 5.0)
    5.0
    """
    if not isfinite(value) or value < 0 or (above is not None and value <= above):
        least = "0 or more" if above is None else f"above {above:g}"
        raise InvalidModel(f"'{name}' is {value!r}; it must be a finite number, {least}: measure it again, or leave it out")
    return float(value)


def second_moment(name: str, mean: float, second: float) -> float:
    """A mean of squares, which is never below the square of the mean."""
    required(name, second)
    if second < mean * mean * (1 - _ROUNDING):
        raise InvalidModel(
            f"'{name}' is {second!r}, less than the square of its mean {mean!r}; it must be at least {mean * mean:g}: "
            "give the raw second moment, not the variance"
        )
    return max(second, mean * mean)


def stable(load: float, what: str, limit: float = 1.0) -> float:
    """A load that can be served.

    Examples
    --------
    >>> stable(1.2, "operator 'join'")
    Traceback (most recent call last):
    ...
    penstock.errors.Overloaded: capacity.overloaded  operator 'join'
    needs 120.0 % of a processor and has 100.0 %; lower the rates, shed at least 16.7 % of the rows, or make it faster
    """
    if load >= limit:
        raise Overloaded(
            f"needs {100 * load:.1f} % of a processor and has {100 * limit:.1f} %; lower the rates, shed at least "
            f"{100 * (1 - limit / load):.1f} % of the rows, or make it faster",
            what,
        )
    return load
