"""The decisions of a run with everything that they started from, and how to take them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightloom.fabric.network import Ocs
from lightloom.schedule import (
    CircuitAllocator,
    Decider,
    Decision,
    Failures,
    Held,
    Policy,
    Region,
    RelayCost,
    Upcoming,
)


@dataclass(frozen=True)
class DecisionRecord:
    """One decision of a run.

    Attributes
    ----------
    time_s
        When it was taken.
    region
        Index into the regions of the log.
    held, upcoming
        What it started from.
    decision
        What was decided.
    """

    time_s: float
    region: int
    held: Held
    upcoming: tuple[Upcoming, ...]
    decision: Decision


@dataclass(frozen=True)
class DecisionLog:
    """All decisions of a run, in order.

    Attributes
    ----------
    records
        The decisions.
    ocs
        The circuit switches of the network, with their timing.
    policy
        How circuits follow the demand.
    """

    records: tuple[DecisionRecord, ...]
    ocs: Ocs
    policy: Policy
    _regions: tuple[dict[str, Any], ...]

    @property
    def regions(self) -> int:
        """Number of regions; those that are alike are one."""
        return len(self._regions)

    def decider(self, region: int, allocator: CircuitAllocator | None = None) -> Decider:
        """Return a decider that takes the decisions of a region as the run did.

        Parameters
        ----------
        region
            Index of the region.
        allocator
            The custom allocator of the run, if it had one.
        """
        values = dict(self._regions[region])
        nics = {name: values.pop(name) for name in ("planes", "numa_nodes")}
        values["failed"] = Failures(**values["failed"])
        return Decider(
            len(values["ports"]),
            Region(**values),
            policy=self.policy,
            timing=self.ocs.timing,
            allocator=allocator,
            **nics,
        )


def decision_log(recorded: dict[str, Any] | None, ocs: Ocs | None) -> DecisionLog | None:
    """Convert what the core recorded; ``None`` if nothing was recorded."""
    if recorded is None or ocs is None:
        return None
    records = tuple(DecisionRecord(**record) for record in recorded["records"])
    policy = dict(recorded["policy"])
    if policy["relaying"] is not None:
        policy["relaying"] = RelayCost(**policy["relaying"])
    return DecisionLog(records, ocs, Policy(**policy), tuple(recorded["regions"]))
