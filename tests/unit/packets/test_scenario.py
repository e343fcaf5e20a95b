"""Scenarios are strict, and take what they do not say from the transport's reference."""

from pathlib import Path

import pytest

from lightloom.errors import InputError
from lightloom.inputs.formats import parse_toml
from lightloom.inputs.strict import check
from lightloom.packets import (
    TRANSPORTS,
    NetworkTable,
    PacketScenario,
    make_flows,
    profile_of,
    simulate_flows,
)
from lightloom.packets.scenario import ScenarioFile, load_scenario
from lightloom.packets.settings import resolve, smallest_radix, topology_of
from lightloom.packets.traffic import flows_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "packets.toml"
NETWORK = "seed = 1\n[network]\nhosts = 8\nrate_gbps = 100\n"
TRAFFIC = '[traffic]\npattern = "permutation"\nsize_bytes = "1 MB"\n'
WHOLE = f'transport = "roce"\n{NETWORK}{TRAFFIC}'


def read(text):
    return check(ScenarioFile, parse_toml(text.encode(), "S"), "S")


def scenario(network=None, **more):
    network = {"hosts": 8, "rate_gbps": 100, **(network or {})}
    return PacketScenario(**{"network": network, "transport": "roce", "seed": 1, **more})


def line(call, *arguments):
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return str(caught.value)


def test_the_example_is_read():
    found = load_scenario(EXAMPLE)
    assert found.network.link_delay_s == 1e-6
    assert len(flows_of(found)) == 32 * 7
    settings = resolve(found)
    assert settings.tables["queue"]["ecn"] == {
        "min_bytes": 100_000,
        "max_bytes": 100_000,
        "probability": 1.0,
        "marking": "departure",
    }
    assert settings.tables["transport"]["min_timeout_s"] == 1e-3
    assert "queue.ecn.min_bytes" in settings.given
    assert "queue.ecn.marking" not in settings.given
    built = topology_of(found.network)
    assert built["shape"]["uplink_rate_bps"] == 100_000_000_000


@pytest.mark.parametrize("name", TRANSPORTS)
def test_every_profile_comes_back_from_the_core(name):
    network = scenario().network
    tables = profile_of(name, network.rate_gbps, network)
    assert tables["packet"].keys() == {"mtu_bytes", "header_bytes", "control_bytes", "full_tail"}
    settings = resolve(scenario(transport=name))
    assert settings.tables == tables
    assert not settings.given
    # every own parameter may be given as it is
    own = {key: "auto" if value is None else value for key, value in tables["transport"].items()}
    words = {key: "unlimited" for key, value in own.items() if value == 2**64 - 1}
    again = resolve(scenario(transport={"name": name, **own, **words}))
    assert again.tables == tables
    assert again.given == {f"transport.{key}" for key in own}


@pytest.mark.parametrize("name", TRANSPORTS)
def test_the_published_preset_is_the_profile_of_the_reference(name):
    published = resolve(scenario(transport={"name": name, "preset": "published"}))
    assert published.tables == profile_of(name, 100.0)
    assert published.given == {"transport.preset"}


def test_queues_and_thresholds_grow_with_what_a_round_trip_holds():
    def queue(name, **network):
        return resolve(scenario(network, transport=name)).tables["queue"]

    published = profile_of("ndp", 100.0)["queue"]["size_bytes"]
    assert queue("ndp")["size_bytes"] == published
    # 12 us and six packets with acknowledgments: 625 kB at 400 Gb/s, 175 kB at 100 Gb/s
    grown = (600_000 + 6 * 4224) / (150_000 + 6 * 4224)
    assert queue("ndp", rate_gbps=400)["size_bytes"] == int(published * grown)
    assert queue("ndp", rate_gbps=400, topology="star")["size_bytes"] < published * grown
    longer = queue("roce", rate_gbps=400, link_delay_s=5e-6)["pfc"]["resume_bytes"]
    assert longer > queue("roce", rate_gbps=400)["pfc"]["resume_bytes"] > 12 * 4096


def test_a_preset_is_one_of_two():
    with pytest.raises(InputError, match=r"transport\.preset: expected one of auto, published"):
        resolve(scenario(transport={"name": "ndp", "preset": "paper"}))
    with pytest.raises(InputError, match="recovery"):
        simulate_flows(
            make_flows([0], [1], 1), scenario(transport={"name": "roce", "recovery": "x"})
        )


def test_thresholds_of_dcqcn_grow_with_the_rate():
    slow, fast = (
        resolve(scenario({"rate_gbps": rate}, transport="dcqcn")).tables["queue"]["ecn"]
        for rate in (100, 400)
    )
    for key in ("min_bytes", "max_bytes"):
        assert fast[key] == 4 * slow[key]


def test_units_in_text():
    given = scenario(
        {"rate_gbps": "0.4 Tb/s", "link_delay_s": "500 ns"},
        queue={"size_bytes": "1.1 MB", "control_size_bytes": "unlimited"},
        until_s="2 ms",
    )
    assert given.queue.size_bytes == 1_100_000
    assert given.queue.control_size_bytes == 2**32 - 1
    assert given.until_s == pytest.approx(2e-3)
    built = topology_of(given.network)
    assert (built["rate_bps"], built["link_delay_ps"]) == (400_000_000_000, 500_000)


def test_switches():
    off = resolve(scenario(queue={"pfc": {"on": False}}))
    assert off.tables["queue"]["pfc"] is None
    assert off.given == {"queue.pfc.on"}
    on = resolve(scenario(queue={"ecn": {"min_bytes": 1000, "max_bytes": "3 kB"}}))
    assert on.tables["queue"]["ecn"]["max_bytes"] == 3000
    early = resolve(scenario(queue={"early_drop": {"on": True}}))
    assert early.tables["queue"]["early_drop"] == {"share": 0.5, "probability": 0.1}
    part = resolve(scenario(queue={"pfc": {"pause_bytes": "100 kB"}}))
    assert part.tables["queue"]["pfc"] == {"pause_bytes": 100_000, "resume_bytes": 49_152}


@pytest.mark.parametrize(
    ("network", "built"),
    [
        ({"hosts": 128}, {"radix": 8}),
        ({"hosts": 129}, {"radix": 10}),
        ({"hosts": 16, "radix": 16}, {"radix": 16}),
        ({"topology": "leaf-spine", "hosts": 64},
         {"hosts_per_leaf": 16, "spines": 16, "uplink_rate_bps": 100_000_000_000}),
        ({"topology": "leaf-spine", "hosts": 64, "oversubscription": 4.0},
         {"hosts_per_leaf": 16, "spines": 4, "uplink_rate_bps": 100_000_000_000}),
        ({"topology": "leaf-spine", "hosts": 64, "spines": 4},
         {"hosts_per_leaf": 16, "spines": 4, "uplink_rate_bps": 400_000_000_000}),
        ({"topology": "star"}, {}),
        ({"topology": "star", "planes": 4}, {"planes": 4}),
        ({"topology": "star", "planes": 4, "plane_choice": "spray"},
         {"planes": 4, "plane_choice": "spray"}),
    ],
)  # fmt: skip
def test_topologies(network, built):
    found = topology_of(NetworkTable(**{"hosts": 8, "rate_gbps": 100, **network}))
    one = {"planes": 1, "plane_choice": "hash"}
    sizes = {"planes": found["planes"], "plane_choice": found["plane_choice"], **found["shape"]}
    assert sizes.pop("topology") == network.get("topology", "fat-tree")
    assert {key: value for key, value in sizes.items() if one.get(key) != value} == built


def test_the_smallest_radix():
    assert [smallest_radix(hosts) for hosts in (1, 2, 3, 16, 17, 1024, 65_536)] == [
        2, 2, 4, 4, 6, 16, 64,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'S: network is missing; add it, such as network = { hosts = 128, rate_gbps = "100 '
         'Gb/s" }'),
        (NETWORK + TRAFFIC, 'S: transport is missing; add it, such as transport = "ndp"'),
        (f'transport = "roce"\n{NETWORK}', "S: traffic is missing; add it, such as traffic = { "
         'pattern = "permutation", size_bytes = "2 MB" }'),
        (WHOLE + "wat = 1", "S: unknown key 'traffic.wat'; known: flows, programs, pattern, "
         "size_bytes, fan_in, group, matrix, load, flow_sizes, load_time_s"),
        (WHOLE + "[queue]\nsize_byte = 1",
         "S: unknown key 'queue.size_byte'; did you mean 'size_bytes'?"),
        (WHOLE + "[queue.ecn]\nkmin = 1", "S: unknown key 'queue.ecn.kmin'; known: on, min_bytes, "
         "max_bytes, probability, marking"),
        (WHOLE + "[packet]\nmtu_bytes = -1", "S: packet.mtu_bytes = -1: expected at least 0"),
        (WHOLE + '[packet]\nmtu_bytes = "4 s"',
         "S: packet.mtu_bytes = 4 s: cannot read '4 s' as a size such as '9 kB'"),
        (WHOLE + "[packet]\nmtu_bytes = 1.5", "S: packet.mtu_bytes = 1.5: expected whole bytes"),
        (WHOLE + "[packet]\nfull_tail = 1", "S: packet.full_tail = 1: expected on or off"),
        (WHOLE + '[queue]\nsize_bytes = "endless"', "S: queue.size_bytes = endless: cannot read "
         "'endless' as a size such as '9 kB'"),
        (WHOLE + '[queue]\noverflow = "trimm"', "S: queue.overflow = trimm: expected one of drop, "
         "trim; did you mean 'trim'?"),
        (WHOLE.replace("rate_gbps = 100", "rate_gbps = 0"),
         "S: network.rate_gbps = 0: expected at least 0.001"),
        (WHOLE.replace("hosts = 8", "hosts = 1"), "S: network.hosts = 1: expected at least 2"),
        (WHOLE.replace("hosts = 8", "hosts = 100000"),
         "S: network.hosts = 100000: expected at most 16,384"),
        (WHOLE.replace("seed = 1", "seed = -1"), "S: seed = -1: expected at least 0"),
        ("until_s = 0\n" + WHOLE, "S: until_s = 0: expected more than 0"),
        ("[", "S: not valid TOML: Invalid initial character for a key part (at end of document)"),
    ],
)  # fmt: skip
def test_wrong_files(text, expected):
    assert line(read, text) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"transport": "tcp"}, f"transport tcp: expected one of {', '.join(TRANSPORTS)}; did you "
         "mean 'mptcp'?"),
        ({"transport": {"window": 3}}, f"transport.name: expected one of {', '.join(TRANSPORTS)}"),
        ({"transport": {"name": "roce", "window": 3}},
         "transport.window is no parameter of roce; it has preset, recovery"),
        ({"transport": {"name": "dctcp", "gian": 3}},
         "transport.gian is no parameter of dctcp; did you mean 'gain'?"),
        ({"transport": {"name": "dctcp", "gain": "much"}},
         "transport.gain = much: expected a number of at least 0"),
        ({"transport": {"name": "dctcp", "initial_window": 1.5}},
         "transport.initial_window = 1.5: expected a whole number from 0 to 4,294,967,295"),
        ({"transport": {"name": "dctcp", "initial_window": True}},
         "transport.initial_window = True: expected a whole number from 0 to 4,294,967,295"),
        ({"transport": {"name": "dctcp", "min_timeout_s": "2 h"}},
         "transport.min_timeout_s = 2 h: expected 0 to 1,000 s"),
        ({"transport": {"name": "mptcp", "subflows": 70_000}},
         "transport.subflows = 70000: expected a whole number from 0 to 65,535"),
        ({"transport": {"name": "dcqcn", "additive_gbps": "1 GB"}},
         "transport.additive_gbps: cannot read '1 GB' as a rate such as 400, 400G or '400 Gb/s'"),
        ({"transport": {"name": "dcqcn", "increase_bytes": -1}},
         "transport.increase_bytes = -1: expected whole bytes from 0 to 2^53"),
        ({"transport": {"name": "dcqcn", "clamp_target": 1}},
         "transport.clamp_target = 1: expected on or off"),
        ({"queue": {"ecn": {"min_bytes": 5}}},
         'queue.ecn.max_bytes is missing; add it, such as max_bytes = "100 kB"'),
        ({"queue": {"ecn": {"on": True}}},
         'queue.ecn.min_bytes is missing; add it, such as min_bytes = "100 kB"'),
        ({"queue": {"pfc": {"on": False, "pause_bytes": 5}}}, "queue.pfc.on = false, so that "
         "nothing would read queue.pfc.pause_bytes; leave one of them out"),
    ],
)  # fmt: skip
def test_wrong_parameters(more, expected):
    assert line(resolve, scenario(**more)) == expected


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({"topology": "star", "radix": 8},
         "radix is for the topology fat-tree, not star; leave it out"),
        ({"spines": 8}, "spines is for the topology leaf-spine, not fat-tree; leave it out"),
        ({"topology": "leaf-spine", "hosts": 16_384, "hosts_per_leaf": 8, "spines": 32},
         "2,048 leaves and 32 spines have 65,536 links; expected at most 4,096 leaves and 32,768 "
         "links: put more hosts on a leaf"),
        ({"topology": "leaf-spine", "hosts": 16_384, "hosts_per_leaf": 2, "spines": 1},
         "8,192 leaves and 1 spines have 8,192 links; expected at most 4,096 leaves and 32,768 "
         "links: put more hosts on a leaf"),
        ({"plane_choice": "spray"},
         "plane_choice spray is for several planes; add planes, or leave it out"),
        ({"topology": "rail", "planes": 2},
         "2 planes: the topology rail lists all of its links; expected a fat-tree, leaf-spine, "
         "star or dragonfly"),
        ({"hosts": 4096, "planes": 8}, "4,096 hosts on 8 planes; expected at most 16,384 NICs"),
    ],
)  # fmt: skip
def test_wrong_topologies(network, expected):
    described = NetworkTable(**{"hosts": 8, "rate_gbps": 100, **network})
    assert line(topology_of, described) == expected


@pytest.mark.parametrize(
    ("traffic", "expected"),
    [
        ("", "expected flows FILE, pattern NAME or programs FILE, there is none"),
        ('flows = "a"\npattern = "incast"', "expected flows FILE, pattern NAME or programs FILE, "
         "2 are given"),
        ('pattern = "incast"\nsize_bytes = 1', "fan_in is missing; pattern incast needs it"),
        ('pattern = "all-to-all"', "size_bytes is missing; pattern all-to-all needs it"),
        ('pattern = "matrix"', "matrix is missing; pattern matrix needs it"),
        ('pattern = "permutation"\nsize_bytes = 1\ngroup = 4',
         "group does not apply to pattern permutation; leave it out"),
        ('flows = "a"\nsize_bytes = 1', "size_bytes does not apply to flows FILE; leave it out"),
        ('matrix = "a.npy"\nsize_bytes = 1',
         "size_bytes does not apply to pattern matrix; leave it out"),
    ],
)  # fmt: skip
def test_wrong_traffic(traffic, expected):
    described = read(f'transport = "roce"\n{NETWORK}[traffic]\n{traffic}\n')
    assert line(flows_of, described) == expected


def test_paths_are_below_the_folder_of_the_file(tmp_path):
    (tmp_path / "flows.csv").write_text("src,dst,bytes\n0,1,5\n")
    path = tmp_path / "s.toml"
    path.write_text(f'transport = "roce"\n{NETWORK}[traffic]\nflows = "flows.csv"\n')
    assert len(flows_of(load_scenario(path))) == 1


def test_a_window_that_is_found_out_may_be_given_as_a_number():
    def window(given):
        text = f"transport = {{ name = 'uet-rccc'{given} }}\n{NETWORK}"
        described = read(f"{text}{TRAFFIC}")
        return resolve(described).tables["transport"]["window"]

    assert window("") is None
    assert window(", window = 'auto'") is None
    assert window(", window = 30") == 30
    for wrong in ("'many'", "-1", "2.5", "true"):
        with pytest.raises(InputError, match=r"transport\.window = .*: expected a whole number"):
            window(f", window = {wrong}")


@pytest.mark.parametrize("transport", ["ndp", "dctcp", "swift"])
def test_parameters_are_fitted_to_the_delay_that_is_given(transport):
    def fitted(link_s, given_s=None):
        network = NetworkTable(
            hosts=4, rate_gbps=400.0, topology="star", link_delay_s=link_s, fitted_delay_s=given_s
        )
        return profile_of(transport, 400.0, network)

    assert fitted(1e-6, 20e-6) == fitted(10e-6)
    assert fitted(10e-6, 2e-6) == fitted(1e-6) != fitted(10e-6)
