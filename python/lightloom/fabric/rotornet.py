"""RotorNet: circuits that go round whatever the demand, and bytes that take one hop or two.

RotorNet (Mellette et al., SIGCOMM 2017). Every rotor switch holds its matchings of racks in turn,
each for a slot, so that all racks meet in a cycle. Bytes wait for the circuit of their pair; with
RotorLB what a slot has room for takes bytes to racks that can deliver them in their next slot.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lightloom.errors import FabricError
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import EpochRules, Network, RackCircuits
from lightloom.fabric.option_types import Count, OptionalPositive, Switch
from lightloom.fabric.racks import RackFabric, RackPorts
from lightloom.inputs.fields import OneOf
from lightloom.schedule.named_sets import CYCLINGS
from lightloom.units import show_time

#: switches of a rack that its NICs can be dealt out to, at most, by default
_SWITCHES = 4


class RotorFabric(RackFabric):
    """Rotor switches that join all racks in turn, whatever the demand."""

    usual_technology: ClassVar[str] = "rotornet"
    #: without one, some pairs would have no slot: the whole switch is taken out
    loses_single_ports: ClassVar[bool] = False

    switches: Count | None = Field(
        None,
        description="Rotor switches; the NICs of a rack are dealt out to them. By default 4, or the"
        " most below that divide the NICs.",
    )
    relay: Switch = Field(
        True, description="What a slot has room for takes bytes to racks that pass them on."
    )

    def _ports(self, cluster: Cluster) -> RackPorts:
        nics, switches = self._rack_nics(cluster), self._switches(cluster)
        if nics % switches:
            raise FabricError(
                f"{self.name}: switches = {switches}: expected a divisor of the {nics} NICs of a"
                " rack, which are dealt out to them"
            )
        return RackPorts(switches, nics // switches)

    def _switches(self, cluster: Cluster) -> int:
        if self.switches is not None:
            return self.switches
        nics = self._rack_nics(cluster)
        return next(count for count in range(_SWITCHES, 0, -1) if nics % count == 0)


class RotorNet(RotorFabric):
    """Rotor switches whose circuits bytes wait for, or take two of."""

    kind: ClassVar[str] = "rotornet"
    title: ClassVar[str] = "rotornet"

    duty: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = Field(
        0.9, description="Share of a slot in which circuits are lit, where slot_s is not given."
    )
    slot_s: OptionalPositive = Field(
        None, description="Time from one turn of a switch to its next; by default by the duty."
    )
    cycling: Annotated[str, OneOf(CYCLINGS)] = Field(
        "fixed",
        description="Whether each switch has matchings of its own and all turn together ('fixed'),"
        " one after the other ('staggered'), or all matchings pass all switches ('shared').",
    )
    slots: Literal["exact", "average"] = Field(
        "exact",
        description="Whether every turn of a switch is simulated, or circuits are lit at all times,"
        " as fast as they are on average: then phases miss the wait for slots, a cycle at most, and"
        " nothing is relayed. For steps of very many slots.",
    )

    @model_validator(mode="after")
    def _average_does_not_relay(self) -> Self:
        if self.slots == "average" and self.relay:
            raise FabricError(
                "slots = average: expected relay = off, which takes turns of switches"
            )
        return self

    def _slot_s(self) -> float:
        return self._dark_s() / (1 - self.duty) if self.slot_s is None else self.slot_s

    def _circuits(self, cluster: Cluster) -> RackCircuits:
        parts = self._ports(cluster).switches if self.cycling == "staggered" else 1
        self._check_epoch("slot_s", self._slot_s() / parts)
        rules = EpochRules("rotornet", cycling=self.cycling)
        relay = self.relay and self._racks(cluster) > 1
        averaged = self.slots == "average" and self._racks(cluster) > 1
        return self._rack_circuits(cluster, self._slot_s(), rules, relay=relay, averaged=averaged)

    def _notes(self, cluster: Cluster) -> tuple[str, ...]:
        racks, ports = self._racks(cluster), self._ports(cluster)
        relaying = "two hops where a slot has room" if self.relay else "no relaying"
        if self.slots == "average":
            relaying += "; circuits as fast as on average, no slots"
        return (
            f"{racks} racks, {ports.switches} rotor switches ({ports.fibers} fibers a port), slots"
            f" of {show_time(self._slot_s())}, dark for {show_time(self._dark_s())}; {relaying}",
        )

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {"switches": self._ports(cluster).switches, "slot_s": self._slot_s()}
        return super()._applied(cluster, network) | parameters
