"""Figures of strategies as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan.analysis.estimation import bytes_text
from penstock.qos.scheduling.capacities import per_ns
from penstock.qos.scheduling.trees import Step


def number_text(number: float) -> str:
    """Four digits are enough.

    Examples
    --------
    >>> number_text(4000.0), number_text(0.123456), number_text(123.456)
    ('4,000', '0.1235', '123.5')
    """
    return f"{float(number):,.0f}" if abs(number) >= 1000 else f"{float(number):.4g}"


def time_text(nanoseconds: float) -> str:
    """A price.

    Examples
    --------
    >>> time_text(250_000), time_text(70), time_text(2.5e9)
    ('250 µs', '70 ns', '2.5 s')
    """
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            return f"{number_text(nanoseconds / size)} {unit}"
    return f"{number_text(nanoseconds)} ns"


def per_second(in_a_nanosecond: float, what: str) -> str:
    """A rate of rows or answers."""
    return f"{number_text(in_a_nanosecond * 1e9)} {what}/s"


def arriving_text(rate: float) -> str:
    """How much a path counts in a mean; nothing where all paths count the same, as nobody knows.

    Examples
    --------
    >>> arriving_text(1_500), arriving_text(0)
    (' (1,500 rows/s arrive)', '')
    """
    return f" ({number_text(rate)} rows/s arrive)" if rate > 0 else ""


def operators_text(operators: Iterable[str]) -> str:
    """Names as a list.

    Examples
    --------
    >>> operators_text(["cheap", "join"])
    "'cheap', 'join'"
    """
    return ", ".join(f"'{name}'" for name in dict.fromkeys(operators))


def step_text(step: Step) -> str:
    """What is known of an operator on a path."""
    price = step.price
    return (
        f"'{step.operator}': {time_text(price.share_ns)} and {bytes_text(price.row_bytes)} per row, selectivity"
        f" {number_text(price.selectivity)}; rows that reach it: {number_text(step.reach)} per row that enters"
    )


def memory_text(size: float) -> str:
    """Memory that is freed, or taken if negative.

    Examples
    --------
    >>> memory_text(2_000), memory_text(-2_000)
    ('2.0 kB', '-2.0 kB')
    """
    return bytes_text(float(size)) if size >= 0 else f"-{bytes_text(float(-size))}"


def release_text(released: float, nanoseconds: float) -> str:
    """How fast memory is released.

    Examples
    --------
    >>> release_text(40, 200)
    '200.0 MB/s, as a row that enters releases 40 B in 200 ns'
    """
    rate = memory_text(per_ns(released, nanoseconds) * 1e9)
    return f"{rate}/s, as a row that enters releases {memory_text(released)} in {time_text(nanoseconds)}"
