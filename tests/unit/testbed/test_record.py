"""What a testbed leaves in its folder, and whose folder it may be."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from lightloom.errors import LightloomError
from lightloom.hardware import measured_turnaround
from lightloom.testbed import ServerLayout, Testbed, daemon, service
from lightloom.testbed import testbed as testbed_module
from lightloom.testbed.daemon import RECORD
from lightloom.testbed.keeper import wait_until_gone
from lightloom.testbed.probe import check_programs
from lightloom.testbed.record import (
    LOCK,
    TestbedRecord,
    check_folder,
    default_folder,
    locked,
    make_folder,
)
from lightloom.testbed.region import write_region

LAYOUT = ServerLayout(servers=3, nics=3, rate_gbps=0.1, eps_gbps=0.2, ranks_per_server=2)


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = TestbedRecord.new(LAYOUT, seed=7).write(tmp_path)
    assert TestbedRecord.read(tmp_path) == record
    changed = replace(record, keeper=12, handles={"server0": 3}, numbers=(5,)).write(tmp_path)
    assert TestbedRecord.read(tmp_path) == changed
    assert changed.path_of("server0") == "/proc/12/fd/3"
    assert os.listdir(tmp_path) == [RECORD]
    assert (tmp_path / RECORD).stat().st_mode & 0o077 == 0
    assert TestbedRecord.new(LAYOUT).mark != record.mark


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"layout": {}}', '{"layout": {"servers": 0}}', "\x00", '{"mark": 1}']
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path, text):
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(LightloomError, match="no record of a testbed") as problem:
        TestbedRecord.read(tmp_path)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    "changed", [{"surprise": 1}, {"keeper": "x"}, {"handles": 5}, {"numbers": [None]}]
)
def test_a_record_of_strange_facts_is_refused(tmp_path, changed):
    """A process number that is none, when a command has begun to kill what it names."""
    TestbedRecord.new(LAYOUT).write(tmp_path)
    facts = json.loads((tmp_path / RECORD).read_text())
    (tmp_path / RECORD).write_text(json.dumps(facts | changed))
    with pytest.raises(LightloomError, match="no record of a testbed"):
        TestbedRecord.read(tmp_path)


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    """A record that somebody else has written, and that names processes to be killed."""
    tmp_path.chmod(0o777)
    with pytest.raises(LightloomError, match="nobody else owns"):
        check_folder(tmp_path)
    tmp_path.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to("/tmp")
    with pytest.raises(LightloomError, match="nobody else owns"):
        check_folder(link)
    (tmp_path / "file").write_text("")
    with pytest.raises(LightloomError, match="cannot make this folder: file exists"):
        make_folder(tmp_path / "file")
    make_folder(tmp_path / "new/er")
    assert (tmp_path / "new/er").stat().st_mode & 0o777 == 0o700
    check_folder(tmp_path / "absent")


def test_two_commands_do_not_change_one_testbed(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(LightloomError, match="another command is changing"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):  # it is free again
        assert (tmp_path / LOCK).exists()


def test_where_a_testbed_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_folder() == tmp_path / "lightloom-testbed"
    monkeypatch.setenv("LIGHTLOOM_TESTBED", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("LIGHTLOOM_TESTBED")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert default_folder().name == "lightloom-testbed-1234"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert str(default_folder()) == "/run/lightloom-testbed"


def test_a_controller_can_read_the_region(tmp_path):
    """A port map that the region's file does not fit, found out when it is served."""
    from lightloom.control.region_file import read_region

    path = write_region(tmp_path, LAYOUT, "polatis+tl1://127.0.0.1:1")
    region = read_region(path)
    port_map = region.read_port_map(tmp_path)
    assert port_map.nics_per_server == (2, 2, 2)
    assert [str(nic.ingress.port) for nic in port_map.nics] == list("123456")
    assert [int(nic.egress.port) for nic in port_map.nics] == list(range(7, 13))
    assert (region.rates.circuit_gbps, region.rates.eps_gbps) == (0.1, 0.2)
    assert (region.job.ranks_per_server, region.timing.link_up_s) == (2, 0)
    assert region.timing.resolved().expected_s(4) == pytest.approx(measured_turnaround(4).mean_s)
    assert region.switches["ocs"].credentials(tmp_path).password == "root"


def test_a_controller_counts_on_the_time_of_the_mirrors(tmp_path):
    """It believed in 41 ms, and kept circuits that were worth 20 ms of darkness."""
    from lightloom.control.region_file import read_region

    times = tmp_path / "times"
    times.write_text("0.01\n0.03\n")
    for text in ("20ms", str(times)):
        path = write_region(tmp_path, LAYOUT, "polatis+tl1://127.0.0.1:1", settle_time=text)
        assert read_region(path).timing.resolved().expected_s(4) == pytest.approx(0.02)


def test_marked_processes_are_found_and_killed():
    mark = TestbedRecord.new(LAYOUT).mark
    code = "import time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert daemon.marked(mark) == [process.pid]
        assert daemon.is_marked(process.pid, mark)
        assert not daemon.is_marked(process.pid, mark[:-1])
        daemon.kill([process.pid])
        assert not daemon.is_marked(process.pid, mark)
        assert process.wait(timeout=5) == -9
    daemon.kill([process.pid])  # a process that is gone is no error
    assert daemon.marked(mark) == []


def test_a_process_that_does_not_start_says_why():
    with pytest.raises(LightloomError, match=r"lightloom\.testbed\.absent did not start: .*absent"):
        daemon.launch("lightloom.testbed.absent")


@pytest.mark.parametrize("missing", ["tc", "nsenter"])
def test_a_program_that_is_not_installed_is_named(monkeypatch, missing):
    from lightloom.testbed import probe

    monkeypatch.setattr(probe.shutil, "which", lambda name: None if name == missing else name)
    with pytest.raises(LightloomError, match=f"^{missing} is not installed; install the package"):
        check_programs()


def test_files_of_a_user_are_neither_replaced_nor_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(testbed_module, "check_programs", lambda: None)
    region = tmp_path / "region.toml"
    region.write_text("mine\n")
    with pytest.raises(LightloomError, match="expected an empty folder") as problem:
        Testbed.up(tmp_path, servers=3, nics=3, rate_gbps=0.1)
    assert "\n" not in str(problem.value)
    assert Testbed.clear(tmp_path) is False
    assert region.read_text() == "mine\n"
    assert os.listdir(tmp_path) == ["region.toml"]


def test_a_folder_that_is_gone_cannot_be_locked(tmp_path):
    folder = tmp_path / "up"
    with pytest.raises(LightloomError, match="was just removed"), locked(folder):
        pass


def test_the_lock_holds_while_a_crashed_testbed_is_replaced(tmp_path):
    TestbedRecord.new(LAYOUT).write(tmp_path)
    with locked(tmp_path):
        testbed_module._clear_crashed(tmp_path)
        assert os.listdir(tmp_path) == [LOCK]
        with pytest.raises(LightloomError, match="another command is changing"), locked(tmp_path):
            pass


@pytest.mark.parametrize("change", ["fail", "repair"])
def test_a_part_of_a_testbed_that_was_replaced_is_not_changed(tmp_path, change):
    testbed = Testbed(tmp_path, TestbedRecord.new(LAYOUT).write(tmp_path))
    other = TestbedRecord.new(LAYOUT).write(tmp_path)
    with pytest.raises(LightloomError, match="another testbed has taken the place"):
        getattr(testbed, change)("switch:ocs")
    assert TestbedRecord.read(tmp_path) == other


def test_a_keeper_ends_without_its_record_and_that_of_a_probe_by_itself(tmp_path):
    """The process that probes the kernel may be killed before it kills the keeper."""
    begun = time.monotonic()
    wait_until_gone(tmp_path / RECORD, 0.05)
    assert 0.05 <= time.monotonic() - begun < 30
    TestbedRecord.new(LAYOUT).write(tmp_path)
    waiting = threading.Thread(target=wait_until_gone, args=(tmp_path / RECORD, 0.05), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    (tmp_path / RECORD).unlink()
    waiting.join(30)
    assert not waiting.is_alive()


def test_a_command_that_hangs_is_given_up_in_one_line(monkeypatch):
    monkeypatch.setattr(daemon, "_ANSWER_S", 0.1)
    with pytest.raises(LightloomError, match=r"^sleep did not end within 0\.1 s$"):
        daemon.run_bounded(["sleep", "60"])


def test_a_controller_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "_START_S", 0.1)
    quiet = tmp_path / "quiet"
    quiet.write_text("#!/bin/sh\nexec sleep 60\n")
    quiet.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(quiet))
    testbed = Testbed(tmp_path, TestbedRecord.new(LAYOUT))
    with pytest.raises(LightloomError, match="did not start within"), service.serving(testbed):
        pass
