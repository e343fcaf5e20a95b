"""What a comparison of schedulers found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lightloom import schedule
from lightloom.optional import need
from lightloom.shown import Shown, views
from lightloom.study.scheduling.data import as_rows
from lightloom.study.scheduling.other_systems import SystemRow
from lightloom.study.scheduling.problem import DemandProfile, Problem
from lightloom.units import show_bytes, show_time

if TYPE_CHECKING:
    import polars

    from lightloom.report.figure import Figure


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


@dataclass(repr=False)
class ScheduleComparison(Shown):
    """Everything that was found; what an interrupt or the time limit cut off is missing.

    Attributes
    ----------
    schedules
        Schedules of permutations by their method.
    hybrids
        Schedules of circuits and packets by their method, if there is an EPS for them.
    chunked
        Schedules of chunks by their method, if the demand has chunks.
    systems
        What other systems do, by their name.
    not_begun
        Methods and systems that the time limit left out.
    too_large
        Methods of ``auto`` whose slots would not fit into memory.
    left_out
        Why a scheduler or an allocator of an installed package has no row, by its name.
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

    Examples
    --------
    >>> import lightloom
    >>> lightloom.compare_schedules([[0, 5], [7, 0]], fixed_s=0)
    ScheduleComparison(demand: 2 x 2, 12 B; shortest round-robin, 0.14 ns)
    """

    problem: Problem
    profile: DemandProfile
    schedules: dict[str, schedule.PermutationSchedule] = field(default_factory=dict)
    hybrids: dict[str, schedule.HybridSchedule] = field(default_factory=dict)
    chunked: dict[str, schedule.ChunkSchedule] = field(default_factory=dict)
    systems: dict[str, SystemRow] = field(default_factory=dict)
    not_begun: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    allocations: list[AllocationRow] = field(default_factory=list)
    held: schedule.Allocation | None = None
    held_relayed: schedule.Relayed | None = None
    made_to_relay: schedule.RelayedAllocation | None = None
    planes: schedule.PlanePlan | None = None
    decision: schedule.Decision | None = None
    interrupted: bool = False

    def __repr__(self) -> str:
        of, name = self.profile, self.winner
        summary = "no schedule"
        if name is not None:
            summary = f"shortest {name}, {show_time(self.schedules[name].length_s)}"
        size = f"{of.sources} x {of.destinations}, {show_bytes(of.total_bytes)}"
        return f"ScheduleComparison({self.problem.name}: {size}; {summary})"

    def to_polars(self) -> polars.DataFrame:
        """Return a row per scheduler."""
        need("polars", "to_polars")
        import polars

        return polars.DataFrame(as_rows(self), infer_schema_length=None)

    def plot(self) -> Figure:
        """Draw the shortest schedule: to whom each source sends when.

        Raises
        ------
        ValueError
            If an interrupt left no schedule.
        """
        return views().draw(self)

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
    def best_hybrid(self) -> str | None:
        """The method with the shortest schedule of circuits and packets."""
        return min(self.hybrids, key=lambda name: self.hybrids[name].length_bytes, default=None)

    @property
    def best_chunked(self) -> str | None:
        """The method that is the least late, the shortest among equals."""
        return min(
            self.chunked,
            key=lambda name: (
                self.chunked[name].lateness_bytes or 0,
                self.chunked[name].length_bytes,
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
