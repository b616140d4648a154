"""The event-listener registry of PJoin, as data: which component runs when, under which condition, in which order.

Memory join is the main activity. A monitor compares parameters with thresholds and fires events; each event runs its rules
in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Event(StrEnum):
    """What the monitor fires."""

    #: Both inputs have run out of tuples for now.
    STREAM_EMPTY = "stream_empty"
    #: As many punctuations as the purge threshold have arrived since the last purge.
    PURGE_THRESHOLD_REACHED = "purge_threshold_reached"
    #: The tuples in memory have reached the memory threshold.
    STATE_FULL = "state_full"
    #: A punctuation has arrived.
    NEW_PUNCTUATION = "new_punctuation"
    #: An operator downstream asks for punctuations.
    PROPAGATE_REQUEST = "propagate_request"
    #: The time propagation threshold has passed since the last propagation.
    PROPAGATE_TIME_EXPIRED = "propagate_time_expired"
    #: As many punctuations as the count propagation threshold have arrived since the last propagation.
    PROPAGATE_COUNT_REACHED = "propagate_count_reached"
    #: A punctuation has arrived whose keys the other input has closed already.
    PAIR_ARRIVED = "pair_arrived"


class Condition(StrEnum):
    """What must hold when an event is fired, or the rule is passed over."""

    ALWAYS = "always"
    #: Some bucket promises as many new results as the activation threshold asks.
    ACTIVATION_REACHED = "activation_reached"
    #: C1: some punctuation has not been used for a purge.
    PURGE_PENDING = "purge_pending"
    #: C2: every punctuation has been used.
    PURGE_DONE = "purge_done"
    #: C3: left-over joins on disk or in a purge buffer hold punctuations back.
    LEFT_OVER = "left_over"


class Listener(StrEnum):
    """The components."""

    DISK_JOIN = "disk_join"
    STATE_PURGE = "state_purge"
    STATE_RELOCATION = "state_relocation"
    INDEX_BUILD = "index_build"
    #: Lets every punctuation go that no tuple of its own input holds back (Lemma 2).
    PROPAGATION = "propagation"
    #: Lets only those go that both inputs have announced (Lemma 3).
    PAIRED_PROPAGATION = "paired_propagation"


_PROPAGATIONS = frozenset({Listener.PROPAGATION, Listener.PAIRED_PROPAGATION})


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the registry."""

    event: Event
    listeners: tuple[Listener, ...]
    condition: Condition = Condition.ALWAYS

    def __str__(self) -> str:
        guard = "" if self.condition is Condition.ALWAYS else f" if {self.condition}"
        return f"{self.event}{guard}: {', '.join(self.listeners)}"


@dataclass(frozen=True, slots=True)
class Registry:
    """Rules in the order they are looked at.

    References
    ----------
    [ding2008] Ding. Metadata-Aware Query Processing over Data Streams. WPI 2008, Section 4.1.6, Table 4.1.

    Examples
    --------
    >>> for rule in REFERENCE.of(Event.STATE_FULL):
    ...     print(rule)
    state_full if purge_pending: state_purge
    state_full if purge_done: state_relocation
    """

    rules: tuple[Rule, ...]

    def of(self, event: Event) -> tuple[Rule, ...]:
        """The rules of an event, in order."""
        return tuple(rule for rule in self.rules if rule.event is event)

    def with_spilled_state(self) -> Registry:
        """The same registry for states that do not fit in memory: left-over joins are finished before a propagation.

        The source asks for this in its text; its table was used without spilling.
        """
        rules: list[Rule] = []
        for rule in self.rules:
            if _PROPAGATIONS & set(rule.listeners):
                # The purge of the same rule shall come first: what it moves to a purge buffer is then freed as well.
                at = min(rule.listeners.index(name) for name in _PROPAGATIONS & set(rule.listeners))
                before = tuple(name for name in rule.listeners[:at] if name is Listener.STATE_PURGE)
                after = tuple(name for name in rule.listeners if name not in before)
                rules += [Rule(rule.event, before, rule.condition)] if before else []
                rules += [Rule(rule.event, (Listener.DISK_JOIN,), Condition.LEFT_OVER), Rule(rule.event, after, rule.condition)]
            else:
                rules.append(rule)
        return Registry(tuple(rules))


_DISK_JOIN_WHEN_IDLE = Rule(Event.STREAM_EMPTY, (Listener.DISK_JOIN,), Condition.ACTIVATION_REACHED)
_RELOCATE = Rule(Event.STATE_FULL, (Listener.STATE_RELOCATION,), Condition.PURGE_DONE)
_BASE = (
    _DISK_JOIN_WHEN_IDLE,
    Rule(Event.PURGE_THRESHOLD_REACHED, (Listener.STATE_PURGE,)),
    Rule(Event.STATE_FULL, (Listener.STATE_PURGE,), Condition.PURGE_PENDING),
    _RELOCATE,
)
_PROPAGATE = (Listener.INDEX_BUILD, Listener.PROPAGATION)

#: Lazy purge, lazy index, push by count: the published configuration.
REFERENCE = Registry((*_BASE, Rule(Event.PROPAGATE_COUNT_REACHED, _PROPAGATE)))
#: Purge, index and propagation at every punctuation.
EAGER = Registry((_DISK_JOIN_WHEN_IDLE, Rule(Event.NEW_PUNCTUATION, (Listener.STATE_PURGE, *_PROPAGATE)), *_BASE[2:]))
#: Lazy purge and push by count, the index built at every punctuation.
EAGER_INDEX = Registry(
    (*_BASE, Rule(Event.NEW_PUNCTUATION, (Listener.INDEX_BUILD,)), Rule(Event.PROPAGATE_COUNT_REACHED, (Listener.PROPAGATION,)))
)
#: Propagation on request.
PULL = Registry((*_BASE, Rule(Event.PROPAGATE_REQUEST, _PROPAGATE)))
#: Propagation after a time.
TIME_PUSH = Registry((*_BASE, Rule(Event.PROPAGATE_TIME_EXPIRED, _PROPAGATE)))
#: Propagation as soon as both inputs have announced the same.
PAIRED = Registry((*_BASE, Rule(Event.PAIR_ARRIVED, (Listener.STATE_PURGE, Listener.INDEX_BUILD, Listener.PAIRED_PROPAGATION))))
#: No punctuations at all: XJoin.
XJOIN = Registry((_DISK_JOIN_WHEN_IDLE, _RELOCATE))

#: The standard configurations of PJoin by name.
STANDARD: Mapping[str, Registry] = {
    "reference": REFERENCE,
    "eager": EAGER,
    "eager_index": EAGER_INDEX,
    "pull": PULL,
    "time_push": TIME_PUSH,
    "paired": PAIRED,
}
