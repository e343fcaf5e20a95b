"""Faults on demand: what a script describes, and when each one is due."""

import pytest

from lightloom.control.emulator import Fault, FaultKind, FaultScript
from lightloom.control.emulator.faults import TRANSIENT
from lightloom.errors import InputError


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("deny@3", Fault(FaultKind.DENY, 3, seconds=0.0)),
        (" cut-after@1 ", Fault(FaultKind.CUT_AFTER, 1, seconds=0.0)),
        ("slow:0.2@command:5", Fault(FaultKind.SLOW, 5, counts_all=True, seconds=0.2)),
        ("slow@1", Fault(FaultKind.SLOW, 1, seconds=0.1)),
        ("late@2", Fault(FaultKind.LATE, 2, seconds=0.5)),
        ("stuck:7@1", Fault(FaultKind.STUCK, 1, seconds=0.0, ports=(7,))),
        (
            "second-controller:3-12@4",
            Fault(FaultKind.SECOND_CONTROLLER, 4, seconds=0.0, ports=(3, 12)),
        ),
    ],
)
def test_texts(text, fault):
    assert Fault.parse(text) == fault


def test_listed_faults_come_once_at_their_command():
    script = FaultScript([Fault.parse("deny@2"), Fault.parse("slow@command:3")])
    due = [[fault.kind for fault in script.due(is_change=is_change)] for is_change in (1, 0, 1, 1)]
    assert due == [[], [], [FaultKind.DENY, FaultKind.SLOW], []]
    assert script.num_changes == 3


def test_several_faults_of_one_kind_and_later_ones():
    script = FaultScript([Fault.parse("deny@1"), Fault.parse("deny@2")])
    assert [len(script.due(is_change=True)) for _ in range(3)] == [1, 1, 0]
    script.next_change(FaultKind.STUCK, ports=(4,))
    assert script.due(is_change=False) == []
    assert script.due(is_change=True) == [Fault(FaultKind.STUCK, 4, seconds=0.0, ports=(4,))]


def test_random_faults_are_those_of_the_seed():
    def kinds(seed):
        script = FaultScript(rate=0.3, seed=seed)
        return [fault.kind for _ in range(500) for fault in script.due(is_change=True)]

    assert kinds(1) == kinds(1) != kinds(2)
    assert set(kinds(1)) == set(TRANSIENT)
    assert 100 < len(kinds(1)) < 200


def test_commands_that_only_read_have_no_random_faults():
    script = FaultScript(rate=1.0)
    assert script.due(is_change=False) == []
    script.set_rate(0.0)
    assert script.due(is_change=True) == []


@pytest.mark.parametrize(("rate", "kinds"), [(-0.1, TRANSIENT), (1.1, TRANSIENT), (0.5, ())])
def test_impossible_rates(rate, kinds):
    with pytest.raises(InputError, match="rate of faults"):
        FaultScript(rate=rate, kinds=kinds)
