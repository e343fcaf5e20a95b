"""What ``build`` returns, checks and refuses; faults that the conservation check finds."""

import dataclasses

import numpy as np
import pytest
from tests.workload_fakes import (
    FakeCompute,
    balanced,
    build_toy,
    programs,
    table,
    tasks,
    toy_model,
    what,
    with_rows,
)

from lightloom.demand.generator import synthetic
from lightloom.errors import DemandError, InputError, PlanError
from lightloom.models.model import NO_ATTENTION, Attention
from lightloom.parallel import Plan
from lightloom.workload import (
    WorkloadOptions,
    build,
    check_conservation,
    demand_shape,
    rebuild,
)
from lightloom.workload.task_graph import NO_INDEX
from lightloom.workload.traffic import sent_traffic, traffic_shares, unmatched

PLAN = Plan(gpus=64, tp=2, ep=8, dp=2, pp=2, micro_batches=2, seq_len=128)


def assert_equal_graphs(first, second):
    assert [p.rows() for p in programs(first)] == [p.rows() for p in programs(second)]
    assert (first.demands[0].counts == second.demands[0].counts).all()
    for ours, other in zip(first.tables, second.tables, strict=True):
        assert ours.name == other.name
        assert (ours.values == other.values).all()


def test_layout_and_graph():
    workload = build_toy(PLAN)
    layout = workload.graph.layout
    assert (len(layout.roles), len(layout.groups), layout.members) == (2, 4, 2)
    assert layout.gpus_per_worker == 8
    assert layout.worker_server.tolist() == list(range(8))
    assert workload.graph.demands[0].counts.shape == (4, 8, 2, 2)
    assert [family.name for family in workload.graph.families] == ["dp-dense", "dp-expert", "ep"]
    assert len(workload.graph.roles) == len(workload.memory) == 2


def test_servers_of_another_size():
    layout = build_toy(PLAN, gpus_per_server=4).graph.layout
    assert (layout.members, layout.gpus_per_worker) == (4, 4)
    layout = build_toy(PLAN, gpus_per_server=32).graph.layout
    assert (layout.members, layout.gpus_per_worker) == (1, 16)
    assert layout.worker_server.tolist() == [0, 0, 1, 1]


GQA = Attention("gqa", num_heads=8, num_kv_heads=2, head_dim=8)
MAMBA2 = Attention("mamba2", num_heads=8, num_kv_heads=2, head_dim=16, key_head_dim=8)
#: a layer is an attention, a Mamba, a dense network or experts alone, or one of each
HYBRID = toy_model(
    attention_by_layer=(MAMBA2, NO_ATTENTION, GQA, NO_ATTENTION, MAMBA2, NO_ATTENTION, GQA, MAMBA2),
    moe_layers=(False, True, False, False, False, True, True, False),
    ffn_by_layer=(0, 0, 0, 256, 0, 0, 0, 128),
    expert_hidden_size=16,
    shared_expert_ffn_size=32,
    residual_streams=4,
)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        Plan(gpus=64, tp=2, cp=2, ep=4, dp=2, pp=2, micro_batches=2, seq_len=128),
        dataclasses.replace(PLAN, sequence_parallel=False),
        dataclasses.replace(PLAN, vpp=2, pp_layout=(0, 3, 4, 1)),
        dataclasses.replace(PLAN, schedule="zero-bubble", overlap_shared_experts=True),
        dataclasses.replace(PLAN, schedule="dualpipe", overlap_all_to_all="batch", micro_batches=4),
        dataclasses.replace(PLAN, overlap_all_to_all="chunks", overlap_chunks=4),
        dataclasses.replace(PLAN, tp=1, etp=1, cp=2, context_parallel="ulysses"),
    ],
)
def test_layers_that_are_an_attention_or_a_feed_forward_alone_move_what_is_implied(plan):
    workload = build_toy(plan, HYBRID, FakeCompute(attention_s=1.0, dense_s=1.0))
    check_conservation(workload)
    # bytes of a copy are those of the experts' hidden size, in BF16
    assert demands_unit_bytes(workload) == {32 // plan.overlap_chunks}


def demands_unit_bytes(workload):
    """Bytes of the all-to-alls of experts per copy of a token."""
    return {
        int(size)
        for program in programs(workload.graph)
        for size in program.size[program.demand != NO_INDEX]
    }


def test_layers_take_the_time_of_what_they_have():
    plan = Plan(gpus=8, ep=8, micro_batches=1, seq_len=128)
    compute = FakeCompute(attention_s=1.0, dense_s=100.0)
    (program,) = programs(build_toy(plan, HYBRID, compute).graph)
    seconds = [task["size"] / 1e12 for task in tasks(program) if task["what"] == "compute"]
    # five attentions and two dense networks, forward once and backward twice as long
    assert sum(seconds) == pytest.approx(3 * (5 * 1.0 + 2 * 100.0))


def test_sends_inside_a_server_are_local():
    # 32 GPUs a server: both stages of 64 GPUs share none, of 32 GPUs all
    small = dataclasses.replace(PLAN, gpus=32, dp=1)
    assert build_toy(PLAN, gpus_per_server=32).traffic["pp"].local_bytes == 0
    traffic = build_toy(small, gpus_per_server=32).traffic["pp"]
    assert traffic.network_bytes == 0
    assert traffic.local_bytes > 0


def test_shares_of_the_network_leave_out_what_stays_in_servers():
    workload = build_toy(PLAN)
    shares = workload.traffic_shares(network_only=True)
    assert shares["tp"] == 0
    assert sum(shares.values()) == pytest.approx(1)
    assert sum(workload.traffic_shares().values()) == pytest.approx(1)
    alone = build_toy(Plan(gpus=1, micro_batches=1), toy_model(moe_layers=(False,)))
    assert set(traffic_shares(alone.traffic).values()) == {0.0}


def test_provenance_says_what_went_in():
    plan = dataclasses.replace(PLAN, provenance=("published: a paper",))
    options = WorkloadOptions(dispatch_element_bytes=1)
    notes = build_toy(plan, options=options).provenance
    assert notes["plan"] == f"{plan.describe()}; published: a paper"
    assert notes["workload.dispatch_element_bytes"] == "1"
    assert notes["compute.gpu"] == "fake"
    assert notes["compute.recompute"] == "none"
    assert "demand.regime" in notes
    for field in dataclasses.fields(WorkloadOptions):
        assert f"workload.{field.name}" in notes


def test_rebuilding_changes_compute_times_alone():
    times = FakeCompute(1e-3, 0, 1e-4, 0, 1e-4, 1e-5, 1e-6, 1e-9)
    first = build_toy(PLAN, compute=times)
    for compute, scale in ((times, 1.25), (FakeCompute(2e-3, recompute="full"), 1.0)):
        again = rebuild(first, compute=compute, compute_scale=scale)
        afresh = build_toy(PLAN, compute=compute, compute_scale=scale)
        assert_equal_graphs(again.graph, afresh.graph)
        assert again.provenance == afresh.provenance
        assert again.traffic == afresh.traffic


@pytest.mark.parametrize(
    ("changes", "purpose"),
    [
        ({"dispatch_element_bytes": 1.0}, "ep"),
        ({"combine_element_bytes": 1.0}, "ep"),
        ({"dispatch_gradient_element_bytes": 1.0}, "ep"),
        ({"combine_gradient_element_bytes": 1.0}, "ep"),
        ({"activation_element_bytes": 4.0}, "pp"),
        ({"activation_element_bytes": 4.0}, "tp"),
        ({"gradient_bytes": 2.0}, "dp"),
        ({"parameter_bytes": 4.0}, "dp"),
        ({"moe_tp": "none"}, "tp"),
        ({"deduplicate": True}, "ep"),
    ],
)
def test_every_option_about_bytes_is_read(changes, purpose):
    plan = dataclasses.replace(PLAN, zero1=True)
    base, other = build_toy(plan), build_toy(plan, options=WorkloadOptions(**changes))
    assert base.traffic[purpose] != other.traffic[purpose]


@pytest.mark.parametrize("changes", [{"overlap_gradients": False}, {"overlap_parameters": True}])
def test_every_option_about_overlap_is_read(changes):
    plan = dataclasses.replace(PLAN, zero1=True)
    base, other = build_toy(plan), build_toy(dataclasses.replace(plan, **changes))
    assert programs(base.graph)[0].rows() != programs(other.graph)[0].rows()
    assert base.traffic == other.traffic


def test_equal_inputs_give_equal_graphs():
    first, second = build_toy(PLAN).graph, build_toy(PLAN).graph
    assert_equal_graphs(first, second)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"gradient_bytes": 0},
            "gradient-bytes = 0: expected bytes per element, above 0, up to 8",
        ),
        (
            {"dispatch_element_bytes": float("nan")},
            "dispatch-element-bytes = nan: expected bytes per element, above 0, up to 8",
        ),
        (
            {"combine_element_bytes": "fp8"},
            "combine-element-bytes = 'fp8': expected bytes per element, above 0, up to 8",
        ),
        (
            {"moe_tp": "some"},
            "moe-tp = 'some': expected one of dispatched, sequence, none",
        ),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, message):
    with pytest.raises(InputError) as caught:
        WorkloadOptions(**options)
    assert str(caught.value) == message


def test_wrong_inputs_are_refused():
    model = toy_model()
    with pytest.raises(InputError, match="toy has experts: a demand source is needed"):
        build(model, PLAN, demand=None, compute=FakeCompute())
    with pytest.raises(InputError, match=r"compute scale = -1: expected a number above 0"):
        build_toy(PLAN, compute_scale=-1)
    other = balanced(model, dataclasses.replace(PLAN, seq_len=256))
    with pytest.raises(DemandError, match="the model and plan need"):
        build(model, PLAN, demand=other, compute=FakeCompute())
    twelve = toy_model(num_experts=12)
    with pytest.raises(PlanError, match="experts are not divisible by ep"):
        build(twelve, PLAN, demand=other, compute=FakeCompute())
    with pytest.raises(PlanError, match="must stay within a server of 1 GPUs"):
        build_toy(PLAN, gpus_per_server=1)


# Faults: every change of a good graph must be found.


def drop(graph, stage, kind):
    """Remove the last task of a kind from a stage."""
    last_task = [task for task in tasks(graph.roles[stage].program) if task["what"] == kind][-1]
    last = {name: value for name, value in last_task.items() if name != "what"}

    def change(role, row):
        return None if role is graph.roles[stage] and row == last else row

    return with_rows(graph, change)


@pytest.mark.parametrize("kind", ["send", "receive", "ring", "wait"])
@pytest.mark.parametrize("stage", [0, 1])
def test_a_missing_partner_is_found(kind, stage):
    workload = build_toy(PLAN)
    assert unmatched(workload.graph) == []
    broken = dataclasses.replace(workload, graph=drop(workload.graph, stage, kind))
    assert unmatched(broken.graph)
    with pytest.raises(AssertionError):
        check_conservation(broken)


def test_a_ring_joined_by_unequal_stages_is_found():
    plan = Plan(gpus=24, ep=8, pp=3, micro_batches=3, seq_len=128)
    workload = build_toy(plan, toy_model(tied_embeddings=True))
    assert unmatched(workload.graph) == []

    def grow(role, row):
        larger = role.name == "stage 2" and what(row) == "ring" and row["handle"] == 0
        return {**row, "size": row["size"] + larger}

    assert unmatched(with_rows(workload.graph, grow)) == [
        "family embedding: roles ['stage 0', 'stage 2'] join different collectives"
    ]


@pytest.mark.parametrize(
    ("kind", "column"),
    [("inside", "inside"), ("all_to_all", "size"), ("send", "size"), ("ring", "size")],
)
def test_wrong_bytes_are_found(kind, column):
    workload = build_toy(PLAN)
    left = [1]

    def grow(role, row):
        if role.name != "stage 0" or what(row) != kind or not left:
            return row
        left.pop()
        return {**row, column: int(row[column] * 1.1) + 1}

    graph = with_rows(workload.graph, grow)
    assert not left
    changed = dataclasses.replace(workload, traffic=sent_traffic(graph))
    with pytest.raises(AssertionError, match="the model implies"):
        check_conservation(changed)


def test_lost_copies_of_an_expert_collective_are_found():
    workload = build_toy(PLAN)
    total = table(workload.graph, "expert_tp_total_bytes")
    total[1, 0] -= np.uint64(total.sum() // 1000)
    changed = dataclasses.replace(workload, traffic=sent_traffic(workload.graph))
    with pytest.raises(AssertionError, match="tp: "):
        check_conservation(changed)


def test_lost_tokens_are_found():
    workload = build_toy(PLAN)
    workload.graph.demands[0].counts[0, 0, 0, 1] -= np.uint32(1)
    changed = dataclasses.replace(workload, traffic=sent_traffic(workload.graph))
    with pytest.raises(AssertionError, match="ep: "):
        check_conservation(changed)


def test_every_pass_of_the_experts_is_computed_once():
    """Split backward passes, whole and in chunks, reuse one another."""
    calls = []

    class Counted(FakeCompute):
        def experts(self, model, tokens_per_gpu, experts_per_gpu, etp, backward):
            calls.append((backward, np.asarray(tokens_per_gpu, dtype=float).tobytes()))
            return super().experts(model, tokens_per_gpu, experts_per_gpu, etp, backward)

    overlap = {"overlap_all_to_all": "chunks", "overlap_chunks": 2}
    plan = Plan(gpus=16, ep=8, pp=2, seq_len=128, schedule="zero-bubble", **overlap)
    model = toy_model(num_experts=8)
    demand = synthetic("sparse", **vars(demand_shape(model, plan)), seed=5)
    build(model, plan, demand=demand, compute=Counted(per_copy_s=1e-9))
    # the busiest and the mean load, forward and backward, of all tokens and of a chunk
    assert len(calls) == len(set(calls)) == 8
