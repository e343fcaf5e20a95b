"""The tour shows what it says, and the example that it starts from is a region."""

import asyncio
import random
import re

from lightloom.cli import run_command
from lightloom.control.emulator import FixedTime, OpticalMatrix
from lightloom.control.tour import tour


def test_the_tour():
    lines = []
    asyncio.run(tour(lines.append))
    text = "\n".join(lines)
    assert [line[0] for line in lines if line[0] != " "] == list("123456789")
    assert "64 ports are ours, the other 32 are never touched." in text
    assert re.search(r"Change 1: \+16 -0 moved 0, unchanged 0: done", text)
    assert "1-57 of ocs was accepted, but the switch does not have it" in text
    assert "Nothing is sent twice. The controller connected again and read back: done" in text
    assert "A change is refused: tour: drifted: 1 circuit missing (0/0-1/0)" in text
    assert "server 5 reaches the EPS through server" in text
    assert "New circuits without that NIC: 15." in text


def test_the_tour_leaves_no_log_behind(capfd):
    assert run_command(["control", "tour", "--seed", "3"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("1. A switch.")
    assert err == ""


def test_a_stuck_mirror_keeps_its_circuit_and_the_port_at_its_end():
    matrix = OpticalMatrix((4, 4), FixedTime(0), lambda: 0.0, random.Random(1))
    matrix.change([], [(1, 5), (2, 6)])
    matrix.stuck.add(1)
    matrix.change([], [(2, 5), (3, 6)])
    assert matrix.circuits == {1: 5, 3: 6}


def test_what_light_leaves_is_lit_and_changes_are_told():
    """A follower of the optics that shows a circuit whose mirrors move, or whose laser is off."""
    now, told = [0.0], []
    matrix = OpticalMatrix((4, 4), FixedTime(2), lambda: now[0], random.Random(1))
    matrix.on_change = told.append
    matrix.change([], [(1, 5), (2, 6), (3, 7)])
    assert told == [2.0]
    assert matrix.lit() == {}
    now[0] = 2.0
    assert matrix.lit() == {1: 5, 2: 6, 3: 7}
    matrix.disabled.add(5)
    del matrix.launched_dbm[2]
    assert matrix.lit() == {3: 7}
    matrix.change([3], [])
    assert matrix.lit() == {}
    matrix.disabled.clear()
    assert matrix.lit() == {1: 5}
    assert told == [2.0, 2.0]
