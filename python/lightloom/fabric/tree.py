"""Sizes of a three-tier tree of switches with a given number of ports.

The tree of Al-Fares et al. (SIGCOMM 2008): a ToR has half of its ports down, a pod is as many ToRs
as an aggregation switch has ports down, a cluster is as many pods as a core switch has ports. With
oversubscription a ToR has more ports down than up; the layers above are non-blocking. Any number
of servers may be connected: the tree is then filled from the left, and only used ports count.
Ports are not broken out: a switch has ``switch_ports`` ports at the rate of the NICs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightloom.errors import FabricError
from lightloom.fabric.bill import Bill, Counting, Links, eps_lines, merged, nic_lines
from lightloom.fabric.cluster import Cluster


@dataclass(frozen=True)
class Tree:
    """Where servers sit in a packet fabric.

    ``rails`` is 1 where a ToR takes all NICs of its servers, and the number of NICs per server
    where it takes one of each. ``uplinks_per_tor`` links lead from a full ToR to the layer above.
    """

    nics: int
    switch_ports: int
    servers_per_tor: int
    servers_per_pod: int
    uplinks_per_tor: int
    ratio: float = 1.0
    rails: int = 1

    @property
    def nics_per_tor(self) -> int:
        """Ports down of a full ToR."""
        return self.servers_per_tor * self.nics // self.rails


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
        If a ToR cannot take one server, or the tree cannot take all of them.
    """
    rails = nics if rail else 1
    per_server = 1 if rail else nics
    # half a millionth against rounding: 3:1 of 64 ports is 48 down
    down = math.floor(switch_ports * ratio / (1 + ratio) + 5e-7)
    maximum = down // per_server
    if maximum < 1:
        raise FabricError(
            f"{what}: a server's {per_server} NICs need a switch of at least"
            f" {math.ceil(per_server * (1 + 1 / ratio))} ports, got {switch_ports}"
        )
    if servers_per_tor is not None and servers_per_tor > maximum:
        raise FabricError(
            f"{what}: servers_per_tor = {servers_per_tor}: a switch of {switch_ports} ports takes"
            f" at most {maximum}"
        )
    full = servers_per_tor or _even(servers, maximum, even=ratio > 1)
    uplinks = math.ceil(full * per_server / ratio)
    half = switch_ports // 2
    pod = full * max(1, half // rails)
    _refuse_overflow(what, servers, uplinks * rails * -(-servers // full), switch_ports)
    return Tree(nics, switch_ports, full, pod, uplinks, ratio, rails)


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


def tree_links(tree: Tree, servers: int, tiers: int | str) -> Links:
    """Links that ``servers`` servers use; a ToR filled in part uses uplinks in proportion.

    ``tiers`` is the number of tiers charged, or ``"fit"`` for the least that is enough.
    """
    full_tors, rest = divmod(servers, tree.servers_per_tor)
    per_server = tree.nics // tree.rails
    uplinks = full_tors * tree.uplinks_per_tor + math.ceil(rest * per_server / tree.ratio)
    uplinks *= tree.rails
    if tiers == "fit":
        tiers = _min_tiers(tree, servers, uplinks)
    assert isinstance(tiers, int)
    return Links(servers * tree.nics, (uplinks,) * (tiers - 1))


def _min_tiers(tree: Tree, servers: int, uplinks: int) -> int:
    if servers * tree.nics <= tree.switch_ports:
        return 1
    # in two tiers every spine takes a link of every ToR, and has a port for each
    return 2 if uplinks <= tree.uplinks_per_tor * tree.switch_ports else 3


def packet_bill(what: str, cluster: Cluster, tree: Tree, counting: Counting) -> Bill:
    """Return the parts of a network of nothing but a packet fabric."""
    links = tree_links(tree, cluster.servers, counting.tiers)
    lines = [
        *nic_lines(cluster.nics, cluster.nic_gbps, counting),
        *eps_lines(links, cluster.nic_gbps, counting),
    ]
    return Bill(
        fabric=what,
        gpus=cluster.gpus,
        servers=cluster.servers,
        lines=merged(lines),
        fiber_length_m=counting.fiber_length_m,
        conventions=counting.conventions(),
    )
