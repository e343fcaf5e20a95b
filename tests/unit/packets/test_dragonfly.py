"""The dragonfly from Python: its sizes, its routings, and what is refused."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, make_flows, simulate_flows
from lightloom.packets.settings import topology_of


def network(**keys):
    return NetworkTable(**{"topology": "dragonfly", "hosts": 72, "rate_gbps": 100.0, **keys})


def shape(**keys):
    built = topology_of(network(**keys))["shape"]
    return tuple(built[key] for key in ("hosts_per_switch", "switches_per_group", "global_links"))


def run(flows, transport="ndp", own=(), seed=1, **keys):
    scenario = PacketScenario(
        network=network(**keys), transport={"name": transport, **dict(own)}, seed=seed
    )
    return simulate_flows(flows, scenario)


def test_sizes_are_balanced_and_the_smallest_that_suffice():
    # 2 h^2 (2 h^2 + 1) hosts: 6, 72, 342, 1056 (the network of Kim et al.), 2550
    assert [shape(hosts=hosts) for hosts in (6, 7, 72, 73, 343, 1056, 1057)] == [
        (1, 2, 1), (2, 4, 2), (2, 4, 2), (3, 6, 3), (4, 8, 4), (4, 8, 4), (5, 10, 5),
    ]  # fmt: skip
    assert shape(hosts=1056, hosts_per_switch=8) == (8, 16, 8)
    assert shape(hosts=72, switches_per_group=9) == (4, 9, 4)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"hosts": 73, "hosts_per_switch": 2, "switches_per_group": 4, "global_links": 2},
         "73 hosts do not fit a dragonfly with 2 on a switch, 4 switches in a group and 2 global "
         "links of each, which has 72; make one of them larger"),
        ({"topology": "star", "global_links": 2},
         "global_links is for the topology dragonfly, not star; leave it out"),
    ],
)  # fmt: skip
def test_wrong_sizes(keys, expected):
    with pytest.raises(InputError) as caught:
        topology_of(network(**keys))
    assert str(caught.value) == expected


def test_detours_are_for_a_dragonfly():
    with pytest.raises(InputError, match="valiant, ugal-l and ugal-g are for a dragonfly; choose"):
        run(make_flows([0], [71], 1000), topology="fat-tree", routing="ugal-l")


def test_pauses_are_refused_and_may_be_turned_off():
    flow = make_flows([0], [71], 1_000_000)
    with pytest.raises(InputError, match=r"turn PFC off \(--pfc off\)"):
        run(flow, "roce")
    scenario = PacketScenario(
        network=network(), transport="roce", seed=1, queue={"pfc": {"on": False}}
    )
    assert simulate_flows(flow, scenario).slowdown[0] == pytest.approx(1.0)


def test_the_next_group_is_reached_by_one_link_or_by_all():
    """Eight hosts per group share a link to the next: 1/8 of their rate, and with Valiant 7/16."""
    hosts = np.arange(72)
    flows = make_flows(hosts, (hosts + 8) % 72, 2_000_000)
    own = {"window": 60}
    alone_s = 489 * 4160 * 8 / 100e9
    share = {
        routing: alone_s / run(flows, own=own, routing=routing).fct_s.mean()
        for routing in ("ecmp", "valiant", "ugal-l", "ugal-g")
    }
    assert share["ecmp"] < 0.15
    assert 0.3 < share["valiant"] < 0.4375
    assert share["ecmp"] < share["ugal-l"]
    assert share["valiant"] < share["ugal-g"] < 0.5625


@pytest.mark.parametrize("transport", ["dctcp", "swift", "ndp", "eqds", "uet-nscc", "uet-rccc"])
@pytest.mark.parametrize("routing", ["ecmp", "valiant", "ugal-l", "adaptive"])
def test_every_transport_finishes(transport, routing):
    hosts = np.arange(72)
    flows = make_flows(hosts, (hosts * 5 + 11) % 72, 100_000)
    flows = make_flows(flows.source[flows.source != flows.destination],
                       flows.destination[flows.source != flows.destination], 100_000)  # fmt: skip
    assert np.isfinite(run(flows, transport, routing=routing).fct_s).all()


def test_flows_survive_the_link_between_two_groups():
    flows = make_flows(np.arange(8), np.arange(8) + 8, 500_000)
    failures = {"failures": ("group-0/switch-0:group-1/switch-0@20us",), "detection_s": 50e-6}
    for routing in ("ecmp", "valiant", "ugal-g"):
        found = run(flows, routing=routing, **failures)
        assert np.isfinite(found.fct_s).all()
