"""How an ``edit-config`` changes the circuits of an emulated Polatis switch.

The rules are those of RFC 6241, section 7.2, and RFC 7950, section 8.3. Public clients send the
attribute ``operation`` without a namespace (ONOS and others) and a ``config`` without one; switches
obey them, so that both are accepted here. What has the namespace of another module is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from lightloom.control.emulator.polatis_model import (
    CROSS_CONNECTS,
    MODULES,
    ModelContainer,
    PolatisModel,
)
from lightloom.control.emulator.subtree import elements, local, namespace, text

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
_OPERATIONS = {"merge", "replace", "create", "delete", "remove"}
_DEFAULTS = {"merge", "replace", "none"}


class RpcError(Exception):
    """A request is refused.

    Parameters
    ----------
    tag
        Error tag of RFC 6241, appendix A.
    message
        What a person is told.
    info
        Elements of ``error-info``.
    """

    def __init__(self, tag: str, message: str, **info: str) -> None:
        super().__init__(message)
        self.tag, self.message, self.info = tag, message, info


@dataclass(slots=True)
class CircuitEdit:
    """What an edit asks for: ingress ports to free, and then circuits to make."""

    deletes: list[int] = field(default_factory=list)
    creates: list[tuple[int, int]] = field(default_factory=list)


def edit_of(operation: Element, model: PolatisModel, *, is_replaced: bool = False) -> CircuitEdit:
    """Return what an ``edit-config`` asks for.

    Parameters
    ----------
    operation
        Its element, whose target has been checked, or one with a ``config`` in it.
    model
        What the switch has.
    is_replaced
        Whether the configuration is replaced as a whole, as ``copy-config`` does.

    Raises
    ------
    RpcError
        If the switch refuses it.
    """
    children = {local(child): child for child in elements(operation)}
    default = text(children["default-operation"]) if "default-operation" in children else "merge"
    if default not in _DEFAULTS:
        raise RpcError("invalid-value", f"default-operation {default[:40]}")
    for name in ("test-option", "url"):
        if name in children:
            raise _unknown(name)
    if "config" not in children:
        raise RpcError("missing-element", "no config", **{"bad-element": "config"})
    default = "replace" if is_replaced else default
    containers = model.containers()
    circuits = dict(_circuits(model))
    edit = CircuitEdit()
    is_mentioned = False
    for node in elements(children["config"]):
        container = _container_of(node, containers)
        if container.is_state:
            raise _unknown(container.name)
        if container.name != CROSS_CONNECTS:
            raise RpcError("operation-not-supported", f"{container.name} cannot be changed here")
        is_mentioned = True
        _edit_circuits(node, _operation_of(node, default), model, circuits, edit)
    if default == "replace" and not is_mentioned:
        edit.deletes += circuits
    return edit


def _circuits(model: PolatisModel) -> Iterable[tuple[int, int]]:
    for row in model.cross_connects().rows:
        ingress, egress = row["ingress"], row["egress"]
        assert isinstance(ingress, int)
        assert isinstance(egress, int)
        yield ingress, egress


def _edit_circuits(
    node: Element,
    operation: str,
    model: PolatisModel,
    circuits: dict[int, int],
    edit: CircuitEdit,
) -> None:
    """Add what the container of circuits asks for to an edit."""
    pairs = elements(node)
    for pair in pairs:
        if local(pair) != model.pair or namespace(pair) not in {namespace(node)}:
            raise _unknown(local(pair))
    if operation in {"delete", "remove"}:
        if operation == "delete" and not circuits:
            raise RpcError("data-missing", "there are no cross-connects")
        edit.deletes += circuits
        return
    if operation == "create" and circuits:
        raise RpcError("data-exists", "there are cross-connects")
    seen: set[int] = set()
    for pair in pairs:
        ingress, egress = _leaf(pair, "ingress"), _leaf(pair, "egress")
        if ingress is None:
            raise RpcError("missing-element", "no ingress", **{"bad-element": "ingress"})
        if ingress in seen:
            raise RpcError("operation-failed", f"ingress {ingress} twice in one request")
        seen.add(ingress)
        _edit_pair(ingress, egress, _operation_of(pair, operation), circuits, edit)
    if operation == "replace":
        edit.deletes += [port for port in circuits if port not in seen]


def _edit_pair(
    ingress: int,
    egress: int | None,
    operation: str,
    circuits: dict[int, int],
    edit: CircuitEdit,
) -> None:
    exists = ingress in circuits
    if operation == "none":
        if not exists:
            raise RpcError("data-missing", f"port {ingress} has no cross-connect")
    elif operation in {"delete", "remove"}:
        if operation == "delete" and not exists:
            raise RpcError("data-missing", f"port {ingress} has no cross-connect")
        if exists:
            edit.deletes.append(ingress)
    elif operation == "create" and exists:
        raise RpcError("data-exists", f"port {ingress} has a cross-connect")
    elif egress is not None:
        edit.creates.append((ingress, egress))
    elif not exists or operation == "replace":
        # the model says that a pair has an egress
        raise RpcError("missing-element", "no egress", **{"bad-element": "egress"})


def _container_of(node: Element, containers: dict[str, ModelContainer]) -> ModelContainer:
    if namespace(node) not in MODULES.values():
        raise RpcError(
            "unknown-namespace",
            f"no module has the namespace of {local(node)[:40]}",
            **{"bad-element": local(node), "bad-namespace": namespace(node)},
        )
    container = containers.get(local(node))
    if container is None or container.namespace != namespace(node):
        raise _unknown(local(node))
    return container


def _operation_of(node: Element, inherited: str) -> str:
    """Return what an element asks for: ``operation`` with the namespace of NETCONF or without."""
    operation = str(node.get(f"{{{BASE}}}operation", node.get("operation", inherited)))
    if operation not in _OPERATIONS | {inherited}:
        raise RpcError(
            "bad-attribute",
            f"operation {operation[:40]}",
            **{"bad-attribute": "operation", "bad-element": local(node)},
        )
    return operation


def _leaf(pair: Element, name: str) -> int | None:
    """Return a port of a pair, None if it is not there."""
    for leaf in elements(pair):
        if local(leaf) not in {"ingress", "egress"} or namespace(leaf) != namespace(pair):
            raise _unknown(local(leaf))
        if local(leaf) == name:
            if not re.fullmatch(r"[0-9]{1,6}", text(leaf)):
                raise RpcError("invalid-value", f"Invalid OXC port: {text(leaf)[:20]}")
            return int(text(leaf))
    return None


def _unknown(name: str) -> RpcError:
    return RpcError("unknown-element", f"no element {name[:40]}", **{"bad-element": name})
