"""Functions that the queries call: plain Python, and expensive on purpose."""

from __future__ import annotations

from math import exp, sqrt

#: What may be sold for this price within the next quarter of a year, whatever the stock is worth then.
_STRIKE, _YEARS = 100.0, 0.25
_INTEREST, _VOLATILITY = 0.03, 0.3
#: Of the tree for the value, and of the coarser one for the ratio.
_STEPS, _FEW_STEPS = 24, 12


def put_value(price: float | None) -> float | None:
    """What the right to sell a stock is worth, by a binomial tree: at each of its nodes selling at once or waiting is better.

    References
    ----------
    [cox1979] Cox, Ross, Rubinstein. Option Pricing: A Simplified Approach.

    Examples
    --------
    >>> round(put_value(100.0), 2), round(put_value(60.0), 2), put_value(None)
    (5.6, 40.0, None)
    """
    return None if price is None else _values(price, _STEPS)[0]


def hedge_ratio(price: float | None) -> float | None:
    """How much of a stock makes up for a small change of such a right: 0 if it is worth nothing, 1 if it will surely be used.

    Examples
    --------
    >>> round(hedge_ratio(100.0), 2), round(hedge_ratio(60.0), 2), hedge_ratio(None)
    (0.46, 1.0, None)
    """
    if price is None:
        return None
    up = exp(_VOLATILITY * sqrt(_YEARS / _FEW_STEPS))
    _, higher, lower = _values(price, _FEW_STEPS)
    return (lower - higher) / (price * (up - 1.0 / up))


def _values(price: float, steps: int) -> tuple[float, float, float]:
    """At the root of the tree, and after the first step up and down."""
    step = _YEARS / steps
    up, growth = exp(_VOLATILITY * sqrt(step)), exp(_INTEREST * step)
    chance = (growth - 1.0 / up) / (up - 1.0 / up)
    rise, fall = chance / growth, (1.0 - chance) / growth
    values = [max(_STRIKE - price * up ** (steps - 2 * place), 0.0) for place in range(steps + 1)]
    children = values[:2]
    for left in range(steps - 1, -1, -1):
        children = values[:2]
        worth, squared = price * up**left, up * up
        for place in range(left + 1):
            later = rise * values[place] + fall * values[place + 1]
            now = _STRIKE - worth
            values[place] = later if later > now else now
            worth /= squared
    return values[0], children[0], children[1]
