"""What may stand in `OPTIONS (…)` behind an event pattern."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import Place, SyntaxMistake, suggestion
from penstock.expressions.literals import shortened
from penstock.model.event_patterns import EventOrder, LastRun, Lists

#: Options that are one of a few words; the first is taken if none is written.
_LEGAL: dict[str, list[str]] = {
    "order": list(EventOrder),
    "reuse": ["true", "false"],
    "reasoning": ["auto", "fast", "exact", "off"],
    "kleene": list(Lists),
    "kleene_last": list(LastRun),
    "dedup": ["false", "true"],
    "dedup_branches": ["false", "true"],
}
_MOST_DIGITS = 18
_OPTIONS = (*_LEGAL, "event_id", "trace_ttl", "terminal", "max_runs_per_key", "position")


def read_options(written: Mapping[str, str], place: Place | None) -> dict[str, str]:
    """The options in lower case, with what holds where nothing is written.

    Raises
    ------
    SyntaxMistake
        An option that there is not, or a value that it cannot have.

    Examples
    --------
    >>> read_options({"ORDER": "Total", "terminal": "Done"}, None)["order"]
    'total'
    """
    options = {name.lower(): value for name, value in written.items()}
    for name in options:
        if name not in _OPTIONS:
            raise SyntaxMistake(f"EVENT has no option '{name}'; {suggestion(name, _OPTIONS)}", place)
    for name, values in _LEGAL.items():
        options[name] = options.get(name, values[0]).lower()
        if options[name] not in values:
            raise SyntaxMistake(f"option '{name}' is '{options[name]}'; {suggestion(options[name], values)}", place)
    runs = options.get("max_runs_per_key", "1")
    if not runs.isdecimal() or len(runs) > _MOST_DIGITS:
        raise SyntaxMistake(f"option 'max_runs_per_key' is '{shortened(runs)}'; write a number", place)
    return options
