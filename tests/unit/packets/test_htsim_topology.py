"""Trees of htsim: the same as our own to the picosecond, or refused by what is wrong."""

from pathlib import Path

import numpy as np
import pytest

from lightloom import packets
from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario

LEAF_SPINE = """# 4 to 1
Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
"""
FAT_TREE = """Nodes 16
Tiers 3
Podsize 4
Tier 0
Oversubscribed 1
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Bundle 1
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Bundle 1"""


def write(folder: Path, text: str) -> Path:
    path = folder / "tree.topo"
    path.write_text(text)
    return path


def completions(network: NetworkTable, transport: str, size_bytes: int = 100_000) -> np.ndarray:
    flows = packets.permutation(network.hosts, size_bytes, seed=3)
    scenario = PacketScenario(network=network, transport=transport, seed=3)
    return packets.simulate_flows(flows, scenario).fct_s


@pytest.mark.parametrize("transport", ["roce", "ndp"])
@pytest.mark.parametrize(
    ("text", "own"),
    [
        (FAT_TREE, {"hosts": 16, "radix": 4}),
        (
            LEAF_SPINE,
            {
                "hosts": 32,
                "topology": "leaf-spine",
                "hosts_per_leaf": 8,
                "spines": 2,
                "oversubscription": 4,
            },
        ),
    ],
    ids=["fat-tree", "leaf-spine"],
)
def test_a_tree_is_our_own_to_the_picosecond(
    tmp_path: Path, text: str, own: dict, transport: str
) -> None:
    read = NetworkTable(hosts=own["hosts"], rate_gbps=100, links=write(tmp_path, text))
    np.testing.assert_array_equal(
        completions(read, transport), completions(NetworkTable(rate_gbps=100, **own), transport)
    )


def test_a_tree_is_one_after_a_byte_order_mark_and_a_long_comment(tmp_path: Path) -> None:
    text = "\ufeff# " + "x" * 5000 + "\n\n" + FAT_TREE
    network = NetworkTable(links=write(tmp_path, text))
    assert (network.hosts, network.rate_gbps) == (16, 100)
    same = NetworkTable(links=write(tmp_path, FAT_TREE))
    np.testing.assert_array_equal(completions(network, "ndp"), completions(same, "ndp"))


def test_switches_take_their_time_once_each(tmp_path: Path) -> None:
    slow = LEAF_SPINE.replace("Switch_Latency_ns 0", "Switch_Latency_ns 301") + (
        "Switch_Latency_ns 500\n"
    )
    flows = packets.make_flows([0, 1], [7, 31], 1_000)

    def times(text: str) -> np.ndarray:
        network = NetworkTable(hosts=32, rate_gbps=100, links=write(tmp_path, text))
        scenario = PacketScenario(network=network, transport="ideal", seed=1)
        return packets.simulate_flows(flows, scenario).fct_s

    # there and back: one ToR; two ToRs and a spine switch
    expected = [2 * 301e-9, 2 * (2 * 301 + 500) * 1e-9]
    np.testing.assert_allclose(times(slow) - times(LEAF_SPINE), expected, rtol=0, atol=1e-15)


def test_bundles_are_parallel_links(tmp_path: Path) -> None:
    bundled = FAT_TREE.replace("Radix_Up 2", "Radix_Up 4").replace("Radix_Down 4", "Radix_Down 8")
    bundled = bundled.replace("Bundle 1", "Bundle 2").replace("Oversubscribed 1\n", "")
    bundled = bundled.replace("Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 2",
                              "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 4")  # fmt: skip
    network = NetworkTable(hosts=16, rate_gbps=100, links=write(tmp_path, bundled))
    scenario = PacketScenario(network=network, transport="ideal", seed=1)
    run = packets.simulate_flows(packets.make_flows([0], [15], 1_000), scenario)
    # each switch joins as many as before, by two links instead of one
    assert len(run.links.layer) == 2 * (16 + 2 * 16 + 2 * 16)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Nodes 32", "Nodes 33", "33 hosts at 100 Gb/s, the network has 32"),
        ("Radix_Down 4", "Radix_Down 5", "Radix_Down of tier 1 is the ToRs of a pod"),
        ("Oversubscribed 4", "Oversubscribed 3", "tier 0 is oversubscribed as it says"),
        ("Podsize 32", "Podsize 16", "Nodes are full pods"),
        ("Tiers 2", "Tiers 3", "2 tiers: expected Tiers 2 or 3"),
        ("Radix_Up 2", "Radix_Up 0", "tier 0: radix_up is missing or 0"),
        ("Radix_Up 2", "Queue_Up 9", "line 9: Queue_Up: queues are not read; give them as --queue"),
        ("Radix_Up 2", "Radix_Up two", "expected a word and a whole number"),
        ("Nodes 32", "Nodes 99999999999", "expected a word and a whole number of up to 9 digits"),
        ("Radix_Up 2", "Radix_Side 2", "expected, once each, downlink_speed_gbps"),
        ("Tier 1", "Tier 2", "tier 2: expected 0, 1 and perhaps 2 in order"),
        ("Podsize 32\n", "", "Nodes and Podsize: expected both"),
    ],
)
def test_what_is_no_tree_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = LEAF_SPINE.replace(old, new)
    network = NetworkTable(hosts=32, rate_gbps=100, links=write(tmp_path, text))
    with pytest.raises(InputError, match=message):
        completions(network, "ideal", 1_000)


@pytest.mark.parametrize(("text", "hosts"), [(LEAF_SPINE, 32), (FAT_TREE, 16)])
def test_a_tree_says_its_hosts_and_rate(text, hosts, tmp_path):
    path = write(tmp_path, text.replace("Gbps 100", "Gbps 400"))
    alone = NetworkTable(links=path)
    assert (alone.topology, alone.hosts, alone.rate_gbps) == ("links", hosts, 400)
    given = NetworkTable(hosts=hosts, rate_gbps=400, links=path)
    assert (completions(alone, "ndp") == completions(given, "ndp")).all()
    for wrong in ({"hosts": hosts + 1}, {"rate_gbps": 100}):
        with pytest.raises(InputError, match="expected the same, or neither given"):
            completions(NetworkTable(links=path, **wrong), "ndp")


def test_a_link_delay_without_effect_is_said(tmp_path, monkeypatch):
    flows = packets.make_flows([0], [1], 1000)
    table = Path("links.csv")
    monkeypatch.chdir(tmp_path)

    def remarks(text, **network):
        table.write_text(text)
        scenario = PacketScenario(network=NetworkTable(**network), transport="ndp", seed=1)
        return [line for line in packets.simulate_flows(flows, scenario).remarks if "delay" in line]

    tree = {"links": write(Path(), FAT_TREE)}
    listed = {"links": table, "hosts": 2, "rate_gbps": 100}
    whole, part = "a,b,delay_us\n0,s,1\n1,s,2\n", "a,b,delay_us\n0,s,1\n1,s,\n"
    for text, network in (("", tree), (whole, listed)):
        assert remarks(text, **network) == []
        for delay in (1e-6, 2e-6):
            said = remarks(text, link_delay_s=delay, **network)
            assert said == [
                f"The link delay given, {delay * 1e6:g} us, has no effect: all links of "
                f"{network['links']} have their own."
            ]
    assert remarks(part, link_delay_s=2e-6, **listed) == []
    assert remarks("", link_delay_s=2e-6, hosts=4, rate_gbps=100) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Nodes 16\nTiers 3\nPodsize 4", "Nodes 99999\nTiers 3\nPodsize 99999",
         "Nodes: 99,999: expected 2 to 16,384"),
        ("Downlink_speed_Gbps 100", "Downlink_speed_Gbps 100001",
         "Downlink_speed_Gbps of tier 0: 100,001: expected 1 to 100,000"),
    ],
)  # fmt: skip
def test_a_tree_that_is_too_large_is_named(tmp_path: Path, old: str, new: str, message: str):
    assert old in FAT_TREE
    path = write(tmp_path, FAT_TREE.replace(old, new))
    with pytest.raises(InputError) as error:
        NetworkTable(links=path)
    assert str(error.value) == f"{path}: {message}"
