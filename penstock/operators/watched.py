"""A join whose inputs are watched: the same operator, with more counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.kernel.contracts import Operator, Spilling, State
from penstock.metadata.statistics import JoinWatch, WatchedInput
from penstock.model.batch import Batch
from penstock.model.elements import Control, Elements, Metadata
from penstock.model.punctuation import Punctuation


class Watched:
    """Shows a join's elements to a `JoinWatch` before the join gets them, and reports what it learnt.

    Elements, answers and state are those of the join alone; a restored one watches anew, because estimates may forget
    and answers may not depend on them.

    Parameters
    ----------
    make
        Makes the join.
    inputs
        Keys and windows of its inputs.

    Examples
    --------
    >>> from penstock.operators.union import Union
    >>> import pyarrow as pa
    >>> watched = Watched(lambda: Union(2, pa.schema({"k": pa.int64()})), [WatchedInput(("k",)), WatchedInput(("k",))])
    >>> {name: count for name, count in watched.counters().items() if name.startswith("rows.")}
    {'rows.0': 0, 'rows.1': 0}
    """

    def __init__(self, make: Callable[[], Operator], inputs: Sequence[WatchedInput]) -> None:
        self.operator = make()
        self.watch = JoinWatch(inputs)

    def spill_to(self, directory: Path) -> None:
        """As the join does."""
        if isinstance(self.operator, Spilling):
            self.operator.spill_to(directory)

    def on_batch(self, port: int, batch: Batch) -> Elements:
        self.watch.see(port, batch)
        return self.operator.on_batch(port, batch)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        if isinstance(mark, Punctuation):
            self.watch.hear(port, mark)
        return self.operator.on_metadata(port, mark)

    def on_control(self, decision: Control) -> Elements:
        return self.operator.on_control(decision)

    def snapshot(self) -> State:
        return self.operator.snapshot()

    def restore(self, state: State) -> None:
        self.operator.restore(state)

    def counters(self) -> Mapping[str, int]:
        return {**self.operator.counters(), **self.watch.counters()}
