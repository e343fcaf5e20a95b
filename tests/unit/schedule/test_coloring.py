"""Edge coloring and routing of permutations through Python."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.schedule import check_coloring, color_edges, route_permutation


def test_a_square_has_two_colors():
    edges = [[0, 0], [0, 1], [1, 0], [1, 1]]
    colors = color_edges(edges)
    assert colors.dtype == np.int32
    assert sorted(colors.tolist()) == [0, 0, 1, 1]
    assert colors[0] == colors[3] != colors[1]
    assert check_coloring(edges, colors) == 2


def test_no_edges_need_no_colors():
    assert color_edges([]).shape == (0,)
    assert check_coloring([], []) == 0


def test_spare_colors_are_allowed_and_too_few_are_not():
    edges = [[0, 3]] * 3
    assert sorted(color_edges(edges).tolist()) == [0, 1, 2]
    assert check_coloring(edges, color_edges(edges, colors=8)) <= 8
    message = r"^edges: left vertex 0 has 3 edges but there are 2 colors$"
    with pytest.raises(InputError, match=message):
        color_edges(edges, colors=2)


def test_edges_that_meet_are_named():
    with pytest.raises(InputError, match=r"^edges: edges 0 and 1 of color 0 meet at left vertex"):
        check_coloring([[0, 0], [0, 1]], [0, 0])
    with pytest.raises(InputError, match=r"^edges: 2 edges but 1 colors of edges$"):
        check_coloring([[0, 0], [0, 1]], [0])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1, 2]], r"^edges: expected rows of 2 whole numbers, got int64 of shape \(1, 3\)$"),
        ([[0.5, 1]], r"^edges: expected rows of 2 whole numbers, got float64 of shape \(1, 2\)$"),
        ([[0, -1]], r"^edges: expected vertices 0 to 67108863, got -1 to 0$"),
        ([[0, 1], [2]], r"^edges: expected an array, got rows of unequal length$"),
    ],
)
def test_wrong_edges(edges, message):
    with pytest.raises(InputError, match=message):
        color_edges(edges)


@pytest.mark.parametrize("options", [{}, {"tiers": 3}, {"tiers": 3, "pod": 2, "cores": 0}])
def test_no_hosts_need_no_way(options):
    route = route_permutation([], leaf=2, **options)
    route.check([])
    assert route.spine.shape == route.core.shape == (0,)


def test_two_tiers_by_hand():
    route = route_permutation([2, 1, 0, -1], leaf=2)
    # host 0 and 2 send to each other over one spine, host 1 sends to itself, host 3 is idle
    assert route.spine[1] == route.spine[3] == -1
    assert (route.spine[[0, 2]] >= 0).all()
    assert (route.core == -1).all()
    assert route.leaf_switches.shape == (2, 4)
    assert route.leaf_switches[0, 1] == 1
    assert route.leaf_switches[0, 0] == 2 + route.spine[0]
    assert route.spine_switches.shape == (2, 2)
    assert route.spine_switches[route.spine[0], 0] == 1
    assert route.core_switches.size == 0
    route.check([2, 1, 0, -1])


def test_three_tiers_have_planes_of_cores():
    to = np.roll(np.arange(4 * 4 * 3), 17)
    route = route_permutation(to, leaf=4, tiers=3)
    route.check(to)
    assert route.leaf_switches.shape == (12, 8)
    assert route.spine_switches.shape == (4, 3, 8)
    assert route.core_switches.shape == (4, 4, 3)
    assert (route.core >= 0).all()
    wide = route_permutation(to, leaf=4, tiers=3, spines=5, pod=6, cores=7)
    wide.check(to)
    assert wide.core_switches.shape == (5, 7, 2)


def test_a_wrong_route_is_seen():
    route = route_permutation([2, 3, 0, 1], leaf=2)
    with pytest.raises(InputError, match=r"^route: the circuit of host 0 ends at 2, not 3$"):
        route.check([3, 2, 0, 1])
    route.leaf_switches[0, 0] = route.leaf_switches[0, 1]
    with pytest.raises(InputError, match=r"^route: output . of a leaf switch is not free$"):
        route.check([2, 3, 0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0], {"leaf": 1}), r"^permutation: host 0 is the destination of two hosts$"),
        (([0, 5], {"leaf": 1}), r"^permutation: host 1 sends to 5: only 2 hosts$"),
        (([0, -2], {"leaf": 1}), r"^permutation: expected -1 to 2147483647, got -2 to 0$"),
        (([0, 1, 2], {"leaf": 2}), r"^permutation: 3 hosts do not fill leaves of 2$"),
        (([0, 1], {"leaf": 0}), r"^leaf: expected a whole number from 1 to 1048576, got 0$"),
        (([0, 1], {"leaf": True}), r"^leaf: expected a whole number from 1 to 1048576, got True$"),
        (([0, 1], {"leaf": 1, "tiers": 4}), r"^tiers: expected a whole number from 2 to 3, got 4$"),
        (([0, 1], {"leaf": 1, "pod": 2}), r"^pod and cores are for three tiers: add tiers=3$"),
        (
            ([1, 0], {"leaf": 1, "spines": 0}),
            r"^permutation: a leaf has 1 circuits to others but 0 up-links$",
        ),
        (
            ([1, 0], {"leaf": 1, "tiers": 3, "cores": 0}),
            r"^permutation: a pod has 1 circuits to others but 0 up-links$",
        ),
    ],
)
def test_wrong_permutations(arguments, message):
    permutation, options = arguments
    with pytest.raises(InputError, match=message):
        route_permutation(permutation, **options)
