"""Steps with each strategy of all-to-alls, against closed forms of the planner and each other."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload_fakes import FakeCompute, build_toy, toy_model

from lightloom.fabric import Cluster
from lightloom.fabric.network import Eps, Network
from lightloom.hardware import load_gpu
from lightloom.parallel import Plan
from lightloom.planner.all_to_all import AllToAll
from lightloom.planner.cluster import cluster_of
from lightloom.planner.layers import layer_volumes
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.simulate import simulate
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.strategies import LayerStrategy

#: of times: bytes of a chunk are whole, as those of a token are
CLOSE = 2e-3
COPY_S_PER_BYTE = 8 / 10_720e9
CHUNKED = ["O2", "O3", "O4"]


@dataclasses.dataclass(frozen=True)
class Job:
    """One MoE layer over servers of ``tp`` GPUs or of several EP ranks."""

    tp: int
    ep: int
    seq: int
    hidden: int
    ranks_per_server: int = 1
    rate_gbps: float = 200.0
    has_shared_experts: bool = False

    @property
    def gpus_per_server(self):
        return self.tp * self.ranks_per_server

    @property
    def model(self):
        return toy_model(
            moe_layers=(True,),
            hidden_size=self.hidden,
            num_experts=self.ep,
            experts_per_token=1,
            shared_expert_ffn_size=32 * self.has_shared_experts,
        )

    @property
    def cluster(self):
        size = self.gpus_per_server
        return Cluster.of(
            gpus=self.tp * self.ep,
            rate_gbps=self.rate_gbps,
            gpu="h100",
            gpus_per_server=size,
            nics_per_server=size,
            link_delay_s=0.0,
        )

    @property
    def planned(self):
        cluster, ranks = self.cluster, self.ranks_per_server
        where = cluster_of(
            cluster, load_gpu("h100"), tp=self.tp, ep=self.ep, ranks_per_server=ranks
        )
        return AllToAll(where, self.tp, self.ep)

    def plan(self, **changes):
        values = {"tp": self.tp, "ep": self.ep, "micro_batches": 1, "seq_len": self.seq}
        values["overlap_gradients"] = False
        return Plan(gpus=self.tp * self.ep, **{**values, **changes})

    def workload(self, chosen=None, compute=None, **changes):
        compute = compute or FakeCompute(copy_s_per_byte=COPY_S_PER_BYTE)
        choose = None if chosen is None else lambda _: {0: chosen}
        size = self.gpus_per_server
        return build_toy(
            self.plan(**changes),
            self.model,
            compute,
            gpus_per_server=size,
            options=WorkloadOptions(rank_level=self.ranks_per_server > 1),
            choose=choose,
        )

    def step_s(self, *arguments, **changes):
        return simulated_s(self, self.workload(*arguments, **changes).graph)

    def with_strategy_s(self, strategy, chunks, chunk_s=0.0, **changes):
        chosen = LayerStrategy(strategy, chunks, chunk_s)
        return self.step_s(chosen, strategy=strategy, **changes)


def simulated_s(job, graph):
    cluster = job.cluster
    eps = Eps(
        nics=cluster.nics_per_server,
        nic_rate_bps=cluster.nic_rate_bps,
        link_delay_ps=0,
        servers_per_tor=cluster.servers,
        servers_per_pod=2 * cluster.servers,
    )
    inside, start_up = cluster.nvswitch(), cluster.start_up()
    size = cluster.gpus_per_server
    network = Network(cluster.servers, size, inside, "flat", (eps,), start_up=start_up)
    return simulate(graph, network).step_time_s


def jobs():
    return st.builds(
        Job,
        tp=st.sampled_from([2, 4, 8]),
        ep=st.sampled_from([2, 4, 8]),
        seq=st.sampled_from([1024, 4096, 32768]),
        hidden=st.sampled_from([1024, 4096]),
    )


def mixed_jobs():
    """Some EP ranks share a server, and send more to others than start-ups take."""
    return st.builds(
        Job,
        tp=st.sampled_from([2, 4]),
        ep=st.sampled_from([4, 8]),
        seq=st.just(65536),
        hidden=st.just(8192),
        ranks_per_server=st.just(2),
    )


chunk_counts = st.sampled_from([2, 3, 4, 8])


@given(jobs() | mixed_jobs(), st.sampled_from(CHUNKED), chunk_counts)
@settings(max_examples=25, deadline=None)
def test_a_chunked_all_to_all_takes_what_the_planner_says(job, name, chunks):
    strategy, planned = AllToAllStrategy(name), job.planned
    usual = job.workload()
    (volume,) = layer_volumes(job.model, job.plan(), WorkloadOptions(), usual.folded)
    expected = planned.time_s(strategy, volume, chunks) - planned.time_s(
        AllToAllStrategy.O1, volume
    )
    found = job.with_strategy_s(name, chunks, planned.chunk_s(strategy)) - job.step_s()
    # forward and backward, there and back
    whole = 4 * planned.time_s(strategy, volume, chunks)
    assert found == pytest.approx(4 * expected, abs=CLOSE * whole)


@given(jobs())
@settings(max_examples=15, deadline=None)
def test_the_baseline_sends_what_the_planner_says(job):
    planned = job.planned
    workload = job.workload(sequence_parallel=False)
    (volume,) = layer_volumes(job.model, job.plan(), WorkloadOptions(), workload.folded)
    parts = dataclasses.replace(volume, between_bytes=volume.between_bytes / job.tp)
    baseline = AllToAllStrategy.BASELINE
    more = planned.time_s(baseline, volume) - planned.time_s(baseline, parts)
    found = job.step_s(strategy="baseline", sequence_parallel=False) - job.step_s(
        sequence_parallel=False
    )
    # whose TP ranks have the results of the experts, which the others gather
    gathered = job.seq * job.hidden * 2 * (job.tp - 1) / job.tp
    less = 2 * planned.cluster.gather.time_s(gathered)
    assert found == pytest.approx(4 * more - less, abs=CLOSE * (4 * more + less))


@given(jobs(), st.sampled_from(CHUNKED))
@settings(max_examples=10, deadline=None)
def test_one_chunk_is_o1_and_a_copy(job, name):
    usual = job.workload()
    copy_s = usual.folded.slowest.max() * job.hidden * 2 * COPY_S_PER_BYTE
    copies = 0 if name == "O4" else 4
    more = job.with_strategy_s(name, 1) - job.step_s()
    assert more == pytest.approx(copies * copy_s, abs=1e-11)


@given(jobs() | mixed_jobs(), chunk_counts)
@settings(max_examples=15, deadline=None)
def test_every_strategy_but_the_baseline_sends_a_part_of_its_bytes(job, chunks):
    redundant = job.workload(strategy="baseline", sequence_parallel=False).traffic
    without = job.workload(sequence_parallel=False).traffic
    usual = job.workload().traffic
    assert redundant["ep"].network_bytes == job.tp * usual["ep"].network_bytes
    assert redundant["ep"].local_bytes == job.tp * usual["ep"].local_bytes
    # nothing is gathered before the experts, but what they give is added up on all TP ranks
    # once, while others scatter it, and gather what comes back, forward and backward
    gathered = 2 * job.seq * job.hidden * 2 * (job.tp - 1) * job.ep
    assert without["tp"].total_bytes - redundant["tp"].total_bytes == gathered
    for name in CHUNKED:
        assert job.workload(LayerStrategy(name, chunks), strategy=name).traffic == usual


@given(jobs(), chunk_counts)
@settings(max_examples=10, deadline=None)
def test_what_overlaps_more_is_never_slower(job, chunks):
    second, third, fourth = (job.with_strategy_s(name, chunks) for name in CHUNKED)
    assert fourth <= third <= second


@given(jobs(), st.sampled_from(["baseline", "O1", *CHUNKED]), chunk_counts)
@settings(max_examples=10, deadline=None)
def test_faster_nics_are_never_slower(job, name, chunks):
    def step_s(rate_gbps):
        at = dataclasses.replace(job, rate_gbps=rate_gbps)
        if name in CHUNKED:
            return at.with_strategy_s(name, chunks)
        return at.step_s(strategy=name, sequence_parallel=name != "baseline")

    times = [step_s(rate) for rate in (100, 200, 400, 800)]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("name", CHUNKED)
@pytest.mark.parametrize("ratio", [0.1, 0.6, 1.0, 3.0])
def test_shared_experts_hide_all_but_one_gather(name, ratio):
    job, chunks, strategy = (
        Job(4, 2, 8192, 4096, has_shared_experts=True),
        4,
        AllToAllStrategy(name),
    )
    usual, planned = job.workload(), job.planned
    (volume,) = layer_volumes(job.model, job.plan(), WorkloadOptions(), usual.folded)
    held_s = sum(planned.stages_s(strategy, volume.part(1 / chunks))[1:])
    hidden_s = planned.time_s(strategy, volume, chunks) - held_s
    # the collective of TP ranks that begins or ends what is hidden
    collective_s = planned.cluster.gather.time_s(8192 * 4096 * 2 * 3 / 4)

    def step_s(shared_s):
        compute = FakeCompute(copy_s_per_byte=COPY_S_PER_BYTE, shared_s=shared_s)
        chosen = LayerStrategy(name, chunks, planned.chunk_s(strategy))
        return job.step_s(chosen, compute, strategy=name, overlap_shared_experts=True)

    def exposed_s(shared_s):
        # two of three products before the activation; backward twice as long, the last one first
        parts = [(2 / 3, 1), (1 / 3, 1), (2 / 3, 1), (4 / 3, 2)]
        return sum(max(0.0, p * shared_s + n * collective_s - hidden_s) for p, n in parts)

    shared_s = ratio * (hidden_s + held_s)
    expected = exposed_s(shared_s) - exposed_s(0.0)
    assert step_s(shared_s) - step_s(0.0) == pytest.approx(expected, abs=CLOSE * hidden_s)
