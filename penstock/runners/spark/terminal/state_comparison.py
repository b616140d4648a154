"""Two queries that join the same rows, one helped by punctuations and one by its window only: their state side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.runners.spark.driver.run_history import BatchStatus
from penstock.runners.spark.terminal.display import Display, Samples, bytes_text


@dataclass(frozen=True, slots=True)
class JoinState:
    """What the joins of a query keep."""

    query: str
    state_rows: int = 0
    state_bytes: int = 0

    @classmethod
    def at(cls, status: BatchStatus, query: str) -> JoinState:
        joins = [found for found in status.operators if "Join" in found.operator and query in found.queries]
        return cls(query, sum(join.state_rows for join in joins), sum(join.state_bytes for join in joins))

    def most(self, other: JoinState) -> JoinState:
        """Of each number the larger one."""
        return JoinState(self.query, max(self.state_rows, other.state_rows), max(self.state_bytes, other.state_bytes))

    def __str__(self) -> str:
        return f"{self.state_rows:,} {'row' if self.state_rows == 1 else 'rows'} ({bytes_text(self.state_bytes)})"


@dataclass(frozen=True, slots=True)
class StateComparison:
    """State of the same join with and without punctuations, after so many rows.

    Examples
    --------
    >>> found = StateComparison(JoinState("lean", 100, 3_400), JoinState("full", 60_000, 8_500_000), rows=60_200)
    >>> found.ratio
    600.0
    >>> print(found.sentence("keeps"))
    the same join keeps 100 rows (3.4 kB) with punctuations and 60,000 rows (8.5 MB) with a window only, of 60,200 rows seen
    """

    lean: JoinState
    full: JoinState
    rows: int = 0

    @property
    def ratio(self) -> float:
        """How many times as many rows are kept without punctuations."""
        return self.full.state_rows / max(self.lean.state_rows, 1)

    def sentence(self, verb: str) -> str:
        """One sentence with all numbers."""
        return f"the same join {verb} {self.lean} with punctuations and {self.full} with a window only, of {self.rows:,} rows seen"

    @property
    def lesson(self) -> str:
        """What a reader who has never heard of punctuations should take home."""
        return (
            "Both find the same pairs. A punctuation in the data says that an item is closed, so its rows can go at once; "
            f"a window alone keeps every row until its time is over: {self.ratio:,.0f} times as many."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "with": asdict(self.lean),
            "without": asdict(self.full),
            "rows": self.rows,
            "ratio": round(self.ratio, 1),
            "text": f"{self.sentence('kept at most')}. {self.lesson}",
        }


class StateMeter:
    """Follows the two queries over a run: how it is now, and the most each has kept."""

    def __init__(self, with_punctuations: str, window_only: str) -> None:
        self.now = StateComparison(JoinState(with_punctuations), JoinState(window_only))
        self.most = self.now

    def hear(self, statuses: Iterable[BatchStatus]) -> None:
        for status in statuses:
            lean, full = (JoinState.at(status, state.query) for state in (self.now.lean, self.now.full))
            rows = next((query.rows_in for query in status.queries if query.query == full.query), 0)
            self.now = StateComparison(lean, full, rows)
            # Rows of the batch that ends the streams are joined and forgotten at once: no state tells of them.
            seen = rows if full.state_rows else self.most.rows
            self.most = StateComparison(self.most.lean.most(lean), self.most.full.most(full), seen)

    def remark(self) -> str:
        """How it is now, or was: when the streams have ended nothing is kept any more."""
        return self.now.sentence("keeps") if self.now.full.state_rows else self.most.sentence("kept at most")


class MeteredDisplay:
    """A display whose news a meter hears first, so that it can remark on them."""

    def __init__(self, display: Display, meter: StateMeter) -> None:
        self.display = display
        self.meter = meter

    def say(self, text: str) -> None:
        self.display.say(text)

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        self.meter.hear(news)
        self.display.show(news, seconds, samples)

    def close(self) -> None:
        self.display.close()
