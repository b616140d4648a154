"""The hints of the language and their options: one table that the parser, the checks, `explain`, the manual and the run read.

Examples
--------
>>> problem_of("APPROXIMATE", (("recal", 0.9),))
"there is no option 'recal' of APPROXIMATE; it has recall. Did you mean 'recall'?"
>>> problem_of("PWJOIN", (("on_violation", "foo"),))
"on_violation is 'foo'; expected 'error', 'quarantine' or 'trust'"
>>> problem_of("PWJOIN", (("spread", True),))
''
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from penstock.errors import suggestion

HintValue: TypeAlias = str | int | float | bool
Options: TypeAlias = tuple[tuple[str, HintValue], ...]

_MANY = 2**62


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a hint.

    Parameters
    ----------
    means
        What it decides, in one sentence for the manual.
    default
        What holds where it is not written; None: `unless` says it in words.
    kind
        `bool`, `int`, `float` (which takes whole numbers too) or `str`.
    words
        Texts that are legal: all there are, or those legal beside numbers.
    least, above, most
        Limits of a number; it is greater than `above`.
    is_required
        Whether it must be written.
    """

    name: str
    means: str
    default: HintValue | None = None
    kind: type = str
    words: tuple[str, ...] = ()
    least: float = -_MANY
    above: float | None = None
    most: float = _MANY
    is_required: bool = False
    unless: str = ""

    def takes(self, value: HintValue) -> bool:
        if isinstance(value, str):
            return value in self.words
        if self.kind is bool or isinstance(value, bool):
            return self.kind is bool and isinstance(value, bool)
        if self.kind is str or (self.kind is int and not isinstance(value, int)):
            return False
        return self.least <= value <= self.most and (self.above is None or value > self.above)

    @property
    def values_text(self) -> str:
        """What may be written, in words."""
        if self.kind is bool:
            return "TRUE or FALSE"
        words = [f"'{word}'" for word in self.words]
        if self.kind is not str:
            words.insert(0, ("a whole number" if self.kind is int else "a number") + self._limits)
        return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

    @property
    def _limits(self) -> str:
        lower = f"greater than {self.above:g}" if self.above is not None else ""
        lower = f"of at least {self.least:g}" if self.least != -_MANY else lower
        upper = f"at most {self.most:g}" if self.most != _MANY else ""
        return "".join(f" {text}" for text in [" and ".join(filter(None, (lower, upper)))] if text)


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint: its name, what it asks for, and its options."""

    name: str
    means: str
    options: tuple[Option, ...] = ()

    def option(self, name: str) -> Option | None:
        return next((option for option in self.options if option.name == name), None)

    def value(self, options: Options, name: str) -> HintValue | None:
        """What an option is, written or by default; None for options the hint does not have."""
        known = self.option(name)
        return dict(options).get(name, known.default if known is not None else None)


def problem_of(hint: str, options: Options) -> str:
    """What is wrong with the options of a hint, and what would be right; empty: nothing."""
    known = HINTS[hint]
    written = dict(options)
    for name, value in options:
        option = known.option(name)
        if option is None and name in RETIRED and hint not in ("ORDER", "MJOIN"):
            return f"'{name}' was an option of a published join and says nothing about the join of today: leave it out"
        if option is None:
            return f"there is no option '{name}' of {hint}; {suggestion(name, [item.name for item in known.options])}"
        if sum(other == name for other, _ in options) > 1:
            return f"{name} stands twice; keep one"
        if not option.takes(value):
            return f"{name} is {_shown(value)}; expected {option.values_text}{_nearest(value, option.words)}"
    for option in known.options:
        if option.is_required and option.name not in written:
            return f"{hint} needs {option.name}, {option.values_text}: {option.means}"
    return ""


def _nearest(value: HintValue, words: Sequence[str]) -> str:
    near = get_close_matches(str(value).lower(), words, n=1, cutoff=0.5)
    return f". Did you mean '{near[0]}'?" if near else ""


def _shown(value: HintValue) -> str:
    return str(value).upper() if isinstance(value, bool) else repr(value)


def _chosen(options: Sequence[Option], names: Iterable[str]) -> tuple[Option, ...]:
    wanted = set(names)
    return tuple(option for option in options if option.name in wanted)


_MEMORY = Option(
    "memory_bytes", "bytes of all sources' rows that stay in memory in each shard; others are spilled", None, int, least=1,
    unless="no limit but that of `--memory`",
)  # fmt: skip
_PUNCTUATED = (
    _MEMORY,
    Option("on_violation", "what becomes of rows that break a punctuation of their source, where the stream trusts them", "trust",
           words=("error", "quarantine", "trust")),
    Option("max_drop_markers", "values and intervals remembered as closed", 100_000, int, least=2),
)  # fmt: skip
_SPREAD = Option("spread", "rows are counted in one shard and joined in all; for windows of rows", False, bool)
#: Options of published joins that say nothing about the join of today, whichever hint stands before them.
RETIRED = (
    "activation_least", "activation_share", "buckets", "disk_join", "drop", "early_propagation", "expand_lists", "forget_closed",
    "loner_ttl", "memory_rows", "probe_access", "probe_order", "propagate_count", "propagate_time", "purge_access",
    "purge_threshold", "registry", "state", "uses_punctuations",
)  # fmt: skip
_ORDER = (
    Option("policy", "the algorithm that keeps the order", "agreedy",
           words=("fixed", "random", "agreedy", "sweep", "independent", "local_swaps")),
    Option("probability", "share of the rejected rows that is profiled; 0 freezes the order", None, float, least=0, most=1,
           unless="0.01, of `independent` 0.005"),
    Option("window_rows", "profiled rows that are remembered", None, int, least=1, unless="1000"),
    Option("alpha", "a filter that does worse than this share of a later one loses its place", 0.9, float, above=0, most=1),
    Option("stage_rows", "profiled rows for which `sweep` watches one place", 500, int, least=1),
    Option("min_fill", "profiled rows before anything is compared", None, int, least=1, unless="100, of `local_swaps` 500"),
    Option("min_support", "a filter that rejects fewer profiled rows challenges nobody", 0, int, least=0),
    Option("check", "when `sweep` compares", "stage_end", words=("stage_end", "continuous")),
    Option("move", "how a filter comes forward", "rotate", words=("rotate", "swap")),
    Option("window", "what bounds the profiled rows", "rows", words=("rows", "time")),
    Option("max_age", "event time after which profiled rows are forgotten", None, int, least=1, unless="never"),
    Option("chunk_rows", "rows between two decisions", 32_768, int, least=1),
    Option("seed", "of the coins that choose the profiled rows", 0, int),
    Option("on_error", "what becomes of a row on which a condition fails", "fail", words=("fail", "dead_letter")),
    Option("mode", "who decides: the driver, each shard, or both", "global", words=("global", "shard", "both")),
    Option("trimmed", "share of the slowest calls that is left out when costs are fitted", 0.0, float, least=0, most=1),
)  # fmt: skip
#: Of ORDER what means something where shards decide for themselves, by rows and not by time.
_PROBES = (
    "policy", "probability", "window_rows", "alpha", "stage_rows", "min_fill", "min_support", "check", "move", "chunk_rows", "seed",
)  # fmt: skip

HINTS: Mapping[str, Hint] = {
    hint.name: hint
    for hint in (
        Hint("PJOIN", "two sources without windows; punctuations remove rows", _PUNCTUATED),
        Hint("XJOIN", "two sources without windows; punctuations are ignored, nothing is ever forgotten", (_MEMORY,)),
        Hint("WJOIN", "two sources with windows; punctuations are ignored", (_MEMORY, _SPREAD)),
        Hint("MWJOIN", "several sources with windows; punctuations are ignored", (_MEMORY, _SPREAD)),
        Hint("PWJOIN", "two sources with windows and punctuations", (*_PUNCTUATED, _SPREAD)),
        Hint("MPWJOIN", "several sources with windows and punctuations", (*_PUNCTUATED, _SPREAD)),
        Hint("MJOIN", "three sources or more with windows, on any equalities; punctuations are ignored", _chosen(_ORDER, _PROBES)),
        Hint(
            "APPROXIMATE", "two sources; probable ends of values remove rows as well",
            (Option("recall", "the share of the answers that must come", None, float, above=0, most=1, is_required=True),),
        ),
        Hint("ORDER", "conditions on one source change places", _ORDER),
    )
}  # fmt: skip
