"""All-to-alls between racks of many GPUs: bytes, times, and regrouped flows."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import EXPERTS, LINK_S, NIC, packet

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, MixNetOpticalIo, Nvl72, job_context
from lightloom.fabric.interconnect import Interconnect
from lightloom.fabric.network import KEPT_APART
from lightloom.simulate import simulate
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories

SIZE = 8192


def all_to_all(tokens, gpus, *, transposed=False):
    """One all-to-all of ranks in racks of as many GPUs; ``tokens`` are from rank to rank."""
    racks = len(tokens) // gpus
    members = tokens.reshape(racks, gpus, racks, gpus).sum((1, 3))
    built = TaskGraphBuilder(np.arange(racks), gpus, step_categories())
    built.family("ep", np.arange(racks).reshape(1, racks))
    built.demand(
        "tokens",
        EXPERTS,
        members[None, None],
        ranks_per_member=gpus,
        rank_counts=tokens[None, None].astype(np.uint32),
        deduplicated=False,
    )
    program = built.role("stage 0", np.arange(racks, dtype=np.uint32))
    program.all_to_all(EXPERTS, Block(0, 0, SIZE, transposed, False), "ep")
    return built.build()


def run(tokens, gpus, regroup_above=8, **options):
    network = packet(len(tokens) // gpus, "flat")
    eps = dataclasses.replace(network.parts[0], nics=gpus)
    network = dataclasses.replace(
        network, gpus_per_server=gpus, parts=(eps,), regroup_above=regroup_above
    )
    return simulate(all_to_all(tokens, gpus, **options), network)


def busiest(tokens, gpus):
    """Bytes that the busiest NIC sends or receives."""
    rank = np.arange(len(tokens)) // gpus
    leaving = np.where(rank[:, None] == rank[None, :], 0, tokens)
    return SIZE * max(leaving.sum(0).max(), leaving.sum(1).max())


def gate(seed, ranks, spread):
    """Tokens of ranks by a gate that prefers some experts."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0, spread, ranks)
    return np.stack([rng.multinomial(32_768, share / share.sum()) for _ in range(ranks)])


def test_128_experts_over_two_racks_of_64():
    # 127 other ranks, 64 of them in the other rack: MixNet (SIGCOMM 2025), section 8
    tokens = np.full((128, 128), 100)
    np.fill_diagonal(tokens, 0)
    found = run(tokens, 64)
    carried = found.purpose_bytes["ep"]
    total = carried["eps"] + carried["nvswitch"]
    assert carried["eps"] / total == pytest.approx(64 / 127)
    assert carried["nvswitch"] / total == pytest.approx(63 / 127)
    assert found.step_time_s - 2 * LINK_S == pytest.approx(64 * 100 * SIZE / NIC)


@pytest.mark.parametrize(("racks", "gpus"), [(2, 16), (3, 12), (4, 16)])
def test_regrouped_flows_of_equal_ranks_are_exact(racks, gpus):
    tokens = np.full((racks * gpus, racks * gpus), 100)
    apart, regrouped = (run(tokens, gpus, above) for above in (KEPT_APART, 8))
    assert regrouped.step_time_s == pytest.approx(apart.step_time_s, rel=1e-9)
    assert regrouped.purpose_bytes == apart.purpose_bytes


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5, 1.5])
@pytest.mark.parametrize(("racks", "gpus"), [(2, 16), (4, 12)])
def test_regrouped_flows_end_with_the_busiest_nic(racks, gpus, spread, transposed):
    """As do those from GPU to GPU, but for what waits meanwhile: 0.2 % at most here."""
    tokens = gate(7, racks * gpus, spread)
    apart, regrouped = (
        run(tokens, gpus, above, transposed=transposed) for above in (KEPT_APART, 8)
    )
    bound = busiest(tokens, gpus) / NIC
    for found in (apart, regrouped):
        assert bound <= found.step_time_s <= bound * 1.002 + 2 * LINK_S
    assert regrouped.step_time_s == pytest.approx(apart.step_time_s, rel=2e-3)
    assert regrouped.purpose_bytes == apart.purpose_bytes


def test_servers_of_eight_keep_their_flows_apart():
    tokens = gate(3, 32, 0.5)
    assert run(tokens, 8).run_hash == run(tokens, 8, KEPT_APART).run_hash


def on(fabric, tokens):
    """Time of an all-to-all of 128 ranks in two racks of 64, without latencies."""
    ideal = Interconnect.named("ideal", "b200")
    cluster = Cluster.of(gpus=128, rate_gbps=800, gpu="b200", interconnect=ideal)
    graph = all_to_all(tokens, 64)
    return simulate(graph, fabric.network(cluster, job_context([graph])))


@pytest.mark.parametrize(("total_gbps", "circuits", "faster"), [
    # NVL72 sends 64/127 over 0.8 Tb/s; with optical I/O 63/127 stay, over half of what is left
    (8000, 18, 64 / 0.8 / (63 / 3.6)),
    (16_000, 38, 64 / 0.8 / (63 / 7.6)),
])  # fmt: skip
def test_optical_io_at_every_gpu(total_gbps, circuits, faster):
    """4.57 times as fast at 8 Tb/s with the fat-tree beside: MixNet (SIGCOMM 2025), section 8."""
    tokens = np.full((128, 128), 10_000)
    np.fill_diagonal(tokens, 0)
    packet, optical = Nvl72(all_to_all="flat"), MixNetOpticalIo(total_gbps=total_gbps)
    found = on(optical, tokens)
    assert found.purpose_bytes["ep"]["ocs"] > found.purpose_bytes["ep"]["eps"] > 0
    # an NVSwitch's 5 us and links' 2 us are no bytes
    slow, fast = on(packet, tokens).step_time_s - LINK_S * 2, found.step_time_s - 5e-6
    assert slow / fast == pytest.approx(faster, rel=1e-3)
    notes = optical.network(*job_of(tokens)).notes
    assert f"{circuits} circuits of 200 Gb/s at each GPU" in notes


def job_of(tokens):
    """Two racks, and the job as a fabric sees it."""
    cluster = Cluster.of(gpus=128, rate_gbps=800, gpu="b200")
    return cluster, job_context([all_to_all(tokens, 64)])


def test_nothing_is_gathered_where_circuits_end_at_gpus():
    tokens = np.full((128, 128), 100)
    np.fill_diagonal(tokens, 0)
    carried = on(MixNetOpticalIo(), tokens).purpose_bytes["ep"]
    assert carried["nvswitch"] == 2 * 64 * 63 * 100 * SIZE
    assert carried["ocs"] + carried["eps"] == 2 * 64 * 64 * 100 * SIZE


def test_parts_of_optical_io():
    cluster, _ = job_of(np.ones((128, 128), int))
    tree, optical = Nvl72().bill_of_materials(cluster), MixNetOpticalIo().bill_of_materials(cluster)
    # 72 GPUs of each rack, spare ones included, with 18 circuits each
    more = 2 * 72 * 18
    assert optical.count("ocs_port") == more
    assert optical.count("transceiver") == tree.count("transceiver") + more
    assert optical.count("fiber") == tree.count("fiber") + more
    # one switch of 576 ports for the GPUs in one place of up to 32 racks
    assert (optical.switches[-1].count, optical.switches[-1].planes) == (72, 72)


@pytest.mark.parametrize(("options", "text"), [
    ({"total_gbps": 800}, "total_gbps = 800: expected more than the 800 Gb/s of a NIC"),
    ({"circuit_gbps": 4000}, "3600 Gb/s of a GPU are 0 circuits of 4000 Gb/s: expected 1 to 256"),
    ({"circuit_gbps": 10}, "3600 Gb/s of a GPU are 360 circuits of 10 Gb/s: expected 1 to 256"),
])  # fmt: skip
def test_what_gpus_have_no_ports_for_is_refused(options, text):
    with pytest.raises(FabricError, match=f"mixnet-optical-io: {text}"):
        MixNetOpticalIo(**options).network(*job_of(np.ones((128, 128), int)))
