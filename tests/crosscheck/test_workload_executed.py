"""What the simulator moves for a workload is what the workload counts, and as fast as it should."""

import dataclasses

import pytest
from tests.workload_fakes import FakeCompute, build_toy, execute, toy_model, what, with_rows

from lightloom.demand.generator import synthetic
from lightloom.errors import InputError
from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.parallel import Plan
from lightloom.simulate import simulate
from lightloom.workload import WorkloadOptions, build, demand_shape
from lightloom.workload.task_graph import NO_INDEX

MIXED = toy_model(
    moe_layers=(False, True, True, True), shared_expert_ffn_size=32, tied_embeddings=True
)
PLANS = {
    "tp8 servers": Plan(gpus=64, tp=8, ep=4, pp=2, micro_batches=2, seq_len=128),
    "two workers per server": Plan(gpus=32, tp=1, ep=4, dp=4, pp=2, micro_batches=2, seq_len=128),
    "context ranks share servers": Plan(gpus=64, tp=2, cp=2, ep=8, pp=2, seq_len=128),
    "context ranks across servers": Plan(gpus=64, tp=4, cp=4, ep=2, pp=2, seq_len=128),
    "heads over the ranks of a server": Plan(
        gpus=32, cp=2, ep=8, pp=2, seq_len=128, context_parallel="ulysses"
    ),
    "heads over servers": Plan(
        gpus=64,
        tp=1,
        cp=2,
        ep=16,
        pp=2,
        seq_len=128,
        order="tp-ep-cp-dp-pp",
        context_parallel="ulysses",
    ),
    "folded": Plan(gpus=64, tp=4, cp=2, ep=16, dp=2, pp=2, seq_len=128, expert_mode="folded"),
    "interleaved, zero-1": Plan(
        gpus=64, tp=2, ep=8, dp=2, pp=2, vpp=2, micro_batches=4, seq_len=128, zero1=True
    ),
    "without sequence parallelism": Plan(
        gpus=32, tp=4, ep=4, pp=2, micro_batches=3, seq_len=128, sequence_parallel=False
    ),
    "wide ep": Plan(gpus=128, ep=16, dp=4, pp=2, seq_len=128),
}


def network(gpus, rate_bps, all_to_all="hierarchical"):
    eps = Eps(nics=8, nic_rate_bps=rate_bps, link_delay_ps=1, servers_per_tor=4, servers_per_pod=16)
    switch = NvSwitch(gpu_rate_bps=rate_bps, latency_ps=1)
    return Network(gpus // 8, 8, switch, all_to_all, (eps,))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_bytes_across_servers(name, recompute):
    plan = PLANS[name]
    options = WorkloadOptions(rank_level=True)
    workload = build_toy(plan, MIXED, FakeCompute(recompute=recompute), options=options)
    run = simulate(workload.graph, network(plan.gpus, 400_000_000_000))
    for purpose, traffic in workload.traffic.items():
        moved = run.purpose_bytes[purpose]["eps"]
        assert moved == pytest.approx(traffic.network_bytes, rel=1e-3), purpose
    assert run.purpose_bytes["ep"]["eps"] == workload.traffic["ep"].network_bytes
    assert run.purpose_bytes["pp"]["eps"] == workload.traffic["pp"].network_bytes
    assert run.purpose_bytes["tp"]["nvswitch"] == workload.traffic["tp"].local_bytes


@pytest.mark.parametrize("name", PLANS)
def test_a_network_without_delay_leaves_the_schedule(name):
    plan = PLANS[name]
    times = FakeCompute(1e-3, 2e-3, 1e-4, 2e-4, 3e-4, 1e-5, 1e-6, 1e-9)
    for changes in ({}, {"overlap_gradients": False, "overlap_parameters": plan.zero1}):
        graph = build_toy(dataclasses.replace(plan, **changes), MIXED, times).graph
        run = simulate(graph, network(plan.gpus, 4_000_000_000_000_000))
        assert run.step_time_s == pytest.approx(max(execute(graph)) / 1e12, rel=1e-3)


@pytest.mark.parametrize("tp", [2, 8])
def test_expert_collectives_wait_for_the_busiest_rank(tp):
    """One worker per group: the time of TP is the sum over the blocks of its busiest rank."""
    plan = Plan(gpus=8, tp=tp, ep=8 // tp, micro_batches=3, seq_len=128)
    model = toy_model(num_experts=8, moe_layers=(True, True))
    source = synthetic("sparse", **vars(demand_shape(model, plan)), seed=5)
    times = {}
    for name, options in (
        ("with", WorkloadOptions()),
        ("without", WorkloadOptions(moe_tp="none")),
    ):
        workload = build(model, plan, demand=source, compute=FakeCompute(), options=options)
        run = simulate(workload.graph, network(8, 1_000_000_000))
        times[name] = run.critical_path_s["tp"]
        assert run.purpose_bytes["tp"]["nvswitch"] == workload.traffic["tp"].local_bytes
    # forward and backward, gather and scatter; hidden states of 64 BF16 elements; 1 Gb/s;
    # 2 layers and 3 micro-batches, 1 ps to start
    copies = workload.folded.slowest.sum()
    wanted = 4 * copies * 64 * 2 * (tp - 1) / tp / 125e6 + 4 * 6 * 1e-12
    assert times["with"] - times["without"] == pytest.approx(wanted, rel=1e-12)
    mean = workload.folded.copies / plan.ep
    assert copies > 1.2 * mean if plan.ep > 1 else copies == mean


def test_balanced_demand_takes_as_long_as_collectives_of_one_size():
    """With the mean number of copies on every rank, expert-TP tasks are plain collectives."""
    plan = PLANS["tp8 servers"]
    times = FakeCompute(1e-6, 2e-6, 1e-7, 2e-7, 3e-7, 1e-8, 1e-9, 1e-12)
    graph = build_toy(plan, MIXED, times).graph
    size = round(plan.tokens_per_ep_rank * 2 * 64 * 2 * 7 / 8)

    def plain(_, row):
        if what(row) != "expert_tp":
            return row
        return {**row, "inside": size, "table": NO_INDEX, "total": NO_INDEX}

    even = with_rows(graph, plain)
    assert even.roles[0].program.rows() != graph.roles[0].program.rows()
    fabric = network(plan.gpus, 400_000_000_000)
    runs = [simulate(g, fabric) for g in (graph, even)]
    assert runs[0].step_time_s == runs[1].step_time_s
    assert runs[0].purpose_bytes == runs[1].purpose_bytes


def test_sizes_of_expert_collectives_must_be_there():
    graph = build_toy(PLANS["tp8 servers"], MIXED).graph
    tables = tuple(dataclasses.replace(one, values=one.values[:0]) for one in graph.tables)
    with pytest.raises(InputError, match=r"table 'expert_forward_ps': values has 0 entries"):
        simulate(dataclasses.replace(graph, tables=tables), network(64, 400_000_000_000))


def test_reduction_beside_backward_is_faster_than_after_it():
    # without experts, so that nothing else wants the network meanwhile
    plan = Plan(gpus=32, tp=8, dp=4, micro_batches=2, seq_len=128)
    dense = toy_model(moe_layers=(False,) * 4)
    times = FakeCompute(attention_s=1e-5)
    slow = network(plan.gpus, 10_000_000_000)
    alongside, after = (
        simulate(build_toy(one, dense, times).graph, slow).step_time_s
        for one in (plan, dataclasses.replace(plan, overlap_gradients=False))
    )
    assert alongside < 0.9 * after
