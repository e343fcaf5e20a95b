"""Testbeds in the kernel: what carries frames, what is dark, what is left behind."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.unit.testbed.conftest import SIZES, lacking, output

from lightloom.control.client import ControlClient
from lightloom.errors import LightloomError
from lightloom.testbed import Testbed, daemon
from lightloom.testbed.ranks import run_here, run_ranks
from lightloom.testbed.self_test import SwitchSession, streams
from lightloom.testbed.service import serving

pytestmark = pytest.mark.usefixtures("kernel")


def nic(testbed, server, device="nic0"):
    return next(nic for nic in testbed.layout.nics_of(server) if nic.device == device)


def lit(testbed):
    return [str(circuit) for circuit in testbed.circuits()]


def eventually(true, limit_s=3.0):
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


class Datagrams:
    """Sockets at NICs, each in its server, by which single frames are sent and waited for."""

    def __init__(self, testbed):
        self._testbed, self._sockets = testbed, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for opened in self._sockets.values():
            opened.close()

    def at(self, place):
        """The socket at a NIC."""

        def work():
            # a socket stays in the namespace of the thread that has opened it
            self._testbed.enter(place.server)
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            opened.bind((place.address, 5300))
            self._sockets[place.part] = opened

        if place.part not in self._sockets:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return self._sockets[place.part]

    def arrives(self, a, b, wait_s=0.1):
        """Whether a frame from one NIC arrives at another."""
        sender, receiver = self.at(a), self.at(b)
        receiver.settimeout(wait_s)
        word = os.urandom(8)
        sender.sendto(word, (b.address, 5300))
        try:
            while receiver.recv(64) != word:
                pass
        except TimeoutError:
            return False
        return True


@pytest.fixture
def datagrams(whole):
    if whole.is_rootless:
        pytest.skip("a thread of a process with several cannot enter a user namespace")
    with Datagrams(whole) as opened:
        yield opened


def test_a_cross_connect_over_tl1_carries_frames_and_a_dark_port_none(whole, datagrams):
    a, b, c = (nic(whole, server) for server in range(3))
    assert not datagrams.arrives(a, b)
    with SwitchSession(whole) as switch:
        switch.connect((a, b))
        assert lit(whole) == ["0/0-1/0"]
        # at once: it was lit before the switch said that it had settled
        assert datagrams.arrives(a, b)
        assert datagrams.arrives(b, a)
        assert not datagrams.arrives(a, c)
        assert not datagrams.arrives(c, a)
        switch.connect((a, c))
        assert lit(whole) == ["0/0-2/0"]
        assert datagrams.arrives(a, c)
        assert not datagrams.arrives(a, b)
        switch.clear()
    assert lit(whole) == []
    assert not datagrams.arrives(a, c)


def test_any_nic_meets_any_other_without_a_new_address(whole, datagrams):
    """A NIC whose routes or neighbors know one peer alone."""
    a, b = nic(whole, 0, "nic1"), nic(whole, 2, "nic0")
    with SwitchSession(whole) as switch:
        switch.connect((a, b))
        assert datagrams.arrives(a, b)
        assert datagrams.arrives(b, a)


def test_a_circuit_is_broken_before_another_is_made(tmp_path):
    """For as long as mirrors move, the port is dark in both directions."""
    settle_s = 0.6
    with Testbed.up(tmp_path / "up", **SIZES | {"settle_time": f"{settle_s} s"}) as testbed:
        a, b, c = (nic(testbed, server) for server in range(3))
        with SwitchSession(testbed) as switch:
            switch.connect((a, b))
            moving = threading.Thread(target=switch.connect, args=((a, c),))
            begun = time.monotonic()
            moving.start()
            seen = []
            while moving.is_alive():
                circuits = lit(testbed)
                seen.append((time.monotonic() - begun, circuits))
            moving.join()
        assert lit(testbed) == ["0/0-2/0"]
    before = [circuits for when, circuits in seen if when < settle_s]
    assert [] in before
    assert ["0/0-2/0"] not in before
    assert ["0/0-1/0"] not in before[before.index([]) :]


def test_nics_may_need_time_for_a_circuit(tmp_path):
    """A real NIC notices light after seconds; the region's file says so to the controller."""
    sizes = SIZES | {"settle_time": "10ms", "link_up_s": 0.4}
    with Testbed.up(tmp_path / "up", **sizes) as testbed:
        assert "link_up_s = 0.4" in testbed.region.read_text()
        with SwitchSession(testbed) as switch:
            begun = time.monotonic()
            switch.connect((nic(testbed, 0), nic(testbed, 1)))
            if time.monotonic() - begun < 0.3:
                assert lit(testbed) == []
            eventually(lambda: lit(testbed) == ["0/0-1/0"])
            assert time.monotonic() - begun >= 0.4
        # what is lit stays so when the control begins anew
        testbed.fail("switch:ocs")
        testbed.repair("switch:ocs")
        assert lit(testbed) == ["0/0-1/0"]


def test_a_shutter_darkens_a_port(whole, datagrams):
    """Light is what carries frames, whatever puts it out."""
    a, b = nic(whole, 0), nic(whole, 1)
    with SwitchSession(whole) as switch:
        switch.connect((a, b))
        switch.tell("OPR-PORT-SHUTTER::1:4:;")
        eventually(lambda: whole._tools.lit() == {3: 1})
        assert not datagrams.arrives(a, b)
        switch.tell("RLS-PORT-SHUTTER::1:5:;")
        eventually(lambda: lit(whole) == ["0/0-1/0"])
        assert datagrams.arrives(a, b)


def test_streams_have_the_rates_that_were_asked_for(whole):
    """A shaper that lets more pass, or a cable that holds less."""
    a, b, c = (nic(whole, server) for server in range(3))
    pairs = [(a, b), (nic(whole, 0, "eps0"), nic(whole, 2, "eps0"))]
    before = whole.counters()
    with SwitchSession(whole) as switch:
        switch.connect((a, b))
        best = [0.0, 0.0]
        for _ in range(3):  # other work of the machine can only make them slower
            found = [stream.gbps for stream in streams(whole, pairs, 0.4)]
            assert all(gbps <= 0.105 for gbps in found)
            best = list(map(max, best, found))
            if min(best) >= 0.085:
                break
    assert min(best) >= 0.085
    after = whole.counters()
    sent = after[a.part].sent_bytes - before[a.part].sent_bytes
    assert sent == after[b.part].received_bytes - before[b.part].received_bytes > 1e6
    assert after[c.part] == before[c.part]


def test_a_nic_that_fails_carries_nothing_and_loses_its_carrier(whole, datagrams):
    a, b = nic(whole, 0), nic(whole, 1)
    with SwitchSession(whole) as switch:
        switch.connect((a, b))
    assert whole.fail("nic:1.0") == ["nic:1/0"]
    eventually(lambda: whole._tools.lit() == {1: 3})  # only the light of the other one is left
    assert not datagrams.arrives(a, b)
    assert "NO-CARRIER" in output(whole, 1, "ip", "link", "show", "dev", "nic0")
    assert whole.repair("nic:1/0") == []
    eventually(lambda: lit(whole) == ["0/0-1/0"])
    assert datagrams.arrives(a, b)


def test_a_server_that_fails_is_reached_by_nobody(whole, datagrams):
    ends = [nic(whole, server, "eps0") for server in range(3)]
    assert datagrams.arrives(ends[0], ends[2])
    assert whole.fail("server:2") == ["eps:2/0", "nic:2/0", "nic:2/1"]
    assert not datagrams.arrives(ends[0], ends[2])
    assert datagrams.arrives(ends[0], ends[1])
    assert whole.repair("server:2") == []
    eventually(lambda: datagrams.arrives(ends[0], ends[2]))


def test_circuits_outlive_the_control_of_the_switch(whole, datagrams):
    """Mirrors stay where they are; a new control finds them, and the port that is dark."""
    a, b = nic(whole, 0), nic(whole, 1)
    with SwitchSession(whole) as switch:
        switch.connect((a, b))
        port = whole.tl1_port
        whole.fail("nic:2/1")
        assert whole.fail("switch:ocs") == ["nic:2/1", "switch:ocs"]
        assert datagrams.arrives(a, b)
        with pytest.raises(OSError, match="refused"):
            SwitchSession(whole)
    assert whole.repair("switch:ocs") == ["nic:2/1"]
    assert datagrams.arrives(a, b)
    assert Testbed.open(whole.folder).tl1_port == port
    with SwitchSession(Testbed.open(whole.folder)) as switch:
        switch.connect((nic(whole, 2, "nic1"), nic(whole, 1, "nic1")))
        assert lit(whole) == ["0/0-1/0"]
        whole.repair("nic:2/1")
        eventually(lambda: lit(whole) == ["0/0-1/0", "1/1-2/1"])


def test_a_controller_lights_circuits_that_carry_streams(whole):
    """The closed loop: demand, decision, TL1, mirrors, kernel, TCP."""
    demand = np.full((3, 3), 1000, np.uint64)
    demand[0, 2] = demand[2, 0] = 10**9

    async def ask(address, token):
        async with ControlClient(address, token) as client:
            return await client.circuits_for(demand, job="test")

    with serving(whole) as service:
        reply = asyncio.run(ask(*service))
        assert (reply["ok"], reply["result"]) == (True, "done")
        wanted = [f"{a}/{x}-{b}/{y}" for a, x, b, y in reply["circuits"]]
        assert lit(whole) == sorted(wanted)
        pairs = [
            (nic(whole, a, f"nic{x}"), nic(whole, b, f"nic{y}"))
            for a, x, b, y in reply["circuits"]
            if {a, b} == {0, 2}
        ]
        assert pairs
        assert all(stream.received["bytes"] > 1e5 for stream in streams(whole, pairs, 0.1))


def test_ranks_know_who_they_are(whole):
    lines = []
    words = [
        "sh",
        "-c",
        "echo $RANK/$WORLD_SIZE $LIGHTLOOM_SERVER $MASTER_ADDR $GLOO_SOCKET_IFNAME",
    ]
    ended = run_ranks(whole, words, lines.append)
    assert [tuple(rank) for rank in ended] == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]
    assert sorted(lines) == [f"[{rank}] {rank}/3 {rank} 10.0.0.1 eps0" for rank in range(3)]


def test_the_first_rank_that_fails_ends_the_others(whole):
    begun = time.monotonic()
    words = ["sh", "-c", "test $RANK = 1 && exit 7; sleep 60 & wait"]
    ended = run_ranks(whole, words, lambda _: None)
    assert [rank.status for rank in ended] == [143, 7, 143]
    assert time.monotonic() - begun < 10
    assert not whole._inside()
    assert run_here(whole, 0, ["sh", "-c", "exit 3"]) == 3


def left_behind(testbed):
    """Processes and namespaces of a testbed that are still there."""
    numbers = set(testbed._record.numbers)
    there = {Path(f"/proc/{process}/ns/net") for process in daemon.processes()}
    found = set()
    for path in there:
        try:
            found.add(path.stat().st_ino)
        except OSError:
            continue
    return daemon.marked(testbed._record.mark), numbers & found


def test_nothing_is_left(tmp_path):
    before = set(os.listdir("/sys/class/net"))
    testbed = Testbed.up(tmp_path / "up", **SIZES)
    (tmp_path / "up/notes.txt").write_text("mine")
    with subprocess.Popen(testbed.command(1, ["sleep", "60"])) as sleeper:
        eventually(lambda: sleeper.pid in testbed._inside())
        assert set(os.listdir("/sys/class/net")) == before  # none of it is outside
        testbed.down()
        assert sleeper.wait(timeout=5) == -signal.SIGKILL
    assert left_behind(testbed) == ([], set())
    assert os.listdir(tmp_path / "up") == ["notes.txt"]
    assert Testbed.clear(tmp_path / "up") is False


@pytest.mark.parametrize("victim", ["keeper", "switch"])
def test_a_crash_is_cleared_up_by_the_next_one(tmp_path, victim):
    """Ranks keep a namespace alive whose keeper was killed: they are ended, too."""
    testbed = Testbed.up(tmp_path, **SIZES)
    record = testbed._record
    with subprocess.Popen(testbed.command(1, ["sleep", "60"])) as sleeper:
        eventually(lambda: sleeper.pid in testbed._inside())
        daemon.kill([record.keeper] if victim == "keeper" else testbed._controls())
        if victim == "keeper":
            with pytest.raises(LightloomError, match="has crashed; clear it up"):
                Testbed.open(tmp_path)
        else:
            assert Testbed.open(tmp_path).failed() == ["switch:ocs"]
        with Testbed.up(tmp_path, **SIZES) as again:
            assert sleeper.wait(timeout=5) == -signal.SIGKILL
            assert left_behind(testbed)[0] == []
            assert again._record.mark != record.mark
            assert again.failed() == []
    assert left_behind(again) == ([], set())


def test_what_was_half_made_is_cleared_up(tmp_path):
    """``up`` itself is killed while it makes devices."""
    code = "import sys; from lightloom.cli import run_command; run_command(sys.argv[1:])"
    words = ["testbed", "up", "--servers", "24", "--nics", "2", "--rate", "10M", "--dir"]
    with subprocess.Popen([sys.executable, "-c", code, *words, str(tmp_path)]) as process:
        record = tmp_path / "testbed.json"
        eventually(lambda: record.exists() and '"keeper": 0' not in record.read_text(), 20)
        process.kill()
    with pytest.raises(LightloomError, match="is not made completely; clear it up"):
        Testbed.open(tmp_path)
    assert Testbed.clear(tmp_path) is True
    assert os.listdir(tmp_path.parent) == [] or not tmp_path.exists()


def test_a_testbed_whose_folder_is_gone_ends_by_itself(tmp_path):
    """Processes that no ``down`` would find, as their record was deleted."""
    testbed = Testbed.up(tmp_path / "up", **SIZES)
    shutil.rmtree(tmp_path / "up")
    eventually(lambda: left_behind(testbed) == ([], set()), 10)


def test_a_second_testbed_is_refused_in_one_folder_and_separate_in_another(whole, tmp_path):
    with pytest.raises(LightloomError, match=r"a testbed is up in .*; remove it first"):
        Testbed.up(whole.folder, **SIZES)
    with Testbed.up(tmp_path / "b", **SIZES) as other:
        with SwitchSession(other) as switch:
            switch.connect((nic(other, 0), nic(other, 1)))
        assert lit(other) == ["0/0-1/0"]
        assert lit(whole) == []
        assert other.tl1_port != whole.tl1_port
    assert lit(whole) == []


def test_a_testbed_needs_no_root(tmp_path):
    if reason := lacking(rootless=True):
        pytest.skip(reason)
    with Testbed.up(tmp_path / "up", **SIZES, rootless=True) as testbed:
        with SwitchSession(testbed) as switch:
            switch.connect((nic(testbed, 0), nic(testbed, 1)))
        assert lit(testbed) == ["0/0-1/0"]
        (stream,) = streams(testbed, [(nic(testbed, 0), nic(testbed, 1))], 0.1)
        assert stream.received["bytes"] > 1e5
        code = (
            "import sys; from pathlib import Path; from lightloom.testbed import Testbed; "
            "import socket; Testbed.open(Path(sys.argv[1])).enter(1); "
            "print(*sorted(name for _, name in socket.if_nameindex()))"
        )
        command = [sys.executable, "-c", code, str(testbed.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["eps0", "lo", "nic0", "nic1"]
        assert testbed.fail("nic:0/0") == ["nic:0/0"]
        words = [sys.executable, "-m", "lightloom", "testbed", "status", "--json", "-"]
        lines = []
        assert [rank.status for rank in run_ranks(testbed, words, lines.append)] == [0, 0, 0]
        assert sum('"nic:0/0"' in line for line in lines) == 6
    assert left_behind(testbed) == ([], set())


def test_the_python_of_the_guide_runs(tmp_path):
    """An example of a method that has another name since."""
    guide = Path(__file__).parents[3] / "docs/how-to/emulate-a-testbed.md"
    code = re.search(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "LIGHTLOOM_TESTBED": str(tmp_path / "lab")},
    )  # fmt: skip
    assert done.stdout.splitlines()[:2] == ["eps:1/0 eps0 10.0.1.1", "nic:1/0 nic0 10.1.1.1"]
    assert "['nic:1/0'] []" in done.stdout
    assert not (tmp_path / "lab").exists()
