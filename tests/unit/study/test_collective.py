"""One collective alone: closed forms, conservation, and DeepEP's published bandwidths."""

import dataclasses
import itertools
import random

import pytest

from lightloom.errors import InputError
from lightloom.fabric import Cluster
from lightloom.fabric.interconnect import Interconnect
from lightloom.models import load_model
from lightloom.study.collective import CollectiveScenario, run_collectives
from lightloom.study.collective import run as module
from lightloom.study.compare.estimate_network import NetworkPaces, ServerSpan

CLUSTER = {"rate_gbps": 400.0, "gpu": "h100"}
NETWORK = ("eps", "ocs", "direct")
#: bottleneck bandwidth of DeepEP's normal kernels on H800 with 400 Gb/s per GPU, GB/s of dispatch
#: in FP8 and combine in BF16, by ranks; 4,096 tokens of 7,168 elements, 8 of 256 experts in 4
#: servers (github.com/deepseek-ai/DeepEP, docs/legacy.md). What stays in a server is counted
DEEP_EP = {8: (153, 158), 16: (43, 43), 32: (58, 57), 64: (51, 50)}


def run(collective="all-to-all", layer=None, **values):
    values = {"gpus": 64, "fabrics": ("fat-tree",), "cluster": CLUSTER} | values
    return run_collectives(CollectiveScenario(collective=collective, **values), model=layer)


@pytest.mark.parametrize("ranks", DEEP_EP)
def test_a_layer_is_as_fast_as_deep_ep(ranks):
    """Its test has a group of experts for each server, and a token goes to 4 of them at most."""
    servers = ranks // 8
    model = dataclasses.replace(
        load_model("deepseek-v3"), num_groups=servers, top_groups=min(servers, 4)
    )
    found = run(
        layer=model, gpus=ranks, model="deepseek-v3", cluster=CLUSTER | {"gpu": "h800"},
        fabric_options={"all": {"all_to_all": "rail"}} if servers > 1 else {},
        # FP8 with a scale for 128 elements
        demand={"source": "balanced", "dispatch_element_bytes": 1 + 4 / 128},
    )  # fmt: skip
    assert [one.collective for one in found] == ["dispatch", "combine"]
    for one, published in zip(found, DEEP_EP[ranks], strict=True):
        assert one.algorithm_bandwidth / 1e9 == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize("fabric", ["fat-tree", "topoopt", "mixnet", "rotornet", "opera"])
@pytest.mark.parametrize("group", [16, 64])
def test_a_balanced_all_to_all_sends_what_it_must(fabric, group):
    (one,) = run(size_bytes=(64_000_000,), fabrics=(fabric,), group_gpus=group)
    sent = 64_000_000 * (group - 8) / group
    assert one.network_bytes == pytest.approx(sent, rel=1e-6)
    assert one.buffer_bytes == 64_000_000
    assert one.bus_bandwidth == pytest.approx(one.algorithm_bandwidth * (group - 1) / group)


def test_a_large_all_to_all_on_a_rail_takes_its_bytes_over_the_nics():
    (one,) = run(size_bytes=(1_000_000_000,), fabrics=("rail",))
    nic_bps = Cluster.of(gpus=64, rate_gbps=400, gpu="h100").nic_rate_bps
    assert one.time_s == pytest.approx(8 * one.network_bytes / nic_bps, rel=0.02)
    assert one.nic_share == pytest.approx(nic_bps / 400e9, rel=0.02)


@pytest.mark.parametrize(
    ("collective", "passes"), [("all-reduce", 2), ("all-gather", 1), ("reduce-scatter", 1)]
)
def test_rings_of_all_gpus_by_hand(collective, passes):
    """Eight rings of 64 GPUs: 63/64 of the buffer around, a seventh as much over NICs as inside."""
    (one,) = run(collective, size_bytes=(4_032_000_000,))
    assert one.network_bytes == pytest.approx(passes * 504e6 * 63 / 64)
    assert one.carried_bytes["nvswitch"] / 64 == pytest.approx(passes * 7 * 504e6 * 63 / 64)
    machines = Cluster.of(gpus=64, rate_gbps=400, gpu="h100")
    inside_s = passes * 8 * 7 * 504e6 * 63 / 64 / machines.nvswitch().collective_rate_bps
    across_s = 8 * one.network_bytes / machines.nic_rate_bps
    assert one.time_s == pytest.approx(max(inside_s, across_s), rel=0.05)
    assert one.bus_bandwidth == pytest.approx(passes * one.algorithm_bandwidth * 63 / 64)


#: GB/s of bus bandwidth that all-reduces by NVLink SHARP reach on so many H100 of a server
#: (github.com/NVIDIA/nccl/issues/1455); the share of NVLink's rate is from 8 of them
ADDED_UP = {4: 370, 5: 420, 6: 440, 7: 460, 8: 480}


@pytest.mark.parametrize("gpus", ADDED_UP)
def test_switches_add_up_as_fast_as_reported(gpus):
    machines = CLUSTER | {"gpus_per_server": gpus, "nics_per_server": gpus}
    (one,) = run("all-reduce", gpus=gpus, size_bytes=(4_000_000_000,), cluster=machines)
    assert one.bus_bandwidth / 1e9 == pytest.approx(ADDED_UP[gpus], rel=0.03)
    (ring,) = run("all-gather", gpus=gpus, size_bytes=(4_000_000_000,), cluster=machines)
    assert one.time_s <= 2.001 * ring.time_s


def test_an_all_reduce_in_a_server_is_a_ring_or_what_switches_take():
    draw = random.Random(3)
    for _ in range(8):
        gpus, size = draw.randint(2, 8), round(10 ** draw.uniform(4, 9.5))
        links = Interconnect.named("measured", draw.choice(("a100", "h100", "b200")))
        cluster = CLUSTER | {"gpus_per_server": gpus, "nics_per_server": gpus}
        scenario = CollectiveScenario(
            collective="all-reduce", gpus=gpus, fabrics=("fat-tree",), cluster=cluster,
            size_bytes=(size,),
        )  # fmt: skip
        (one,) = run_collectives(scenario, links=links)
        bps, peers = 3600e9, gpus - 1
        start_s = links.nvlink_gather_start_up_s + peers * links.nvlink_gather_peer_s
        around = 2 * size * peers / gpus * 8
        times = [start_s + around / bps / links.nvlink_gather_efficiency]
        if links.nvlink_reduce_efficiency:
            channels = round(links.nvlink_reduce_channels)
            overhead = links.nvlink_reduce_overhead_bytes
            carried = min(
                (size + 2 * min(size, gpus * channels * chunk)) * (1 + overhead / chunk)
                for chunk in (16 << 10, 32 << 10, 64 << 10, 128 << 10)
            )
            moved = carried * (gpus + 1) / gpus
            seconds = moved * 8 / bps / links.nvlink_reduce_efficiency
            times.append(links.nvlink_reduce_start_up_s + seconds)
        assert one.time_s == pytest.approx(min(times), rel=1e-5)
        paces = NetworkPaces(Cluster.of(gpus=gpus, interconnect=links, **cluster))
        assert paces.all_reduce(size, ServerSpan(gpus, 1)) == pytest.approx(min(times), rel=1e-5)


def test_an_all_reduce_is_its_two_halves_or_a_tree():
    def times(size):
        names = ("all-reduce", "all-gather", "reduce-scatter")
        return [run(name, size_bytes=(size,))[0].time_s for name in names]

    whole, *halves = times(4_032_000_000)
    assert whole == pytest.approx(sum(halves), rel=0.05)
    whole, *halves = times(100_000)
    assert whole < 0.3 * sum(halves)


@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_all_reduces_count_all_rings_that_share_nics(gpu):
    """Fewer NICs, as fast together, carry it the same way, whoever shares them."""
    sizes = (1 << 24, 1 << 30)

    def times(nics, all_to_all):
        options = {"fat-tree": {"all_to_all": all_to_all}}
        cluster = {"rate_gbps": 1600 / nics, "gpu": gpu, "nics_per_server": nics}
        found = run(
            "all-reduce", gpus=16, size_bytes=sizes, cluster=cluster, fabric_options=options
        )
        return [one.time_s for one in found]

    expected = times(8, "flat")
    for nics in (4, 2):
        assert times(nics, "flat") == pytest.approx(expected, rel=1e-3)
    spread = times(8, "hierarchical")
    # what NICs of other GPUs carry is copied there, one hop more at each end
    assert spread == pytest.approx(expected, rel=0.1)
    assert times(2, "hierarchical") == pytest.approx(spread, rel=1e-3)


@pytest.mark.parametrize("gpu", ["a100", "h100", "b200"])
def test_all_reduces_grow_with_their_bytes_and_no_faster(gpu):
    """Wherever the way changes, on odd numbers of GPUs and servers, too."""
    draw = random.Random(gpu)
    sizes = tuple(int(2 ** (14 + 0.5 * place)) for place in range(34))
    for _ in range(4):
        each, servers = draw.choice((1, 2, 3, 6, 8)), draw.choice((2, 3, 5, 7))
        cluster = {
            "rate_gbps": draw.choice((100, 400)),
            "gpu": gpu,
            "gpus_per_server": each,
            "nics_per_server": draw.choice((1, each)),
        }
        spread = draw.choice(("flat", "hierarchical", "rail")) if each > 1 else "flat"
        found = run(
            "all-reduce", gpus=each * servers, cluster=cluster, size_bytes=sizes,
            fabric_options={"fat-tree": {"all_to_all": spread}},
        )  # fmt: skip
        for (less, more), (before, after) in zip(
            itertools.pairwise(sizes), itertools.pairwise(found), strict=True
        ):
            grown = after.time_s / before.time_s
            assert 1 <= grown <= more / less * (1 + 1e-6), (each, servers, less)


#: what a user of NCCL reports of reduce-scatters, about, GB/s by servers of 8 H100 at 400 Gb/s
#: (github.com/NVIDIA/nccl/issues/1229), and NVIDIA of two (nccl-tests, issue 290: 46 to 48 a NIC)
REPORTED = {2: 376, 4: 360, 8: 345, 16: 320, 32: 300, 64: 280, 128: 260}


@pytest.mark.parametrize("servers", REPORTED)
def test_rings_of_many_servers_are_as_fast_as_reported(servers):
    (one,) = run("reduce-scatter", gpus=8 * servers, size_bytes=(4_000_000_000,))
    assert one.bus_bandwidth / 1e9 == pytest.approx(REPORTED[servers], rel=0.2)


def test_more_bytes_take_longer_and_reach_more_bandwidth():
    found = run(size_bytes=(1_000_000, 16_000_000, 256_000_000))
    times = [one.time_s for one in found]
    assert times == sorted(times)
    bandwidths = [one.bus_bandwidth for one in found]
    assert bandwidths == sorted(bandwidths)


def test_a_skewed_demand_takes_longer_than_a_balanced_one():
    (balanced,) = run(size_bytes=(64_000_000,), demand={"source": "balanced"})
    (skewed,) = run(size_bytes=(64_000_000,), demand={"source": "skewed"})
    assert skewed.time_s > 1.2 * balanced.time_s
    assert run(size_bytes=(64_000_000,)) == [balanced]
    again = run(size_bytes=(64_000_000,), demand={"source": "skewed"}, seed=1)
    assert again != [skewed]


def test_inside_a_server_no_nic_takes_part():
    (one,) = run(size_bytes=(8_000_000,), group_gpus=8, fabrics=("mixnet",))
    assert one.network_bytes == one.nic_share == 0
    assert one.carried_bytes["nvswitch"] == 64 * 7_000_000


def test_circuits_carry_what_packets_do_not():
    (one,) = run(size_bytes=(64_000_000,), fabrics=("mixnet",))
    assert one.carried_bytes["ocs"] > one.carried_bytes["eps"] > 0
    assert one.carried_bytes["direct"] == 0


def test_copies_are_sent_once_to_a_server_by_a_dispatcher_that_does_so():
    demand = {"source": "balanced"}
    once = run(model="deepseek-v3", demand=demand | {"dispatcher": "flex"})
    every = run(model="deepseek-v3", demand=demand | {"dispatcher": "alltoall"})
    for one, all_copies in zip(once, every, strict=True):
        assert one.network_bytes < 0.6 * all_copies.network_bytes
        # an eighth stays on the own server
        for found in (one, all_copies):
            assert found.buffer_bytes / found.network_bytes == pytest.approx(8 / 7, rel=1e-3)
    # 8 copies in FP8 with a scale for 128 elements
    assert every[0].buffer_bytes == 4096 * 8 * 7168 * (1 + 4 / 128)


def test_tokens_have_the_width_in_which_they_go_to_the_experts(monkeypatch):
    found = {}
    for width in (0, 1792):
        model = dataclasses.replace(load_model("deepseek-v3"), expert_hidden_size=width)
        monkeypatch.setattr(module, "load_layers", lambda _, model=model: model)
        found[width] = run(model="deepseek-v3", gpus=16, demand={"source": "balanced"})[1]
    assert found[1792].buffer_bytes == found[0].buffer_bytes / 4


def test_a_flat_all_to_all_of_many_uneven_flows_is_left_out(monkeypatch):
    monkeypatch.setattr(module, "MAX_UNEVEN_FLOWS", 100)
    (left_out,) = run(size_bytes=(64_000_000,), demand={"source": "skewed"})
    assert left_out.left_out == module.FLAT != left_out.setting
    (even,) = run(size_bytes=(64_000_000,))
    assert even.left_out is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "expected either sizes"),
        ({"size_bytes": (8,), "model": "deepseek-v3"}, "expected either sizes"),
        ({"size_bytes": (8,)}, "at least a byte for each of 64 GPUs"),
        ({"size_bytes": (64,), "gpus": 1}, "two GPUs or more"),
        ({"size_bytes": (64,), "group_gpus": 1}, "two GPUs or more"),
        ({"size_bytes": (64,), "group_gpus": 5}, "do not divide into groups of 5"),
        ({"size_bytes": (64,), "tokens": 5}, "tokens are of a layer"),
        ({"size_bytes": (64,), "gpus": 12}, "do not fill servers"),
        ({"collective": "all-reduce", "model": "deepseek-v3"}, "no all-reduce"),
        (
            {"collective": "all-reduce", "size_bytes": (64,), "demand": {"source": 2.0}},
            "the demand is that of an all-to-all",
        ),
        ({"model": "llama-3-8b"}, "has no experts"),
        ({"model": "deepseek-v3", "gpus": 24}, "expected a --group-gpus that divides"),
        ({"size_bytes": (64_000,), "fabrics": ()}, "expected at least one name"),
    ],
)
def test_what_cannot_be_is_refused(values, expected):
    with pytest.raises(InputError, match=expected):
        run(**values)


def test_nothing_runs_if_one_fabric_cannot_carry_it(monkeypatch):
    monkeypatch.setattr(module, "simulate", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(InputError, match="one switch has ports for 96"):
        run(gpus=1024, size_bytes=(1_024_000,), fabrics=("fat-tree", "mixnet"))


def test_it_stops_where_it_is_told_to():
    scenario = CollectiveScenario(
        collective="all-to-all", gpus=16, size_bytes=(16_000,), cluster=CLUSTER
    )
    with pytest.raises(KeyboardInterrupt):
        run_collectives(scenario, lambda *_: False)
