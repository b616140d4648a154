"""Tell what a reproduction has shown: a table for people, Markdown for pages, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.experiments.contracts import Claim, Experiment, Reproduction, ReproductionOutcome, Settings

#: Processes per processor, this one included, from which on others disturb what is timed.
_BUSY = 1.2


@dataclass(frozen=True, slots=True)
class Result:
    """One experiment with its outcome and how long it took."""

    experiment: Experiment
    outcome: ReproductionOutcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """A reproduction that was run."""

    reproduction: Reproduction
    settings: Settings
    results: tuple[Result, ...]
    #: Processes that wanted to run beside it, on average and per processor; None: not known.
    load: float | None = None

    @property
    def command(self) -> str:
        """What makes the same page again."""
        words = [f"penstock reproduce {self.reproduction.name}"]
        words += [f"--seeds {self.settings.seeds}"] if self.settings.seeds != self.reproduction.seeds else []
        return " ".join([*words, *(["--quick"] if self.settings.is_quick else [])])

    @property
    def busy_text(self) -> str:
        """A warning where the machine had other work to do; empty where it had not, or where that is not known."""
        if self.load is None or self.load < _BUSY:
            return ""
        return (
            f"The machine was busy, with {self.load:.1f} processes for each processor: counters are exact all the same, "
            "what is said about time is not to be relied on, and its error bars show it."
        )

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims, in order."""
        return tuple(claim for result in self.results for claim in result.outcome.claims)

    @property
    def held(self) -> int:
        """How many claims held."""
        return sum(claim.held for claim in self.claims)

    @property
    def summary(self) -> str:
        """One sentence."""
        return f"{self.held} of {len(self.claims)} claims held"

    def to_json(self) -> dict[str, Any]:
        return {
            "reproduction": self.reproduction.name,
            "title": self.reproduction.title,
            "reference": self.reproduction.reference,
            "seeds": len(self.settings.seed_numbers()),
            "quick": self.settings.is_quick,
            "load": None if self.load is None else round(self.load, 2),
            "claims": len(self.claims),
            "held": self.held,
            "experiments": [_result_json(result) for result in self.results],
        }

    def print_to(self, console: Console) -> None:
        """The table of claims."""
        title = f"{self.reproduction.title}: {self.summary}"
        table = Table(title=title, title_justify="left", title_style="bold", pad_edge=False, box=HORIZONTALS, show_lines=True)
        table.add_column("claim", no_wrap=True)
        table.add_column("")
        table.add_column("says", ratio=3)
        table.add_column("measured", ratio=4)
        for claim in self.claims:
            measured = f"{claim.measured}\n[dim]{claim.basis.words(self.settings)}[/dim]"
            table.add_row(claim.id, _verdict(claim), f"{claim.text}\n[dim]{claim.expected}[/dim]", measured)
        console.print(table)

    def to_markdown(self, figures: str = ".") -> str:
        """A page with a table of claims and the figures.

        Parameters
        ----------
        figures
            Folder of the figures, as seen from the page.
        """
        return "\n".join(self._markdown_lines(figures)).rstrip() + "\n"

    def _markdown_lines(self, figures: str) -> Iterator[str]:
        yield from (f"# {self.reproduction.title}", "")
        yield f"{self.summary}{' (quick mode)' if self.settings.is_quick else ''}. The last column says what each was judged by."
        yield from ((f"{self.busy_text}",) if self.busy_text else ())
        yield f"Made by `{self.command}`; the experiments repeat [{self.reproduction.reference}]."
        yield from ("", "| Claim | Held | Says | Expected | Measured | Judged by |", "|---|---|---|---|---|---|")
        for claim in self.claims:
            verdict, basis = "held" if claim.held else "**not held**", claim.basis.words(self.settings)
            cells = (claim.id, verdict, claim.text, claim.expected, claim.measured, basis)
            yield "| " + " | ".join(_cell(text) for text in cells) + " |"
        for result in self.results:
            item = result.experiment
            yield from ("", f"## {item.id} {item.title}", "", f"{item.setup} Repeats {item.source}.", "")
            yield f"![{item.id}]({figures}/{item.id}.png)"


def _verdict(claim: Claim) -> Text:
    return Text("held", style="green") if claim.held else Text("not held", style="bold red")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _result_json(result: Result) -> dict[str, Any]:
    item = result.experiment
    return {
        "id": item.id,
        "title": item.title,
        "source": item.source,
        "setup": item.setup,
        "seconds": round(result.seconds, 2),
        "claims": [claim.to_json() for claim in result.outcome.claims],
    }
