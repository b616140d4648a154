"""Failing conditions as arrays of machine words, for loops that look at millions of events.

Every set is a row of 64-bit words, so that the numbers of types, leaves, partitions and terms have no limit. `ConditionTables`
is a named tuple of arrays: compiled loops take it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.violations import ViolationDetector

Words: TypeAlias = npt.NDArray[np.uint64]
Int64s: TypeAlias = npt.NDArray[np.int64]

_WORD = (1 << 64) - 1


class ConditionTables(NamedTuple):
    """All that a loop consults.

    Attributes
    ----------
    plus
        Type x: partitions that fail when x was seen.
    minus
        Type x, partition p: types of which each must have been seen, or p fails.
    local
        Type x, partition p: leaves of which each must be matched, or p fails.
    kill
        Type x: types that cannot come after x.
    before
        Leaf, real or virtual: leaves that must be matched earlier.
    leaves, parent, disjunction
        Partition: its leaves, the partition around it, the virtual leaf whose branch it is.
    sinks
        Partition: real leaves in which a match may end.
    of_type
        Type: its real leaves.
    terms
        Term: its partitions. No rows in hierarchy mode.
    joint_present, joint_absent, joint_partitions, joint_terms
        Joint condition: types seen, types gone unseen, what fails.
    joint_start, joint_index
        Type x: its joint conditions are `joint_index[joint_start[x]:joint_start[x + 1]]`.
    terminal
        Types that end a trace.
    exclusive, order
        Type x: types that contradict an x; types that must not have been seen before one.
    """

    plus: Words
    minus: Words
    local: Words
    kill: Words
    before: Words
    leaves: Words
    parent: Int64s
    disjunction: Int64s
    sinks: Words
    of_type: Words
    terms: Words
    joint_present: Words
    joint_absent: Words
    joint_partitions: Words
    joint_terms: Words
    joint_start: Int64s
    joint_index: Int64s
    terminal: Words
    exclusive: Words
    order: Words


def to_words(sets: Iterable[int], width: int) -> Words:
    """Sets as rows of words; `width` is how many members there may be.

    Examples
    --------
    >>> to_words([1 << 70, 5], 71).tolist()
    [[0, 64], [5, 0]]
    """
    count = max(1, -(-width // 64))
    rows = [[one >> (64 * word) & _WORD for word in range(count)] for one in sets]
    return np.array(rows, np.uint64).reshape(len(rows), count)


def from_words(row: Words) -> int:
    """Inverse of `to_words` for one row."""
    return sum(int(word) << (64 * place) for place, word in enumerate(row))


def condition_tables(conditions: FailingConditions) -> ConditionTables:
    """The arrays of a query's failing conditions."""
    theory, graph = conditions.theory, conditions.graph
    types, leaves, partitions = len(theory.names), len(graph.before), len(graph.partitions)
    joint = conditions.joint
    detector = ViolationDetector(theory, conditions.relevant)
    counts = [len(row) for row in conditions.joint_of]
    return ConditionTables(
        plus=to_words(conditions.plus, partitions),
        minus=_stacked(conditions.minus, types),
        local=_stacked(conditions.local, leaves),
        kill=to_words(theory.kills, types),
        before=to_words(graph.before, leaves),
        leaves=to_words((part.leaves for part in graph.partitions), leaves),
        parent=np.array([part.parent for part in graph.partitions], np.int64),
        disjunction=np.array([part.disjunction for part in graph.partitions], np.int64),
        sinks=to_words((graph.sinks_of(1 << number) for number in range(partitions)), leaves),
        of_type=to_words((_leaves_of(graph.types, name) for name in theory.names), leaves),
        terms=to_words(conditions.terms, partitions),
        joint_present=to_words((item.explanation.present for item in joint), types),
        joint_absent=to_words((item.explanation.absent for item in joint), types),
        joint_partitions=to_words((item.partitions for item in joint), partitions),
        joint_terms=to_words((item.terms for item in joint), len(conditions.terms)),
        joint_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        joint_index=np.array([number for row in conditions.joint_of for number in row], np.int64),
        terminal=to_words([theory.terminals], types)[0],
        exclusive=to_words(detector.exclusive, types),
        order=to_words(detector.order, types),
    )


def _stacked(rows: Sequence[Sequence[int]], width: int) -> Words:
    return np.stack([to_words(row, width) for row in rows])


def _leaves_of(types: tuple[str, ...], name: str) -> int:
    return sum(1 << leaf for leaf, kind in enumerate(types) if kind == name)


def atom_leaves(conditions: FailingConditions) -> dict[tuple[int, str], int]:
    """Leaf of the reasoner for each atom of the pattern and event type: what an engine that knows atoms translates by."""
    graph = conditions.graph
    return {(graph.engine_leaves[leaf], graph.types[leaf]): leaf for leaf in range(graph.leaf_count)}
