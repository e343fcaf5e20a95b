"""RESTCONF (RFC 8040) of an emulated Polatis switch, with JSON and XML.

The tree is that of the published YANG modules. Paths and bodies are those that public clients and
the vendor's web interface use: names at the top may lack their prefix, and the list of pairs can be
read, patched and put without a key. Everything else is as strict as RFC 8040: media types, query
parameters, keys in paths and bodies, what exists and what does not, and locks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl
from xml.etree.ElementTree import Element

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import EmulatedSwitch
from lightloom.control.emulator.http import HttpApplication, HttpRequest, HttpResponse
from lightloom.control.emulator.matrix import MatrixRefusalError, Refusal
from lightloom.control.emulator.polatis_model import (
    CROSS_CONNECTS,
    OPTICAL_SWITCH,
    ModelContainer,
    PolatisModel,
    Row,
)

JSON, XML = "application/yang-data+json", "application/yang-data+xml"
#: what clients of switches send and accept instead; it stands for JSON and XML
_SYNONYMS = {"application/json": JSON, "application/xml": XML, "*/*": JSON, "application/*": JSON}
_DATA, _OPERATIONS = "/api/data/", "/api/operations/"
_PATH = re.compile(
    r"(?:(?P<module>[a-z-]{1,40}):)?(?P<container>[a-z-]{1,40})"
    r"(?:/(?:(?P<inner>[a-z-]{1,40}):)?(?P<entry>[a-z-]{1,40})(?:=(?P<key>[^/,]{1,40}))?)?"
)
_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
_ERRORS = {
    400: "invalid-value",
    401: "access-denied",
    404: "invalid-value",
    405: "operation-not-supported",
    406: "invalid-value",
    409: "in-use",
    412: "operation-failed",
    415: "invalid-value",
}


class RequestRefusedError(Exception):
    """A request is refused with a status code and a text."""

    def __init__(self, status: int, text: str, tag: str = "") -> None:
        super().__init__(text)
        self.status, self.text = status, text
        self.tag = tag or _ERRORS.get(status, "operation-failed")


class PolatisRestconfApplication(HttpApplication):
    """Handles the requests of one switch."""

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self._model = PolatisModel(switch)

    def is_change(self, request: HttpRequest) -> bool:
        """Whether a request creates or deletes circuits."""
        return request.method not in {"GET", "HEAD", "OPTIONS"}

    def refuse(self, status: int, text: str, tag: str = "") -> HttpResponse:
        """Return the response that refuses a request."""
        error = {
            "error-type": "application",
            "error-tag": tag or _ERRORS.get(status, "operation-failed"),
            "error-message": text,
        }
        content = json.dumps({"ietf-restconf:errors": {"error": [error]}}).encode()
        return HttpResponse(status, content, {"content-type": JSON})

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request of a user who is logged in."""
        try:
            return await self._handle(request)
        except RequestRefusedError as error:
            return self.refuse(error.status, error.text, error.tag)
        except MatrixRefusalError as error:
            status = 400 if error.reason in {Refusal.NO_SUCH_PORT, Refusal.WRONG_SIDE} else 409
            text = f"Invalid OXC port: {error.port}" if status == 400 else str(error)
            return self.refuse(status, text)

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        path, _, query = request.path.partition("?")
        accepted = _accepted(request)
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        if parameters.keys() - {"content"} or (
            request.method not in {"GET", "HEAD"} and parameters
        ):
            raise RequestRefusedError(400, "a query parameter that is not offered")
        if path.startswith(_OPERATIONS):
            return self._operate(request, path.removeprefix(_OPERATIONS))
        target = _PATH.fullmatch(path.removeprefix(_DATA)) if path.startswith(_DATA) else None
        container = self._container(target) if target is not None else None
        if target is None or container is None:
            raise RequestRefusedError(404, "unknown resource")
        if request.method == "OPTIONS":
            return HttpResponse(200, headers={"allow": _METHODS, "accept-patch": f"{JSON}, {XML}"})
        if request.method in {"GET", "HEAD"}:
            container = _with_content(container, parameters.get("content", "all"))
            return _read(request, container, target, accepted)
        if container.name != CROSS_CONNECTS:
            raise RequestRefusedError(405, f"{container.name} cannot be changed here")
        if self._switch.locked_by:
            raise RequestRefusedError(409, f"session {self._switch.locked_by} holds the lock")
        wanted_tag = request.headers.get("if-match", "*")
        if wanted_tag not in {"*", _tag(_selected(container, target))}:
            raise RequestRefusedError(412, "the resource has changed")
        return await self._change(request, container, target)

    def _container(self, target: re.Match[str]) -> ModelContainer | None:
        """Return the container that a path leads to or through; None if there is none."""
        container = self._model.containers().get(target["container"])
        if container is None or target["module"] not in {None, container.module}:
            return None
        is_other = target["inner"] not in {None, container.module}
        if target["entry"] and (is_other or target["entry"] != container.entry):
            return None
        return container

    async def _change(
        self, request: HttpRequest, container: ModelContainer, target: re.Match[str]
    ) -> HttpResponse:
        """Change the circuits that a path leads to."""
        circuits = {int(str(row["ingress"])): int(str(row["egress"])) for row in container.rows}
        key = None if target["key"] is None else _port(target["key"])
        if request.method == "DELETE":
            if key is None and target["entry"]:
                raise RequestRefusedError(400, "a list is deleted entry by entry")
            if key is not None and key not in circuits:
                raise RequestRefusedError(404, "no such cross-connect")
            await self._switch.change(list(circuits) if key is None else [key], [])
            return HttpResponse(204)
        if request.method not in {"PATCH", "POST", "PUT"}:
            raise RequestRefusedError(405, "method not allowed")
        is_list = bool(target["entry"]) or request.method == "POST"
        pairs = self._pairs_of(request, container, is_list=is_list)
        if request.method == "POST":
            return await self._create(request, pairs, circuits, target)
        if key is not None and [ingress for ingress, _ in pairs] != [key]:
            raise RequestRefusedError(400, "the key of the body is not that of the path")
        if request.method == "PATCH":
            if key is not None and key not in circuits:
                raise RequestRefusedError(404, "no such cross-connect")
            await self._switch.change([], pairs)
            return HttpResponse(204)
        kept = dict(pairs)
        replaced = [port for port in circuits if port not in kept] if key is None else []
        await self._switch.change(replaced, pairs)
        return HttpResponse(201 if key is not None and key not in circuits else 204)

    async def _create(
        self,
        request: HttpRequest,
        pairs: list[tuple[int, int]],
        circuits: dict[int, int],
        target: re.Match[str],
    ) -> HttpResponse:
        if target["entry"]:
            raise RequestRefusedError(405, "post to the resource that contains the list")
        if taken := [ingress for ingress, _ in pairs if ingress in circuits]:
            text = f"cross-connect of port {taken[0]} exists"
            raise RequestRefusedError(409, text, "data-exists")
        await self._switch.change([], pairs)
        place = f"{request.path.partition('?')[0]}/{self._model.pair}={pairs[0][0]}"
        return HttpResponse(201, headers={"location": place})

    def _pairs_of(
        self, request: HttpRequest, container: ModelContainer, *, is_list: bool
    ) -> list[tuple[int, int]]:
        """Return the pairs of a body: the container, or entries of its list."""
        kind = _media_type(request.headers.get("content-type", ""))
        if kind not in {JSON, XML}:
            raise RequestRefusedError(415, f"expected {JSON} or {XML}")
        rows = list((_json_rows if kind == JSON else _xml_rows)(request.body, container, is_list))
        ingresses = [ingress for ingress, _ in rows]
        if len(set(ingresses)) < len(ingresses) or (is_list and not rows):
            raise RequestRefusedError(400, "expected entries with different keys")
        return rows

    def _operate(self, request: HttpRequest, name: str) -> HttpResponse:
        """Execute an operation of the module: closing and opening ports."""
        if name != f"{OPTICAL_SWITCH}:port-set-state":
            raise RequestRefusedError(404, "unknown operation")
        if request.method != "POST":
            raise RequestRefusedError(405, "operations are posted")
        if _media_type(request.headers.get("content-type", "")) != JSON:
            raise RequestRefusedError(415, f"expected {JSON}")
        data = _parsed(request.body)
        changes = next(iter(data.values()), None) if len(data) == 1 else None
        if next(iter(data), "") not in {"input", f"{OPTICAL_SWITCH}:input"}:
            raise _malformed()
        if not isinstance(changes, dict) or changes.keys() - {"port-enab", "port-disab"}:
            raise _malformed()
        ports = [changes.get(name, []) for name in ("port-enab", "port-disab")]
        for port in (port for listed in ports for port in listed):
            if type(port) is not int or port not in self._switch.matrix.ports:
                raise RequestRefusedError(400, f"Invalid OXC port: {str(port)[:20]}")
        self._model.set_ports(*ports)
        return HttpResponse(204)


def _media_type(text: str) -> str:
    kind = text.partition(";")[0].strip().lower()
    return _SYNONYMS.get(kind, kind)


def _accepted(request: HttpRequest) -> str:
    """Return the media type in which a client wants to be answered."""
    wanted = [_media_type(part) for part in request.headers.get("accept", "*/*").split(",")]
    for kind in wanted:
        if kind in {JSON, XML}:
            return kind
    raise RequestRefusedError(406, f"expected {JSON} or {XML}")


def _with_content(container: ModelContainer, content: str) -> ModelContainer:
    """Return a container with what the parameter ``content`` asks for."""
    if content == "config":
        if container.is_state:
            raise RequestRefusedError(404, "no configuration here")
        return container.configured()
    if content not in {"all", "nonconfig"}:
        raise RequestRefusedError(400, "content: expected all, config or nonconfig")
    return container


def _selected(container: ModelContainer, target: re.Match[str]) -> tuple[Row, ...]:
    """Return the entries that a path leads to."""
    if target["key"] is None:
        return container.rows
    return tuple(row for row in container.rows if str(row[container.key]) == target["key"])


def _read(
    request: HttpRequest, container: ModelContainer, target: re.Match[str], kind: str
) -> HttpResponse:
    """Return a resource, or only that it has not changed."""
    rows = _selected(container, target)
    if target["key"] is not None and not rows:
        raise RequestRefusedError(404, "no such entry")
    headers = {"etag": _tag(rows), "content-type": kind}
    if request.headers.get("if-none-match") == headers["etag"]:
        return HttpResponse(304, headers={"etag": headers["etag"]})
    if kind == XML:
        body = _xml_text(container, rows, with_container=not target["entry"])
    else:
        name = f"{container.module}:{target['entry'] or container.name}"
        listed: Any = list(rows) if container.entry else dict(rows[0])
        inner = {container.entry: listed} if container.entry else listed
        body = json.dumps({name: listed if target["entry"] else inner}).encode()
    if request.method == "HEAD":
        return HttpResponse(200, b"", headers)
    return HttpResponse(200, body, headers)


def _tag(rows: tuple[Row, ...]) -> str:
    """Return the entity tag of a resource."""
    return f'"{hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]}"'


def _xml_text(container: ModelContainer, rows: tuple[Row, ...], *, with_container: bool) -> bytes:
    """Return a resource as XML; several entries of a list have no element around them."""
    etree = optional_import("lxml.etree", "the emulator's RESTCONF")
    space = container.namespace
    root = etree.Element(f"{{{space}}}{container.name}", nsmap={None: space})
    for row in rows:
        entry = root
        if container.entry:
            entry = etree.SubElement(root, f"{{{space}}}{container.entry}")
        for name, value in row.items():
            etree.SubElement(entry, f"{{{space}}}{name}").text = str(value)
    parts = [root] if with_container else list(root)
    return b"".join(etree.tostring(part) for part in parts)


def _json_rows(body: bytes, container: ModelContainer, is_list: bool) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a JSON body, whose names may lack their prefix."""
    data = _parsed(body)
    wanted = container.entry if is_list else container.name
    if list(data) not in ([wanted], [f"{container.module}:{wanted}"]):
        raise _malformed()
    (content,) = data.values()
    if not is_list:
        names = {container.entry, f"{container.module}:{container.entry}"}
        if not isinstance(content, dict) or content.keys() - names:
            raise _malformed()
        content = next(iter(content.values()), [])
    rows = [content] if isinstance(content, dict) else content
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict) or row.keys() != {"ingress", "egress"}:
            raise _malformed()
        if not all(type(port) is int for port in row.values()):
            raise _malformed()
        yield row["ingress"], row["egress"]


def _xml_rows(body: bytes, container: ModelContainer, is_list: bool) -> Iterator[tuple[int, int]]:
    """Yield the pairs of an XML body: the container, or one entry of its list.

    Public clients send ``<pair>`` without a namespace; the namespace of another module is refused.
    """
    etree = optional_import("lxml.etree", "the emulator's RESTCONF")
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        raise _malformed() from None
    names = {f"{{{container.namespace}}}", ""}

    def is_named(node: Element, name: str) -> bool:
        return isinstance(node.tag, str) and node.tag in {space + name for space in names}

    if not is_named(root, container.entry if is_list else container.name):
        raise _malformed()
    for pair in [root] if is_list else root:
        leaves = {leaf.tag.rpartition("}")[2]: (leaf.text or "").strip() for leaf in pair}
        named = all(any(is_named(leaf, name) for name in ("ingress", "egress")) for leaf in pair)
        if not is_named(pair, container.entry) or not named or len(leaves) != 2:
            raise _malformed()
        yield _port(leaves["ingress"]), _port(leaves["egress"])


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise _malformed() from None
    if not isinstance(data, dict):
        raise _malformed()
    return data


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise RequestRefusedError(400, f"Invalid OXC port: {text[:20]}")
    return int(text)


def _malformed() -> RequestRefusedError:
    return RequestRefusedError(400, "malformed message", "malformed-message")
