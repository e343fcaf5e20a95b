"""Opera: rotor switches that turn one after the other, so that what stays lit joins all racks.

Opera (Mellette et al., NSDI 2020, arXiv 1903.12307). Matchings are drawn at random such that the
circuits of the switches that do not turn join all racks at every moment, by few hops. Large
transfers wait for the circuit of their pair, which comes once in a cycle, or take two hops as in
RotorNet; small ones take several circuits that are lit, at once, and others when one goes dark.

Large is what takes a NIC a cycle or more, so that waiting at most doubles its time: the paper has
15 MB at 10 Gb/s and 108 racks, and lets applications say that a shuffle waits whatever its sizes
(``bulk_bytes = 0``). Circuits are of one direction here, the paper's of both. Left out: that small
transfers come first where they meet large ones, which share links with them fairly here.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from lightloom.errors import FabricError
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import EpochRules, Network, RackCircuits
from lightloom.fabric.option_types import OptionalPositive, OptionalSize
from lightloom.fabric.rotornet import RotorFabric
from lightloom.units import show_bytes, show_time

#: switches of which the others join all racks while one turns, at least
_FEWEST = 3
#: dark times from the turn of one switch to that of the next, as in the paper
_DARK_TIMES = 10


class Opera(RotorFabric):
    """Rotor switches that turn one by one; small transfers take several circuits at once."""

    kind: ClassVar[str] = "opera"
    title: ClassVar[str] = "opera"

    slice_s: OptionalPositive = Field(
        None,
        description="Time from the turn of one switch to that of the next; by default ten times"
        " dark_s.",
    )
    bulk_bytes: OptionalSize = Field(
        None,
        description="Transfers from server to server of so many bytes wait for circuits of their"
        " pair, smaller ones take what is lit; by default what a NIC sends in a cycle.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = Field(
        0, description="Seed by which matchings are drawn."
    )

    def _per_rack(self, cluster: Cluster) -> int:
        # as many servers as have NICs for the fewest switches
        fewest = -(-_FEWEST // cluster.nics_per_server)
        usual = super()._per_rack(cluster)
        return usual if self.servers_per_rack is not None else max(usual, fewest)

    def _switches(self, cluster: Cluster) -> int:
        nics, usual = self._rack_nics(cluster), super()._switches(cluster)
        if self.switches is None and usual < _FEWEST:
            usual = next((n for n in range(_FEWEST, nics + 1) if nics % n == 0), usual)
        if usual < _FEWEST and self._racks(cluster) > 1:
            raise FabricError(
                f"{self.name}: switches = {usual}: expected {_FEWEST} or more, of which the others"
                " join all racks while one turns"
            )
        return usual

    def _slice_s(self) -> float:
        return _DARK_TIMES * self._dark_s() if self.slice_s is None else self.slice_s

    def _cycle_s(self, cluster: Cluster) -> float:
        """Time in which each switch has held all of its matchings."""
        switches = self._switches(cluster)
        return -(-(self._racks(cluster) - 1) // switches) * switches * self._slice_s()

    def _bulk_bytes(self, cluster: Cluster) -> int:
        if self.bulk_bytes is not None:
            return self.bulk_bytes
        return round(cluster.rate_gbps * 1e9 / 8 * self._cycle_s(cluster))

    def _circuits(self, cluster: Cluster) -> RackCircuits:
        self._check_epoch("slice_s", self._slice_s())
        several = self._racks(cluster) > 1
        return self._rack_circuits(
            cluster,
            self._ports(cluster).switches * self._slice_s(),
            EpochRules("rotornet", cycling="staggered", seed=self.seed),
            relay=self.relay and several,
            min_bytes=self._bulk_bytes(cluster),
        )

    def _notes(self, cluster: Cluster) -> tuple[str, ...]:
        racks, ports = self._racks(cluster), self._ports(cluster)
        relaying = ", two hops where a slot has room" if self.relay else ""
        return (
            f"{racks} racks, {ports.switches} rotor switches ({ports.fibers} fibers a port), of"
            f" which one turns each {show_time(self._slice_s())}, dark for"
            f" {show_time(self._dark_s())}; {show_bytes(self._bulk_bytes(cluster))} or more wait"
            f" for a circuit of their pair{relaying}, less takes several at once",
        )

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {
            "switches": self._ports(cluster).switches,
            "slice_s": self._slice_s(),
            "bulk_bytes": self._bulk_bytes(cluster),
        }
        return super()._applied(cluster, network) | parameters
