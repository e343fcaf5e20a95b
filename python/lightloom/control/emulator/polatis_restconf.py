"""RESTCONF (RFC 8040) of an emulated Polatis switch, with JSON.

Paths and bodies are those that public clients and the vendor's web interface use. Status codes and
error bodies are those of RFC 8040.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from lightloom.control.emulator.device import EmulatedSwitch
from lightloom.control.emulator.http import HttpApplication, HttpRequest, HttpResponse
from lightloom.control.emulator.matrix import MatrixRefusalError, Refusal

MEDIA_TYPE = "application/yang-data+json"
_ROOT = "/api/data/"
_CIRCUITS = re.compile(
    r"(?:optical-switch:)?cross-connects"
    r"(?P<pair>/(?:optical-switch:)?pair(?:=(?P<ingress>\d{1,6}))?)?"
)
_TAGS = {400: "invalid-value", 401: "access-denied", 404: "invalid-value", 409: "in-use"}


class RequestRefusedError(Exception):
    """A request is refused with a status code and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class PolatisRestconfApplication(HttpApplication):
    """Handles the requests of one switch."""

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self._resources: dict[str, Callable[[], Any]] = {
            "product-information": self._product,
            "port-config/port": self._port_config,
            "opm-power/port": self._powers,
            "shutter-status/port": self._shutters,
        }

    def is_change(self, request: HttpRequest) -> bool:
        """Whether a request creates or deletes circuits."""
        return request.method not in {"GET", "HEAD"}

    def refuse(self, status: int, text: str) -> HttpResponse:
        """Return the response that refuses a request."""
        error = {
            "error-type": "application",
            "error-tag": _TAGS.get(status, "operation-failed"),
            "error-message": text,
        }
        return _response(status, {"ietf-restconf:errors": {"error": [error]}})

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request of a user who is logged in."""
        path = request.path.partition("?")[0]
        try:
            if not path.startswith(_ROOT):
                raise RequestRefusedError(404, "unknown resource")
            path = path.removeprefix(_ROOT)
            circuits = _CIRCUITS.fullmatch(path)
            if circuits is not None:
                return await self._handle_circuits(request, circuits)
            if path not in self._resources or request.method != "GET":
                raise RequestRefusedError(404, "unknown resource")
            return _with_tag(request, self._resources[path]())
        except RequestRefusedError as error:
            return self.refuse(error.status, error.text)
        except MatrixRefusalError as error:
            status = 400 if error.reason in {Refusal.NO_SUCH_PORT, Refusal.WRONG_SIDE} else 409
            text = f"Invalid OXC port: {error.port}" if status == 400 else str(error)
            return self.refuse(status, text)

    async def _handle_circuits(self, request: HttpRequest, target: re.Match[str]) -> HttpResponse:
        ingress = None if target["ingress"] is None else int(target["ingress"])
        pairs = self._switch.matrix.circuits
        if ingress is not None:
            pairs = {port: pairs[port] for port in (ingress,) if port in pairs}
            if not pairs and request.method in {"GET", "DELETE"}:
                raise RequestRefusedError(404, "no such cross-connect")
        key = "optical-switch:pair" if target["pair"] else "optical-switch:cross-connects"
        listed = [{"ingress": a, "egress": b} for a, b in pairs.items()]
        current = {key: listed if target["pair"] else {"pair": listed}}
        if request.method == "GET":
            return _with_tag(request, current)
        wanted_tag = request.headers.get("if-match", "*")
        if wanted_tag not in {"*", _tag(current)}:
            raise RequestRefusedError(412, "the resource has changed")
        if request.method == "DELETE":
            await self._switch.change(list(pairs), [])
            return HttpResponse(204)
        pairs_given = _pairs_of(request.body)
        if request.method == "PUT":
            is_new = ingress is not None and not pairs
            replaced = [port for port in pairs if port not in dict(pairs_given)]
            await self._switch.change(replaced, pairs_given)
            return HttpResponse(201 if is_new else 204)
        if request.method in {"PATCH", "POST"}:
            taken = [a for a, _ in pairs_given if a in self._switch.matrix.circuits]
            if request.method == "POST" and taken:
                raise RequestRefusedError(409, f"cross-connect of port {taken[0]} exists")
            await self._switch.change([], pairs_given)
            return HttpResponse(201 if request.method == "POST" else 204)
        raise RequestRefusedError(405, "method not allowed")

    def _product(self) -> Any:
        identity, (rows, columns) = self._switch.identity, self._switch.matrix.size
        return {
            "polatis-switch:product-information": {
                "manufacturer": identity.vendor,
                "serial-number": identity.serial,
                "model-name": f"{identity.model}-{rows}x{columns}",
                "software-version": identity.software,
            }
        }

    def _port_config(self) -> Any:
        switch = self._switch
        return {
            "polatis-switch:port": [
                {
                    "port-id": port,
                    "status": "DISABLED" if port in switch.matrix.disabled else "ENABLED",
                    "label": switch.labels.get(port, ""),
                    "peer-port": switch.matrix.peer_of(port) or 0,
                }
                for port in switch.matrix.ports
            ]
        }

    def _powers(self) -> Any:
        return {
            "polatis-switch:port": [
                {"port-id": port, "power": f"{self._switch.matrix.power_dbm(port):.2f}"}
                for port in sorted(self._switch.monitored_ports)
            ]
        }

    def _shutters(self) -> Any:
        closed = self._switch.matrix.disabled
        return {
            "polatis-switch:port": [
                {"port-id": port, "status": "CLOSED" if port in closed else "OPEN"}
                for port in self._switch.matrix.ports
            ]
        }


def _pairs_of(body: bytes) -> list[tuple[int, int]]:
    """Return the pairs of a body: a list below ``pair``, with or without prefixes."""
    try:
        data = json.loads(body)
        while isinstance(data, dict) and "ingress" not in data:
            (data,) = data.values()
        rows = data if isinstance(data, list) else [data]
        pairs = [(row["ingress"], row["egress"]) for row in rows]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RequestRefusedError(400, "malformed message") from None
    if not all(type(port) is int for pair in pairs for port in pair):
        raise RequestRefusedError(400, "malformed message")
    return pairs


def _tag(content: Any) -> str:
    """Return the entity tag of a resource."""
    return f'"{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]}"'


def _with_tag(request: HttpRequest, content: Any) -> HttpResponse:
    """Return a resource, or only that it has not changed."""
    tag = _tag(content)
    if request.headers.get("if-none-match") == tag:
        return HttpResponse(304, headers={"etag": tag})
    return _response(200, content, {"etag": tag})


def _response(status: int, content: Any, headers: dict[str, str] | None = None) -> HttpResponse:
    body = json.dumps(content).encode()
    return HttpResponse(status, body, {"content-type": MEDIA_TYPE, **(headers or {})})
