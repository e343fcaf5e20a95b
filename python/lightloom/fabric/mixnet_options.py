"""The options of MixNet: what a user may choose about its circuits, regions and switches."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lightloom.fabric.circuit_options import CircuitOptions
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.option_types import (
    ECMP,
    SERVERS_PER_TOR,
    SWITCH_PORTS,
    Count,
    OptionalPositive,
    PartNames,
    Share,
)


class MixNetOptions(CircuitOptions, FabricOptions):
    """Options of MixNet, checked for what contradicts itself."""

    kind: ClassVar[str] = "mixnet"
    title: ClassVar[str] = "mixnet"

    ecmp: Share | None = ECMP
    switch_ports: Count | None = SWITCH_PORTS
    servers_per_tor: Count | None = SERVERS_PER_TOR
    eps_nic_gbps: OptionalPositive = Field(
        None, description="Rate of a NIC on the fat-tree; by default that of the optical NICs."
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used, such as nic:2/1 (server/optical NIC), eps:0/1, "
        "plane:0 or server:3; a failed server is replaced by a spare one, which only the packet "
        "fabric reaches unless spare_servers suffice.",
    )
