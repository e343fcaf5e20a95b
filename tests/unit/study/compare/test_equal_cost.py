"""Networks of equal cost: a rate by hand, one cost for all, and that a result repeats itself."""

import json

import pytest

from lightloom.errors import FabricError
from lightloom.hardware import load_prices
from lightloom.report.remarks import remarks
from lightloom.study.compare import compare
from lightloom.study.compare.scenario import Scenario


def scenario(*fabrics, rate=100, **changes):
    values = {
        "model": "nas-ft-s",
        "gpus": 512,
        "fabrics": fabrics,
        "cluster": {"rate_gbps": rate, "gpu": "a100"},
        "counting": {"tiers": 3},
        "designs": "equal-cost",
        "policies": False,
    }
    return Scenario(**{**values, **changes})


def test_the_rail_that_mixnet_pays_for():
    """By the MixNet paper's counting: n + 5 e + 6 t + 3 f a GPU, affine through 100 and 200 Gb/s.

    MixNet costs (2 fat-tree + 6 (n + t + o + f)) / 8 at 100 Gb/s.
    """
    prices = load_prices()
    fiber = prices.fiber_usd

    def tree(rate):
        row = prices.at(rate).get
        return row("nic_usd") + 5 * row("switch_port_usd") + 6 * row("transceiver_usd") + 3 * fiber

    row = prices.at(100).get
    ocs = prices.circuit_switch("piezo", 100).get("ocs_port_usd")
    mixnet = (2 * tree(100) + 6 * (row("nic_usd") + row("transceiver_usd") + ocs + fiber)) / 8
    rate = 100 + 100 * (mixnet - tree(100)) / (tree(200) - tree(100))
    comparison = compare(scenario("mixnet", "rail"))
    (equal,) = comparison.inputs["equal_cost"]
    assert equal["fabric"] == "rail"
    assert equal["rate_gbps"] == pytest.approx(rate, rel=1e-4)


def test_all_networks_cost_the_same_and_a_result_repeats_itself():
    comparison = compare(scenario("oversub", "fat-tree", "mixnet"))
    costs = [result.network_cost_usd for result in comparison.results]
    assert costs == pytest.approx([costs[0]] * 3, rel=2e-3)
    again = compare(Scenario(**json.loads(json.dumps(comparison.inputs["scenario"]))))
    assert [r.step_time_s for r in again.results] == [r.step_time_s for r in comparison.results]
    assert [r.network_cost_usd for r in again.results] == costs
    said = " ".join(remarks(comparison))
    assert "All networks cost what that of oversub costs" in said


def test_a_network_that_cannot_cost_as_much(monkeypatch):
    monkeypatch.setattr("lightloom.study.compare.equal_cost.LOWEST_GBPS", 90.0)
    with pytest.raises(FabricError, match=r"no rate from 90 to 6400 Gb/s .* leave fat-tree out"):
        compare(scenario("topoopt", "fat-tree"))


@pytest.mark.parametrize("rate", [100, 400])
def test_affine_prices_pass_through_the_rows(rate):
    exact, affine = load_prices().at(rate), load_prices().affine().at(rate)
    assert exact == affine
    near = load_prices().affine().at(rate * 1.0001)
    for name, value in near.provenance.items():
        assert value.value == pytest.approx(exact.get(name), rel=1e-3)
        assert value.assumed
