"""For random models and plans, what a graph sends is what the model implies."""

import collections
import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.workload_fakes import FakeCompute, execute, programs, tasks, toy_model

from lightloom.demand.generator import synthetic
from lightloom.errors import PlanError
from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.models.model import Attention
from lightloom.parallel import Plan
from lightloom.parallel.pipeline import schedule
from lightloom.simulate import simulate
from lightloom.workload import WorkloadOptions, build, demand_shape
from lightloom.workload.traffic import sent_traffic, unmatched

DEGREE = st.sampled_from([1, 2, 4])


@st.composite
def models(draw):
    layers = draw(st.lists(st.booleans(), min_size=4, max_size=9))
    latent = draw(st.booleans())
    attention = Attention(
        "mla" if latent else "gqa",
        num_heads=8,
        num_kv_heads=draw(st.sampled_from([1, 2, 8])),
        head_dim=8,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=8,
    )
    linear = Attention(
        draw(st.sampled_from(["delta", "lightning"])),
        num_heads=8,
        num_kv_heads=draw(st.sampled_from([1, 2, 8])),
        head_dim=8,
        key_head_dim=4,
        output_gate=draw(st.booleans()),
    )
    every = draw(st.sampled_from([0, 1, 3]))
    kinds = tuple(linear if (i + 1) % every else attention for i in range(len(layers)) if every)
    mixture = any(layers)
    return toy_model(
        attention_by_layer=kinds,
        moe_layers=tuple(layers),
        attention=attention,
        num_experts=draw(st.sampled_from([8, 16])) if mixture else 0,
        experts_per_token=draw(st.integers(1, 4)) if mixture else 0,
        expert_ffn_size=96 if mixture else 0,
        shared_expert_ffn_size=draw(st.sampled_from([0, 64])) if mixture else 0,
        gated_ffn=draw(st.booleans()),
        tied_embeddings=draw(st.booleans()),
    )


@st.composite
def plans(draw, model):
    ep = draw(st.sampled_from([1, 2, 4, 8])) if model.num_moe_layers else 1
    tp, cp, dp = draw(DEGREE), draw(DEGREE), draw(DEGREE)
    pp = draw(st.sampled_from([1, 2, 4]))
    folded = bool(model.num_moe_layers) and draw(st.booleans())
    etp = draw(st.sampled_from([1, tp])) if folded else tp
    gpus = etp * ep * dp * pp if folded else tp * cp * ep * dp * pp
    schedule = draw(st.sampled_from(["1f1b", "1f1b", "zero-bubble", "dualpipe"]))
    if schedule != "1f1b" and not _allows(schedule, pp):
        schedule = "1f1b"
    whole = schedule != "1f1b"
    chunked = not whole and pp > 1 and model.num_layers >= 2 * pp
    vpp = draw(st.sampled_from([1, 2])) if chunked else 1
    try:
        return Plan(
            gpus=gpus,
            tp=tp,
            pp=pp,
            dp=dp,
            ep=ep,
            etp=etp,
            cp=cp,
            vpp=vpp,
            micro_batches=pp * (2 if whole else draw(st.integers(1, 2))),
            seq_len=128,
            zero1=(zero1 := draw(st.booleans())),
            sequence_parallel=(sequence_parallel := draw(st.booleans())),
            schedule=schedule,
            overlap_gradients=draw(st.booleans()),
            overlap_parameters=zero1 and draw(st.booleans()),
            overlap_tp=tp > 1 and sequence_parallel and draw(st.booleans()),
            context_parallel=draw(st.sampled_from(divisions(model, tp, cp))),
            **draw(all_to_alls(model, ep, schedule)),
            expert_mode="folded" if folded else "axis",
        )
    except PlanError:
        assume(False)


def _allows(schedule, pp):
    return pp > 1 if schedule == "zero-bubble" else pp % 2 == 0


def divisions(model, tp, cp):
    """How sequences can be divided."""
    counts = [one.num_heads for one in model.attentions]
    counts += [one.num_kv_heads for one in model.attentions if one.kind != "mla"]
    whole = all(count % (tp * cp) == 0 for count in counts)
    return ["ring", "ulysses"] if cp > 1 and whole else ["ring"]


@st.composite
def all_to_alls(draw, model, ep, schedule):
    """What hides the all-to-alls, where there are some."""
    if ep == 1:
        return {}
    kinds = ["none", "chunks"] if schedule == "zero-bubble" else ["none", "chunks", "batch"]
    found = {"overlap_all_to_all": draw(st.sampled_from(kinds))}
    if found["overlap_all_to_all"] == "chunks":
        found["overlap_chunks"] = draw(st.sampled_from([2, 4]))
    if model.shared_expert_ffn_size:
        found["overlap_shared_experts"] = draw(st.booleans())
    if found != {"overlap_all_to_all": "none"} and any(
        value not in ("none", False) for value in found.values()
    ):
        found["communication_sms"] = draw(st.sampled_from([0, 20]))
    return found


OPTIONS = st.builds(
    WorkloadOptions,
    dispatch_element_bytes=st.sampled_from([1.0, 1.03125, 2.0]),
    combine_element_bytes=st.sampled_from([1.0, 2.0]),
    dispatch_gradient_element_bytes=st.sampled_from([1.0, 2.0]),
    combine_gradient_element_bytes=st.sampled_from([1.03125, 2.0]),
    gradient_bytes=st.sampled_from([2.0, 4.0]),
    deduplicate=st.booleans(),
    moe_tp=st.sampled_from(["dispatched", "sequence", "none"]),
    rank_level=st.booleans(),
)


@st.composite
def workloads(draw):
    model = draw(models())
    plan = draw(plans(model))
    demand = None
    if model.num_moe_layers:
        regime = draw(st.sampled_from(["uniform", "mixtral", "sparse"]))
        demand = synthetic(regime, **vars(demand_shape(model, plan)), seed=draw(st.integers(0, 9)))
    compute = FakeCompute(1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-5, 1e-7, 1e-9)
    compute.recompute = draw(st.sampled_from(["none", "full"]))
    return build(
        model, plan, demand=demand, compute=compute, gpus_per_server=8, options=draw(OPTIONS)
    )


@given(workloads())
@settings(max_examples=80, deadline=None)
def test_bytes_are_conserved(workload):
    assert unmatched(workload.graph) == []
    sent = sent_traffic(workload.graph)
    for purpose, expected in workload.expected_bytes.items():
        assert sent[purpose].total_bytes == pytest.approx(expected, rel=1e-5, abs=1), purpose


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_no_schedule_deadlocks_and_all_compute_is_done(workload):
    busy = [
        sum(task["size"] for task in tasks(program) if task["what"] == "compute")
        for program in programs(workload.graph)
    ]
    ends = execute(workload.graph)
    assert all(end >= minimum for end, minimum in zip(ends, busy, strict=True))


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_programs_work_through_every_layer_and_micro_batch(workload):
    plan, model = workload.plan, workload.model
    again = workload.provenance["compute.recompute"] == "full"
    names = [one.name.removesuffix("_ps").split("_")[:2] for one in workload.graph.tables]
    found = collections.Counter()
    for stage, program in enumerate(programs(workload.graph)):
        for task in tasks(program):
            if task["what"] == "expert":
                found[stage, names[task["table"]][1], task["layer"], task["micro_batch"]] += 1
        passes = {(s.forward, s.chunk, s.micro_batch) for s in schedule(plan, stage)}
        assert len(passes) == 2 * plan.vpp * plan.micro_batches
    # once at one place of the pipeline, or a chunk at a time; weights apart, if at all, and whole
    layers = [layer for layer in range(model.num_layers) if model.moe_layers[layer]]
    places = collections.Counter()
    for (_, kind, layer, micro_batch), count in found.items():
        assert count == (
            1 if kind == "weight" else plan.overlap_chunks * (1 + (kind == "forward" and again))
        )
        places["forward" if kind == "forward" else "backward", layer, micro_batch] += (
            kind != "weight"
        )
    assert places == {
        (kind, layer, micro_batch): 1
        for kind in ("forward", "backward")
        for layer in layers
        for micro_batch in range(plan.micro_batches)
    }
    apart = {key[2:] for key in found if key[1] == "weight"}
    assert apart == {key[2:] for key in found if key[1] == "input"}


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_overlap_moves_the_same_bytes_and_never_takes_longer(workload):
    plan = workload.plan
    plain = dataclasses.replace(
        plan,
        overlap_all_to_all="none",
        overlap_chunks=1,
        overlap_shared_experts=False,
        overlap_tp=False,
        communication_sms=0,
    )
    free = dataclasses.replace(plan, communication_sms=0)
    demand = None
    if workload.model.num_moe_layers:
        demand = synthetic("uniform", **vars(demand_shape(workload.model, plan)), seed=0)
    compute = FakeCompute(1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-5, 1e-7, 1e-9)
    with_overlap, without = (
        build(workload.model, one, demand=demand, compute=compute, options=workload.options)
        for one in (free, plain)
    )
    assert with_overlap.traffic == without.traffic
    servers = -(-plan.gpus // 8)
    gpus = min(8, plan.gpus)
    eps = Eps(gpus, 100_000_000_000, 0, servers_per_tor=4, servers_per_pod=16)
    network = Network(servers, gpus, NvSwitch(2_400_000_000_000, 0), "hierarchical", (eps,))
    times = [simulate(one.graph, network).step_time_s for one in (with_overlap, without)]
    # two passes of a turn end together, which costs a pipeline of uneven stages some of the gain
    if plan.overlap_all_to_all != "batch" or plan.pp == 1:
        assert times[0] <= times[1] * (1 + 1e-3)


@st.composite
def plans_with_strategies(draw, model):
    """Plans whose experts are cut over TP ranks of several EP ranks, and how these send."""
    pp, schedule = draw(st.sampled_from([(1, "1f1b"), (2, "1f1b"), (2, "zero-bubble"),
                                         (2, "dualpipe")]))  # fmt: skip
    tp, ep, dp = (draw(st.sampled_from(degrees)) for degrees in ([2, 4], [2, 4, 8], [1, 2]))
    strategy = draw(st.sampled_from(["baseline", "O2", "O3", "O4"]))
    hidden = {"communication_sms": 0}
    return Plan(
        gpus=tp * ep * dp * pp,
        tp=tp,
        ep=ep,
        dp=dp,
        pp=pp,
        micro_batches=2 * pp,
        seq_len=128,
        schedule=schedule,
        strategy=strategy,
        strategy_chunks=0 if strategy == "baseline" else draw(st.integers(1, 5)),
        sequence_parallel=strategy != "baseline" and draw(st.booleans()),
        **{**draw(all_to_alls(model, ep, schedule)), **hidden},
    )


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_strategies_of_all_to_alls_move_the_same_bytes_with_every_overlap(data):
    layers = (True, False, True, True)
    model = toy_model(moe_layers=layers, shared_expert_ffn_size=data.draw(st.sampled_from([0, 64])))
    plan = data.draw(plans_with_strategies(model))
    usual = dataclasses.replace(plan, strategy="O1", strategy_chunks=0)
    shape = vars(demand_shape(model, plan))
    demand = synthetic("mixtral", **shape, seed=data.draw(st.integers(0, 9)))
    compute = FakeCompute(1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-5, 1e-7, 1e-9, copy_s_per_byte=1e-12)
    compute.recompute = data.draw(st.sampled_from(["none", "full"]))
    options = WorkloadOptions(rank_level=True, deduplicate=data.draw(st.booleans()))
    changed, plain = (
        build(model, one, demand=demand, compute=compute, options=options) for one in (plan, usual)
    )
    assert unmatched(changed.graph) == []
    times = plan.tp if plan.strategy == "baseline" else 1
    assert changed.traffic["ep"].total_bytes == times * plain.traffic["ep"].total_bytes
    if plan.strategy == "baseline" and not plan.sequence_parallel:
        # every TP rank gets all results over the network, and gathers none inside
        assert changed.traffic["tp"].total_bytes <= plain.traffic["tp"].total_bytes
    else:
        assert changed.traffic["tp"] == plain.traffic["tp"]
    gpus = min(8, plan.gpus)
    eps = Eps(gpus, 100_000_000_000, 0, servers_per_tor=4, servers_per_pod=16)
    inside = NvSwitch(2_400_000_000_000, 0)
    network = Network(-(-plan.gpus // 8), gpus, inside, "flat", (eps,))
    run = simulate(changed.graph, network)
    carried = {purpose: sum(sizes.values()) for purpose, sizes in run.purpose_bytes.items()}
    assert carried["tp"] == changed.traffic["tp"].total_bytes
    assert carried["ep"] >= changed.traffic["ep"].network_bytes


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_the_layout_covers_every_gpu_once(workload):
    layout, plan = workload.graph.layout, workload.plan
    assert layout.workers * layout.gpus_per_worker == plan.gpus
    per_server = np.bincount(layout.worker_server) * layout.gpus_per_worker
    assert per_server.max() <= 8
    assert per_server.sum() == plan.gpus
    # the members of an EP group sit on different servers
    for servers in layout.group_servers():
        assert len(set(servers.tolist())) == layout.members


@given(workloads())
@settings(max_examples=25, deadline=None)
def test_rings_partition_workers_and_cross_servers_in_ascending_order(workload):
    layout = workload.graph.layout
    for family in workload.graph.families:
        if family.name == "ep":
            continue
        assert len(set(family.workers.tolist())) == family.workers.size
        if family.name != "embedding":
            assert family.workers.size == layout.workers
        for start, end in zip(family.offsets[:-1], family.offsets[1:], strict=True):
            servers = layout.worker_server[family.workers[start:end]]
            assert (np.diff(servers.astype(np.int64)) > 0).all()
