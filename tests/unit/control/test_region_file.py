"""Regions as files: defaults that are the simulator's, passwords, and what is refused."""

import re
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from tests.control_regions import port_map_of

from lightloom.control.decisions import RegionDecider
from lightloom.control.drivers.options import DriverSettings, parse_switch_url
from lightloom.control.example import write_example
from lightloom.control.failure_state import shape_of
from lightloom.control.failures import GpuPlace
from lightloom.control.optics import published_limits
from lightloom.control.refusals import RegionFileError
from lightloom.control.region_file import _PATHS_OF_URL, RegionFile, SwitchSection, read_region
from lightloom.fabric import Cluster, FabricContext, MeanDemand, MixNet
from lightloom.fabric.circuit_options import CircuitOptions
from lightloom.fabric.network import Ocs
from lightloom.hardware import measured_turnaround, nic_activation
from lightloom.schedule import Decider, Policy, Region, RelayCost
from lightloom.workload.task_graph import Layout


@pytest.fixture
def path(tmp_path):
    return write_example(tmp_path, "polatis+tl1://10.0.0.5", servers=2, nics=2, size=8)


def test_an_example_is_a_region(path):
    region = read_region(path)
    port_map = region.read_port_map(path.parent)
    assert port_map.nics_per_server == (2, 2)
    credentials = region.switches["ocs"].credentials(path.parent)
    assert (credentials.user, credentials.password) == ("admin", "root")
    assert "root" not in repr(credentials)
    assert (path.parent / "password").stat().st_mode & 0o777 == 0o600


def test_the_defaults_are_those_of_the_simulator():
    servers = np.arange(2, dtype=np.uint32)
    layout = Layout.grid(stages=1, replicas=1, members=2, gpus_per_worker=8, worker_server=servers)
    context = FabricContext(layout, 1, False, MeanDemand)
    cluster = Cluster.of(gpus=16, rate_gbps=400, gpu="h100")
    values = {"name": "r", "port_map": "p.csv", "journal": "j"}
    region = RegionFile(**values, switches={"ocs": {"url": "x://y"}})
    simulated = MixNet()
    assert region.policy.allocator == simulated.allocator
    assert region.policy.when == simulated.when
    assert region.policy.split == simulated.network(cluster, context).part(Ocs).split
    timing = region.timing.resolved()
    assert timing.fixed_s == measured_turnaround(0).mean_s
    assert timing.expected_s(16) == pytest.approx(
        measured_turnaround(16).mean_s + nic_activation().mean_s
    )
    assert timing.link_up_s == simulated.bring_up_s()
    assert timing.expected_s(0) == 0


def test_given_times_are_used(path):
    path.write_text(path.read_text().replace("link_up_s = 0", 'fixed_s = "25 ms"'))
    timing = read_region(path).timing.resolved()
    assert (timing.fixed_s, timing.per_pair_s) == (0.025, 0.0)


def test_limits_of_light_have_sources(path):
    limits = published_limits()
    assert limits["max_input_dbm"].value == 20
    assert all(limit.source and limit.date for limit in limits.values())
    path.write_text(path.read_text() + "[optics]\nmax_input_dbm = 10.0\n")
    resolved = read_region(path).optics.resolved()
    assert (resolved.max_input_dbm, resolved.max_loss_db) == (10.0, 2.7)


def test_passwords_of_files_and_variables(path, monkeypatch):
    monkeypatch.setenv("OCS_PASSWORD", "from the environment")
    section = SwitchSection(url="x://y", user="u", password_env="OCS_PASSWORD")
    assert section.credentials(path.parent).password == "from the environment"
    assert SwitchSection(url="x://y").credentials(path.parent).password == ""
    with pytest.raises(RegionFileError, match="password_file and password_env: expected one"):
        SwitchSection(url="x://y", password_env="A", password_file="b")
    (path.parent / "password").write_bytes(b"\xff\xfe")
    with pytest.raises(RegionFileError, match=r"password: not UTF-8 text$"):
        read_region(path).switches["ocs"].credentials(path.parent)
    (path.parent / "password").chmod(0o640)
    with pytest.raises(RegionFileError, match=r"others may read the password; run chmod 600 on it"):
        read_region(path).switches["ocs"].credentials(path.parent)
    (path.parent / "password").rename(path.parent / "other")
    (path.parent / "password").symlink_to(path.parent / "other")
    with pytest.raises(RegionFileError, match=r"password: cannot read the password: a symbolic"):
        read_region(path).switches["ocs"].credentials(path.parent)


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "..",
        ".",
        ".hidden",
        "a/b",
        "a\\\\b",
        "-rf",
        "a b",
        "a$HOME",
        "_",
        "~",
        "a\\u202e",
    ],
)
def test_the_name_of_a_region_is_part_of_file_names(path, name):
    text = path.read_text()
    path.write_text(text.replace('name = "region"', f'name = "{name}"'))
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: name = ")
    assert message.endswith("expected letters, digits, '.', '_' and '-', such as rack7")
    assert message.isprintable()


@pytest.mark.parametrize("name", ["rack7", "Halle-3.Reihe_2", "区域1", "0"])
def test_names_of_regions(path, name):
    path.write_text(path.read_text().replace('name = "region"', f'name = "{name}"'))
    assert read_region(path).name == name


def test_every_key_of_a_url_that_is_a_text_is_a_path():
    """A certificate of a new driver that would be looked for in the folder of the process."""
    texts = {one.name for one in fields(DriverSettings) if isinstance(one.default, str)}
    assert texts == set(_PATHS_OF_URL)


def test_paths_in_the_url_of_a_switch_are_relative_to_the_region(path):
    def section(query):
        return SwitchSection(url=f"polatis+ssh://10.0.0.5:6252{query}", password_file="password")

    folder = path.parent
    assert section("").address(folder) == "polatis+ssh://10.0.0.5:6252"
    plain = section("?poll_s=2&moves=no")
    assert plain.address(folder) == plain.url
    given = section("?known_hosts=hosts%20of+ocs&poll_s=2&ca_file=/etc/ca.pem&user=")
    settings = parse_switch_url(given.address(folder))[3]
    assert settings == {
        "known_hosts": str(folder / "hosts of ocs"),
        "poll_s": "2",
        "ca_file": "/etc/ca.pem",
        "user": "",
    }
    assert [str(name) for name in given.files()] == ["password", "hosts of ocs", "/etc/ca.pem"]
    text = path.read_text().replace("//10.0.0.5", "//10.0.0.5?ca_file=ca.pem")
    path.write_text(text)
    assert folder / "ca.pem" in read_region(path).files(folder)


def test_spare_gpus(path):
    path.write_text(path.read_text().replace("[rates]", 'spares = ["1/7"]\npool = 3\n[rates]'))
    shape = shape_of(read_region(path), port_map_of(2, 2, 8))
    assert (shape.spares, shape.pool) == ((GpuPlace(1, 7),), 3)
    path.write_text(path.read_text().replace("1/7", "1/8"))
    with pytest.raises(RegionFileError) as refusal:
        shape_of(read_region(path), port_map_of(2, 2, 8))
    assert str(refusal.value) == "job.spares '1/8': expected a GPU such as 3/7 (server/GPU)"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[switches.ocs]\n", "", "unknown key 'url'"),
        ('url = "polatis+tl1://10.0.0.5"\n', "", "switches.ocs.url is missing; add it"),
        ("gpus_per_server = 8", "gpus_per_server = 0", "job.gpus_per_server = 0: expected at"),
        ("circuit_gbps = 400", 'circuit_gbps = "400 ms"', "rates.circuit_gbps = 400 ms: "),
        ('name = "region"', 'name = ""', "name = '': expected"),
        (
            "[timing]",
            "[change]\nretries = 99\n[timing]",
            "change.retries = 99: expected at most 10",
        ),
        (
            "[timing]",
            '[change]\nconflicts = "saef"\n[timing]',
            "change.conflicts = saef: expected one of safe, update, overwrite; did you mean",
        ),
        ("[timing]", "[serve]\nport = 70000\n[timing]", "serve.port = 70000: expected at most"),
    ],
)
def test_a_wrong_key_or_value_is_one_line(path, before, after, message):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    assert str(refusal.value).startswith(f"{path}: {message}")
    assert "\n" not in str(refusal.value)


def test_a_region_may_relay(path):
    """With relays two hops of a circuit each do for a demand that the EPS cannot carry."""
    text = path.read_text()
    assert read_region(path).relay is None
    path.write_text(text + "\n[relay]\n")
    assert read_region(path).relay.cost() == RelayCost()
    path.write_text(text + '\n[relay]\nnvswitch_gbps = "1 Tb/s"\nrelay_delay_s = "3 us"\n')
    cost = read_region(path).relay.cost()
    assert cost == RelayCost(nvswitch_gbps=1000, relay_delay_s=3e-6)
    path.write_text(text.replace("[policy]", "[policy]\nsplit = false") + "\n[relay]\n")
    with pytest.raises(RegionFileError, match="relay divides the bytes of a pair: expected split"):
        read_region(path)
    path.write_text(text + '\n[relay]\nchunk_bytes = "1 MB"\n')
    with pytest.raises(RegionFileError, match=r"relay.chunk_bytes = 1 MB: expected a whole number"):
        read_region(path)


def test_the_guide_lists_every_key():
    """A key that nobody finds, or that is not there any more."""
    page = (Path(__file__).parents[3] / "docs/how-to/control-a-switch.md").read_text()
    rows = dict(re.findall(r"^\| `\[(\w+)\]` \| (.*) \|$", page, re.MULTILINE))
    sections = {
        name: field.annotation
        for name, field in RegionFile.model_fields.items()
        if name not in ("port_map", "journal", "switches") and name in rows
    }
    assert sections.keys() == rows.keys()
    for name, row in rows.items():
        (section,) = [
            one
            for one in (sections[name], *get_args(sections[name]))
            if hasattr(one, "model_fields")
        ]
        assert set(re.findall(r"`(\w+)`", row.partition(";")[0])) == set(section.model_fields), name


ROOT = Path(__file__).parents[3]


def test_the_reference_lists_every_key():
    """A key that the site does not explain, or the page calls by another name."""
    spec = spec_from_file_location("generated", ROOT / "docs/site/generated.py")
    generated = module_from_spec(spec)
    spec.loader.exec_module(generated)
    shown = {}
    for part in generated.region_file().split("\n## "):
        head, _, rows = part.partition("\n")
        shown[head.strip("`[]")] = set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE))
    region = read_keys(RegionFile)
    tables = {"switches.NAME": "switches"} | {name: name for name in shown if name in region}
    for head, name in tables.items():
        kinds = generated.parts_of(RegionFile.model_fields[name].annotation)
        assert shown[head] == read_keys(next(filter(generated.is_table, kinds)))
    top = next(keys for head, keys in shown.items() if head.startswith("| key"))
    assert top == region - set(tables.values())
    circuits = re.findall(r"^\| `(\w+)` \|", generated.circuits(), re.MULTILINE)
    assert set(circuits) == read_keys(CircuitOptions)
    page = (ROOT / "docs/reference/region-files.md").read_text()
    for table, key in re.findall(r"`(rates|policy|timing|relay)\.(\w+)`", page):
        kinds = generated.parts_of(RegionFile.model_fields[table].annotation)
        assert key in read_keys(next(filter(generated.is_table, kinds)))


def read_keys(table):
    return set(table.model_fields)


@pytest.mark.parametrize("relays", [False, True])
def test_decisions_of_a_region_that_relays_are_those_of_a_decider_that_does(relays):
    rng = np.random.default_rng(1)
    values = {"name": "r", "port_map": "p.csv", "journal": "j", "policy": {"when": "always"}}
    values |= {"rates": {"eps_gbps": 10.0}, "timing": {"fixed_s": 1e-3, "link_up_s": 0}}
    region = RegionFile(**values, switches={"ocs": {"url": "x://y"}}, relay={} if relays else None)
    decider = RegionDecider(region, port_map_of(6, 2, 12))
    own = Decider(
        6,
        Region(ports=2, circuit_gbps=400, eps_gbps=10),
        policy=Policy(when="always", relaying=RelayCost() if relays else None),
        timing=1e-3,
    )
    decisions = []
    for _ in range(20):
        demand = (1e9 * rng.random((6, 6)) ** 6).astype(np.uint64)
        np.fill_diagonal(demand, 0)
        found = decider.decide(decider.hold(decider.start()), demand[np.newaxis])
        wanted = own.decide(own.hold_on(own.start().nics), demand)
        assert found == wanted
        decisions.append(found.reason)
    assert ("relaying-suffices" in decisions) is relays
