"""The laws of a topology: kept by what the core does, broken by what it does not."""

import dataclasses

import pytest

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.topology import Topology
from lightloom.study import fabric_check
from lightloom.study.fabric_check import LAWS, check_fabric, topology_of

RING = Topology(
    switches={"tor": {"servers": 1, "ports": 32}},
    links=[
        {"ends": ["servers", "tor"], "count": 8},
        {"ends": ["tor", "tor"], "pairs": [[0, 1], [1, 2], [2, 3], [0, 3]], "count": 4},
    ],
)
POD = Topology(
    switches={"tor": {"servers": 2}, "spine": {"count": 2}},
    links=[{"ends": ["servers", "tor"], "count": 8}, {"ends": ["tor", "spine"], "count": 3}],
)


def cluster_of(servers):
    return Cluster.of(gpus=8 * servers, rate_gbps=400, gpu="a100", gpus_per_server=8)


@pytest.mark.parametrize("topology", [RING, POD])
def test_laws_are_kept(topology):
    laws = check_fabric(topology, cluster_of(4), seed=1)
    assert [law.name for law in laws] == list(LAWS)
    assert not [law for law in laws if law.broken]
    alike = next(law for law in laws if "change places" in law.name)
    assert alike.tried == (0 if topology is RING else 2)


def test_what_breaks_a_law_is_said(monkeypatch):
    real = fabric_check.simulate

    def bent(graph, network, **options):
        run = real(graph, network, **options)
        return dataclasses.replace(run, step_time_s=run.step_time_s / 1e6)

    monkeypatch.setattr(fabric_check, "simulate", bent)
    laws = {law.name: law.broken for law in check_fabric(POD, cluster_of(4), seed=1)}
    assert "NICs need" in laws["nothing is faster than the NICs"]
    # times that are all as wrong keep the others
    assert laws["a pair takes as long one way as the other"] is None


def test_other_fabrics_and_one_server_are_refused():
    with pytest.raises(FabricError, match="fat-tree: expected a topology file, got fat-tree"):
        topology_of(load_fabric("fat-tree"))
    with pytest.raises(FabricError, match="one server: expected two or more"):
        check_fabric(RING.replace(links=RING.links[:1]), cluster_of(1), seed=1)


def test_it_can_be_stopped():
    with pytest.raises(KeyboardInterrupt):
        check_fabric(POD, cluster_of(4), seed=1, progress=lambda *_: False)
