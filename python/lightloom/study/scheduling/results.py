"""What a comparison of schedulers found."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightloom import schedule
from lightloom.study.scheduling.other_systems import SystemRow
from lightloom.study.scheduling.problem import DemandProfile, Problem


@dataclass(frozen=True)
class AllocationRow:
    """Circuits of one allocator.

    Attributes
    ----------
    split, whole
        With and without spilling to the EPS what a pair's circuits cannot carry.
    changed_pairs
        Port pairs that the switch touches to get from the held circuits to those of ``split``.
    took_s
        Time to compute the circuits of ``split``.
    relayed
        How third servers relay over the circuits of ``split``, if that was asked for.
    """

    method: str
    split: schedule.Allocation
    whole: schedule.Allocation
    changed_pairs: int
    took_s: float
    relayed: schedule.Relayed | None = None


@dataclass
class Scheduling:
    """Everything that was found; what an interrupt or the time limit cut off is missing.

    Attributes
    ----------
    schedules
        Schedules of permutations by their method.
    systems
        What other systems do, by their name.
    not_begun
        Methods and systems that the time limit left out.
    allocations
        Circuits under the port budget.
    held
        The circuits that are there: those given, else the static circulant.
    held_relayed
        How third servers relay over these, if that was asked for.
    made_to_relay
        Circuits that were chosen for relaying, if that was asked for.
    planes
        How the best circuits lie on planes, if that was asked for.
    decision
        Whether to leave them for one of the allocations.
    """

    problem: Problem
    profile: DemandProfile
    schedules: dict[str, schedule.PermutationSchedule] = field(default_factory=dict)
    systems: dict[str, SystemRow] = field(default_factory=dict)
    not_begun: list[str] = field(default_factory=list)
    allocations: list[AllocationRow] = field(default_factory=list)
    held: schedule.Allocation | None = None
    held_relayed: schedule.Relayed | None = None
    made_to_relay: schedule.RelayedAllocation | None = None
    planes: schedule.PlanePlan | None = None
    decision: schedule.BreakEven | None = None
    interrupted: bool = False

    @property
    def winner(self) -> str | None:
        """The method with the shortest schedule, the fewest configurations among equals."""
        return min(
            self.schedules,
            key=lambda name: (
                self.schedules[name].length_bytes,
                self.schedules[name].configurations,
            ),
            default=None,
        )

    @property
    def best_allocation(self) -> AllocationRow | None:
        """The fastest allocation with split, the fewest changed pairs among equals."""
        return min(
            self.allocations,
            key=lambda row: (row.split.makespan_s, row.changed_pairs),
            default=None,
        )

    @property
    def best_relayed(self) -> AllocationRow | None:
        """The allocation over which relaying is fastest, if it was asked for."""
        rows = [row for row in self.allocations if row.relayed is not None]
        return min(rows, key=_relayed_s, default=None)


def _relayed_s(row: AllocationRow) -> tuple[float, int]:
    assert row.relayed is not None
    return row.relayed.time_s, row.changed_pairs
