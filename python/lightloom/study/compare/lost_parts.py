"""Which parts each kind of network has, and what it loses with one of them.

A failed server is replaced by a spare one: on packet switches under another ToR, on a patch panel
or crossbars in the same place, in a region of circuits over the packet switches alone, unless the
region's switch has a spare server. Servers that nothing reaches any more are replaced, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.control.failures import PartKind, RegionPart
from lightloom.fabric import Cluster
from lightloom.fabric.network import (
    Crossbars,
    Direct,
    Eps,
    Network,
    Ocs,
    RackCircuits,
    SwitchGraph,
)
from lightloom.fabric.regions import NO_REGION
from lightloom.schedule import Failures
from lightloom.units import show_things

#: parts of one NIC: each takes all of it
_OF_NIC = (PartKind.NIC, PartKind.LINK, PartKind.TRANSCEIVER)
#: parts whose failures are simulated
KINDS = frozenset({
    *_OF_NIC, PartKind.EPS_NIC, PartKind.GPU, PartKind.SERVER, PartKind.TOR, PartKind.OCS,
    PartKind.PLANE, PartKind.PORT,
})  # fmt: skip
EXPECTED = (
    "expected of server:3, gpu:2/5, nic:2/1 (server/NIC), link:2/1, transceiver:2/1, eps:0/1, "
    "tor:0, ocs:0, plane:0, port:0/3 (circuit switch/rack)"
)
#: how many there are of a part: of servers and of each server's, or of all
Counts = tuple[int, ...]


#: what follows where a fabric cannot lack parts
UNKNOWN = "what it is without parts is not known"


@dataclass(frozen=True)
class Loss:
    """What a network loses: what follows in words, and parts that a fabric is then without.

    Where none are ``lost`` the fabric has no such part, or the job stops.
    """

    response: str
    lost: Failures | None = None
    stops: bool = False


def counts_of_servers(cluster: Cluster) -> dict[PartKind, Counts]:
    """Return how many servers, GPUs and NICs there are on any network."""
    return {
        PartKind.SERVER: (cluster.servers,),
        PartKind.GPU: (cluster.servers, cluster.gpus_per_server),
        **dict.fromkeys(_OF_NIC, (cluster.servers, cluster.nics_per_server)),
    }


def counts_of(network: Network, cluster: Cluster) -> dict[PartKind, Counts]:
    """Return how many of each part a network has; a kind that it lacks is left out."""
    servers, counts = network.servers, counts_of_servers(cluster)
    eps, ocs = network.part(Eps), network.part(Ocs)
    if eps is not None:
        planes = max(eps.planes, eps.shared_planes)
        tors = -(-servers // eps.servers_per_tor) * eps.rails * eps.shared_planes
        counts[PartKind.TOR] = (tors,)
        if planes > 1:
            counts[PartKind.PLANE] = (planes,)
    if ocs is not None and eps is not None and not network.delegates:
        counts[PartKind.PORT] = (ocs.ports, servers)
    if (graph := network.part(SwitchGraph)) is not None:
        counts[PartKind.TOR] = (len(np.unique(graph.switch_of_port)),)
        if graph.planes > 1:
            counts[PartKind.PLANE] = (graph.planes,)
    if ocs is not None and network.delegates:
        counts[PartKind.EPS_NIC] = (servers, _packet_links(network))
        if chassis := _chassis(ocs):
            counts[PartKind.OCS] = (chassis,)
        if ocs.planes is not None:
            counts[PartKind.PLANE] = (ocs.ports,)
    if network.part(Crossbars) is not None:
        counts[PartKind.PLANE] = (cluster.nics_per_server,)
    if (racks := network.part(RackCircuits)) is not None:
        switches = sum(count for _, count in racks.banks)
        counts[PartKind.TOR] = (-(-servers // racks.servers_per_rack),)
        if switches:
            counts[PartKind.OCS] = (switches,)
            counts[PartKind.PORT] = (switches, *counts[PartKind.TOR])
    return counts


def loss_of(part: RegionPart, network: Network, cluster: Cluster, worker_gpus: int) -> Loss:
    """Return what a network loses with a part that exists, or is of a kind that it lacks.

    Parameters
    ----------
    part
        The part.
    network, cluster
        What it is of.
    worker_gpus
        GPUs of a worker of the job.
    """
    if part.kind not in counts_of(network, cluster):
        return Loss(_ABSENT[part.kind])
    eps, ocs = network.part(Eps), network.part(Ocs)
    if ocs is not None and eps is not None and not network.delegates:
        return _of_optical_io(part, network, eps, ocs)
    if ocs is not None:
        return _of_region(part, network, ocs)
    if eps is not None:
        return _of_tree(part, network, eps)
    if (crossbars := network.part(Crossbars)) is not None:
        workers = max(1, network.gpus_per_server // worker_gpus)
        return _of_crossbars(part, crossbars, crossbars.nics // workers)
    if (racks := network.part(RackCircuits)) is not None:
        return _of_racks(part, racks, network.servers)
    if (graph := network.part(SwitchGraph)) is not None:
        return _of_graph(part, graph, network.servers)
    if network.part(Direct) is not None:
        return _of_panel(part, cluster)
    return Loss(UNKNOWN)


_ABSENT = {
    PartKind.EPS_NIC: "its NICs are of one kind: name nic:2/1",
    PartKind.TOR: "it has no packet switch",
    PartKind.OCS: "it has no circuit switch that could lose a region",
    PartKind.PLANE: "it is one network, not planes",
    PartKind.PORT: "it has no circuit switch between racks",
}


def _of_tree(part: RegionPart, network: Network, eps: Eps) -> Loss:
    server, number = part.server, part.number
    if part.kind in _OF_NIC and eps.nics > 1:
        return Loss(f"{eps.nics - 1} of {eps.nics} NICs left", Failures(nics=[(server, number)]))
    if part.kind is PartKind.PLANE:
        planes = max(eps.planes, eps.shared_planes)
        return Loss(f"{planes - 1} of {planes} planes left", Failures(planes=[number]))
    if part.kind is PartKind.TOR and eps.shared_planes > 1:
        return _of_tor_of_plane(number, network, eps)
    if part.kind is PartKind.TOR:
        return _of_tor(number, network, eps, has_circuits=False)
    return Loss("a spare server under another ToR", Failures(servers=[server]))


def _of_tor(number: int, network: Network, eps: Eps, *, has_circuits: bool) -> Loss:
    """Its NICs of the servers below; where these have no others, spare servers replace them."""
    sets = -(-network.servers // eps.servers_per_tor)
    group, rail = divmod(number, eps.rails)
    first = group * eps.servers_per_tor
    below = range(first, min(first + eps.servers_per_tor, network.servers))
    if eps.rails == 1 and sets == 1:
        return Loss("it joins all servers", stops=True)
    if eps.rails == 1:
        count = "spare server" if len(below) == 1 else "spare servers"
        return Loss(f"{len(below)} {count} under another ToR", Failures(servers=below))
    each = eps.nics // eps.rails
    nics = [(server, rail * each + nic) for server in below for nic in range(each)]
    return Loss(
        f"{show_things(len(below), 'server')} with {eps.nics - each} of {eps.nics} NICs left",
        Failures(eps_nics=nics) if has_circuits else Failures(nics=nics),
    )


def _of_tor_of_plane(number: int, network: Network, eps: Eps) -> Loss:
    """One port of each NIC below it: the other planes are still there."""
    group, plane = divmod(number, eps.shared_planes)
    first, planes = group * eps.servers_per_tor, eps.shared_planes
    below = range(first, min(first + eps.servers_per_tor, network.servers))
    ports = [(server, nic * planes + plane) for server in below for nic in range(eps.nics)]
    left = f"{show_things(len(below), 'server')} with {planes - 1} of {planes} planes left"
    return Loss(left, Failures(eps_nics=ports))


def _of_optical_io(part: RegionPart, network: Network, eps: Eps, ocs: Ocs) -> Loss:
    """A circuit of a rack counts as one of all of its GPUs, which are set alike."""
    if part.kind is PartKind.PORT:
        lost = Failures(nics=[(part.number, eps.nics + part.server)])
        return Loss(f"{ocs.ports - 1} of {ocs.ports} circuits of each GPU of the rack left", lost)
    if part.kind is PartKind.GPU:
        return Loss("a spare GPU of its rack", Failures())
    return _of_tree(part, network, eps)


def _packet_links(network: Network) -> int:
    """Links of a server to packet switches: its NICs on a tree, and each of theirs on a graph."""
    graph, eps = network.part(SwitchGraph), network.part(Eps)
    if graph is not None:
        return graph.nics * graph.ports
    return 0 if eps is None else eps.nics


def lacks_packet_links(network: Network) -> bool:
    """Whether links to packet switches have failed, which only flows can do without."""
    graph, eps, ocs = network.part(SwitchGraph), network.part(Eps), network.part(Ocs)
    of_region = ocs is not None and ocs.failures is not None and bool(ocs.failures.eps_nics)
    return of_region or bool(eps and eps.failed) or bool(graph and graph.failed)


def packet_bps(network: Network) -> int:
    """Rate of a server to packet switches."""
    graph, eps = network.part(SwitchGraph), network.part(Eps)
    each = graph.port_rate_bps if graph is not None else 0 if eps is None else eps.nic_rate_bps
    return _packet_links(network) * each


def _of_region(part: RegionPart, network: Network, ocs: Ocs) -> Loss:
    """NICs are numbered from the optical ones on; those of packet switches have links."""
    server, number, links = part.server, part.number, _packet_links(network)
    eps, graph = network.part(Eps), network.part(SwitchGraph)
    if part.kind in _OF_NIC and number < ocs.ports:
        lost = Failures(nics=[(server, number)])
        return Loss(f"{ocs.ports - 1} of {ocs.ports} circuits left", lost)
    if part.kind is PartKind.EPS_NIC or part.kind in _OF_NIC:
        ports = 1 if graph is None else graph.ports
        each = 1 if part.kind is PartKind.EPS_NIC else ports
        first = number if part.kind is PartKind.EPS_NIC else (number - ocs.ports) * each
        if links > each:
            lost = Failures(eps_nics=[(server, first + link) for link in range(each)])
            what = "NICs on packet switches" if ports == 1 else "links to packet switches"
            return Loss(f"{links - each} of {links} {what} left", lost)
    if part.kind is PartKind.PLANE and ocs.planes is not None:
        return Loss(f"{ocs.ports - 1} of {ocs.ports} planes left", Failures(planes=[number]))
    if part.kind is PartKind.OCS:
        return _of_chassis(number, ocs)
    if part.kind in (PartKind.TOR, PartKind.PLANE) and graph is not None:
        return _of_graph(part, graph, network.servers)
    if part.kind is PartKind.TOR and eps is not None:
        return _of_tor(number, network, eps, has_circuits=True)
    where = "on packet switches alone (spare_servers = 1 joins one to the circuit switch)"
    if ocs.spare_servers:
        where = "on the same circuit switch"
    return Loss(f"a spare server {where}", Failures(servers=[server]))


def _chassis(ocs: Ocs) -> int:
    """Circuit switches: blocks of regions that share one, on each plane."""
    used = ocs.region_of_server[ocs.region_of_server != NO_REGION]
    regions = int(used.max()) + 1 if used.size else 0
    return -(-regions // ocs.regions_per_switch) * (1 if ocs.planes is None else ocs.ports)


def _of_chassis(number: int, ocs: Ocs) -> Loss:
    """All circuits of its regions, or one of each server where there are planes."""
    planes = 1 if ocs.planes is None else ocs.ports
    block, plane = divmod(number, planes)
    region = ocs.region_of_server.astype(np.int64)
    inside = (region != NO_REGION) & (region // ocs.regions_per_switch == block)
    servers = np.flatnonzero(inside).tolist()
    nics = range(ocs.ports) if planes == 1 else range(plane, plane + 1)
    left = f"{ocs.ports - len(nics)} of {ocs.ports} circuits left"
    regions = show_things(len(set(region[inside].tolist())), "region")
    return Loss(
        f"{regions}, {show_things(len(servers), 'server')} with {left}",
        Failures(nics=[(server, nic) for server in servers for nic in nics]),
    )


def _of_crossbars(part: RegionPart, crossbars: Crossbars, worker_nics: int) -> Loss:
    if part.kind is PartKind.PLANE:
        lost = Failures(planes=[part.number])
        if crossbars.spare_planes:
            return Loss("a spare plane", lost)
        if worker_nics == 1:
            return Loss("a worker has one NIC; spare_planes = 1 replaces its plane", stops=True)
        return Loss(f"{crossbars.nics - 1} of {crossbars.nics} planes left", lost)
    if part.kind in _OF_NIC and worker_nics > 1:
        left = f"{worker_nics - 1} of {worker_nics} NICs of a worker left"
        return Loss(left, Failures(nics=[(part.server, part.number)]))
    return Loss("a spare server in its place", Failures(servers=[part.server]))


def _of_racks(part: RegionPart, racks: RackCircuits, servers: int) -> Loss:
    if part.kind is PartKind.TOR:
        first = part.number * racks.servers_per_rack
        below = range(first, min(first + racks.servers_per_rack, servers))
        return Loss("a spare rack in its place", Failures(servers=below))
    if part.kind not in (PartKind.OCS, PartKind.PORT):
        return Loss("a spare server in its place", Failures(servers=[part.server]))
    at = part.number if part.kind is PartKind.OCS else part.server
    switches = [joined for joined, count in racks.banks for _ in range(count)]
    left = f"{len(switches) - 1} of {len(switches)} circuit switches left"
    is_rotor = racks.rules.policy == "rotornet"
    if is_rotor and len(switches) == 1:
        return Loss("no other circuit switch joins its racks", stops=True)
    if part.kind is PartKind.OCS:
        return Loss(left, Failures(planes=[at]))
    if part.number not in switches[at]:
        return Loss(f"rack {part.number} has no port at circuit switch {at}")
    lost = Failures(nics=[(part.number, at)])
    if is_rotor:
        return Loss(f"{left}, so that all pairs keep a slot", lost)
    joining = sum(part.number in joined for joined in switches)
    return Loss(f"{joining - 1} of {joining} circuits of its rack left", lost)


def _of_graph(part: RegionPart, graph: SwitchGraph, servers: int) -> Loss:
    """A switch takes the links of servers that end at it: those that have others go on."""
    server, number, nics = part.server, part.number, graph.nics
    if part.kind in _OF_NIC and nics > 1:
        return Loss(f"{nics - 1} of {nics} NICs left", Failures(nics=[(server, number)]))
    if part.kind is PartKind.PLANE:
        left = f"{graph.planes - 1} of {graph.planes} planes left"
        return Loss(left, Failures(planes=[number]))
    if part.kind is not PartKind.TOR:
        return Loss("a spare server in its place", Failures(servers=[server]))
    ports = graph.switch_of_port.reshape(servers, -1)
    is_lost = ports == np.unique(ports)[number]
    links = int(np.min((~is_lost).sum(axis=1)))
    if not links:
        alone = int(is_lost.all(axis=1).sum())
        return Loss(f"nothing else joins {show_things(alone, 'server')}", stops=True)
    below = show_things(int(is_lost.any(axis=1).sum()), "server")
    return Loss(
        f"{below} with {links} of {ports.shape[1]} links left",
        Failures(eps_nics=[(int(at), int(link)) for at, link in np.argwhere(is_lost)]),
    )


def _of_panel(part: RegionPart, cluster: Cluster) -> Loss:
    if part.kind in _OF_NIC:
        nics, lost = cluster.nics_per_server, Failures(nics=[(part.server, part.number)])
        return Loss(f"{nics - 1} of {nics} circuits left", lost)
    return Loss("a spare server patched into its place", Failures(servers=[part.server]))
