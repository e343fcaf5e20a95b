"""The page and the tables of a packet simulation, from a hand-made run."""

import dataclasses
import re

import numpy as np
import pytest

from lightloom.packets import (
    LinkCounters,
    NetworkTable,
    PacketRun,
    PacketScenario,
    PacketTrace,
    QueueSamples,
    make_flows,
)
from lightloom.packets.classes import classify
from lightloom.packets.columns import as_json, trace_columns
from lightloom.packets.spread import spread
from lightloom.report.packets_detail import busiest_links, distributions, link_map, worst_flows
from lightloom.report.packets_table import grids, network_text, settings_lines, verdict, work_text
from lightloom.report.page_packets import render_packets

SCENARIO = PacketScenario(
    network=NetworkTable(hosts=2, rate_gbps=8, topology="star"), transport="ndp", seed=7
)
NAN = float("nan")


def column(kind, *values):
    return np.array(values, dtype=kind)


@pytest.fixture
def run():
    zero = column(np.uint64, 0, 0)
    links = LinkCounters(
        layer=column(np.uint8, 0, 1),
        source=column(np.uint32, 0, 2),
        destination=column(np.uint32, 2, 1),
        rate_gbps=column(np.float64, 8, 8),
        sent_bytes=column(np.uint64, 250_000, 500_000),
        peak_queue_bytes=column(np.uint64, 0, 12_345),
        drops=zero,
        control_drops=zero,
        trims=column(np.uint64, 0, 3),
        marks=zero,
        pauses=zero,
        paused_s=column(np.float64, 0, 0),
    )
    samples = QueueSamples(
        begin_s=column(np.float64, 0, 0, 5e-4, 5e-4),
        end_s=column(np.float64, 5e-4, 5e-4, 1e-3, 1e-3),
        layer=column(np.uint8, 0, 1, 0, 1),
        carried_bytes=column(np.uint64, 1, 2, 3, 4),
        mean_utilization=column(np.float64, 0.25, 0.5, 0.75, 1.0),
        max_utilization=column(np.float64, 0.25, 0.5, 0.75, 1.0),
        busiest=column(np.uint32, 0, 1, 0, 1),
        mean_queue_bytes=column(np.float64, 0, 0, 10, 20),
        max_queue_bytes=column(np.uint64, 0, 0, 1000, 2000),
        longest=column(np.uint32, 0, 1, 0, 1),
    )
    trace = PacketTrace(
        time_s=column(np.float64, 1.5e-6),
        event=["sent"],
        link=column(np.uint32, 1),
        flow=column(np.uint32, 2),
        kind=["data"],
        number=column(np.uint32, 9),
    )
    return PacketRun(
        flows=make_flows(0, 1, [1000, 2_000_000, 500], name="<b>mine</b>"),
        scenario=SCENARIO,
        classes=classify(make_flows(0, 1, [1000, 2_000_000, 500]), SCENARIO),
        fct_s=column(np.float64, 2e-6, 1e-3, NAN),
        slowdown=column(np.float64, 1.0, 3.5, NAN),
        began_s=column(np.float64, 0.0, 0.0, 0.0),
        operations=None,
        end_s=1e-3,
        nodes=("0", "1", "switch"),
        layers=("host up", "host down"),
        links=links,
        samples=samples,
        series=None,
        trace=trace,
        data_hops=1200,
        control_hops=300,
        events=1600,
        peak_packets=40,
        undivided=None,
        unfinished_received_bytes=np.array([200], np.uint64),
        remarks=("Queues have no end.",),
        run_hash="0f" * 16,
        wall_s=0.5,
    )


def test_sentences(run):
    assert verdict(run) == [
        "2 of 3 flows finished by 1 ms; unfinished: 2; their receivers have 200 B of 500 B."
    ]
    whole = dataclasses.replace(run, fct_s=np.full(3, 1e-6))
    assert verdict(whole) == [
        "All 3 flows finished by 1 ms; one in a hundred took at least 3.5 times as long as on an "
        "idle network."
    ]
    many = dataclasses.replace(run, fct_s=np.full(9, NAN), flows=make_flows(0, 1, np.ones(9)))
    assert verdict(many)[0].startswith(
        "0 of 9 flows finished by 1 ms; unfinished: 0, 1, 2, 3, 4 and more; their receivers have "
    )
    assert work_text(run) == (
        "1,500 packet-hops (1,200 data, 300 control) and 1,600 events in 500 ms: "
        "3,000 packet-hops/s."
    )


def test_tables(run):
    completion, layers = grids(run)
    assert [words for words, _ in completion.headers] == ["", "min", "mean", "p50", "p99", "max"]
    assert completion.rows == [
        ["time [ms]", "0.002", "0.501", "0.002", "1.000", "1.000"],
        ["slowdown", "1.00", "2.25", "1.00", "3.50", "3.50"],
    ]
    assert [words for words, _ in layers.headers] == [
        "layer", "links", "mean\nuse", "max\nuse", "peak\nqueue", "drops", "trims",
    ]  # fmt: skip
    assert layers.rows == [
        ["host up", "1", "25.0", "25.0", "0.0", "0", "0"],
        ["host down", "1", "50.0", "50.0", "12.3", "0", "3"],
    ]
    nothing = dataclasses.replace(run, fct_s=np.full(3, NAN), slowdown=np.full(3, NAN))
    assert [grid.title for grid in grids(nothing)] == ["Links, by layer"]


def test_columns_are_there_for_what_is_on(run):
    roce = classify(run.flows, SCENARIO.model_copy(update={"transport": {"name": "roce"}}))
    links = dataclasses.replace(run.links, paused_s=column(np.float64, 5e-4, 0))
    layers = grids(dataclasses.replace(run, classes=roce, links=links))[1]
    assert [words for words, _ in layers.headers][5:] == ["pauses", "paused"]
    assert [row[-1] for row in layers.rows] == ["50.0", "0.0"]


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ({"topology": "star"}, "one switch with 64 hosts at 100 Gb/s, 1 us per link"),
        ({}, "a fat tree of 8-port switches with 64 hosts at 100 Gb/s, 1 us per link"),
        ({"topology": "leaf-spine", "oversubscription": 2, "spines": 4, "link_delay_s": 5e-7},
         "4 leaves and 4 spines, uplinks of 200 Gb/s, with 64 hosts at 100 Gb/s, 500 ns per link"),
        ({"topology": "star", "planes": 8, "plane_choice": "spray"},
         "8 planes (spray), each one switch with 64 hosts at 100 Gb/s, 1 us per link"),
    ],
)  # fmt: skip
def test_networks_in_words(network, text):
    assert network_text(NetworkTable(hosts=64, rate_gbps=100, **network)) == text


def test_parameters_in_lines(run):
    first, *lines = settings_lines(run)
    assert first == "Parameters of ndp's reference, for the round trip here"
    assert lines[0].startswith("  packet     mtu_bytes 4,096 B, header_bytes 64 B")
    assert max(map(len, lines)) <= 80
    transport = {"name": "ndp", "window": 9}
    given = classify(run.flows, SCENARIO.model_copy(update={"transport": transport}))
    lines = settings_lines(dataclasses.replace(run, classes=given))
    assert lines[0] == "Parameters of ndp's reference, for the round trip here (*: as given)"
    assert "window 9*" in "\n".join(lines)


def test_quantiles_are_values_that_occurred():
    hundred = np.arange(1.0, 101.0)
    assert spread(hundred) == {"min": 1, "mean": 50.5, "p50": 50, "p99": 99, "max": 100}
    assert spread(column(np.float64, NAN, 4)) == {
        "min": 4, "mean": 4, "p50": 4, "p99": 4, "max": 4,
    }  # fmt: skip
    assert spread(np.full(3, NAN)) is None


def test_json_and_trace(run):
    found = as_json(run, SCENARIO)
    assert found["unfinished"] == [2]
    assert found["layers"][1]["trims"] == 3
    assert found["samples"]["max_queue_bytes"] == [0, 0, 1000, 2000]
    assert found["fct_s"]["max"] == 1e-3
    assert found["nodes"] == ["0", "1", "switch"]
    assert [len(values) for values in found["links"].values()] == [len(run.links.layer)] * 12
    assert {name: values.tolist() for name, values in trace_columns(run).items()} == {
        "time_us": [1.5],
        "event": ["sent"],
        "flow": [2],
        "kind": ["data"],
        "number": [9],
        "link": [1],
        "layer": ["host down"],
        "from_node": ["switch"],
        "to_node": ["1"],
    }


def test_the_page(run):
    page = render_packets(run, SCENARIO)
    assert "&lt;b&gt;mine&lt;/b&gt;" in page
    assert "<b>mine" not in page
    assert (
        page.count("<svg") == 7
    )  # the sign of the house, two distributions, a map, a cloud, two over time
    assert "2 of 3 flows finished by 1 ms" in page
    assert re.search(r"transport.window</th><td>auto</td><td>preset", page)
    assert 'data-tip="host down"' in page
    assert "longest queue [kB]" in page
    assert "1 kB: 1.000" in page  # a dot of the cloud: size, slowdown
    assert f"run hash {'0f' * 16}" in page


def test_a_page_of_little(run):
    nothing = dataclasses.replace(
        run, fct_s=np.full(3, NAN), slowdown=np.full(3, NAN), samples=None
    )
    page = render_packets(nothing, SCENARIO)
    assert page.count("<svg") == 2
    same = dataclasses.replace(
        run, flows=make_flows(0, 1, np.full(3, 7)), fct_s=np.full(3, 2e-6), slowdown=np.ones(3)
    )
    assert "flows [%]" in render_packets(same, SCENARIO)


def test_the_worst_flows_come_first_and_unfinished_ones_are_said(run):
    grid = worst_flows(run)
    slowdowns = [float(row[-1]) for row in grid.rows]
    assert slowdowns == sorted(slowdowns, reverse=True)
    assert len(slowdowns) == np.count_nonzero(~np.isnan(run.slowdown))
    left = len(run.flows) - len(slowdowns)
    assert (f"{left} flows have not finished" in grid.caption) == (left > 0)
    nothing = dataclasses.replace(
        run, fct_s=np.full_like(run.fct_s, NAN), slowdown=np.full_like(run.slowdown, NAN)
    )
    assert worst_flows(nothing) is None
    assert distributions(nothing) is None


def test_the_busiest_links_come_first(run):
    grid = busiest_links(run)
    assert [row[1] for row in grid.rows] == [run.layers[1], run.layers[0]]
    # 500 kB of what 8 Gb/s could carry
    assert float(grid.rows[0][3]) == pytest.approx(50e6 / (1e9 * run.end_s), abs=0.06)


def test_the_map_of_links_is_as_large_as_a_page_can_show(run):
    assert link_map(run).count("data-tip") == len(run.nodes) ** 2
    many = dataclasses.replace(run, nodes=tuple(f"n{i}" for i in range(100_000)))
    drawn = link_map(many)
    assert drawn.count("data-tip") <= 64**2
    assert "n0-n1562 to n0-n1562: " in drawn


def test_distributions_end_with_all_flows_and_have_quantiles(run):
    found = distributions(run)["slowdown"]
    assert found["points"][-1][1] == 100
    assert found["quantiles"]["p50"] <= found["quantiles"]["p99"] <= found["points"][-1][0]
