"""The commands of a change: ours are taken down, what others made is not touched without need."""

import pytest
from tests.control_regions import port_map_of

from lightloom.control.change import ConflictMode, plan_commands
from lightloom.control.port_map import NicPair

MAP = port_map_of(4, 2, 8)
OURS, THEIRS, NEW = NicPair(0, 0, 1, 0), NicPair(2, 0, 3, 0), NicPair(0, 1, 1, 1)


def observed(*circuits):
    connects = [placed.cross_connect for pair in circuits for placed in MAP.cross_connects(pair)]
    return MAP.observe({"ocs": connects})


def deletes_of(change):
    return {connect for command in change.commands.values() for connect in command.deletes}


def connects_of(circuit):
    return {placed.cross_connect for placed in MAP.cross_connects(circuit)}


@pytest.mark.parametrize("mode", [ConflictMode.SAFE, ConflictMode.UPDATE])
def test_circuits_that_others_made_stay(mode):
    change = plan_commands(MAP, observed(OURS, THEIRS), frozenset({OURS}), [NEW], mode=mode)
    assert deletes_of(change) == connects_of(OURS)
    assert {placed.cross_connect for placed in change.created} == connects_of(NEW)
    assert change.before == {OURS}
    assert (change.moved[0].before, change.moved[0].after) == (OURS, NEW)


def test_without_circuits_of_ours_nothing_is_deleted():
    change = plan_commands(MAP, observed(OURS, THEIRS), frozenset(), [])
    assert change.is_empty
    assert (change.before, change.pairs) == (frozenset(), 0)
