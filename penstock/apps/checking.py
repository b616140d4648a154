"""`penstock check`: whether the state of an application is bounded, and what its contracts promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.lowering.contracts import ShownContract, contract_lines, shown_contracts
from penstock.lowering.stages import startable
from penstock.plan.analysis.safety import SafetyReport, check
from penstock.plan.catalog import Catalog
from penstock.runners.destinations import refuse_shared_directories


@dataclass(frozen=True)
class CheckReport:
    """Verdicts of all operators, and all contracts."""

    safety: SafetyReport
    contracts: tuple[ShownContract, ...]

    @property
    def is_bounded(self) -> bool:
        return self.safety.is_bounded

    def __str__(self) -> str:
        lines = ["", "contracts", *(f"  {line}" for line in contract_lines(self.contracts))] if self.contracts else []
        return "\n".join([str(self.safety), *lines])

    def to_json(self) -> dict[str, Any]:
        return {**self.safety.to_json(), "contracts": [contract.to_json() for contract in self.contracts]}


def check_application(catalog: Catalog) -> CheckReport:
    """Judge an application; what would stop it when it starts stops here, with the same words."""
    refuse_shared_directories(catalog)
    job = startable(catalog)
    return CheckReport(check(catalog).noting(job.unwatched), shown_contracts(job))
