"""What has failed, and what follows: which parts to avoid, and how their traffic is carried.

MixNet (SIGCOMM 2025), section 5.4. Pure functions, of one region alone: a failed NIC, link,
transceiver or switch port takes one NIC from the circuits; a failed switch takes its plane, or
all circuits where there is one switch, whose traffic falls back to the EPS. A server whose EPS NICs
have all failed relays through an optical peer and that peer's EPS NICs. A failed GPU is replaced
by a spare one of the region or of the pool, which is reached over the EPS, or through an optical
peer if its server has no EPS NIC left; the GPUs of a failed server by the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from lightloom.control.port_map import NicPair, PortMap, SwitchPort
from lightloom.control.switch import PortState, PortStatus
from lightloom.errors import InputError, echo, expected_one_of
from lightloom.schedule import Failures


class PartKind(StrEnum):
    """A kind of part that fails."""

    NIC = "nic"
    LINK = "link"
    TRANSCEIVER = "transceiver"
    PORT = "port"
    EPS_NIC = "eps"
    GPU = "gpu"
    SERVER = "server"
    SWITCH = "switch"
    TOR = "tor"
    OCS = "ocs"
    PLANE = "plane"


#: parts that take one optical NIC
OPTICAL_PARTS = {PartKind.NIC, PartKind.LINK, PartKind.TRANSCEIVER}
_EXPECTED = (
    "expected of nic:2/1 (server/NIC), link:2/1, transceiver:2/1, eps:0/1, gpu:2/5, server:3, "
    "port:ocs/13, switch:ocs; of a whole network also tor:0, ocs:0, plane:0"
)
#: parts of a whole network, each known by its index there
_OF_NETWORK = {PartKind.TOR, PartKind.OCS, PartKind.PLANE}
#: parts with a name
_NAMED = {PartKind.SWITCH, PartKind.PORT}


class RegionPart(NamedTuple):
    """A part of a region, or of a network.

    Attributes
    ----------
    kind
        What it is.
    server, number
        Its server, and its index in the server or network; -1 where that means nothing.
    switch, port
        For ports and switches; empty otherwise.
    """

    kind: PartKind
    server: int = -1
    number: int = -1
    switch: str = ""
    port: str = ""

    def __str__(self) -> str:
        if self.kind is PartKind.PORT:
            return f"port:{self.switch}/{self.port}"
        if self.kind is PartKind.SWITCH:
            return f"switch:{self.switch}"
        if self.kind in _OF_NETWORK:
            return f"{self.kind}:{self.number}"
        place = f"{self.server}" if self.kind is PartKind.SERVER else f"{self.server}/{self.number}"
        return f"{self.kind}:{place}"


class GpuPlace(NamedTuple):
    """A GPU by its server in the region; server -1 is the pool."""

    server: int
    gpu: int

    def __str__(self) -> str:
        return f"GPU {self.gpu} of the pool" if self.server < 0 else f"GPU {self.server}/{self.gpu}"


@dataclass(frozen=True)
class RegionShape:
    """How many parts a region has.

    Attributes
    ----------
    optical_nics
        Of each server.
    eps_nics, gpus
        Of every server.
    switches
        Names of the circuit switches; several are planes.
    spares
        GPUs of the region that the job does not use.
    pool
        GPUs outside the region that may replace others, reached over the EPS.
    """

    optical_nics: Sequence[int]
    eps_nics: int
    gpus: int
    switches: Sequence[str] = ("ocs",)
    spares: Sequence[GpuPlace] = ()
    pool: int = 0

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.optical_nics)


class EpsRelay(NamedTuple):
    """A server without EPS NICs, and the optical peer that forwards its traffic; -1 if none can."""

    server: int
    peer: int


class GpuReplacement(NamedTuple):
    """A failed GPU and what replaces it.

    ``via`` is the optical peer through which the backup is reached, -1 over the EPS.
    """

    failed: GpuPlace
    backup: GpuPlace
    via: int = -1


@dataclass(frozen=True)
class FailureResponse:
    """What follows from failures.

    Attributes
    ----------
    excluded
        What circuits avoid.
    relays
        How servers without EPS NICs reach the EPS.
    replacements
        Which GPUs take over.
    unreplaced
        Failed GPUs for which there is no backup.
    isolated
        Servers that nothing reaches any more.
    lost
        Held circuits that are gone.
    """

    excluded: Failures
    relays: tuple[EpsRelay, ...] = ()
    replacements: tuple[GpuReplacement, ...] = ()
    unreplaced: tuple[GpuPlace, ...] = ()
    isolated: tuple[int, ...] = ()
    lost: tuple[NicPair, ...] = field(default=())

    def sentences(self) -> list[str]:
        """Return it in words, one line each."""
        lines = [f"excluded: {self.excluded.parts}"] if self.excluded.parts else []
        lines += [f"circuit {circuit} is lost; its bytes go over the EPS" for circuit in self.lost]
        for server, peer in self.relays:
            lines.append(f"server {server} reaches the EPS through server {peer}")
        for swap in self.replacements:
            path = "over the EPS" if swap.via < 0 else f"through server {swap.via}"
            lines.append(f"{swap.failed} is replaced by {swap.backup}, reached {path}")
        lines += [f"{gpu} has no backup" for gpu in self.unreplaced]
        lines += [f"server {server} is isolated" for server in self.isolated]
        return lines


def parse_part(text: str, name: str = "part") -> RegionPart:
    """Return the part that a text such as ``nic:2/1`` names; ``name`` begins messages.

    Raises
    ------
    InputError
        If it names none.
    """
    word, _, place = text.strip().partition(":")
    if word not in set(PartKind):
        raise InputError(f"{name} {echo(text)}: {expected_one_of(word, PartKind)}; {_EXPECTED}")
    kind = PartKind(word)
    first, _, second = place.partition("/")
    if kind is PartKind.SWITCH and place:
        return RegionPart(kind, switch=place)
    if kind is PartKind.PORT and first and second:
        return RegionPart(kind, switch=first, port=second)
    if kind is PartKind.SERVER and _is_index(place):
        return RegionPart(kind, int(place))
    if kind in _OF_NETWORK and _is_index(place):
        return RegionPart(kind, number=int(place))
    numbered = kind not in _NAMED | _OF_NETWORK | {PartKind.SERVER}
    if numbered and _is_index(first) and _is_index(second):
        return RegionPart(kind, int(first), int(second))
    raise InputError(f"{name} {echo(text)}: {_EXPECTED}")


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def check_part(part: RegionPart, shape: RegionShape, port_map: PortMap | None = None) -> RegionPart:
    """Check that a part exists; a port becomes the NIC behind it.

    Raises
    ------
    InputError
        If the region has no such part.
    """
    if part.kind in _OF_NETWORK:
        raise InputError(f"{part}: a region has no such part; name its switch, as switch:ocs")
    if part.kind is PartKind.SWITCH:
        if part.switch not in shape.switches:
            switches = ", ".join(shape.switches)
            raise InputError(f"{part}: expected a switch of {switches}")
        return part
    if part.kind is PartKind.PORT:
        entry = None
        if port_map is not None:
            entry = port_map.by_port.get(SwitchPort(part.switch, part.port))
        if entry is None:
            raise InputError(f"{part}: no NIC of the region is at this port")
        return RegionPart(PartKind.NIC, entry.server, entry.nic)
    if part.server >= shape.servers:
        raise InputError(f"{part}: expected a server from 0 to {shape.servers - 1}")
    limits = {PartKind.EPS_NIC: shape.eps_nics, PartKind.GPU: shape.gpus, PartKind.SERVER: 1}
    limit = limits.get(part.kind, shape.optical_nics[part.server])
    if part.number >= limit:
        raise InputError(f"{part}: server {part.server} has {limit}, counted from 0")
    return part


def respond(
    parts: Iterable[RegionPart], shape: RegionShape, held: Iterable[NicPair] = ()
) -> FailureResponse:
    """Return what follows from failed parts.

    Parameters
    ----------
    parts
        What has failed, as :func:`check_part` returns it.
    shape
        The region.
    held
        Circuits that are there; relays and peers are chosen among them.
    """
    failed = sorted(set(parts))
    servers = sorted({part.server for part in failed if part.kind is PartKind.SERVER})
    nics = {(part.server, part.number) for part in failed if part.kind in OPTICAL_PARTS}
    eps = {(part.server, part.number) for part in failed if part.kind is PartKind.EPS_NIC}
    planes: list[int] = []
    for part in failed:
        if part.kind is PartKind.SWITCH and len(shape.switches) > 1:
            planes.append(list(shape.switches).index(part.switch))
        elif part.kind is PartKind.SWITCH:
            nics |= {(s, nic) for s, count in enumerate(shape.optical_nics) for nic in range(count)}
    excluded = Failures(sorted(nics), sorted(eps), servers, planes)
    circuits = sorted(held)
    lost = tuple(pair for pair in circuits if not _works(pair, excluded, shape))
    alive = [pair for pair in circuits if pair not in set(lost)]
    cut = _without_eps(shape, eps, servers)
    relays, isolated = _relays(cut, alive)
    gpus = [GpuPlace(part.server, part.number) for part in failed if part.kind is PartKind.GPU]
    gpus = [gpu for gpu in gpus if gpu.server not in servers]
    gpus += [GpuPlace(server, gpu) for server in servers for gpu in range(shape.gpus)]
    by_server = {relay.server: relay for relay in relays}
    replacements, unreplaced = _replace(gpus, shape, servers, by_server)
    return FailureResponse(excluded, relays, replacements, unreplaced, isolated, lost)


def _works(circuit: NicPair, excluded: Failures, shape: RegionShape) -> bool:
    for server, nic in ((circuit.server, circuit.nic), (circuit.peer, circuit.peer_nic)):
        if server in excluded.servers or (server, nic) in excluded.nics:
            return False
        if len(shape.switches) > 1 and nic in excluded.planes:
            return False
    return True


def _without_eps(
    shape: RegionShape, eps: set[tuple[int, int]], servers: Sequence[int]
) -> list[int]:
    """Servers that run, but have no EPS NIC left."""
    left = [
        sum((server, nic) not in eps for nic in range(shape.eps_nics))
        for server in range(shape.servers)
    ]
    return [server for server in range(shape.servers) if not left[server] and server not in servers]


def _relays(
    cut: Sequence[int], circuits: Sequence[NicPair]
) -> tuple[tuple[EpsRelay, ...], tuple[int, ...]]:
    """For each server without EPS an optical peer: few relays each, then many circuits."""
    relays: list[EpsRelay] = []
    isolated = []
    for server in cut:
        count: dict[int, int] = {}
        for circuit in circuits:
            if server in circuit.servers:
                peer = circuit.peer if circuit.server == server else circuit.server
                if peer not in cut:
                    count[peer] = count.get(peer, 0) + 1
        busy = [relay.peer for relay in relays]
        if not count:
            isolated.append(server)
            continue
        relays.append(
            EpsRelay(server, min(count, key=lambda peer: (busy.count(peer), -count[peer], peer)))
        )
    return tuple(relays), tuple(isolated)


def _replace(
    gpus: Sequence[GpuPlace],
    shape: RegionShape,
    servers: Sequence[int],
    relays: Mapping[int, EpsRelay],
) -> tuple[tuple[GpuReplacement, ...], tuple[GpuPlace, ...]]:
    """Spare GPUs of the region for single GPUs, the pool for the rest and for whole servers."""
    spares = [
        spare for spare in sorted(shape.spares) if spare.server not in servers and spare not in gpus
    ]
    pool = iter(GpuPlace(-1, number) for number in range(shape.pool))
    replacements, unreplaced = [], []
    for gpu in gpus:
        if gpu in shape.spares:
            continue  # nobody used it
        backup = None
        if gpu.server not in servers and spares:
            # of the same server if there is one: then NVSwitch reaches it
            backup = min(spares, key=lambda spare: (spare.server != gpu.server, spare))
            spares.remove(backup)
        else:
            backup = next(pool, None)
        if backup is None:
            unreplaced.append(gpu)
        else:
            relay = relays.get(backup.server)
            replacements.append(GpuReplacement(gpu, backup, -1 if relay is None else relay.peer))
    return tuple(replacements), tuple(unreplaced)


def failed_ports(
    port_map: PortMap, statuses: Mapping[SwitchPort, PortStatus], dark_dbm: float
) -> list[RegionPart]:
    """Return NICs whose ports the switches report as failed, or that send no light.

    Parameters
    ----------
    port_map
        The ports of the region.
    statuses
        What the switches say of their ports.
    dark_dbm
        Power at an ingress port up to which its NIC, transceiver or fiber is taken to have failed;
        a port without a monitor proves nothing.
    """
    parts = []
    for entry in port_map.nics:
        for port in dict.fromkeys((entry.ingress, entry.egress)):
            status = statuses.get(port)
            if status is None:
                continue
            dark = status.power_dbm is not None and status.power_dbm <= dark_dbm
            if status.state is PortState.FAILED or (port == entry.ingress and dark):
                parts.append(RegionPart(PartKind.NIC, entry.server, entry.nic))
                break
    return parts
