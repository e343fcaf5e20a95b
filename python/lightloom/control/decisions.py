"""Decides on a region's circuits: the same :class:`~lightloom.schedule.Decider` as a simulation.

Demand arrives from rank to rank; ranks are numbered server by server, in the order of the port
map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.region_file import RegionFile
from lightloom.errors import DemandError
from lightloom.schedule import Decider, Failures, Held
from lightloom.schedule.decider import Decision
from lightloom.schedule.failures import check_demand

Bytes = npt.NDArray[np.uint64]

#: all-to-alls that one request may hold
MAX_UPCOMING = 64
_MAX_TOTAL_BYTES = 2**63
#: a pair of a row of four numbers; several times as fast as ``NicPair._make``
_pair_of = partial(tuple.__new__, NicPair)


class RegionDecider:
    """Decides for one region, less what has failed.

    Parameters
    ----------
    region
        Rates, policy and timing.
    port_map
        NICs of the servers, and how switches are laid out.
    """

    def __init__(self, region: RegionFile, port_map: PortMap) -> None:
        self._region, self._port_map = region, port_map
        self.timing = region.rules.timing
        self.servers = len(port_map.servers)
        self.ranks = self.servers * region.job.ranks_per_server
        self.failures = Failures()
        self._decider = self._make()

    def exclude(self, failures: Failures) -> None:
        """Decide without these parts from now on.

        Raises
        ------
        InputError
            If one of them does not exist; then nothing changes.
        """
        before, self.failures = self.failures, failures
        try:
            self._decider = self._make()
        except Exception:
            self.failures = before
            raise

    def _make(self) -> Decider:
        failed = self.failures if self.failures.parts else None
        port_map = self._port_map
        return self._region.rules.decider(port_map.nics_per_server, port_map.planes, failed)

    def start(self) -> frozenset[NicPair]:
        """Return demand-oblivious circuits to start with."""
        return circuits_of(self._decider.start())

    def hold(self, circuits: Iterable[NicPair]) -> Held:
        """Return circuits as the core takes them."""
        rows = np.array(sorted(circuits), dtype=np.uint32).reshape(-1, 4)
        return self._decider.hold_on(rows)

    def decide(
        self, held: Held, demand: Bytes, hidden_s: float | Sequence[float] = 0.0
    ) -> Decision:
        """Decide on circuits for the upcoming all-to-alls, from server to server.

        Parameters
        ----------
        held
            The circuits that are there.
        demand
            Bytes, ``(k, servers, servers)``; demand of servers that have failed is left out.
        hidden_s
            As ``Decider.decide`` takes it.
        """
        if self.failures.servers:
            demand = demand.copy()
            for server in self.failures.servers:
                demand[:, server, :] = demand[:, :, server] = 0
                check_demand(demand[0], self.failures)
        return self._decider.decide(held, demand, hidden_s=hidden_s)

    def fold(self, demand: npt.NDArray[Any]) -> Bytes:
        """Return the demand of ranks, ``(ranks, ranks)`` or ``(k, ranks, ranks)``, by servers.

        Raises
        ------
        DemandError
            If it has another shape, is no whole bytes, or more bytes than a run can have.
        """
        array = demand[np.newaxis] if demand.ndim == 2 else demand
        shape = (self.ranks, self.ranks)
        if array.ndim != 3 or array.shape[1:] != shape or not 1 <= len(array) <= MAX_UPCOMING:
            raise DemandError(
                f"demand: expected {self.ranks} x {self.ranks} bytes from rank to rank "
                f"({self.servers} servers of {self._region.job.ranks_per_server} ranks), or up to "
                f"{MAX_UPCOMING} of these, got shape {demand.shape}"
            )
        if array.dtype.kind not in "iu":
            raise DemandError(f"demand: expected whole numbers, got {array.dtype}")
        ranks_each = self._region.job.ranks_per_server
        is_negative = array.dtype.kind == "i" and array.min(initial=0) < 0
        if is_negative or int(array.max(initial=0)) * self.ranks**2 >= _MAX_TOTAL_BYTES:
            raise DemandError(
                "demand: expected 0 bytes or more from each rank to each, and less than 2^63 in all"
            )
        values = array.astype(np.uint64, copy=False)
        rows = values.reshape(len(array), self.servers, ranks_each, self.ranks).sum(axis=2)
        return np.add.reduceat(rows, np.arange(0, self.ranks, ranks_each), axis=2)


def circuits_of(held: Held | Decision) -> frozenset[NicPair]:
    """Return the circuits of the core as pairs of NICs."""
    return frozenset(map(_pair_of, held.nics.tolist()))
