"""What operators took for what they were given, so that whoever decides about prices can learn them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kernel.work import Item
from penstock.model.batch import Batch


@dataclass(slots=True)
class PortMeasure:
    """Elements of one port since the last report: sums from which a line `busy = call + row x rows` can be fitted."""

    calls: int = 0
    rows: int = 0
    ns: int = 0
    rows_squared: int = 0
    rows_ns: int = 0
    rows_out: int = 0
    #: Of the batches that were weighed.
    weighed_rows: int = 0
    weighed_bytes: int = 0

    def add(self, item: Item, ns: int) -> None:
        rows = item.rows
        self.calls += 1
        self.ns += ns
        if rows:
            self.rows += rows
            self.rows_squared += rows * rows
            self.rows_ns += rows * ns
            if not self.weighed_rows:  # one is enough: the rows of a port are much alike
                assert isinstance(item.element, Batch)
                self.weighed_rows, self.weighed_bytes = rows, item.element.rows.nbytes + 16 * rows

    def to_json(self) -> list[int]:
        return [
            self.calls, self.rows, self.ns, self.rows_squared, self.rows_ns, self.rows_out, self.weighed_rows, self.weighed_bytes,
        ]  # fmt: skip
