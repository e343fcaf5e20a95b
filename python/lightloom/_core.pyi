"""The compiled core (``crates/python``)."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lightloom.demand.generator import DrawRequest
from lightloom.packets.requests import CircuitColumns, FlowColumns, RunRequest
from lightloom.packets.requests import TopologyRequest as PacketTopologyRequest
from lightloom.schedule.permutations import PermutationSchedule
from lightloom.schedule.requests import (
    AssignmentClaim,
    CircuitRequest,
    EpochOptions,
    FabricPaths,
    FabricShape,
    MatchingClaim,
    RelayCharges,
    RotorOptions,
    RoutingRequest,
    TopologyRequest,
)
from lightloom.schedule.rotornet import RotorSchedule
from lightloom.workload.task_graph import TaskGraph

__version__: str
__all__: list[str]

# sets of names: crates/python/src/choices.rs

def choices(key: str) -> list[tuple[str, str]]: ...

# demand: crates/python/src/demand.rs

@final
class FoldedCounts:
    @property
    def tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def rank_tokens(self) -> npt.NDArray[np.uint32]: ...
    @property
    def received(self) -> npt.NDArray[np.int64]: ...
    @property
    def stayed(self) -> int: ...

def demand_draw(request: DrawRequest) -> npt.NDArray[np.int64]: ...
def demand_fold(request: DrawRequest, members: int, by_rank: bool) -> FoldedCounts: ...

# schedule: crates/python/src/schedule/

@final
class CircuitAllocation:
    @property
    def circuits(self) -> npt.NDArray[np.uint16]: ...
    @property
    def eps_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def makespan_s(self) -> float: ...
    @property
    def port_bound_s(self) -> float: ...
    @property
    def line_bound_s(self) -> float: ...
    @property
    def chosen(self) -> str: ...

def schedule_allocate(method: str, request: CircuitRequest) -> CircuitAllocation: ...
def schedule_route(
    request: CircuitRequest, circuits: npt.NDArray[np.uint16]
) -> CircuitAllocation: ...
def schedule_makespan(request: CircuitRequest, circuits: npt.NDArray[np.uint16]) -> float: ...
def schedule_port_bound(request: CircuitRequest) -> float: ...
def schedule_changed_pairs(
    previous: npt.NDArray[np.uint16], following: npt.NDArray[np.uint16]
) -> int: ...
def schedule_map_nics(
    circuits: npt.NDArray[np.uint16],
    ports: npt.NDArray[np.uint32],
    numa_nodes: int,
    previous: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint32]: ...
def schedule_break_even(
    method: str | None,
    request: CircuitRequest,
    ahead: tuple[npt.NDArray[np.uint64], list[int]],
    proposals: npt.NDArray[np.uint16],
    switching: tuple[tuple[int, int], bool],
) -> tuple[
    tuple[float, float, float],
    bool,
    tuple[npt.NDArray[np.uint16], int],
    npt.NDArray[np.uint16],
]: ...
def schedule_assign_planes(
    circuits: npt.NDArray[np.uint16],
    working: npt.NDArray[np.bool_],
    duplex: bool,
    effort: int,
) -> tuple[npt.NDArray[np.uint32] | None, str | None, list[tuple[int, int]]]: ...
def schedule_assign_most(
    circuits: npt.NDArray[np.uint16],
    working: npt.NDArray[np.bool_],
    duplex: bool,
    effort: int,
) -> npt.NDArray[np.uint32]: ...
def schedule_check_planes(
    circuits: npt.NDArray[np.uint16],
    working: npt.NDArray[np.bool_],
    duplex: bool,
    assigned: npt.NDArray[np.uint32],
) -> None: ...

@final
class JobTopology:
    @property
    def circuits(self) -> npt.NDArray[np.uint32]: ...
    @property
    def cycles(self) -> npt.NDArray[np.uint32]: ...
    @property
    def route_offsets(self) -> npt.NDArray[np.uint32]: ...
    @property
    def route_servers(self) -> npt.NDArray[np.uint32]: ...

def schedule_topoopt(request: TopologyRequest) -> JobTopology: ...

@final
class PermutationSlots:
    @property
    def matchings(self) -> npt.NDArray[np.int32]: ...
    @property
    def hold_bytes(self) -> npt.NDArray[np.uint64]: ...

@final
class PermutationPlan:
    @property
    def slots(self) -> PermutationSlots | None: ...
    @property
    def transfers(self) -> npt.NDArray[np.uint64] | None: ...
    @property
    def length_bytes(self) -> int: ...
    @property
    def lower_bound_bytes(self) -> int: ...
    @property
    def chosen(self) -> str: ...
    @property
    def time_spent_s(self) -> float: ...

def schedule_decompose(
    demand: npt.NDArray[np.uint64],
    delay_bytes: int,
    partial: bool,
    method: str,
    time_limit_s: float | None,
) -> PermutationPlan: ...
def schedule_transfer_slots(
    rows: int, delay_bytes: int, transfers: npt.NDArray[np.uint64]
) -> PermutationSlots: ...
def schedule_check_decomposition(
    demand: npt.NDArray[np.uint64], schedule: PermutationSchedule
) -> None: ...
def schedule_color_edges(
    edges: npt.NDArray[np.uint32], left: int, right: int, colors: int | None
) -> npt.NDArray[np.int32]: ...
def schedule_check_coloring(
    edges: npt.NDArray[np.uint32],
    left: int,
    right: int,
    colors: int,
    color_of_edge: npt.NDArray[np.int32],
) -> None: ...

@final
class FabricSettings:
    @property
    def spine(self) -> npt.NDArray[np.int32]: ...
    @property
    def core(self) -> npt.NDArray[np.int32]: ...
    @property
    def leaf_switches(self) -> npt.NDArray[np.int32]: ...
    @property
    def spine_switches(self) -> npt.NDArray[np.int32]: ...
    @property
    def core_switches(self) -> npt.NDArray[np.int32]: ...

def schedule_route_permutation(
    permutation: npt.NDArray[np.int32], shape: FabricShape
) -> FabricSettings: ...
def schedule_check_route(
    permutation: npt.NDArray[np.int32],
    shape: FabricShape,
    settings: FabricPaths | FabricSettings,
) -> None: ...

@final
class BipartiteMatching:
    @property
    def column_of(self) -> npt.NDArray[np.int32]: ...
    @property
    def weight(self) -> int: ...
    @property
    def row_duals(self) -> npt.NDArray[np.int64]: ...
    @property
    def column_duals(self) -> npt.NDArray[np.int64]: ...

def schedule_assign(weights: npt.NDArray[np.int64]) -> BipartiteMatching: ...
def schedule_check_assignment(
    weights: npt.NDArray[np.int64], claim: AssignmentClaim | BipartiteMatching
) -> None: ...

@final
class GraphMatching:
    @property
    def mate(self) -> npt.NDArray[np.int32]: ...
    @property
    def weight(self) -> int: ...
    @property
    def doubled_duals(self) -> npt.NDArray[np.int64]: ...
    @property
    def blossoms(self) -> list[tuple[list[int], int]]: ...

def schedule_match_general(weights: npt.NDArray[np.int64]) -> GraphMatching: ...
def schedule_check_general(
    weights: npt.NDArray[np.int64], claim: MatchingClaim | GraphMatching
) -> None: ...

@final
class RelayRouting:
    @property
    def paths(self) -> npt.NDArray[np.int32]: ...
    @property
    def size_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def makespan_s(self) -> float: ...
    @property
    def latency_s(self) -> float: ...
    @property
    def one_hop_s(self) -> float: ...
    @property
    def with_relays_s(self) -> float: ...
    @property
    def lower_bound_s(self) -> float: ...
    @property
    def verdict(self) -> str: ...

@final
class RelayedLoads:
    @property
    def circuit_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def eps_out_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def eps_in_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def staging_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def makespan_s(self) -> float: ...

@final
class RelayedCircuits:
    @property
    def circuits(self) -> npt.NDArray[np.uint16]: ...
    @property
    def routing(self) -> RelayRouting: ...
    @property
    def origin(self) -> str: ...
    @property
    def evaluations(self) -> int: ...
    @property
    def port_bound_s(self) -> float: ...

def schedule_relay(request: RoutingRequest) -> RelayRouting: ...
def schedule_allocate_relayed(
    request: CircuitRequest, charges: RelayCharges, max_evaluations: int
) -> RelayedCircuits: ...
def schedule_relay_as(
    request: RoutingRequest,
    paths: npt.NDArray[np.int32],
    size_bytes: npt.NDArray[np.float64],
    lower_bound_s: float,
) -> RelayRouting: ...
def schedule_relay_loads(
    request: RoutingRequest,
    paths: npt.NDArray[np.int32],
    size_bytes: npt.NDArray[np.uint64],
) -> RelayedLoads: ...
def schedule_relay_bound(
    request: RoutingRequest,
    arcs: npt.NDArray[np.float64],
    servers: npt.NDArray[np.float64],
) -> float: ...

@final
class RotorPlan:
    @property
    def turns(self) -> npt.NDArray[np.uint64]: ...
    @property
    def holds_bytes(self) -> npt.NDArray[np.uint64]: ...
    @property
    def moves(self) -> npt.NDArray[np.uint64]: ...
    @property
    def length_bytes(self) -> int: ...
    @property
    def largest_line_bytes(self) -> int: ...

def schedule_rotornet(demand: npt.NDArray[np.uint64], options: RotorOptions) -> RotorPlan: ...
def schedule_check_rotornet(demand: npt.NDArray[np.uint64], schedule: RotorSchedule) -> None: ...

@final
class EpochPlan:
    @property
    def matchings(self) -> npt.NDArray[np.int32]: ...
    @property
    def turned(self) -> int: ...
    @property
    def length_bytes(self) -> int: ...
    @property
    def largest_line_bytes(self) -> int: ...

@final
class SwitchPlan:
    @property
    def weights_bytes(self) -> list[int]: ...
    @property
    def counts(self) -> list[int]: ...
    @property
    def settings(self) -> list[tuple[int, int]]: ...
    @property
    def phases(self) -> tuple[list[int], list[int]]: ...

def schedule_helios(demand: npt.NDArray[np.uint64], options: EpochOptions) -> EpochPlan: ...
def schedule_helios_matchings(
    demand: npt.NDArray[np.uint64], options: EpochOptions
) -> npt.NDArray[np.int32]: ...
def schedule_xnest_plus(
    demand: npt.NDArray[np.uint64], options: EpochOptions, reading: str
) -> EpochPlan: ...
def schedule_xnest_plan(
    demand: npt.NDArray[np.uint64],
    switches: int,
    reading: str,
    previous: list[tuple[int, int]] | None,
) -> SwitchPlan: ...
def schedule_sub_matrices(nodes: int, reading: str) -> list[npt.NDArray[np.int32]]: ...

# simulate: crates/python/src/execute.rs

CircuitQuestion = tuple[
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint32],
    npt.NDArray[np.bool_] | None,
    npt.NDArray[np.uint16] | None,
    tuple[int, list[int]],
    bool,
]

class NetworkInvalid(ValueError): ...  # noqa: N818

def execute(
    graph: TaskGraph,
    network: dict[str, Any],
    options: dict[str, Any],
    progress: Callable[[float], bool | None] | None,
    allocator: Callable[[list[CircuitQuestion]], list[npt.NDArray[np.uint16]]] | None,
    model: PhaseBook | tuple[str, int | None, int | None, int] | None,
) -> dict[str, Any]: ...

@final
class PhaseBook:
    def __new__(
        cls,
        network: dict[str, Any],
        packets: tuple[str, int | None, int | None, int],
        sample: int | None,
        purposes: list[str] | None,
    ) -> PhaseBook: ...
    def mtu(self) -> int: ...
    def pending(self) -> tuple[int, int]: ...
    def all_hops(self) -> int: ...
    def simulate(self, progress: Callable[[float], bool | None] | None) -> None: ...
    def counts(self) -> dict[str, dict[str, Any]]: ...

# packets: crates/python/src/packets/

class PacketsStuck(RuntimeError): ...  # noqa: N818

def packet_profile(name: str, rate_bps: int) -> dict[str, dict[str, Any]]: ...

@final
class PacketGraph:
    @property
    def names(self) -> list[str]: ...
    @property
    def source(self) -> npt.NDArray[np.uint32]: ...
    @property
    def destination(self) -> npt.NDArray[np.uint32]: ...

def packet_topology(network: PacketTopologyRequest) -> PacketGraph: ...

@final
class PacketReport:
    @property
    def end_ps(self) -> int: ...
    @property
    def data_hops(self) -> int: ...
    @property
    def control_hops(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def peak_packets(self) -> int: ...
    @property
    def trace_hash(self) -> str: ...
    @property
    def nodes(self) -> list[str]: ...
    @property
    def layers(self) -> list[str]: ...
    @property
    def links(self) -> dict[str, npt.NDArray[Any]]: ...
    @property
    def samples(self) -> dict[str, npt.NDArray[Any]] | None: ...
    @property
    def trace(self) -> dict[str, Any]: ...

def packet_simulate(
    network: PacketTopologyRequest,
    tables: dict[str, dict[str, Any]],
    flows: FlowColumns,
    circuits: CircuitColumns | None,
    run: RunRequest,
    progress: Callable[[int, int, int, dict[str, npt.NDArray[Any]]], bool | None] | None,
) -> PacketReport: ...
