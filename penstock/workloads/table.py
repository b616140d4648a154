"""Every workload by name."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import UnknownName
from penstock.workloads.auction import Auction
from penstock.workloads.base import ColumnarWorkload
from penstock.workloads.keyed import Keyed
from penstock.workloads.network import Network
from penstock.workloads.nexmark import Nexmark
from penstock.workloads.orders import Orders
from penstock.workloads.pairs import Pairs
from penstock.workloads.punctuated import Punctuated
from penstock.workloads.stocks import Stocks
from penstock.workloads.telecom import Telecom
from penstock.workloads.traffic import Traffic

WORKLOADS: Mapping[str, type[ColumnarWorkload]] = {
    kind.name: kind for kind in (Auction, Pairs, Punctuated, Keyed, Network, Nexmark, Orders, Stocks, Telecom, Traffic)
}


def workload_named(name: str) -> type[ColumnarWorkload]:
    """The workload's class; its fields are its parameters."""
    try:
        return WORKLOADS[name]
    except KeyError:
        raise UnknownName("the table of workloads", "workload", name, WORKLOADS) from None
