"""The parameters of a run: those of the transport, and those that were given.

A transport's *profile* is the parameters that its reference has, for packets and queues as well;
it is in the file of the transport (``crates/packetsim/src/transport``). The preset ``published``
takes it as it is, ``auto`` fits windows, queues and thresholds to what a round trip of the network
holds. What a scenario gives takes their place, and :class:`PacketSettings` remembers which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError, did_you_mean, echo, expected_one_of
from lightloom.inputs.sizes import UNLIMITED
from lightloom.inputs.strict import Strict
from lightloom.packets.graph import read_links
from lightloom.packets.scenario import (
    MAX_HOSTS,
    TRANSPORTS,
    NetworkTable,
    PacketScenario,
    PacketTable,
    Queue,
)
from lightloom.units import PS_PER_S, parse_quantity, show_bytes, show_time, to_bps, to_ps

#: tables that are there or not: what their keys are before any is given
_BEGIN: dict[str, dict[str, Any]] = {
    "early_drop": {"share": 0.5, "probability": 0.1},
    "ecn": {"min_bytes": None, "max_bytes": None, "probability": 1.0, "marking": "arrival"},
    "pfc": {"pause_bytes": None, "resume_bytes": None},
}
#: suffix of the core's keys, of ours, and the way between
_UNITS = {"_ps": ("_s", PS_PER_S), "_bps": ("_gbps", 1e9)}
_MAX, _MAX_PATHS, _MAX_BYTES = 2**32 - 1, 2**16 - 1, 2**64 - 1
_MAX_LEAVES, _MAX_UPLINKS = 4096, 2**15
#: several times what packets of one flow wait longer on one path than on another
FLOWLET_GAP_S = 50e-6
#: the topology that each key belongs to
_OWNERS = {
    "radix": "fat-tree",
    **dict.fromkeys(("hosts_per_leaf", "spines", "oversubscription"), "leaf-spine"),
    **dict.fromkeys(("hosts_per_server", "nvlink_gbps", "nvlink_delay_s"), "rail"),
    **dict.fromkeys(("hosts_per_switch", "switches_per_group", "global_links"), "dragonfly"),
    "links": "links",
}


Tables = dict[str, dict[str, Any]]
#: what windows, queues and thresholds hold: a round trip of the network, or what references have
PRESETS = ("auto", "published")


@dataclass(frozen=True)
class PacketSettings:
    """All parameters of a run.

    Attributes
    ----------
    transport
        Its name.
    tables
        ``packet``, ``queue`` (in it ``early_drop``, ``ecn`` and ``pfc``, ``None`` where off) and
        ``transport`` with its ``preset``: values by key, units as the keys say.
    given
        Keys that the scenario gives, such as ``queue.size_bytes``; the others are the profile's.
    """

    transport: str
    tables: Tables
    given: frozenset[str]

    def rows(self) -> list[tuple[str, str, bool]]:
        """Every key, its value as text, and whether it was given."""
        return [(key, _text(key, value), key in self.given) for key, value in _flat(self.tables)]

    def for_core(self, network: NetworkTable, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The configuration of the network and of the transport, in the core's units."""
        transport = {key: x for key, x in self.tables["transport"].items() if key != "preset"}
        config = {
            **self.tables["packet"],
            **self.tables["queue"],
            "paths": transport.pop("paths", None),
            "routing": network.routing,
            "flowlet_gap_s": flowlet_gap_of(network),
            "plane_silence_s": _plane_silence_of(network),
            "shared_buffer": _shared_buffer_of(network),
            "loss": network.loss,
            "seed": seed,
        }
        return _for_core(config), {"name": self.transport, **_for_core(transport)}


def profile_of(transport: str, rate_gbps: float, network: NetworkTable | None = None) -> Tables:
    """The parameters of a transport and its queues, in the keys of a scenario.

    Those of its reference, of which some grow with the rate of the links; with a network those that
    hold a round trip of it.

    Raises
    ------
    InputError
        If there is no such transport.
    """
    if transport not in TRANSPORTS:
        raise InputError(
            f"transport {echo(transport, quoted=False)}: {expected_one_of(transport, TRANSPORTS)}"
        )
    fitted = None if network is None else _fitted_to(network)
    profile = _core.packet_profile(transport, to_bps(rate_gbps), fitted)
    config, parameters = map(from_core, profile)
    del parameters["name"]
    paths = {} if config["paths"] is None else {"paths": config["paths"]}
    return {
        "packet": {key: config[key] for key in PacketTable.model_fields},
        "queue": {key: config[key] for key in Queue.model_fields},
        "transport": {
            "preset": "published" if network is None else "auto",
            **paths,
            **parameters,
        },
    }


def resolve(scenario: PacketScenario, call: Callable[[str], str] = str) -> PacketSettings:
    """Put what a scenario gives in the place of what the profile has.

    Parameters
    ----------
    scenario
        What is given.
    call
        Turns a key such as ``transport.window`` into what messages call it.

    Raises
    ------
    InputError
        If there is no such transport, or it has no such parameter or not with such a value.
    """
    parameters = dict(scenario.transport)
    name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise InputError(f"transport.name: {expected_one_of(name, TRANSPORTS)}")
    set_keys = {f"transport.{key}" for key in parameters}
    rate_gbps, preset = scenario.network.rate_gbps, parameters.pop("preset", "auto")
    if preset not in PRESETS:
        raise InputError(f"{call('transport.preset')}: {expected_one_of(preset, PRESETS)}")
    published = profile_of(name, rate_gbps)
    tables = profile_of(name, rate_gbps, scenario.network) if preset == "auto" else published
    for key, value in parameters.items():
        called = call(f"transport.{key}")
        if key not in tables["transport"]:
            raise InputError(f"{called} is no parameter of {name}{_hint(key, tables['transport'])}")
        parameter = _own_parameter(tables["transport"], published["transport"], key, value, called)
        tables["transport"][key] = parameter
    for where, part in (("packet", scenario.packet), ("queue", scenario.queue)):
        for key, value in part:
            if isinstance(value, Strict):
                tables[where][key] = _switched(where, key, tables[where][key], dict(value))
                set_keys |= {f"{where}.{key}.{inner}" for inner, x in value if x is not None}
            elif value is not None:
                tables[where][key] = value
                set_keys.add(f"{where}.{key}")
    return PacketSettings(name, tables, frozenset(set_keys))


def _hint(key: str, known: Mapping[str, object]) -> str:
    has = f"; it has {', '.join(known)}" if known else "; it has none of its own"
    return did_you_mean(key[:60], known) or has


def _own_parameter(
    known: Mapping[str, object], published: Mapping[str, object], key: str, value: Any, name: str
) -> Any:
    """A parameter of the transport itself, of the kind that its profile's value is."""
    default = known[key]
    equals = (
        f"{name} {echo(value, quoted=False)}"
        if name.startswith("--")
        else f"{name} = {echo(value, quoted=False)}"
    )
    if default is None and value == "auto":
        return None
    if key.endswith("_bytes") and value == "unlimited":
        return _MAX_BYTES
    for suffix, unit, maximum in _QUANTITIES:
        if key.endswith(suffix):
            number = parse_quantity(value, unit, name)
            is_whole = abs(number - round(number)) <= 1e-9 * abs(number)
            if not 0 <= number <= maximum or (suffix == "_bytes" and not is_whole):
                raise InputError(f"{equals}: expected {_EXPECTED[suffix]}")
            return round(number) if suffix == "_bytes" else number
    # what is found out unless it is given is a number, whole unless the reference's is not
    default = published[key] if default is None else default
    default = 0 if default is None else default
    maximum = _MAX_PATHS if key in ("paths", "subflows") else _MAX
    expected = _EXPECTED[type(default)].format(maximum=maximum)
    if isinstance(default, bool) and value in ("on", "off"):
        return bool(value == "on")
    if isinstance(default, bool) or isinstance(value, bool):
        if type(default) is not type(value):
            raise InputError(f"{equals}: expected {expected}")
        return value
    if isinstance(default, int | float) and isinstance(value, int | float):
        whole = isinstance(value, int) or isinstance(default, float)
        if whole and math.isfinite(value) and 0 <= value <= maximum:
            return type(default)(value)
    elif isinstance(value, str) and isinstance(default, str):
        return value
    raise InputError(f"{equals}: expected {expected}")


#: suffix of a key, its unit, and the most that it may be
_QUANTITIES = (("_s", "second", 1e3), ("_gbps", "gigabit / second", 1e5), ("_bytes", "byte", 2**53))
_EXPECTED: dict[Any, str] = {
    "_s": "0 to 1,000 s",
    "_gbps": "0 to 100,000 Gb/s",
    "_bytes": "whole bytes from 0 to 2^53",
    bool: "on or off",
    int: "a whole number from 0 to {maximum:,}",
    float: "a number of at least 0",
    str: "a word",
}


def _switched(
    where: str, key: str, present: dict[str, Any] | None, options: dict[str, Any]
) -> dict[str, Any] | None:
    """A table that is there or not, after what was given."""
    name = f"{where}.{key}"
    on = options.pop("on")
    values = {inner: value for inner, value in options.items() if value is not None}
    if on is False:
        if values:
            raise InputError(
                f"{name}.on = false, so that nothing would read {name}.{next(iter(values))}; leave "
                "one of them out"
            )
        return None
    if present is None and not values and on is None:
        return None
    table = {**(present or _BEGIN[key]), **values}
    missing = next((inner for inner, value in table.items() if value is None), None)
    if missing is not None:
        raise InputError(f'{name}.{missing} is missing; add it, such as {missing} = "100 kB"')
    return table


def topology_of(network: NetworkTable) -> dict[str, Any]:
    """The network for the core, with what is absent chosen; ``shape`` is its topology and sizes.

    Raises
    ------
    InputError
        If a key belongs to another topology, or the network would be too large.
    """
    for key, owner in _OWNERS.items():
        if getattr(network, key) is not None and owner != network.topology:
            raise InputError(
                f"{key} is for the topology {owner}, not {network.topology}; leave it out"
            )
    planes, plane_choice = _planes(network)
    sizes = _SIZES.get(network.topology)
    return {
        "hosts": network.hosts,
        "rate_bps": to_bps(network.rate_gbps),
        "link_delay_ps": to_ps(network.link_delay_s),
        "planes": planes,
        "plane_choice": plane_choice,
        "shape": {"topology": network.topology, **(sizes(network) if sizes else {})},
    }


def _fitted_to(network: NetworkTable) -> dict[str, Any]:
    """The network whose longest path parameters are fitted to."""
    topology = topology_of(network)
    if network.fitted_delay_s is None:
        return topology
    # paths of a star are two links
    return topology | {
        "rate_bps": to_bps(float(host_rates_gbps(network).max())),
        "link_delay_ps": to_ps(network.fitted_delay_s) // 2,
        "planes": 1,
        "shape": {"topology": "star"},
    }


def idle_settings(network: NetworkTable) -> tuple[str, ...]:
    """What is given of a network and has no effect, a sentence each."""
    if network.topology != "links" or "link_delay_s" not in network.model_fields_set:
        return ()
    longer = network.model_copy(update={"link_delay_s": network.link_delay_s + 1e-9})
    if _links(longer) != _links(network):
        return ()
    given = show_time(network.link_delay_s)
    name = echo(str(network.links), quoted=False)
    return (f"The link delay given, {given}, has no effect: all links of {name} have their own.",)


def host_rates_gbps(network: NetworkTable) -> npt.NDArray[np.float64]:
    """What each host can send over the NICs that flows take.

    Those are one on each plane; of links that are listed the first one of a host, as flows without
    a route of their own take it.

    Returns
    -------
    rates_gbps
        ``(hosts,)``; 0 where no link is listed.

    Raises
    ------
    InputError
        If the links cannot be read.
    """
    if network.topology != "links":
        return np.full(network.hosts, network.rate_gbps * (network.planes or 1))
    rates = np.zeros(network.hosts)
    for *ends, rate_bps, _ in reversed(_links(network)["links"]):
        rates[[end for end in ends if end < network.hosts]] = rate_bps / 1e9
    return rates


def _planes(network: NetworkTable) -> tuple[int, str]:
    """Number of planes and how flows choose among them."""
    planes, choice = network.planes or 1, network.plane_choice
    if choice is not None and planes == 1:
        raise InputError(
            f"plane_choice {choice} is for several planes; add planes, or leave it out"
        )
    if planes > 1 and network.topology in ("rail", "links"):
        raise InputError(
            f"{planes} planes: the topology {network.topology} lists all of its links; expected a "
            "fat-tree, leaf-spine, star or dragonfly"
        )
    if network.hosts * planes > MAX_HOSTS:
        raise InputError(
            f"{network.hosts:,} hosts on {planes} planes; expected at most {MAX_HOSTS:,} NICs"
        )
    return planes, choice or "hash"


def flowlet_gap_of(network: NetworkTable) -> float:
    """The gap after which a packet may take another path, in seconds.

    Raises
    ------
    InputError
        If one is given that no switch reads.
    """
    if network.flowlet_gap_s is None:
        return FLOWLET_GAP_S
    if network.routing != "flowlet":
        raise InputError(
            f"flowlet_gap_s is for the routing flowlet, not {network.routing}; leave it out"
        )
    return network.flowlet_gap_s


def _shared_buffer_of(network: NetworkTable) -> dict[str, Any] | None:
    if network.shared_buffer_bytes is None:
        if network.alpha is not None:
            raise InputError("alpha is for a shared buffer; give shared_buffer_bytes, too")
        return None
    alpha = 1.0 if network.alpha is None else network.alpha
    return {"bytes": network.shared_buffer_bytes, "alpha": alpha}


def _plane_silence_of(network: NetworkTable) -> float | None:
    if network.plane_silence_s is not None and network.plane_choice != "spray":
        raise InputError(
            "plane_silence_s is for packets that are sprayed over planes; leave it out, or give "
            "plane_choice spray"
        )
    return network.plane_silence_s


def _fat_tree(network: NetworkTable) -> dict[str, Any]:
    return {"radix": network.radix or smallest_radix(network.hosts)}


def _links(network: NetworkTable) -> dict[str, Any]:
    if network.links is None:
        raise InputError("the topology links is that of a file of links; name it")
    return read_links(network.links, network.hosts, network.rate_gbps, network.link_delay_s)


def _rail(network: NetworkTable) -> dict[str, Any]:
    per_server = network.hosts_per_server or min(8, network.hosts)
    if network.hosts % per_server:
        raise InputError(
            f"{network.hosts:,} hosts in servers of {per_server:,}; expected full servers"
        )
    from lightloom.hardware import load_gpu  # takes a tenth of the start of the command

    delay_s = network.link_delay_s if network.nvlink_delay_s is None else network.nvlink_delay_s
    return {
        "hosts_per_server": per_server,
        "nvlink_rate_bps": to_bps(network.nvlink_gbps or load_gpu("h100").nvlink_rate_gbps),
        "nvlink_delay_ps": to_ps(delay_s),
    }


def _dragonfly(network: NetworkTable) -> dict[str, Any]:
    """By default a group has twice as many switches as a switch has hosts (Kim et al.)."""
    hosts, switches, links = (
        network.hosts_per_switch,
        network.switches_per_group,
        network.global_links,
    )
    half = None if switches is None else max(1, switches // 2)
    balanced = next(size for size in range(1, 1024) if _balanced_hosts(size) >= network.hosts)
    links = links or hosts or half or balanced
    hosts = hosts or half or links
    switches = switches or 2 * hosts
    capacity = hosts * switches * (switches * links + 1)
    if network.hosts > capacity:
        raise InputError(
            f"{network.hosts:,} hosts do not fit a dragonfly with {hosts} on a switch, {switches} "
            f"switches in a group and {links} global links of each, which has {capacity:,}; "
            "make one of them larger"
        )
    return {
        "hosts_per_switch": hosts,
        "switches_per_group": switches,
        "global_links": links,
    }


def _balanced_hosts(size: int) -> int:
    """Hosts of a dragonfly with ``size`` of them and as many global links on a switch."""
    return size * 2 * size * (2 * size * size + 1)


def _leaf_spine(network: NetworkTable) -> dict[str, Any]:
    down = network.hosts_per_leaf or min(16, network.hosts)
    over = network.oversubscription or 1.0
    # as many uplinks of the hosts' rate as that makes, if nothing else is said
    spines = network.spines or max(1, round(down / over))
    leaves = -(-network.hosts // down)
    if leaves > _MAX_LEAVES or leaves * spines > _MAX_UPLINKS:
        raise InputError(
            f"{leaves:,} leaves and {spines:,} spines have {leaves * spines:,} links; expected at "
            f"most {_MAX_LEAVES:,} leaves and {_MAX_UPLINKS:,} links: put more hosts on a leaf"
        )
    uplink_bps = round(to_bps(network.rate_gbps) * down / (spines * over))
    return {"hosts_per_leaf": down, "spines": spines, "uplink_rate_bps": max(1, uplink_bps)}


#: what chooses the sizes of each topology that has some
_SIZES = {
    "fat-tree": _fat_tree,
    "leaf-spine": _leaf_spine,
    "rail": _rail,
    "dragonfly": _dragonfly,
    "links": _links,
}


def smallest_radix(hosts: int) -> int:
    """Ports of the smallest switches of which a fat tree has so many hosts: an even number."""
    return next(ports for ports in range(2, 2**12, 2) if ports**3 >= 4 * hosts)


def from_core(table: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in the keys and units of a scenario."""
    mine: dict[str, Any] = {}
    for key, value in table.items():
        suffix = next((end for end in _UNITS if key.endswith(end)), None)
        if isinstance(value, dict):
            mine[key] = from_core(value)
        elif suffix is not None:
            end, scale = _UNITS[suffix]
            mine[key.removesuffix(suffix) + end] = None if value is None else value / scale
        else:
            mine[key] = value
    return mine


def _for_core(table: Mapping[str, Any]) -> dict[str, Any]:
    core: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            core[key] = _for_core(value)
        elif key.endswith("_s"):
            core[f"{key[:-2]}_ps"] = None if value is None else to_ps(value)
        elif key.endswith("_gbps"):
            core[f"{key[:-5]}_bps"] = None if value is None else to_bps(value)
        else:
            core[key] = value
    return core


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _text(key: str, value: Any) -> str:
    """A value with its unit."""
    if value is None:
        return "auto" if key.startswith("transport.") else "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes"):
        exact = f"{value:,} B" if value < 1e6 else show_bytes(value, 6)
        return "unlimited" if value in {UNLIMITED, _MAX_BYTES} else exact
    if key.endswith("_s"):
        return show_time(value)
    if key.endswith("_gbps"):
        return f"{value:g} Gb/s"
    return f"{value:g}" if isinstance(value, float) else str(value)
