"""The compiled core (``crates/python``)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from lightloom.demand.deduplicate import GateRequest
from lightloom.demand.generator import DrawRequest
from lightloom.fabric.network import Network
from lightloom.packets.core_columns import (
    CircuitColumns,
    FlowColumns,
    PacketTopologyRequest,
    RunRequest,
)
from lightloom.progress import Progress
from lightloom.schedule import AllocatorCallback
from lightloom.schedule.chunks import ChunkSchedule
from lightloom.schedule.core_requests import (
    AssignmentClaim,
    ChunkRequest,
    CircuitRequest,
    FabricPaths,
    FabricShape,
    MatchingClaim,
    RoutingRequest,
)
from lightloom.schedule.hybrid import HybridSchedule
from lightloom.schedule.permutations import PermutationSchedule
from lightloom.schedule.records import RelayCost, SwitchTiming
from lightloom.schedule.rotornet import RotorSchedule
from lightloom.schedule.topoopt import Ring
from lightloom.simulate.packet_options import Packets
from lightloom.simulate.predictor import PredictorCallback
from lightloom.workload.task_graph import TaskGraph

__version__: str

# sets of names: crates/python/src/choices.rs

def choices(key: str) -> list[tuple[str, str]]: ...

# demand: crates/python/src/demand.rs

@final
class FoldedCounts:
    tokens: Final[npt.NDArray[np.uint32]]
    rank_tokens: Final[npt.NDArray[np.uint32]]
    received: Final[npt.NDArray[np.int64]]
    stayed: Final[int]

@final
class SummedCounts:
    copies: Final[npt.NDArray[np.uint32]]
    largest: Final[npt.NDArray[np.uint32]]
    by_expert: Final[npt.NDArray[np.int64]]

def demand_draw(request: DrawRequest) -> npt.NDArray[np.int64]: ...
def demand_fold(request: DrawRequest, members: int, by_rank: bool) -> FoldedCounts: ...
def demand_sum(request: DrawRequest) -> SummedCounts: ...
def demand_reach(
    request: GateRequest, chances: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]: ...

# predictors of expert loads: crates/python/src/load_predictor.rs

@final
class LoadPredictor:
    def __new__(cls, name: str, experts: int, window: int) -> LoadPredictor: ...
    def observe(self, step: int, layer: int, loads: npt.NDArray[np.float64]) -> None: ...
    def predict(self, step: int, layer: int) -> npt.NDArray[np.float64]: ...

# schedule: crates/python/src/schedule/

@final
class CircuitAllocation:
    circuits: Final[npt.NDArray[np.uint16]]
    eps_bytes: Final[npt.NDArray[np.uint64]]
    makespan_s: Final[float]
    port_bound_s: Final[float]
    line_bound_s: Final[float]
    chosen: Final[str]

def schedule_allocate(
    method: str, request: CircuitRequest, tolerance: float
) -> CircuitAllocation: ...
def schedule_route(
    request: CircuitRequest, circuits: npt.NDArray[np.uint16]
) -> CircuitAllocation: ...
def schedule_makespan(request: CircuitRequest, circuits: npt.NDArray[np.uint16]) -> float: ...
def schedule_port_bound(request: CircuitRequest) -> float: ...
def schedule_line_bound(request: CircuitRequest) -> float: ...
def schedule_changed_pairs(
    previous: npt.NDArray[np.uint16], following: npt.NDArray[np.uint16]
) -> int: ...
def schedule_allocate_each(
    method: str, request: CircuitRequest, demands: npt.NDArray[np.uint64]
) -> list[CircuitAllocation]: ...
def schedule_map_nics(
    circuits: npt.NDArray[np.uint16],
    ports: npt.NDArray[np.uint32],
    working: npt.NDArray[np.bool_],
    numa_nodes: int,
    previous: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint32]: ...

@final
class RecordField:
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def takes(self) -> str: ...
    @property
    def limits(self) -> tuple[float, float] | None: ...
    @property
    def of(self) -> str | None: ...
    @property
    def required(self) -> bool: ...
    @property
    def default(self) -> bool | int | float | str | tuple[()] | None: ...

def record_fields(name: str) -> list[RecordField]: ...
def record_values(name: str, written: dict[str, Any]) -> dict[str, Any]: ...
def switching_time_s(timing: SwitchTiming, pairs: int) -> float: ...

@final
class PlaneAssignment:
    nics: Final[npt.NDArray[np.uint32] | None]
    reason: Final[str | None]
    left: Final[list[tuple[int, int]]]
    moves: Final[int]
    is_fewest: Final[bool]

def schedule_assign_planes(
    circuits: npt.NDArray[np.uint16],
    working: npt.NDArray[np.bool_],
    duplex: bool,
    effort: int,
    previous: npt.NDArray[np.uint32] | None,
) -> PlaneAssignment: ...

@final
class ChangePlan:
    batches: Final[list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]]
    dark: Final[list[tuple[int, int]]]

def schedule_plan_batches(
    before: npt.NDArray[np.uint32],
    wanted: npt.NDArray[np.uint32],
    has_eps: npt.NDArray[np.bool_],
    max_pairs: int,
) -> ChangePlan: ...
def schedule_build_on_planes(
    request: CircuitRequest,
    circuits: npt.NDArray[np.uint16],
    working: npt.NDArray[np.bool_],
    duplex: bool,
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32]]: ...
def schedule_check_planes(
    circuits: npt.NDArray[np.uint16],
    working: npt.NDArray[np.bool_],
    duplex: bool,
    assigned: npt.NDArray[np.uint32],
) -> None: ...

@final
class JobTopology:
    circuits: Final[npt.NDArray[np.uint32]]
    cycles: Final[npt.NDArray[np.uint32]]
    routed_edges: Final[npt.NDArray[np.uint32]]
    route_offsets: Final[npt.NDArray[np.uint32]]
    route_servers: Final[npt.NDArray[np.uint32]]
    busiest_bytes: Final[npt.NDArray[np.float64]]

def schedule_topoopt(
    servers: int,
    degree: int,
    max_routes: int,
    rings: Sequence[Ring],
    strides: str,
    demand: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint64]],
    phases: npt.NDArray[np.uint32],
) -> JobTopology: ...

@final
class PermutationSlots:
    matchings: Final[npt.NDArray[np.int32]]
    hold_bytes: Final[npt.NDArray[np.uint64]]

@final
class PermutationPlan:
    slots: Final[PermutationSlots | None]
    switch_of_slot: Final[npt.NDArray[np.int32] | None]
    transfers: Final[npt.NDArray[np.uint64] | None]
    length_bytes: Final[int]
    lower_bound_bytes: Final[int]
    chosen: Final[str]
    new_slots: Final[int | None]
    time_spent_s: Final[float]

def schedule_decompose(
    demand: npt.NDArray[np.uint64],
    delay_bytes: int,
    partial: bool,
    method: str,
    time_limit_s: float | None,
    switches: int,
    previous: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], int] | None,
) -> PermutationPlan: ...
def schedule_decomposition_bound(
    demand: npt.NDArray[np.uint64], delay_bytes: int, partial: bool, switches: int
) -> int: ...
def schedule_transfer_slots(
    rows: int, delay_bytes: int, transfers: npt.NDArray[np.uint64]
) -> PermutationSlots: ...
def schedule_check_decomposition(
    demand: npt.NDArray[np.uint64], schedule: PermutationSchedule
) -> None: ...

@final
class HybridPlan:
    matchings: Final[npt.NDArray[np.int32]]
    hold_bytes: Final[npt.NDArray[np.uint64]]
    eps_bytes: Final[npt.NDArray[np.uint64]]
    relays: Final[npt.NDArray[np.uint64] | None]
    relay_memory_bytes: Final[npt.NDArray[np.uint64]]
    length_bytes: Final[int]
    lower_bound_bytes: Final[int]
    time_spent_s: Final[float]

@final
class ChunkPlan:
    matchings: Final[npt.NDArray[np.int32]]
    start_bytes: Final[npt.NDArray[np.uint64]]
    hold_bytes: Final[npt.NDArray[np.uint64]]
    transfers: Final[npt.NDArray[np.int64]]
    end_bytes: Final[npt.NDArray[np.uint64]]
    length_bytes: Final[int]
    lower_bound_bytes: Final[int]
    lateness_bytes: Final[int | None]
    lateness_bound_bytes: Final[int | None]
    time_spent_s: Final[float]

def schedule_chunk_plan(
    request: ChunkRequest, method: str, time_limit_s: float | None
) -> ChunkPlan: ...
def schedule_chunk_bound(request: ChunkRequest) -> tuple[int, int | None]: ...
def schedule_check_chunks(request: ChunkRequest, schedule: ChunkSchedule) -> None: ...
def schedule_hybrid_plan(
    demand: npt.NDArray[np.uint64],
    ports: Mapping[str, int],
    method: str,
    time_limit_s: float | None,
    relay: bool,
) -> HybridPlan: ...
def schedule_hybrid_bound(
    demand: npt.NDArray[np.uint64], ports: Mapping[str, int], relay: bool
) -> int: ...
def schedule_check_hybrid(demand: npt.NDArray[np.uint64], schedule: HybridSchedule) -> None: ...

@final
class HeldMatchings:
    matchings: Final[npt.NDArray[np.int32]]
    turned: Final[list[bool]]

@final
class HeldSettings:
    settings: Final[list[tuple[int, int]]]
    switches: Final[HeldMatchings]
    next: Final[str]

@final
class QueueSlot:
    hold_bytes: Final[int]
    moves: Final[npt.NDArray[np.uint64]]
    own: Final[npt.NDArray[np.uint64]]
    relayed: Final[npt.NDArray[np.uint64]]

@final
class PeriodColumns:
    backlog: Final[npt.NDArray[np.uint64]]
    carried: Final[npt.NDArray[np.uint64]]
    turned: Final[int]

def schedule_helios_step(
    estimate: npt.NDArray[np.uint64],
    held: npt.NDArray[np.int32] | None,
    options: Mapping[str, int],
    hysteresis: int | None,
) -> HeldMatchings: ...
def schedule_xnest_step(
    measured: npt.NDArray[np.uint64],
    held: Sequence[tuple[int, int]],
    options: Mapping[str, int],
    reading: str,
    turning: str,
    hysteresis: int | None,
) -> HeldSettings: ...
def schedule_rotor_slot(
    own: npt.NDArray[np.uint64],
    relayed: npt.NDArray[np.uint64],
    options: Mapping[str, Any],
    turn: int,
) -> QueueSlot: ...
def schedule_over_time(
    arrivals: Sequence[npt.NDArray[np.uint64]],
    options: Mapping[str, int],
    system: str,
    estimator: str,
    weight: int,
    hysteresis: int | None,
) -> PeriodColumns: ...
def schedule_color_edges(
    edges: npt.NDArray[np.uint32], colors: int | None
) -> npt.NDArray[np.int32]: ...
def schedule_check_coloring(
    edges: npt.NDArray[np.uint32],
    colors: int,
    color_of_edge: npt.NDArray[np.int32],
) -> None: ...

@final
class FabricSettings:
    spine: Final[npt.NDArray[np.int32]]
    core: Final[npt.NDArray[np.int32]]
    leaf_switches: Final[npt.NDArray[np.int32]]
    spine_switches: Final[npt.NDArray[np.int32]]
    core_switches: Final[npt.NDArray[np.int32]]

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
    column_of: Final[npt.NDArray[np.int32]]
    weight: Final[int]
    row_duals: Final[npt.NDArray[np.int64]]
    column_duals: Final[npt.NDArray[np.int64]]

def schedule_assign(weights: npt.NDArray[np.int64]) -> BipartiteMatching: ...
def schedule_check_assignment(
    weights: npt.NDArray[np.int64], claim: AssignmentClaim | BipartiteMatching
) -> None: ...

@final
class GraphMatching:
    mate: Final[npt.NDArray[np.int32]]
    weight: Final[int]
    doubled_duals: Final[npt.NDArray[np.int64]]
    blossoms: Final[list[tuple[list[int], int]]]

def schedule_match_general(weights: npt.NDArray[np.int64]) -> GraphMatching: ...
def schedule_check_general(
    weights: npt.NDArray[np.int64], claim: MatchingClaim | GraphMatching
) -> None: ...

@final
class RelayRouting:
    paths: Final[npt.NDArray[np.int32]]
    size_bytes: Final[npt.NDArray[np.uint64]]
    makespan_s: Final[float]
    latency_s: Final[float]
    one_hop_s: Final[float]
    with_relays_s: Final[float]
    lower_bound_s: Final[float]
    verdict: Final[str]

@final
class RelayedLoads:
    circuit_bytes: Final[npt.NDArray[np.uint64]]
    eps_out_bytes: Final[npt.NDArray[np.uint64]]
    eps_in_bytes: Final[npt.NDArray[np.uint64]]
    staging_bytes: Final[npt.NDArray[np.uint64]]
    makespan_s: Final[float]

@final
class RelayedCircuits:
    circuits: Final[npt.NDArray[np.uint16]]
    routing: Final[RelayRouting]
    origin: Final[str]
    evaluations: Final[int]
    port_bound_s: Final[float]

def schedule_relay(request: RoutingRequest) -> RelayRouting: ...
def schedule_allocate_relayed(
    request: CircuitRequest, charges: RelayCost, max_evaluations: int
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
    turns: Final[npt.NDArray[np.uint64]]
    holds_bytes: Final[npt.NDArray[np.uint64]]
    moves: Final[npt.NDArray[np.uint64]]
    length_bytes: Final[int]
    largest_line_bytes: Final[int]

def schedule_rotornet(demand: npt.NDArray[np.uint64], options: Mapping[str, Any]) -> RotorPlan: ...
def schedule_check_rotornet(demand: npt.NDArray[np.uint64], schedule: RotorSchedule) -> None: ...

@final
class EpochPlan:
    matchings: Final[npt.NDArray[np.int32]]
    turned: Final[int]
    length_bytes: Final[int]
    largest_line_bytes: Final[int]

@final
class SwitchPlan:
    weights_bytes: Final[list[int]]
    counts: Final[list[int]]
    settings: Final[list[tuple[int, int]]]
    phases: Final[tuple[list[int], list[int]]]

def schedule_helios(demand: npt.NDArray[np.uint64], options: Mapping[str, int]) -> EpochPlan: ...
def schedule_helios_matchings(
    demand: npt.NDArray[np.uint64], options: Mapping[str, int]
) -> npt.NDArray[np.int32]: ...
def schedule_xnest_plus(
    demand: npt.NDArray[np.uint64], options: Mapping[str, int], reading: str
) -> EpochPlan: ...
def schedule_xnest_plan(
    demand: npt.NDArray[np.uint64],
    switches: int,
    reading: str,
    previous: list[tuple[int, int]] | None,
) -> SwitchPlan: ...
def schedule_sub_matrices(nodes: int, reading: str) -> list[npt.NDArray[np.int32]]: ...

# schedule: crates/python/src/schedule/decider.rs

@final
class DeciderRegion:
    def __new__(cls, values: object) -> DeciderRegion: ...
    @property
    def ports(self) -> npt.NDArray[np.uint32]: ...
    @property
    def allowed(self) -> npt.NDArray[np.bool_] | None: ...
    @property
    def planes(self) -> str | None: ...
    @property
    def numa_nodes(self) -> int: ...
    @property
    def circuit_bps(self) -> int: ...
    @property
    def eps_bps(self) -> npt.NDArray[np.uint64]: ...
    @property
    def eps_nics(self) -> int: ...
    @property
    def split(self) -> bool: ...
    @property
    def failures(self) -> dict[str, Any]: ...

@final
class Held:
    circuits: Final[npt.NDArray[np.uint16]]
    nics: Final[npt.NDArray[np.uint32]]
    chosen: Final[str]
    def to_json(self) -> str: ...
    @staticmethod
    def from_json(text: str) -> Held: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Upcoming:
    def __new__(
        cls,
        demand: npt.NDArray[np.uint64],
        hidden_ps: int,
        *,
        predicted: bool = False,
        requested: npt.NDArray[np.uint64] | None = None,
    ) -> Upcoming: ...
    demand: Final[npt.NDArray[np.uint64]]
    predicted: Final[bool]
    requested: Final[npt.NDArray[np.uint64] | None]
    hidden_ps: Final[int]
    def to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Decision:
    held: Final[Held]
    circuits: Final[npt.NDArray[np.uint16]]
    nics: Final[npt.NDArray[np.uint32]]
    chosen: Final[str]
    create: Final[npt.NDArray[np.uint32]]
    delete: Final[npt.NDArray[np.uint32]]
    keep: Final[npt.NDArray[np.uint32]]
    moved: Final[npt.NDArray[np.uint32]]
    lost: Final[npt.NDArray[np.uint32]]
    pairs: Final[int]
    reconfigure: Final[bool]
    ready_after_s: Final[float]
    reason: Final[str]
    hold_s: Final[float | None]
    switch_s: Final[float | None]
    exposed_s: Final[float | None]
    compared_pairs: Final[int | None]
    demand: Final[npt.NDArray[np.uint64]]
    makespan_s: Final[float]
    bound_s: Final[float]
    saved_s: Final[float]
    def to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Decider:
    def __new__(
        cls,
        region: DeciderRegion,
        policy: object,
        timing: SwitchTiming,
        allocator: Callable[[list[ProposalRequest]], list[npt.NDArray[np.uint16]]] | None,
    ) -> Decider: ...
    def start(self) -> Held: ...
    def hold(self, circuits: npt.NDArray[np.uint16]) -> Held: ...
    def hold_on(self, nics: npt.NDArray[np.uint32], chosen: str) -> Held: ...
    def decide(
        self,
        held: Held,
        upcoming: Sequence[Upcoming],
        proposals: list[npt.NDArray[np.uint16]] | None,
    ) -> Decision: ...

# simulate: crates/python/src/execute.rs

@final
class ProposalRequest:
    demand: Final[npt.NDArray[np.uint64]]
    ports: Final[npt.NDArray[np.uint32]]
    allowed: Final[npt.NDArray[np.bool_] | None]
    previous: Final[npt.NDArray[np.uint16] | None]
    circuit_bps: Final[int]
    eps_bps: Final[list[int]]
    split: Final[bool]

class NetworkInvalid(ValueError): ...  # noqa: N818

@final
class RoleRow:
    name: Final[str]
    workers: Final[int]
    spent_ps: Final[list[int]]

@final
class PurposeRow:
    purpose: Final[str]
    carried_bytes: Final[list[int]]

@final
class CircuitCounters:
    decisions: Final[int]
    reconfigurations: Final[int]
    skipped: Final[int]
    pairs_changed: Final[int]
    delay_ps: Final[int]
    exposed_ps: Final[int]
    saved_s: Final[float]
    makespan_s: Final[float]
    bound_s: Final[float]
    relayed: Final[int]
    one_hop: Final[int]
    allocations: Final[int]
    shared: Final[int]

@final
class LinkRow:
    name: Final[str]
    links: Final[int]
    carried_bytes: Final[int]
    mean: Final[float]
    max: Final[float]

@final
class FlowWork:
    recomputations: Final[int]
    links_touched: Final[int]
    flows_touched: Final[int]

@final
class TimelineColumns:
    worker: Final[npt.NDArray[np.uint32]]
    stream: Final[npt.NDArray[np.uint8]]
    start_ps: Final[npt.NDArray[np.uint64]]
    end_ps: Final[npt.NDArray[np.uint64]]
    waited_ps: Final[npt.NDArray[np.uint64]]
    category: Final[npt.NDArray[np.uint8]]
    layer: Final[npt.NDArray[np.uint16]]
    micro_batch: Final[npt.NDArray[np.uint16]]

@final
class CircuitSpanColumns:
    server_a: Final[npt.NDArray[np.uint32]]
    server_b: Final[npt.NDArray[np.uint32]]
    count: Final[npt.NDArray[np.uint16]]
    up_ps: Final[npt.NDArray[np.uint64]]
    down_ps: Final[npt.NDArray[np.uint64]]

@final
class SnapshotRow:
    time_ps: Final[int]
    ready_ps: Final[int]
    group: Final[int]
    layer: Final[int]
    micro_batch: Final[int]
    servers: Final[npt.NDArray[np.uint32]]
    demand: Final[npt.NDArray[np.uint64]]
    circuits: Final[npt.NDArray[np.uint16]]
    makespan_s: Final[float]
    chosen: Final[str]

@final
class StepOutcome:
    categories: Final[list[str]]
    step_ps: Final[int]
    critical_path_ps: Final[list[int]]
    roles: Final[list[RoleRow]]
    straggler_wait_ps: Final[int]
    carriers: Final[list[str]]
    purposes: Final[list[PurposeRow]]
    circuits: Final[CircuitCounters]
    links: Final[list[LinkRow]]
    run_hash: Final[str]
    events: Final[int]
    flows: Final[int]
    tasks: Final[int]
    packet_hops: Final[int]
    flow_work: Final[FlowWork]
    timeline: Final[TimelineColumns]
    critical_category: Final[npt.NDArray[np.uint8]]
    critical_end_ps: Final[npt.NDArray[np.uint64]]
    in_flight_interval_ps: Final[int]
    in_flight_bytes: Final[list[npt.NDArray[np.uint64]]]
    circuit_timeline: Final[CircuitSpanColumns]
    snapshots: Final[list[SnapshotRow]]
    decisions: Final[RecordedDecisions | None]

@final
class RecordedDecisions:
    regions: Final[list[DeciderRegion]]
    policy: Final[dict[str, Any]]
    records: Final[list[RecordedDecision]]

@final
class RecordedDecision:
    time_ps: Final[int]
    region: Final[int]
    held: Final[Held]
    upcoming: Final[list[Upcoming]]
    decision: Final[Decision]

@final
class SeenDemand:
    layer: Final[int]
    index: Final[int]
    tokens: Final[npt.NDArray[np.uint64]]

@final
class PredictionRequest:
    group: Final[int]
    layer: Final[int]
    index: Final[int]
    seen: Final[list[SeenDemand]]

def execute(
    graph: TaskGraph,
    network: Network,
    model: PhaseBook | Packets | None,
    *,
    timeline_workers: Sequence[int],
    share_equal_work: bool,
    record_decisions: bool,
    progress: Progress | None,
    allocator: AllocatorCallback | None,
    predictor: PredictorCallback | str | None,
) -> StepOutcome: ...

@final
class PurposePhases:
    purpose: Final[str]
    distinct: Final[int]
    simulated: Final[int]
    size_bytes: Final[int]
    simulated_bytes: Final[int]
    mean: Final[float]
    minimum: Final[float]
    maximum: Final[float]
    packet_hops: Final[int]

@final
class PhaseBook:
    def __new__(
        cls,
        network: Network,
        packets: Packets,
        sample: int | None,
        purposes: list[str] | None,
    ) -> PhaseBook: ...
    def mtu(self) -> int: ...
    def pending(self) -> tuple[int, int]: ...
    def all_hops(self) -> int: ...
    def simulate(self, progress: Callable[[float], bool | None] | None) -> None: ...
    def counts(self) -> list[PurposePhases]: ...

# packets: crates/python/src/packets/

class PacketsStuck(RuntimeError): ...  # noqa: N818

def packet_profile(name: str, rate_bps: int) -> list[dict[str, Any]]: ...

@final
class PacketGraph:
    names: Final[list[str]]
    source: Final[npt.NDArray[np.uint32]]
    destination: Final[npt.NDArray[np.uint32]]

def packet_topology(network: PacketTopologyRequest) -> PacketGraph: ...

@final
class FinishedColumns:
    flow: Final[npt.NDArray[np.uint32]]
    start_ps: Final[npt.NDArray[np.uint64]]
    received_ps: Final[npt.NDArray[np.uint64]]
    done_ps: Final[npt.NDArray[np.uint64]]
    slowdown: Final[npt.NDArray[np.float64]]

@final
class LinkUseColumns:
    layer: Final[npt.NDArray[np.uint8]]
    source: Final[npt.NDArray[np.uint32]]
    destination: Final[npt.NDArray[np.uint32]]
    rate_bps: Final[npt.NDArray[np.uint64]]
    sent_bytes: Final[npt.NDArray[np.uint64]]
    peak_queue_bytes: Final[npt.NDArray[np.uint64]]
    drops: Final[npt.NDArray[np.uint64]]
    control_drops: Final[npt.NDArray[np.uint64]]
    trims: Final[npt.NDArray[np.uint64]]
    marks: Final[npt.NDArray[np.uint64]]
    pauses: Final[npt.NDArray[np.uint64]]
    paused_ps: Final[npt.NDArray[np.uint64]]

@final
class SampleColumns:
    begin_ps: Final[npt.NDArray[np.uint64]]
    end_ps: Final[npt.NDArray[np.uint64]]
    layer: Final[npt.NDArray[np.uint8]]
    carried_bytes: Final[npt.NDArray[np.uint64]]
    mean_utilization: Final[npt.NDArray[np.float64]]
    max_utilization: Final[npt.NDArray[np.float64]]
    busiest: Final[npt.NDArray[np.uint32]]
    mean_queue_bytes: Final[npt.NDArray[np.float64]]
    max_queue_bytes: Final[npt.NDArray[np.uint64]]
    longest: Final[npt.NDArray[np.uint32]]

@final
class EventColumns:
    time_ps: Final[npt.NDArray[np.uint64]]
    event: Final[list[str]]
    link: Final[npt.NDArray[np.uint32]]
    flow: Final[npt.NDArray[np.uint32]]
    number: Final[npt.NDArray[np.uint32]]
    kind: Final[list[str]]

@final
class OperationTimeColumns:
    begin_ps: Final[npt.NDArray[np.uint64]]
    end_ps: Final[npt.NDArray[np.uint64]]
    critical: Final[npt.NDArray[np.uint32]]
    makespan_ps: Final[int]

@final
class PacketReport:
    end_ps: Final[int]
    data_hops: Final[int]
    control_hops: Final[int]
    events: Final[int]
    peak_packets: Final[int]
    undivided: Final[str | None]
    run_hash: Final[str]
    nodes: Final[list[str]]
    layers: Final[list[str]]
    links: Final[LinkUseColumns]
    samples: Final[SampleColumns | None]
    trace: Final[EventColumns]
    operations: Final[OperationTimeColumns | None]

def packet_simulate(
    network: PacketTopologyRequest,
    config: dict[str, Any],
    transport: dict[str, Any],
    flows: FlowColumns,
    circuits: CircuitColumns | None,
    run: RunRequest,
    progress: Callable[[int, int, int, FinishedColumns], bool | None] | None,
) -> PacketReport: ...
