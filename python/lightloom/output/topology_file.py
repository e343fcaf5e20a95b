"""A topology as a file: our TOML, or InfraGraph as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lightloom.errors import InputError
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.infragraph import infragraph_of
from lightloom.fabric.topology import Topology
from lightloom.output.files import json_text, write_text


def write_topology(topology: Topology, cluster: Cluster, path: Path) -> None:
    """Write a topology by the ending of the name: ``.toml``, or ``.json`` for InfraGraph.

    InfraGraph says the rates and the servers of ``cluster``; TOML is what the topology says.

    Raises
    ------
    InputError
        If the name ends otherwise, or the topology cannot be said.
    OutputError
        If it cannot be written.
    """
    check_ending(path)
    if path.suffix == ".json":
        write_text(json_text(infragraph_of(topology, cluster)) + "\n", path)
    else:
        write_text(topology_toml(topology), path)


def check_ending(path: Path) -> None:
    """Refuse a name that does not say its format.

    Raises
    ------
    InputError
        If it ends in neither ``.toml`` nor ``.json``.
    """
    if path.suffix not in {".toml", ".json"}:
        raise InputError(f"--write {path}: expected a name that ends in .toml or .json")


def topology_toml(topology: Topology) -> str:
    """Text of a topology file, without what is said by default.

    Examples
    --------
    >>> from lightloom.fabric.topology import Topology
    >>> one = {"ends": ["servers", "leaf"], "count": 8}
    >>> print(topology_toml(Topology(switches={"leaf": {}}, links=[one])))
    kind = "topology"
    <BLANKLINE>
    [switches.leaf]
    <BLANKLINE>
    [[links]]
    ends = ["servers", "leaf"]
    count = 8
    <BLANKLINE>
    """
    values = topology.model_dump(exclude_defaults=True)
    switches, links = values.pop("switches"), values.pop("links")
    names = ("prices_usd", "watts", "circuits")
    tables = {name: values.pop(name) for name in names if name in values}
    parts = [_table("", {"kind": topology.kind, **values})]
    parts += [_table(f"[switches.{_key(name)}]", tier) for name, tier in switches.items()]
    parts += [_table("[[links]]", rule) for rule in links]
    parts += [_table(f"[{name}]", table) for name, table in tables.items()]
    return "\n".join(parts)


def _table(head: str, values: Mapping[str, object]) -> str:
    lines = [head] if head else []
    lines += [f"{_key(name)} = {_value(value)}" for name, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else _value(name)


def _value(value: object) -> str:
    # TOML writes text, numbers, flags and lists as JSON does
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
