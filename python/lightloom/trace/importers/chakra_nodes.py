"""Nodes of a Chakra execution trace, from Protocol Buffers or JSON.

Read are files of schema 0.0.4 (``et_def.proto`` of mlcommons/chakra since October 2023): the
metadata, then a message per node, each after its length; such files without a version, as early
converters of PyTorch's traces wrote; and JSON with a ``workload_graph``, as Chakra's feeder reads
it, or with ``nodes``, as STAGE writes it. Schemas 0.0.3 and earlier number fields and collectives
differently and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lightloom.errors import InputError, echo
from lightloom.trace.importers.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    Value,
    WireError,
    content_of,
    delimited,
    double,
    fields,
    number,
    numbers,
    signed,
    text,
)

VERSIONS = ("0.0.4",)

#: node types of et_def.proto
METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(1, 8)
#: those of storage, since 2026
LAST_TYPE = 10

#: of one rank, and of all of its nodes together
MAX_NODES, MAX_EDGES = 5_000_000, 20_000_000
#: types of nodes and keys in STAGE's JSON (``chakra/backends/json_backend.py``)
_STAGE_TYPES = {
    "mem_load_node": LOAD, "mem_store_node": STORE, "comp_node": COMPUTE, "comm_send_node": SEND,
    "comm_recv_node": RECEIVE, "coll_comm_node": COLLECTIVE,
}  # fmt: skip
_STAGE_KEYS = {"id": "Id", "name": "Name", "node_type": "NodeType", "ctrl_deps": "ctrlDeps"}
#: duration of a node
MAX_MICROS = 10**12
#: characters of a name that are kept
_MAX_NAME = 200

#: bytes of an attribute that is remembered
_MAX_SMALL = 100

#: attributes that are read; others are skipped
ATTRIBUTES = {
    "is_cpu_op", "num_ops", "tensor_size", "runtime", "comm_type", "comm_size", "comm_src",
    "comm_dst", "comm_tag", "pg_name", "involved_dim", "root", "stream", "output_size", "dtype",
    "reduction", "input_splits", "output_splits", "pg_desc", "phase", "layer", "step", "routed",
    "asynchronous", "comm_group",
}  # fmt: skip

Attribute = int | float | str | tuple[int, ...]

_OLD = (
    "expected a Chakra trace of schema 0.0.4; this one is of 0.0.3 or earlier, which numbers "
    "collectives differently: write it by a converter of 2024 or later"
)


@dataclass(slots=True)
class Node:
    """A node of an execution trace.

    Attributes
    ----------
    id, name
        As the file has them.
    kind
        Its type, a number of ``et_def.proto``.
    data, control
        Nodes that it depends on.
    micros
        Its duration; 0 where none is given.
    attributes
        Those of :data:`ATTRIBUTES` that it has.
    """

    id: int
    name: str = ""
    kind: int = 0
    data: list[int] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    micros: int = 0
    attributes: dict[str, Attribute] = field(default_factory=dict)

    @property
    def duration_s(self) -> float | None:
        """How long it takes; ``None`` where the trace does not say.

        Raises
        ------
        InputError
            If it takes longer than anything that anybody recorded.
        """
        micros = self.micros or self.attributes.get("runtime", 0)
        if not isinstance(micros, int | float) or not micros > 0:
            return None
        if micros > MAX_MICROS:
            raise InputError(f"node {self.id} takes {micros:,} us; the limit is {MAX_MICROS:,}")
        return micros * 1e-6


def nodes_of_bytes(content: bytes, name: str) -> list[Node]:
    """The nodes of a file of Protocol Buffers.

    Parameters
    ----------
    content
        Of the file.
    name
        Of the file, for messages.

    Raises
    ------
    InputError
        If it is no such file, ends too early, or is of another schema.
    """
    messages = delimited(memoryview(content))
    try:
        _check_metadata(next(messages, None))
        return _gathered(_node(message) for message in messages)
    except WireError as problem:
        raise InputError(f"{name}: no whole Chakra trace: it {problem}") from None
    except InputError as problem:
        raise InputError(f"{name}: {problem}") from None


def _gathered(nodes: Iterator[Node]) -> list[Node]:
    kept: list[Node] = []
    edges = 0
    for node in nodes:
        edges += len(node.data) + len(node.control)
        if len(kept) == MAX_NODES or edges > MAX_EDGES:
            raise InputError(
                f"has more than {MAX_NODES:,} nodes or {MAX_EDGES:,} dependencies of one rank"
            )
        kept.append(node)
    return kept


def _check_metadata(message: memoryview | None) -> None:
    if message is None:
        raise InputError("is empty: expected a Chakra trace")
    for field_number, kind, value in fields(message):
        if (field_number, kind) == (1, BYTES):
            if bytes(content_of(value)[:1]) == b"\n":
                raise InputError(_OLD)
            version = text(value)
            if version not in VERSIONS:
                raise InputError(
                    f"expected a Chakra trace of schema {', '.join(VERSIONS)}, got {echo(version)}"
                )
        elif field_number != 2 or kind != BYTES:
            # a node comes first, as in the earliest schema
            raise InputError(_OLD)


def _node(message: memoryview) -> Node:
    node = Node(-1)
    for field_number, kind, value in fields(message):
        if field_number == 10 and kind == BYTES:
            _add_attribute(node, value)
        elif field_number == 11 and kind == BYTES and _has_old_attribute(value):
            raise InputError(_OLD)
        elif field_number in _NODE_FIELDS:
            _NODE_FIELDS[field_number](node, value)
    node.id = max(node.id, 0)  # proto3 leaves out what is zero
    if node.kind > LAST_TYPE:
        raise InputError(f"node {node.id} is of type {node.kind}, which schema 0.0.4 has not")
    return node


def _has_old_attribute(value: Value) -> bool:
    """Whether a message is an attribute of schema 0.0.3, with a name and a type."""
    layout = [(field_number, kind) for field_number, kind, _ in fields(content_of(value))]
    return layout[:2] == [(1, BYTES), (2, 0)]


def _set_name(node: Node, value: Value) -> None:
    if isinstance(value, int):
        raise WireError("has a number where a text is expected")
    # what is cut may end within a character
    node.name = bytes(value[: 4 * _MAX_NAME]).decode(errors="replace")[:_MAX_NAME]


def _set(name: str) -> Callable[[Node, Value], None]:
    return lambda node, value: setattr(node, name, number(value))


#: what fields of a node are, by their numbers
_NODE_FIELDS: dict[int, Callable[[Node, Value], None]] = {
    1: _set("id"),
    2: _set_name,
    3: _set("kind"),
    4: lambda node, value: node.control.extend(numbers(value)),
    5: lambda node, value: node.data.extend(numbers(value)),
    7: _set("micros"),
}


def _add_attribute(node: Node, value: Value) -> None:
    content = content_of(value)
    # attributes repeat from node to node
    small = len(content) <= _MAX_SMALL
    attribute = _small_attribute(bytes(content)) if small else _named_attribute(content)
    if attribute is not None:
        node.attributes[attribute[0]] = attribute[1]


@lru_cache(maxsize=4096)
def _small_attribute(content: bytes) -> tuple[str, Attribute] | None:
    return _named_attribute(memoryview(content))


def _named_attribute(content: memoryview) -> tuple[str, Attribute] | None:
    """Name and value of an attribute; ``None`` of one that is not read, or has no value."""
    name, value = "", None
    for field_number, kind, content_part in fields(content):
        if field_number == 1:
            name = text(content_part)
            if name not in ATTRIBUTES:
                return None
        elif name and field_number > 2:
            value = _attribute(field_number, kind, content_part)
    return None if value is None else (name, value)


def _attribute(field_number: int, kind: int, value: Value) -> Attribute:
    """The value of a oneof whose fields are two for each type: one value, and a list."""
    if isinstance(value, int):
        if kind in (FIXED64, FIXED32) and field_number in (3, 5):
            return double(value, kind)
        if field_number in (15, 17):
            return (value >> 1) ^ -(value & 1)
        return signed(value) if field_number in (7, 9, 25) else value
    if field_number in (29, 31):
        return text(value)
    values: list[int] = []
    for inner, _, packed in fields(value):
        if inner == 1:
            values.extend(signed(item) for item in numbers(packed))
    return tuple(values)


def nodes_of_stage(nodes: object, name: str) -> list[Node]:
    """The ``nodes`` of STAGE's JSON.

    Raises
    ------
    InputError
        If a node has not what a node needs.
    """
    if not isinstance(nodes, list) or not all(isinstance(node, Mapping) for node in nodes):
        raise InputError(f"{name}: expected a list of nodes")
    renamed = [{_STAGE_KEYS.get(key, key): node[key] for key in node} for node in nodes]
    for node in renamed:
        kind = node.get("NodeType")
        node["NodeType"] = _STAGE_TYPES.get(kind, kind) if isinstance(kind, str) else kind
    return nodes_of_json(renamed, name)


def nodes_of_json(graph: object, name: str) -> list[Node]:
    """The nodes of a ``workload_graph`` in JSON.

    Raises
    ------
    InputError
        If a node has not what a node needs.
    """
    if not isinstance(graph, list):
        raise InputError(f"{name}: expected a list of nodes as workload_graph")
    try:
        return _gathered(_json_node(node, place) for place, node in enumerate(graph))
    except InputError as problem:
        raise InputError(f"{name}: {problem}") from None


def _json_node(record: object, place: int) -> Node:
    if not isinstance(record, Mapping):
        raise InputError(f"node {place}: expected a table")
    node = Node(_whole(record.get("Id"), "Id", place), str(record.get("Name", ""))[:_MAX_NAME])
    node.kind = _whole(record.get("NodeType"), "NodeType", place)
    if node.kind > LAST_TYPE:
        raise InputError(f"node {node.id} is of type {node.kind}, which schema 0.0.4 has not")
    node.data = _list(record.get("data_deps", []), "data_deps", place)
    node.control = _list(record.get("ctrlDeps", []), "ctrlDeps", place)
    for key in ATTRIBUTES & record.keys():
        value = record[key]
        if isinstance(value, bool | int | float | str):
            node.attributes[key] = value
        elif isinstance(value, list):
            node.attributes[key] = tuple(_list(value, key, place))
    return node


def _whole(value: Any, key: str, place: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise InputError(f"node {place}: {key} is {echo(value)}: expected a whole number")
    return value


def _list(value: Any, key: str, place: int) -> list[int]:
    if not isinstance(value, list):
        raise InputError(f"node {place}: {key} is {echo(value)}: expected a list of numbers")
    return [_whole(int(item) if isinstance(item, bool) else item, key, place) for item in value]
