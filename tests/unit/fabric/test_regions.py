"""Servers that share a circuit switch."""

import numpy as np
import pytest

from lightloom.errors import FabricError
from lightloom.fabric.regions import NO_REGION, plan_regions
from lightloom.workload.task_graph import Layout


def layout(groups):
    """One EP group per row, a server per entry."""
    table = np.array(groups, np.uint32)
    return Layout.grid(1, table.shape[0], table.shape[1], 8, table.ravel())


def regions(groups, servers, size=None, maximum=100):
    return plan_regions("mine", layout(groups), servers, size, maximum).tolist()


def test_a_region_is_the_servers_of_a_group():
    assert regions([[0, 1], [2, 3]], 4) == [0, 0, 1, 1]


def test_groups_need_not_be_neighbors():
    assert regions([[0, 2], [1, 3]], 4) == [0, 1, 0, 1]


def test_groups_that_share_a_server_share_a_region():
    assert regions([[0, 1], [1, 2], [3, 4]], 5) == [0, 0, 0, 1, 1]


def test_groups_inside_a_server_need_no_circuits():
    assert regions([[0, 0], [1, 1]], 3) == [NO_REGION] * 3
    assert regions([[0, 0], [1, 2]], 3) == [NO_REGION, 0, 0]


def test_larger_regions_take_whole_groups():
    groups = [[0, 1], [2, 3], [4, 5]]
    assert regions(groups, 6, size=4) == [0, 0, 0, 0, 1, 1]
    assert regions(groups, 6, size=5) == [0, 0, 0, 0, 1, 1]
    assert regions(groups, 6, size=6) == [0] * 6


def test_a_region_too_small_for_a_group():
    with pytest.raises(FabricError) as error:
        regions([[0, 1, 2]], 3, size=2)
    assert str(error.value) == (
        "mine: region_servers = 2: an EP group spans 3 servers and must be in one region"
    )


@pytest.mark.parametrize(("size", "start"), [
    (None, "mine: an EP group spans 3 servers, one switch has ports for 2;"),
    (4, "mine: region_servers = 4 servers, one switch has ports for 2;"),
])  # fmt: skip
def test_a_region_too_large_for_the_switch(size, start):
    with pytest.raises(FabricError) as error:
        regions([[0, 1, 2]], 4, size=size, maximum=2)
    assert str(error.value).startswith(start)
