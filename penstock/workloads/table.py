"""Every workload by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from penstock.errors import UnknownName
from penstock.workloads.base import ColumnarWorkload

#: Module and class of each. Loaded on first use: Spark starts a process for every stream, and each would import all of them.
WORKLOADS: Mapping[str, tuple[str, str]] = {
    "auction": ("auction", "Auction"),
    "keyed": ("keyed", "Keyed"),
    "network": ("network", "Network"),
    "nexmark": ("nexmark", "Nexmark"),
    "orders": ("orders", "Orders"),
    "pairs": ("pairs", "Pairs"),
    "punctuated": ("punctuated", "Punctuated"),
    "stocks": ("stocks", "Stocks"),
    "telecom": ("telecom", "Telecom"),
    "traffic": ("traffic", "Traffic"),
}


def workload_named(name: str) -> type[ColumnarWorkload]:
    """The workload's class; its fields are its parameters."""
    try:
        module, kind = WORKLOADS[name]
    except KeyError:
        raise UnknownName("the table of workloads", "workload", name, WORKLOADS) from None
    return cast(type[ColumnarWorkload], getattr(import_module(f"penstock.workloads.{module}"), kind))
