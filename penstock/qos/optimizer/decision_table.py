"""How good each strategy is for each measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import InvalidConfiguration
from penstock.model.qos import Measure


@dataclass(frozen=True)
class DecisionTable:
    """Ranks of strategies, larger is better.

    Parameters
    ----------
    ranks
        By measure and strategy; every measure ranks the same strategies.
    enabled
        Those that may be chosen, in the order that decides ties; empty: all. Ranks stay those among all strategies: ranked
        anew, three strategies would tie where one of them is clearly the best compromise.

    References
    ----------
    [chakravarthy2009] Chakravarthy, Jiang. Stream Data Processing: A Quality of Service Perspective. Table 10.1.
    """

    ranks: Mapping[Measure, Mapping[str, float]]
    enabled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for measure in Measure:
            if measure not in self.ranks:
                raise InvalidConfiguration(f"the decision table has no row for {measure.value}; rank the strategies for it")
        known = set(self.ranks[Measure.LATENCY])
        for measure, row in self.ranks.items():
            if set(row) != known:
                odd = ", ".join(sorted(set(row) ^ known))
                raise InvalidConfiguration(f"the decision table ranks {odd} not for all measures; {measure.value} differs")
        for strategy in self.enabled:
            if strategy not in known:
                raise InvalidConfiguration(f"the decision table has no strategy '{strategy}'; it has {', '.join(sorted(known))}")

    @property
    def strategies(self) -> tuple[str, ...]:
        """That may be chosen."""
        return self.enabled or tuple(self.ranks[Measure.LATENCY])

    def share(self, measure: Measure, strategy: str) -> float:
        """The rank of a strategy, as a part of the number of all strategies; 0 for one that is not in the table."""
        row = self.ranks[measure]
        return row.get(strategy, 0.0) / len(row)


def _table(first: str) -> DecisionTable:
    names = ("round_robin", first, "segment", "simple_segment")
    soon, small = dict(zip(names, (2, 4, 1, 3), strict=True)), dict(zip(names, (2, 1, 4, 3), strict=True))
    return DecisionTable({Measure.LATENCY: soon, Measure.MEMORY: small, Measure.THROUGHPUT: soon})


#: As published, where paths are ranked by the rows they take in.
PUBLISHED = _table("path_capacity")
#: Contracts are about answers, so paths are ranked by the answers they make.
DEFAULT = _table("path_answers")
