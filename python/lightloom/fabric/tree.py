"""Sizes of a tree of switches with a given number of ports: as few tiers as that many need.

The tree of Al-Fares et al. (SIGCOMM 2008): a ToR has half of its ports down, a pod is as many ToRs
as an aggregation switch has ports down, a cluster is as many pods as a core switch has ports. With
oversubscription a ToR has more ports down than up; the layers above are non-blocking. Any number
of servers may be connected: the tree is then filled from the left, and only used ports count. What
fits one switch has no ToRs, and up to as many ToRs as a switch has ports, spines of full width
join them all: then there is one pod. A server with more NICs than a ToR has ports down (a rack of
72 GPUs) has as many ToRs as its NICs need, each for an equal number of them.
Ports are not broken out: a switch has ``switch_ports`` ports at the rate of the NICs.
Several planes are as many separate trees, each with an equal part of every server's NICs, as the
network that DeepSeek-V3 was trained on (Zhao et al., ISCA 2025: eight planes of two tiers).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightloom.errors import FabricError
from lightloom.fabric.bill import (
    Bill,
    Counting,
    Switches,
    TreeLinks,
    eps_lines,
    merged,
    nic_lines,
)
from lightloom.fabric.cluster import Cluster
from lightloom.hardware import Availability, packet_switches


@dataclass(frozen=True)
class Tree:
    """Where servers sit in a packet fabric, or in each of its ``planes``.

    ``nics`` of each server are on one plane. ``rails`` ToRs of a plane share them: 1 where a ToR
    takes all of them, their number where it takes one of each. ``uplinks_per_tor`` links lead from
    a full ToR to the layer above.
    """

    nics: int
    switch_ports: int
    servers_per_tor: int
    servers_per_pod: int
    uplinks_per_tor: int
    ratio: float = 1.0
    rails: int = 1
    planes: int = 1

    @property
    def nics_per_tor(self) -> int:
        """Ports down of a full ToR."""
        return self.servers_per_tor * self.nics // self.rails

    def tiers(self, servers: int) -> int:
        """Tiers of switches that ``servers`` servers are simulated with."""
        if self.rails == 1 and servers <= self.servers_per_tor:
            return 1
        if self.rails > self.switch_ports:
            return 3  # a spine has no port for each of these ToRs
        return 2 if servers <= self.servers_per_pod else 3

    def widest(self, tiers: int) -> int:
        """The most servers that as many tiers take, with ToRs as they are."""
        if tiers == 1:
            return self.servers_per_tor
        if tiers == 2:
            return self.servers_per_tor * (self.switch_ports // self.rails)
        tors = self.switch_ports**3 // 4 // self.uplinks_per_tor
        return self.servers_per_tor * (tors // self.rails)


def plan_tree(
    what: str,
    servers: int,
    nics: int,
    switch_ports: int,
    *,
    ratio: float = 1.0,
    rail: bool = False,
    servers_per_tor: int | None = None,
) -> Tree:
    """Sizes of the tree for ``nics`` NICs of each of ``servers`` servers.

    Parameters
    ----------
    what
        Fabric, for error messages.
    servers, nics
        Number of servers, and of NICs per server on this fabric.
    switch_ports
        Ports of every switch, at the NICs' rate.
    ratio
        Rate down over rate up of a ToR.
    rail
        NIC i of a server goes to ToR i of its group.
    servers_per_tor
        Overrides the number of servers under one ToR (rail: one set of rail ToRs).

    Raises
    ------
    FabricError
        If a ToR has no port down, or the tree cannot take all of them.
    """
    # half a millionth against rounding: 3:1 of 64 ports is 48 down
    down = math.floor(switch_ports * ratio / (1 + ratio) + 5e-7)
    if down < 1:
        raise FabricError(
            f"{what}: a ToR of {switch_ports} ports has none down; expected at least"
            f" {math.ceil(1 + 1 / ratio)} ports"
        )
    one_switch = not rail and ratio == 1 and servers * nics <= switch_ports
    if one_switch and servers_per_tor in (None, servers):
        return Tree(nics, switch_ports, servers, servers, servers * nics)
    rails = nics if rail else _rails(nics, down)
    per_server = nics // rails
    maximum = down // per_server
    if servers_per_tor is not None and servers_per_tor > maximum:
        raise FabricError(
            f"{what}: servers_per_tor = {servers_per_tor}: a switch of {switch_ports} ports takes"
            f" at most {maximum}"
        )
    full = servers_per_tor or _even(servers, maximum, even=ratio > 1)
    uplinks = math.ceil(full * per_server / ratio)
    tors = rails * -(-servers // full)
    # in two tiers every spine takes a link of every ToR, and has a port for each
    half = switch_ports // 2
    pod_tors = max(half, tors) if tors <= switch_ports else half
    _refuse_overflow(what, servers, uplinks * tors, switch_ports)
    return Tree(nics, switch_ports, full, full * max(1, pod_tors // rails), uplinks, ratio, rails)


def _rails(nics: int, down: int) -> int:
    """As few ToRs as take equal parts of a server's NICs."""
    return next(
        count for count in range(1, nics + 1) if nics % count == 0 and nics // count <= down
    )


def _even(servers: int, maximum: int, *, even: bool) -> int:
    """Servers per ToR: full ToRs, or where uplinks are scarce as even as the cluster allows."""
    return -(-servers // -(-servers // maximum)) if even else maximum


def _refuse_overflow(what: str, servers: int, uplinks: int, switch_ports: int) -> None:
    """Three tiers carry at most ``switch_ports ** 3 / 4`` uplinks of ToRs."""
    if uplinks > switch_ports**3 // 4:
        raise FabricError(
            f"{what}: {servers} servers need {uplinks} uplinks, three tiers of {switch_ports}-port"
            f" switches carry {switch_ports**3 // 4}; use switches with more ports"
        )


def tree_links(tree: Tree, servers: int, tiers: int | str) -> TreeLinks:
    """Links of all planes; a ToR filled in part uses uplinks in proportion.

    ``tiers`` is the number of tiers charged, or ``"fit"`` for those that are simulated.
    """
    uplinks = tree.planes * sum(_uplinks(tree, servers))
    charged = tree.tiers(servers) if isinstance(tiers, str) else tiers
    return TreeLinks(servers * tree.nics * tree.planes, (uplinks,) * (charged - 1))


def _uplinks(tree: Tree, servers: int) -> list[int]:
    """Uplinks of every ToR of one plane."""
    full_tors, rest = divmod(servers, tree.servers_per_tor)
    part = [-(-tree.uplinks_per_tor * rest // tree.servers_per_tor)] if rest else []
    return [*[tree.uplinks_per_tor] * full_tors, *part] * tree.rails


def tree_switches(
    tree: Tree,
    servers: int,
    rate_gbps: float,
    component: str = "eps_port",
    broken_out: int = 1,
) -> Switches:
    """Switches of all planes that are bought whole, and how many of their ports are used.

    Every one of these is ``broken_out`` into as many ports of the tree.
    """
    tiers, ports = tree.tiers(servers), tree.switch_ports
    sold: Availability = "volume"
    if component == "eps_port":
        availability = {switch.ports: switch.availability for switch in packet_switches(rate_gbps)}
        sold = availability.get(ports // broken_out, sold)
    links = tree_links(tree, servers, "fit")
    count = tree.rails * -(-servers // tree.servers_per_tor)
    if tiers == 2:
        count += -(-sum(_uplinks(tree, servers)) // ports)
    elif tiers == 3:
        full_pods, rest = divmod(servers, tree.servers_per_pod)
        pods = [tree.servers_per_pod] * full_pods + [rest] * bool(rest)
        count += sum(-(-sum(_uplinks(tree, pod)) // (ports // 2)) for pod in pods)
        count += -(-sum(_uplinks(tree, servers)) // ports)
    return Switches(
        component=component,
        rate_gbps=rate_gbps,
        ports=ports // broken_out,
        count=count * tree.planes,
        used=-(-(links.hosts + 2 * sum(links.fabric)) // broken_out),
        tiers=tiers,
        planes=tree.planes,
        widest=tree.widest(tiers),
        availability=sold,
    )


def packet_bill(what: str, cluster: Cluster, tree: Tree, counting: Counting) -> Bill:
    """Return the parts of a network of nothing but a packet fabric."""
    links = tree_links(tree, cluster.servers, counting.tiers)
    lines = [
        *nic_lines(cluster.nics, cluster.rate_gbps, counting),
        *eps_lines(links, cluster.rate_gbps, counting),
    ]
    return Bill(
        fabric=what,
        gpus=cluster.gpus,
        servers=cluster.servers,
        lines=merged(lines),
        switches=(tree_switches(tree, cluster.servers, cluster.rate_gbps),),
        fiber_length_m=counting.length_m,
        conventions=counting.conventions(tiers=1 + len(links.fabric)),
    )
