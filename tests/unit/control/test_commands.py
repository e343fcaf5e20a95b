"""The commands of ``lightloom control``, against an emulator in another thread."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.control_regions import emulated

from lightloom.cli import run_command
from lightloom.control.client import ControlClient
from lightloom.control.emulator import FaultKind
from lightloom.control.example import write_example
from lightloom.control.refusals import ControlError
from lightloom.control.token import token_for


@pytest.fixture
def region(tmp_path):
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12, when="always")
        yield path, emulator


@pytest.fixture
def lightloom(capfd):
    def run(*words):
        status = run_command(list(map(str, words)))
        out, err = capfd.readouterr()
        return status, out, err

    return run


def circuits_file(region, text):
    path = region.parent / "circuits.txt"
    path.write_text(text)
    return path


def test_plan_shows_and_apply_does(region, lightloom):
    path, emulator = region
    wanted = circuits_file(path, "0/0-1/0 1/1-2/0  # two\n2/1-3/0\n")
    status, out, _ = lightloom("control", "plan", path, "--circuits", wanted)
    assert status == 0
    assert out.splitlines() == [
        "region: ready; 4 servers, 8 NICs on ocs; 0 circuits held",
        "circuits of circuits.txt",
        "  create       3  0/0-1/0  1/1-2/0  2/1-3/0",
        "  move         0",
        "  delete       0",
        "  unchanged    0",
        "  expected time 42.15 ms",
        out.splitlines()[-1],
    ]
    assert re.fullmatch(
        r"  light +.* dBm at the weakest receiver \(.* of ocs, within\)", out.splitlines()[-1]
    )
    assert not emulator.matrix.circuits
    status, out, err = lightloom("control", "apply", path, "--circuits", wanted, "--yes")
    assert status == 0
    assert re.match(r"done \(change 1\) in .*: 3 circuits", out.splitlines()[-1])
    assert '"event": "changed"' in err
    assert len(emulator.matrix.circuits) == 6
    status, out, _ = lightloom("control", "watch", path, "--once")
    assert out.splitlines()[0] == "region: ready; 4 servers, 8 NICs on ocs; 3 circuits held"
    assert out.splitlines()[1] == (
        "  ocs: Polatis emulated 12x12, serial 000001, software lightloom"
    )
    assert re.fullmatch(r"  0/0-1/0  1-15: \d\.\d dB  3-13: \d\.\d dB", out.splitlines()[2])
    status, out, _ = lightloom("control", "plan", path, "--clear")
    assert "  delete       3  0/0-1/0  1/1-2/0  2/1-3/0" in out
    assert lightloom("control", "apply", path, "--clear", "--yes")[0] == 0
    assert not emulator.matrix.circuits
    status, out, _ = lightloom("control", "rollback", path)
    assert "  create       3" in out
    assert not emulator.matrix.circuits
    assert lightloom("control", "rollback", path, "--change", 2, "--apply", "--yes")[0] == 0
    assert len(emulator.matrix.circuits) == 6
    status, out, _ = lightloom("control", "audit", path)
    lines = out.splitlines()
    assert [line.split()[3] for line in lines] == ["roll-back", "apply", "apply"]
    assert "+3 -0" in lines[0]
    assert "+0 -3" in lines[1]
    status, out, _ = lightloom("control", "audit", path, "--json", "-", "--last", 1)
    (entry,) = json.loads(out)["changes"]
    assert entry["outcome"]["after"] == ["0/0-1/0", "1/1-2/0", "2/1-3/0"]
    status, out, _ = lightloom("control", "audit", path, "--html", path.parent / "audit.html")
    page = (path.parent / "audit.html").read_text()
    assert "<h1>region: 3 circuits between 4 servers</h1>" in page
    assert page.count("<td>roll-back</td>") == 1
    assert page.count("<td>apply</td>") == 2
    assert 'download="changes.json"' in page


def test_demand_from_a_file(region, lightloom, tmp_path):
    path, emulator = region
    demand = np.zeros((32, 32), np.uint64)
    demand[0, 31] = 10**9
    np.save(tmp_path / "demand.npy", demand)
    status, out, _ = lightloom(
        "control", "apply", path, "--demand-file", tmp_path / "demand.npy", "--yes"
    )
    assert status == 0
    assert "0/0-3/0" in out
    assert emulator.matrix.circuits


def test_drift_is_shown_reapplied_and_adopted(region, lightloom):
    path, emulator = region
    wanted = circuits_file(path, "0/0-1/0 2/1-3/0")
    lightloom("control", "apply", path, "--circuits", wanted, "--yes")
    emulator.matrix.change([1, 3], [])
    _, out, _ = lightloom("control", "plan", path, "--reapply")
    assert "drifted" in out.splitlines()[0]
    assert "drift: 1 circuit missing (0/0-1/0)" in out
    assert lightloom("control", "apply", path, "--circuits", wanted, "--yes")[2].splitlines()[
        -1
    ] == ("lightloom: region: drifted: 1 circuit missing (0/0-1/0); reapply or adopt first")
    assert lightloom("control", "apply", path, "--reapply", "--yes")[0] == 0
    assert len(emulator.matrix.circuits) == 4
    emulator.matrix.change([1, 3], [])
    assert lightloom("control", "plan", path, "--adopt")[0] == 0
    _, out, _ = lightloom("control", "apply", path, "--adopt", "--yes")
    assert out.splitlines()[-1] == "adopted: 1 circuit"


def test_a_change_that_fails_in_part_says_so(region, lightloom):
    path, emulator = region
    emulator.faults.next_change(FaultKind.STUCK, ports=(1,))
    wanted = circuits_file(path, "0/0-1/0 2/1-3/0")
    status, out, err = lightloom("control", "apply", path, "--circuits", wanted, "--yes")
    assert status == 2
    assert "  0/0-1/0: 1-15 of ocs was accepted, but the switch does not have it" in out
    assert err.splitlines()[-1] == "lightloom: not as wanted: 1 circuit (failed); see above"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0/0-1", "'0/0-1': expected a circuit such as 0/1-3/0"),
        ("0/0-1/0\n0/0-2/0", "line 2: 0/0-2/0: NIC 0/0 ends two circuits"),
        ("0/0-9/0", "line 1: 0/0-9/0: server 9 has no NIC 0"),
        ("0/0-0/1", "line 1: 0/0-0/1: a circuit joins two servers"),
    ],
)
def test_wrong_circuits(region, lightloom, text, message):
    path, emulator = region
    wanted = circuits_file(path, text)
    status, _, err = lightloom("control", "apply", path, "--circuits", wanted, "--yes")
    assert status == 2
    last = err.splitlines()[-1]
    assert last.startswith("lightloom: ")
    assert last.endswith(message)
    assert not emulator.matrix.circuits


def edit(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('user = "admin"', 'user = "nobody"', r"switch 127.0.0.1:\d+: login refused"),
        ('"password"', '"none"', r".*none: no such file"),
        ("polatis+tl1://", "polatis+tl2://", r"switch URL: unknown scheme 'polatis\+tl2': .*"),
        ("admin", 'admin@x"\nurl2 = "', r".*region.toml: unknown key 'switches.ocs.url2'; .*"),
        (
            "polatis+tl1://",
            "polatis+tl1://admin:root@",
            "switches: a password in a URL would be logged; use password_file",
        ),
        (
            'password_file = "password"',
            'password_env = "LIGHTLOOM_NO_SUCH"',
            r"environment variable LIGHTLOOM_NO_SUCH is not set",
        ),
        ("ports.csv", "ports.cvs", r".*ports.cvs: no such file"),
        ("[job]", "[jobs]", r".*region.toml: unknown key 'jobs'; did you mean 'job'\?"),
        ("always", "alway", r".*policy.when = alway: expected one of .*"),
        ("link_up_s = 0", 'link_up_s = "1 m"', r".*timing.link_up_s = 1 m: .*"),
    ],
)
def test_a_wrong_region_gets_one_line(region, lightloom, before, after, message):
    path, _ = region
    edit(path, before, after)
    status, out, err = lightloom("control", "plan", path, "--clear")
    assert (status, out) == (2, "")
    assert re.fullmatch(f"lightloom: {message}\n", err)


def test_a_wrong_password_is_not_shown(region, lightloom):
    path, _ = region
    (path.parent / "password").write_text("hunter2-secret")
    for words in (("plan", path, "--clear"), ("apply", path, "--clear"), ("watch", path)):
        status, out, err = lightloom("control", *words)
        assert status == 2
        assert "hunter2" not in out + err
        assert len([line for line in err.splitlines() if line.startswith("lightloom:")]) == 1


def test_a_switch_that_is_not_there(tmp_path, lightloom):
    path = write_example(tmp_path, "polatis+tl1://127.0.0.1:1", servers=2, nics=1, size=4)
    status, _, err = lightloom("control", "apply", path, "--clear", "--yes")
    assert status == 2
    assert re.fullmatch(r"lightloom: switch 127\.0\.0\.1:1: Connect call failed.*\n", err)


def test_targets_exclude_each_other(region, lightloom):
    path, _ = region
    assert lightloom("control", "plan", path)[2] == (
        "lightloom: expected one of --demand-file, --circuits, --add or --remove, --clear, "
        "--reapply, --adopt; got none\n"
    )
    assert lightloom("control", "plan", path, "--clear", "--adopt")[2].endswith(
        "got --clear and --adopt\n"
    )


def test_audit_without_a_journal(region, lightloom):
    path, _ = region
    assert (
        "no such file; nothing was changed in region so far"
        in (lightloom("control", "audit", path)[2])
    )


def test_the_group_lists_its_commands(lightloom):
    status, out, _ = lightloom("control", "--help")
    assert status == 0
    assert re.search(r"^  apply +Change the circuits of a region\.$", out, re.MULTILINE)
    assert "lightloom control plan --help" in out
    assert lightloom("control", "aplpy")[2].startswith("lightloom: no command 'aplpy'; did you")


def start_service(path):
    command = [sys.executable, "-m", "lightloom", "control", "serve", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_until_it_is_stopped(region, lightloom, number):
    path, emulator = region
    process, address = start_service(path)
    try:
        assert address == f"unix:{path.parent / 'region.sock'}"
        token = token_for(path.parent / "region.token")

        async def use():
            async with ControlClient(address, token) as client:
                demand = np.zeros((32, 32), np.uint64)
                demand[0, 31] = 10**9
                return await client.circuits_for(demand, job="j", step=1, layer=1)

        assert asyncio.run(use())["result"] == "done"
        status, out, _ = lightloom("control", "apply", path, "--remove", "0/0-3/0", "--yes")
        assert status == 0
        assert re.match(r"done \(change 2\) in ", out.splitlines()[-1])
        process.send_signal(number)
        _, log = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert events[-1] == "stopped"
    assert "changed" in events
    assert token not in log
    assert not (path.parent / "region.sock").exists()
    assert len(emulator.matrix.circuits) > 0
    assert (
        lightloom("control", "apply", path, "--clear", "--yes")[0] == 0
    )  # the lease is free at once


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_change_in_flight_is_completed(tmp_path, lightloom, number):
    with emulated(settle_s=1.0) as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12)
        wanted = circuits_file(path, "0/0-1/0 2/0-3/0")
        command = [sys.executable, "-m", "lightloom", "control", "apply", str(path), "--yes"]
        process = subprocess.Popen(
            [*command, "--circuits", str(wanted)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        while not emulator.matrix.circuits:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode == 130
        assert len(emulator.matrix.circuits) == 4
        _, out, _ = lightloom("control", "audit", path, "--json", "-")
        (entry,) = json.loads(out)["changes"]
        assert entry["outcome"]["result"] == "done"


def test_a_service_that_was_killed_leaves_no_lease(region, lightloom):
    path, _ = region
    process, address = start_service(path)
    assert address
    process.kill()
    process.communicate()
    time.sleep(0.05)
    assert lightloom("control", "apply", path, "--clear", "--yes")[0] == 0
    process, address = start_service(path)  # and the socket of the dead one is in nobody's path
    assert address
    process.terminate()
    process.communicate()


@pytest.fixture
def two_regions(tmp_path):
    with emulated() as first, emulated() as second:
        paths = []
        for name, emulator in (("rack7", first), ("rack8", second)):
            folder = tmp_path / name
            folder.mkdir()
            url = emulator.url()
            paths.append(write_example(folder, url, servers=4, nics=2, size=12, name=name))
        yield paths, (first, second)


def test_several_regions_are_one_table(two_regions, lightloom):
    paths, (_, second) = two_regions
    lightloom("control", "apply", paths[0], "--add", "0/0-1/0", "--yes", "--quiet")
    second.matrix.change([], [(1, 13)])
    status, out, _ = lightloom("control", "watch", *paths, "--once")
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [
        ["region", "state", "circuits", "missing", "others'", "alarms", "remarks"],
        ["rack7", "ready", "1", "0", "0", "0"],
        ["rack8", "drifted", "0", "0", "1", "0"],
    ]
    ports = paths[1].parent / "ports.csv"
    ports.write_text(ports.read_text().replace("node3,1,8,20", "node3,1,9,21"))
    lightloom("control", "apply", paths[1], "--adopt", "--yes", "--quiet")  # writes the first map
    ports.write_text(ports.read_text().replace("node3,1,9,21", "node3,1,8,20"))
    lines = lightloom("control", "watch", *paths, "--once")[1].splitlines()
    assert "port map has changed: " in lines[2]


def test_a_region_that_cannot_be_read_hides_no_other(two_regions, lightloom):
    paths, _ = two_regions
    text = paths[0].read_text()
    paths[0].write_text(re.sub("127.0.0.1:[0-9]+", "127.0.0.1:1", text))
    status, out, err = lightloom("control", "watch", *paths, "--once", "--json", "-", "--quiet")
    assert (status, err) == (2, "lightloom: 1 of 2 regions could not be read; see above\n")
    first, second = json.loads(out)["regions"]
    assert first["region"] == {"name": "rack7"}
    assert "Connect call failed" in first["error"]
    assert second["region"]["state"] == "ready"
    out = lightloom("control", "watch", *paths, "--once")[1].splitlines()
    assert out[1].startswith("rack7   not read ")
    assert out[2].split()[:2] == ["rack8", "ready"]
    paths[1].write_text("name = 1")  # a file that is wrong is no region at all
    status, out, err = lightloom("control", "watch", *paths, "--once")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


def test_several_regions_are_reported_when_one_changes(two_regions):
    paths, (first, _) = two_regions
    command = [sys.executable, "-m", "lightloom", "control", "watch", *map(str, paths)]
    process = subprocess.Popen(
        [*command, "--every", "50ms", "--json", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    try:
        for expected in ("ready", "drifted"):
            regions = json.loads(process.stdout.readline())["regions"]
            assert [one["region"]["state"] for one in regions] == [expected, "ready"]
            first.matrix.change([], [(1, 13)])
    finally:
        process.kill()
        process.communicate()


def test_watch_reports_each_change_as_a_line_of_json_and_ends_with_its_reader(region, lightloom):
    path, emulator = region
    wanted = circuits_file(path, "0/0-1/0 2/1-3/0")
    assert lightloom("control", "apply", path, "--circuits", wanted, "--yes")[0] == 0
    command = [sys.executable, "-m", "lightloom", "control", "watch", str(path)]
    process = subprocess.Popen(
        [*command, "--every", "50ms", "--json", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    try:
        first = json.loads(process.stdout.readline())
        assert first["region"]["state"] == "ready"
        assert first["region"]["held"] == ["0/0-1/0", "2/1-3/0"]
        pairs = dict(emulator.matrix.circuits)
        emulator.matrix.change([1, 3], [])
        second = json.loads(process.stdout.readline())
        assert second["region"]["drift"]["missing"] == ["0/0-1/0"]
        assert second["at"] > first["at"]
        process.stdout.close()
        emulator.matrix.change([], [(port, pairs[port]) for port in (1, 3)])
        assert process.wait(timeout=60) == 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--circuits", "nowhere.txt"), "nowhere.txt: no such file"),
        (("--circuits", ""), "--circuits '': expected a name or path"),
        (("--circuits", "wrong.txt"), "wrong.txt, line 1: 'x': expected a circuit such as 0/1-3/0"),
        (("--demand-file", "nowhere.npy"), "nowhere.npy: no such file"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_wrong_files_are_one_line_before_a_switch_is_reached(
    lightloom, tmp_path, monkeypatch, command, words, message
):
    monkeypatch.chdir(tmp_path)
    path = write_example(tmp_path, "polatis+tl1://127.0.0.1:1", servers=4, nics=2, size=12)
    (tmp_path / "wrong.txt").write_text("x\n")
    assert lightloom("control", command, path, *words) == (2, "", f"lightloom: {message}\n")


@pytest.mark.parametrize("command", ["plan", "apply", "watch", "serve", "rollback", "audit"])
def test_files_of_the_region_are_not_replaced(region, lightloom, command):
    path, _ = region
    lightloom("control", "apply", path, "--clear", "--yes")
    target = ("--clear",) if command in ("plan", "apply") else ()
    named = [next(path.parent.glob(f"*{ending}")) for ending in (".csv", ".sqlite")]
    for place in (path, *named):
        before = place.read_bytes()
        status, out, err = lightloom("control", command, path, *target, "--json", place)
        assert (status, out) == (2, "")
        reasons = ("is read as well; write results to another file", "ends in .json or .json.gz")
        assert err.endswith(tuple(f"{reason}\n" for reason in reasons))
        assert f"{place}: " in err
        assert place.read_bytes() == before


def test_a_change_beyond_any_number_is_none(region, lightloom):
    path, _ = region
    status, _, err = lightloom("control", "rollback", path, "--change", 10**20)
    assert status == 2
    assert err.splitlines()[-1].endswith(f"region has no change {10**20}")


def test_quiet_leaves_out_the_log(region, lightloom):
    path, emulator = region
    wanted = circuits_file(path, "0/0-1/0\n")
    status, out, err = lightloom("control", "apply", path, "--circuits", wanted, "--quiet", "--yes")
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == "circuits of circuits.txt"
    assert len(emulator.matrix.circuits) == 2


def test_nothing_that_others_wrote_does_anything_to_the_terminal(region, lightloom, monkeypatch):
    path, _ = region
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    monkeypatch.setattr("lightloom.control.operator.user_name", lambda _number: f"job{evil}")
    wanted = circuits_file(path, "0/0-1/0\n")
    assert lightloom("control", "apply", path, "--circuits", wanted, "--yes")[0] == 0
    status, out, err = lightloom("control", "audit", path)
    assert status == 0
    assert "\\x1b[2J" in out

    def refuses(*_):
        raise ControlError(f"switch: {evil}")

    monkeypatch.setattr("lightloom.control.controller.RegionController.apply", refuses)
    status, refused_out, refused_err = lightloom(
        "control", "apply", path, "--clear", "--yes", "--verbose"
    )
    assert status == 2
    for text in (out, err, refused_out, refused_err):
        assert all(line.isprintable() for line in text.splitlines())
        assert "\x1b" not in text
