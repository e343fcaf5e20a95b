"""The task graph of a traced step: its bytes, times and waits in closed form, on any servers."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace_jobs import PLAIN, GridJob, recording

from lightloom.demand import synthetic
from lightloom.errors import InputError
from lightloom.fabric import Cluster, FabricContext, load_fabric, mean_demand
from lightloom.simulate import simulate
from lightloom.trace.computes import Compute, Operator, StreamPlace, StreamWait
from lightloom.trace.step.build import StepBuilder, TracedStep
from lightloom.trace.step.placement import place
from lightloom.trace.step.purposes import purpose_of
from lightloom.trace.step.times import OperatorTimes
from lightloom.trace.trace import ProcessGroup, make_trace
from lightloom.workload.compute import ComputeModel
from lightloom.workload.task_graph import NO_INDEX, TRANSPOSED, Collective, Kind
from lightloom.workload.traffic import unmatched

KERNELS = ComputeModel.load("h100").kernels


def built(trace, gpus_per_server, source=None, scale=1.0):
    return StepBuilder(TracedStep.of(trace), gpus_per_server).build(KERNELS, scale, source, 0)


def step_time_s(graph, gpus_per_server, fabric="fat-tree"):
    gpus = len(graph.worker_server) * graph.gpus_per_worker
    cluster = Cluster.of(
        gpus=gpus, rate_gbps=400, gpu="h100", gpus_per_server=gpus_per_server,
        nics_per_server=gpus_per_server,
        link_delay_s=1e-6,
    )  # fmt: skip
    context = FabricContext.of(graph, lambda: mean_demand([graph]))
    network = load_fabric(fabric, {}).network(cluster, context)
    return simulate(graph, network).step_time_s


@pytest.mark.parametrize("gpus_per_server", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("everyone", [False, True])
def test_a_graph_sends_the_bytes_of_the_calls(gpus_per_server, everyone):
    job = GridJob(tp=2, pp=2, dp=4, ep=2)
    ranks = range(job.ranks) if everyone else None
    workload = built(job.trace(ranks), gpus_per_server)
    layers, micro_batches = 2, 2
    passes = 2 * layers * micro_batches
    expected = {
        # two halves of an 8,192-byte buffer, gathered and scattered
        "tp": job.ranks * passes * 2 * 4096,
        "ep": job.ranks * passes * 1024,
        # activations forward and gradients backward over the one boundary
        "pp": job.ranks // 2 * 2 * micro_batches * 4096,
        "dp": job.ranks * (0.75 * (1 << 20) + 0.75 * (1 << 19)) + 2 * 4 * (job.ranks - 1),
    }
    sent = {name: sums.total_bytes for name, sums in workload.traffic.items()}
    assert sent == pytest.approx(expected, abs=job.ranks)
    assert workload.expected_bytes == pytest.approx(expected)
    assert unmatched(workload.graph) == []
    assert workload.graph.gpus_per_worker == min(gpus_per_server, 8)


def test_bytes_inside_servers_do_not_cross_the_network():
    traffic = built(GridJob(tp=2, pp=2, dp=4, ep=2).trace(), 4).traffic
    # servers of a tensor- and expert-parallel group each
    assert traffic["tp"].network_bytes == traffic["ep"].network_bytes == 0
    assert traffic["pp"].local_bytes == 0
    assert traffic["dp"].network_bytes > 0


def job_of(calls, computes=(), waits=(), ranks=2):
    """A job whose ranks all do the same on one group."""
    everyone = tuple(range(ranks))
    issued = [dataclasses.replace(call, group="dp", ranks=everyone) for call in calls]
    recorded = dataclasses.replace(
        recording(0, issued), computes=tuple(computes), stream_waits=tuple(waits)
    )
    return make_trace(ranks, ["python"], [recorded], [ProcessGroup("dp", everyone)])


def measured(before, seconds, stream=0, phase="forward"):
    return Compute(before, stream, phase, "layers.3", 0, (), seconds)


REDUCE = dataclasses.replace(
    PLAIN, op="all_reduce", input_bytes=10**8, output_bytes=10**8, phase="backward"
)


def test_a_collective_that_is_waited_for_later_hides_behind_computes():
    computes = [measured(0, 1e-3), measured(1, 50e-3), measured(1, 2e-3)]
    late = dataclasses.replace(REDUCE, asynchronous=True, waited_at=StreamPlace(0, 1, 2))
    at_once = built(job_of([REDUCE], computes), 1).graph
    hidden = built(job_of([late], computes), 1).graph
    # 100 MB over 400 Gb/s take 2 ms, once around a ring of two
    assert step_time_s(hidden, 1) == pytest.approx(53e-3, rel=1e-6)
    assert step_time_s(at_once, 1) > 55e-3 - 1e-4
    # waited for between the computes, it hides behind the first alone
    shorter = [measured(0, 1e-3), measured(1, 1e-4), measured(1, 50e-3)]
    early = built(job_of([late], shorter), 1).graph
    assert step_time_s(early, 1) > 53e-3 - 1e-4
    # and behind all of them where nobody waits for it
    never = dataclasses.replace(REDUCE, asynchronous=True)
    two = [measured(0, 1e-3), measured(2, 50e-3)]
    alone = built(job_of([never, never], two), 1).graph
    assert step_time_s(alone, 1) == pytest.approx(51e-3, rel=1e-6)


def test_a_stream_runs_alongside_until_another_waits_for_it():
    computes = [measured(0, 2e-3), measured(0, 5e-3, stream=4), measured(0, 1e-3)]
    alone = built(job_of([REDUCE], computes), 1).graph
    wait = StreamWait(StreamPlace(0, 0, 2), StreamPlace(4, 0, 2))
    waited = built(job_of([REDUCE], computes, [wait]), 1).graph
    difference = step_time_s(waited, 1) - step_time_s(alone, 1)
    # 5 ms of the other stream instead of 2 ms of its own come before the last one
    assert difference == pytest.approx(3e-3, rel=1e-3)


def test_the_stream_with_most_computes_is_the_first():
    computes = [measured(0, 2e-3), *[measured(0, 1e-3, stream=4)] * 3]
    program = built(job_of([dataclasses.replace(REDUCE, stream=9)], computes), 1).graph.roles[0]
    is_compute = program.program.kind == Kind.COMPUTE
    assert program.program.stream[is_compute].tolist() == [1, 0, 0, 0]


def test_compute_times_are_those_of_the_roofline():
    product = Operator("matmul", "bfloat16", 3, 3, 3 * 2 * 4096**3, 3 * 3 * 2 * 4096**2)
    moved = Operator("elementwise", "", 2, 2, 0, 10**9)
    compute = Compute(0, 0, "forward", "", 0, (product, moved))
    # memory is not slowed by power; between kernels that are ready there is the measured gap
    moved_s = KERNELS.moved(10**9, "elementwise", 2).kernel_s * KERNELS.efficiencies.sustained
    expected = 3 * KERNELS.matmul(4096, 4096, 4096).kernel_s + moved_s
    expected += 5 * KERNELS.launches.graph_gap_s
    assert OperatorTimes(KERNELS).seconds(compute) == pytest.approx(expected)
    assert OperatorTimes(KERNELS, 2.0).seconds(compute) == pytest.approx(2 * expected)
    # what was measured is not computed
    timed = dataclasses.replace(compute, duration_s=0.25)
    assert OperatorTimes(KERNELS).seconds(timed) == 0.25
    assert OperatorTimes(KERNELS, 2.0).seconds(timed) == 0.5
    # products of FP32 run at half of the rate
    times_s = [
        OperatorTimes(KERNELS).kernel_seconds(product._replace(dtype=dtype))
        for dtype in ("bfloat16", "float32")
    ]
    assert times_s[1] == pytest.approx(2 * times_s[0])
    graph = built(job_of([REDUCE], [compute]), 1).graph
    program = graph.roles[0].program
    assert program.size[program.kind == Kind.COMPUTE].tolist() == [round(expected * 1e12)]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 10**9)), min_size=1, max_size=6),
    st.floats(1.0, 8.0),
)
def test_the_host_bounds_a_phase_and_not_each_part_of_it(parts, factor):
    """Together at most the sum of each alone, at least what host and GPU need, and monotone."""

    def computes(scale):
        return [
            Compute(0, 0, "forward", str(place), 0, (Operator("elementwise", "", n, n, 0, int(b)),))
            for place, (n, b) in enumerate((n, b * scale) for n, b in parts)
        ]

    times = OperatorTimes(KERNELS)

    def total_s(chosen):
        pace = times.host_bound(chosen).get((0, "forward"), 1.0)
        return sum(times.seconds(part, pace) for part in chosen)

    together = total_s(computes(1))
    assert together <= sum(total_s([part]) for part in computes(1)) * (1 + 1e-9)
    gpu_s = sum(times.seconds(part) for part in computes(1))
    host_s = sum(n for n, _ in parts) * KERNELS.launches.host_s
    assert together == pytest.approx(max(gpu_s, host_s))
    assert total_s(computes(factor)) >= together * (1 - 1e-9)
    graphs = OperatorTimes(dataclasses.replace(KERNELS, cuda_graphs=True))
    assert set(graphs.host_bound(computes(1)).values()) <= {1.0}


def test_an_operator_without_a_roofline():
    compute = Compute(0, 0, "forward", "", 0, (Operator("fft", "", 1, 1, 5, 5),))
    with pytest.raises(InputError, match=r"^operator 'fft' of a trace: known are matmul, "):
        built(job_of([REDUCE], [compute]), 1)


def tokens(sent, received, phase="forward", routed=7, **changes):
    return dataclasses.replace(
        PLAIN, op="all_to_all", input_splits=sent, output_splits=received, routed=routed,
        phase=phase, layer="layers.2.mlp", input_bytes=4 * sum(sent),
        output_bytes=4 * sum(received), **changes,
    )  # fmt: skip


def routed_job(sent, received, ranks=(0, 1)):
    """Dispatch, experts and combine, and their gradients; rank 1 has what rank 0 says of it."""
    product = Operator("matmul", "bfloat16", 1, 1, 10**9, 10**6)
    computes = [
        Compute(at, 0, phase, "", 0, (product,), 1e-3)
        for at, phase in ((1, "forward"), (3, "backward"))
    ]
    both = [(sent, received), (received, sent)]
    recorded = []
    for rank in ranks:
        rows = both if rank == 0 else [(received[::-1], sent[::-1]), (sent[::-1], received[::-1])]
        calls = [tokens(*rows[0]), tokens(*rows[1]), tokens(*rows[0], "backward")]
        calls += [tokens(*rows[1], "backward")]
        calls = [dataclasses.replace(call, group="ep", ranks=(0, 1)) for call in calls]
        recorded.append(dataclasses.replace(recording(rank, calls), computes=tuple(computes)))
    return make_trace(2, ["python"], recorded, [ProcessGroup("ep", (0, 1))])


@pytest.mark.parametrize("received", [(10, 40), (10, 30)])
def test_tokens_go_to_experts_and_back_twice(received):
    """With 40 the directions are told apart by rows, with 30 by the products in between."""
    graph = built(routed_job((10, 30), received), 1).graph
    program = graph.roles[0].program
    assert program.flags[program.of(Collective.ALL_TO_ALL)].tolist() == [2, TRANSPOSED] * 1 + [
        0, TRANSPOSED,
    ]  # fmt: skip
    (table,) = graph.demands
    assert table.counts[0, 0].tolist() == [[0, 30], [received[1], 0]]
    assert program.size[program.of(Collective.ALL_TO_ALL)].tolist() == [4] * 4


def test_ranks_that_disagree_about_rows_are_played_by_what_they_send():
    """As in the expansion of a recorded rank: each says to receive what that one received."""
    agreeing = built(routed_job((10, 30), (10, 70)), 1)
    # each sends 30 and 70 rows over, which take 4 bytes, and then 70 and 30; twice
    assert agreeing.expected_bytes["ep"] == 4 * 2 * (30 + 70 + 70 + 30)
    trace = routed_job((10, 30), (10, 70))
    second = trace.ranks[1]
    alike = [
        dataclasses.replace(call, input_splits=call.input_splits[::-1], output_splits=first)
        for call, first in zip(second.calls, [(70, 10), (30, 10), (70, 10), (30, 10)], strict=True)
    ]
    alike = [dataclasses.replace(call, input_bytes=4 * sum(call.input_splits)) for call in alike]
    second = dataclasses.replace(second, calls=tuple(alike))
    disagreeing = dataclasses.replace(trace, ranks={**trace.ranks, 1: second})
    workload = built(disagreeing, 1)
    assert "ep" not in workload.expected_bytes
    assert workload.traffic["ep"].total_bytes > 0


def test_computes_of_experts_take_as_long_as_their_rows_are_many():
    graph = built(routed_job((10, 30), (10, 70)), 1).graph
    (table,) = graph.tables
    # rank 0 computes 80 rows in a millisecond; rank 1 gets 30 from it, and keeps 10 as rank 0 does
    assert table.values[0].tolist() == [10**9, 10**9]
    assert table.values[1, 0] == pytest.approx(10**9 * (30 + 30) / 80, rel=0.4)
    measured = built(routed_job((10, 30), (10, 70), ranks=(0, 1)), 1).graph
    assert measured.tables[0].values[:, 0].tolist() == [10**9, 10**9 * (30 + 10) // 80]


def test_computes_after_a_combine_do_not_depend_on_rows():
    trace = routed_job((10, 30), (10, 70))
    ranks = {}
    for rank, recorded in trace.ranks.items():
        first, last = recorded.computes
        after = dataclasses.replace(first, before=2)
        ranks[rank] = dataclasses.replace(recorded, computes=(first, after, last))
    graph = built(dataclasses.replace(trace, ranks=ranks), 1).graph
    assert graph.tables[0].values.shape == (2, 2)
    program = graph.roles[0].program
    assert program.size[program.kind == Kind.COMPUTE].tolist()[1] == 10**9


def test_a_source_of_demand_draws_the_rows_anew():
    builder = StepBuilder(TracedStep.of(routed_job((10, 30), (10, 30))), 1)
    size, choice = builder.choice()
    assert (size, choice.tokens, choice.experts, choice.each) == (2, 40, 2, 1)
    source = synthetic("skewed", ranks=2, experts=2, tokens_per_rank=40, top_k=1, seed=3)
    drawn = source.tokens(group=0, layers=[2], micro_batches=1, step=5)[0, 0]
    graph = builder.build(KERNELS, 1.0, source, 5).graph
    np.testing.assert_array_equal(
        graph.demands[0].counts[0, 0], drawn * (1 - np.eye(2, dtype=np.int64))
    )
    rows = drawn.sum(axis=0)
    np.testing.assert_allclose(graph.tables[0].values[:, 0], 1e12 * 1e-3 * rows / 40, rtol=1e-6)


def test_a_trace_without_routers_has_no_demand_to_draw():
    builder = StepBuilder(TracedStep.of(job_of([REDUCE])), 1)
    assert not builder.step.has_routing
    with pytest.raises(InputError, match="no all-to-alls of tokens"):
        builder.choice()


def test_every_message_has_a_receiver():
    job = GridJob(tp=1, pp=3, dp=1, ep=1)
    calls = {rank: job.calls(rank) for rank in range(3)}
    calls[2] = [call for call in calls[2] if call.op != "receive"]
    recorded = [recording(rank, issued) for rank, issued in calls.items()]
    with pytest.raises(InputError, match="the trace does not fit itself: sends"):
        built(make_trace(3, ["python"], recorded, job.groups()), 1)


def test_a_receive_that_is_waited_for_later_hides_behind_computes():
    """10 ms and a message of 2 ms at rank 0, next to or before 10 ms at rank 1."""
    here = {"group": "pp", "ranks": (0, 1), "input_bytes": 10**8, "output_bytes": 10**8}
    send = dataclasses.replace(PLAIN, op="send", peer=1, **here)
    at_once = dataclasses.replace(PLAIN, op="receive", peer=0, **here)
    later = dataclasses.replace(at_once, asynchronous=True, waited_at=StreamPlace(0, 1, 1))
    first = dataclasses.replace(recording(0, [send]), computes=(measured(0, 10e-3),))
    times_s = []
    for receive in (later, at_once):
        second = dataclasses.replace(recording(1, [receive]), computes=(measured(1, 10e-3),))
        trace = make_trace(2, ["python"], [first, second], [ProcessGroup("pp", (0, 1))])
        times_s.append(step_time_s(built(trace, 1).graph, 1))
    assert times_s == pytest.approx([12e-3, 22e-3], rel=0.02)


def test_two_ranks_that_both_send_first_receive_what_the_other_sent():
    recorded = []
    for rank in (0, 1):
        here = {"group": "pp", "ranks": (0, 1), "peer": 1 - rank}
        sizes = [8, 24] if rank else [40, 80]
        sends = [dataclasses.replace(PLAIN, op="send", input_bytes=n, **here) for n in sizes]
        receive = dataclasses.replace(PLAIN, op="receive", **here)
        recorded.append(recording(rank, [*sends, receive, receive]))
    trace = make_trace(2, ["python"], recorded, [ProcessGroup("pp", (0, 1))])
    workload = built(trace, 1)
    assert workload.traffic["pp"].total_bytes == 8 + 24 + 40 + 80
    assert step_time_s(workload.graph, 1) > 0


def test_messages_around_a_ring_go_to_the_next():
    everyone = tuple(range(4))
    recorded = []
    for rank in everyone:
        here = {"group": "cp", "ranks": everyone, "input_bytes": 8, "output_bytes": 8}
        send = dataclasses.replace(PLAIN, op="send", peer=(rank + 1) % 4, **here)
        receive = dataclasses.replace(PLAIN, op="receive", peer=(rank - 1) % 4, **here)
        recorded.append(recording(rank, [send, receive]))
    trace = make_trace(4, ["python"], recorded, [ProcessGroup("cp", everyone)])
    workload = built(trace, 4)
    assert workload.traffic["cp"].total_bytes == 4 * 8
    assert workload.graph.gpus_per_worker == 1
    assert step_time_s(workload.graph, 4) > 0


def test_workers_are_as_large_as_roles_and_groups_allow():
    job = TracedStep.of(GridJob(tp=2, pp=2, dp=4, ep=2).trace()).job
    assert [place(job, size).gpus_per_worker for size in (1, 2, 4, 8, 16)] == [1, 2, 4, 8, 8]
    placed = place(job, 2)
    names = {family.name: family for family in placed.families}
    assert (names["tp"].workers, names["tp"].on_worker) == (1, 2)
    assert (names["dp"].workers, names["dp"].on_worker) == (4, 1)
    # two data-parallel groups run along the same four workers
    assert names["dp"].groups.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(("other", "gpus"), [("all_gather", 1), ("all_reduce", 2)])
def test_ranks_that_call_other_operations_are_workers_of_their_own(other, gpus):
    groups = [ProcessGroup("dp", ranks) for ranks in ((0, 2), (1, 3))]
    recorded = []
    for rank in range(4):
        op = other if rank % 2 else "all_reduce"
        call = dataclasses.replace(PLAIN, op=op, group="dp", ranks=groups[rank % 2].ranks)
        recorded.append(recording(rank, [call]))
    trace = make_trace(4, ["python"], recorded, groups)
    assert place(TracedStep.of(trace).job, 2).gpus_per_worker == gpus


def test_groups_that_no_worker_fits_are_refused():
    pairs = [(0, 1, 2), (3, 4, 5)]
    recorded = []
    for rank in range(6):
        group = pairs[rank // 3]
        call = dataclasses.replace(
            PLAIN, op="all_to_all", group="ep", ranks=group, input_bytes=6, output_bytes=6,
            phase="forward" if rank < 3 else "backward",
        )  # fmt: skip
        recorded.append(recording(rank, [call]))
    trace = make_trace(6, ["python"], recorded, [ProcessGroup("ep", pair) for pair in pairs])
    with pytest.raises(InputError, match=r"^ranks do not fit servers of 2 GPUs: group ep"):
        built(trace, 2)
    assert built(trace, 3).graph.gpus_per_worker == 3


@pytest.mark.parametrize(
    ("group", "op", "purpose"),
    [
        ("TENSOR_MODEL_PARALLEL_GROUP", "all_gather", "tp"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "all_to_all", "ep"),
        ("EXPERT_TENSOR_PARALLEL_GROUP", "all_gather", "tp"),
        ("EXPERT_DATA_PARALLEL_GROUP", "reduce_scatter", "dp"),
        ("DATA_PARALLEL_GROUP_WITH_CP", "reduce_scatter", "dp"),
        ("CONTEXT_PARALLEL_GROUP", "send", "cp"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "send", "pp"),
        ("mesh_dp_shard", "all_gather", "dp"),
        ("mesh_tp", "all_gather", "tp"),
        ("default_pg", "all_reduce", "dp"),
        ("unnamed", "all_to_all", "ep"),
        ("unnamed", "send", "pp"),
    ],
)
def test_what_groups_are_for(group, op, purpose):
    assert purpose_of(dataclasses.replace(PLAIN, group=group, op=op)) == purpose


def test_a_gather_is_a_demand_for_its_root():
    call = dataclasses.replace(PLAIN, op="gather", root=0, input_bytes=100, output_bytes=400)
    workload = built(job_of([call], ranks=4), 1)
    assert workload.traffic["dp"].total_bytes == 300
    assert workload.graph.demands[0].counts[0, 0].tolist() == [[0] * 4, *[[1, 0, 0, 0]] * 3]


def test_calls_of_one_rank_are_nobody_elses():
    alone = dataclasses.replace(REDUCE, group="tp", ranks=(0,))
    trace = job_of([REDUCE])
    recorded = dataclasses.replace(
        trace.ranks[0], calls=(dataclasses.replace(alone, call_id=0), *trace.ranks[0].calls)
    )
    graph = built(make_trace(2, ["python"], [recorded], trace.groups), 1).graph
    program = graph.roles[0].program
    assert len(program) == 1
    assert program.family[0] != NO_INDEX


def test_all_to_alls_of_groups_of_several_sizes_share_a_server():
    """A server of four GPUs has pairs of one family and all of another: ranks are GPUs then."""
    wide, pairs = tuple(range(8)), [(rank, rank + 4) for rank in range(4)]
    groups = [ProcessGroup("ep", wide), *(ProcessGroup("sp", pair) for pair in pairs)]
    recorded = []
    for rank in range(8):
        both = [("ep", wide, 8), ("sp", pairs[rank % 4], 2)]
        recorded.append(recording(rank, [
            dataclasses.replace(
                PLAIN, op="all_to_all", group=name, ranks=ranks, input_bytes=100 * size,
                output_bytes=100 * size,
            )
            for name, ranks, size in both
        ]))  # fmt: skip
    workload = built(make_trace(8, ["python"], recorded, groups), 4)
    assert [demand.ranks_per_member for demand in workload.graph.demands] == [4, 4]
    assert workload.traffic["ep"].total_bytes == 8 * 700
    assert workload.traffic["ep"].network_bytes == 8 * 400
    assert workload.traffic["cp"].network_bytes == 8 * 100
    # each GPU sends to the one at its own place alone
    np.testing.assert_array_equal(
        workload.graph.demands[1].rank_counts[0, 0], np.roll(np.eye(8, dtype=np.int64), 4, axis=1)
    )
    for fabric in ("fat-tree", "rail"):
        assert step_time_s(workload.graph, 4, fabric) > 0


def with_heads(trace):
    """The trace with an all-to-all of attention's heads before all else."""
    heads = dataclasses.replace(
        PLAIN, op="all_to_all", group="sp", ranks=(0, 1), input_bytes=1 << 30, output_bytes=1 << 30
    )
    ranks = []
    for recorded in trace.ranks.values():
        calls = [dataclasses.replace(call, call_id=call.call_id + 1) for call in recorded.calls]
        computes = [dataclasses.replace(c, before=c.before + 1) for c in recorded.computes]
        ranks.append(
            dataclasses.replace(
                recorded,
                calls=(dataclasses.replace(heads, call_id=0), *calls),
                computes=tuple(computes),
            )
        )
    groups = [ProcessGroup("sp", (0, 1)), ProcessGroup("ep", (0, 1))]
    return make_trace(2, ["python"], ranks, groups)


def test_circuits_follow_experts_whose_rows_a_router_chose():
    graph = built(with_heads(routed_job((10, 30), (10, 40))), 1).graph
    assert graph.families[graph.regional_family].name.startswith("ep")
    program = graph.roles[0].program
    first = program.family[program.of(Collective.ALL_TO_ALL)][0]
    assert first != graph.regional_family
