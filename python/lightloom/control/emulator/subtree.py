"""Subtree filters of NETCONF (RFC 6241, section 6), over trees of lxml."""

from __future__ import annotations

from copy import copy, deepcopy
from xml.etree.ElementTree import Element


def select(tree: Element, filter_: Element) -> list[Element]:
    """Return what a filter selects of the children of a tree, as copies.

    A filter element without a namespace stands for that name in all namespaces.
    """
    selected = []
    for node in tree:
        for wanted in elements(filter_):
            if matches(node, wanted) and (part := _part(node, wanted)) is not None:
                selected.append(part)
                break
    return selected


def elements(node: Element) -> list[Element]:
    """Return the children that are elements: no comments, no instructions."""
    return [child for child in node if isinstance(child.tag, str)]


def local(node: Element) -> str:
    """Return an element's name without its namespace."""
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


def namespace(node: Element) -> str:
    """Return an element's namespace, empty if it has none."""
    return node.tag[1:].rpartition("}")[0] if node.tag.startswith("{") else ""


def text(node: Element) -> str:
    """Return an element's text without the blanks around it."""
    return (node.text or "").strip()


def matches(node: Element, wanted: Element) -> bool:
    """Whether an element has the name that another one asks for."""
    return local(node) == local(wanted) and namespace(wanted) in {"", namespace(node)}


def _part(node: Element, wanted: Element) -> Element | None:
    """Return the part of an element that a filter element of the same name selects, or None."""
    inner = elements(wanted)
    if not inner:
        is_other = bool(text(wanted)) and text(wanted) != text(node)
        return None if is_other else deepcopy(node)
    children = elements(node)
    conditions = [leaf for leaf in inner if not elements(leaf) and text(leaf)]
    parts: dict[int, Element] = {}
    for leaf in conditions:
        equal = {
            index: deepcopy(child)
            for index, child in enumerate(children)
            if matches(child, leaf) and text(child) == text(leaf)
        }
        if not equal:
            return None
        parts |= equal
    others = [child for child in inner if child not in conditions]
    if not others:
        return deepcopy(node)
    for index, child in enumerate(children):
        for other in others:
            if matches(child, other) and (part := _part(child, other)) is not None:
                parts.setdefault(index, part)
    if not parts:
        return None
    shell = copy(node)
    shell[:] = [parts[index] for index in sorted(parts)]
    return shell
