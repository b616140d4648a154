"""Failing conditions as arrays of machine words, for loops that look at millions of events.

Every set is a row of 64-bit words, so that the numbers of types, leaves, partitions and terms have no limit. All sets of a query
have as many words, so that one compiled loop serves them all. `ConditionTables` is a named tuple of arrays: compiled loops take
it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.columnar.word_sets import no_members
from penstock.metadata.constraints.conditions import FailingConditions
from penstock.metadata.constraints.violations import ViolationDetector

Words: TypeAlias = npt.NDArray[np.uint64]
Int64s: TypeAlias = npt.NDArray[np.int64]

_WORD = (1 << 64) - 1


class ConditionTables(NamedTuple):
    """All that a loop consults.

    Attributes
    ----------
    none
        The empty set, in as many words as all sets have.
    plus
        Type x: partitions that fail when x was seen.
    minus
        Row x * partitions + p: types of which each must have been seen when x was, or p fails.
    local
        Row x * partitions + p: leaves of which each must be matched when x was seen, or p fails.
    before
        Leaf, real or virtual: leaves that must be matched earlier.
    leaves, parent, disjunction
        Partition: its leaves, the partition around it, the virtual leaf whose branch it is.
    sinks
        Partition: real leaves in which a match may end.
    of_type, leaf_type
        Type: its real leaves; real leaf: its type.
    terms
        Term: its partitions. No rows in hierarchy mode.
    joint_present, joint_absent, joint_partitions, joint_terms
        Joint condition: types seen, types gone unseen, what fails.
    joint_start, joint_index
        Type x: its joint conditions are `joint_index[joint_start[x]:joint_start[x + 1]]`.
    triggers, terminals
        Types that can fail something, and types that end a trace.
    exclusive, order
        Type x: types that contradict an x; types after which no x comes.
    """

    none: tuple[Any, ...]
    plus: Words
    minus: Words
    local: Words
    before: Words
    leaves: Words
    parent: Int64s
    disjunction: Int64s
    sinks: Words
    of_type: Words
    leaf_type: Int64s
    terms: Words
    joint_present: Words
    joint_absent: Words
    joint_partitions: Words
    joint_terms: Words
    joint_start: Int64s
    joint_index: Int64s
    triggers: tuple[Any, ...]
    terminals: tuple[Any, ...]
    exclusive: Words
    order: Words


def to_words(sets: Iterable[int], words: int) -> Words:
    """Sets as rows of so many words.

    Examples
    --------
    >>> to_words([1 << 70, 5], 2).tolist()
    [[0, 64], [5, 0]]
    """
    rows = [[one >> (64 * word) & _WORD for word in range(words)] for one in sets]
    return np.array(rows, np.uint64).reshape(len(rows), words)


def from_words(row: Words) -> int:
    """Inverse of `to_words` for one row."""
    return sum(int(word) << (64 * place) for place, word in enumerate(row))


def words_of(conditions: FailingConditions) -> int:
    """How many words every set of a query has: a power of two, so that loops are compiled for few numbers."""
    words = -(-max(set_sizes(conditions)) // 64)
    return 1 << (words - 1).bit_length()


def set_sizes(conditions: FailingConditions) -> tuple[int, int, int, int]:
    """How many types, leaves, partitions and terms there are."""
    graph = conditions.graph
    return len(conditions.theory.names), len(graph.before), len(graph.partitions), len(conditions.terms)


def condition_tables(conditions: FailingConditions) -> ConditionTables:
    """The arrays of a query's failing conditions."""
    theory, graph, joint = conditions.theory, conditions.graph, conditions.joint
    words, partitions = words_of(conditions), range(len(graph.partitions))
    detector = ViolationDetector(theory, conditions.relevant)
    counts = [len(row) for row in conditions.joint_of]

    def rows(sets: Iterable[int]) -> Words:
        return to_words(sets, words)

    return ConditionTables(
        none=no_members(words),
        plus=rows(conditions.plus),
        minus=rows(chain.from_iterable(conditions.minus)),
        local=rows(chain.from_iterable(conditions.local)),
        before=rows(graph.before),
        leaves=rows(part.leaves for part in graph.partitions),
        parent=np.array([part.parent for part in graph.partitions], np.int64),
        disjunction=np.array([part.disjunction for part in graph.partitions], np.int64),
        sinks=rows(graph.sinks_of(1 << number) for number in partitions),
        of_type=rows(_leaves_of(graph.types, name) for name in theory.names),
        leaf_type=np.array([theory.code[name] for name in graph.types], np.int64),
        terms=rows(conditions.terms),
        joint_present=rows(item.explanation.present for item in joint),
        joint_absent=rows(item.explanation.absent for item in joint),
        joint_partitions=rows(item.partitions for item in joint),
        joint_terms=rows(item.terms for item in joint),
        joint_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        joint_index=np.array([number for row in conditions.joint_of for number in row], np.int64),
        triggers=tuple(rows([conditions.triggers])[0]),
        terminals=tuple(rows([theory.terminals])[0]),
        exclusive=rows(detector.exclusive),
        order=rows(detector.order),
    )


def _leaves_of(types: tuple[str, ...], name: str) -> int:
    return sum(1 << leaf for leaf, kind in enumerate(types) if kind == name)
