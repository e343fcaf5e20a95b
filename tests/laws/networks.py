"""The networks that laws are checked on, by name, and the same with other rates and latencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from tests.rotor_fabric import rounds
from tests.simulate_graphs import GBPS, direct, mixnet, packet

from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.network import Crossbars, Network, Scheduled, StartUp
from lightloom.schedule import SwitchTiming

AnyPart = TypeVar("AnyPart")

RATE_BPS = 400 * GBPS
START_UP = StartUp(message_ps=10_000_000, all_to_all_ps=20_000_000, peer_ps=1_000_000)
#: epochs and switches as fast as steps are short
QUICK = {"dark_s": 1e-5, "epoch_s": 1e-4}
#: fabrics of racks, and what others are options of
RACKS = ("rotornet", "opera", "helios", "x-nest-plus", "x-nest", "flexfly")
#: policies that decide on circuits during the step
POLICIES = ("always", "break-even", "oracle", "per-layer")


def _oversubscribed(servers: int, _: int) -> Network:
    """Two servers under a ToR whose uplinks have a third of their rate."""
    return packet(servers, servers_per_tor=2, tor_uplink_bps=RATE_BPS * 16 // 3)


def _mixnet(policy: str) -> Callable[[int, int], Network]:
    """Regions of one EP group each, with switches that take 100 us."""

    def build(servers: int, members: int) -> Network:
        regions = (np.arange(servers) // members).astype(np.uint32)
        return mixnet(servers, region_of_server=regions, when=policy, fixed_s=1e-4)

    return build


def _mesh(servers: int, _: int) -> Network:
    """A circuit between any two servers."""
    pairs = [(a, b) for a in range(servers) for b in range(servers) if a != b]
    return direct(servers, [(a, b, 1) for a, b in pairs if a < b], pairs)


def _crossbars(servers: int, _: int) -> Network:
    """The crossbars of Chronos with its defaults."""
    cluster = Cluster.of(gpus=8 * servers, rate_gbps=RATE_BPS / GBPS, gpu="h100")
    parts = load_fabric("chronos").network(cluster).parts
    return replace(packet(servers, "hierarchical"), parts=parts)


def _torus(servers: int, _: int, **options: Any) -> Network:
    """Boxes of eight GPUs in cubes, or in a part of one; as many more as make it whole."""
    cluster = Cluster.of(gpus=8 * servers, rate_gbps=RATE_BPS / GBPS, gpu="h100")
    own = load_fabric("torus", {"interconnect": "ideal", "link_delay_s": 1e-6, **options})
    own = own.network(cluster)
    return replace(packet(own.servers, "hierarchical"), parts=own.parts)


def _racks(kind: str, **options: Any) -> Callable[[int, int], Network]:
    """Racks of a server each, with epochs and switches as fast as the steps are short."""

    def build(servers: int, _: int) -> Network:
        cluster = Cluster.of(gpus=8 * servers, rate_gbps=RATE_BPS / GBPS, gpu="h100")
        own = {"interconnect": "ideal", "link_delay_s": 1e-6, **options}
        parts = load_fabric(kind, own).network(cluster).parts
        return replace(packet(servers, "hierarchical"), parts=parts)

    return build


def _rotor(servers: int, _: int) -> Network:
    """One circuit of each server, to all others in turn."""
    slots = list(rounds(servers))
    circuits = [(slot, a, b, 1) for slot, pairs in enumerate(slots) for a, b in pairs]
    rotor = Scheduled(
        nic_rate_bps=RATE_BPS,
        link_delay_ps=1_000_000,
        circuits=np.array(circuits, np.uint32),
        dark_ps=np.full(len(slots), 10_000_000, np.uint64),
        hold_ps=np.full(len(slots), 100_000_000, np.uint64),
    )
    return replace(packet(servers, "hierarchical"), parts=(rotor,))


BUILDERS: dict[str, Callable[[int, int], Network]] = {
    "flat": lambda servers, _: packet(servers),
    "hierarchical": lambda servers, _: packet(servers, "hierarchical"),
    "rail": lambda servers, _: packet(servers, "rail", rails=8),
    "oversubscribed": _oversubscribed,
    **{f"mixnet, {policy}": _mixnet(policy) for policy in ("never", *POLICIES)},
    "mesh": _mesh,
    "crossbars": _crossbars,
    "torus": _torus,
    "torus, twisted": partial(_torus, shape="4x8x8", twist=True),
    "rotor": _rotor,
    "rotornet": _racks("rotornet"),
    "opera": _racks("opera"),
    "opera, all waits": _racks("opera", bulk_bytes=0),
    "helios": _racks("helios", **QUICK),
    "x-nest-plus": _racks("x-nest-plus", **QUICK, hello_s=1e-5),
    "x-nest-plus, hops": _racks("x-nest-plus", **QUICK, hello_s=1e-5, rule="hops"),
    "x-nest": _racks("x-nest-plus", **QUICK, hello_s=1e-5, variant="x-nest"),
    "flexfly": _racks("x-nest-plus", **QUICK, hello_s=1e-5, variant="flexfly"),
    "rotornet, 3 of 4": _racks("rotornet", failed="plane:1"),
    "helios, a port less": _racks("helios", **QUICK, failed="nic:0/0"),
}
#: networks with a clock: bytes that miss a slot by a picosecond wait for a period
CLOCKED = tuple(name for name in BUILDERS if name.split(",", maxsplit=1)[0] in ("rotor", *RACKS))
#: networks on which all servers, not only the members of a group, are alike
SYMMETRIC = ("flat", "hierarchical", "rail", "mesh", "crossbars")
#: only for an even number of servers
PAIRED = ("oversubscribed", "rotor")


def network_of(name: str, servers: int, members: int) -> Network:
    """The network of a name, with start-up times of software."""
    return replace(BUILDERS[name](servers, members), start_up=START_UP)


def nics_of(name: str, servers: int) -> int:
    """Links at which bytes can leave a server."""
    return {"mesh": servers - 1, "rotor": 1, "torus": 24}.get(name.split(",", maxsplit=1)[0], 8)


def scaled(
    network: Network, *, rate: float = 1, local_rate: float = 1, latency: float = 1
) -> Network:
    """A network with other rates between servers and inside them, and other latencies."""
    return replace(
        network,
        parts=tuple(_times(part, rate, latency) for part in network.parts),
        nvswitch=_times(network.nvswitch, local_rate, latency),
        start_up=_times(network.start_up, 1, latency),
    )


def _times(part: AnyPart, rate: float, latency: float) -> AnyPart:
    """Multiply the fields of a part that are rates or times, which their names say."""
    changed: dict[str, Any] = {}
    for field in fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        factor = rate if field.name.endswith("_bps") else latency
        if value is not None and field.name.endswith(("_bps", "_ps")):
            whole = np.round(np.multiply(value, factor)).astype(np.uint64)
            changed[field.name] = whole if isinstance(value, np.ndarray) else int(whole)
        if isinstance(value, SwitchTiming):
            times = {name: time for name, time in vars(value).items() if name.endswith("_s")}
            slower = {name: latency * time for name, time in times.items()}
            changed[field.name] = replace(value, **slower)
    if isinstance(part, Crossbars):
        times = [(name, np.round(one * latency).astype(np.uint64)) for name, one in part.methods]
        changed["methods"] = tuple(times)
    return replace(part, **changed)  # type: ignore[type-var]
