"""``lightloom testbed``: what it says, and how it refuses."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from tests.unit.testbed.conftest import lacking

from lightloom.testbed import Testbed, probe
from lightloom.testbed.refusals import KernelError
from lightloom.testbed.tools import KernelTools

UP = "testbed up --servers 2 --nics 2 --rate 50M --settle-time 20ms"


@pytest.fixture
def folder(tmp_path):
    """A folder whose testbed is removed after the test."""
    place = tmp_path / "lab"
    yield place
    Testbed.clear(place)


@pytest.fixture
def up(lightloom, folder):
    """A testbed that is up."""
    if reason := lacking():
        pytest.skip(reason)
    done = lightloom(f"{UP} --dir {folder}")
    assert done.status == 0
    return done


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("testbed up --servers 0", "--servers 0: expected at least 2"),
        ("testbed up --servers two", "--servers two: expected a whole number"),
        ("testbed up --nics 17", "--nics 17: expected at most 16"),
        ("testbed up --eps-nics 5", "--eps-nics 5: expected at most 4, the NICs of a server"),
        ("testbed up --rate 0", "--rate 0: expected at least 0.001"),
        ("testbed up --rate 25ms", "--rate 25ms: cannot read '25ms' as a rate such as 400, 400G or "
         "'400 Gb/s'"),
        ("testbed up --rate 40G", "16 NICs with 640 Gb/s in sum: expected at most 8, which the "
         "processors of this machine carry; lower --rate"),
        ("testbed up --ranks-per-server 0", "--ranks-per-server 0: expected at least 1"),
        ("testbed up --settle-time soon", "settle time 'soon': expected measured, a time such as "
         "'20 ms', or a file with one time per line"),
        ("testbed status --dir {folder}", "no testbed is up in {folder}; make one: lightloom "
         "testbed up"),
        ("testbed fail nic:0/0 --dir {folder}", "no testbed is up in {folder}; make one: lightloom "
         "testbed up"),
        ("testbed run --dir {folder} -- true", "no testbed is up in {folder}; make one: lightloom "
         "testbed up"),
        ("testbed run", "PROGRAM is missing (The command, after --); for example: lightloom "
         "testbed run -- python train.py"),
        ("testbed fail", "PART is missing (Part such as nic:2/1 (server/NIC), eps:2/0, server:2 or "
         "switch:ocs); for example: lightloom testbed fail nic:2/1"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(lightloom, monkeypatch, folder, command, expected):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setenv("LIGHTLOOM_TESTBED", str(folder))
    done = lightloom(command.format(folder=folder))
    assert (done.status, done.out) == (2, "")
    assert done.err == f"lightloom: {expected.format(folder=folder)}\n"
    assert not folder.exists()


def test_down_without_up_has_nothing_to_do(lightloom, folder):
    done = lightloom(f"testbed down --dir {folder}")
    assert (done.status, done.out) == (0, "no testbed is up: nothing to do\n")
    assert not folder.exists()


def test_up_says_what_to_do_next(lightloom, up, folder):
    assert up.out.splitlines() == [
        f"2 servers are up in {folder}. Each has",
        "  1 x 50 Mb/s at the packet switch: eps0",
        "  1 x 50 Mb/s at the circuit switch: nic0; no circuit is lit yet",
        "Next:",
        f"  lightloom control serve {folder}/region.toml",
        f"  lightloom testbed run --dir {folder} -- python train.py",
        f"  lightloom testbed status --dir {folder}",
        f"  lightloom testbed down --dir {folder}",
    ]
    again = lightloom(f"{UP} --dir {folder}")
    assert again.status == 2
    assert again.err == (
        f"lightloom: a testbed is up in {folder}; remove it first (lightloom testbed down), or put "
        "this one elsewhere (--dir)\n"
    )
    plan = lightloom(f"control plan {folder}/region.toml --add 0/0-1/0")
    assert plan.status == 0
    assert "0/0-1/0" in plan.out


@pytest.mark.usefixtures("up")
def test_circuits_that_an_operator_applies_are_lit(lightloom, folder):
    """The commands of the how-to, from a region's file to a table of what is joined."""
    apply = f"control apply {folder}/region.toml --add 0/0-1/0 --yes"
    assert lightloom(apply).status == 0
    table = lightloom(f"testbed status --dir {folder}").out
    assert max(map(len, table.splitlines())) <= 80
    assert "nic:1/0" in next(line for line in table.splitlines() if line.startswith(" nic:0/0"))
    assert table.splitlines()[-1] == "every part works"
    assert lightloom(f"testbed fail nic:0.0 --dir {folder}").out == "failed: nic:0/0\n"
    content = json.loads(lightloom(f"testbed status --dir {folder} --json -").out)
    assert content["failed"] == ["nic:0/0"]
    assert content["circuits"] == []
    assert [nic["part"] for nic in content["nics"]] == ["eps:0/0", "nic:0/0", "eps:1/0", "nic:1/0"]
    unknown = lightloom(f"testbed fail nic:2/0 --dir {folder}")
    assert unknown.err == "lightloom: nic:2/0: expected a server from 0 to 1\n"
    assert lightloom(f"testbed repair nic:0/0 --dir {folder}").out == "every part works\n"
    assert lightloom(f"testbed down --dir {folder}").out == "the testbed is removed\n"
    assert not folder.exists()


@pytest.mark.usefixtures("up")
def test_a_command_runs_in_every_server_or_in_one(folder):
    def run(*words):
        command = [sys.executable, "-m", "lightloom", "testbed", "run", "--dir", folder, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("--", "sh", "-c", "echo server $LIGHTLOOM_SERVER; echo --json")
    assert sorted(done.stdout.splitlines()) == [
        "[0] --json", "[0] server 0", "[1] --json", "[1] server 1"
    ]  # fmt: skip
    assert done.returncode == 0
    one = run("--server", "1", "--", "sh", "-c", "ip -brief link; exit 3")
    assert one.returncode == 3
    assert {line.split("@")[0].split()[0] for line in one.stdout.splitlines()} == {
        "lo", "eps0", "nic0"
    }  # fmt: skip
    assert run("--server", "2", "--", "true").stderr == (
        "lightloom: server 2: expected a server from 0 to 1\n"
    )
    assert run("--", "sh", "-c", "exit $((RANK + 4))").returncode in {4, 5}


def test_what_the_kernel_lacks_is_named(lightloom, monkeypatch, folder):
    """A kernel without a module, of which ``tc`` says that some argument is invalid."""
    if reason := lacking():
        pytest.skip(reason)
    absent = probe._Feature("ip", "link add c0 type nonsense", "nonsense (module nonsense)")
    monkeypatch.setattr(probe, "_FEATURES", (*probe._FEATURES, absent))

    def refuse(*_):
        raise KernelError("ip: Error: Unknown device type.")

    monkeypatch.setattr(KernelTools, "make", refuse)
    done = lightloom(f"{UP} --dir {folder}")
    assert (done.status, done.err) == (
        2, "lightloom: this kernel has no nonsense (module nonsense)\n"
    )  # fmt: skip
    assert not folder.exists()


@pytest.mark.parametrize("missing", ["ip", "tc", "nsenter"])
def test_a_missing_program_is_named(lightloom, monkeypatch, folder, missing):
    monkeypatch.setattr(probe.shutil, "which", lambda name: None if name == missing else name)
    done = lightloom(f"{UP} --dir {folder}")
    package = "util-linux" if missing == "nsenter" else "iproute2"
    line = f"lightloom: {missing} is not installed; install the package {package}\n"
    assert (done.status, done.err) == (2, line)
    assert not folder.exists()


def test_who_may_not_make_namespaces_is_told_so(folder):
    """Root of a container, without rights: neither namespaces as root nor as a user."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root has rights to give up")
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m"]
    command += ["lightloom", *UP.split(), "--dir", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        pytest.skip("this kernel gives user namespaces to a root without rights")
    (line,) = done.stderr.splitlines()
    assert line.startswith("lightloom: this kernel gives no user namespaces to this user (")
    assert "run as root (in a container: --privileged), or allow them: sysctl user." in line
    assert (done.returncode, done.stdout) == (2, "")
    assert not folder.exists()
