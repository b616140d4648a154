"""How old answers are, whether they come in time, and columns that say so. Time is that of priced work: no clock is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import LateAnswer
from penstock.kernel.work import LONG_AGO_US, Terms
from penstock.model.batch import Batch
from penstock.model.elements import Quarantined
from penstock.model.schema import TIMESTAMP
from penstock.model.service import TIMING_COLUMNS, LateAnswers

#: Ages of answers are counted in classes: each ends at twice the one before, the first at a millisecond.
_FIRST_AGE_NS, AGE_CLASSES = 1_000_000, 24
#: Why answers are in the quarantine.
LATE_ANSWER = "late-answer"
#: Columns of answers that show whether they are in time.
TIMING_FIELDS = tuple(map(pa.field, TIMING_COLUMNS, (TIMESTAMP, TIMESTAMP, pa.bool_())))


@dataclass(slots=True)
class AnswerTimes:
    """Answers of one query since its checkpoint began: how many came in time, and how old they were.

    Parameters
    ----------
    age_ns
        Sum of the ages: from the micro-batch that brought the rows to the one that answered.
    ages
        Answers by class of age; see `age_class`.
    """

    rows: int = 0
    in_time: int = 0
    age_ns: int = 0
    ages: list[int] = field(default_factory=lambda: [0] * AGE_CLASSES)

    def add(self, batch: Batch, terms: Terms, since_ns: int, batch_ns: int, now_ns: int) -> None:
        """Answers of a micro-batch that began at `batch_ns`, made at `now_ns`."""
        rows, age = batch.num_rows, max(batch_ns - since_ns, 0)
        self.rows += rows
        self.age_ns += age * rows
        self.ages[age_class(age)] += rows
        deadlines = deadlines_ns(batch, terms, since_ns) if terms.has_validity else None
        self.in_time += rows if deadlines is None else int((deadlines >= now_ns).sum())

    def after(self, before: AnswerTimes) -> AnswerTimes:
        """What came since an earlier moment."""
        ages = [mine - theirs for mine, theirs in zip(self.ages, before.ages, strict=True)]
        return AnswerTimes(self.rows - before.rows, self.in_time - before.in_time, self.age_ns - before.age_ns, ages)

    def age_reached_ms(self, share: float) -> int:
        """An age that this share of the answers does not exceed: the end of a class, so at most twice the least such age.

        Examples
        --------
        >>> AnswerTimes(10, 10, 0, [9, 0, 0, 1]).age_reached_ms(0.9), AnswerTimes(10, 10, 0, [9, 0, 0, 1]).age_reached_ms(0.95)
        (0, 8)
        """
        reached = int(np.searchsorted(np.cumsum(self.ages), share * self.rows))
        return class_ends_ms(reached) if reached else 0

    def merge(self, other: AnswerTimes) -> None:
        """Count those of another shard too."""
        self.rows += other.rows
        self.in_time += other.in_time
        self.age_ns += other.age_ns
        self.ages = [mine + theirs for mine, theirs in zip(self.ages, other.ages, strict=True)]

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "in_time": self.in_time, "age_ns": self.age_ns, "ages": list(self.ages)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> AnswerTimes:
        return cls(found["rows"], found["in_time"], found["age_ns"], list(found["ages"]))


def age_class(age_ns: int) -> int:
    """The class of an age.

    Examples
    --------
    >>> [age_class(round(ms * 1e6)) for ms in (0, 0.5, 1, 1.5, 3, 10**12)]
    [0, 0, 1, 1, 2, 23]
    """
    return min((age_ns // _FIRST_AGE_NS).bit_length(), AGE_CLASSES - 1)


def class_ends_ms(number: int) -> int:
    """The age in milliseconds that no answer of a class exceeds, the last one's excepted."""
    return int(2**number)


def deadlines_ns(batch: Batch, terms: Terms, since_ns: int) -> npt.NDArray[np.int64]:
    """Until when each row of an answer is of use; the query has said so. Rows from the future are no younger than their arrival.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = Batch(pa.record_batch({"x": [1, 2, 3]}), np.array([0, 1_000_000, 9_000_000]), np.arange(3))
    >>> deadlines_ns(rows, Terms(after_event_us=500_000), since_ns=2_000_000_000).tolist()
    [500000000, 1500000000, 2500000000]
    """
    arrival = None if terms.after_arrival_us is None else since_ns + terms.after_arrival_us * 1_000
    if terms.after_event_us is None:
        assert arrival is not None
        return np.full(batch.num_rows, arrival, np.int64)
    found = (np.clip(batch.ts, -LONG_AGO_US, since_ns // 1_000) + terms.after_event_us) * 1_000
    return found if arrival is None else np.minimum(found, arrival)


def without_late(query: str, batch: Batch, terms: Terms, since_ns: int, now_ns: int) -> tuple[Batch, Sequence[Quarantined]]:
    """Answers that are still of use, and the others.

    Raises
    ------
    LateAnswer
        Where a late answer shall stop the run.
    """
    in_time = deadlines_ns(batch, terms, since_ns) >= now_ns
    if in_time.all():
        return batch, ()
    count = int((~in_time).sum())
    text = f"{count} answers of query '{query}' came when they were of no use any more"
    if terms.late is LateAnswers.ERROR:
        advice = "give it a longer validity or fewer rows, or declare ON LATE ANSWERS QUARANTINE or KEEP"
        raise LateAnswer(f"{text}; {advice}", f"query '{query}'")
    return batch.filter(in_time), [Quarantined(batch.filter(~in_time), LATE_ANSWER, text, query)]


def timed(batch: Batch, terms: Terms, since_ns: int, now_ns: int) -> Batch:
    """Answers that show when they were made, until when they are of use, and whether that is over.

    Examples
    --------
    >>> rows = Batch(pa.record_batch({"x": [1]}), np.array([0]), np.arange(1))
    >>> timed(rows, Terms(after_event_us=500_000), since_ns=100_000_000, now_ns=600_000_000).rows.column("late").to_pylist()
    [True]
    """
    if terms.has_validity:
        deadlines = deadlines_ns(batch, terms, since_ns)
        shown = pa.array(deadlines // 1_000, pa.int64()).view(TIMESTAMP)
        late = pa.array(deadlines < now_ns)
    else:
        shown, late = pa.nulls(batch.num_rows, TIMESTAMP), pa.array(np.zeros(batch.num_rows, np.bool_))
    made = pa.array(np.full(batch.num_rows, now_ns // 1_000), pa.int64()).view(TIMESTAMP)
    schema = pa.schema([*batch.schema, *TIMING_FIELDS])
    return batch.with_rows(pa.RecordBatch.from_arrays([*batch.rows.columns, made, shown, late], schema=schema))
