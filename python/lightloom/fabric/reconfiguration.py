"""How the circuits of a fabric follow the demand, for whoever runs or compares fabrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.schedule import CircuitAllocator

if TYPE_CHECKING:
    from lightloom.fabric.base import Fabric


@dataclass(frozen=True)
class Reconfiguration:
    """When circuits are switched and who chooses them.

    Attributes
    ----------
    policy
        When circuits are switched.
    allocator
        Chooses circuits instead of the core's allocators, if anything does.
    other_policies
        The fabric under every other policy.
    other_first
        The fabric with another treatment of the first all-to-all, by its name (``block`` or
        ``reuse``); empty where the policy leaves no choice.
    """

    policy: str
    allocator: CircuitAllocator | None
    other_policies: Mapping[str, Fabric]
    other_first: Mapping[str, Fabric]
