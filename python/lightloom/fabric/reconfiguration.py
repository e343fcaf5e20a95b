"""How the circuits of a fabric follow the demand, for whoever runs or compares fabrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.schedule import CircuitAllocator
from lightloom.schedule.circuit_rules import CircuitRules

if TYPE_CHECKING:
    from lightloom.fabric.base import Fabric


@dataclass(frozen=True)
class BringUp:
    """Time from settled circuits to links that carry traffic.

    Attributes
    ----------
    delay_s
        What the fabric is simulated with.
    measured_s
        What was measured on network interfaces of today.
    other_delay_s, other
        The fabric with the measured time where it is left out, and without any where it is not.
    """

    delay_s: float
    measured_s: float
    other_delay_s: float
    other: Fabric


@dataclass(frozen=True)
class Reconfiguration:
    """When circuits are switched and who chooses them.

    Attributes
    ----------
    when
        When circuits are switched, a name of ``WHEN_POLICIES``.
    allocator
        Chooses circuits instead of the core's allocators, if anything does.
    other_policies
        The fabric under every other policy.
    other_first
        The fabric with another treatment of the first all-to-all, by its name (``block`` or
        ``reuse``); empty where the policy leaves no choice.
    link_up
        Bring-up of links after circuits were switched; ``None`` where they never are.
    """

    when: str
    allocator: CircuitAllocator | None
    other_policies: Mapping[str, Fabric]
    other_first: Mapping[str, Fabric]
    link_up: BringUp | None = None


@dataclass(frozen=True)
class CircuitRegion:
    """A region of servers and circuit switches, as a controller must know it.

    Attributes
    ----------
    rules
        What decides on its circuits.
    allocator
        Name of the algorithm that allocates them; that of ``rules`` if the core has it.
    ports
        Optical NICs of each server.
    planes
        How fibers are laid, a name of ``PLANES``, where NIC i of every server is on switch i;
        ``None`` for one switch.
    servers
        Servers at most.
    gpus_per_server
        GPUs of each.
    """

    rules: CircuitRules
    allocator: str
    ports: int
    planes: str | None
    servers: int
    gpus_per_server: int
