"""Which switches the rules of a topology join, as arrays: from tiers and link rules to a graph.

A tier has as many switches in all, or as many for every so many servers. Two tiers are joined where
they have servers in common, position by position, all to all, or pair by pair. Everything is there
once for each plane. What cannot be joined is refused in one line that names the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.errors import FabricError, did_you_mean, echo
from lightloom.fabric.topology_options import SERVERS, LinkRule, SwitchTier

#: switches, and links of a rule: what the core takes
MAX_SWITCHES, MAX_LINKS = 1 << 20, 1 << 22

_Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tier:
    """Switches of one name in one plane: ``per_set`` for every ``servers`` servers.

    ``first`` is the number of the first one in the plane; the tier of servers has none.
    """

    name: str
    first: int
    count: int
    per_set: int
    servers: int


@dataclass(frozen=True)
class TopologyGraph:
    """What joins what.

    Attributes
    ----------
    servers, planes, switches
        Counts; switches of one plane.
    tiers
        By name, in the order of their switches.
    server_links
        Switch of each link of each server in the first plane, ``(servers, links)``.
    server_rules
        The rule of each of these links of a server.
    pairs
        Of switches of the first plane, ``(n, 4)``: one end, the other, links, and rule.
    parts
        Which connected part of the first plane each switch is in.
    """

    servers: int
    planes: int
    switches: int
    tiers: Mapping[str, Tier]
    server_links: _Whole
    server_rules: _Whole
    pairs: _Whole
    parts: _Whole

    @property
    def links_per_server(self) -> int:
        """In all planes."""
        return self.planes * int(self.server_links.shape[1])

    def ports(self, nics: int) -> _Whole:
        """Switch of each link of each server, NIC by NIC, ``(servers, links)``.

        NICs of one link are dealt out to planes one after the other; those of several have their
        links on as many planes as there are.
        """
        planes = np.arange(self.planes)[:, None, None] * self.switches
        every = self.server_links[None] + planes
        order = (1, 0, 2) if nics == self.links_per_server else (1, 2, 0)
        return every.transpose(order).reshape(self.servers, -1)

    def planes_of_nics(self, nics: int) -> int:
        """How many kinds of NICs there are by the connected parts that they reach."""
        parts = int(self.parts.max()) + 1
        ports = self.ports(nics)[0]
        reached = ports // self.switches * parts + self.parts[ports % self.switches]
        return len({tuple(nic) for nic in reached.reshape(nics, -1).tolist()})

    def tier_of(self, switch: int) -> Tier:
        """The tier of a switch of the first plane."""
        return next(t for t in self.tiers.values() if t.first <= switch < t.first + t.count)

    def name_of(self, switch: int) -> str:
        """The name and number of a switch of the first plane."""
        tier = self.tier_of(switch)
        return f"{tier.name} {switch - tier.first}"


def topology_graph(
    servers: int,
    planes: int,
    switches: Mapping[str, SwitchTier],
    links: Sequence[LinkRule],
) -> TopologyGraph:
    """Return the graph that tiers and rules describe for so many servers.

    Raises
    ------
    FabricError
        If a rule joins nothing, or something twice, servers have different numbers of links or
        are not joined, or the graph is too large.
    """
    tiers = _tiers(servers, planes, switches)
    joined = [_joined(f"links.{number}", rule, tiers, planes) for number, rule in enumerate(links)]
    _refuse_twice(joined, links, tiers)
    # links, and the rule that they are of
    each = [
        np.column_stack([pairs, np.full_like(pairs, (rule.count, number))])
        for number, (rule, pairs) in enumerate(zip(links, joined, strict=True))
    ]
    every = np.concatenate(each) if each else np.zeros((0, 4), np.int64)
    of_servers = np.array([SERVERS in rule.ends for rule in links], bool)[every[:, 3]]
    server_links, server_rules = _server_links(servers, every[of_servers], planes)
    del tiers[SERVERS]
    pairs = every[~of_servers]
    count = sum(tier.count for tier in tiers.values())
    parts = _parts(count, pairs)
    graph = TopologyGraph(servers, planes, count, tiers, server_links, server_rules, pairs, parts)
    _refuse_unused(graph)
    _refuse_apart(graph)
    return graph


def joined_pairs(rule: LinkRule, servers: int, switches: Mapping[str, SwitchTier]) -> _Whole:
    """Pairs ``(n, 2)`` of numbers that a rule joins, in the order of its ends.

    Raises
    ------
    FabricError
        If there are none.
    """
    tiers = _tiers(servers, 1, switches)
    a, b = (tiers[name] for name in rule.ends)
    return _listed("pairs", rule, a, b) if rule.pairs else _by_rule("join", rule, a, b)


def _tiers(servers: int, planes: int, switches: Mapping[str, SwitchTier]) -> dict[str, Tier]:
    tiers = {SERVERS: Tier(SERVERS, 0, servers, 1, 1)}
    first = 0
    for name, tier in switches.items():
        size = tier.servers or servers
        count = tier.count * -(-servers // size)
        tiers[name] = Tier(name, first, count, tier.count, size)
        first += count
    if first * planes > MAX_SWITCHES:
        raise FabricError(
            f"switches: {first * planes:,} for {servers:,} servers: expected at most"
            f" {MAX_SWITCHES:,}"
        )
    return tiers


def _joined(where: str, rule: LinkRule, tiers: Mapping[str, Tier], planes: int) -> _Whole:
    """Pairs ``(n, 2)`` of servers or of switches of a plane; a server comes first."""
    for name in rule.ends:
        if name not in tiers:
            hint = did_you_mean(name, tiers)
            raise FabricError(
                f"{where}.ends: unknown switch {echo(name)}{hint}; known: {', '.join(tiers)}"
            )
    a, b = (tiers[name] for name in rule.ends)
    if a.name == b.name == SERVERS:
        raise FabricError(f"{where}.ends: servers and servers: expected a switch at one end")
    pairs = _listed(where, rule, a, b) if rule.pairs else _by_rule(where, rule, a, b)
    if len(pairs) * rule.count * planes > MAX_LINKS:
        raise FabricError(
            f"{where}: {len(pairs) * rule.count * planes:,} links: expected at most {MAX_LINKS:,}"
        )
    numbers: _Whole = pairs + np.array([a.first, b.first])
    return numbers[:, ::-1] if b.name == SERVERS else numbers


def _listed(where: str, rule: LinkRule, a: Tier, b: Tier) -> _Whole:
    pairs = np.asarray(rule.pairs, np.int64)
    for tier, column in ((a, 0), (b, 1)):
        # a job may use the first of the servers
        outside = pairs[pairs[:, column] >= tier.count] if tier.name != SERVERS else pairs[:0]
        if len(outside):
            raise FabricError(
                f"{where}.pairs: {tier.name} {outside[0, column]}: there are {tier.count}, from 0"
                " on"
            )
    if a.name == b.name and len(same := pairs[pairs[:, 0] == pairs[:, 1]]):
        raise FabricError(
            f"{where}.pairs: {a.name} {same[0, 0]} to itself is a loop: expected two switches"
        )
    used = (pairs[:, 0] < a.count) & (pairs[:, 1] < b.count)
    return pairs[used]


def _by_rule(where: str, rule: LinkRule, a: Tier, b: Tier) -> _Whole:
    """Pairs of numbers in two tiers that are joined by position, all to all, or by servers."""
    by_position = rule.join == "position"
    if by_position and b.per_set % a.per_set:
        raise FabricError(
            f"{where}: {b.per_set} {b.name} cannot be divided evenly among {a.per_set} positions"
            f" of {a.name}"
        )
    everywhere = rule.join == "all" or (by_position and a.name == b.name)
    sets = _every_set(a, b) if everywhere else _shared_sets(a, b)
    size = len(sets) * a.per_set * b.per_set // (a.per_set if by_position else 1)
    if size > MAX_LINKS:
        raise FabricError(f"{where}: joins {size:,} pairs: expected at most {MAX_LINKS:,}")
    inside = np.indices((a.per_set, b.per_set)).reshape(2, -1).T
    if by_position:
        inside = inside[inside[:, 1] // (b.per_set // a.per_set) == inside[:, 0]]
    pairs = sets[:, None] * (a.per_set, b.per_set) + inside
    pairs = pairs.reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    pairs = pairs[pairs[:, 0] < pairs[:, 1]] if a.name == b.name else pairs
    if not len(pairs):
        raise FabricError(
            f"{where}: joins nothing: no two {a.name} have servers in common; say join or pairs"
        )
    return pairs


def _every_set(a: Tier, b: Tier) -> _Whole:
    return np.indices((a.count // a.per_set, b.count // b.per_set)).reshape(2, -1).T


def _shared_sets(a: Tier, b: Tier) -> _Whole:
    """Sets of two tiers, ``(n, 2)``, that have servers in common."""
    mine, others = np.arange(a.count // a.per_set), b.count // b.per_set
    first = mine * a.servers // b.servers
    last = np.minimum(((mine + 1) * a.servers - 1) // b.servers, others - 1)
    shared = last - first + 1
    begin = np.repeat(np.cumsum(shared) - shared, shared)
    place = np.arange(int(shared.sum())) - begin
    return np.column_stack([np.repeat(mine, shared), np.repeat(first, shared) + place])


def _refuse_twice(
    joined: Sequence[_Whole], links: Sequence[LinkRule], tiers: Mapping[str, Tier]
) -> None:
    """Refuse a pair that two rules join, or one twice, by links of one rate and delay."""
    seen: dict[tuple[float | None, ...], dict[tuple[str, ...], list[int]]] = {}
    for number, rule in enumerate(links):
        alike = seen.setdefault((rule.rate_gbps, rule.delay_s), {})
        alike.setdefault(tuple(sorted(rule.ends)), []).append(number)
    for (first, second), numbers in (it for alike in seen.values() for it in alike.items()):
        ends = np.concatenate([joined[number] for number in numbers])
        if SERVERS not in (first, second):
            ends = np.sort(ends, axis=1)
        pairs, counts = np.unique(ends, axis=0, return_counts=True)
        if (counts > 1).any():
            twice = set(pairs[counts > 1][0].tolist())
            shown = " and ".join(
                f"{name} {min(twice) - tiers[name].first}" if first == second else name
                for name in (first, second)
            )
            rules = " and ".join(f"links.{number}" for number in numbers)
            raise FabricError(
                f"{rules}: {shown} are joined twice by links of one rate; raise count instead"
            )


def _server_links(servers: int, every: _Whole, planes: int) -> tuple[_Whole, _Whole]:
    """Switch and rule of every link of every server, ``(servers, links)`` each."""
    counts = np.bincount(every[:, 0], weights=every[:, 2], minlength=servers).astype(np.int64)
    if not len(every) or (counts == 0).any():
        server = int(np.argmin(counts)) if len(every) else 0
        raise FabricError(f"links: server {server} has none: expected {SERVERS} as an end of some")
    if (counts != counts[0]).any():
        server = int(np.argmax(counts != counts[0]))
        raise FabricError(
            f"links: server {server} has {counts[server] * planes}, server 0 has"
            f" {counts[0] * planes}: expected equally many"
        )
    ordered = every[np.argsort(every[:, 0], kind="stable")]
    wired = np.repeat(ordered, ordered[:, 2], axis=0)
    return wired[:, 1].reshape(servers, -1), wired[:, 3].reshape(servers, -1)


def _parts(count: int, pairs: _Whole) -> _Whole:
    """The connected part that each switch is in, counted from 0."""
    labels = np.arange(count)
    while True:
        least = np.minimum(labels[pairs[:, 0]], labels[pairs[:, 1]])
        nearer = labels.copy()
        np.minimum.at(nearer, pairs[:, 0], least)
        np.minimum.at(nearer, pairs[:, 1], least)
        nearer = nearer[nearer]
        if (nearer == labels).all():
            return np.unique(labels, return_inverse=True)[1].reshape(-1)
        labels = nearer


def _refuse_unused(graph: TopologyGraph) -> None:
    used = np.zeros(graph.switches, bool)
    used[graph.server_links.reshape(-1)] = True
    used[graph.pairs[:, :2].reshape(-1)] = True
    if not used.all():
        raise FabricError(f"links: none leads to {graph.name_of(int(np.argmin(used)))}")


def _refuse_apart(graph: TopologyGraph) -> None:
    """Refuse servers whose links do not lead to the same parts, link by link."""
    reached = graph.parts[graph.server_links]
    apart = (reached != reached[0]).any(axis=1)
    if apart.any():
        raise FabricError(
            f"links: servers 0 and {int(np.argmax(apart))} are not joined: no links lead from the"
            " switches of one to those of the other"
        )
