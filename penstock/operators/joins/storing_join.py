"""What all joins do besides finding partners: which rows count, how far time has come, memory, state and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.kernel.contracts import State
from penstock.model.batch import Batch
from penstock.model.elements import MEMORY, NEVER, Control, Elements
from penstock.model.masks import Mask
from penstock.model.windows import Lifespan
from penstock.operators.joins.storing.pieces import PieceStore

StoreT = TypeVar("StoreT", bound=PieceStore[Any])


class StoringJoin(Generic[StoreT]):
    """Keeps rows of each input for those of the others that are still to come.

    Parameters
    ----------
    rows
        Where those of each input are stored.
    life
        Of the query: rows outside of it are only counted.
    counters
        What the join counts besides rows outside of the life and rows without key.
    memory_bytes
        Most bytes of rows in memory, as long as nobody decides otherwise; the others are spilled. None: all of them stay.
    """

    def __init__(
        self, rows: Sequence[StoreT], life: Lifespan | None, counters: Sequence[str], memory_bytes: int | None = None
    ) -> None:
        self.life = life or Lifespan()
        self._rows = list(rows)
        self._frontiers = [NEVER for _ in rows]
        self._sent = NEVER
        self._counts = dict.fromkeys(("null_keys", "outside_life", *counters), 0)
        #: Most bytes of rows in memory: what the query says, and the share of a limit for all of them; None: no limit.
        self._limits: dict[str, int | None] = {"own": memory_bytes, "share": None}
        self._directory: Path | None = None

    def _alive(self, batch: Batch) -> Mask:
        """Rows within the life of the query."""
        alive = self.life.holds(batch.ts)
        self._counts["outside_life"] += int(np.count_nonzero(~alive))
        return alive

    def _others(self, port: int) -> list[int]:
        return [other for other in range(len(self._rows)) if other != port]

    def _horizon(self, port: int) -> int:
        """No row of another input will be older."""
        return min(self._frontiers[other] for other in self._others(port))

    # -- memory -------------------------------------------------------------------------------------------------------

    def spill_to(self, directory: Path) -> None:
        self._directory = directory

    def on_control(self, decision: Control) -> Elements:
        if decision.kind == MEMORY:
            self._limits["share"] = decision.detail["bytes"]
            self._keep_within_memory()
        else:
            self._decide(decision)
        return ()

    def _decide(self, decision: Control) -> None:
        """Obey a decision about something else than the share of memory; there is none where nobody decides so."""

    @property
    def memory_limit(self) -> int | None:
        """The smaller one of both limits; None where there is none."""
        return min((limit for limit in self._limits.values() if limit is not None), default=None)

    def _keep_within_memory(self) -> None:
        """Spill the input with most rows in memory until half of the room for them is free: merging needs the other half."""
        limit = self.memory_limit
        if limit is None or self._directory is None:
            return
        staying = sum(rows.num_bytes - rows.spillable_bytes for rows in self._rows)
        # However much has to stay, what comes may gather for a while: otherwise each batch would become a file.
        room = max(limit - staying, limit // 4)
        while sum(rows.spillable_bytes for rows in self._rows) > room // 2:
            if not max(self._rows, key=lambda rows: rows.spillable_bytes).spill(self._directory):
                return

    # -- state --------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        times = {"frontiers": list(self._frontiers), "sent": self._sent}
        return State({**times, "counts": dict(self._counts), "memory": list(self._limits.values())})

    def restore(self, state: State) -> None:
        self._frontiers, self._sent = list(state.meta["frontiers"]), state.meta["sent"]
        self._counts, self._limits = dict(state.meta["counts"]), dict(zip(self._limits, state.meta["memory"], strict=True))

    def counters(self) -> Mapping[str, int]:
        return {
            "state_rows": sum(rows.num_rows for rows in self._rows),
            "state_bytes": sum(rows.num_bytes for rows in self._rows),
            "spilled_rows": sum(rows.spilled_rows for rows in self._rows),
            "spilled_bytes": sum(rows.spilled_bytes for rows in self._rows),
            "expired": sum(rows.expired for rows in self._rows),
            **self._counts,
        }
