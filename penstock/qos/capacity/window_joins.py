"""Window-based symmetric hash join: time for a row and rows in its windows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidModel
from penstock.qos.capacity.figures import required


@dataclass(frozen=True, slots=True)
class HashCosts:
    """What the steps of a join take, in seconds.

    Parameters
    ----------
    hash
        To find a bucket; done once in each table.
    compare
        To look at a row of the bucket.
    output
        To make an answer.
    kept_back
        Share of the processor that accepts and expires rows.
    """

    hash: float
    compare: float
    output: float = 0.0
    kept_back: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hash", "compare", "output", "kept_back"):
            required(name, getattr(self, name))
        if self.kept_back >= 1:
            raise InvalidModel(
                f"'kept_back' is {self.kept_back!r}; a share of the processor below 1 is needed to leave any for joining"
            )

    def row(self, other_rows: float, buckets: int) -> float:
        """Time for a row that meets so many rows of the other side, spread over so many buckets.

        References
        ----------
        [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Formula 5.7.

        Examples
        --------
        >>> round(HashCosts(hash=1e-6, compare=2e-6).row(1_000_000, 500), 6)
        0.004002
        """
        required("rows", other_rows)
        required("buckets", buckets, above=0)
        return (2 * self.hash + self.output + self.compare * other_rows / buckets) / (1 - self.kept_back)


def window_rows(rate: float, seconds: float | None = None, rows: float | None = None) -> float:
    """Rows in a window of time or of rows, in steady state.

    Examples
    --------
    >>> window_rows(100.0, seconds=10_000), window_rows(100.0, rows=500)
    (1000000.0, 500.0)
    """
    if rows is not None:
        if required("rows", rows) != int(rows):
            raise InvalidModel(f"a window holds {rows!r} rows; give a whole number")
        return float(rows)
    if seconds is None:
        raise InvalidModel("a window has neither a length of time nor a number of rows; give one of them")
    return required("rate", rate) * required("seconds", seconds)
