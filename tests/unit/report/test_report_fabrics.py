"""Drawings and bills of fabrics: counts, loads and dollars agree with the results."""

import dataclasses
import re

import numpy as np
import pytest

from lightloom.fabric import FABRICS, Cluster, Counting, FatTree, Oversub
from lightloom.fabric.network import Eps
from lightloom.fabric.topology import Topology
from lightloom.hardware import load_ownership, yearly_kwh
from lightloom.report.fabric_file import write_fabric_drawing
from lightloom.report.page import render
from lightloom.report.page_bill import bill_lines, fabric_views, ownership_rows
from lightloom.report.plots_fabric import MAX_BOXES, count_uplinks, fabric_drawing, groups_of
from lightloom.report.plots_svg import fabric_styles
from lightloom.simulate.result import LinkUse
from lightloom.study.compare.job import prepare
from lightloom.study.compare.run import compare
from lightloom.study.compare.scenario import Scenario, check

from .hand_made_results import make_network


@pytest.fixture(scope="module")
def real():
    values = {
        "model": "mixtral-8x7b", "gpus": 128, "cluster": {"rate_gbps": 400.0}, "seeds": 1,
        "fabrics": ("fat-tree", "oversub", "rail", "topoopt", "mixnet"), "compute_spread": 0.0,
        "plan": {"tp": 8, "pp": 2, "ep": 8, "dp": 1, "micro_batches": 2, "micro_batch_size": 1},
    }  # fmt: skip
    return compare(check(Scenario, values, "test"), with_timeline=True)


def cluster_of(servers):
    values = {"model": "mixtral-8x7b", "gpus": 128, "cluster": {"rate_gbps": 400.0}}
    return dataclasses.replace(prepare(check(Scenario, values, "test")).cluster, gpus=8 * servers)


def boxes(drawn, class_):
    return re.findall(rf'class="box {class_}" data-tip="([^"]*)"', drawn)


def test_bills_sum_to_what_a_fabric_costs_and_draws(real):
    for result in real.results:
        lines = bill_lines(real.details["job"], result.fabric)
        assert sum(line.total_usd for line in lines) == pytest.approx(result.network_cost_usd)
        assert sum(line.total_w for line in lines) == pytest.approx(result.network_power_w)


def test_every_fabric_is_drawn_with_the_load_of_its_links(real):
    styles = fabric_styles([(r.fabric, r.kind) for r in real.results])
    views = {view.style.name: view for view in fabric_views(real, styles)}
    assert list(views) == [r.fabric for r in real.results]
    for name, view in views.items():
        for use in real.details["runs"][name].run.links:
            if use.name in {"server_up", "circuit", "direct", "tor_up"}:
                assert f"{100 * use.mean:.1f} % used" in view.drawing
    regions = boxes(views["mixnet"].drawing, "circuits")
    assert len(regions) == len(set(np.asarray(real.details["runs"]["mixnet"].network.parts[1]
                                              .region_of_server).tolist()))  # fmt: skip
    assert len(boxes(views["rail"].drawing, "switch")) == 1 + 8
    assert "fixed circuits" in views["topoopt"].drawing


def test_every_server_is_in_one_group():
    for kind in ("fat-tree", "mixnet", "topoopt"):
        network = make_network(kind)
        servers = [server for group in groups_of(network) for server in group.servers]
        assert sorted(servers) == list(range(network.servers))
    # by the hand-made network: four servers per ToR, which are a region
    assert [group.servers for group in groups_of(make_network("mixnet"))] == [
        tuple(range(4 * n, 4 * n + 4)) for n in range(4)
    ]


def test_large_fabrics_are_drawn_in_part():
    network = dataclasses.replace(make_network("fat-tree"), servers=1000)
    drawn = fabric_drawing(network, (LinkUse("server_up", 1000, 1, 0.25, 0.5),), 64)
    assert len(boxes(drawn, "servers")) == MAX_BOXES - 1
    assert "servers 996-999" in drawn
    assert "1000 servers" in drawn
    assert "25.0 % used, the busiest 50.0 %" in drawn


@pytest.mark.parametrize("servers", [16, 30, 31, 32])
@pytest.mark.parametrize("fabric", [FatTree(servers_per_tor=4), Oversub()])
def test_uplinks_are_those_of_the_bill(fabric, servers):
    cluster = cluster_of(servers)
    bill = fabric.bill_of_materials(cluster, Counting())
    eps = fabric.network(cluster).part(Eps)
    # a port per NIC, and two per uplink
    assert bill.count("eps_port") == 8 * servers + 2 * count_uplinks(eps, servers)


def test_dollars_per_year_by_hand(make_comparison):
    ownership, rows = ownership_rows(make_comparison())
    assert ownership == load_ownership()
    row = rows[0]
    # 0.1 MW for 8,766 hours
    assert row.network_mwh == pytest.approx(876.6)
    assert yearly_kwh(1000) == pytest.approx(8766)
    pue = ownership.pue.value
    kwh, years = ownership.electricity_usd_per_kwh.value, ownership.life_years.value
    assert row.network_electricity_usd == pytest.approx(pue * 876_600 * kwh)
    assert row.cluster_yearly_usd == pytest.approx(3e7 / years + pue * 8_766_000 * kwh)
    days = row.result.days_per_trillion_tokens
    assert row.usd_per_trillion_tokens == pytest.approx(row.cluster_yearly_usd * days / 365.25)


def test_the_page_shows_quantities_prices_and_sources(real):
    page = render(real)
    nics = bill_lines(real.details["job"], "fat-tree")[0]
    assert f">{nics.count:,}</td>" in page
    assert f">{nics.price_usd:,.2f}</td>" in page
    assert load_ownership().life_years.source in page


PODS = Topology(
    switches={
        "leaf": {"servers": 2},
        "agg": {"count": 2, "servers": 4},
        "core": {"count": 4, "ports": 64},
    },
    links=[
        {"ends": ["servers", "leaf"], "count": 8},
        {"ends": ["leaf", "agg"], "count": 8},
        {"ends": ["agg", "core"], "join": "position", "count": 8},
        {"ends": ["core", "core"], "join": "all"},
    ],
    planes=2,
    nics_per_server=8,
)


def test_a_topology_is_drawn_by_tiers_with_the_load_of_its_links():
    network = PODS.network(cluster_of(8))
    uses = (
        LinkUse("server_up", 64, 2_000_000_000, 0.45, 0.5),
        LinkUse("leaf to agg", 8, 3_000_000_000, 0.95, 0.99),
        LinkUse("agg to leaf", 8, 3_000_000_000, 0.15, 0.2),
    )
    drawn = fabric_drawing(network, uses, None)
    names = [*(f"core {n}" for n in range(4)), *(f"agg {n}" for n in range(4)),
             *(f"leaf {n}" for n in range(4))]  # fmt: skip
    assert boxes(drawn, "switch") == names
    assert boxes(drawn, "servers") == [f"servers {n}-{n + 1} (2)" for n in (0, 2, 4, 6)]
    assert "4 core, 2 times" in drawn
    # the busier direction; a plane of four leaves with two links each, and servers at four leaves
    busy = 'class="bundle load-4"'
    assert drawn.count(busy) == 4 * 2 + 1
    assert "leaf to agg: 8 links, 95.0 % used, the busiest 99.0 %, 3 GB carried" in drawn
    assert drawn.count('class="bundle load-2"') == 4 + 1
    assert "80 to 100 %" in drawn
    # nothing has run over the links to the cores: 4 x 2, and six among cores
    assert drawn.count('class="bundle unknown"') == 8 + 6


def test_servers_on_the_same_switches_are_one_box():
    network = PODS.network(cluster_of(8))
    assert [group.servers for group in groups_of(network)] == [(0, 1), (2, 3), (4, 5), (6, 7)]


@pytest.mark.parametrize("kind", FABRICS)
def test_every_fabric_is_drawn_without_a_job(kind, tmp_path):
    cluster = Cluster.of(gpus=256, rate_gbps=400, gpu="a100")
    path = tmp_path / "fabric.svg"
    write_fabric_drawing(kind, cluster, path)
    text = path.read_text()
    assert text.startswith("<svg")
    assert f"{kind}: 256 GPUs, 400 Gb/s" in text
    # nothing has run
    assert "% used" not in text
    assert "bottleneck" not in text


def test_planes_of_one_switch_have_no_spine(tmp_path):
    path = tmp_path / "fabric.svg"
    spines = {}
    for kind, gpus in (("rail-only", 256), ("rail", 256), ("rail-only", 4096)):
        write_fabric_drawing(kind, Cluster.of(gpus=gpus, rate_gbps=400, gpu="a100"), path)
        spines[kind, gpus] = [name for name in boxes(path.read_text(), "switch") if "spine" in name]
    assert spines["rail-only", 256] == []
    assert spines["rail", 256] == ["2 spines of 128 ports; 256 uplinks"]
    assert spines["rail-only", 4096] == ["32 spines of 128 ports, apart on 8 planes; 4,096 uplinks"]
