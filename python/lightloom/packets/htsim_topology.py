"""Fat trees in the form of htsim (``.topo``): their tiers as links.

A header has ``Nodes``, ``Tiers`` (2 or 3) and ``Podsize``; each ``Tier`` from 0, the ToRs, then has
keys such as ``Radix_Down 8``. Radices decide on the switches; ``Oversubscribed`` is checked against
them. What a switch takes to forward is divided between its two links of a path, half to each: times
between hosts, and the order at every port, stay as they are.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from lightloom.errors import InputError, echo
from lightloom.inputs.files import STDIN, decode, read_input

_WHOLE = re.compile(r"[0-9]{1,9}")
_HEADER = ("nodes", "tiers", "podsize")
_TIER = ("downlink_speed_gbps", "radix_down", "radix_up", "downlink_latency_ns",
         "switch_latency_ns", "oversubscribed", "bundle")  # fmt: skip
#: largest file, of other lists as well; most links, as of these
MAX_FILE_BYTES, _MAX_LINKS = 16 * 10**6, 2**16
_PS_PER_NS, _BPS_PER_GBPS = 1_000, 10**9


@dataclass(frozen=True)
class _Tree:
    """Numbers of a file: hosts, hosts of a pod, and the keys of each tier from the ToRs on."""

    name: str
    nodes: int
    podsize: int
    tiers: list[dict[str, int]]


def is_htsim_topology(content: bytes) -> bool:
    """Whether a list of links is a tree of htsim: its first word is one of the header."""
    lines = (line.split() for line in BytesIO(content.removeprefix(BOM_UTF8)))
    first = next((line for line in lines if line and not line[0].startswith(b"#")), [])
    return len(first) == 2 and first[0].lower() in {word.encode() for word in _HEADER}


def htsim_numbers(path: Path) -> dict[str, int]:
    """``hosts`` and ``rate_gbps`` of a tree; empty if the file is another list of links, or
    standard input, which is read once.

    Raises
    ------
    InputError
        If it cannot be read, or as :func:`htsim_links`.
    """
    if str(path) == STDIN:
        return {}
    content, name = read_input(path, "list of links", MAX_FILE_BYTES)
    if not is_htsim_topology(content):
        return {}
    tree = _read(decode(content, name), name)
    return {"hosts": tree.nodes, "rate_gbps": tree.tiers[0]["downlink_speed_gbps"]}


def htsim_links(content: bytes, name: str, hosts: int, rate_gbps: float) -> dict[str, Any]:
    """The switches and links of a tree for the core.

    Raises
    ------
    InputError
        If a line is not as such a file has it, if the numbers are those of no tree, or if the
        network has other hosts or another rate of their links.
    """
    tree = _read(decode(content, name), name)
    rate = tree.tiers[0]["downlink_speed_gbps"]
    if hosts != tree.nodes or rate_gbps != rate:
        raise InputError(
            f"{name}: {tree.nodes:,} hosts at {rate} Gb/s, the network has {hosts:,} at "
            f"{rate_gbps:g} Gb/s; expected the same, or neither given"
        )
    return _links(tree, *_switches(tree))


def _read(text: str, name: str) -> _Tree:
    header: dict[str, int] = {}
    tiers: list[dict[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key, place = words[0].lower(), f"{name}, line {number}"
        if len(words) != 2 or not _WHOLE.fullmatch(words[1]):
            raise InputError(
                f"{place}: {echo(line.strip())}: expected a word and a whole number of up to 9"
                " digits"
            )
        value = int(words[1])
        if key == "tier":
            if value != len(tiers) or value > 2:
                raise InputError(f"{place}: tier {value}: expected 0, 1 and perhaps 2 in order")
            tiers.append({})
            continue
        known, table = (_TIER, tiers[-1]) if tiers else (_HEADER, header)
        if key in ("queue_up", "queue_down"):
            raise InputError(f"{place}: {words[0]}: queues are not read; give them as --queue")
        if key not in known or key in table:
            raise InputError(f"{place}: {echo(words[0])}: expected, once each, {', '.join(known)}")
        table[key] = value
    return _checked(name, header, tiers)


def _checked(name: str, header: dict[str, int], tiers: list[dict[str, int]]) -> _Tree:
    """A tree whose keys are all there."""
    if header.get("tiers") not in (2, 3) or len(tiers) != header["tiers"]:
        raise InputError(f"{name}: {len(tiers)} tiers: expected Tiers 2 or 3, and as many tables")
    for level, tier in enumerate(tiers):
        needed = ["downlink_speed_gbps", "radix_down", "downlink_latency_ns"]
        needed += ["radix_up"] if level + 1 < len(tiers) else []
        missing = next((key for key in needed if not tier.get(key)), None)
        if missing is not None:
            raise InputError(f"{name}: tier {level}: {missing} is missing or 0")
        tiers[level] = {"switch_latency_ns": 0, "bundle": 1, **tier}
        if not tiers[level]["bundle"]:
            raise InputError(f"{name}: tier {level}: bundle 0: expected at least 1")
    nodes, podsize = header.get("nodes", 0), header.get("podsize", 0)
    if not nodes or not podsize:
        raise InputError(f"{name}: Nodes and Podsize: expected both, above 0")
    return _Tree(name, nodes, podsize, tiers)


def _switches(tree: _Tree) -> tuple[int, int, int]:
    """Number of ToRs and of aggregation switches of a pod, and of cores of each of the latter."""
    tor, agg, pods = tree.tiers[0], tree.tiers[1], tree.nodes // tree.podsize
    three = len(tree.tiers) == 3
    tors, aggs = tree.podsize // tor["radix_down"], tor["radix_up"] // agg["bundle"]
    cores = agg["radix_up"] // tree.tiers[2]["bundle"] if three else 0
    rules = {
        "Nodes are full pods": tree.nodes == pods * tree.podsize and (three or pods == 1),
        "hosts have a link each": tor["bundle"] == 1,
        "pods are full ToRs": tors * tor["radix_down"] == tree.podsize,
        "bundles fill the radix": aggs * agg["bundle"] == tor["radix_up"]
        and (not three or cores * tree.tiers[2]["bundle"] == agg["radix_up"]),
        "Radix_Down of tier 1 is the ToRs of a pod": agg["radix_down"] == tors * agg["bundle"],
        "Radix_Down of tier 2 is the pods": not three
        or tree.tiers[2]["radix_down"] == pods * tree.tiers[2]["bundle"],
    }
    for level, (below, above) in enumerate(zip(tree.tiers, tree.tiers[1:], strict=False)):
        down = below["radix_down"] * below["downlink_speed_gbps"]
        up = below["radix_up"] * above["downlink_speed_gbps"]
        said = below.get("oversubscribed")
        rules[f"tier {level} is oversubscribed as it says"] = said is None or down == said * up
    broken = next((rule for rule, holds in rules.items() if not holds), None)
    if broken is not None:
        raise InputError(f"{tree.name}: its numbers are those of no tree; expected that {broken}")
    count = tree.nodes + pods * aggs * (tors * agg["bundle"] + (agg["radix_up"] if three else 0))
    if count > _MAX_LINKS:
        raise InputError(f"{tree.name}: {count:,} links; expected at most {_MAX_LINKS:,}")
    return tors, aggs, cores


def _links(tree: _Tree, tors: int, aggs: int, cores: int) -> dict[str, Any]:
    """Links in the order of those of our own trees, so that hashes choose the same paths."""
    pods = tree.nodes // tree.podsize
    counts = {"tor": tors * pods, "agg": aggs * pods, "core": cores * aggs}
    names = [f"{kind}-{place}" for kind, count in counts.items() for place in range(count)]
    tor, agg = tree.nodes, tree.nodes + counts["tor"]
    core = agg + counts["agg"]
    latency = [tier["switch_latency_ns"] * _PS_PER_NS // 2 for tier in tree.tiers]
    rates = [tier["downlink_speed_gbps"] * _BPS_PER_GBPS for tier in tree.tiers]
    delays = [
        tier["downlink_latency_ns"] * _PS_PER_NS + latency[level] + sum(latency[level - 1 : level])
        for level, tier in enumerate(tree.tiers)
    ]
    bundles = [range(tier["bundle"]) for tier in tree.tiers]
    links = [
        (host, tor + host // tree.tiers[0]["radix_down"], rates[0], delays[0])
        for host in range(tree.nodes)
    ]
    links += [
        (tor + below, agg + below // tors * aggs + above, rates[1], delays[1])
        for below in range(counts["tor"])
        for above in range(aggs)
        for _ in bundles[1]
    ]
    links += [
        (agg + below, core + below % aggs + aggs * row, rates[2], delays[2])
        for below in range(counts["agg"])
        for row in range(cores)
        for _ in bundles[2]
    ]
    return {"switches": names, "links": links}
