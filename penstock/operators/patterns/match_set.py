"""Matches over stored rows, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.model.batch import Int64s


def chosen_parts(starts: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s]:
    """Of parts one behind the other, where the chosen ones start when they are put together, and the entries they take.

    Examples
    --------
    >>> chosen_parts(np.array([0, 2, 5]), np.array([1]))
    (array([0, 3]), array([2, 3, 4]))
    """
    lengths = np.diff(starts)[chosen]
    shifted = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return shifted, np.arange(shifted[-1]) + np.repeat(starts[chosen] - shifted[:-1], lengths)


@dataclass(frozen=True, slots=True)
class MatchSet:
    """Matches over stored rows: match m takes rows `rows[starts[m] : starts[m + 1]]` at the atoms beside them."""

    term: Int64s
    decided: Int64s
    starts: Int64s
    rows: Int64s
    atoms: Int64s
    ids: Int64s

    @property
    def number(self) -> int:
        return len(self.term)

    def take(self, chosen: Int64s) -> MatchSet:
        starts, nodes = chosen_parts(self.starts, chosen)
        return MatchSet(self.term[chosen], self.decided[chosen], starts, self.rows[nodes], self.atoms[nodes], self.ids[chosen])

    def once_per_events(self) -> MatchSet:
        """Without the matches whose events are those of a match of an earlier term.

        Examples
        --------
        >>> whole = np.array([0, 2, 4, 6])
        >>> rows, atoms = np.array([5, 6, 6, 5, 5, 7]), np.array([0, 1, 2, 3, 2, 3])
        >>> found = MatchSet(np.array([0, 1, 1]), np.array([9, 9, 9]), whole, rows, atoms, np.array([1, 2, 3]))
        >>> found.once_per_events().ids
        array([1, 3])
        """
        lengths, owners = np.diff(self.starts), np.repeat(np.arange(self.number), np.diff(self.starts))
        rows = self.rows[np.lexsort((self.rows, owners))]
        stays = np.ones(self.number, np.bool_)
        for length in np.unique(lengths):
            alike = np.flatnonzero(lengths == length)
            taken = rows[self.starts[alike][:, None] + np.arange(length)]
            _, which = np.unique(taken, axis=0, return_inverse=True)
            first = np.full(len(alike), np.iinfo(np.int64).max)
            np.minimum.at(first, which.reshape(-1), self.term[alike])
            stays[alike] = self.term[alike] == first[which.reshape(-1)]
        return self.take(np.flatnonzero(stays))
