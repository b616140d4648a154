"""Rows that are left out in front of operators, inside the kernel, as decided for the micro-batch.

What all queries of an entry may lose is left out before the shuffle, see `early_shedding`. Where only some of them may, it is left
out where their ways part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from penstock.columnar.coins import coins
from penstock.columnar.hashing import mix_positions
from penstock.kernel.contracts import RowGate
from penstock.kernel.work import Place
from penstock.model.batch import Batch, Int64s
from penstock.model.drop_preferences import DropKind
from penstock.qos.shedding.semantic import SemanticShedder
from penstock.qos.shedding.table import preference_of

#: Between the name of an operator and its port, where a decision names both.
_PORT = "#"


def place_name(place: Place) -> str:
    """What decisions call a place in front of an operator.

    Examples
    --------
    >>> place_name(("GroupBy2", 0))
    'GroupBy2#0'
    """
    return f"{place[0]}{_PORT}{place[1]}"


@dataclass(frozen=True, slots=True)
class QueueShedder:
    """Leaves a share of the rows out that come to a queue. It keeps nothing, so a repeated micro-batch loses the same rows."""

    detail: Mapping[str, Any]
    seed: int

    def admit(self, batch: Batch) -> Batch:
        if not batch.num_rows:
            return batch
        preference, share = preference_of(self.detail), self.detail["share"]
        drawn = coins(self.seed, 0, _numbers(batch))
        if preference.kind is DropKind.RANDOM:
            return batch.filter(drawn >= share)
        shedder = SemanticShedder(preference, seed=self.seed, carry=float(drawn[0]))
        shedder.observe(batch)
        return batch.filter(shedder.keep_mask(batch, share))


def _numbers(batch: Batch) -> Int64s:
    """A number for each row; rows that an operator has made need not have times and positions of their own."""
    found: Int64s = mix_positions(batch.ts, batch.pos)
    is_own = len(np.unique(found)) == len(found)
    return found if is_own else mix_positions(found, np.arange(len(found)))


def queue_shedders(shed: Mapping[str, Mapping[str, Any]]) -> dict[Place, RowGate]:
    """Those of a micro-batch, by the place in front of which they stand.

    Parameters
    ----------
    shed
        By entry or place, as `Decisions` has it.
    """
    found: dict[Place, RowGate] = {}
    for name, detail in shed.items():
        node, is_place, port = name.rpartition(_PORT)
        if is_place and port.isdigit():
            found[node, int(port)] = QueueShedder(detail, detail.get("seed", 0) ^ crc32(name.encode()))
    return found
