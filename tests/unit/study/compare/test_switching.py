"""Switches of a result: what is bought, what other switches would change."""

import json

import pytest

from lightloom.fabric import Cluster, Counting, FatTree, MixNet
from lightloom.hardware import load_power, load_prices
from lightloom.study.compare.costs import Rates
from lightloom.study.compare.switching import SwitchGear, switching_of

RATES = Rates(load_prices(), load_power(), Counting())


def gear_of(fabric, cluster):
    return switching_of(fabric.bill_of_materials(cluster), fabric, cluster, RATES)


def test_other_switches_are_those_that_are_sold_for_the_rate():
    cluster = Cluster.of(gpus=4096, rate_gbps=400, gpu="h200")
    own = gear_of(FatTree(), cluster)
    assert (own.main.ports, own.main.tiers, own.main.count) == (128, 2, 96)
    (other,) = own.others
    assert (other.ports, other.tiers, other.count) == (64, 3, 320)
    assert other.network_cost_usd == pytest.approx(46_501_888)
    assert own.widest_gpus == 8192
    assert SwitchGear.from_json(json.loads(json.dumps(own.to_json()))) == own


def test_a_patch_panel_costs_less_than_a_circuit_switch():
    cluster = Cluster.of(gpus=1024, rate_gbps=400, gpu="h200")
    found = gear_of(MixNet(), cluster)
    assert found.panel_saving_usd == 768 * (520 - 100)
    assert gear_of(FatTree(), cluster).panel_saving_usd == 0
