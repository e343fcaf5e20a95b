"""What a user may choose about circuits of regions: ports, switches, and how they follow demand.

They are options of MixNet, and the table ``[circuits]`` of a topology file. Options are described
on the command line before anything is simulated, so that this module imports no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from lightloom import plugins
from lightloom.errors import FabricError, echo, expected_one_of
from lightloom.fabric.option_types import (
    Count,
    OptionalQuantity,
    OptionModel,
    Quantity,
    Spares,
    Switch,
)
from lightloom.hardware import switch_names, switch_technology
from lightloom.inputs.fields import Choices, OneOf
from lightloom.schedule.circuit_rules import LinkUpTime, SwitchingTime
from lightloom.schedule.named_sets import (
    ALLOCATION_METHODS,
    FIRST_ALL_TO_ALL_MODES,
    PLANES,
    WHEN_POLICIES,
)
from lightloom.schedule.record_fields import keys_of, with_keys
from lightloom.schedule.records import SwitchTiming


def _allocators() -> Sequence[str]:
    return (*ALLOCATION_METHODS, *plugins.ALLOCATORS.installed())


def _known_allocator(name: str) -> str:
    if name not in ALLOCATION_METHODS and name not in plugins.ALLOCATORS.installed():
        raise FabricError(
            f"allocator = {echo(name, quoted=False)}: {expected_one_of(name, _allocators())}"
        )
    return name


#: the timing of switches, of which some parts may be words here
TIMING = keys_of(SwitchTiming.__name__)


@with_keys(TIMING)
class CircuitOptions(OptionModel):
    """Options of circuits of regions, checked for what contradicts itself."""

    title: ClassVar[str] = "circuits"

    ports: Count = Field(
        6, description="Number of optical ports of a server, its degree in papers."
    )
    region_servers: Count | None = Field(
        None,
        description="Servers in a region, which share a circuit switch; by default those of one EP "
        "group.",
    )
    technology: Annotated[str, Choices(switch_names)] = Field(
        "piezo", description="Technology of the circuit switches."
    )
    ocs_ports: Count | None = Field(
        None, description="Ports of a circuit switch; by default those of its technology."
    )
    allocator: Annotated[str, Choices(_allocators), AfterValidator(_known_allocator)] = Field(
        "best", description="Algorithm that allocates the circuits."
    )
    split: Switch | None = Field(
        None,
        description="Let a pair of servers with circuits send its excess over the packet fabric, "
        "which pipeline and data parallelism use as well; by default on, and what is faster in a "
        "comparison.",
    )
    when: Annotated[str, OneOf(WHEN_POLICIES)] = Field(
        "break-even",
        description="When circuits are changed to follow the demand.",
    )
    first: Annotated[str, OneOf(FIRST_ALL_TO_ALL_MODES)] = Field(
        "predict",
        description="What the first all-to-all of a forward pass does: reuse the held circuits, "
        "block until its demand is known, or predict it.",
    )
    fixed_s: SwitchingTime | None = Field(
        None,
        description="Switching time: a time, 'measured' (mean by number of pairs) or "
        "'measured-p99'; by default the longest reported for the technology.",
    )
    per_pair_s: OptionalQuantity = Field(
        None,
        description="Switching time of each pair that changes, in addition; by default none, or as "
        "measured.",
    )
    control_s: Quantity = Field(
        0.0, description="Time in which a reconfiguration is decided and commanded."
    )
    link_up_s: LinkUpTime = Field(
        "measured",
        description="Time until a new link carries traffic after its circuit has settled; by "
        "default as 'measured' on a NIC of today, 5.67 s. The MixNet paper leaves it out: 0.",
    )
    keep_unchanged: Switch = TIMING["keep_unchanged"][1]
    relay: Switch = Field(
        False, description="Relay bytes through other servers where that is faster."
    )
    relay_delay_s: OptionalQuantity = Field(
        None, description="Delay of a relayed chunk in a server; by default that of an NVSwitch."
    )
    relay_chunk_bytes: Count | None = Field(
        None, description="Bytes of a relayed chunk; by default those of the built-in data."
    )
    planes: Annotated[str, OneOf(tuple(PLANES))] | None = Field(
        None,
        description="How fibers are laid where NIC i of every server is on circuit switch i; by "
        "default one switch joins any two NICs of a region.",
    )
    spare_servers: Spares = Field(
        0,
        description="Servers on each circuit switch that can replace those of any of its regions; "
        "their NICs and ports are charged.",
    )

    @model_validator(mode="after")
    def _relaying_makes_sense(self) -> Self:
        if self.relay and self.split is False:
            raise FabricError("relay = true divides the bytes of a pair: expected split = true")
        for name in ("relay_delay_s", "relay_chunk_bytes"):
            if getattr(self, name) is not None and not self.relay:
                raise FabricError(f"{name} is for relays: expected relay = true as well")
        return self

    @model_validator(mode="after")
    def _technology_is_known(self) -> Self:
        technology = switch_technology(self.technology)
        if self.fixed_s is None:
            _ = technology.reconfig_delay_s
        return self
