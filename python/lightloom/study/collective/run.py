"""One collective alone on several fabrics: how long it takes, at what bandwidth, what carries it.

Either a buffer of each GPU (an all-to-all, or a collective of rings), or the dispatch and the
combine of one MoE layer of a model. The task graph has these tasks and nothing else; demand,
fabrics and simulation are those of a comparison. What an equal one takes that follows at once is
kept, too: circuits are set for it, and members that are done early have begun it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.demand import open_demand
from lightloom.demand.placement import bytes_per_token
from lightloom.errors import InputError
from lightloom.fabric import Cluster, Fabric, FabricContext, Setting, job_context
from lightloom.fabric.interconnect import Interconnect
from lightloom.fabric.network import Network
from lightloom.hardware import load_gpu
from lightloom.models.model import Attention, Model
from lightloom.parallel import Plan, RankGrid, Workers, place_workers
from lightloom.progress import Progress
from lightloom.simulate import Plugins, Run, simulate
from lightloom.simulate.plugins import BUILT_IN
from lightloom.study.collective.scenario import CollectiveScenario
from lightloom.study.compare.job import fabrics_of, workload_options
from lightloom.study.compare.racks import servers_of
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.builder import Block, ProgramBuilder, TaskGraphBuilder
from lightloom.workload.collectives import Collectives
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.programs.known import load_layers
from lightloom.workload.ring_writer import RingWriter
from lightloom.workload.rings import ring_groups
from lightloom.workload.task_graph import Collective, TaskGraph
from lightloom.workload.tokens import Folded, demand_shape, fold_demand

RINGS: dict[str, Collective] = {
    "all-reduce": Collective.ALL_REDUCE,
    "all-gather": Collective.ALL_GATHER,
    "reduce-scatter": Collective.REDUCE_SCATTER,
}
#: bytes that the buffer of an all-to-all is divided into, about: a token of 4,096 BF16 elements
TOKEN_BYTES = 8192
DEFAULT_TOKENS = 4096
#: flows between GPUs, each of other bytes, above which a flat all-to-all is only simulated where
#: it is chosen: rates change as each of them ends
MAX_UNEVEN_FLOWS = 10_000
FLAT = Setting("all_to_all", "flat")


@dataclass(frozen=True, kw_only=True)
class CollectiveResult:
    """One collective on one fabric.

    Attributes
    ----------
    collective
        Its name, or ``dispatch`` or ``combine``.
    fabric, setting
        Where, and what the fabric chose; ``None`` where it leaves nothing open.
    buffer_bytes
        Bytes of each GPU, what stays with it included; for tokens sent once to each server (to
        each GPU of a single one), these, as DeepEP counts them.
    time_s, repeated_s
        Alone, from the common start until the last member is done, switching of circuits included;
        and of an equal one that follows at once.
    ends
        What the buffer is divided among, GPUs or servers; one of them keeps its share.
    gpus
        GPUs of all groups.
    carried_bytes
        Of all GPUs, by carrier.
    gpu_nics_gbps
        The NICs' rate per GPU, Gb/s.
    left_out
        What the fabric might have chosen and was not simulated, as it takes too long, if any.
    """

    collective: str
    fabric: str
    setting: Setting | None
    buffer_bytes: float
    time_s: float
    repeated_s: float
    ends: int
    gpus: int
    carried_bytes: dict[str, int]
    gpu_nics_gbps: float
    left_out: Setting | None = None

    @property
    def algorithm_bandwidth(self) -> float:
        """Buffer over time, bytes per second and GPU."""
        return self.buffer_bytes / self.time_s

    @property
    def bus_bandwidth(self) -> float:
        """What a GPU sends over time, bytes per second, as NCCL's tests count it."""
        passes = 2 if self.collective == "all-reduce" else 1
        return passes * self.algorithm_bandwidth * (self.ends - 1) / self.ends

    @property
    def network_bytes(self) -> float:
        """Bytes per GPU that leave a server; relayed ones are counted once."""
        carriers = self.carried_bytes.items()
        across = sum(size for name, size in carriers if name not in ("nvswitch", "relayed"))
        return across / self.gpus

    @property
    def nic_share(self) -> float:
        """Share of the NICs' rate that is used."""
        return 8 * self.network_bytes / self.time_s / (self.gpu_nics_gbps * 1e9)

    def as_row(self) -> dict[str, Any]:
        """All of it, flat and with units in the keys."""
        carried = {f"{name}_bytes": size for name, size in self.carried_bytes.items()}
        fields = dict(vars(self))
        del fields["carried_bytes"]
        return fields | {
            "setting": str(self.setting or ""),
            "left_out": str(self.left_out or ""),
            "algorithm_bandwidth_bytes_per_s": self.algorithm_bandwidth,
            "bus_bandwidth_bytes_per_s": self.bus_bandwidth,
            "network_bytes_per_gpu": self.network_bytes,
            "nic_share": self.nic_share,
            **carried,
        }


@dataclass(frozen=True)
class _Layer:
    """The MoE layer of an all-to-all: its shape, the bytes of a token, whether tokens go back."""

    model: Model
    options: WorkloadOptions
    token_bytes: float
    goes_back: bool = False


@dataclass(frozen=True)
class _Task:
    """A collective that is ready to be written for servers of any size.

    ``size_bytes`` is the buffer of a ring; of a ``layer`` it is the tokens of a GPU.
    """

    name: str
    size_bytes: float
    layer: _Layer | None = None


@dataclass(frozen=True)
class _Written:
    """The graphs of a collective, alone and repeated, for servers of one size; its buffer."""

    graphs: tuple[TaskGraph, ...]
    context: FabricContext
    buffer_bytes: float
    ends: int
    uneven_flows: int


def run_collectives(
    scenario: CollectiveScenario,
    progress: Progress | None = None,
    *,
    links: Interconnect | None = None,
    model: Model | None = None,
) -> list[CollectiveResult]:
    """Simulate a collective on all fabrics, each with what suits it best.

    Parameters
    ----------
    scenario
        What, among how many GPUs, on which fabrics.
    progress
        Called with the share that is done and what is being done; ``False`` stops.
    links
        What NVLink and NICs reach; by default as measured for the GPU.
    model
        Whose MoE layer it is, in place of the model that the scenario names.

    Raises
    ------
    InputError
        If anything in the scenario cannot be used.
    KeyboardInterrupt
        If ``progress`` returned ``False``.
    """
    fabrics = fabrics_of(scenario.fabrics, scenario.fabric_options)
    cluster = _cluster(scenario)
    if links is not None:
        cluster = dataclasses.replace(cluster, interconnect=links)
    written: dict[tuple[_Task, int], _Written] = {}
    ready = []
    # what a fabric cannot carry is refused before anything runs
    for task, fabric in itertools.product(_tasks(scenario, model), fabrics):
        size = fabric.adapt(cluster).gpus_per_server
        if (task, size) not in written:
            written[task, size] = _write(scenario, task, size)
        steps = written[task, size]
        ready.append((task, fabric, steps, _networks(fabric, cluster, steps)))
    results: list[CollectiveResult] = []
    for task, fabric, steps, networks in ready:
        runs: dict[Setting | None, tuple[Run, float]] = {}
        for setting, (network, plugins) in networks.items():
            share = (len(results) + len(runs) / len(networks)) / len(ready)
            watch = _watch(progress, share, f"{task.name}, {fabric.name}")
            alone, both = (
                simulate(graph, network, plugins=plugins, progress=watch) for graph in steps.graphs
            )
            runs[setting] = (alone, both.step_time_s - alone.step_time_s)
        results.append(_result(scenario, (task, fabric.name, steps), runs, fabric.adapt(cluster)))
    return results


def _watch(progress: Progress | None, share: float, activity: str) -> Progress | None:
    """Return what a simulation calls, which says the share that is done of all of them."""
    if progress is None:
        return None

    def watch(_share: float, _activity: str = "", /) -> bool:
        return progress(share, activity) is not False

    if not watch(0.0):
        raise KeyboardInterrupt
    return watch


def _cluster(scenario: CollectiveScenario) -> Cluster:
    options = scenario.cluster
    size, nics = servers_of(options)
    return Cluster.of(
        gpus=scenario.gpus,
        rate_gbps=options.rate_gbps,
        gpu=load_gpu(options.gpu).name,
        gpus_per_server=size,
        nics_per_server=nics,
        link_delay_s=options.link_delay_s,
        profile=options.profile,
    )


def _tasks(scenario: CollectiveScenario, model: Model | None) -> Iterator[_Task]:
    """The collectives of a scenario: one for each size, or those of a layer."""
    if scenario.model is not None:
        yield from _layer_tasks(scenario, model or load_layers(scenario.model))
        return
    group = scenario.group_gpus or scenario.gpus
    for size in scenario.size_bytes:
        if scenario.collective in RINGS:
            yield _Task(scenario.collective, size)
            continue
        tokens, token_bytes = _divided(size, group)
        # each GPU has an expert of its own, and tokens go to one
        experts = Model(
            scenario.collective, 1, 1, Attention("gqa", 1, 1, 1), (True,),
            num_experts=group, experts_per_token=1, expert_ffn_size=1,
        )  # fmt: skip
        options = WorkloadOptions(rank_level=True)
        yield _Task(scenario.collective, tokens, _Layer(experts, options, token_bytes))


def _divided(size_bytes: int, group: int) -> tuple[int, int]:
    """A buffer as tokens of equal bytes, as many for each GPU of the group; to the byte if it can.

    Raises
    ------
    InputError
        If there is not a byte for each GPU.
    """
    share = size_bytes // group
    if not share:
        raise InputError(f"--bytes {size_bytes}: expected at least a byte for each of {group} GPUs")
    whole = (size for size in range(min(share, TOKEN_BYTES), 0, -1) if share % size == 0)
    token_bytes = next(whole)
    if token_bytes < min(share, TOKEN_BYTES // 16):
        # a share without such a divisor is rounded
        token_bytes = round(share / -(-share // TOKEN_BYTES))
    return group * round(share / token_bytes), token_bytes


def _layer_tasks(scenario: CollectiveScenario, model: Model) -> Iterator[_Task]:
    if not model.num_moe_layers:
        raise InputError(f"{model.name} has no experts: give sizes with --bytes, or another model")
    job = Scenario(
        model=scenario.model, gpus=scenario.gpus, cluster=scenario.cluster, demand=scenario.demand
    )
    options = dataclasses.replace(workload_options(job, model), rank_level=True)
    layer = dataclasses.replace(model, moe_layers=(True,), attention_by_layer=(), ffn_by_layer=())
    tokens = scenario.tokens or DEFAULT_TOKENS
    for name, element in (
        ("dispatch", options.dispatch_element_bytes),
        ("combine", options.combine_element_bytes),
    ):
        size = bytes_per_token(model.expert_hidden, element)
        yield _Task(name, tokens, _Layer(layer, options, size, goes_back=name == "combine"))


def _plan(scenario: CollectiveScenario, task: _Task) -> Plan:
    """The groups of a collective as those of a plan of one layer."""
    gpus = scenario.gpus
    if task.layer is None:
        return Plan(gpus=gpus, dp=gpus)
    experts = task.layer.model.num_experts
    group = scenario.group_gpus or min(gpus, experts)
    if gpus % group or experts % group:
        raise InputError(
            f"{experts} experts on {gpus} GPUs: expected a --group-gpus that divides both"
        )
    return Plan(
        gpus=gpus, ep=group, dp=gpus // group, micro_batches=1, seq_len=int(task.size_bytes)
    )


def _write(scenario: CollectiveScenario, task: _Task, gpus_per_server: int) -> _Written:
    """The task graphs of a collective on servers of a size."""
    plan = _plan(scenario, task)
    workers = place_workers(RankGrid(plan), gpus_per_server)
    folded = None if task.layer is None else _folded(scenario, task, plan, workers)
    graphs = tuple(_graph(scenario, task, workers, folded, times) for times in (1, 2))
    size, ends = _buffer(scenario, task, plan, workers, folded)
    flows = 0 if folded is None else _uneven_flows(folded)
    return _Written(graphs, job_context(graphs[:1]), size, ends, flows)


def _uneven_flows(folded: Folded) -> int:
    """Flows between GPUs whose counts differ; none where all are alike."""
    assert folded.rank_tokens is not None
    counts = folded.rank_tokens
    between = counts[..., ~np.eye(counts.shape[-1], dtype=bool)]
    return int(between.size) if between.size and between.min() != between.max() else 0


def _networks(
    fabric: Fabric, cluster: Cluster, written: _Written
) -> dict[Setting | None, tuple[Network, Plugins]]:
    """The networks of a fabric with each of what it leaves open, by what that is."""
    networks: dict[Setting | None, tuple[Network, Plugins]] = {}
    left_open = fabric.candidates(fabric.adapt(cluster), written.context)
    candidates: dict[Setting | None, Fabric] = dict(left_open.items()) or {None: fabric}
    if len(candidates) > 1 and written.uneven_flows > MAX_UNEVEN_FLOWS:
        candidates.pop(FLAT, None)
    for setting, candidate in candidates.items():
        reconfiguration = candidate.reconfiguration()
        plugins = BUILT_IN
        if reconfiguration is not None:
            plugins = Plugins(reconfiguration.allocator, None)
        networks[setting] = (candidate.network(cluster, written.context), plugins)
    return networks


def _result(
    scenario: CollectiveScenario,
    what: tuple[_Task, str, _Written],
    runs: Mapping[Setting | None, tuple[Run, float]],
    machines: Cluster,
) -> CollectiveResult:
    """The fastest of the runs on a fabric."""
    task, fabric, written = what
    setting = min(runs, key=lambda name: runs[name][0].step_time_s)
    run, repeated_s = runs[setting]
    return CollectiveResult(
        collective=task.name,
        fabric=fabric,
        setting=setting,
        buffer_bytes=written.buffer_bytes,
        time_s=run.step_time_s,
        repeated_s=repeated_s,
        ends=written.ends,
        gpus=scenario.gpus,
        carried_bytes=run.carried_bytes,
        gpu_nics_gbps=machines.rate_gbps * machines.nics_per_server / machines.gpus_per_server,
        left_out=FLAT if setting != FLAT and written.uneven_flows > MAX_UNEVEN_FLOWS else None,
    )


def _folded(scenario: CollectiveScenario, task: _Task, plan: Plan, workers: Workers) -> Folded:
    """The token copies between GPUs and servers; balanced unless the scenario says otherwise."""
    assert task.layer is not None
    model, options = task.layer.model, task.layer.options
    demand = scenario.demand
    name = demand.name
    if demand.source is None:
        name = (model.gate if scenario.model is not None else None) or "balanced"
    source = open_demand(
        name,
        demand_shape(model, plan),
        seed=scenario.seed,
        resample=demand.resample,
        scale=demand.scale,
        capacity_factor=demand.capacity_factor,
    )
    return fold_demand(model, plan, workers, source, options, step=0)


def _graph(
    scenario: CollectiveScenario, task: _Task, workers: Workers, folded: Folded | None, times: int
) -> TaskGraph:
    """The collective, so many times one after the other."""
    graph = TaskGraphBuilder(workers.server.ravel(), workers.gpus_per_worker)
    everyone = np.arange(workers.server.size, dtype=np.uint32)
    if folded is None:
        return _rings(scenario, task, workers, graph, times)
    assert task.layer is not None
    layer = task.layer
    family = graph.family("ep", everyone.reshape(-1, workers.server.shape[2]))
    demand = graph.demand(
        "tokens",
        family,
        folded.tokens,
        ranks_per_member=folded.ranks_per_member,
        rank_counts=folded.rank_tokens,
        deduplicated=layer.options.deduplicate,
    )
    program = graph.role("all", everyone)
    for _ in range(times):
        block = Block(demand, 0, int(layer.token_bytes), transposed=layer.goes_back)
        program.all_to_all(family, block, "ep", layer=0, micro_batch=0)
    return graph.build()


def _rings(
    scenario: CollectiveScenario,
    task: _Task,
    workers: Workers,
    graph: TaskGraphBuilder,
    times: int,
) -> TaskGraph:
    ranks = np.arange(scenario.gpus).reshape(-1, scenario.group_gpus or scenario.gpus)
    groups = Collectives({"dp": ring_groups("dp", ranks, workers)})
    graph.add_family(groups.families[0])
    program: ProgramBuilder = graph.role("all", range(workers.server.size))
    rings = RingWriter(program, groups, itertools.count())
    for _ in range(times):
        program.wait(rings.start("dp", RINGS[task.name], task.size_bytes, "dp", {}), "dp")
    return graph.build()


def _buffer(
    scenario: CollectiveScenario,
    task: _Task,
    plan: Plan,
    workers: Workers,
    folded: Folded | None,
) -> tuple[float, int]:
    """Bytes of a GPU's buffer, and the ends that share it, of which one is the GPU's own."""
    if folded is None:
        return task.size_bytes, scenario.group_gpus or scenario.gpus
    assert task.layer is not None
    options, token_bytes = task.layer.options, task.layer.token_bytes
    members = workers.server.shape[2]
    if not options.deduplicate:
        return folded.copies * token_bytes / scenario.gpus, plan.ep
    between = folded.tokens.sum(dtype=np.int64)
    if members == 1:
        # tokens that each GPU sends once to every other
        return float(between) * token_bytes / scenario.gpus * plan.ep / max(1, plan.ep - 1), plan.ep
    across = between - np.trace(folded.tokens, axis1=-2, axis2=-1).sum(dtype=np.int64)
    # an equal share stays on the own server
    return float(across) * token_bytes / scenario.gpus * members / (members - 1), members
