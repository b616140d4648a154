"""Packets as four routers see them; in the middle of the run the traffic changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidOption
from penstock.model.batch import Int64s
from penstock.model.schema import TIMESTAMP, Schema
from penstock.workloads.base import ColumnarWorkload, Columns, StreamShape
from penstock.workloads.coins import Flags, Floats, happens, integers, uniforms
from penstock.workloads.contracts import Options

ROUTERS = ("r1", "r2", "r3", "r4")
_PACKET = Schema.of(pid=pa.int64(), size=pa.int64(), dest=pa.string(), payload=pa.string(), ts=TIMESTAMP)

#: Share of the packets of the first router that each router sees, before and after the change; r3 and r4 see nearly the same.
_SEEN: Mapping[str, tuple[float, float]] = {"r1": (1.0, 1.0), "r2": (0.2, 0.8), "r3": (0.7, 0.3), "r4": (0.7, 0.3)}
#: Share of packets to the network 98.137.0.0/16, of payloads that are encoded, and of those that log in, before and after.
_TO_PORTAL, _ENCODED, _LOGIN = (0.05, 0.95), (0.6, 0.05), (0.4, 0.4)
_PORTAL = 98 << 24 | 137 << 16
_PLAIN = "GET /{page} HTTP/1.1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
_CODED = "GET /{page} HTTP/1.1 q8Zr1Xw0Tf5kLpV7mB2nC9dJ4hGyS6uEaR3tYoWi"
#: By 2 · is_encoded + is_login.
_PAYLOADS = pa.array([text.format(page=page) for text in (_PLAIN, _CODED) for page in ("index", "login")])


@dataclass(frozen=True)
class Network(ColumnarWorkload):
    """Streams `r1` to `r4` (pid, size, dest, payload, ts): packets at four routers.

    Row i of r1 is packet i. Another router sees it at the same time with a probability of its own, else a packet that nobody
    else sees. r3 and r4 tend to see the same packets, so that after one of them the other rejects little. With row `drift_rows`
    the traffic changes: where most packets went elsewhere they now go to one portal, payloads are no longer encoded, and the
    routers exchange their roles.

    Parameters
    ----------
    drift_rows
        Rows of each router before the change.

    Examples
    --------
    >>> rows = Network(drift_rows=2).generate("r1", 0, 1, 0, 4, Options(rate=10.0))
    >>> rows.column("pid").to_pylist(), [address[:6] for address in rows.column("dest").to_pylist()]
    ([0, 1, 2, 3], ['26.148', '187.21', '98.137', '98.137'])
    """

    name: ClassVar[str] = "network"
    default_rate: ClassVar[float] = 1_000.0

    drift_rows: int = 30_000

    def __post_init__(self) -> None:
        if self.drift_rows < 0:
            raise InvalidOption(f"{self.drift_rows} is negative; write 0 for traffic that has changed already", "drift_rows")

    @property
    def shapes(self) -> Mapping[str, StreamShape]:
        return {router: StreamShape(_PACKET.named(f"network.{router}"), "pid", "ts", clock=self.name) for router in ROUTERS}

    def values(self, stream: str, index: Int64s, options: Options) -> Columns:
        is_late = index >= self.drift_rows
        # What only one router sees has a number that no other uses.
        own = index + ((ROUTERS.index(stream) + 1) << 40)
        pid = np.where(self._is_common(stream, index, is_late, options), index, own)
        kind = 2 * _drawn("encoded", pid, is_late, _ENCODED, options) + _drawn("login", pid, is_late, _LOGIN, options)
        return {
            "pid": pid,
            "size": 40 + integers(options.seed, "size", pid, 1460),
            "dest": self._addresses(pid, is_late, options),
            "payload": _PAYLOADS.take(pa.array(kind)),
        }

    def _is_common(self, stream: str, index: Int64s, is_late: Flags, options: Options) -> Flags:
        """Whether the packet is the one of the first router; r3 and r4 toss nine of ten coins together."""
        alone = uniforms(options.seed, f"seen by {stream}", index)
        coin = alone
        if stream in ("r3", "r4"):
            together = happens(options.seed, "r3 with r4", index, 0.9)
            coin = np.where(together, uniforms(options.seed, "seen by both", index), alone)
        before, after = _SEEN[stream]
        return coin < np.where(is_late, after, before)

    def _addresses(self, pid: Int64s, is_late: Flags, options: Options) -> pa.Array:
        to_portal = _drawn("portal", pid, is_late, _TO_PORTAL, options)
        anywhere = integers(options.seed, "address", pid, 1 << 32)
        address = np.where(to_portal, _PORTAL | (anywhere & 0xFFFF), anywhere)
        parts = [pc.cast(pa.array(address >> shift & 255), pa.string()) for shift in (24, 16, 8, 0)]
        return pc.binary_join_element_wise(*parts, ".")


def _drawn(purpose: str, pid: Int64s, is_late: Flags, shares: tuple[float, float], options: Options) -> Flags:
    coins: Floats = uniforms(options.seed, purpose, pid)
    return coins < np.where(is_late, shares[1], shares[0])
