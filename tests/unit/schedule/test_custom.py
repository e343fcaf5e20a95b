"""Custom schedules: from arrays and by name, checked and bounded by ours."""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest

from lightloom import plugins
from lightloom.cli import run_command
from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    decompose,
    permutation_lower_bound_s,
    schedule_by_name,
    schedule_of_arrays,
)

DEMAND = np.array([[0, 5, 3], [7, 0, 2], [1, 4, 0]])


def shifts(demand, delay_bytes):
    """Cyclic shifts, each held to its largest entry."""
    assert delay_bytes >= 0
    rows = np.arange(len(demand))
    permutations = [(rows + shift) % len(demand) for shift in range(1, len(demand))]
    holds = [int(demand[rows, to].max()) for to in permutations]
    demand[:] = 0  # a copy, which it may spoil
    return permutations, holds


def too_short(demand, delay_bytes):
    permutations, holds = shifts(demand, delay_bytes)
    return permutations, [hold - 1 for hold in holds]


def broken(demand, delay_bytes):
    raise ValueError(f"no\n  {demand.ndim} of {delay_bytes * 0}")


@pytest.fixture
def installed(monkeypatch):
    found = [
        importlib.metadata.EntryPoint(name, f"{__name__}:{function}", plugins.SCHEDULERS.group)
        for name, function in (
            ("shifts", "shifts"),
            ("short", "too_short"),
            ("broken", "broken"),
            ("missing", "not_there"),
        )
    ]
    monkeypatch.setattr(
        plugins,
        "_installed",
        lambda group, _places: {entry.name: entry for entry in found if entry.group == group},
    )
    monkeypatch.setattr(
        importlib.metadata.EntryPoint, "load", lambda self: globals()[self.value.split(":")[1]]
    )


def test_arrays_become_a_checked_schedule():
    found = schedule_of_arrays(DEMAND, [[1, 2, 0], [2, 0, 1]], [5, 7], delay_s=2, rate_gbps=8e-9)
    assert (found.length_bytes, found.chosen) == (16, "custom")
    ours = decompose(DEMAND, delay_s=2, rate_gbps=8e-9)
    assert found.lower_bound_bytes == ours.lower_bound_bytes <= ours.length_bytes
    found.check(DEMAND)


def test_pairs_with_nothing_left_are_parted():
    found = schedule_of_arrays([[0, 5], [7, 0]], [[1, 0], [1, 0], [0, 1]], [5, 2, 1])
    assert found.permutations.tolist() == [[1, 0], [-1, 0], [-1, -1]]
    assert found.length_bytes == 8


def test_nothing_to_send_needs_no_slots():
    for none in ([], np.zeros((0, 2), int)):
        found = schedule_of_arrays(np.zeros((2, 2), int), none, [])
        assert (found.length_bytes, found.over_bound) == (0, 1.0)
    with pytest.raises(InputError, match="row 0 still has 5 bytes for column 1"):
        schedule_of_arrays([[0, 5], [0, 0]], [], [])


def test_a_name_is_text():
    with pytest.raises(InputError, match=r"^name = 3: expected text$"):
        schedule_of_arrays([[0, 5], [7, 0]], [[1, 0]], [7], name=3)


@pytest.mark.parametrize(
    ("permutations", "holds", "text"),
    [
        ([[1, 2, 0], [2, 0, 1]], [4, 7], "row 0 still has 1 bytes for column 1"),
        ([[2, 2, 0], [2, 0, 1]], [5, 7], "slot 0: column 2 twice"),
        ([[1, 2, 0], [2, 0, 1]], [0, 7], "slot 0 is held for nothing"),
        ([[1, 2, 3], [2, 0, 1]], [5, 7], "permutations: expected columns below 3, or -1"),
        ([[1, 2, -2], [2, 0, 1]], [5, 7], "permutations: expected columns below 3, or -1"),
        ([[1, 2, 0]], [5, 7], r"expected whole numbers of shape \(2, 3\), got \(1, 3\)"),
        ([[1.0, 2, 0]], [5], "expected whole numbers"),
        ([[1, 2, 0]], [-5], "holds_bytes: expected 0 to"),
    ],
)
def test_wrong_arrays_are_refused(permutations, holds, text):
    with pytest.raises(InputError, match=text):
        schedule_of_arrays(DEMAND, permutations, holds)


def test_the_lower_bound_is_a_function():
    # two peers: 8 bytes and two delays of 3
    assert permutation_lower_bound_s(DEMAND, delay_s=3, rate_gbps=8e-9) >= 9 + 2 * 3
    assert permutation_lower_bound_s(DEMAND, rate_gbps=8e-9) == 9
    partial = permutation_lower_bound_s(DEMAND, delay_s=3, rate_gbps=8e-9, partial=True)
    assert partial == 9 + 2 * 3
    with pytest.raises(DemandError):
        permutation_lower_bound_s([[-1]])


@pytest.mark.usefixtures("installed")
def test_a_scheduler_is_called_by_its_name():
    found = schedule_by_name("shifts", DEMAND, delay_s=2, rate_gbps=8e-9)
    assert (found.chosen, found.length_bytes) == ("shifts", 16)
    with pytest.raises(InputError, match="scheduler 'short': schedule: row 0 still has 1 bytes"):
        schedule_by_name("short", DEMAND)
    with pytest.raises(InputError, match=r"scheduler 'shift': expected .*shifts"):
        schedule_by_name("shift", DEMAND)


@pytest.mark.usefixtures("installed")
def test_the_command_line_knows_installed_schedulers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", DEMAND)
    command = "schedule a.npy --reconfiguration-delay 0 --no-systems --methods"
    assert run_command([*command.split(), "bvn,shifts", "--json", "a.json"]) == 0
    found = json.loads(Path("a.json").read_text())["schedules"]
    assert list(found) == ["bvn", "shifts"]
    assert found["shifts"]["over_bound"] == pytest.approx(12 / 9)
    capsys.readouterr()
    assert run_command([*command.split(), "short"]) != 0
    assert "scheduler 'short': schedule: row 0 still has 1 bytes" in capsys.readouterr().err
    assert run_command([*command.split(), "shifts", "--partial"]) != 0
    refusal = "scheduler 'shifts': it is for one switch that stops as a whole"
    assert refusal in capsys.readouterr().err
    assert run_command([*command.split(), "bvn,shifts,short", "--partial"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Left out: {refusal}." in shown
    assert "Left out: scheduler 'short'" in shown


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "scheduler 'broken': ValueError: no 2 of 0"),
        ("missing", "scheduler 'missing': KeyError: 'not_there'"),
    ],
)
def test_what_a_scheduler_raises_is_one_line(capsys, name, text):
    with pytest.raises(InputError) as raised:
        schedule_by_name(name, DEMAND)
    assert str(raised.value) == text
    command = ["schedule", "--synthetic", "pair", "--reconfiguration-delay", "1ms", "--methods"]
    assert run_command([*command, name]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"lightloom: {text}"
