"""Networks link by link: what joins what, the paths of flows, and when circuits are dark.

Nodes have names: a host is its number, as in a table of flows; every other word is a switch. The
switches of ready-made topologies are called ``tor-0``, ``agg-0``, ``core-0``, ``leaf-0``,
``spine-0``, ``rail-0``, ``nvswitch-0`` and so on, that of a star ``switch``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.files import read_input
from lightloom.inputs.text_table import Columns, TextTable, parse_table
from lightloom.packets.flows import MAX_START_S, Flows
from lightloom.packets.htsim_topology import MAX_FILE_BYTES, htsim_links, is_htsim_topology
from lightloom.units import to_bps, to_ps

#: most links (both directions are one), longest name
MAX_LINKS, MAX_NAME = 2**16, 64
#: of a link
MIN_GBPS, MAX_GBPS, MAX_DELAY_S = 1e-3, 1e5, 1.0
LINKS = Columns("links", needed=("a", "b"), optional=("rate_gbps", "delay_us"))
CIRCUITS = Columns("circuits", needed=("a", "b", "dark_us"), optional=("up_us",))


def read_links(path: Path, hosts: int, rate_gbps: float, delay_s: float) -> dict[str, Any]:
    """The links of a file and their switches for the core; empty cells are as the network has it.

    The file is a table, or a tree in the form of htsim (:mod:`.htsim_topology`).

    Raises
    ------
    InputError
        If it cannot be read, or names a host that is not there or a rate that no link has.
    """
    content, name = read_input(path, "list of links", MAX_FILE_BYTES)
    if is_htsim_topology(content):
        return htsim_links(content, name, hosts, rate_gbps)
    table = parse_table(content, name, LINKS)
    if not 1 <= len(table) <= MAX_LINKS:
        raise InputError(f"{table.name}: {len(table):,} links; expected 1 to {MAX_LINKS:,}")
    switches: dict[str, int] = {}
    pairs = enumerate(zip(table.texts("a"), table.texts("b"), strict=True))
    ends = [[_node(table, row, name, hosts, switches) for name in pair] for row, pair in pairs]
    first, second = np.array(ends, dtype=np.uint32).T
    rates = table.numbers("rate_gbps", rate_gbps)
    delays_s = table.numbers("delay_us", 1e6 * delay_s) / 1e6
    _refuse(table, first == second, lambda row: (
        f"both ends are node {echo(table.texts('a')[row])}; expected another b"
    ))  # fmt: skip
    _refuse(table, (rates < MIN_GBPS) | (rates > MAX_GBPS), lambda row: (
        f"rate_gbps {rates[row]:g}: expected {MIN_GBPS:g} to {MAX_GBPS:,g}"
    ))  # fmt: skip
    _refuse(table, (delays_s < 0) | (delays_s > MAX_DELAY_S), lambda row: (
        f"delay_us {1e6 * delays_s[row]:g}: expected 0 to {1e6 * MAX_DELAY_S:,g}"
    ))  # fmt: skip
    links = [
        (*pair, to_bps(rate), to_ps(delay))
        for pair, rate, delay in zip(ends, rates, delays_s, strict=True)
    ]
    return {"switches": list(switches), "links": links}


def _node(table: TextTable, row: int, name: str, hosts: int, switches: dict[str, int]) -> int:
    """Number of a node: hosts come first, then switches as they are named."""
    if name.isdecimal() and name.isascii():
        number = int(name) if len(name) < 10 else hosts
        if number >= hosts:
            raise InputError(
                f"{table.place(row)}: host {echo(name)}: expected 0 to {hosts - 1:,}, or the name "
                "of a switch"
            )
        return number
    is_word = name.isprintable() and not any(sign.isspace() for sign in name)
    if not is_word or not 1 <= len(name) <= MAX_NAME or name[0] in "+-.0123456789":
        raise InputError(
            f"{table.place(row)}: node {echo(name)}: expected the number of a host, or a name of "
            f"up to {MAX_NAME} characters that begins with a letter and has no spaces"
        )
    return switches.setdefault(name, hosts + len(switches))


def _refuse(table: TextTable, wrong: npt.NDArray[np.bool_], say: Any) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{table.place(row)}: {say(row)}")


class NetworkGraph:
    """The nodes of a network by name, and the links between them.

    Parameters
    ----------
    topology
        For the core, see :func:`~lightloom.packets.settings.topology_of`.
    """

    def __init__(self, topology: Mapping[str, object]) -> None:
        names, ends = _core.packet_topology(topology)
        self._nodes = {name: number for number, name in enumerate(names)}
        self._links: dict[tuple[int, int], list[int]] = {}
        for link, pair in enumerate(ends):
            self._links.setdefault(pair, []).append(link)

    def between(self, a: str, b: str) -> list[int]:
        """Links from one node to another.

        Raises
        ------
        InputError
            If there is no such node, or no link joins them.
        """
        for name in (a, b):
            if name not in self._nodes:
                raise InputError(
                    f"there is no node {echo(name)}{did_you_mean(name[:MAX_NAME], self._nodes)}"
                )
        links = self._links.get((self._nodes[a], self._nodes[b]))
        if links is None:
            raise InputError(f"no link joins {a} and {b}")
        return links

    def around(self, name: str) -> list[int]:
        """All links of a node, both ways.

        Raises
        ------
        InputError
            If there is no such node.
        """
        if name not in self._nodes:
            raise InputError(
                f"there is no node {echo(name)}{did_you_mean(name[:MAX_NAME], self._nodes)}"
            )
        node = self._nodes[name]
        return [link for ends, links in self._links.items() if node in ends for link in links]

    def route(self, text: str) -> list[int]:
        """The links along a route; of several between two nodes the first.

        Raises
        ------
        InputError
            As :meth:`between`.
        """
        nodes = text.split()
        return [self.between(a, b)[0] for a, b in pairwise(nodes)]


def routes_of(flows: Flows, graph: NetworkGraph) -> tuple[Any, Any]:
    """For the core: where the links of each flow's route begin, and the links.

    Raises
    ------
    InputError
        Naming the first flow whose route does not lead from its source to its destination.
    """
    links_of: dict[str, list[int]] = {"": []}
    starts, links = [0], []
    for flow, text in enumerate(flows.routes or ()):
        ends = (str(flows.source[flow]), str(flows.destination[flow]))
        nodes = text.split()
        if nodes and (len(nodes) < 2 or (nodes[0], nodes[-1]) != ends):
            raise InputError(
                f"{flows.place(flow)}: route {echo(text)}: expected the nodes from {ends[0]} to "
                f"{ends[1]}, both included"
            )
        if text not in links_of:
            try:
                links_of[text] = graph.route(text)
            except InputError as error:
                raise InputError(f"{flows.place(flow)}: route {echo(text)}: {error}") from None
        links += links_of[text]
        starts.append(len(links))
    return np.array(starts, dtype=np.uint64), np.array(links, dtype=np.uint32)


def read_circuits(path: Path, graph: NetworkGraph) -> list[tuple[int, int, bool]]:
    """When links change, which, and whether they go dark: all between two nodes, both ways.

    Raises
    ------
    InputError
        If it cannot be read, names what is not there, or times that contradict each other.
    """
    table = parse_table(*read_input(path, "list of circuits", MAX_FILE_BYTES), CIRCUITS)
    dark_us, up_us = table.numbers("dark_us"), table.numbers("up_us", np.inf)
    max_us = 1e6 * MAX_START_S
    _refuse(table, (dark_us < 0) | (dark_us > max_us), lambda row: (
        f"dark_us {dark_us[row]:g}: expected 0 to {max_us:g}"
    ))  # fmt: skip
    _refuse(table, (up_us <= dark_us) | (np.isfinite(up_us) & (up_us > max_us)), lambda row: (
        f"up_us {up_us[row]:g}: expected a time after dark_us {dark_us[row]:g}, up to {max_us:g}, "
        "or an empty cell for never"
    ))  # fmt: skip
    changes: list[tuple[int, int, bool]] = []
    last_us: dict[frozenset[str], float] = {}
    names = list(zip(table.texts("a"), table.texts("b"), strict=True))
    for row in np.argsort(dark_us, kind="stable").tolist():
        a, b = names[row]
        if dark_us[row] <= last_us.get(frozenset((a, b)), -1.0):
            raise InputError(
                f"{table.place(row)}: {a} and {b} are dark at {dark_us[row]:g} us already"
            )
        last_us[frozenset((a, b))] = up_us[row]
        try:
            links = graph.between(a, b) + graph.between(b, a)
        except InputError as error:
            raise InputError(f"{table.place(row)}: {error}") from None
        changes += [(to_ps(dark_us[row] / 1e6), link, True) for link in links]
        if np.isfinite(up_us[row]):
            changes += [(to_ps(up_us[row] / 1e6), link, False) for link in links]
    return changes
