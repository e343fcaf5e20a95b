"""For random models and plans, what a graph sends is what the model implies."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.workload_fakes import FakeCompute, execute, programs, tasks, toy_model

from lightloom.demand.generator import synthetic
from lightloom.errors import PlanError
from lightloom.models.model import Attention
from lightloom.parallel import Plan
from lightloom.parallel.pipeline import schedule
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
    mixture = any(layers)
    return toy_model(
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
    vpp = draw(st.sampled_from([1, 2])) if pp > 1 and model.num_layers >= 2 * pp else 1
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
            micro_batches=pp * draw(st.integers(1, 2)),
            seq_len=128,
            zero1=draw(st.booleans()),
            sequence_parallel=draw(st.booleans()),
            expert_mode="folded" if folded else "axis",
        )
    except PlanError:
        assume(False)


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
    backward_table = (
        [one.name for one in workload.graph.tables].index("expert_backward_ps")
        if (workload.graph.tables)
        else None
    )
    for stage, program in enumerate(programs(workload.graph)):
        experts = [
            (task["entry"], task["table"] == backward_table)
            for task in tasks(program)
            if task["what"] == "expert"
        ]
        moe = sum(
            model.moe_layers[layer]
            for chunk in plan.layers(model.num_layers)[stage]
            for layer in chunk
        )
        blocks = moe * plan.micro_batches
        forward = [block for block, is_backward in experts if not is_backward]
        backward = [block for block, is_backward in experts if is_backward]
        assert sorted(backward) == list(range(blocks))
        assert sorted(forward) == sorted(list(range(blocks)) * (2 if again else 1))
        passes = {(s.forward, s.chunk, s.micro_batch) for s in schedule(plan, stage)}
        assert len(passes) == 2 * plan.vpp * plan.micro_batches


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
