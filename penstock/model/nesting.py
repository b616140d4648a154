"""How deep texts, expressions and plans may be nested, and room on the stack for those that are.

Trees are walked by functions that call themselves. Python stops them after a thousand calls, which a text of 250 sums needs
already. Reading a text happens on a large stack of its own, where the parser may go as deep as any text that is accepted. Trees
that come out of it are bounded; where one is made or received, in the driver or in a worker, the limit of calls is raised so
that it fits. The bounds keep the stack of the machine far from its end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

#: Operations inside each other; conditions joined by AND or OR, texts by || and lists of values count once, however many.
DEEPEST_EXPRESSION = 1_000
#: The same where casts and substituted columns are counted too: what walks are prepared for.
DEEPEST_TREE = 2 * DEEPEST_EXPRESSION
#: Parts of an expression, each as often as it is computed.
LARGEST_EXPRESSION = 200_000
#: Steps of a plan above each other, through all the queries it reads.
DEEPEST_PLAN = 500

#: Calls that the deepest walk needs for one level, and those of everything around it.
_CALLS_PER_LEVEL = 12
_CALLS_AROUND = 1_000
#: Up to this depth the usual limit suffices.
_SHALLOW = 25

#: The stack on which texts are read, and the calls that fit it with a wide margin.
_STACK_BYTES = 256 * 2**20
_CALLS_ON_DEEP_STACK = 50_000

_Result = TypeVar("_Result")
_lock = threading.RLock()
#: The calls that trees made so far need.
_room = 0
_inside = threading.local()


def make_room(levels: int) -> None:
    """Let this process walk trees of so many levels."""
    global _room
    if levels <= _SHALLOW or (needed := _CALLS_AROUND + _CALLS_PER_LEVEL * levels) <= _room:
        return
    _room = needed
    sys.setrecursionlimit(max(needed, sys.getrecursionlimit()))


def on_deep_stack(work: Callable[[], _Result]) -> _Result:
    """The result of `work`, done where it may call itself tens of thousands of times; RecursionError beyond that.

    Examples
    --------
    >>> def depth(levels: int) -> int:
    ...     return 1 + depth(levels - 1) if levels else 0
    >>> on_deep_stack(lambda: depth(20_000))
    20000
    """
    if getattr(_inside, "is_deep", False):
        return work()
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        _inside.is_deep = True
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    # The limit of calls and the size of new stacks belong to the process: one such piece of work at a time.
    with _lock:
        usual_limit, usual_size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        sys.setrecursionlimit(max(usual_limit, _CALLS_ON_DEEP_STACK))
        try:
            thread = threading.Thread(target=run, name="penstock-reading", daemon=True)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(usual_size)
            sys.setrecursionlimit(max(usual_limit, _room))
    if errors:
        raise errors[0]
    return results[0]


def too_deep(what: str) -> str:
    """The sentence for something beyond `DEEPEST_EXPRESSION`."""
    return f"{what} is nested more than {DEEPEST_EXPRESSION} deep; compute a part of it in a query of its own with CREATE CQ"


def too_large() -> str:
    """The sentence for something beyond `LARGEST_EXPRESSION`."""
    return f"the expression has more than {LARGEST_EXPRESSION} parts; compute some of them in a query of its own with CREATE CQ"
