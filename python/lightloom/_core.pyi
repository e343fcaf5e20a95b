"""The compiled core (``crates/python``)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from lightloom.fabric.network import Network
from lightloom.progress import Progress
from lightloom.schedule import AllocatorCallback
from lightloom.schedule.chunks import ChunkSchedule
from lightloom.schedule.coloring import FabricRoute
from lightloom.schedule.core_requests import CircuitRequest, RoutingRequest
from lightloom.schedule.hybrid import HybridSchedule
from lightloom.schedule.permutations import PermutationSchedule
from lightloom.schedule.records import RelayCost, SwitchTiming
from lightloom.schedule.rotornet import RotorSchedule
from lightloom.schedule.topoopt import Ring
from lightloom.simulate.packet_options import Packets
from lightloom.simulate.predictor import PredictorCallback
from lightloom.workload.task_graph import TaskGraph

#: what a record takes, and the fields of a dataclass of Python
_Given = Mapping[str, object]
_Values = dict[str, Any]
_Bool = npt.NDArray[np.bool_]
_U16 = npt.NDArray[np.uint16]
_U32 = npt.NDArray[np.uint32]
_U64 = npt.NDArray[np.uint64]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]
_F64 = npt.NDArray[np.float64]

__version__: str

# sets of names: crates/python/src/choices.rs

def choices(key: str) -> list[tuple[str, str]]: ...

# demand: crates/python/src/demand.rs

def demand_draw(request: _Given) -> _I64: ...
def demand_fold(request: _Given, members: int, by_rank: bool) -> _Values: ...
def demand_sum(request: _Given) -> _Values: ...
def demand_reach(gate: _Given, chances: _F64) -> _F64: ...

# predictors of expert loads: crates/python/src/load_predictor.rs

@final
class LoadPredictor:
    def __new__(cls, name: str, experts: int, window: int) -> LoadPredictor: ...
    def observe(self, step: int, layer: int, loads: _F64) -> None: ...
    def predict(self, step: int, layer: int) -> _F64: ...

# schedule: crates/python/src/schedule/

def schedule_allocate(method: str, request: CircuitRequest, tolerance: float) -> _Values: ...
def schedule_route(request: CircuitRequest, circuits: _U16) -> _Values: ...
def schedule_makespan(request: CircuitRequest, circuits: _U16) -> float: ...
def schedule_port_bound(request: CircuitRequest) -> float: ...
def schedule_line_bound(request: CircuitRequest) -> float: ...
def schedule_changed_pairs(previous: _U16, following: _U16) -> int: ...
def schedule_allocate_each(
    method: str, request: CircuitRequest, demands: _U64
) -> list[_Values]: ...
def schedule_map_nics(
    circuits: _U16, ports: _U32, working: _Bool, numa_nodes: int, previous: _U32
) -> _U32: ...

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
    def per_server(self) -> bool: ...
    @property
    def of(self) -> str | None: ...
    @property
    def required(self) -> bool: ...
    @property
    def default(self) -> bool | int | float | str | tuple[()] | None: ...

def record_fields(name: str) -> list[RecordField]: ...
def record_values(name: str, written: _Given) -> _Values: ...
def switching_time_s(timing: SwitchTiming, pairs: int) -> float: ...
def schedule_assign_planes(
    circuits: _U16, working: _Bool, duplex: bool, effort: int, previous: _U32 | None
) -> _Values: ...
def schedule_plan_batches(
    before: _U32, wanted: _U32, has_eps: _Bool, max_pairs: int
) -> tuple[list[tuple[_U32, _U32]], list[tuple[int, int]]]: ...
def schedule_build_on_planes(
    request: CircuitRequest, circuits: _U16, working: _Bool, duplex: bool
) -> tuple[_U16, _U32]: ...
def schedule_check_planes(circuits: _U16, working: _Bool, duplex: bool, assigned: _U32) -> None: ...
def schedule_topoopt(
    servers: int,
    degree: int,
    max_routes: int,
    rings: Sequence[Ring],
    strides: str,
    demand: tuple[_U32, _U32, _U64],
    phases: _U32,
) -> _Values: ...
def schedule_decompose(
    demand: _U64,
    delay_bytes: int,
    partial: bool,
    method: str,
    time_limit_s: float | None,
    switches: int,
    previous: tuple[_I32, _U64, int] | None,
) -> _Values: ...
def schedule_decomposition_bound(
    demand: _U64, delay_bytes: int, partial: bool, switches: int
) -> int: ...
def schedule_transfer_slots(rows: int, delay_bytes: int, transfers: _U64) -> tuple[_I32, _U64]: ...
def schedule_check_decomposition(demand: _U64, schedule: PermutationSchedule) -> None: ...
def schedule_chunk_plan(
    chunks: _U64, lines: tuple[int, ...], ports: _Given, method: str, time_limit_s: float | None
) -> _Values: ...
def schedule_chunk_bound(
    chunks: _U64, lines: tuple[int, ...], ports: _Given
) -> tuple[int, int | None]: ...
def schedule_check_chunks(
    chunks: _U64, lines: tuple[int, ...], ports: _Given, schedule: ChunkSchedule
) -> None: ...
def schedule_hybrid_plan(
    demand: _U64, ports: _Given, method: str, time_limit_s: float | None, relay: bool
) -> _Values: ...
def schedule_hybrid_bound(demand: _U64, ports: _Given, relay: bool) -> int: ...
def schedule_check_hybrid(demand: _U64, schedule: HybridSchedule) -> None: ...
def schedule_helios_step(
    estimate: _U64, held: _I32 | None, options: _Given, hysteresis: int | None
) -> _Values: ...
def schedule_xnest_step(
    measured: _U64,
    held: Sequence[tuple[int, int]],
    options: _Given,
    reading: str,
    turning: str,
    hysteresis: int | None,
) -> _Values: ...
def schedule_rotor_slot(own: _U64, relayed: _U64, options: _Given, turn: int) -> _Values: ...
def schedule_over_time(
    arrivals: Sequence[_U64],
    options: _Given,
    system: str,
    estimator: str,
    weight: int,
    hysteresis: int | None,
) -> _Values: ...
def schedule_color_edges(edges: _U32, colors: int | None) -> _I32: ...
def schedule_check_coloring(edges: _U32, colors: int, color_of_edge: _I32) -> None: ...
def schedule_route_permutation(permutation: _I32, shape: _Given) -> _Values: ...
def schedule_check_route(permutation: _I32, route: FabricRoute) -> None: ...
def schedule_assign(weights: _I64) -> tuple[_I32, int, _I64, _I64]: ...
def schedule_check_assignment(
    weights: _I64, column_of: _I32, weight: int, row_duals: _I64, column_duals: _I64
) -> None: ...
def schedule_match_general(
    weights: _I64,
) -> tuple[_I32, int, _I64, list[tuple[list[int], int]]]: ...
def schedule_check_general(
    weights: _I64,
    mate: _I32,
    weight: int,
    doubled_duals: _I64,
    blossoms: list[tuple[list[int], int]],
) -> None: ...
def schedule_relay(request: RoutingRequest) -> _Values: ...
def schedule_allocate_relayed(
    request: CircuitRequest, charges: RelayCost, max_evaluations: int
) -> _Values: ...
def schedule_relay_as(
    request: RoutingRequest, paths: _I32, size_bytes: _F64, lower_bound_s: float
) -> _Values: ...
def schedule_relay_loads(request: RoutingRequest, paths: _I32, size_bytes: _U64) -> _Values: ...
def schedule_relay_bound(request: RoutingRequest, arcs: _F64, servers: _F64) -> float: ...
def schedule_rotornet(demand: _U64, options: _Given) -> _Values: ...
def schedule_check_rotornet(demand: _U64, schedule: RotorSchedule) -> None: ...
def schedule_helios(demand: _U64, options: _Given) -> _Values: ...
def schedule_helios_matchings(demand: _U64, options: _Given) -> _I32: ...
def schedule_xnest_plus(demand: _U64, options: _Given, reading: str) -> _Values: ...
def schedule_xnest_plan(
    demand: _U64, switches: int, reading: str, rule: str, previous: list[tuple[int, int]] | None
) -> _Values: ...
def schedule_sub_matrices(nodes: int, reading: str) -> list[_I32]: ...

# schedule: crates/python/src/schedule/decider.rs

def schedule_working_region(servers: int, region: dict[str, Any]) -> _Values: ...

@final
class Held:
    circuits: Final[_U16]
    nics: Final[_U32]
    chosen: Final[str]
    def to_json(self) -> str: ...
    @staticmethod
    def from_json(text: str) -> Held: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Upcoming:
    def __new__(
        cls, demand: _U64, hidden_ps: int, *, predicted: bool = False, requested: _U64 | None = None
    ) -> Upcoming: ...
    demand: Final[_U64]
    predicted: Final[bool]
    requested: Final[_U64 | None]
    hidden_ps: Final[int]
    def to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Decision:
    held: Final[Held]
    circuits: Final[_U16]
    nics: Final[_U32]
    chosen: Final[str]
    create: Final[_U32]
    delete: Final[_U32]
    keep: Final[_U32]
    moved: Final[_U32]
    lost: Final[_U32]
    pairs: Final[int]
    reconfigure: Final[bool]
    ready_after_s: Final[float]
    reason: Final[str]
    hold_s: Final[float | None]
    switch_s: Final[float | None]
    exposed_s: Final[float | None]
    compared_pairs: Final[int | None]
    demand: Final[_U64]
    makespan_s: Final[float]
    bound_s: Final[float]
    saved_s: Final[float]
    def to_json(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Decider:
    def __new__(
        cls,
        servers: int,
        region: dict[str, Any],
        policy: object,
        timing: SwitchTiming,
        allocator: Callable[[list[ProposalRequest]], list[_U16]] | None,
    ) -> Decider: ...
    def start(self) -> Held: ...
    def hold(self, circuits: _U16) -> Held: ...
    def hold_on(self, nics: _U32, chosen: str) -> Held: ...
    def decide(
        self, held: Held, upcoming: Sequence[Upcoming], proposals: list[_U16] | None
    ) -> Decision: ...
    def carry(self, held: Held, demand: _U64) -> tuple[_I32, _U64]: ...

# simulate: crates/python/src/execute.rs

@final
class ProposalRequest:
    demand: Final[_U64]
    ports: Final[_U32]
    allowed: Final[_Bool | None]
    previous: Final[_U16 | None]
    circuit_bps: Final[int]
    eps_bps: Final[list[int]]
    split: Final[bool]

class NetworkInvalid(ValueError): ...  # noqa: N818

@final
class SeenDemand:
    layer: Final[int]
    index: Final[int]
    tokens: Final[_U64]

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
    record_packets: bool,
    progress: Progress | None,
    allocator: AllocatorCallback | None,
    predictor: PredictorCallback | str | None,
) -> _Values: ...

@final
class PhaseBook:
    def __new__(
        cls, network: Network, packets: Packets, sample: int | None, purposes: list[str] | None
    ) -> PhaseBook: ...
    @staticmethod
    def counting(network: Network, packets: Packets) -> PhaseBook: ...
    def mtu(self) -> int: ...
    def pending(self) -> tuple[int, int]: ...
    def all_hops(self) -> int: ...
    def all_flows(self) -> int: ...
    def placed_hops(self) -> int: ...
    def simulate(self, progress: Callable[[float], bool | None] | None) -> None: ...
    def counts(self) -> dict[str, _Values]: ...

# packets: crates/python/src/packets/

class PacketsStuck(RuntimeError): ...  # noqa: N818

def packet_profile(name: str, rate_bps: int, network: _Given | None) -> list[_Values]: ...
def packet_topology(network: _Given) -> tuple[list[str], list[tuple[int, int]]]: ...
def packet_simulate(
    network: _Given,
    classes: Sequence[_Given],
    flows: _Given,
    operations: _Given | None,
    run: _Given,
    progress: Callable[[float, int, int, _Values], bool | None] | None,
) -> _Values: ...
