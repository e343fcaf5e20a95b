"""The value of every option that applied, also of those that nobody gave."""

import dataclasses

import numpy as np
import pytest

from lightloom.fabric import FABRICS
from lightloom.fabric.mixnet import MixNet
from lightloom.fabric.network import Ocs

#: what does not apply by default: no relays, one switch for a region, slots of one
#: length, a time to decide whatever the number of servers
NOT_BY_DEFAULT = {"relay_delay_s", "relay_chunk_bytes", "planes", "slot_s", "decision_s"}

#: servers of the job, where the fabric has others
SERVERS = {key: {"gpus_per_server": 8} for key in ("nvl72", "mixnet-optical-io")}


def bare(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(map(bare, value)) if isinstance(value, tuple) else value


def plain(part):
    return {name: bare(value) for name, value in dataclasses.asdict(part).items()}


@pytest.mark.parametrize("kind", sorted(FABRICS))
@pytest.mark.parametrize("own", [{}, {"rate_gbps": 200.0, "label": "theirs"}])
def test_the_same_network_from_what_applied(cluster, job, kind, own):
    own = own | SERVERS.get(kind, {})
    fabric = FABRICS[kind](**own)
    context = job(128, 8)
    network = fabric.network(cluster, context)
    values = fabric.effective(cluster, network)
    assert values.keys() == fabric.parameters().keys()
    assert {name for name, value in values.items() if value is None} <= NOT_BY_DEFAULT
    assert {name: values[name] for name in own} == own
    assert values.pop("kind") == kind
    again = FABRICS[kind](**{k: v for k, v in values.items() if v is not None})
    repeated = again.network(cluster, context)
    assert list(map(plain, repeated.parts)) == list(map(plain, network.parts))
    assert plain(repeated.nvswitch) == plain(network.nvswitch)
    assert again.bill_of_materials(cluster).lines == fabric.bill_of_materials(cluster).lines


def test_the_delay_of_circuits_is_that_of_their_switch(cluster, job):
    fabric = MixNet(relay=True, link_up_s=0.0)
    network = fabric.network(cluster, job(128, 8))
    values = fabric.effective(cluster, network)
    ocs = network.part(Ocs)
    assert values["fixed_s"] == ocs.timing.fixed_s == 0.025
    assert values["link_up_s"] == 0.0
    assert values["region_servers"] == np.bincount(ocs.region_of_server).max()
    assert (values["relay_chunk_bytes"], values["relay_delay_s"]) == (
        ocs.relaying[0],
        ocs.relaying[1] / 1e12,
    )
