"""Flows at random: as many as load links, of published sizes."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets.load import FLOW_SIZES, random_load, size_distribution


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
    flows = random_load(hosts, 100, load=load, sizes="hadoop", duration_s=duration_s, seed=3)
    capacity = hosts * duration_s * 100e9 / 8
    assert flows.size_bytes.sum() / capacity == pytest.approx(load, rel=0.05)
    assert (flows.source != flows.destination).all()
    assert (np.diff(flows.start_s, prepend=0, append=duration_s) >= 0).all()
    # each host sends and receives about as much
    for ends in (flows.source, flows.destination):
        counts = np.bincount(ends, minlength=hosts)
        assert np.abs(counts / counts.mean() - 1).max() < 0.2
    again = random_load(hosts, 100, load=load, sizes="hadoop", duration_s=duration_s, seed=3)
    assert (again.size_bytes == flows.size_bytes).all()


def test_impossible_loads_are_refused():
    def refusal(**change):
        with pytest.raises(InputError) as caught:
            random_load(
                4, 100, **{"load": 0.5, "sizes": "storage", "duration_s": 1e-3, "seed": 1, **change}
            )
        return str(caught.value)

    assert refusal(sizes="x") == "flow sizes x: expected one of websearch, hadoop, storage"
    assert "expected at most 4,194,304: shorten the time" in refusal(duration_s=50.0)
    assert "none was drawn" in refusal(duration_s=1e-12)
