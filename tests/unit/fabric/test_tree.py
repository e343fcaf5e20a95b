"""Sizes of trees, counted by hand."""

import pytest

from lightloom.errors import FabricError
from lightloom.fabric.tree import plan_tree, tree_links


def sizes(tree):
    return tree.servers_per_tor, tree.servers_per_pod, tree.uplinks_per_tor


def test_fat_tree_of_64_ports():
    # 32 ports down take 4 servers of 8 NICs, 32 ToRs make a pod
    assert sizes(plan_tree("x", 128, 8, 64)) == (4, 128, 32)


def test_fewer_nics_per_server_mean_more_servers_under_a_tor():
    assert sizes(plan_tree("x", 128, 2, 64)) == (16, 512, 32)


def test_three_to_one_takes_48_ports_down_and_16_up():
    tree = plan_tree("x", 126, 8, 64, ratio=3)
    assert sizes(tree) == (6, 192, 16)
    assert tree.nics_per_tor == 48


def test_oversubscribed_tors_are_filled_evenly():
    # 8 servers would leave 6 and 2 under full ToRs
    assert sizes(plan_tree("x", 8, 8, 64, ratio=3)) == (4, 128, 11)


def test_rails_put_32_servers_under_eight_tors():
    tree = plan_tree("x", 128, 8, 64, rail=True)
    assert sizes(tree) == (32, 128, 32)
    assert tree.nics_per_tor == 32


def test_three_tiers_have_as_many_links_on_each_layer():
    tree = plan_tree("x", 128, 8, 64)
    assert tree_links(tree, 128, 3).fabric == (1024, 1024)
    assert tree_links(tree, 128, 2).fabric == (1024,)
    assert tree_links(tree, 128, 1).fabric == ()


def test_a_tor_filled_in_part_uses_a_part_of_its_uplinks():
    tree = plan_tree("x", 126, 8, 64, ratio=3)
    # 21 full ToRs, then 2 servers: 16 NICs take 6 uplinks
    assert tree_links(tree, 128, 3).fabric[0] == 21 * 16 + 6


@pytest.mark.parametrize(("servers", "tiers"), [(1, 1), (8, 1), (9, 2), (256, 2), (257, 3)])
def test_min_tiers_that_fit(servers, tiers):
    # 64 ports: one switch takes 8 servers of 8 NICs, two tiers 64^2 / 2 NICs
    tree = plan_tree("x", servers, 8, 64)
    assert len(tree_links(tree, servers, "fit").fabric) + 1 == tiers


@pytest.mark.parametrize(("servers", "tiers"), [(1, 2), (8, 2), (256, 2), (257, 3)])
def test_rails_have_a_switch_each_and_spines(servers, tiers):
    tree = plan_tree("x", servers, 8, 64, rail=True)
    assert len(tree_links(tree, servers, "fit").fabric) + 1 == tiers == tree.tiers(servers)


@pytest.mark.parametrize(("servers", "sized"), [
    (8, (8, 8, 64)), (9, (4, 128, 32)), (256, (4, 256, 32)), (257, (4, 128, 32)),
])  # fmt: skip
def test_what_two_tiers_join_is_one_pod(servers, sized):
    assert sizes(plan_tree("x", servers, 8, 64)) == sized


def test_what_is_charged_is_simulated():
    # an oversubscribed pair of ToRs is no single switch, although one had the ports
    tree = plan_tree("x", 8, 8, 64, ratio=3)
    assert tree.tiers(8) == 2
    assert tree_links(tree, 8, "fit").fabric == (22,)


def test_the_largest_tree_and_one_server_more():
    # 64^3 / 4 NICs
    assert plan_tree("x", 8192, 8, 64).servers_per_pod == 128
    with pytest.raises(FabricError) as error:
        plan_tree("mine", 8193, 8, 64)
    assert str(error.value) == (
        "mine: 8193 servers need 65568 uplinks, three tiers of 64-port switches carry 65536;"
        " use switches with more ports"
    )


def test_a_server_with_more_nics_than_a_tor_takes_has_several():
    # 12 ports: 6 down take 4 of the 8 NICs
    tree = plan_tree("mine", 8, 8, 12)
    assert (tree.rails, tree.servers_per_tor, tree.nics_per_tor) == (2, 1, 4)
    assert plan_tree("mine", 8, 8, 16).rails == 1
    # a rack of 72 GPUs: three ToRs of 24 NICs each; its 66 NICs of MixNet: three of 22
    rack = plan_tree("x", 4, 72, 64)
    assert (rack.rails, rack.nics_per_tor, rack.uplinks_per_tor) == (3, 24, 24)
    assert plan_tree("x", 4, 66, 64).rails == 3
    # 12 ToRs, joined by spines: as many links up as NICs
    assert rack.tiers(4) == 2
    assert tree_links(rack, 4, "fit") == tree_links(plan_tree("x", 36, 8, 64), 36, "fit")
    # 3:1 leaves 48 ports down: two ToRs of 36 NICs, 12 up
    scarce = plan_tree("x", 4, 72, 64, ratio=3)
    assert (scarce.rails, scarce.uplinks_per_tor) == (2, 12)
    assert tree_links(scarce, 4, "fit").fabric == (4 * 2 * 12,)


def test_more_rails_than_a_spine_has_ports_need_a_third_tier():
    assert plan_tree("x", 4, 64, 64, rail=True).tiers(4) == 2
    assert plan_tree("x", 4, 72, 64, rail=True).tiers(4) == 3


def test_a_switch_without_ports_down():
    with pytest.raises(FabricError) as error:
        plan_tree("mine", 8, 8, 1)
    assert str(error.value) == ("mine: a ToR of 1 ports has none down; expected at least 2 ports")


def test_more_servers_per_tor_than_ports():
    assert plan_tree("x", 130, 8, 64, servers_per_tor=2).servers_per_pod == 64
    with pytest.raises(FabricError, match="servers_per_tor = 5: a switch of 64 ports takes at"):
        plan_tree("x", 128, 8, 64, servers_per_tor=5)
