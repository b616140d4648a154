"""Columns of several inputs that must be equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

#: A column of an input.
Attribute: TypeAlias = tuple[int, str]


def classes_of(pairs: Iterable[tuple[Attribute, Attribute]]) -> list[list[Attribute]]:
    """Columns that must all be equal if those of each pair are, class by class in the order they were written.

    Examples
    --------
    >>> classes_of([((0, "a"), (1, "b")), ((0, "c"), (2, "c")), ((1, "b"), (2, "d"))])
    [[(0, 'a'), (1, 'b'), (2, 'd')], [(0, 'c'), (2, 'c')]]
    """
    found: list[list[Attribute]] = []
    for pair in pairs:
        touched = [members for members in found if any(item in members for item in pair)]
        whole = [member for members in touched for member in members]
        whole += [item for item in dict.fromkeys(pair) if item not in whole]
        place = found.index(touched[0]) if touched else len(found)
        found = [members for members in found if members not in touched]
        found.insert(place, whole)
    return found
