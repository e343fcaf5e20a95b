"""What ``ip``, ``bridge`` and ``tc`` are told, as lines of a batch. Pure: nothing here runs them.

A cable is a veth pair. A NIC at the packet switch is shaped at both ends: what leaves the switch
waits in the port's queue. A NIC at the circuit switch is shaped in the server alone: a mirror has
no queue, and exactly one NIC sends to each port, at a rate that is shaped already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lightloom.testbed.layout import MTU_BYTES, ServerLayout, ServerNic

#: longest wait in a queue before frames are dropped
_QUEUE_MS = 20
#: what a shaper may send at once: a little more than the largest segment that the kernel makes, and
#: what passes within a millisecond, so that a late timer costs no rate
_MIN_BURST_BYTES, _BURST_MS = 70_000, 1.0
_BRIDGE = "bridge0"
#: routing tables of the NICs, by their place in the server
_FIRST_TABLE = 100

Lines = Iterator[str]


def cables(layout: ServerLayout, place_of: Callable[[int], str], *, optical: bool) -> Lines:
    """Lines for ``ip`` in a switch's namespace: its ports, each with the NIC at the other end.

    Parameters
    ----------
    layout
        Of the testbed.
    place_of
        Path of the namespace of a server.
    optical
        Which switch.
    """
    if not optical:
        yield f"link add {_BRIDGE} type bridge mcast_snooping 0"
        yield f"link set {_BRIDGE} up"
    for nic in layout.all_nics():
        if nic.is_optical is optical:
            yield (
                f"link add {nic.port} mtu {MTU_BYTES} type veth peer name {nic.device} "
                f"address {nic.mac} mtu {MTU_BYTES} netns {place_of(nic.server)}"
            )
            if not optical:
                yield f"link set {nic.port} master {_BRIDGE}"
                yield f"link set {nic.port} type bridge_slave learning off flood off"
            yield f"link set {nic.port} multicast off up"


def stations(layout: ServerLayout) -> Lines:
    """Lines for ``bridge`` at the packet switch: at which port each NIC is."""
    for nic in layout.all_nics():
        if not nic.is_optical:
            yield f"fdb add {nic.mac} dev {nic.port} master static"


def addresses(layout: ServerLayout, server: int) -> Lines:
    """Lines for ``ip`` in a server: its NICs' addresses, and where those of others are.

    A socket that is bound to a NIC's address, or to its device, sends over this NIC.
    """
    yield "link set lo up"
    here = list(layout.nics_of(server))
    for table, nic in enumerate(here, _FIRST_TABLE):
        yield f"addr add {nic.address}/32 dev {nic.device}"
        yield f"link set {nic.device} multicast off up"
        network = f"10.{int(nic.is_optical)}.0.0/16"
        yield f"route add {network} dev {nic.device} src {nic.address} metric {table}"
        yield f"route add {network} dev {nic.device} src {nic.address} table {table}"
        yield f"rule add from {nic.address} lookup {table}"
    others = [nic for nic in layout.all_nics() if nic.server != server]
    for nic in here:
        for other in others:
            if other.is_optical is nic.is_optical:
                yield (
                    f"neigh add {other.address} lladdr {other.mac} dev {nic.device} nud permanent"
                )


def shapers(layout: ServerLayout, server: int) -> Lines:
    """Lines for ``tc`` in a server: the rates of its NICs."""
    for nic in layout.nics_of(server):
        yield _shaper(nic, nic.device)


def port_shapers(layout: ServerLayout) -> Lines:
    """Lines for ``tc`` at the packet switch: the rates at which it sends to the NICs."""
    for nic in layout.all_nics():
        if not nic.is_optical:
            yield _shaper(nic, nic.port)


def mirror_mounts(layout: ServerLayout) -> Lines:
    """Lines for ``tc`` at the circuit switch: where redirects of each port will be."""
    for nic in layout.all_nics():
        if nic.is_optical:
            yield f"qdisc add dev {nic.port} clsact"


def _shaper(nic: ServerNic, device: str) -> str:
    bits_per_s = round(nic.rate_gbps * 1e9)
    burst = max(_MIN_BURST_BYTES, round(bits_per_s / 8 * _BURST_MS / 1e3))
    return (
        f"qdisc add dev {device} root tbf rate {bits_per_s}bit burst {burst} latency {_QUEUE_MS}ms"
    )
