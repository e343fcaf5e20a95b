"""Traces of others, played over a network: step times in closed form.

Computation takes milliseconds and what is small crosses the network in microseconds, so that times
add up to a per cent. What is large takes as long as it takes alone.
"""

import pytest
from tests.chakra_files import node, write
from tests.kineto_files import Profile

from lightloom.fabric import Cluster, FabricContext, load_fabric, mean_demand
from lightloom.simulate import simulate
from lightloom.trace.importers.open import read_any
from lightloom.trace.step.build import StepBuilder, TracedStep
from lightloom.workload.compute import ComputeModel

KERNELS = ComputeModel.load("h100").kernels
MS, MICROS = 1e-3, 1000
COMPUTE, COLLECTIVE = 4, 7
#: an all-reduce that takes longer than the computation next to it
LARGE = 4_000_000_000


def step_time_s(path):
    """The step time on servers with one GPU each."""
    step = TracedStep.of(read_any(path).trace)
    graph = StepBuilder(step, 1).build(KERNELS, 1.0, None, 0).graph
    cluster = Cluster.of(
        gpus=len(graph.worker_server), rate_gbps=400, gpu="h100", gpus_per_server=1,
        nics_per_server=1, link_delay_s=1e-6,
    )  # fmt: skip
    context = FabricContext.of(graph, lambda: mean_demand([graph]))
    return simulate(graph, load_fabric("fat-tree", {}).network(cluster, context)).step_time_s


def reduced(number, size, **dependencies):
    return node(number, COLLECTIVE, comm_type=0, comm_size=size, **dependencies)


@pytest.fixture
def alone_s(tmp_path):
    """Time of the large all-reduce of two ranks."""
    nodes = [reduced(0, LARGE)]
    return step_time_s(write(tmp_path / "alone", nodes, nodes))


@pytest.mark.parametrize("size", [8, LARGE])
def test_chakra_overlaps_what_does_not_depend(tmp_path, alone_s, size):
    """10 ms, then 20 ms next to an all-reduce, then 30 ms that need both."""
    nodes = [
        node(0, COMPUTE, micros=10 * MICROS),
        reduced(1, size, after=[0]),
        node(2, COMPUTE, after=[0], micros=20 * MICROS),
        node(3, COMPUTE, after=[1, 2], micros=30 * MICROS),
    ]
    network_s = alone_s if size == LARGE else 0.0
    expected = 40 * MS + max(20 * MS, network_s)
    assert alone_s > 50 * MS
    assert step_time_s(write(tmp_path / "job", nodes, nodes)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("size", [8, LARGE])
def test_a_profile_overlaps_what_did(tmp_path, alone_s, size):
    """The same as a profile, in which the last kernel waited for the all-reduce."""
    profile = Profile()
    profile.step(0, -MICROS, 200 * MICROS)
    profile.kernel("gemm", 0, 10 * MICROS, launched=-9)
    profile.nccl("allreduce", 10 * MICROS, 25 * MICROS, size // 2, launched=-8)
    profile.kernel("gemm", 10 * MICROS, 20 * MICROS, launched=-7)
    profile.kernel("add", 35 * MICROS, 30 * MICROS, launched=-6)
    network_s = alone_s if size == LARGE else 0.0
    expected = 40 * MS + max(20 * MS, network_s)
    assert step_time_s(profile.write(tmp_path / "p.json")) == pytest.approx(expected, rel=0.01)


def test_messages_that_two_ranks_exchange_at_once(tmp_path):
    """Each sends to the other in one kernel, and goes on once it has received."""
    for rank in (0, 1):
        profile = Profile(rank=rank)
        profile.kernel("gemm", 0, 10 * MICROS, launched=-90)
        for name, key in (("send", "Dst Rank"), ("recv", "Src Rank")):
            profile.add("cpu_op", "record_param_comms", -80, 1, **{
                "Collective name": name, "dtype": "Byte", "In msg nelems": LARGE,
                "Out msg nelems": LARGE, "Process Group Ranks": "[0, 1]", key: 1 - rank,
            })  # fmt: skip
        profile.kernel("ncclDevKernel_SendRecv(x)", 10 * MICROS, 90 * MICROS, 20, launched=-70)
        profile.kernel("gemm", 100 * MICROS, 5 * MICROS, launched=-60)
        profile.write(tmp_path / f"rank{rank}.json")
    # 4 GB at 400 Gb/s, less what transports lose, in both directions at once, between computes
    assert step_time_s(tmp_path) == pytest.approx(15 * MS + LARGE * 8 / 400e9, rel=0.1)


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 1), (1, 4), (2, 4), (4, 6), (4, 2)])
def test_a_layer_table_has_the_bubbles_of_a_pipeline(tmp_path, stages, micro_batches):
    """Forward takes 3 ms and backward 7 ms: (m + p - 1) of both, as of any 1F1B schedule."""
    gpus = 2 * stages
    rows = ["mlp -1 3000000 ALLREDUCE 16 4000000 ALLREDUCE 16 3000000 NONE 0 100"] * micro_batches
    header = (
        f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: {stages} "
        f"ga: {micro_batches} all_gpus: {gpus} pp_comm: 64"
    )
    file = tmp_path / "table.txt"
    file.write_text("\n".join([header, str(len(rows)), *rows]))
    expected = (micro_batches + stages - 1) * 10 * MS
    assert step_time_s(file) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("stages", "chunks", "micro_batches"), [(2, 2, 4), (2, 4, 2), (3, 2, 6), (4, 4, 8), (4, 2, 4)]
)
def test_interleaved_stages_have_a_part_of_the_bubble(tmp_path, stages, chunks, micro_batches):
    """A stage stands still for a ``vpp``-th part of ``p - 1`` passes of both kinds."""
    rows = ["mlp -1 3000000 NONE 0 4000000 NONE 0 3000000 NONE 0 100"] * chunks * micro_batches
    header = (
        f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: {stages} "
        f"vpp: {chunks} ga: {micro_batches} all_gpus: {stages} pp_comm: 64"
    )
    file = tmp_path / "table.txt"
    file.write_text("\n".join([header, str(len(rows)), *rows]))
    expected = (micro_batches * chunks + stages - 1) * 10 * MS
    assert step_time_s(file) == pytest.approx(expected, rel=0.01)
