"""A display that says the answers of one query as sentences, each once."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runners.spark.driver.run_history import BatchStatus
from penstock.runners.spark.terminal.display import Display, Samples

#: Answers of one look at most; more than a person reads.
_MOST = 500


class SentenceDisplay:
    """Passes a run on to a display and says what is new; the rows of other queries are not shown.

    Parameters
    ----------
    query, column, time
        Whose answers are said, which of their columns is the sentence, and by which they are put in order: those of one
        micro-batch come from several shards.

    Examples
    --------
    >>> from rich.console import Console
    >>> from penstock.runners.spark.terminal.display import PlainLines
    >>> display = SentenceDisplay(PlainLines(Console()), "alerts", "alert", "noticed")
    >>> alerts = [{"alert": "Order 9 was lost", "noticed": 8}, {"alert": "Order 7 was paid twice", "noticed": 5}]
    >>> answers = {"alerts": alerts, "others": [{"alert": "unheard"}]}
    >>> for _ in range(2):
    ...     display.show([], 1.0, lambda most: answers)
    Order 7 was paid twice
    Order 9 was lost
    the first batch is under way: Python workers start and operators are compiled
    """

    def __init__(self, display: Display, query: str, column: str, time: str) -> None:
        self.display, self.query, self.column, self.time = display, query, column, time
        self.said: set[str] = set()

    def say(self, text: str) -> None:
        self.display.say(text)

    def show(self, news: Sequence[BatchStatus], seconds: float, samples: Samples) -> None:
        for row in sorted(samples(_MOST).get(self.query, ()), key=lambda row: row[self.time]):
            sentence = str(row[self.column])
            if sentence not in self.said:
                self.said.add(sentence)
                self.display.say(sentence)
        self.display.show(news, seconds, _nothing)

    def close(self) -> None:
        self.display.close()


def _nothing(most: int) -> dict[str, Sequence[dict[str, object]]]:
    return {}
