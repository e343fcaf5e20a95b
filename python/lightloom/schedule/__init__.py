"""Schedulers: demand to circuits, and demand of a job to a fixed topology.

The algorithms are Rust (``crates/schedule``), one function for the simulator, the controller of a
real switch and Python. Every function is deterministic and releases the interpreter lock.
"""

from typing import TYPE_CHECKING

from lightloom.lazy import export_on_use

if TYPE_CHECKING:
    from lightloom.schedule.allocator import AllocationRequest as AllocationRequest
    from lightloom.schedule.allocator import AllocatorCallback as AllocatorCallback
    from lightloom.schedule.allocator import CircuitAllocator as CircuitAllocator
    from lightloom.schedule.allocator import allocator_by_name as allocator_by_name
    from lightloom.schedule.allocator import custom_allocators as custom_allocators
    from lightloom.schedule.bounds import chunk_lateness_bound_s as chunk_lateness_bound_s
    from lightloom.schedule.bounds import chunk_lower_bound_s as chunk_lower_bound_s
    from lightloom.schedule.bounds import hybrid_lower_bound_s as hybrid_lower_bound_s
    from lightloom.schedule.bounds import line_bound_s as line_bound_s
    from lightloom.schedule.bounds import line_time_s as line_time_s
    from lightloom.schedule.bounds import permutation_lower_bound_s as permutation_lower_bound_s
    from lightloom.schedule.bounds import port_bound_s as port_bound_s
    from lightloom.schedule.changes import ChangeBatch as ChangeBatch
    from lightloom.schedule.changes import CircuitChange as CircuitChange
    from lightloom.schedule.changes import plan_change as plan_change
    from lightloom.schedule.chunks import CHUNK_METHODS as CHUNK_METHODS
    from lightloom.schedule.chunks import ChunkSchedule as ChunkSchedule
    from lightloom.schedule.chunks import decompose_chunks as decompose_chunks
    from lightloom.schedule.circuits import Allocation as Allocation
    from lightloom.schedule.circuits import allocate as allocate
    from lightloom.schedule.circuits import allocate_each as allocate_each
    from lightloom.schedule.circuits import allocate_exactly as allocate_exactly
    from lightloom.schedule.circuits import allocate_region as allocate_region
    from lightloom.schedule.circuits import changed_pairs as changed_pairs
    from lightloom.schedule.circuits import map_nics as map_nics
    from lightloom.schedule.circuits import route as route
    from lightloom.schedule.coloring import FabricRoute as FabricRoute
    from lightloom.schedule.coloring import check_coloring as check_coloring
    from lightloom.schedule.coloring import color_edges as color_edges
    from lightloom.schedule.coloring import route_permutation as route_permutation
    from lightloom.schedule.custom import Scheduler as Scheduler
    from lightloom.schedule.custom import custom_schedulers as custom_schedulers
    from lightloom.schedule.custom import schedule_by_name as schedule_by_name
    from lightloom.schedule.custom import schedule_of_arrays as schedule_of_arrays
    from lightloom.schedule.decider import Decider as Decider
    from lightloom.schedule.decider import Decision as Decision
    from lightloom.schedule.decider import Held as Held
    from lightloom.schedule.decider import Upcoming as Upcoming
    from lightloom.schedule.decider import upcoming_all_to_alls as upcoming_all_to_alls
    from lightloom.schedule.failures import parse_failures as parse_failures
    from lightloom.schedule.helios import EpochRun as EpochRun
    from lightloom.schedule.helios import helios_epochs as helios_epochs
    from lightloom.schedule.helios import helios_matchings as helios_matchings
    from lightloom.schedule.hybrid import HYBRID_METHODS as HYBRID_METHODS
    from lightloom.schedule.hybrid import HybridSchedule as HybridSchedule
    from lightloom.schedule.hybrid import decompose_hybrid as decompose_hybrid
    from lightloom.schedule.matching import BipartiteCertificate as BipartiteCertificate
    from lightloom.schedule.matching import GeneralCertificate as GeneralCertificate
    from lightloom.schedule.matching import Matching as Matching
    from lightloom.schedule.matching import max_weight_matching as max_weight_matching
    from lightloom.schedule.named_sets import ALL_TO_ALL_STRATEGIES as ALL_TO_ALL_STRATEGIES
    from lightloom.schedule.named_sets import ALLOCATION_METHODS as ALLOCATION_METHODS
    from lightloom.schedule.named_sets import ALLOCATORS as ALLOCATORS
    from lightloom.schedule.named_sets import FIRST_ALL_TO_ALL_MODES as FIRST_ALL_TO_ALL_MODES
    from lightloom.schedule.named_sets import PLANES as PLANES
    from lightloom.schedule.named_sets import WHEN_POLICIES as WHEN_POLICIES
    from lightloom.schedule.named_sets import choices as choices
    from lightloom.schedule.permutations import PERMUTATION_METHODS as PERMUTATION_METHODS
    from lightloom.schedule.permutations import PermutationSchedule as PermutationSchedule
    from lightloom.schedule.permutations import decompose as decompose
    from lightloom.schedule.permutations import decompose_all as decompose_all
    from lightloom.schedule.planes import PlanePlan as PlanePlan
    from lightloom.schedule.planes import allocate_on_planes as allocate_on_planes
    from lightloom.schedule.planes import assign_planes as assign_planes
    from lightloom.schedule.records import Failures as Failures
    from lightloom.schedule.records import Policy as Policy
    from lightloom.schedule.records import Region as Region
    from lightloom.schedule.records import RelayCost as RelayCost
    from lightloom.schedule.records import SwitchTiming as SwitchTiming
    from lightloom.schedule.relaying import RELAY_KINDS as RELAY_KINDS
    from lightloom.schedule.relaying import Relayed as Relayed
    from lightloom.schedule.relaying import RelayedAllocation as RelayedAllocation
    from lightloom.schedule.relaying import RelayLoads as RelayLoads
    from lightloom.schedule.relaying import allocate_relayed as allocate_relayed
    from lightloom.schedule.relaying import relay as relay
    from lightloom.schedule.relaying import relay_loads as relay_loads
    from lightloom.schedule.rotornet import RotorSchedule as RotorSchedule
    from lightloom.schedule.rotornet import RotorSwitches as RotorSwitches
    from lightloom.schedule.rotornet import rotate as rotate
    from lightloom.schedule.rotornet import rotornet_schedule as rotornet_schedule
    from lightloom.schedule.steps import ESTIMATORS as ESTIMATORS
    from lightloom.schedule.steps import HeliosStep as HeliosStep
    from lightloom.schedule.steps import OverTime as OverTime
    from lightloom.schedule.steps import Periods as Periods
    from lightloom.schedule.steps import RotorSlot as RotorSlot
    from lightloom.schedule.steps import XnestStep as XnestStep
    from lightloom.schedule.steps import helios_step as helios_step
    from lightloom.schedule.steps import rotor_slot as rotor_slot
    from lightloom.schedule.steps import serve_over_time as serve_over_time
    from lightloom.schedule.steps import xnest_step as xnest_step
    from lightloom.schedule.topoopt import Cycles as Cycles
    from lightloom.schedule.topoopt import Ring as Ring
    from lightloom.schedule.topoopt import TopoOptTopology as TopoOptTopology
    from lightloom.schedule.topoopt import cycles_in_order as cycles_in_order
    from lightloom.schedule.topoopt import topoopt_topology as topoopt_topology
    from lightloom.schedule.xnest_plus import XnestPlan as XnestPlan
    from lightloom.schedule.xnest_plus import xnest_epochs as xnest_epochs
    from lightloom.schedule.xnest_plus import xnest_plan as xnest_plan
    from lightloom.schedule.xnest_plus import xnest_sub_matrices as xnest_sub_matrices

export_on_use()
