"""When a join forgets rows, and which punctuations leave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.model.join_kinds import JoinKind
from penstock.model.windows import Framed, Rows, Sliding
from penstock.plan.analysis.holdings import (
    BoundedBy,
    Growth,
    Holding,
    bound_of,
    ends,
    is_landmark,
    keeps_growing,
    label,
    rows_within,
    sum_text,
    until_end,
)
from penstock.plan.analysis.knowledge import Knowledge, Scheme, SchemeKind, slowest
from penstock.plan.nodes.joins import WindowJoin
from penstock.plan.nodes.wording import length_text


def judge_join(node: WindowJoin, inputs: Sequence[Knowledge]) -> list[Holding]:
    """One holding for each input.

    A row of input i goes when its window has passed the event time of every other input, when all others have closed
    its key, or when its key is finished: one input has closed it and has no row of it left. The last rule needs that
    rows of *that* input go, so it is applied until nothing new follows.

    Where a window counts rows, every row also waits until all inputs have passed it. Punctuations count only if the
    operator that runs the join removes rows by them.
    """
    ports = range(len(node.parts))
    inputs = heard_by(node, inputs)
    if node.counts_rows and any(known.stalled for known in inputs):
        return [_waiting_for_ever(node, inputs, port) for port in ports]
    rules = (_by_count, _by_window, _by_others)
    found = {port: holding for port in ports if (holding := _first(rule(node, inputs, port) for rule in rules))}
    while True:
        more = {port: holding for port in ports if port not in found and (holding := _by_finished_keys(node, inputs, port, found))}
        if not more:
            break
        found |= more
    holdings = [found.get(port) or _without_bound(node, inputs, port) for port in ports]
    return [_held_back(holding) if port in node.kind.watched else holding for port, holding in enumerate(holdings)]


def heeds_punctuations(node: WindowJoin) -> bool:
    """Whether the operator of the join uses punctuations: the proof that its state is bounded may lean on nothing else."""
    return node.has_common_key and (node.hint is None or node.hint.heeds_punctuations)


def heard_by(node: WindowJoin, inputs: Sequence[Knowledge]) -> Sequence[Knowledge]:
    """What a join makes use of: a hint may ask for one that ignores punctuations."""
    return inputs if heeds_punctuations(node) else [replace(known, schemes=()) for known in inputs]


def _held_back(holding: Holding) -> Holding:
    """Rows that may be answers without partner keep their time, so the frontier of the output waits for them."""
    return replace(holding, why=f"{holding.why}; event time of the output waits for it until its answer is known")


def _first(found: Iterable[Holding | None]) -> Holding | None:
    return next((holding for holding in found if holding is not None), None)


def _by_count(node: WindowJoin, inputs: Sequence[Knowledge], port: int) -> Holding | None:
    """The window holds a number of rows; others wait for their place in the order of all inputs."""
    window = node.windows[port]
    if not isinstance(window, Rows) or window.size is None:
        return None
    name, behind = _names(node)[port], max(known.lag for known in inputs)
    why = f"its window holds the last {window.size} rows, counted in one shard; a row waits until all inputs have passed it"
    size = f"≤ {window.size} rows"
    if not behind:
        return Holding(f"rows of {name}", why, BoundedBy.COUNT, None, size, float(window.size))
    more = rows_within(inputs[port].rate, behind)
    rows = None if more is None else window.size + more
    size += f" + rate({name}) × {length_text(behind, node.has_clock_time)}"
    return Holding(f"rows of {name}", why, BoundedBy.COUNT, None, size, rows)


def _waiting_for_ever(node: WindowJoin, inputs: Sequence[Knowledge], port: int) -> Holding:
    names = _names(node)
    what = f"rows of {names[port]}"
    if ends(node.life):
        return until_end(what)
    slow, why = next((name, known.stalled) for name, known in zip(names, inputs, strict=True) if known.stalled)
    text = f"a row waits for its place in the order of all inputs, and event time of {slow} does not advance ({why})"
    return Holding(what, text, growth=Growth.ROWS)


def _names(node: WindowJoin) -> list[str]:
    return [label(part, keys) for part, keys in zip(node.parts, node.keys, strict=True)]


def _key_scheme(node: WindowJoin, inputs: Sequence[Knowledge], port: int) -> Scheme | None:
    return inputs[port].within(node.keys[port])


def _others(node: WindowJoin, port: int) -> list[int]:
    return [other for other in range(len(node.parts)) if other != port]


def _by_window(node: WindowJoin, inputs: Sequence[Knowledge], port: int) -> Holding | None:
    length = _window_length(node, port)
    if length is None or any(inputs[other].stalled for other in _others(node, port)):
        return None
    names, clock = _names(node), node.has_clock_time
    behind = max(inputs[other].lag for other in _others(node, port))
    partners = " and ".join(names[other] for other in _others(node, port))
    why = f"a row goes once {partners} {'is' if len(names) == 2 else 'are'} past its window of {length_text(length, clock)}"
    rows = rows_within(inputs[port].rate, length + behind)
    size = f"rate({names[port]}) × {sum_text(length, behind, clock)}"
    return Holding(f"rows of {names[port]}", why, BoundedBy.WINDOW, None, size, rows)


def _window_length(node: WindowJoin, port: int) -> int | None:
    """How long a row can be needed because of windows alone; None: without end."""
    window = node.windows[port]
    if isinstance(window, Sliding):
        return window.size
    if not isinstance(window, Framed) or is_landmark(window):
        return None
    others = [other for at, other in enumerate(node.windows) if at != port and isinstance(other, Framed)]
    # A row is needed as long as the other inputs' windows of its number are open; these must not run away from it.
    if window.move_start and any(other.move_end > window.move_start for other in others):
        return None
    return max(window.size, *(other.size for other in others))


def _by_others(node: WindowJoin, inputs: Sequence[Knowledge], port: int) -> Holding | None:
    """Every other input closes values of the key."""
    names = _names(node)
    schemes = [(other, _key_scheme(node, inputs, other)) for other in _others(node, port)]
    used = [(other, scheme) for other, scheme in schemes if scheme is not None]
    if len(used) < len(schemes):
        return None
    closers = " and ".join(f"{names[other]} closes its key ({scheme.origin})" for other, scheme in used)
    conditions = [text for other, scheme in used for text in _conditions(node, port, other, scheme)]
    return Holding(
        f"rows of {names[port]}", f"a row goes, or is not even stored, once {closers}", bound_of(used[0][1]), None,
        _open_keys(node, port), None, tuple(conditions),
    )  # fmt: skip


def _by_finished_keys(node: WindowJoin, inputs: Sequence[Knowledge], port: int, gone: dict[int, Holding]) -> Holding | None:
    names = _names(node)
    for other, holding in gone.items():
        scheme = _key_scheme(node, inputs, other)
        if other != port and scheme is not None:
            why = f"a row goes once {names[other]} has closed its key ({scheme.origin}) and keeps no row of it"
            conditions = (*_conditions(node, port, other, scheme), *holding.conditions)
            return Holding(f"rows of {names[port]}", why, bound_of(scheme), None, _open_keys(node, port), None, conditions)
    return None


def _open_keys(node: WindowJoin, port: int) -> str:
    return f"rows whose {', '.join(node.keys[port])} is still open"


def _conditions(node: WindowJoin, port: int, other: int, scheme: Scheme) -> list[str]:
    """Values closed behind their own rows are closed only if such rows come."""
    found = [scheme.condition] if scheme.condition else []
    if scheme.kind is SchemeKind.BEHIND_ROWS:
        among = f" among rows with {scheme.among}" if scheme.among else ""
        found.append(f"every {', '.join(node.keys[port])} also comes in {_names(node)[other]}{among}")
    return found


def _without_bound(node: WindowJoin, inputs: Sequence[Knowledge], port: int) -> Holding:
    names = _names(node)
    what = f"rows of {names[port]}"
    if ends(node.life):
        return until_end(what)
    stalled = [(names[other], inputs[other].stalled) for other in _others(node, port) if inputs[other].stalled]
    silent = (
        [_deafness(node)]
        if not heeds_punctuations(node)
        else [
            f"{names[other]} never closes {', '.join(node.keys[other])}"
            for other in _others(node, port)
            if _key_scheme(node, inputs, other) is None
        ]
    )
    window = node.windows[port]
    if isinstance(window, Framed) and keeps_growing(window):
        first = "its windows grow longer without end"
    elif _window_length(node, port) is None:
        first = "no window ends" if is_landmark(window) else "it has no window"
    else:
        first = f"event time of {stalled[0][0]} does not advance ({stalled[0][1]})"
    return Holding(what, f"a row is kept for ever: {first}, and {' and '.join(silent)}", growth=Growth.ROWS)


def _deafness(node: WindowJoin) -> str:
    if not node.has_common_key:
        return "windows alone make a multiway join forget"
    return f"the join that the hint {node.hint} asks for removes no rows by punctuations"


def through_join(node: WindowJoin, inputs: Sequence[Knowledge], holdings: Sequence[Holding]) -> Knowledge:
    """A punctuation of an input leaves once the rows it matches are gone; one on the key speaks for every key column.

    Where rows are answers without partner it speaks for fewer, see `JoinKind.stated_on`.
    """
    if not heeds_punctuations(node):
        return replace(_event_time(node, inputs, holdings), schemes=())
    schemes: dict[frozenset[str], Scheme] = {}
    for port, (known, holding) in enumerate(zip(inputs, holdings, strict=True)):
        if not holding.is_bounded or holding.by is BoundedBy.END:
            continue
        keys = {name.lower(): at for at, name in enumerate(node.keys[port])}
        for scheme in known.schemes:
            condition = " and ".join(filter(None, (scheme.condition, *holding.conditions)))
            passed = replace(scheme, condition=condition, among="")
            places = [keys.get(name.lower()) for name in scheme.columns]
            if None in places:
                if port == 0 or node.kind.shows_pairs:
                    schemes.setdefault(scheme.columns, passed)
                continue
            for target in range(len(node.keys)) if node.kind is JoinKind.INNER else node.kind.stated_on(port):
                columns = frozenset(node.keys[target][at] for at in places if at is not None)
                schemes.setdefault(columns, replace(passed, columns=columns))
    return replace(_event_time(node, inputs, holdings), schemes=tuple(schemes.values()))


def _event_time(node: WindowJoin, inputs: Sequence[Knowledge], holdings: Sequence[Holding]) -> Knowledge:
    """Event time of the output is behind that of the inputs by as long as a row can wait for its answer."""
    known = slowest(inputs)
    waits = 0
    for port in node.kind.watched:
        if not holdings[port].is_bounded or holdings[port].by is BoundedBy.END:
            why = f"rows of {_names(node)[port]} may be answered at any time, because nothing rules out partners"
            return replace(known, stalled=known.stalled or why)
        if holdings[port].by is BoundedBy.WINDOW:
            waits = max(waits, _window_length(node, port) or 0)
    return replace(known, lag=known.lag + waits)
