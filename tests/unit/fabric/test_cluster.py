"""Servers, NICs, rates."""

import pytest

from lightloom.errors import FabricError, HardwareError
from lightloom.fabric import Cluster, FatTree
from lightloom.fabric.interconnect import Interconnect, cluster_defaults, interconnect_values
from lightloom.fabric.network import NvSwitch, StartUp
from lightloom.hardware import load_gpu


def test_the_last_server_may_be_used_in_part():
    cluster = Cluster.of(gpus=12, rate_gbps=400, gpu="a100")
    assert (cluster.servers, cluster.nics, cluster.installed_gpus) == (2, 16, 16)


def test_what_is_not_given_comes_from_the_data():
    cluster = Cluster.of(gpus=8, rate_gbps=400, gpu="h800")
    assert cluster.nvlink_gbps == load_gpu("h800").nvlink_rate_gbps
    measured = {name: found.value for name, found in interconnect_values("h800").items()}
    assert vars(cluster.interconnect) == measured
    assert cluster.link_delay_s == 1e-6
    assert Cluster.of(gpus=8, rate_gbps=400, gpu="h800", nvlink_gbps=7.0).nvlink_gbps == 7


def test_assumptions_say_so():
    defaults = cluster_defaults()
    assert defaults["ideal_nvlink_latency_s"].assumed
    assert not defaults["link_delay_s"].assumed
    assert not any(found.assumed for found in interconnect_values("h100").values())


def test_whole_bits_and_picoseconds_for_the_core():
    links = Interconnect(
        nvlink_all_to_all_efficiency=0.75,
        nvlink_all_to_all_start_up_s=3e-6,
        nvlink_gather_efficiency=0.5,
        nvlink_gather_start_up_s=2e-6,
        nvlink_gather_peer_s=1.5e-6,
        nvlink_reduce_efficiency=0.25,
        nvlink_reduce_start_up_s=4e-6,
        nvlink_reduce_channels=16.0,
        nvlink_reduce_overhead_bytes=5_700.0,
        nic_efficiency=0.9,
        message_start_up_s=14e-6,
        all_to_all_start_up_s=22e-6,
        all_to_all_peer_s=1e-6,
        all_to_all_mixed_s=80e-6,
    )
    cluster = Cluster.of(gpus=8, rate_gbps=400, gpu="h100", interconnect=links)
    assert cluster.nic_rate_bps == 360_000_000_000
    assert cluster.link_delay_ps == 1_000_000
    rate, us = 3_600_000_000_000, 1_000_000
    gathers = (rate // 2, 2 * us, 1_500_000)
    sums = (rate // 4, 4 * us, 16, 5_700)
    assert cluster.nvswitch() == NvSwitch(rate * 3 // 4, 3 * us, *gathers, *sums)
    assert cluster.start_up() == StartUp(14 * us, 22 * us, us, 80 * us)


def test_an_ideal_interconnect_has_the_latency_of_local_operations_alone():
    latency_s = cluster_defaults()["ideal_nvlink_latency_s"].value
    assert latency_s > 0
    assert vars(Interconnect.named("ideal", "b200")) == vars(Interconnect()) | {
        "nvlink_all_to_all_start_up_s": latency_s,
        "nvlink_gather_start_up_s": latency_s,
    }


def test_the_ideal_interconnect_is_the_vendors():
    ideal = Interconnect.named("ideal", "h100")
    cluster = Cluster.of(gpus=8, rate_gbps=400, gpu="h100", interconnect=ideal)
    assert cluster.nic_rate_bps == 400_000_000_000
    assert cluster.nvswitch().gpu_rate_bps == 3_600_000_000_000
    assert cluster.start_up() == StartUp()
    assert (
        FatTree(interconnect="ideal").adapt(Cluster.of(gpus=8, rate_gbps=400, gpu="h100"))
        == cluster
    )


def test_every_gpu_has_what_was_measured_for_it_or_the_default():
    of = lambda gpu: Interconnect.named("measured", gpu)  # noqa: E731
    reduced = ("efficiency", "start_up_s", "channels", "overhead_bytes")
    unlike = {f"nvlink_reduce_{name}": 0.0 for name in reduced}
    assert vars(of("h100")) | unlike == vars(of("a100")) != vars(of("b200")) | unlike
    assert min(of(gpu).nvlink_reduce_efficiency for gpu in ("h100", "h200", "b200", "gb300")) > 0.4
    assert of("mi300x").nvlink_reduce_efficiency == 0
    assert of("b200").nic_efficiency == of("h100").nic_efficiency


def test_a_fabric_may_have_other_nics():
    cluster = Cluster.of(gpus=8, rate_gbps=400, gpu="h100")
    assert FatTree(nic_efficiency=0.5).adapt(cluster).nic_rate_bps == 200_000_000_000
    both = FatTree(nic_efficiency=0.5, interconnect="ideal").adapt(cluster)
    assert (both.nic_rate_bps, both.start_up()) == (200_000_000_000, StartUp())


@pytest.mark.parametrize(("values", "text"), [
    ({"nic_efficiency": 1.01}, "nic_efficiency = 1.01: expected a share above 0, up to 1"),
    ({"nic_efficiency": 0}, "nic_efficiency = 0: expected a share above 0, up to 1"),
    (
        {"nvlink_reduce_channels": -1.0},
        "nvlink_reduce_channels = -1: expected a number from 0 to 1048576",
    ),
    ({"message_start_up_s": -1e-6}, "message_start_up_s = -1e-06: expected a time from 0 to 1 s"),
])  # fmt: skip
def test_impossible_efficiencies_are_refused(values, text):
    with pytest.raises(FabricError) as error:
        Interconnect(**values)
    assert str(error.value) == text


@pytest.mark.parametrize(("options", "text"), [
    ({"gpus": 0}, "cluster: gpus = 0: expected a whole number from 1 to 1e+06"),
    ({"nics_per_server": 1.5}, "cluster: nics_per_server = 1.5: expected a whole number"),
    ({"rate_gbps": -1}, "cluster: rate_gbps = -1: expected a rate above 0, up to 1e+06 Gb/s"),
    ({"rate_gbps": float("nan")}, "cluster: rate_gbps = nan: expected a rate above 0"),
    ({"link_delay_s": -1e-6}, "cluster: link_delay_s = -1e-06: expected a time of 0 s or more"),
])  # fmt: skip
def test_impossible_clusters_are_refused(options, text):
    with pytest.raises(FabricError) as error:
        Cluster.of(**{"gpus": 8, "rate_gbps": 400, "gpu": "h100", **options})
    assert str(error.value).startswith(text)


def test_an_unknown_gpu_is_refused():
    with pytest.raises(HardwareError, match="unknown GPU 'h1000'; did you mean 'h100'"):
        Cluster.of(gpus=8, rate_gbps=400, gpu="h1000")
