"""Collectives over circuits, on loopback: bit-equal, as planned, fenced, and never stuck."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.control_regions import emulated
from tests.torch_python import PYTHON, absent
from tests.unit.testbed.conftest import lacking

from lightloom.control.example import write_example
from lightloom.testbed import Testbed
from lightloom.testbed.ranks import run_ranks
from lightloom.testbed.service import serving
from lightloom.testbed.training import train

PROGRAM = Path(__file__).with_name("circuits_job.py")
PACKAGE = Path(__file__).parents[3] / "python"
RANKS = 8
#: variable with the controller's token: other users may read command lines
TOKEN = "CONTROLLER_TOKEN"
#: seconds of random faults
SECONDS = "120" if "LIGHTLOOM_SOAK" in os.environ else "2"
ENVIRONMENT = {"PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}

if absent("torch", "numpy", "pydantic"):
    pytest.skip("no PyTorch: make torch", allow_module_level=True)


def serve(path):
    """A controller as a process."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "lightloom", "control", "serve", path],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def served(folder, when="always", more=""):
    """A controller of four servers of two optical NICs; its address, token and process."""
    with emulated(settle_s=0.01) as emulator:
        path = write_example(
            folder, emulator.url(), servers=4, nics=2, size=12, name="r0", when=when
        )
        text = path.read_text().replace("_per_server = 8", "_per_server = 2")
        path.write_text(text.replace("eps_gbps = 800", "eps_gbps = 20\neps_nics = 2") + more)
        process = serve(path)
        socket, token = folder / "r0.sock", folder / "r0.token"
        deadline = time.monotonic() + 60
        while not socket.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, "the controller does not start"
            time.sleep(0.02)
        try:
            yield f"unix:{socket}", token.read_text().split()[-1], process
        finally:
            process.terminate()
            process.communicate(timeout=20)


def reports(folder, checks, *words, controller=None):
    """What each rank says."""
    variables = {}
    if controller is not None:
        words = (*words, "--controller", controller[0])
        variables[TOKEN] = controller[1]
    ran = subprocess.run(
        [PYTHON, PROGRAM, "--folder", folder, "--checks", checks, *words],
        env=ENVIRONMENT | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "Exception" not in ran.stderr, ran.stderr[-3000:]
    files = [folder / f"{rank}.json" for rank in range(RANKS)]
    return [json.loads(file.read_text()) if file.exists() else None for file in files]


@pytest.fixture(scope="module")
def packets(tmp_path_factory):
    return reports(tmp_path_factory.mktemp("packets"), "equal,sums,wrong,planned")


@pytest.fixture(scope="module")
def circuits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("circuits")
    with served(folder) as controller:
        return reports(folder, "equal,planned,monitored,gradients,fenced", controller=controller)


@pytest.mark.parametrize("check", ["equal", "sums"])
def test_rows_gradients_and_sums_are_those_of_plain_collectives(packets, check):
    assert [report[check] for report in packets] == ["equal"] * RANKS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("splits", "InputError: rank 2: 7 splits: expected one for each of the 8 ranks"),
        ("sum", "InputError: rank 3: splits add up to 16: expected the 8 rows of x"),
        ("type", "InputError: ranks 0 and 5 disagree: all_to_all of rows of 4 float32 and all_"),
        ("scalar", "InputError: rank 0: x is a scalar: expected rows along its first dimension"),
    ],
)
def test_what_is_wrong_on_one_rank_is_said_on_every_rank(packets, name, text):
    for report in packets:
        assert report["wrong"][name].startswith(text)


def test_bytes_of_packet_nics_are_planned(packets):
    for report in packets:
        assert (report["planned"]["circuits"], report["planned"]["optical_bytes"]) == (0, 0)
        assert all(nic.startswith("eps:") for nic in report["planned"]["sent"])


def test_bytes_of_circuits_are_planned(circuits):
    for report in circuits:
        assert report["planned"]["circuits"] > 0
        assert report["planned"]["optical_bytes"] > 10**6


def test_all_is_equal_over_circuits(circuits):
    assert [report["equal"] for report in circuits] == ["equal"] * RANKS


def test_no_byte_is_sent_into_the_dark(circuits):
    assert sum(report["fenced"]["over_circuits"] for report in circuits) > 10**6
    for report in circuits:
        assert report["fenced"]["changes"] >= 40
        assert report["fenced"]["fences"] >= 40


def test_predicted_demand_is_decided_on(circuits):
    assert all(len(report["monitored"]) == 3 for report in circuits)


def test_circuits_follow_the_demand_of_gradients_too(circuits):
    for report in circuits:
        # forward through two layers, of which the second is last: its gradients have its circuits
        assert report["gradients"] == [False, False, True, False, False, False, True, False]


def test_bytes_of_relays_are_planned(tmp_path):
    with served(tmp_path, more="\n[relay]\n") as controller:
        found = reports(tmp_path, "equal,planned,fenced", "--changes", "6", controller=controller)
    for report in found:
        assert report["equal"] == "equal"
        assert report["planned"]["hops"] == 2


def test_streams_that_break_lose_nothing(tmp_path):
    words = ("--seconds", SECONDS)
    with served(tmp_path) as controller:
        found = reports(tmp_path, "troubled,broken", *words, controller=controller)
    assert sum(report["troubled"]["faults"] for report in found) > 20
    assert all(report["troubled"]["steps"] > 3 for report in found)
    assert sum(report["broken"]["mended"] for report in found) >= 8
    assert {"nic:1/0", "eps:1/1"} <= set(found[0]["broken"]["failures"])


def test_a_server_without_packet_nics_goes_on_over_circuits(tmp_path):
    with served(tmp_path) as controller:
        found = reports(tmp_path, "cut_off", controller=controller)
    assert [report["cut_off"] for report in found] == ["equal"] * RANKS


def test_a_lost_rank_is_one_error_on_every_other(tmp_path):
    found = reports(tmp_path, "lost", "--timeout", "4")
    assert found[5] is None
    for rank, report in enumerate(found):
        if rank != 5:
            text, seconds = report["lost"]
            assert text.startswith(f"RankError: rank {rank}: rank 5 does not answer"), text
            assert seconds < 10


def test_a_hung_rank_is_one_error_on_every_other(tmp_path):
    found = reports(tmp_path, "hung", "--timeout", "3")
    for rank, report in enumerate(found):
        text, seconds = report["hung"]
        assert text.startswith(f"RankError: rank {rank}: ")
        if rank != 5:
            assert text.endswith(": rank 5 does not answer"), text
            assert seconds < 10


def test_without_its_controller_a_job_goes_on_over_packets_until_it_is_back(tmp_path):
    with served(tmp_path) as controller:
        restarting = threading.Thread(target=restart, args=(tmp_path, controller[2]))
        restarting.start()
        found = reports(tmp_path, "controller", controller=controller)
        restarting.join()
    (said,) = found[0]["controller"]["said"]
    assert said.startswith("all bytes take the packet network: ")
    assert all(report["controller"]["said"] == [] for report in found[1:])
    assert all(report["controller"]["circuits"] > 0 for report in found)


def restart(folder, process):
    """Kill a controller when the job asks for it, and start it again; end it with the job."""
    wait_for(folder / "kill")
    process.kill()
    process.wait()
    (folder / "killed").touch()
    wait_for(folder / "restart")
    again = serve(folder / "r0.toml")
    wait_for(folder / "0.json")
    again.terminate()
    again.communicate(timeout=20)


def wait_for(path, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


SIZES = {"servers": 4, "nics": 4, "rate_gbps": 0.2, "settle_time": "20ms"}


def run_in(testbed, folder, checks, *words):
    """Run the program in the servers of a testbed; what the first rank says."""
    said = []
    words = [PYTHON, PROGRAM, "--folder", folder, "--checks", checks, *words]
    ended = run_ranks(testbed, list(map(str, words)), said.append)
    assert not any(rank.status for rank in ended), "\n".join(said[-40:])
    return json.loads((folder / "0.json").read_text())


@pytest.fixture
def testbed(tmp_path, monkeypatch):
    """Four servers in the kernel whose circuits a controller serves."""
    if reason := lacking():
        pytest.skip(reason)
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with Testbed.up(tmp_path / "up", **SIZES) as made, serving(made):
        yield made


def test_in_namespaces_the_kernel_counts_what_is_planned(testbed, tmp_path):
    run_in(testbed, tmp_path, "equal,fenced", "--changes", "6")
    before = testbed.counters()
    found = run_in(testbed, tmp_path, "planned")["planned"]
    after = testbed.counters()
    assert found["circuits"] > 0
    assert any(part.startswith("nic:") for part in found["sent"])
    for part, size in found["sent"].items():
        counted = after[part].sent_bytes - before[part].sent_bytes
        if part.startswith("nic:"):
            # headers of frames, and acknowledgments; gloo is on packet NICs alone
            assert size <= counted <= 1.1 * size + 50_000, part


def test_in_namespaces_a_ring_takes_all_packet_nics_of_its_rank(tmp_path, monkeypatch):
    if reason := lacking():
        pytest.skip(reason)
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with Testbed.up(tmp_path / "up", **SIZES | {"nics": 2, "eps_nics": 2}) as testbed:
        run_in(testbed, tmp_path, "large_sum")
        sent = {part: count.sent_bytes for part, count in testbed.counters().items()}
    for server in range(SIZES["servers"]):
        # 3/4 of 2 MB in two rounds, a half by each NIC; gloo is on the first one
        assert sent[f"eps:{server}/1"] == pytest.approx(1.5e6, rel=0.05)
        assert sent[f"eps:{server}/0"] == pytest.approx(1.5e6, rel=0.15)


def test_in_namespaces_losses_are_equal_under_every_policy(testbed):
    losses = {}
    for policy in ("packets", "break-even"):
        steps = train(testbed, steps=2, policy=policy, python=PYTHON, say=lambda _step: None)
        losses[policy] = [step.loss for step in steps]
        assert [step.step for step in steps] == [0, 1]
        # a dispatch and a combine of two layers, and the gradients of all four
        assert all(len(step.all_to_alls) == 8 for step in steps)
    assert losses["packets"] == losses["break-even"]
    assert losses["packets"][1] < losses["packets"][0]


def test_in_namespaces_a_nic_that_fails_loses_nothing(testbed, tmp_path):
    def fail():
        wait_for(tmp_path / "begun")
        for circuit in testbed.circuits()[:1]:
            testbed.fail(f"nic:{circuit.server}/{circuit.nic}")

    failing = threading.Thread(target=fail)
    failing.start()
    found = run_in(testbed, tmp_path, "endured", "--seconds", "6")["endured"]
    failing.join()
    assert found["steps"] > 5
    assert found["longest_s"] < 6
    assert testbed.failed()
    assert testbed.failed()[0] in found["failures"]
