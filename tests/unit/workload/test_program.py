"""Programs against task lists written out by hand."""

import dataclasses

import numpy as np
import pytest
from tests.workload_fakes import FakeCompute, build_toy, programs, table, tasks, toy_model

from lightloom.parallel import Plan
from lightloom.workload import WorkloadOptions, build, demand_shape
from lightloom.workload.categories import StepCategory
from lightloom.workload.task_graph import NONE, Collective

TIMES = FakeCompute(
    attention_s=1e-3,
    dense_s=2e-3,
    gate_s=3e-3,
    shared_s=4e-3,
    head_s=5e-3,
    embedding_s=6e-3,
    per_copy_s=1e-6,
    per_parameter_s=1e-9,
)


def words(graph, stage=0, kinds=None):
    """Such as ``all_to_all:ep 1`` (what, category, flags or direction) per task."""
    listing = []
    backward = [number for number, table in enumerate(graph.tables) if "backward" in table.name]
    for task in tasks(programs(graph)[stage]):
        if kinds is None or task["what"] in kinds:
            detail = f" {task['flags']}" if task["what"] == "all_to_all" and task["flags"] else ""
            if task["what"] == "expert" and task["table"] in backward:
                detail = " backward"
            if task["what"] == "ring" and task["collective"] != Collective.ALL_REDUCE:
                detail = f" {Collective(task['collective']).name}"
            category = StepCategory(task["category"]).name
            listing.append(f"{task['what']}:{category}{detail}".lower())
    return listing


ONE_MIXTURE = toy_model(moe_layers=(True,))


def test_one_mixture_layer():
    plan = Plan(gpus=16, tp=2, ep=8, micro_batches=1, seq_len=128)
    assert words(build_toy(plan, ONE_MIXTURE, TIMES).graph) == [
        "compute:head",  # embedding
        "inside:tp",
        "inside:tp",
        "compute:attention",
        "inside:tp",
        "compute:gate",
        "all_to_all:ep 2",  # dispatch, FIRST
        "expert_tp:tp",
        "expert:expert",
        "expert_tp:tp",
        "all_to_all:ep 1",  # combine, TRANSPOSED
        "inside:tp",
        "compute:head",
        "compute:head",
        "inside:tp",  # its input again, for the gradients of weights
        "inside:tp",
        "ring:dp",  # output projection
        "all_to_all:ep",  # gradient of combine: pattern of dispatch
        "expert_tp:tp",
        "expert:expert backward",
        "expert_tp:tp",
        "all_to_all:ep 1",  # gradient of dispatch
        "compute:gate",
        "inside:tp",
        "inside:tp",  # again
        "compute:attention",
        "inside:tp",
        "ring:dp",  # the layer
        "inside:tp",
        "compute:head",
        "ring:dp",  # embedding
        "wait:dp",
        "wait:dp",
        "wait:dp",
        "compute:optimizer",
    ]


def test_one_dense_layer_without_parallelism():
    model = toy_model(moe_layers=(False,), num_experts=0, experts_per_token=0, expert_ffn_size=0)
    assert words(build_toy(Plan(gpus=1, micro_batches=1), model, TIMES).graph) == [
        "compute:head",
        "compute:attention",
        "compute:dense_ffn",
        "compute:head",
        "compute:head",
        "compute:dense_ffn",
        "compute:attention",
        "compute:head",
        "compute:optimizer",
    ]


def test_shared_experts_have_their_own_collectives():
    model = dataclasses.replace(ONE_MIXTURE, shared_expert_ffn_size=32)
    plan = Plan(gpus=16, tp=2, ep=8, micro_batches=1, seq_len=128)
    plain = words(build_toy(plan, ONE_MIXTURE, TIMES).graph)
    shared = words(build_toy(plan, model, TIMES).graph)
    combine = shared.index("all_to_all:ep 1")
    assert shared[combine - 3 : combine] == ["inside:tp", "compute:expert", "inside:tp"]
    # forward three, backward these and their input again
    assert len(shared) == len(plain) + 7


def test_full_recomputation_repeats_the_layer_but_dispatch_is_known():
    plan = Plan(gpus=16, tp=2, ep=8, micro_batches=1, seq_len=128)
    again = dataclasses.replace(TIMES, recompute="full")
    listing = words(build_toy(plan, ONE_MIXTURE, again).graph)
    moved = [word for word in listing if word.startswith("all_to_all")]
    assert moved == [f"all_to_all:ep{flags}" for flags in (" 2", " 1", "", " 1", "", " 1")]


@pytest.mark.parametrize(
    ("moe_tp", "tp", "around"),
    [
        ("dispatched", 2, "expert_tp:tp"),
        ("sequence", 2, "inside:tp"),
        ("none", 2, "all_to_all"),
        ("dispatched", 1, "all_to_all"),
    ],
)
def test_expert_collectives_follow_the_convention(moe_tp, tp, around):
    plan = Plan(gpus=16, tp=tp, ep=8, dp=2 // tp, micro_batches=1, seq_len=128)
    workload = build_toy(plan, ONE_MIXTURE, TIMES, options=WorkloadOptions(moe_tp=moe_tp))
    listing = words(workload.graph)
    places = [index for index, word in enumerate(listing) if word.startswith("expert:")]
    assert len(places) == 2
    for place in places:
        assert listing[place - 1].startswith(around)
        assert listing[place + 1].startswith(around)
    gathers = around.startswith("expert_tp")
    assert (table(workload.graph, "expert_tp_per_gpu_bytes") is not None) is gathers
    assert (table(workload.graph, "expert_tp_total_bytes") is not None) is gathers


def test_expert_collectives_are_of_the_block_of_their_experts():
    plan = Plan(gpus=32, tp=2, ep=8, pp=2, micro_batches=3, seq_len=128)
    for program in programs(build_toy(plan).graph):
        kinds = ("expert", "expert_tp")
        places = [
            (t["entry"], t["layer"], t["micro_batch"]) for t in tasks(program) if t["what"] in kinds
        ]
        assert len(places) == 3 * 2 * 4 * 3  # three tasks, two passes, 4 layers, 3 micro-batches
        assert places[0::3] == places[1::3] == places[2::3]


def durations(workload, category, stage=0):
    return [
        task["size"]
        for task in tasks(programs(workload.graph)[stage])
        if task["category"] == category and task["what"] == "compute"
    ]


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_durations(recompute):
    plan = Plan(gpus=16, tp=2, ep=8, micro_batches=1, seq_len=128)
    compute = dataclasses.replace(TIMES, recompute=recompute)
    workload = build_toy(plan, ONE_MIXTURE, compute)
    again = [10**9] if recompute == "full" else []
    assert durations(workload, StepCategory.ATTENTION) == [10**9, *again, 2 * 10**9]
    assert durations(workload, StepCategory.GATE) == [3 * d for d in (10**9, *again, 2 * 10**9)]
    assert durations(workload, StepCategory.HEAD) == [6e9, 5e9, 10e9, 12e9]
    # 128 tokens x top-2 copies at 1 us over 2 expert-TP ranks
    assert set(table(workload.graph, "expert_forward_ps").flat) == {128 * 10**6}
    assert set(table(workload.graph, "expert_backward_ps").flat) == {256 * 10**6}


class Skewed:
    """Every one of 16 ranks sends all its 128 tokens to experts 5 and 9."""

    name, provenance, exact = "skewed", {}, False

    def __init__(self, shape):
        self.shape = shape

    def tokens(self, *, group, layers, micro_batches, step):  # noqa: ARG002
        counts = np.zeros((len(layers), micro_batches, 16, 16), dtype=np.int64)
        counts[..., [5, 9]] = 128
        return counts


def test_the_slowest_rank_of_a_member_counts():
    plan = Plan(gpus=16, ep=16, micro_batches=1, seq_len=128)
    source = Skewed(demand_shape(ONE_MIXTURE, plan))
    graph = build(ONE_MIXTURE, plan, demand=source, compute=TIMES).graph
    # 256 copies on the mean of 16 ranks, 2048 on the busiest of each server
    assert table(graph, "expert_forward_ps").tolist() == [[256 * 10**6], [256 * 10**6]]
    assert table(graph, "straggler_forward_ps").tolist() == [[1792 * 10**6], [1792 * 10**6]]
    assert table(graph, "straggler_backward_ps").tolist() == [[3584 * 10**6], [3584 * 10**6]]
    assert [word for word in words(graph) if "expert:" in word or "straggler" in word] == [
        "expert:expert",
        "straggler:straggler",
        "expert:expert backward",
        "straggler:straggler",
    ]
    # ranks 0-7 to rank 5: seven others; to rank 9 on the other server: eight
    assert graph.demands[0].counts.tolist() == [[[[7 * 128, 8 * 128], [8 * 128, 7 * 128]]]]


def test_sends_and_receives_of_a_middle_stage():
    plan = Plan(gpus=3, pp=3, micro_batches=3)
    graph = build_toy(plan, toy_model(moe_layers=(False,) * 3), TIMES).graph
    listing = [
        (task["what"].upper(), task["peer"], task["micro_batch"])
        for task in tasks(programs(graph)[1])
        if task["what"] in ("send", "receive")
    ]
    assert listing == [
        ("RECEIVE", 0, 0), ("SEND", 2, 0),  # F0
        ("RECEIVE", 0, 1), ("SEND", 2, 1),  # F1
        ("RECEIVE", 2, 0), ("SEND", 0, 0),  # B0
        ("RECEIVE", 0, 2), ("SEND", 2, 2),  # F2
        ("RECEIVE", 2, 1), ("SEND", 0, 1),  # B1
        ("RECEIVE", 2, 2), ("SEND", 0, 2),  # B2
    ]  # fmt: skip


def test_a_worker_sends_each_state_once():
    plan = Plan(gpus=32, tp=4, ep=4, pp=2, seq_len=128, micro_batch_size=2)
    graph = build_toy(plan).graph
    (size,) = {task["size"] for task in tasks(programs(graph)[0]) if task["what"] == "send"}
    # a worker of 8 GPUs is two EP ranks, each with 2 x 128 tokens of its own
    assert graph.gpus_per_worker == 8
    assert size == 2 * (2 * 128 * 64 * 2)


def test_gradient_rings_start_as_layers_end_or_wait_for_the_last():
    plan = Plan(gpus=16, ep=8, dp=2, micro_batches=2, seq_len=128)
    model = toy_model(moe_layers=(True, True))
    kinds = ("ring", "wait", "expert")
    overlapped = words(build_toy(plan, model, TIMES).graph, kinds=kinds)
    # backward of micro-batch 1: head, layer 1 (dense and expert rings), layer 0, embedding
    assert overlapped[6:] == [
        "ring:dp",
        "expert:expert backward",
        "ring:dp",
        "ring:dp",
        "expert:expert backward",
        "ring:dp",
        "ring:dp",
        "ring:dp",
        *["wait:dp"] * 6,
    ]
    after = dataclasses.replace(plan, overlap_gradients=False)
    late = words(build_toy(after, model, TIMES).graph, kinds=kinds)
    assert late[-12:] == ["ring:dp"] * 6 + ["wait:dp"] * 6


@pytest.mark.parametrize("overlap", [False, True])
def test_zero1_gathers_parameters_after_the_optimizer_or_with_the_next_forward(overlap):
    zero = {"zero1": True, "overlap_parameters": overlap}
    plan = Plan(gpus=16, ep=8, dp=2, micro_batches=1, seq_len=128, **zero)
    graph = build_toy(plan, ONE_MIXTURE, TIMES).graph
    listing = words(graph, kinds=("ring", "wait", "compute"))
    scatter, gather = "ring:dp reduce_scatter", "ring:dp all_gather"
    assert listing.count(scatter) == listing.count(gather) == 4
    optimizer = listing.index("compute:optimizer")
    if overlap:
        assert listing[:4] == [gather] * 4
        # embedding before the lookup, both of the layer before attention, output before the head
        assert listing[4:11] == [
            "wait:dp", "compute:head", "wait:dp", "wait:dp", "compute:attention", "compute:gate",
            "wait:dp",
        ]  # fmt: skip
        assert optimizer == len(listing) - 1
    else:
        assert listing[optimizer + 1 :] == [gather] * 4 + ["wait:dp"] * 4


def test_zero1_updates_a_shard():
    plain = Plan(gpus=16, ep=8, dp=2, micro_batches=1, seq_len=128)
    zero = dataclasses.replace(plain, zero1=True)
    (all_of_it,) = durations(build_toy(plain, ONE_MIXTURE, TIMES), StepCategory.OPTIMIZER)
    (shard,) = durations(build_toy(zero, ONE_MIXTURE, TIMES), StepCategory.OPTIMIZER)
    experts = 2 * 3 * 64 * 96  # 16 experts over 8 ranks
    dense = all_of_it / 1000 - experts
    assert shard / 1000 == pytest.approx(dense / 16 + experts / 2, abs=1)


def test_tied_tables_are_reduced_between_the_end_stages():
    plan = Plan(gpus=24, ep=8, pp=3, micro_batches=3, seq_len=128)
    model = toy_model(tied_embeddings=True)
    graph = build_toy(plan, model, TIMES).graph
    number = [family.name for family in graph.families].index("embedding")
    assert graph.families[number].workers.tolist() == [0, 2]
    for stage, joins in ((0, 1), (1, 0), (2, 1)):
        rings = [t for t in tasks(programs(graph)[stage]) if t["what"] == "ring"]
        assert sum(t["family"] == number and t["handle"] == 0 for t in rings) == joins


def test_context_parallelism_is_local_in_a_server_and_a_blocking_ring_across():
    inside = build_toy(Plan(gpus=16, cp=8, ep=2, micro_batches=1, seq_len=128), ONE_MIXTURE)
    assert [w for w in words(inside.graph) if "cp" in w] == ["inside:cp", "inside:cp"]
    across = build_toy(Plan(gpus=16, tp=8, cp=2, micro_batches=1, seq_len=128), ONE_MIXTURE)
    listing = [w for w in words(across.graph) if "cp" in w]
    # keys and values; again, and their gradients back: no all-reduce, which could be a tree
    forward = ["ring:cp all_gather", "wait:cp"]
    backward = ["ring:cp all_gather", "ring:cp reduce_scatter", "wait:cp", "wait:cp"]
    assert listing == forward + backward


def test_tasks_name_layer_and_micro_batch():
    plan = Plan(gpus=16, ep=8, pp=2, micro_batches=2, seq_len=128)
    graph = build_toy(plan, toy_model(moe_layers=(True,) * 3), TIMES).graph
    experts = [t for t in tasks(programs(graph)[1]) if t["what"] == "expert"]
    assert [(t["layer"], t["micro_batch"], t["entry"]) for t in experts] == [
        (2, 0, 0), (2, 0, 0), (2, 1, 1), (2, 1, 1),
    ]  # fmt: skip
    assert tasks(programs(graph)[1])[-1]["layer"] == NONE


def test_ep_of_one_moves_nothing():
    plan = Plan(gpus=8, dp=8, micro_batches=1, seq_len=128)
    workload = build_toy(plan, ONE_MIXTURE, TIMES)
    assert not [w for w in words(workload.graph) if w.startswith("all_to_all")]
    assert workload.traffic["ep"].total_bytes == 0
