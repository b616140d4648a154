"""What stateless operators share."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernel.contracts import State
from penstock.model.batch import Batch
from penstock.model.elements import Control, Elements, End, Metadata


class Stateless:
    """An operator that remembers nothing and passes metadata on; subclasses say what happens to rows."""

    def on_batch(self, port: int, batch: Batch) -> Elements:
        return (batch,)

    def on_metadata(self, port: int, mark: Metadata) -> Elements:
        return () if isinstance(mark, End) else (mark,)

    def on_control(self, decision: Control) -> Elements:
        return ()

    def snapshot(self) -> State:
        return State()

    def restore(self, state: State) -> None:
        """There is nothing to restore."""

    def counters(self) -> Mapping[str, int]:
        return {"state_rows": 0, "state_bytes": 0}
