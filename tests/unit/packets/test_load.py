"""Flows at random: as many as load links, of published sizes."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets.load import FLOW_SIZES, random_load, size_distribution
from lightloom.packets.scenario import NetworkTable, ScenarioFile
from lightloom.packets.settings import host_rates_gbps
from lightloom.packets.traffic import flows_of


@pytest.mark.parametrize("name", FLOW_SIZES)
def test_a_distribution_rises_from_none_to_all_and_has_its_mean(name):
    found = size_distribution(name)
    sizes, percent = np.array(found.points).T
    assert (np.diff(np.array(found.points), axis=0) > 0).all()
    assert (percent[0], percent[-1]) == (0, 100)
    shares = (np.arange(200_000) + 0.5) / 200_000
    assert found.sizes(shares).mean() == pytest.approx(found.mean_bytes, rel=2e-3)
    assert found.sizes(np.array([0.0, 1.0])).tolist() == [1, sizes[-1]]


def test_the_mean_of_web_search_by_hand():
    parts = [(15, 5e3), (5, 15e3), (10, 25e3), (10, 40e3), (13, 65e3), (7, 140e3), (10, 600e3),
             (10, 1.5e6), (10, 3.5e6), (7, 7.5e6), (3, 20e6)]  # fmt: skip
    expected = sum(share * size for share, size in parts) / 100
    assert size_distribution("websearch").mean_bytes == pytest.approx(expected)


@pytest.mark.parametrize("load", [0.1, 0.8])
def test_links_are_loaded_by_the_share(load):
    hosts, duration_s = 64, 0.2
    flows = random_load(
        np.full(hosts, 100.0), load=load, sizes="hadoop", duration_s=duration_s, seed=3
    )
    capacity = hosts * duration_s * 100e9 / 8
    assert flows.size_bytes.sum() / capacity == pytest.approx(load, rel=0.05)
    assert (flows.source != flows.destination).all()
    assert (np.diff(flows.start_s, prepend=0, append=duration_s) >= 0).all()
    # each host sends and receives about as much
    for ends in (flows.source, flows.destination):
        counts = np.bincount(ends, minlength=hosts)
        assert np.abs(counts / counts.mean() - 1).max() < 0.2
    again = random_load(
        np.full(hosts, 100.0), load=load, sizes="hadoop", duration_s=duration_s, seed=3
    )
    assert (again.size_bytes == flows.size_bytes).all()


def test_hosts_of_other_rates_are_loaded_by_the_same_share():
    rates_gbps, duration_s = np.array([100.0, 400, 0, 100, 200, 200]), 1.0
    flows = random_load(rates_gbps, load=0.4, sizes="hadoop", duration_s=duration_s, seed=3)
    assert (flows.source != flows.destination).all()
    sent, received = (
        np.bincount(ends, weights=flows.size_bytes, minlength=6) * 8e-9 / duration_s
        for ends in (flows.source, flows.destination)
    )
    assert sent == pytest.approx(0.4 * rates_gbps, rel=0.1)
    # that of the largest one is less, as it does not send to itself
    share = rates_gbps / (rates_gbps.sum() - rates_gbps[:, None])
    np.fill_diagonal(share, 0)
    assert received == pytest.approx(0.4 * rates_gbps @ share, rel=0.1)


def test_the_rates_are_those_of_planes_and_of_links(tmp_path):
    def rates(**network):
        return host_rates_gbps(NetworkTable(**{"hosts": 3, "rate_gbps": 100, **network})).tolist()

    assert rates(topology="star") == [100, 100, 100]
    assert rates(topology="star", planes=4) == [400, 400, 400]
    links = tmp_path / "links.csv"
    links.write_text("a,b,rate_gbps\n0,x,400\nx,1,\n0,y,25\nx,y,800\n2,y,50\n")
    assert rates(links=links) == [400, 100, 50]


def test_a_load_on_planes_and_links_takes_the_share(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text("a,b,rate_gbps\n0,x,400\n1,x,400\n2,x,200\n3,x,200\n")
    traffic = {"pattern": "load", "load": 0.5, "flow_sizes": "hadoop", "load_time_s": 0.1}
    for network, total_gbps in (
        ({"planes": 2, "topology": "star"}, 800),
        ({"links": str(links)}, 1200),
    ):
        table = {"hosts": 4, "rate_gbps": 100, **network}
        scenario = ScenarioFile(network=table, transport="ndp", traffic=traffic)
        assert flows_of(scenario).size_bytes.sum() * 80e-9 == pytest.approx(
            0.5 * total_gbps, rel=0.1
        )


def test_impossible_loads_are_refused():
    def refusal(**change):
        with pytest.raises(InputError) as caught:
            random_load(
                np.full(4, 100.0),
                **{"load": 0.5, "sizes": "storage", "duration_s": 1e-3, "seed": 1, **change},
            )
        return str(caught.value)

    assert refusal(sizes="x") == "flow sizes x: expected one of websearch, hadoop, storage"
    assert "expected at most 4,194,304: shorten the time" in refusal(duration_s=50.0)
    assert "none was drawn" in refusal(duration_s=1e-12)
