"""Every example application by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import UnknownExample

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Example:
    """An application that comes with Penstock.

    Parameters
    ----------
    twins
        Two of its queries that join the same rows, one helped by punctuations and one by its window only; the demo shows
        their state side by side.
    sentences
        Query, column and time of the answers that the demo says one by one, instead of a few answers of every query.
    story
        What a person must know to read them.
    package
        Its folder, if that is not called as the example.
    is_contrast
        Whether the demo runs it several times, under several strategies, and compares.
    seconds
        How long rows flow in the demo, unless somebody says otherwise; of each run, if there are several.

    Examples
    --------
    >>> example_named("auction").file.name
    'queries.sql'
    """

    name: str
    summary: str
    twins: tuple[str, str] | None = None
    sentences: tuple[str, str, str] | None = None
    story: str = ""
    package: str = ""
    is_contrast: bool = False
    seconds: float = 60.0

    @property
    def folder(self) -> Path:
        return _FOLDER / (self.package or self.name)

    @property
    def file(self) -> Path:
        return self.folder / "queries.sql"


EXAMPLES: Mapping[str, Example] = {
    example.name: example
    for example in (
        Example(
            "auction",
            "bids for items that open and close: joins and groups bounded by punctuations",
            twins=("bids_within_a_day", "bids_by_window_only"),
        ),
        Example("nexmark", "six queries of the Nexmark suite: joins that are unbounded elsewhere keep open auctions only"),
        Example("network", "packets at four routers: expensive conditions change places when the traffic changes"),
        Example(
            "orders",
            "orders on their way through a company: alerts on those that leave the process",
            sentences=("alerts", "alert", "noticed"),
            story="A hundred orders are under way, and each takes 24 seconds. One in twenty leaves the process somehow: each alert "
            "says when, which order, what happened and what the process expects. Times are those of the events; they begin at "
            "midnight.",
            package="order_fulfilment",
        ),
        Example(
            "burst",
            "a load that doubles for a while, under a budget: which queries wait with round_robin, and which with auto?",
            story="Two runs of the same stream at the same time, with the same budget for each half second. In the grey third of "
            "the figure twice as many trades come as usual, more than the budget can serve.",
            is_contrast=True,
        ),
        Example(
            "overload",
            "three times as many trades as usual, more than can be processed: what contracts of queries do about it",
            story="Five queries promise how old their answers may be. One may leave rows out, and one may wait. The same load "
            "comes again under each single strategy, with nothing left out: for how long are promises broken?",
            is_contrast=True,
            seconds=30.0,
        ),
        Example(
            "stocks",
            "trades of twelve stocks: rising runs and V shapes by MATCH_RECOGNIZE",
            sentences=("news", "sentence", "noticed"),
            story="Each stock is traded five times a second. Said are prices that gain 10 percent without a single step back, and "
            "prices that fall by 7 percent and come back. Times are those of the trades; they begin at midnight.",
        ),
    )
}


def example_named(name: str) -> Example:
    try:
        return EXAMPLES[name]
    except KeyError:
        raise UnknownExample("the table of demos", "demo", name, EXAMPLES) from None
