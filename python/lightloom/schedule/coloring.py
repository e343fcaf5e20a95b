"""Edge coloring, and permutations over a fabric of circuit switches (``crates/schedule``).

A bipartite multigraph whose vertices have at most D edges is the union of D matchings (König,
1916): one per switch plane, spine or slot. Light is not split and links carry one circuit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.schedule.arrays import as_array, span_text, whole_list, whole_number
from lightloom.schedule.results import Result, ResultTable, summary

_MAX_VERTICES = 1 << 26
_MAX_PORTS = 1 << 20


@dataclass(frozen=True, eq=False)
class FabricRoute(Result):
    """The route of every circuit of a permutation, and the setting of every switch.

    A switch's setting names the output of each input, -1 if dark. Inputs and outputs are numbered
    alike: first those towards the hosts, then those towards the next tier.

    Attributes
    ----------
    spine
        Spine of each host's circuit, ``(hosts,)``; -1 inside a leaf, or if idle. With three tiers
        this is the plane: the spines of that number, one in each pod.
    core
        Core within the plane, ``(hosts,)``; -1 inside a pod, or with two tiers.
    leaf_switches
        ``(leaves, leaf + spines)``.
    spine_switches
        Two tiers: ``(spines, leaves)``. Three: ``(spines, pods, pod + cores)``.
    core_switches
        ``(spines, cores, pods)``; with two tiers empty.
    shape
        Hosts of a leaf, spines, and with three tiers leaves of a pod and cores of a plane.
    """

    spine: npt.NDArray[np.int32]
    core: npt.NDArray[np.int32]
    leaf_switches: npt.NDArray[np.int32]
    spine_switches: npt.NDArray[np.int32]
    core_switches: npt.NDArray[np.int32]
    shape: dict[str, int]

    def tables(self) -> list[ResultTable]:
        """Return the table that is printed."""
        hosts = len(self.spine)
        return [
            summary(
                "Permutation over a fabric",
                hosts=f"{hosts:,}",
                circuits_over_spines=f"{int((self.spine >= 0).sum()):,}",
                circuits_over_cores=f"{int((self.core >= 0).sum()):,}",
            )
        ]

    def check(self, permutation: npt.ArrayLike) -> None:
        """Follow the light of every host through the switches.

        Every circuit ends at its destination by the spine and core stated, no link is used twice,
        circuits inside a leaf or pod stay there, and nothing else is lit.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        hosts = _permutation(permutation)
        try:
            _core.schedule_check_route(hosts, self)
        except ValueError as error:
            raise InputError(f"route: {error}") from None


def color_edges(edges: npt.ArrayLike, *, colors: int | None = None) -> npt.NDArray[np.int32]:
    """Give every edge of a bipartite multigraph a color, so that no two edges of a color meet.

    Euler splits halve the graph; where its degree is odd a class is dissolved along alternating
    paths (Gabow, 1976).

    Parameters
    ----------
    edges
        Left and right vertex of each edge, ``(m, 2)``; an edge may occur several times.
    colors
        How many there are; by default as few as can be, the most edges at one vertex.

    Returns
    -------
    numpy.ndarray
        Color of each edge from 0 on, ``(m,)``; O(m log d) for degree d, and O(m^2 / d) more at
        worst where halves are odd.

    Raises
    ------
    InputError
        If edges are no pairs of whole numbers, or a vertex has more edges than there are colors.

    Examples
    --------
    >>> from lightloom.schedule import color_edges
    >>> sorted(color_edges([[0, 0], [0, 1]]).tolist())
    [0, 1]
    """
    pairs = _edges(edges)
    if colors is not None:
        colors = whole_number(colors, "colors", 0, 2**31 - 1)
    try:
        return _core.schedule_color_edges(pairs, colors)
    except ValueError as error:
        raise InputError(f"edges: {error}") from None


def check_coloring(edges: npt.ArrayLike, color_of_edge: npt.ArrayLike) -> int:
    """Check that no two edges of a color meet; return the number of colors.

    Returns
    -------
    int
        How many colors there are; O(m) for m edges.

    Examples
    --------
    >>> from lightloom.schedule import check_coloring
    >>> check_coloring([[0, 0], [0, 1]], [0, 1])
    2

    Raises
    ------
    InputError
        If they do: the two edges.
    """
    pairs = _edges(edges)
    color_array = whole_list(color_of_edge, "colors", 2**31 - 2, InputError).astype(np.int32)
    colors = int(color_array.max()) + 1 if color_array.size else 0
    try:
        _core.schedule_check_coloring(pairs, colors, color_array)
    except ValueError as error:
        raise InputError(f"edges: {error}") from None
    return colors


def route_permutation(
    permutation: npt.ArrayLike,
    *,
    leaf: int,
    tiers: int = 2,
    spines: int | None = None,
    pod: int | None = None,
    cores: int | None = None,
) -> FabricRoute:
    """Route a permutation of hosts over a Clos fabric of circuit switches.

    With two tiers each leaf has one up-link to each spine. With three, leaves are gathered in
    pods; each pod has one spine of each number, and ``cores`` switches join those of one number.
    With as many up-links as down-links every permutation has a way (Slepian, 1952; Duguid,
    1959). Pairs inside a leaf or a pod stay there.

    Parameters
    ----------
    permutation
        Destination of each host, -1 if idle; no two alike.
    leaf
        Hosts of a leaf switch.
    tiers
        2 or 3.
    spines
        Up-links of a leaf; by default ``leaf``.
    pod
        Leaves of a pod (three tiers only); by default ``leaf``, as in a fat-tree.
    cores
        Up-links of a spine (three tiers only); by default ``pod``.

    Returns
    -------
    FabricRoute
        The spine (and core) of each host's path, and the circuits in each switch; O(n log n), and
        more where numbers of switches are odd, see :func:`color_edges`.

    Examples
    --------
    >>> from lightloom.schedule import route_permutation
    >>> route_permutation([2, 3, 0, 1], leaf=2).spine.tolist()
    [0, 1, 0, 1]

    Raises
    ------
    InputError
        If sizes do not fit, two hosts have one destination, or there are too few up-links.
    """
    hosts = _permutation(permutation)
    shape = _fabric_shape(leaf, tiers, spines, pod, cores)
    try:
        routed = _core.schedule_route_permutation(hosts, shape)
    except ValueError as error:
        raise InputError(f"permutation: {error}") from None
    spines = shape["spines"]
    leaves = len(hosts) // leaf
    sizes: dict[str, tuple[int, ...]] = {
        "leaf_switches": (leaves, leaf + spines),
        "spine_switches": (spines, leaves),
        "core_switches": (spines, 0, 1),
    }
    if tiers == 3:
        pods = leaves // shape["pod"]
        sizes["spine_switches"] = (spines, pods, shape["pod"] + shape["cores"])
        sizes["core_switches"] = (spines, shape["cores"], pods)
    shaped = {name: routed[name].reshape(size) for name, size in sizes.items()}
    return FabricRoute(shape=shape, **{**routed, **shaped})


def _fabric_shape(
    leaf: int, tiers: int, spines: int | None, pod: int | None, cores: int | None
) -> dict[str, int]:
    """Return the sizes of a fabric, once they fit."""
    leaf = whole_number(leaf, "leaf", 1, _MAX_PORTS)
    spines = whole_number(leaf if spines is None else spines, "spines", 0, _MAX_PORTS)
    if whole_number(tiers, "tiers", 2, 3) == 3:
        pod = whole_number(leaf if pod is None else pod, "pod", 1, _MAX_PORTS)
        cores = whole_number(pod if cores is None else cores, "cores", 0, _MAX_PORTS)
        return {"leaf": leaf, "spines": spines, "pod": pod, "cores": cores}
    if pod is not None or cores is not None:
        raise InputError("pod and cores are for three tiers: add tiers=3")
    return {"leaf": leaf, "spines": spines}


def _permutation(permutation: npt.ArrayLike) -> npt.NDArray[np.int32]:
    array = whole_list(permutation, "permutation", 2**31 - 1, InputError, minimum=-1)
    return array.astype(np.int32)


def _edges(edges: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    array = as_array(edges, "edges", InputError)
    if array.size == 0:
        return np.zeros((0, 2), dtype=np.uint32)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InputError(
            f"edges: expected rows of 2 whole numbers, got {array.dtype} of shape {array.shape}"
        )
    if array.min() < 0 or array.max() >= _MAX_VERTICES:
        raise InputError(
            f"edges: expected vertices 0 to {_MAX_VERTICES - 1}, got {span_text(array)}"
        )
    return np.ascontiguousarray(array.astype(np.uint32))
