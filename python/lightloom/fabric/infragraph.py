"""Topologies in InfraGraph, the format of Keysight and of MLCommons Chakra, read and written.

InfraGraph (version 2.4, https://github.com/Keysight/infragraph) describes devices by components,
instances of devices, and edges between slices of instances and components. Servers are the
instances of devices with an ``xpu``; all others are switches. An edge with many links is read as as
many. Rules that say the same as the edges are found again, where there are some; else pairs are
listed. Files are JSON, as its ``serialize`` writes.

Left out: what is inside a device (its NVLink and PCIe) but for the numbers of GPUs, NICs and ports;
which NIC of a server an edge ends at, as NICs are counted by the switches that they lead to. What
InfraGraph cannot say is not written: planes (each is switches of its own), prices, powers, optics.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from lightloom.errors import FabricError, InputError, echo
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.topology import Topology
from lightloom.fabric.topology_graph import joined_pairs
from lightloom.fabric.topology_options import MAX_PAIRS, SERVERS, LinkRule, SwitchTier
from lightloom.inputs.strict import Strict, check

Choice = Literal["custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch"]
_GBPS = {"gigabits_per_second": 1.0, "gigabytes_per_second": 8.0}
_SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PIECE = re.compile(r"([^\[\].]{1,200})(?:\[([0-9]{0,9})(?:(:)([0-9]{0,9})(?::([0-9]{0,9}))?)?\])?")
Pair = tuple[int, int]


class _Joint(NamedTuple):
    """Two kinds that links of a rate and a delay join."""

    a: str
    b: str
    rate_gbps: float | None
    delay_s: float | None


class _Kind(NamedTuple):
    """Switches of an instance, and the ports of each."""

    number: int
    ports: int | None


class _Place(NamedTuple):
    """A server or a switch: its instance and its number."""

    name: str
    number: int


class _Table(Strict):
    """A table of the format."""

    error_class: ClassVar[type[InputError]] = FabricError

    description: str | None = None


class _Component(_Table):
    name: str
    count: int = Field(ge=0, le=1_000_000)
    choice: Choice
    custom: dict[str, object] | None = None
    device: dict[str, object] | None = None
    cpu: dict[str, object] | None = None
    xpu: dict[str, object] | None = None
    nic: dict[str, object] | None = None
    memory: dict[str, object] | None = None
    port: dict[str, object] | None = None
    switch: dict[str, object] | None = None


class _Number(_Table):
    choice: str | None = None
    gigabits_per_second: float | None = None
    gigabytes_per_second: float | None = None
    gigatransfers_per_second: float | None = None
    ms: float | None = None
    us: float | None = None
    ns: float | None = None

    def value(self, units: Mapping[str, float], where: str) -> float | None:
        """The number in the first of some units."""
        units_given = {
            name: number for name in units if (number := getattr(self, name)) is not None
        }
        if not units_given and self.choice is not None:
            raise FabricError(f"{where}: {self.choice}: expected one of {', '.join(units)}")
        # no digits that come of binary fractions alone
        exact = (float(f"{number * units[name]:.12g}") for name, number in units_given.items())
        return next(exact, None)


class _Physical(_Table):
    bandwidth: _Number | None = None
    latency: _Number | None = None


class _Link(_Table):
    name: str
    physical: _Physical | None = None


class _Endpoint(_Table):
    component: str
    instance: str = ""
    device: str | None = None


class _Edge(_Table):
    ep1: _Endpoint
    ep2: _Endpoint
    scheme: Literal["one2one", "many2many", "ring"]
    link: str


class _Device(_Table):
    name: str
    components: tuple[_Component, ...]
    links: tuple[_Link, ...] = ()
    edges: tuple[_Edge, ...] = ()


class _Instance(_Table):
    name: str
    device: str
    count: int = Field(ge=1, le=1_000_000)


_Named = TypeVar("_Named", _Device, _Link, _Instance)


class _Infrastructure(_Table):
    name: str = "infragraph"
    devices: tuple[_Device, ...]
    links: tuple[_Link, ...]
    instances: tuple[_Instance, ...]
    edges: tuple[_Edge, ...]


def options_of_infragraph(values: object, where: str) -> dict[str, Any]:
    """Return the options of the topology that parsed JSON describes, its ``kind`` among them.

    Parameters
    ----------
    values
        An infrastructure as a mapping.
    where
        The file, which begins messages.

    Raises
    ------
    FabricError
        If it is none, or describes what a topology cannot be.
    """
    if not isinstance(values, Mapping):
        raise FabricError(f"{where}: expected an InfraGraph infrastructure, got {echo(values)}")
    try:
        return _Reader(check(_Infrastructure, values, "")).options()
    except FabricError as error:
        raise FabricError(f"{where}: {error}") from None


class _Reader:
    """Makes rules of the edges of an infrastructure."""

    def __init__(self, file: _Infrastructure) -> None:
        self.file = file
        self.devices = _by_name(file.devices, "devices")
        self.links = _by_name(file.links, "links")
        self.instances = _by_name(file.instances, "instances")
        for name, instance in self.instances.items():
            if instance.device not in self.devices:
                raise FabricError(f"instances: {name}: no device {echo(instance.device)}")
        self.first: dict[str, int] = {}
        for name in self.instances:
            if self._count(self.instances[name].device, "xpu"):
                self.first[name] = sum(self.instances[other].count for other in self.first)
        if not self.first:
            raise FabricError("instances: none is of a device with an xpu: no servers")
        self.servers = sum(self.instances[name].count for name in self.first)

    def options(self) -> dict[str, Any]:
        """The options of the topology."""
        kinds = {self.instances[name].device for name in self.first}
        gpus = {self._count(kind, "xpu") for kind in kinds}
        if len(gpus) > 1:
            raise FabricError(f"instances: servers of {sorted(gpus)} xpu: expected one number")
        joined = self._joined()
        links: dict[int, int] = {}
        for joint, pairs in joined.items():
            if joint.a == SERVERS:
                for (server, _), count in pairs.items():
                    links[server] = links.get(server, 0) + count
        own, nics = links.get(0, 0), min(self._count(kind, "nic") for kind in kinds)
        tiers, rules = _rules(joined, self._tiers(), self.servers)
        return {
            "kind": Topology.kind,
            "label": self.file.name[:60] or "infragraph",
            "servers": self.servers,
            "gpus_per_server": gpus.pop(),
            "nics_per_server": nics if nics and own % nics == 0 else own or 1,
            "switches": tiers,
            "links": rules,
        }

    def _count(self, device: str, choice: str, depth: int = 0) -> int:
        """Components of a kind in a device and in the devices that it is composed of."""
        if depth > len(self.devices):
            raise FabricError(f"devices: {device} is a part of itself")
        total = 0
        for part in self.devices[device].components:
            inside = part.choice == "device" and part.name in self.devices
            count = self._count(part.name, choice, depth + 1) if inside else part.choice == choice
            total += part.count * count
        return total

    def _tiers(self) -> dict[str, _Kind]:
        """Number and ports of the switches of each instance."""
        others = {name: it for name, it in self.instances.items() if name not in self.first}
        return {
            name: _Kind(it.count, self._count(it.device, "port") or None)
            for name, it in others.items()
        }

    def _joined(self) -> dict[_Joint, dict[Pair, int]]:
        """Links of each pair, by the names of both ends, rate and delay."""
        joined: dict[_Joint, dict[Pair, int]] = {}
        room = MAX_PAIRS
        for number, edge in enumerate(self.file.edges):
            where = f"edges.{number}"
            if edge.link not in self.links:
                raise FabricError(f"{where}.link: no link {echo(edge.link)}")
            a, b = (self._ends(end, f"{where}.{name}") for name, end in _both(edge))
            key, swapped = self._key(edge, a[0], b[0])
            if key.a == key.b == SERVERS:
                raise FabricError(f"{where}: joins two servers: expected a switch at one end")
            room -= len(a[1]) * (len(b[1]) if edge.scheme == "many2many" else 1)
            if room < 0:
                raise FabricError(f"{where}: more than {MAX_PAIRS:,} links")
            pairs = joined.setdefault(key, {})
            for one, other in _of_scheme(edge.scheme, a[1], b[1], where):
                pair = (other, one) if swapped else (one, other)
                if key.a == key.b:
                    pair = (min(pair), max(pair))
                pairs[pair] = pairs.get(pair, 0) + 1
        return joined

    def _key(self, edge: _Edge, a: str, b: str) -> tuple[_Joint, bool]:
        order = [SERVERS, *self.instances]
        swapped = order.index(a) > order.index(b)
        first, second = (b, a) if swapped else (a, b)
        return _Joint(first, second, *self._physical(edge.link)), swapped

    def _physical(self, name: str) -> tuple[float | None, float | None]:
        physical, where = self.links[name].physical, f"links.{name}"
        if physical is None:
            return None, None
        bandwidth, latency = physical.bandwidth or _Number(), physical.latency or _Number()
        return bandwidth.value(_GBPS, where), latency.value(_SECONDS, where)

    def _ends(self, end: _Endpoint, where: str) -> tuple[str, list[int]]:
        """The tier of an end, and the number of the server or switch of each of its ports."""
        name, chosen = next(_sliced(end.instance, where))
        if name not in self.instances:
            raise FabricError(f"{where}: no instance {echo(name)}")
        instance = self.instances[name]
        numbers = _numbers(chosen, instance.count, f"{where}: {end.instance}")
        ports, device = 1, instance.device
        for component, part in _sliced(end.component, where):
            parts = {it.name: it for it in self.devices[device].components}
            if component not in parts:
                raise FabricError(f"{where}: {device} has no component {echo(component)}")
            if parts[component].choice == "xpu":
                raise FabricError(
                    f"{where}: ends at an xpu: what joins GPUs without NICs is inside a server here"
                )
            ports *= len(_numbers(part, parts[component].count, f"{where}: {end.component}"))
            device = component if component in self.devices else device
        if ports * len(numbers) > MAX_PAIRS:
            raise FabricError(f"{where}: more than {MAX_PAIRS:,} ports")
        begin = self.first.get(name, 0)
        tier = SERVERS if name in self.first else name
        return tier, [begin + number for number in numbers for _ in range(ports)]


def _by_name(items: Sequence[_Named], what: str) -> dict[str, _Named]:
    found: dict[str, _Named] = {}
    for item in items:
        if item.name in found:
            raise FabricError(f"{what}: two of the name {echo(item.name)}")
        found[item.name] = item
    return found


def _both(edge: _Edge) -> tuple[tuple[str, _Endpoint], tuple[str, _Endpoint]]:
    return ("ep1", edge.ep1), ("ep2", edge.ep2)


def _of_scheme(scheme: str, a: list[int], b: list[int], where: str) -> Iterator[Pair]:
    if scheme == "ring":
        raise FabricError(f"{where}.scheme: ring: expected one2one or many2many")
    if scheme == "many2many":
        yield from itertools.product(a, b)
        return
    # as InfraGraph's own service does: what is left of the longer end stays free
    yield from zip(a, b, strict=False)


def _sliced(text: str, where: str) -> Iterator[tuple[str, tuple[str | None, ...]]]:
    """Names and slices of an end, such as ``leaf[0:4]``."""
    for piece in text.split("."):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise FabricError(
                f"{where}: {echo(text)}: expected a name and a slice, as in leaf[0:4]"
            )
        yield match[1], match.groups()[1:]


def _numbers(chosen: tuple[str | None, ...], count: int, where: str) -> range:
    first, is_slice, last, step = chosen
    begin = int(first) if first else 0
    end = (int(last) if last else count) if is_slice or first is None else begin + 1
    if end > count or begin >= end or step == "0":
        raise FabricError(f"{where}: there are {count}")
    return range(begin, end, int(step) if step else 1)


def _rules(
    joined: Mapping[_Joint, Mapping[Pair, int]],
    tiers: Mapping[str, _Kind],
    servers: int,
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Tables of switches and of links that say the same, by rules where there are some."""
    sizes = [size for size in range(1, servers + 1) if servers % size == 0]
    switches: dict[str, SwitchTier] = {}
    rules: list[dict[str, Any]] = []
    open_keys = list(joined)
    while open_keys:
        placed = {SERVERS, *switches}
        key = next((key for key in open_keys if placed & set(key[:2])), open_keys[0])
        new = [name for name in dict.fromkeys(key[:2]) if name not in placed]
        for name in new:
            mine = [k for k in open_keys if name in k[:2] and set(k[:2]) <= {*placed, name}]
            switches[name] = _sized(name, tiers[name], mine, joined, switches, sizes)
            placed.add(name)
        for done in [k for k in open_keys if set(k[:2]) <= placed]:
            rules += _tables(done, joined[done], switches, servers)
            open_keys.remove(done)
    tables = {
        name: switches[name].model_dump(exclude_defaults=True) if name in switches else {}
        for name in tiers
    }
    return tables, rules


def _sized(
    name: str,
    tier: _Kind,
    keys: Sequence[_Joint],
    joined: Mapping[_Joint, Mapping[Pair, int]],
    known: Mapping[str, SwitchTier],
    sizes: Sequence[int],
) -> SwitchTier:
    """The switches of a name, for every so many servers if rules then say what is joined."""
    count, ports = tier.number, tier.ports
    servers = sizes[-1]
    whole = SwitchTier(count=count, ports=ports)
    if count > 1_000_000 or not keys:
        return whole
    # what all servers share is the simplest
    for size in (servers, *sizes[:-1]):
        sets = servers // size
        if count % sets:
            continue
        sized = SwitchTier(
            count=count // sets, servers=None if size == servers else size, ports=ports
        )
        every = {**known, name: sized}
        if all(_join(key, joined[key], every, servers) not in {None, "all"} for key in keys):
            return sized
    return whole


def _join(
    key: _Joint,
    pairs: Mapping[Pair, int],
    switches: Mapping[str, SwitchTier],
    servers: int,
) -> str | None:
    """The rule that joins these pairs and no others; ``None`` if there is none."""
    if len(set(pairs.values())) > 1:
        return None
    wanted = np.array(sorted(pairs), np.int64)
    for join in ("shared", "position", "all"):
        rule = LinkRule(ends=key[:2], join=join)
        try:
            joined = joined_pairs(rule, servers, switches)
        except FabricError:
            continue
        if joined.shape == wanted.shape and (joined == wanted).all():
            return join
    return None


def _tables(
    key: _Joint,
    pairs: Mapping[Pair, int],
    switches: Mapping[str, SwitchTier],
    servers: int,
) -> list[dict[str, Any]]:
    a, b, rate, delay = key
    common = {"ends": [a, b]}
    physical = {name: it for name, it in (("rate_gbps", rate), ("delay_s", delay)) if it}
    join = _join(key, pairs, switches, servers)
    if join is not None:
        by_rule = {} if join == "shared" else {"join": join}
        count = next(iter(pairs.values()))
        return [{**common, **_count_of(count), **by_rule, **physical}]
    by_count: dict[int, list[Pair]] = {}
    for pair, count in sorted(pairs.items()):
        by_count.setdefault(count, []).append(pair)
    return [
        {**common, **_count_of(count), "pairs": [list(pair) for pair in listed], **physical}
        for count, listed in sorted(by_count.items())
    ]


def _count_of(count: int) -> dict[str, int]:
    return {} if count == 1 else {"count": count}


def infragraph_of(topology: Topology, cluster: Cluster) -> dict[str, Any]:
    """Return a topology for a cluster as an InfraGraph infrastructure, ready for JSON.

    Raises
    ------
    FabricError
        If the topology does not join the servers, has circuits, which InfraGraph cannot say, or
        has too many links for one edge each.
    """
    if topology.circuits is not None:
        raise FabricError(f"{topology.name}: InfraGraph cannot say circuits: write a .toml")
    cluster = topology.adapt(cluster)
    graph = topology.graph(cluster.servers)
    if len(graph.pairs) * graph.planes + graph.servers * graph.links_per_server > MAX_PAIRS:
        raise FabricError(f"{topology.name}: more than {MAX_PAIRS:,} edges: too many to write")
    writer = _Writer(topology, cluster)
    return {
        "name": topology.name,
        "description": f"{cluster.servers} servers, written by Lightloom",
        "devices": writer.devices(),
        "links": writer.links(),
        "instances": writer.instances(),
        "edges": writer.edges(),
    }


class _Writer:
    """The parts of an infrastructure; each plane has switches of its own."""

    def __init__(self, topology: Topology, cluster: Cluster) -> None:
        self.topology, self.cluster = topology, cluster
        self.graph = topology.graph(cluster.servers)
        #: ports of each server and switch that are taken
        self.taken: dict[_Place, int] = {}

    def devices(self) -> list[dict[str, Any]]:
        """A device for servers and one for each kind of switches."""
        cluster, links = self.cluster, self.graph.links_per_server
        server = [
            _component("xpu", cluster.gpus_per_server, "xpu"),
            _component("nic", cluster.nics_per_server, "nic"),
            _component("port", links, "port"),
        ]
        bus = {"name": "pcie", "description": "between GPUs, NICs and their ports"}
        inside = [_inside("pcie", "xpu", "nic")]
        each = links // cluster.nics_per_server
        inside += [
            _inside("pcie", f"nic[{nic}]", f"port[{nic * each}:{(nic + 1) * each}]")
            for nic in range(cluster.nics_per_server)
        ]
        device = {"name": "server", "components": server, "links": [bus], "edges": inside}
        return [device, *(self._switch(name) for name in self.graph.tiers)]

    def _switch(self, name: str) -> dict[str, Any]:
        tier = self.graph.tiers[name]
        ends = np.bincount(self.graph.server_links.reshape(-1), minlength=self.graph.switches)
        for end in (0, 1):
            count = self.graph.pairs[:, 2]
            ends = ends + np.bincount(self.graph.pairs[:, end], count, self.graph.switches)
        used = int(ends[tier.first : tier.first + tier.count].max())
        ports = max(used, self.topology.switches[name].ports or 0)
        return {
            "name": f"{name}-switch",
            "components": [_component("asic", 1, "switch"), _component("port", ports, "port")],
            "links": [{"name": "ic", "description": "inside the switch"}],
            "edges": [_inside("ic", "asic", "port")],
        }

    def links(self) -> list[dict[str, Any]]:
        """A link for each rule."""
        return [
            {
                "name": f"link-{number}",
                "description": " - ".join(rule.ends),
                "physical": {
                    "bandwidth": {
                        "choice": "gigabits_per_second",
                        "gigabits_per_second": self.topology.rate_of(rule, self.cluster),
                    },
                    "latency": {
                        "choice": "ns",
                        "ns": self.topology.delay_of(rule, self.cluster) * 1e9,
                    },
                },
            }
            for number, rule in enumerate(self.topology.links)
        ]

    def instances(self) -> list[dict[str, Any]]:
        """Servers, and the switches of each kind and plane."""
        tiers = [
            {"name": self._name(name, plane), "device": f"{name}-switch", "count": tier.count}
            for plane in range(self.graph.planes)
            for name, tier in self.graph.tiers.items()
        ]
        return [{"name": SERVERS, "device": "server", "count": self.graph.servers}, *tiers]

    def _name(self, name: str, plane: int) -> str:
        return name if self.graph.planes == 1 else f"{name}-plane-{plane}"

    def edges(self) -> list[dict[str, Any]]:
        """An edge for each pair that is joined, of as many ports as it has links."""
        joined = []
        for plane in range(self.graph.planes):
            for server, row in enumerate(self.graph.server_links.tolist()):
                for switch, rule in zip(row, self.graph.server_rules[server].tolist(), strict=True):
                    joined.append(
                        self._joined(_Place(SERVERS, server), self._at(switch, plane), 1, rule)
                    )
            for a, b, count, rule in self.graph.pairs.tolist():
                ends = self._at(a, plane), self._at(b, plane)
                joined.append(self._joined(*ends, count, rule))
        return joined

    def _at(self, switch: int, plane: int) -> _Place:
        name = self.graph.tier_of(switch).name
        return _Place(self._name(name, plane), switch - self.graph.tiers[name].first)

    def _joined(self, a: _Place, b: _Place, count: int, rule: int) -> dict[str, object]:
        edge: dict[str, object] = {"scheme": "one2one", "link": f"link-{rule}"}
        for key, place in (("ep1", a), ("ep2", b)):
            first = self.taken.get(place, 0)
            self.taken[place] = first + count
            ports = f"port[{first}:{first + count}]"
            edge[key] = {"instance": f"{place.name}[{place.number}]", "component": ports}
        return edge


def _component(name: str, count: int, choice: str) -> dict[str, object]:
    return {"name": name, "count": count, "choice": choice, choice: {}}


def _inside(link: str, a: str, b: str) -> dict[str, object]:
    """An edge between all of two components of a device."""
    ends = {"ep1": {"component": a}, "ep2": {"component": b}}
    return {**ends, "scheme": "many2many", "link": link}
