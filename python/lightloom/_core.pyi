"""The compiled core (``crates/python``)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

# sets of names: crates/python/src/choices.rs

def choices(key: str) -> list[tuple[str, str]]: ...

# demand: crates/python/src/demand.rs

DemandRows = tuple[
    tuple[int, int, int, int],
    tuple[tuple[int, int], tuple[int, int]],
    tuple[int, int],
    tuple[npt.NDArray[np.uint64], int, npt.NDArray[np.uint64] | None],
    npt.NDArray[np.float64],
]

def demand_draw(rows: DemandRows) -> npt.NDArray[np.int64]: ...
def demand_fold(
    rows: DemandRows, members: int, by_rank: bool
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64], int]: ...

# schedule: crates/python/src/schedule/

ScheduleRequest = tuple[
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint32],
    npt.NDArray[np.bool_] | None,
    npt.NDArray[np.uint16] | None,
    int,
    npt.NDArray[np.uint64],
    bool,
]
ScheduleAnswer = tuple[
    npt.NDArray[np.uint16],
    npt.NDArray[np.uint64],
    float,
    str,
]

def schedule_allocate(method: str, request: ScheduleRequest) -> ScheduleAnswer: ...
def schedule_route(
    request: ScheduleRequest, circuits: npt.NDArray[np.uint16]
) -> ScheduleAnswer: ...
def schedule_port_bound(request: ScheduleRequest) -> float: ...
def schedule_line_bound(request: ScheduleRequest) -> float: ...
def schedule_changed_pairs(
    previous: npt.NDArray[np.uint16], next: npt.NDArray[np.uint16]
) -> int: ...
def schedule_map_nics(
    circuits: npt.NDArray[np.uint16],
    ports: npt.NDArray[np.uint32],
    numa_nodes: int,
    previous: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint32]: ...
def schedule_break_even(
    method: str | None,
    request: ScheduleRequest,
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
def schedule_topoopt(
    size: tuple[int, int, int],
    rings: list[tuple[list[int], int]],
    geometric: bool,
    sources: npt.NDArray[np.uint32],
    destinations: npt.NDArray[np.uint32],
    bytes: npt.NDArray[np.uint64],
) -> tuple[
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
]: ...

PermutationSlots = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64]]

def schedule_decompose(
    demand: npt.NDArray[np.uint64],
    options: tuple[int, bool],
    method: str,
    time_limit_s: float | None,
) -> tuple[
    PermutationSlots | None,
    npt.NDArray[np.uint64] | None,
    tuple[int, int],
    str,
    float,
]: ...
def schedule_transfer_slots(
    rows: int, delay: int, transfers: npt.NDArray[np.uint64]
) -> PermutationSlots: ...
def schedule_decompose_check(
    demand: npt.NDArray[np.uint64],
    options: tuple[int, bool],
    slots: PermutationSlots | None,
    transfers: npt.NDArray[np.uint64] | None,
    claims: tuple[int, int],
) -> None: ...
def schedule_color_edges(
    edges: npt.NDArray[np.uint32], sizes: tuple[int, int], colors: int | None
) -> npt.NDArray[np.int32]: ...
def schedule_check_coloring(
    edges: npt.NDArray[np.uint32],
    sizes: tuple[int, int],
    colors: int,
    of_edge: npt.NDArray[np.int32],
) -> None: ...

FabricShape = tuple[int, int, tuple[int, int] | None]
FabricSettings = tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
]

def schedule_route_permutation(
    permutation: npt.NDArray[np.int32], shape: FabricShape
) -> FabricSettings: ...
def schedule_check_route(
    permutation: npt.NDArray[np.int32], shape: FabricShape, route: FabricSettings
) -> None: ...
def schedule_assign(
    weights: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], int, npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def schedule_check_assignment(
    weights: npt.NDArray[np.int64],
    column_of: npt.NDArray[np.int32],
    weight: int,
    duals: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
) -> None: ...
def schedule_match_general(
    weights: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], int, npt.NDArray[np.int64], list[tuple[list[int], int]]]: ...
def schedule_check_general(
    weights: npt.NDArray[np.int64],
    mate: npt.NDArray[np.int32],
    weight: int,
    duals: tuple[npt.NDArray[np.int64], list[tuple[list[int], int]]],
) -> None: ...

RelayCost = tuple[int | None, int, int, int | None]
RelayRequest = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint16], tuple[int, int], RelayCost]
RelayAnswer = tuple[
    npt.NDArray[np.int32],
    npt.NDArray[np.uint64],
    tuple[float, float, float, float, float],
    str,
]

def schedule_relay(request: RelayRequest) -> RelayAnswer: ...
def schedule_allocate_relayed(
    request: ScheduleRequest, cost: RelayCost, evaluations: int
) -> tuple[npt.NDArray[np.uint16], RelayAnswer, str, int]: ...
def schedule_relay_as(
    request: RelayRequest,
    paths: npt.NDArray[np.int32],
    bytes: npt.NDArray[np.float64],
    lower_bound: float,
) -> RelayAnswer: ...
def schedule_relay_loads(
    request: RelayRequest, paths: npt.NDArray[np.int32], bytes: npt.NDArray[np.uint64]
) -> tuple[
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    npt.NDArray[np.uint64],
    float,
]: ...
def schedule_relay_bound(
    request: RelayRequest,
    arcs: npt.NDArray[np.float64],
    servers: npt.NDArray[np.float64],
) -> float: ...

RotorOptions = tuple[int, int | None, int, bool, bool]

def schedule_rotornet(
    demand: npt.NDArray[np.uint64], options: RotorOptions
) -> tuple[
    tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
    npt.NDArray[np.uint64],
    tuple[int, int],
]: ...
def schedule_check_rotornet(
    demand: npt.NDArray[np.uint64],
    options: RotorOptions,
    slots: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
    moves: npt.NDArray[np.uint64],
    claims: tuple[int, int],
) -> None: ...

EpochSizes = tuple[int, int, int]
EpochAnswer = tuple[npt.NDArray[np.int32], int, int, int]

def schedule_helios(demand: npt.NDArray[np.uint64], sizes: EpochSizes) -> EpochAnswer: ...
def schedule_helios_matchings(
    demand: npt.NDArray[np.uint64], switches: int, room: int
) -> npt.NDArray[np.int32]: ...
def schedule_xnest_plus(
    demand: npt.NDArray[np.uint64], sizes: EpochSizes, diagonals: bool
) -> EpochAnswer: ...
def schedule_xnest_plan(
    demand: npt.NDArray[np.uint64],
    switches: int,
    diagonals: bool,
    previous: list[tuple[int, int]] | None,
) -> tuple[list[int], list[int], list[tuple[int, int]], tuple[list[int], list[int]]]: ...
def schedule_sub_matrices(nodes: int, diagonals: bool) -> list[npt.NDArray[np.int32]]: ...

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
    graph: dict[str, Any],
    network: dict[str, Any],
    options: dict[str, Any],
    progress: Callable[[float], bool | None] | None,
    allocator: Callable[[list[CircuitQuestion]], list[npt.NDArray[np.uint16]]] | None,
    model: PhaseBook | tuple[str, int | None, int | None, int] | None,
) -> dict[str, Any]: ...

class PhaseBook:
    def __init__(
        self,
        network: dict[str, Any],
        packets: tuple[str, int | None, int | None, int],
        sample: int | None,
        purposes: list[str] | None,
    ) -> None: ...
    def mtu(self) -> int: ...
    def pending(self) -> tuple[int, int]: ...
    def all_hops(self) -> int: ...
    def simulate(self, progress: Callable[[float], bool | None] | None) -> None: ...
    def counts(self) -> dict[str, dict[str, Any]]: ...

# packets: crates/python/src/packets/

class PacketsStuck(RuntimeError): ...  # noqa: N818

def packet_profile(name: str, rate_bps: int) -> dict[str, dict[str, Any]]: ...
def packet_topology(network: dict[str, Any]) -> dict[str, Any]: ...
def packet_simulate(
    network: dict[str, Any],
    tables: dict[str, dict[str, Any]],
    flows: dict[str, npt.NDArray[Any]],
    options: dict[str, Any],
    told: Callable[[int, int, int, dict[str, Any]], bool | None] | None,
) -> dict[str, Any]: ...
