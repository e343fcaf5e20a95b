"""Schedulers: demand to circuits, and demand of a job to a fixed topology.

The algorithms are Rust (``crates/schedule``), one function for the simulator, the controller of a
real switch and Python. Every function is deterministic and releases the interpreter lock.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import exports

if TYPE_CHECKING:
    from lightloom.schedule.allocator import (
        AllocationRequest,
        AllocatorCallback,
        CircuitAllocator,
        allocator_by_name,
        custom_allocators,
    )
    from lightloom.schedule.bounds import (
        chunk_lateness_bound_s,
        chunk_lower_bound_s,
        hybrid_lower_bound_s,
        line_bound_s,
        line_time_s,
        permutation_lower_bound_s,
        port_bound_s,
    )
    from lightloom.schedule.changes import ChangeBatch, CircuitChange, plan_change
    from lightloom.schedule.chunks import CHUNK_METHODS, ChunkSchedule, decompose_chunks
    from lightloom.schedule.circuits import (
        Allocation,
        allocate,
        allocate_each,
        allocate_exactly,
        allocate_region,
        changed_pairs,
        map_nics,
        route,
    )
    from lightloom.schedule.coloring import (
        FabricRoute,
        check_coloring,
        color_edges,
        route_permutation,
    )
    from lightloom.schedule.custom import (
        Scheduler,
        custom_schedulers,
        schedule_by_name,
        schedule_of_arrays,
    )
    from lightloom.schedule.decider import (
        Decider,
        Decision,
        Held,
        Upcoming,
        upcoming_all_to_alls,
    )
    from lightloom.schedule.failures import parse_failures
    from lightloom.schedule.helios import EpochRun, helios_epochs, helios_matchings
    from lightloom.schedule.hybrid import (
        HYBRID_METHODS,
        HybridSchedule,
        decompose_hybrid,
    )
    from lightloom.schedule.matching import (
        BipartiteCertificate,
        GeneralCertificate,
        Matching,
        max_weight_matching,
    )
    from lightloom.schedule.named_sets import (
        ALL_TO_ALL_STRATEGIES,
        ALLOCATION_METHODS,
        ALLOCATORS,
        FIRST_ALL_TO_ALL_MODES,
        PLANES,
        RECONFIGURE_POLICIES,
        choices,
    )
    from lightloom.schedule.permutations import (
        PERMUTATION_METHODS,
        PermutationSchedule,
        decompose,
        decompose_all,
    )
    from lightloom.schedule.planes import PlanePlan, allocate_on_planes, assign_planes
    from lightloom.schedule.records import Failures, Policy, Region, RelayCost, SwitchTiming
    from lightloom.schedule.relaying import (
        RELAY_KINDS,
        Relayed,
        RelayedAllocation,
        RelayLoads,
        allocate_relayed,
        relay,
        relay_loads,
    )
    from lightloom.schedule.rotornet import (
        RotorSchedule,
        RotorSwitches,
        rotate,
        rotornet_schedule,
    )
    from lightloom.schedule.steps import (
        ESTIMATORS,
        HeliosStep,
        OverTime,
        Periods,
        RotorSlot,
        XnestStep,
        helios_step,
        rotor_slot,
        serve_over_time,
        xnest_step,
    )
    from lightloom.schedule.topoopt import (
        Cycles,
        Ring,
        TopoOptTopology,
        cycles_in_order,
        topoopt_topology,
    )
    from lightloom.schedule.xnest_plus import (
        XnestPlan,
        xnest_epochs,
        xnest_plan,
        xnest_sub_matrices,
    )

__all__ = [
    "ALLOCATION_METHODS",
    "ALLOCATORS",
    "ALL_TO_ALL_STRATEGIES",
    "CHUNK_METHODS",
    "ESTIMATORS",
    "FIRST_ALL_TO_ALL_MODES",
    "HYBRID_METHODS",
    "PERMUTATION_METHODS",
    "PLANES",
    "RECONFIGURE_POLICIES",
    "RELAY_KINDS",
    "Allocation",
    "AllocationRequest",
    "AllocatorCallback",
    "BipartiteCertificate",
    "ChangeBatch",
    "ChunkSchedule",
    "CircuitAllocator",
    "CircuitChange",
    "Cycles",
    "Decider",
    "Decision",
    "EpochRun",
    "FabricRoute",
    "Failures",
    "GeneralCertificate",
    "Held",
    "HeliosStep",
    "HybridSchedule",
    "Matching",
    "OverTime",
    "Periods",
    "PermutationSchedule",
    "PlanePlan",
    "Policy",
    "Region",
    "RelayCost",
    "RelayLoads",
    "Relayed",
    "RelayedAllocation",
    "Ring",
    "RotorSchedule",
    "RotorSlot",
    "RotorSwitches",
    "Scheduler",
    "SwitchTiming",
    "TopoOptTopology",
    "Upcoming",
    "XnestPlan",
    "XnestStep",
    "allocate",
    "allocate_each",
    "allocate_exactly",
    "allocate_on_planes",
    "allocate_region",
    "allocate_relayed",
    "allocator_by_name",
    "assign_planes",
    "changed_pairs",
    "check_coloring",
    "choices",
    "chunk_lateness_bound_s",
    "chunk_lower_bound_s",
    "color_edges",
    "custom_allocators",
    "custom_schedulers",
    "cycles_in_order",
    "decompose",
    "decompose_all",
    "decompose_chunks",
    "decompose_hybrid",
    "helios_epochs",
    "helios_matchings",
    "helios_step",
    "hybrid_lower_bound_s",
    "line_bound_s",
    "line_time_s",
    "map_nics",
    "max_weight_matching",
    "parse_failures",
    "permutation_lower_bound_s",
    "plan_change",
    "port_bound_s",
    "relay",
    "relay_loads",
    "rotate",
    "rotor_slot",
    "rotornet_schedule",
    "route",
    "route_permutation",
    "schedule_by_name",
    "schedule_of_arrays",
    "serve_over_time",
    "topoopt_topology",
    "upcoming_all_to_alls",
    "xnest_epochs",
    "xnest_plan",
    "xnest_step",
    "xnest_sub_matrices",
]

__getattr__ = exports(__name__)
