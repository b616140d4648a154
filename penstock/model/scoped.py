"""Punctuations that hold for some rows only, or only probably.

An ordinary punctuation is negative and has no end: rows that match it never come again. Two more kinds help an operator
that must choose what to keep in memory:

* *scoped*, positive: each of the next N rows matches one of the patterns;
* *probable*: the statement is true with a probability below 1.

Neither may ever be treated as an ordinary punctuation: results must not depend on it unless a query accepts that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidPattern
from penstock.model.elements import Herald
from penstock.model.masks import Mask
from penstock.model.punctuation import Punctuation

#: What a `Herald` that carries one of these says in its detail.
_KIND = "scoped"


@dataclass(frozen=True, slots=True)
class ScopedPunctuation:
    """A statement about the next rows of one input.

    Parameters
    ----------
    patterns
        Alternatives, at least one. Positive: each row in scope matches one of them. Negative: none matches any.
    rows
        How many rows it speaks about; None: all that come.
    confidence
        Probability that it is true, greater than 0 and at most 1. For a positive statement: the probability that a value
        outside the patterns does not come within the scope.
    is_positive
        Whether rows match, or do not match.

    Examples
    --------
    >>> from penstock.model.value_sets import between
    >>> hot = ScopedPunctuation.next_rows(5000, Punctuation.of(("A",), A=between(2001)))
    >>> print(hot)
    ⟨next 5000: A=[2001,∞)⟩
    >>> hot.may_match(pa.RecordBatch.from_pydict({"A": [100, 2000, 2001, 5000]})).tolist()
    [False, False, True, True]
    """

    patterns: tuple[Punctuation, ...]
    rows: int | None = None
    confidence: float = 1.0
    is_positive: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.confidence <= 1:
            raise InvalidPattern(
                f"a confidence of {self.confidence} is no probability; write a number greater than 0 and at most 1", "punctuation"
            )
        if self.rows is not None and self.rows < 0:
            raise InvalidPattern(
                f"a scope of {self.rows} rows is negative; write how many rows to come it speaks about", "punctuation"
            )
        if not self.patterns:
            raise InvalidPattern("a scope without pattern says nothing; name at least one attribute", "punctuation")

    @classmethod
    def next_rows(cls, rows: int, *patterns: Punctuation, confidence: float = 1.0) -> ScopedPunctuation:
        """The next `rows` rows match one of the patterns."""
        return cls(patterns, rows, confidence)

    @classmethod
    def nothing_known(cls) -> ScopedPunctuation:
        """A scope has ended and no other follows: any row may come."""
        return cls((Punctuation((), ()),), 0)

    @property
    def is_exact(self) -> bool:
        """Whether the source vouches for it."""
        return self.confidence == 1.0

    @property
    def says_nothing(self) -> bool:
        """Whether every row may come."""
        return self.is_positive and (self.rows == 0 or any(pattern.is_end_of_stream for pattern in self.patterns))

    def may_match(self, rows: pa.RecordBatch) -> Mask:
        """Which rows may come within the scope, if the statement is true."""
        matched: Mask = np.zeros(rows.num_rows, np.bool_)
        for pattern in self.patterns:
            matched |= pattern.matches_batch(rows)
        return matched if self.is_positive else ~matched

    def after(self, rows: int) -> ScopedPunctuation:
        """What is left of it when so many rows of the scope have come."""
        return self if self.rows is None else replace(self, rows=max(self.rows - rows, 0))

    def rename(self, names: Mapping[str, str]) -> ScopedPunctuation:
        """The same statement under other attribute names."""
        return replace(self, patterns=tuple(pattern.rename(names) for pattern in self.patterns))

    def as_ordinary(self) -> Punctuation | None:
        """The ordinary punctuation it is, or None: only a certain, negative statement without end is one."""
        is_ordinary = not self.is_positive and self.rows is None and self.is_exact and len(self.patterns) == 1
        return self.patterns[0] if is_ordinary else None

    def to_herald(self) -> Herald:
        """The element it travels as."""
        detail = {"kind": _KIND, "rows": self.rows, "confidence": self.confidence, "positive": self.is_positive}
        others = [pattern.to_json() for pattern in self.patterns[1:]]
        return Herald(self.patterns[0], {**detail, "others": others})

    def __str__(self) -> str:
        stated = " or ".join(", ".join(f"{name}={p}" for name, p in mark.restricted.items()) or "*" for mark in self.patterns)
        scope = f"next {self.rows}: " if self.rows is not None else "next: " if self.is_positive else ""
        negation = "" if self.is_positive or self.rows is None else "not "
        chance = "" if self.is_exact else f" ({self.confidence:.0%})"
        return f"⟨{scope}{negation}{stated}{chance}⟩"


def scoped_from_herald(herald: Herald) -> ScopedPunctuation | None:
    """Inverse of `ScopedPunctuation.to_herald`; None for a herald that is something else."""
    detail: Mapping[str, Any] = herald.detail
    if detail.get("kind") != _KIND:
        return None
    others = tuple(Punctuation.from_json(coded) for coded in detail["others"])
    return ScopedPunctuation((herald.pattern, *others), detail["rows"], detail["confidence"], detail["positive"])
