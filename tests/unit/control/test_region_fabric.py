"""Regions that take rates, policy and timing from the file of a fabric."""

import asyncio
import contextlib
import dataclasses
import io
import json

import numpy as np
import pytest
from tests.control_regions import emulated, pairs, served

from lightloom.control.client import ControlClient
from lightloom.control.failure_state import shape_of
from lightloom.control.refusals import PortMapError, RegionFileError
from lightloom.control.region_file import RULES, RegionFile, read_region
from lightloom.control.running import open_region, serve
from lightloom.control.token import token_for
from lightloom.fabric import Cluster, MixNet, load_fabric, read
from lightloom.samples import read_sample
from lightloom.schedule import RelayCost

FILES = ("circuit-rack", "region", "port-map")
NAMES = ("circuit-rack.toml", "region.toml", "ports.csv")


@pytest.fixture
def path(tmp_path):
    """The region of the example, in a folder with its files."""
    for name in NAMES:
        (tmp_path / name).write_bytes(read_sample(name))
    return tmp_path / "region.toml"


def change(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_a_region_has_the_rules_of_its_fabric(path):
    region = read_region(path)
    cluster = Cluster.of(gpus=32, rate_gbps=1, gpu="a100")
    fabric = load_fabric(path.parent / "circuit-rack.toml")
    assert region.rules == fabric.circuit_region(cluster).rules
    assert (region.rules.timing.fixed_s, region.rules.timing.link_up_s) == (0.025, 0.0)
    reached = fabric.adapt(cluster).nic_rate_bps / 1e9
    assert 300 < reached < 400
    assert region.rules.circuit_gbps == reached
    assert region.rules.eps_gbps == pytest.approx(6 * reached)
    assert region.job.gpus_per_server == region.job.ranks_per_server == 8
    port_map = region.read_port_map(path.parent)
    assert shape_of(region, port_map).eps_nics == 6
    assert path.parent / "circuit-rack.toml" in region.files(path.parent)


def test_a_fabric_says_the_gpus_of_a_server(path):
    fabric = path.parent / "circuit-rack.toml"
    change(fabric, "nics_per_server = 8", "nics_per_server = 8\ngpus_per_server = 4")
    job = read_region(path).job
    assert (job.gpus_per_server, job.ranks_per_server) == (4, 4)
    change(path, "[switches.ocs]", "[job]\nranks_per_server = 2\n[switches.ocs]")
    assert read_region(path).job.ranks_per_server == 2
    change(path, "ranks_per_server = 2", "gpus_per_server = 8")
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    assert str(refusal.value) == (
        f"{path}: job.gpus_per_server = 8: circuit-rack.toml says 4; keep one"
    )


def test_what_the_file_leaves_open_is_that_of_the_gpu(path):
    """Servers of another GPU have other NVLinks, over which relayed bytes pass."""
    fabric = path.parent / "circuit-rack.toml"
    change(fabric, "[circuits]", "[circuits]\nrelay = true")
    rates = {}
    for gpu in ("a100", "h100"):
        text = path.read_text()
        change(path, "[switches.ocs]", f'[job]\ngpu = "{gpu}"\n[switches.ocs]')
        relaying = read_region(path).rules.policy.relaying
        assert relaying.chunk_bytes == RelayCost().chunk_bytes
        rates[gpu] = relaying.nvswitch_gbps
        path.write_text(text)
    assert rates["h100"] > rates["a100"] > 0


def test_the_nvlinks_of_relays_are_said_by_somebody(path):
    """No controller takes those of a GPU that nobody named."""
    fabric = path.parent / "circuit-rack.toml"
    change(fabric, "[circuits]", "[circuits]\nrelay = true")
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    assert str(refusal.value) == (
        f"{fabric}: nvlink_gbps is missing, which relays need: set it, or [job] gpu of the region,"
        " such as 'h100'"
    )
    change(fabric, "rate_gbps = 400 ", "nvlink_gbps = 3600\nrate_gbps = 400 ")
    said = read_region(path).rules
    change(fabric, "nvlink_gbps = 3600\n", "")
    change(path, "[switches.ocs]", '[job]\ngpu = "h100"\n[switches.ocs]')
    assert read_region(path).rules == said


def test_a_region_says_the_gpus_that_a_fabric_leaves_open(path):
    change(path, "[switches.ocs]", "[job]\ngpus_per_server = 4\n[switches.ocs]")
    job = read_region(path).job
    assert (job.gpus_per_server, job.ranks_per_server) == (4, 4)
    # NICs are in proportion where no file says them, as in a comparison
    (path.parent / "circuit-rack.toml").write_text('kind = "mixnet"\nports = 2\nrate_gbps = 400\n')
    assert read_region(path).rules.eps_nics == 2


def test_a_region_without_a_fabric_has_its_tables():
    values = {"name": "r", "port_map": "p.csv", "journal": "j"}
    region = RegionFile(
        **values,
        switches={"ocs": {"url": "x://y"}},
        rates={"circuit_gbps": 100, "eps_gbps": 50, "eps_nics": 1},
        policy={"when": "always", "allocator": "greedy", "numa_nodes": 1},
        timing={"fixed_s": "measured-p99", "link_up_s": 0},
        relay={"relay_delay_s": "3 us"},
    )
    rules = region.rules
    assert (rules.circuit_gbps, rules.eps_gbps, rules.eps_nics) == (100, 50, 1)
    assert (rules.split, rules.numa_nodes, rules.policy.when) == (True, 1, "always")
    assert rules.policy.relaying == RelayCost(relay_delay_s=3e-6)
    assert rules.timing.fixed_s > 0.01
    assert rules.timing.per_pair_s > 0


SWITCH = "[switches.ocs]"


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("region.toml", SWITCH, f'[job]\ngpu = "a1000"\n{SWITCH}', "job.gpu: unknown GPU 'a1000'"),
        *(
            ("region.toml", SWITCH, f"[{table}]\n{SWITCH}", f"fabric and [{table}]: expected one")
            for table in RULES
        ),
        (
            "region.toml",
            'fabric = "circuit-rack.toml"',
            'fabric = "none.toml"',
            "{folder}/none.toml: no such file",
        ),
        (
            "region.toml",
            'fabric = "circuit-rack.toml"',
            'fabric = "ports.csv"',
            "{folder}/ports.csv: not valid TOML: ",
        ),
        (
            "circuit-rack.toml",
            'kind = "topology"',
            'kind = "topolgy"',
            "{rack}: unknown fabric 'topolgy'",
        ),
        (
            "circuit-rack.toml",
            "ports = 2 ",
            "ports = 8 ",
            "{rack}: circuit-rack: ports = 8: a server has 8 NICs and one at least must stay",
        ),
        (
            "circuit-rack.toml",
            "rate_gbps = 400 ",
            "",
            "{rack}: rate_gbps is missing: a controller takes the rate of NICs from it",
        ),
        (
            "circuit-rack.toml",
            "ports = 2 ",
            'ports = 2\nallocator = "exact" ',
            "{rack}: allocator = exact: a controller has paper, ",
        ),
        (
            "circuit-rack.toml",
            "count = 6 ",
            "count = 7 ",
            "{rack}: circuit-rack: a server has 7 links for 6 NICs beside those of circuits: "
            "expected as many for each; set nics_per_server, such as 9",
        ),
        (
            "circuit-rack.toml",
            "fixed_s = ",
            "fixed = ",
            "{rack}: topology: unknown key 'circuits.fixed'; did you mean 'fixed_s'?",
        ),
    ],
)
def test_what_is_wrong_is_one_line(path, name, before, after, message):
    change(path.parent / name, before, after)
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    found = str(refusal.value)
    rack = path.parent / "circuit-rack.toml"
    expected = message.format(folder=path.parent, rack=rack)
    assert found.removeprefix(f"{path}: ").startswith(expected), found
    assert "\n" not in found


@pytest.mark.parametrize("kind", ["fat-tree", "topoopt", "mixnet-optical-io", "rotornet", "helios"])
def test_fabrics_without_circuits_to_decide_are_refused(path, kind):
    rack = path.parent / "circuit-rack.toml"
    rack.write_text(f'kind = "{kind}"\n')
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    assert str(refusal.value) == (
        f"{rack}: kind = '{kind}' has no circuits that a controller could decide: expected mixnet,"
        " or topology with a table [circuits]"
    )


def test_a_class_of_others_is_served(path, monkeypatch):
    """A fabric outside the package, whose circuits are of another rate than its NICs."""

    class Bundled(MixNet):
        kind = "bundled"

        def circuit_region(self, cluster):
            region = super().circuit_region(cluster)
            rules = dataclasses.replace(region.rules, circuit_gbps=4 * region.rules.circuit_gbps)
            return dataclasses.replace(region, rules=rules)

    monkeypatch.setitem(read.FABRICS, "bundled", Bundled)
    rack = path.parent / "circuit-rack.toml"
    rates = []
    for kind in ("mixnet", "bundled"):
        rack.write_text(f'kind = "{kind}"\nports = 2\nrate_gbps = 400\n')
        rates.append(read_region(path).rules.circuit_gbps)
    assert rates[1] == 4 * rates[0]


def test_parts_that_have_failed_are_for_the_controller(path):
    rack = path.parent / "circuit-rack.toml"
    rack.write_text('kind = "mixnet"\nports = 2\nrate_gbps = 400\nfailed = ["nic:0/1"]\n')
    with pytest.raises(RegionFileError) as refusal:
        read_region(path)
    assert str(refusal.value).startswith(f"{rack}: failed: a controller is told what fails")


def test_a_gpu_without_a_fabric_is_not_ignored(path):
    change(path, 'fabric = "circuit-rack.toml"', "")
    change(path, SWITCH, f'[job]\ngpu = "h100"\n{SWITCH}')
    with pytest.raises(RegionFileError, match=r"job.gpu is for what the file of a fabric leaves"):
        read_region(path)


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("ports.csv", "node2,1,6,54\n", "", "node2 has 1 optical NICs, {rack} says ports = 2"),
        (
            "circuit-rack.toml",
            "ports = 2 ",
            'ports = 2\nplanes = "duplex" ',
            "one switch for all NICs, {rack} says a switch for each NIC, duplex",
        ),
        (
            "circuit-rack.toml",
            "ports = 2 ",
            "ports = 2\nregion_servers = 3 ",
            "4 servers, a region of {rack} has at most 3",
        ),
        (
            "circuit-rack.toml",
            "ports = 2 ",
            "ports = 2\nocs_ports = 6 ",
            "4 servers, a region of {rack} has at most 3",
        ),
    ],
)
def test_the_port_map_must_be_that_of_the_fabric(path, name, before, after, message):
    change(path.parent / name, before, after)
    region = read_region(path)
    with pytest.raises(PortMapError) as refusal:
        region.read_port_map(path.parent)
    rack = path.parent / "circuit-rack.toml"
    assert str(refusal.value) == f"{path.parent / 'ports.csv'}: {message.format(rack=rack)}"


@pytest.fixture
def live(path, monkeypatch):
    """The region of the example, on an emulated switch."""
    monkeypatch.setenv("OCS_PASSWORD", "root")
    with emulated(48) as emulator:
        change(path, "polatis+tl1://127.0.0.1:3082", emulator.url())
        yield path, emulator


def skewed(ranks):
    """Servers 0 and 3, and 1 and 2, send each other more than all others."""
    demand = np.full((ranks, ranks), 10**5, np.uint64)
    each = ranks // 4
    for a, b in ((0, 3), (1, 2)):
        for source, target in ((a, b), (b, a)):
            rows, columns = source * each, target * each
            demand[rows : rows + each, columns : columns + each] = 10**9
    return demand


def test_plan_and_apply(live, control, tmp_path):
    path, emulator = live
    np.save(tmp_path / "demand.npy", skewed(32))
    asked = ("--demand-file", tmp_path / "demand.npy")
    status, out, _ = control("plan", path, *asked)
    assert status == 0
    assert "  create       4  0/0-3/0  0/1-3/1  1/0-2/0  1/1-2/1" in out
    assert "expected time 25 ms" in out
    assert not emulator.matrix.circuits
    assert control("apply", path, *asked, "--yes")[0] == 0
    assert len(emulator.matrix.circuits) == 8
    change(path.parent / "circuit-rack.toml", "ports = 2 ", "ports = 3 ")
    change(path.parent / "circuit-rack.toml", "count = 6 ", "count = 5 ")
    status, _, err = control("plan", path, *asked)
    assert status == 2
    assert f"node0 has 2 optical NICs, {path.parent}/circuit-rack.toml says ports = 3" in err


def test_the_file_of_a_fabric_holds_up_no_service(live, control):
    """It counts from the next start: until then parts are drained whatever somebody tries in it."""
    path, emulator = live
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    rack = path.parent / "circuit-rack.toml"
    with served(path):
        change(rack, "ports = 2 ", "ports = 3 ")
        change(rack, "count = 6 ", "count = 5 ")
        assert control("drain", path, "nic:0/0")[0] == 0
        rack.write_text("not TOML")
        assert control("drain", path, "nic:2/0")[0] == 0
        assert control("service", path)[0] == control("audit", path)[0] == 0
        assert not emulator.matrix.circuits
        change(path.parent / "ports.csv", "node2,1,6,54\n", "")
        status, _, err = control("resume", path, "nic:2/0")
        assert (status, "node2 has 1 optical NICs, " in err) == (2, True)
        assert err.endswith("says ports = 2\n")
    assert control("drain", path, "nic:0/0")[2].startswith(f"lightloom: {rack}: not valid TOML")


def test_rules_that_a_service_does_not_have_yet_are_said(live, control, tmp_path):
    """``plan`` decides by the files, and a service by what it read at its start."""
    path, _ = live
    rack, asked = path.parent / "circuit-rack.toml", ("--add", "0/0-1/0")
    plan = tmp_path / "plan.json"
    until = "until lightloom control serve is started again, it decides by what it read then"
    with served(path):
        for words in (("service", path), ("plan", path, *asked, "--json", plan)):
            shown = control(*words)[1]
            assert "other rules" not in shown
            assert "" not in shown.splitlines()
        assert json.loads(plan.read_text())["rules_change"] == ""
        change(rack, '"25 ms"', '"26 ms"  # measured again')
        said = f"{rack} has changed since the service was started; {until}"
        for words in (("service", path), ("plan", path, *asked, "--json", plan)):
            status, out, _ = control(*words)
            assert (status, f"  other rules: {said}" in out.splitlines()) == (0, True)
        assert json.loads(plan.read_text())["rules_change"] == said
        change(rack, '"26 ms"', '"25 ms"')  # a comment is no rule
        assert "other rules" not in control("service", path)[1]
        rack.write_text("not TOML")
        assert (
            f"the service would not start by these files ({rack}: not valid TOML"
            in (control("service", path)[1])
        )
    rack.write_bytes(read_sample(rack.name))
    change(rack, '"25 ms"', '"26 ms"')
    assert "other rules" not in control("plan", path, *asked)[1]  # nobody serves it
    with served(path):
        assert "other rules" not in control("service", path)[1]  # which has read it anew


def test_what_is_out_of_service_is_not_forgotten_if_servers_shrink(live, control):
    path, _ = live
    assert control("drain", path, "gpu:1/6")[0] == 0
    head = "nics_per_server = 8"
    change(path.parent / "circuit-rack.toml", head, f"{head}\ngpus_per_server = 4")
    status, _, err = control("drain", path, "nic:0/0")
    assert (status, err) == (
        2,
        f"lightloom: {path.parent}/rack7.sqlite: out of service is gpu:1/6: server 1 has 4, "
        "counted from 0; resume it with the files as they were, then change them\n",
    )
    change(path.parent / "circuit-rack.toml", "gpus_per_server = 4", "")
    assert control("resume", path, "gpu:1/6")[0] == 0


def test_a_service_answers_by_the_rules_of_the_fabric(live):
    path, emulator = live

    async def ask():
        address = asyncio.get_running_loop().create_future()
        service = asyncio.create_task(serve(open_region(path, io.StringIO()), address.set_result))
        await asyncio.wait([service, address], return_when=asyncio.FIRST_COMPLETED)
        async with ControlClient(address.result(), token_for(path.parent / "rack7.token")) as job:
            carrying = (await job.request("join", server=0))["carrying"]
            reply = await job.circuits_for(skewed(job.region["ranks"]), job="moe", step=1, layer=1)
        service.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await service
        return carrying, reply

    carrying, reply = asyncio.run(ask())
    rules = read_region(path).rules
    assert carrying["rates"] == {
        "circuit_gbps": rules.circuit_gbps,
        "eps_gbps": rules.eps_gbps,
        "eps_nics": 6,
    }
    assert carrying["nics"] == [2, 2, 2, 2]
    assert set(map(tuple, reply["circuits"])) == pairs("0/0-3/0 0/1-3/1 1/0-2/0 1/1-2/1")
    assert len(emulator.matrix.circuits) == 8
