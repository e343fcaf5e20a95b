"""Play the task graph of a training step over a network.

The simulation itself is Rust (``crates/execute``); it runs without the interpreter lock, reports
progress and can be interrupted. Here the graph and the network are handed over as arrays, and the
outcome comes back in seconds and bytes.

What is modelled: workers that play their programs in order; Send, Ring and all-to-all as fluid
flows that share links max-min fairly, as packets, or as flows that take as long as packets would
(:class:`Phases`); circuits that follow the demand. What is not: contention on NVSwitch other than
by relays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import FabricError, InputError
from lightloom.fabric.network import Network
from lightloom.schedule import CircuitAllocator, Question, Region
from lightloom.schedule.arrays import square_matrix
from lightloom.units import PS_PER_S
from lightloom.workload.task_graph import TaskGraph

#: packet-hops, of a whole step as packets, beyond which a run has to be asked for: ten minutes
MOST_PACKET_HOPS = 600 * 2_000_000
#: most times that a step is played until it meets no phase that was not simulated
ROUNDS = 4


@dataclass(frozen=True)
class Packets:
    """How packets are sent.

    Attributes
    ----------
    transport
        ``ideal`` (line rate, endless queues), ``roce``, ``dctcp``, ... with the sizes, queues and
        thresholds that its reference has.
    mtu_bytes
        Payload of a full packet, if another than the transport's.
    queue_bytes
        Data that a port queues, if another than the transport's.
    seed
        Of the hashes that spread flows over paths, and of random choices in queues.
    full
        Whether a whole step may run as packets whatever its size.
    """

    transport: str = "dctcp"
    mtu_bytes: int | None = None
    queue_bytes: int | None = None
    seed: int = 1
    full: bool = False

    def _plain(self) -> tuple[str, int | None, int | None, int]:
        return (self.transport, self.mtu_bytes, self.queue_bytes, self.seed)


@dataclass(frozen=True)
class PhaseCount:
    """What is known of the phases of one purpose; see :class:`Phases`.

    ``mean``, ``least`` and ``greatest`` are of the stretch of those simulated: by how much longer
    their flows take than they would as fluids; the mean is by bytes.
    """

    distinct: int
    simulated: int
    size_bytes: int
    simulated_bytes: int
    mean: float
    least: float
    greatest: float
    packet_hops: int


class Phases:
    """What the communication phases of steps on one network take as packets.

    A phase is the transfers of one all-to-all, one pipeline send or one ring collective. Each
    distinct one (the same bytes over the same circuits, between servers that share switches alike)
    is simulated once, alone; its flows are then stretched so that alone they take as long. What is
    met by a run is simulated before the next.

    Parameters
    ----------
    network
        What steps run on.
    packets
        How packets are sent.
    sample
        How many distinct phases of each purpose are simulated, chosen by their digests; the others
        take the mean stretch. All of them if ``None``.
    purposes
        The purposes (``ep``, ``pp``, ...) whose phases are simulated; the others stay flows. All
        of them if ``None``.

    Raises
    ------
    FabricError
        If packets cannot be sent like that.
    InputError
        If ``sample`` is 0, or there is no such purpose.
    """

    def __init__(
        self,
        network: Network,
        packets: Packets,
        sample: int | None = None,
        *,
        purposes: Sequence[str] | None = None,
    ) -> None:
        names = None if purposes is None else list(purposes)
        with _refusals():
            self._book = _core.PhaseBook(_plain(network), packets._plain(), sample, names)

    @property
    def mtu_bytes(self) -> int:
        """Payload of a full packet."""
        return self._book.mtu()

    @property
    def pending(self) -> tuple[int, int]:
        """Phases still to be simulated, and about how many packet-hops these are."""
        return self._book.pending()

    @property
    def all_hops(self) -> int:
        """About how many packet-hops everything is that was met, equal phases included."""
        return self._book.all_hops()

    def survey(
        self,
        graph: TaskGraph,
        network: Network,
        *,
        progress: Callable[[float], bool | None] | None = None,
        allocator: CircuitAllocator | None = None,
    ) -> Run:
        """Play a step with what is known, and note the phases that it meets.

        ``network`` may differ from the book's in when and how circuits are chosen.
        """
        return _Play(graph, network, (), True, allocator).run(self._book, progress)

    def simulate(self, progress: Callable[[float], bool | None] | None = None) -> None:
        """Simulate what is pending; after an interrupt, what was finished stays known."""
        with _refusals():
            self._book.simulate(progress)

    def counts(self) -> dict[str, PhaseCount]:
        """What is known, by purpose, of the purposes that were met."""
        counts = {name: PhaseCount(**row) for name, row in self._book.counts().items()}
        return {name: count for name, count in counts.items() if count.distinct}


@dataclass(frozen=True)
class LinkUse:
    """Use of one class of links over the step.

    ``mean`` is the bytes of all links over what they could have carried (circuits: while up);
    ``max`` that of the busiest.
    """

    name: str
    links: int
    carried_bytes: int
    mean: float
    max: float


@dataclass(frozen=True)
class CircuitUse:
    """What the circuit policy did.

    Attributes
    ----------
    decisions, reconfigurations
        How often circuits were decided, and how often any changed.
    skipped
        Decisions not taken, as another group of the same servers used the circuits.
    pairs_changed
        Port pairs switched, over all reconfigurations.
    delay_s, exposed_s
        Switching delay once per all-to-all that it is for, and the part of it for which the mean
        member of an EP group waited.
    saved_s
        Sum over reconfigurations: by how much less the all-to-alls ahead take at line rate than
        with the circuits that were there.
    makespan_s, bound_s
        Sums over decisions: the time at line rate of what was decided for, and what no circuits
        can beat.
    relayed, one_hop
        Where servers may relay: all-to-alls that relays served, and those for which it did not pay.
    allocations, shared
        Questions to the allocator, and those answered from an equal earlier one.
    """

    decisions: int
    reconfigurations: int
    skipped: int
    pairs_changed: int
    delay_s: float
    exposed_s: float
    saved_s: float
    makespan_s: float
    bound_s: float
    relayed: int
    one_hop: int
    allocations: int
    shared: int

    @property
    def hidden_s(self) -> float:
        """Switching delay that was hidden behind compute."""
        return max(0.0, self.delay_s - self.exposed_s)

    @property
    def shared_ratio(self) -> float:
        """Part of the allocator's questions answered from an equal earlier one."""
        return self.shared / self.allocations if self.allocations else 0.0


@dataclass(frozen=True)
class Timeline:
    """Spans of selected workers, one row each, in the order in which they ended.

    Attributes
    ----------
    worker
        Worker, ``(n,)``.
    stream
        0: what the worker does or waits for; 1: sends and ring collectives beside it.
    start_s, end_s
        Seconds since the start of the step.
    category
        Number of the :class:`~lightloom.workload.task_graph.Category`.
    layer, micro_batch
        Of the task; 65535 where none.
    """

    worker: npt.NDArray[np.uint32]
    stream: npt.NDArray[np.uint8]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    category: npt.NDArray[np.uint8]
    layer: npt.NDArray[np.uint16]
    micro_batch: npt.NDArray[np.uint16]


@dataclass(frozen=True)
class CircuitTimeline:
    """When which circuits were up, for the regions of the selected workers; one row per span.

    ``count`` parallel circuits joined ``server_a`` and ``server_b`` from ``up_s`` to ``down_s``.
    """

    server_a: npt.NDArray[np.uint32]
    server_b: npt.NDArray[np.uint32]
    count: npt.NDArray[np.uint16]
    up_s: npt.NDArray[np.float64]
    down_s: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """One decision of the circuit policy, for the group of a selected worker.

    Attributes
    ----------
    time_s, ready_s
        When switching began and when the circuits were up.
    group
        EP group, ``stage * replicas + replica``.
    layer, micro_batch
        Of the all-to-all that it is for.
    servers
        ``(n,)``.
    demand
        Bytes, ``(n, n)``, row = source.
    circuits
        Parallel circuits, ``(n, n)``.
    makespan_s
        Of the demand over these circuits at line rate.
    chosen
        Allocator whose circuits these are.
    """

    time_s: float
    ready_s: float
    group: int
    layer: int
    micro_batch: int
    servers: npt.NDArray[np.uint32]
    demand: npt.NDArray[np.uint64]
    circuits: npt.NDArray[np.uint16]
    makespan_s: float
    chosen: str


@dataclass(frozen=True)
class Run:
    """The outcome of one step.

    Attributes
    ----------
    step_time_s
        From the start until the last worker is done.
    critical_path_s
        Seconds per category along the chain of causes that ends with the last worker: a waiting
        worker's time is charged to what its releaser did. Sums to the step time.
    mean_s
        Seconds per category, mean over workers; sums to the step time. All-to-alls and rings
        include the wait for their members; ``bubble`` is waiting for the pipeline and for the end
        of the step.
    stage_s
        The same per pipeline stage, ``(stages,)``.
    straggler_wait_s
        The part of ``mean_s["ep"]`` (and ``"reconfiguration"``) before the last member arrived.
    purpose_bytes
        Bytes by purpose (tp, ep, pp, dp, cp) and carrier (nvswitch, eps, ocs, direct, relayed).
        Relayed bytes are counted once more per relay.
    circuits
        What the circuit policy did.
    links
        Use of each class of links.
    trace_hash
        Hash of everything that happened; equal inputs have equal hashes.
    events, flows, tasks
        How much was simulated.
    packet_hops
        Packets that left a link, once for each, if the step ran as packets.
    flow_work
        What the flow simulation did for it.
    timeline, circuit_timeline, snapshots
        For the workers asked for; empty otherwise.
    """

    step_time_s: float
    critical_path_s: dict[str, float]
    mean_s: dict[str, float]
    stage_s: tuple[dict[str, float], ...]
    straggler_wait_s: float
    purpose_bytes: dict[str, dict[str, int]]
    circuits: CircuitUse
    links: tuple[LinkUse, ...]
    trace_hash: str
    events: int
    flows: int
    tasks: int
    packet_hops: int
    flow_work: dict[str, int]
    timeline: Timeline
    circuit_timeline: CircuitTimeline
    snapshots: tuple[Snapshot, ...]

    @property
    def carried_bytes(self) -> dict[str, int]:
        """Bytes by carrier, all purposes together."""
        rows = list(self.purpose_bytes.values())
        return {carrier: sum(row[carrier] for row in rows) for carrier in rows[0]}

    def reconfiguration_summary(self) -> dict[str, float]:
        """What the circuit policy did, flat; empty where there are no circuits to decide."""
        use = self.circuits
        relaying: dict[str, float] = {}
        if use.relayed or use.one_hop:
            relaying = {"relayed_exchanges": use.relayed, "one_hop_exchanges": use.one_hop}
        if use.decisions == 0:
            return relaying
        return {
            "decisions": use.decisions,
            "reconfigurations": use.reconfigurations,
            "skipped": use.skipped,
            "pairs_changed": use.pairs_changed,
            "delay_s": use.delay_s,
            "hidden_s": use.hidden_s,
            "exposed_s": use.exposed_s,
            "makespan_over_bound": use.makespan_s / use.bound_s if use.bound_s else 1.0,
            "shared_ratio": use.shared_ratio,
            **relaying,
        }


def simulate(
    graph: TaskGraph,
    network: Network,
    *,
    timeline_workers: Sequence[int] = (),
    progress: Callable[[float], bool | None] | None = None,
    network_model: Literal["flow", "packet"] | Packets | Phases = "flow",
    share_equal_work: bool = True,
    allocator: CircuitAllocator | None = None,
) -> Run:
    """Simulate one training step.

    Parameters
    ----------
    graph
        What the step does; all numbers that need a seed are in it.
    network
        What it runs on.
    timeline_workers
        Workers whose spans are kept, with the circuits and decisions of their regions.
    progress
        Called now and then with the part of the tasks that are done, 0 to 1; the run stops if it
        returns ``False``.
    network_model
        ``"flow"``: max-min fair fluid flows. :class:`Packets`: the whole step as packets, which is
        exact, and for small steps; ``"packet"`` is those by default. :class:`Phases` of the
        network: flows that take as long as their phases take as packets.
    share_equal_work
        Whether equal questions to the circuit allocator are answered once; changes no result of an
        allocator that answers equal questions alike.
    allocator
        Decides on circuits instead of the network's own: called with the questions of a decision,
        several where the policy weighs several, it returns circuits ``(n, n)`` for each. What it
        raises ends the run and is raised as it is.

    Raises
    ------
    FabricError
        If the network cannot carry the graph.
    InputError
        If the graph is inconsistent, its workers wait for each other for ever, or ``allocator``
        returns what cannot be circuits.
    KeyboardInterrupt
        If it was interrupted, or ``progress`` returned ``False``.
    """
    play = _Play(graph, network, timeline_workers, share_equal_work, allocator)
    if network_model == "flow":
        return play.run(None, progress)
    if isinstance(network_model, Phases):
        return _by_phases(play, network_model, progress)
    packets = Packets() if network_model == "packet" else network_model
    if not isinstance(packets, Packets):
        raise InputError(f"network_model = {network_model!r}: expected 'flow' or 'packet'")
    if not packets.full:
        _check_size(play, packets)
    return play.run(packets._plain(), progress)


def _by_phases(play: _Play, phases: Phases, progress: Callable[[float], bool | None] | None) -> Run:
    """Play a step until it meets no phase that was not simulated, but not for ever."""
    for _ in range(ROUNDS):
        phases.simulate(progress)
        run = play.run(phases._book, None)
        if phases.pending[0] == 0:
            break
    return run


def _check_size(play: _Play, packets: Packets) -> None:
    """Refuse a step that is more than some minutes of packets."""
    phases = Phases(play.network, packets, 1)
    play.run(phases._book, None)
    if (hops := phases.all_hops) > MOST_PACKET_HOPS:
        raise InputError(
            f"the step is about {hops:.2g} packet-hops, over {MOST_PACKET_HOPS:.2g}: simulate its"
            " phases (network_model=Phases(...)), or pass Packets(full=True) and wait"
        )


@dataclass(frozen=True)
class _Play:
    """A step that can be played several times."""

    graph: TaskGraph
    network: Network
    timeline_workers: Sequence[int]
    share_equal_work: bool
    allocator: CircuitAllocator | None

    def run(
        self,
        model: _core.PhaseBook | tuple[str, int | None, int | None, int] | None,
        progress: Callable[[float], bool | None] | None,
    ) -> Run:
        options = {
            "timeline_workers": [int(worker) for worker in self.timeline_workers],
            "share_equal_work": self.share_equal_work,
        }
        ask = None if self.allocator is None else _Ask(self.allocator)
        graph, network = _graph_columns(self.graph), _plain(self.network)
        with _refusals(ask):
            raw = _core.execute(graph, network, options, progress, ask, model)
        own = None if self.allocator is None else getattr(self.allocator, "__name__", "own")
        return _run(raw, own)


@contextmanager
def _refusals(ask: _Ask | None = None) -> Iterator[None]:
    """What the core refuses, as errors of this package; what an allocator raised, as it is."""
    try:
        yield
    except Exception as error:
        if ask is not None and ask.raised is error:
            raise
        if isinstance(error, _core.NetworkInvalid):
            raise FabricError(str(error)) from None
        if isinstance(error, ValueError | OverflowError):
            raise InputError(str(error)) from None
        raise


class _Ask:
    """Hands the core's questions to a user's allocator, and its answers back."""

    def __init__(self, allocator: CircuitAllocator) -> None:
        self._allocator = allocator
        self.raised: BaseException | None = None

    def __call__(self, asked: list[_core.CircuitQuestion]) -> list[npt.NDArray[np.uint16]]:
        questions = [_question(*question) for question in asked]
        try:
            answers = list(self._allocator(questions))
        except BaseException as error:
            self.raised = error
            raise
        return [
            square_matrix(circuits, "allocator: circuits", 65_535, InputError)
            .astype(np.uint16)
            .reshape(-1)
            for circuits in answers
        ]


def _question(
    demand: npt.NDArray[np.uint64],
    ports: npt.NDArray[np.uint32],
    allowed: npt.NDArray[np.bool_] | None,
    previous: npt.NDArray[np.uint16] | None,
    rates_bps: tuple[int, list[int]],
    split: bool,
) -> Question:
    n = len(ports)
    (eps_bps,) = set(rates_bps[1])
    region = Region(
        ports=ports,
        circuit_gbps=rates_bps[0] / 1e9,
        eps_gbps=eps_bps / 1e9,
        split=split,
        allowed=None if allowed is None else allowed.reshape(n, n),
    )
    held = None if previous is None else previous.reshape(n, n)
    return Question(demand.reshape(n, n), region, held)


def _graph_columns(graph: TaskGraph) -> dict[str, Any]:
    layout, blocks = graph.layout, graph.blocks
    tokens = blocks.tokens
    return {
        "layout": {
            "stages": layout.stages,
            "replicas": layout.replicas,
            "members": layout.members,
            "gpus_per_worker": layout.gpus_per_worker,
            "worker_server": _flat(layout.worker_server, np.uint32),
        },
        "programs": [program.columns() for program in graph.programs],
        "scopes": [
            {
                "name": scope.name,
                "offsets": _flat(scope.offsets, np.uint32),
                "workers": _flat(scope.workers, np.uint32),
            }
            for scope in graph.scopes
        ],
        "blocks": {
            "blocks": tokens.shape[1] if tokens.ndim > 1 else 0,
            "tokens": _flat(tokens, np.uint32),
            "ranks_per_member": blocks.ranks_per_member,
            "rank_tokens": _flat(_or_empty(blocks.rank_tokens), np.uint32),
            "expert_forward_ps": _flat(blocks.expert_forward_ps, np.uint64),
            "expert_backward_ps": _flat(blocks.expert_backward_ps, np.uint64),
            "expert_tp_per_gpu": _flat(_or_empty(blocks.expert_tp_per_gpu), np.uint64),
            "expert_tp_total": _flat(_or_empty(blocks.expert_tp_total), np.uint64),
        },
    }


def _or_empty(array: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    return np.zeros(0) if array is None else array


def _flat(array: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1)


def _plain(value: Any) -> Any:
    """Turn dataclasses into dictionaries and arrays into flat ones."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _flat(value, np.uint32)
    return value


def _seconds(picoseconds: float) -> float:
    return picoseconds / PS_PER_S


def _by_category(
    names: Sequence[str], picoseconds: Sequence[int], workers: int = 1
) -> dict[str, float]:
    return {name: _seconds(value / workers) for name, value in zip(names, picoseconds, strict=True)}


def _run(raw: Mapping[str, Any], own_allocator: str | None) -> Run:
    names: list[str] = raw["categories"]
    spent: list[list[int]] = raw["spent_ps"]
    per_stage = raw["workers_per_stage"]
    totals = [sum(column) for column in zip(*spent, strict=True)]
    workers = per_stage * len(spent)
    circuits = dict(raw["circuits"])
    delay, exposed = circuits.pop("delay_ps"), circuits.pop("exposed_ps")
    return Run(
        step_time_s=_seconds(raw["step_ps"]),
        critical_path_s=_by_category(names, raw["critical_path_ps"]),
        mean_s=_by_category(names, totals, workers),
        stage_s=tuple(_by_category(names, stage, per_stage) for stage in spent),
        straggler_wait_s=_seconds(raw["straggler_wait_ps"] / workers),
        purpose_bytes={purpose: dict(row) for purpose, row in raw["bytes"].items()},
        circuits=CircuitUse(delay_s=_seconds(delay), exposed_s=_seconds(exposed), **circuits),
        links=tuple(LinkUse(*row) for row in raw["links"]),
        trace_hash=raw["trace_hash"],
        events=raw["events"],
        flows=raw["flows"],
        tasks=raw["tasks"],
        packet_hops=raw["packet_hops"],
        flow_work=dict(raw["flow_work"]),
        timeline=Timeline(**_in_seconds(raw["timeline"])),
        circuit_timeline=CircuitTimeline(**_in_seconds(raw["circuit_timeline"])),
        snapshots=tuple(_snapshot(entry, own_allocator) for entry in raw["snapshots"]),
    )


def _in_seconds(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns and values in picoseconds become seconds; the others stay."""
    return {
        name.removesuffix("_ps") + ("_s" if name.endswith("_ps") else ""): (
            value / PS_PER_S if name.endswith("_ps") else value
        )
        for name, value in columns.items()
    }


def _snapshot(entry: Mapping[str, Any], own_allocator: str | None) -> Snapshot:
    size = len(entry["servers"])
    if own_allocator is not None and entry["chosen"] != "static":
        entry = {**entry, "chosen": own_allocator}
    square = {name: entry[name].reshape(size, size) for name in ("demand", "circuits")}
    return Snapshot(**{**_in_seconds(entry), **square})
