"""Servers, NICs, rates."""

import pytest

from lightloom.errors import FabricError, HardwareError
from lightloom.fabric import Cluster
from lightloom.fabric.defaults import cluster_defaults
from lightloom.hardware import load_gpu


def test_the_last_server_may_be_used_in_part():
    cluster = Cluster.of(gpus=12, nic_gbps=400, gpu="a100")
    assert (cluster.servers, cluster.nics, cluster.installed_gpus) == (2, 16, 16)


def test_what_is_not_given_comes_from_the_data():
    cluster = Cluster.of(gpus=8, nic_gbps=400, gpu="h800")
    assert cluster.nvlink_gbps == load_gpu("h800").nvlink_rate_gbps
    assert cluster.nvlink_latency_s == cluster_defaults()["nvlink_latency_s"].value
    assert cluster.link_delay_s == 1e-6
    assert Cluster.of(gpus=8, nic_gbps=400, gpu="h800", nvlink_gbps=7.0).nvlink_gbps == 7


def test_assumptions_say_so():
    defaults = cluster_defaults()
    assert defaults["nvlink_latency_s"].assumed
    assert not defaults["link_delay_s"].assumed


def test_whole_bits_and_picoseconds_for_the_core():
    cluster = Cluster.of(gpus=8, nic_gbps=400, gpu="h100", nvlink_latency_s=2e-6)
    assert cluster.nic_rate_bps == 400_000_000_000
    assert cluster.link_delay_ps == 1_000_000
    assert cluster.nvswitch().gpu_rate_bps == 3_600_000_000_000
    assert cluster.nvswitch().latency_ps == 2_000_000


@pytest.mark.parametrize(("options", "text"), [
    ({"gpus": 0}, "cluster: gpus = 0: expected a whole number from 1 to 1e+06"),
    ({"nics_per_server": 1.5}, "cluster: nics_per_server = 1.5: expected a whole number"),
    ({"nic_gbps": -1}, "cluster: nic_gbps = -1: expected a rate above 0, up to 1e+06 Gb/s"),
    ({"nic_gbps": float("nan")}, "cluster: nic_gbps = nan: expected a rate above 0"),
    ({"link_delay_s": -1e-6}, "cluster: link_delay_s = -1e-06: expected a time of 0 s or more"),
])  # fmt: skip
def test_impossible_clusters_are_refused(options, text):
    with pytest.raises(FabricError) as error:
        Cluster.of(**{"gpus": 8, "nic_gbps": 400, "gpu": "h100", **options})
    assert str(error.value).startswith(text)


def test_an_unknown_gpu_is_refused():
    with pytest.raises(HardwareError, match="unknown GPU 'h1000'; did you mean 'h100'"):
        Cluster.of(gpus=8, nic_gbps=400, gpu="h1000")
