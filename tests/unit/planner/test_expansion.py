"""How a cluster grows with the length of sequences."""

import pytest

from lightloom.errors import PlanError
from lightloom.planner.expansion import expand

K = 1024


@pytest.mark.parametrize(
    ("seq", "cp", "way", "network"),
    [
        (32 * K, 1, "none", 8),
        (64 * K, 2, "horizontal", 16),
        (128 * K, 4, "horizontal", 32),
        (256 * K, 8, "vertical", 8),
        (512 * K, 16, "vertical", 16),
        (1024 * K, 32, "vertical", 32),
    ],
)
def test_the_example_of_8_ep_ranks_that_hold_32k(seq, cp, way, network):
    grown = expand(seq, longest=32 * K, ep=8)
    assert (grown.cp, grown.way, grown.network) == (cp, way, network)


def test_switches_with_too_few_ports_grow_the_group_instead():
    assert expand(128 * K, longest=32 * K, ep=8, radix=32).way == "horizontal"
    assert expand(128 * K, longest=32 * K, ep=8, radix=31).way == "vertical"


def test_longer_sequences_never_take_fewer_ranks():
    ranks = [expand(seq, longest=1000, ep=4).cp for seq in range(1, 20_000, 37)]
    assert ranks == sorted(ranks)
    assert all(cp * 1000 >= seq for cp, seq in zip(ranks, range(1, 20_000, 37), strict=True))


def test_numbers_below_one_are_refused():
    with pytest.raises(PlanError, match="longest = 0"):
        expand(10, longest=0, ep=1)
