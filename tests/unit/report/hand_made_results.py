"""A small comparison made by hand: what reports read, without a simulation."""

import dataclasses
from types import SimpleNamespace

import numpy as np

from lightloom.fabric.network import Direct, Eps, Network, NvSwitch, Ocs
from lightloom.schedule import SwitchTiming
from lightloom.simulate import CircuitTimeline, CircuitUse, Run, Snapshot, Timeline
from lightloom.study.compare.results import Comparison, FabricResult, LoadResult
from lightloom.workload.build import Workload
from lightloom.workload.categories import StepCategory
from lightloom.workload.task_graph import NONE

STAGES, MICRO_BATCHES, LAYERS = 4, 6, 2
FORWARD_S, BACKWARD_S = 1.0, 2.0


def one_f_one_b(stage):
    """Order of passes of a stage: (micro-batch, backward)."""
    warm = min(STAGES - 1 - stage, MICRO_BATCHES)
    order = [(m, False) for m in range(warm)]
    for m in range(MICRO_BATCHES):
        if m + warm < MICRO_BATCHES:
            order.append((m + warm, False))
        order.append((m, True))
    return order


def spans_of_stage(stage):
    """Spans (category, start, end, layer, micro-batch) of one stage, layer by layer."""
    now, rows = float(stage), []
    first = stage * LAYERS
    for micro_batch, backward in one_f_one_b(stage):
        length = (BACKWARD_S if backward else FORWARD_S) / LAYERS
        layers = range(first, first + LAYERS)
        for layer in reversed(layers) if backward else layers:
            for category, share in (
                (StepCategory.ATTENTION, 0.5), (StepCategory.EP, 0.2), (StepCategory.EXPERT, 0.3)
            ):  # fmt: skip
                rows.append((category, now, now + share * length, layer, micro_batch))
                now += share * length
        if stage == STAGES - 1 and not backward:
            rows.append((StepCategory.HEAD, now, now + 0.1, NONE, micro_batch))
            now += 0.1
        rows.append((StepCategory.BUBBLE, now, now + 0.25, NONE, micro_batch))
        now += 0.25
    rows.append((StepCategory.OPTIMIZER, now, now + 0.5, NONE, NONE))
    return rows


def make_timeline():
    rows = [(stage * 4, 0, *row) for stage in range(STAGES) for row in spans_of_stage(stage)]
    # two sends at once alongside stage 1
    rows += [(4, 1, StepCategory.PP, 2.0, 3.0, NONE, 0), (4, 1, StepCategory.DP, 2.5, 4.0, 3, NONE)]
    worker, stream, category, start, end, layer, micro_batch = zip(*rows, strict=True)
    return Timeline(
        worker=np.array(worker, dtype=np.uint32),
        stream=np.array(stream, dtype=np.uint8),
        start_s=np.array(start),
        end_s=np.array(end),
        waited_s=np.where(np.array(category) == StepCategory.EP, 0.25, 0.0)
        * (np.array(end) - np.array(start)),
        category=np.array(category, dtype=np.uint8),
        layer=np.array(layer, dtype=np.uint16),
        micro_batch=np.array(micro_batch, dtype=np.uint16),
        categories=tuple(category.name.lower() for category in StepCategory),
    )


def no_timeline():
    empty = {f.name: np.zeros(0) for f in dataclasses.fields(Timeline)}
    return Timeline(**{**empty, "categories": ()})


def circuit_timeline(rows):
    a, b, count, up, down = zip(*rows, strict=True) if rows else ([],) * 5
    return CircuitTimeline(
        server_a=np.array(a, dtype=np.uint32),
        server_b=np.array(b, dtype=np.uint32),
        count=np.array(count, dtype=np.uint16),
        up_s=np.array(up, dtype=float),
        down_s=np.array(down, dtype=float),
    )


def snapshot(number, *, took=0.025):
    circuits = np.zeros((4, 4), dtype=np.uint16)
    for a, b in ((0, 1), (2, 3), (0, 2 + number % 2)):
        circuits[a, b] = circuits[b, a] = 2 if (a, b) == (0, 1) else 1
    return Snapshot(
        time_s=1.0 * number,
        ready_s=1.0 * number + took,
        group=0,
        layer=number,
        micro_batch=0,
        servers=np.arange(4, dtype=np.uint32),
        demand=(np.arange(16, dtype=np.uint64) * 10**6).reshape(4, 4),
        circuits=circuits,
        makespan_s=0.004,
        chosen="best",
    )


def make_run(step_time_s, *, decisions=0, timeline=True, circuits=(), critical=None):
    names = [category.name.lower() for category in StepCategory]
    parts = dict.fromkeys(names, 0.0) | (critical or {"expert": step_time_s - 2, "ep": 2.0})
    return Run(
        step_time_s=step_time_s,
        critical_path_s=parts,
        mean_s=parts,
        role_s={f"stage {stage}": parts for stage in range(STAGES)},
        straggler_wait_s=0.1,
        purpose_bytes={
            "ep": {
                "nvswitch": 0,
                "eps": 10**12,
                "ocs": 10**12 if decisions else 0,
                "direct": 0,
                "relayed": 0,
            }
        },
        circuits=CircuitUse(
            decisions, decisions, 0, 3, 0.1, 0.02, 0.3, 0.2, 0.1, 0, 0, decisions, 0
        ),
        links=(),
        run_hash="0" * 32,
        events=10,
        flows=10,
        tasks=10,
        packet_hops=0,
        simulated_packet_hops=0,
        flow_work={},
        timeline=make_timeline() if timeline else no_timeline(),
        circuit_timeline=circuit_timeline(circuits),
        snapshots=tuple(snapshot(n) for n in range(decisions)),
    )


def make_network(kind):
    ocs = Ocs(
        ports=3, nic_rate_bps=4 * 10**11, circuit_delay_ps=10**6,
        region_of_server=np.arange(16, dtype=np.uint32) // 4, allocator="best", split=True,
        when="always", first="reuse", timing=SwitchTiming(0.025),
    )  # fmt: skip
    direct = Direct(
        nic_rate_bps=4 * 10**11, link_delay_ps=10**6, relay_delay_ps=10**6,
        circuits=np.array([[0, 1, 2], [1, 2, 1], [0, 15, 1]], dtype=np.uint32),
        route_offsets=np.array([0, 2], dtype=np.uint32),
        route_servers=np.array([0, 1], dtype=np.uint32),
    )  # fmt: skip
    eps = Eps(8, 4 * 10**11, 10**6, 4, 16)
    return Network(
        servers=16,
        gpus_per_server=8,
        nvswitch=NvSwitch(2_400_000_000_000, 10**6),
        all_to_all="flat",
        parts=(direct,) if kind == "topoopt" else (eps, ocs) if kind == "mixnet" else (eps,),
    )


def make_result(name, kind, run, *, cost, spread=0.1):
    step = run.step_time_s
    return FabricResult(
        fabric=name,
        kind=kind,
        step_time_s=step,
        step_time_low_s=step * (1 - spread),
        step_time_high_s=step * (1 + spread),
        sample_step_times_s=(step, step * (1 - spread), step * (1 + spread)),
        tokens_per_s=1e6 / step,
        tokens_per_s_per_gpu=1e6 / step / 128,
        tflops_per_gpu=1248.0 / step,
        mfu=4.0 / step,
        days_per_trillion_tokens=step * 1e6 / 86_400,
        network_cost_usd=sum(cost.values()),
        cluster_cost_usd=sum(cost.values()) + 2e7,
        network_power_w=1e5,
        cluster_power_w=1e6,
        critical_path_s=run.critical_path_s,
        mean_s=run.mean_s,
        carried_bytes=run.carried_bytes,
        cost_by_component_usd=cost,
        power_by_component_w={"nic": 2e4, "eps_port": 8e4},
        reconfiguration=run.reconfiguration_summary(),
        variants_s={},
        parameters={"kind": kind, "all_to_all": "flat", "conventions": {"prices": "prices.toml"}},
        notes=("all-to-all flat",),
        run_hash=run.run_hash,
        events=run.events,
        simulation_wall_s=0.1,
        loads=(make_load("balanced", step / 2), make_load("skewed", step * 1.5)),
    )


def make_load(imbalance, step, ratio=1.0):
    return LoadResult(
        imbalance=imbalance,
        step_time_s=step,
        tokens_per_s=1e6 / step,
        tokens_per_s_per_gpu=1e6 / step / 128,
        tflops_per_gpu=1248.0 / step,
        mfu=4.0 / step,
        days_per_trillion_tokens=step * 1e6 / 86_400,
        straggler_wait_s=0.1,
        all_to_all="flat",
        ratio_to_fastest=ratio,
    )


def make_workload():
    servers = np.arange(16).reshape(STAGES, 1, 4)
    workers = SimpleNamespace(server=servers, gpus_per_worker=8)
    return SimpleNamespace(
        workers=workers,
        worker_names=lambda: Workload.worker_names(SimpleNamespace(workers=workers)),
        traffic_shares=lambda *, network_only=False: (
            {"ep": 1.0} if network_only else {"tp": 0.6, "ep": 0.4}
        ),
    )


def with_ties(results):
    fastest = min(results, key=lambda r: r.step_time_s)
    return tuple(
        dataclasses.replace(
            r,
            ratio_to_fastest=(1.0, r.step_time_s / fastest.step_time_s, 2.0),
            tied_with_fastest=r.step_time_s < 1.03 * fastest.step_time_s,
        )
        for r in results
    )


def comparison(*, name="fat-tree", model="tiny-moe", timeline=True, warnings=()):
    """Three fabrics; ``name`` replaces the first's name."""
    circuits = [(1, 0, 2, 0.0, 5.0), (0, 1, 1, 6.0, 20.0), (2, 3, 1, 0.0, 20.0)]
    runs = {
        name: ("fat-tree", make_run(20.0, timeline=timeline)),
        "topoopt": ("topoopt", make_run(26.0, timeline=timeline)),
        "mixnet": (
            "mixnet",
            make_run(20.5, decisions=6, timeline=timeline, circuits=circuits,
                     critical={"expert": 18.0, "ep": 2.0, "reconfiguration": 0.5}),
        ),
    }  # fmt: skip
    costs = ({"nic": 2e6, "eps_port": 8e6}, {"nic": 2e6}, {"nic": 2e6, "ocs_port": 1e6})
    results = with_ties(
        [
            make_result(fabric, kind, run, cost=cost)
            for (fabric, (kind, run)), cost in zip(runs.items(), costs, strict=True)
        ]
    )
    return Comparison(
        inputs=inputs_of(model),
        results=results,
        demand={
            "server_bytes": [[0.0, 4e6], [1e6, 0.0]],
            "imbalance": {
                "experts": {"count": 2, "mean": 1.0, "max_over_mean": 1.6, "gini": 0.3,
                            "entropy": 0.7, "cv": 0.6, "top": 1, "top_share": 0.8},
                "pairs": None,
                "local_share": 0.25,
                "rank_one_error": 0.1,
            },
        },
        memory={
            "gpu_capacity_bytes": 80e9,
            "limit_bytes": 76.8e9,
            "fits": True,
            "stages": [
                {"stage": s, "parameters_bytes": 10e9, "gradients_bytes": 20e9,
                 "optimizer_bytes": 5e9, "activations_bytes": 12e9, "logits_bytes": 0.0,
                 "workspace_bytes": 1e9, "total_bytes": 48e9}
                for s in range(STAGES)
            ],
        },
        traffic_shares={"tp": 0.6, "ep": 0.4},
        warnings=warnings,
        details={
            "runs": {
                fabric: SimpleNamespace(run=run, network=make_network(kind))
                for fabric, (kind, run) in runs.items()
            },
            "workload": (workload := make_workload()),
            "workloads": dict.fromkeys(("fat-tree", "topoopt", "mixnet"), workload),
        },
    )  # fmt: skip


def inputs_of(model):
    return {
        "lightloom": "0.1.0",
        "summary": [f"{model}: 8 layers", "128 GPUs"],
        "scenario": {"model": model, "gpus": 128, "cluster": {"rate_gbps": 400.0}},
        "model": {"name": model, "parameters": 7_000_000_000, "sources": {"config": "a paper"}},
        "gpu": "a100",
        "prices": {
            "file": "prices.toml",
            "links.400.nic_usd": {
                "value": 1499.0, "source": "MixNet, Table 4", "date": "2025-09-08",
                "assumed": True,
            },
        },
        "samples": [{"seed": 0, "step": 0, "compute_scale": 1.0}],
    }  # fmt: skip
