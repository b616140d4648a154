"""Every reproduction by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.errors import UnknownReproduction

if TYPE_CHECKING:
    from penstock.experiments.contracts import Reproduction

# The experiments load compiled operators; the command line, which only wants the names, need not wait for them.


def _pjoin() -> Reproduction:
    from penstock.experiments.pjoin.reproduction import PJOIN

    return PJOIN


def _pwjoin() -> Reproduction:
    from penstock.experiments.pwjoin.reproduction import PWJOIN

    return PWJOIN


def _mpwjoin() -> Reproduction:
    from penstock.experiments.mpwjoin.reproduction import MPWJOIN

    return MPWJOIN


def _agreedy() -> Reproduction:
    from penstock.experiments.agreedy.reproduction import AGREEDY

    return AGREEDY


def _ccep() -> Reproduction:
    from penstock.experiments.ccep.reproduction import CCEP

    return CCEP


def _scheduling() -> Reproduction:
    from penstock.experiments.scheduling.reproduction import SCHEDULING

    return SCHEDULING


def _tuple_scheduling() -> Reproduction:
    from penstock.experiments.tuple_scheduling.reproduction import TUPLE_SCHEDULING

    return TUPLE_SCHEDULING


def _qos() -> Reproduction:
    from penstock.experiments.qos.reproduction import QOS

    return QOS


def _capacity() -> Reproduction:
    from penstock.experiments.capacity.reproduction import CAPACITY

    return CAPACITY


def _shedding() -> Reproduction:
    from penstock.experiments.shedding.reproduction import SHEDDING

    return SHEDDING


REPRODUCTIONS: Mapping[str, Callable[[], Reproduction]] = {
    "pjoin": _pjoin,
    "pwjoin": _pwjoin,
    "mpwjoin": _mpwjoin,
    "agreedy": _agreedy,
    "ccep": _ccep,
    "scheduling": _scheduling,
    "tuple_scheduling": _tuple_scheduling,
    "qos": _qos,
    "capacity": _capacity,
    "shedding": _shedding,
}


def reproduction_named(name: str) -> Reproduction:
    """The experiments of an operator.

    Examples
    --------
    >>> len(reproduction_named("mpwjoin").experiments)
    3
    """
    try:
        load = REPRODUCTIONS[name]
    except KeyError:
        raise UnknownReproduction("the table of reproductions", "reproduction", name, REPRODUCTIONS) from None
    return load()
