"""The command that starts an emulator: what it prints, how it stops, what it refuses."""

import re
import signal
import subprocess
import sys

import pytest
from tests.control_switches import ADMIN, change, pairs, run

from lightloom.cli import run_command
from lightloom.control.emulator import FixedTime, MeasuredTime, RecordedTimes
from lightloom.control.emulator.timing import parse_settle_time
from lightloom.errors import InputError


def start(*arguments):
    """Start the command in a process of its own; return it and the URLs that it prints."""
    words = [sys.executable, "-m", "lightloom", "ocs-emulator", *arguments]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    urls = []
    while (line := process.stdout.readline()) and not line.startswith("Stop"):
        urls += re.findall(r"\S+://\S+", line)
    return process, urls


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_controller_reaches_it_until_a_signal_stops_it(number):
    from lightloom.control.drivers import open_driver

    process, (url,) = start("--size", "4x4", "--tl1-port", "0", "--settle-time", "1ms")

    async def check():
        driver = open_driver(url, credentials=ADMIN)
        await driver.connect()
        await driver.apply(change("1-5"))
        assert (await driver.read_back()).cross_connects == set(pairs("1-5"))
        await driver.close()

    try:
        run(check())
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()


def test_what_it_prints(capsys, tmp_path):
    pytest.importorskip("asyncssh")
    words = "ocs-emulator --size 8x6 --tl1-port 0 --ssh-port 0 --run-time 10ms --trust"
    assert run_command([*words.split(), str(tmp_path / "trust")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Emulated polatis switch, 8x6; user admin, password root"
    assert re.fullmatch(r"  tl1 +polatis\+tl1://127\.0\.0\.1:\d+", lines[1])
    assert re.fullmatch(r"  ssh +polatis\+ssh://127\.0\.0\.1:\d+", lines[2])
    assert lines[3:] == ["Stop with Ctrl-C."]
    assert "ssh-ed25519" in (tmp_path / "trust" / "known_hosts").read_text()


@pytest.mark.parametrize(("host", "is_warned"), [("0.0.0.0", True), ("::1", False)])
def test_other_machines_are_warned_of(capsys, host, is_warned):
    words = f"ocs-emulator --tl1-port 0 --listen {host} --run-time 1ms"
    assert run_command(words.split(" ")) == 0
    assert ("Other machines may reach it" in capsys.readouterr().out) is is_warned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--size 8", "--size '8': expected NxM, such as 48x48"),
        ("--size 0x8", "size 0x8: expected 1 to 4096 ports per side"),
        ("--model calient --gnmi-port 0", "service of calient: expected one of tl1"),
        ("--fault deny", "fault 'deny': expected KIND[:VALUE]@N, such as deny@3"),
        ("--fault denny@1", "did you mean 'deny'?"),
        ("--fault slow:x@1", "slow takes a time in seconds"),
        ("--fault stuck:1-2@1", "stuck takes 1 ports"),
        ("--fault deny:1@1", "deny takes no value"),
        ("--fault deny@0", "counted from 1"),
        ("--fault-rate 2", "--fault-rate"),
        ("--settle-time fast", "expected measured, a time such as '20 ms', or a file"),
        ("--listen 192.0.2.1", "cannot listen on 192.0.2.1"),
        ("--tl1-port 65536", "--tl1-port"),
    ],
)
def test_wrong_input_gets_one_line(capsys, arguments, message):
    assert run_command(["ocs-emulator", "--run-time", "1ms", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_port_that_is_in_use(capsys):
    process, (url,) = start("--tl1-port", "0")
    try:
        port = url.rpartition(":")[2]
        assert run_command(["ocs-emulator", "--tl1-port", port]) == 2
        assert "choose another port" in capsys.readouterr().err
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_settle_times(tmp_path):
    recorded = tmp_path / "times"
    recorded.write_text("0.01\n\n20 ms\n")
    times = parse_settle_time(str(recorded))
    assert isinstance(times, RecordedTimes)
    assert [times.draw_s(1, None) for _ in range(3)] == pytest.approx([0.01, 0.02, 0.01])
    assert isinstance(parse_settle_time("measured"), MeasuredTime)
    fixed = parse_settle_time("20 ms")
    assert isinstance(fixed, FixedTime)
    assert fixed.draw_s(9, None) == pytest.approx(0.02)
    recorded.write_text("1 parsec\n")
    with pytest.raises(InputError, match="times:1"):
        parse_settle_time(str(recorded))
