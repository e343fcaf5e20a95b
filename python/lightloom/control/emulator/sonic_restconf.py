"""RESTCONF of an emulated SONiC switch: its tables, and the operation ``bulk-update``.

Paths, bodies and what ``bulk-update`` does with busy ports are those of the guide for developers of
SONiC on circuit switches: all deletes come before all additions, in one transaction, and what is
read is wrapped in the last name of its path. Components are those of ``openconfig-platform``.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from lightloom.control.emulator.device import EmulatedSwitch
from lightloom.control.emulator.http import HttpApplication, HttpRequest, HttpResponse
from lightloom.control.emulator.matrix import MatrixRefusalError
from lightloom.control.emulator.sonic import SonicRefusedError, SonicTables
from lightloom.control.emulator.sonic_platform import platform_of
from lightloom.control.emulator.sonic_tree import MODULES, PathStep, SonicPathError, SonicTree

MEDIA_TYPE = "application/yang-data+json"
_DATA, _BULK = "/restconf/data/", f"/restconf/operations/{MODULES[0]}:bulk-update"
_TYPES = {MEDIA_TYPE, "application/json"}
_STEP = re.compile(r"([A-Za-z_:-]{1,60})(?:=([A-Za-z0-9%-]{1,40}))?")
_KEYS = {
    "OCS_CROSS_CONNECT_LIST": "cross_connect_id",
    "OCS_PORT_LIST": "simplex_port_id",
    "component": "name",
}


class SonicRestconfApplication(HttpApplication):
    """Handles the requests of one switch."""

    def __init__(self, switch: EmulatedSwitch, tables: SonicTables) -> None:
        self._switch = switch
        self._tables, self._tree = tables, SonicTree(tables, lambda: platform_of(switch))

    def is_change(self, request: HttpRequest) -> bool:
        """Whether a request creates or deletes circuits."""
        return request.method not in {"GET", "HEAD"}

    def refuse(self, status: int, text: str) -> HttpResponse:
        """Return the response that refuses a request."""
        error = {
            "error-type": "application",
            "error-tag": "access-denied" if status == 401 else "invalid-value",
            "error-message": text,
        }
        return _response(status, {"ietf-restconf:errors": {"error": [error]}})

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request of a user who is logged in."""
        try:
            if request.method not in {"GET", "DELETE"}:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind not in _TYPES:
                    return self.refuse(415, f"expected {MEDIA_TYPE}")
            if request.path == _BULK:
                return await self._update_in_bulk(request)
            return await self._handle_data(request)
        except KeyError:
            return self.refuse(404, "resource not found")
        except SonicPathError as error:
            return self.refuse(400, str(error))
        except (SonicRefusedError, MatrixRefusalError) as error:
            return self.refuse(409, str(error))

    async def _handle_data(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(_DATA):
            raise KeyError(request.path)
        steps = [_step(part) for part in request.path.removeprefix(_DATA).split("/")]
        if request.method == "GET":
            return _response(200, self._read(steps))
        if request.method == "DELETE":
            self._tree.read(steps)
            await self._tables.change(self._tree.below(steps), [])
            return HttpResponse(204)
        pairs = self._tree.given(steps, _parsed(request.body))
        if request.method == "PUT":
            gone = [pair for pair in self._tree.below(steps) if pair not in pairs]
            await self._tables.update_in_bulk(gone, pairs)
            return HttpResponse(204)
        if request.method in {"PATCH", "POST"}:
            await self._tables.update_in_bulk([], pairs)
            return HttpResponse(201 if request.method == "POST" else 204)
        return self.refuse(405, "method not allowed")

    def _read(self, steps: list[PathStep]) -> Any:
        """Return what is below a path; a table is wrapped in its name, too."""
        value = self._tree.read(steps)
        if len(steps) != 2 or not steps[1].name.startswith("OCS_"):
            return value
        ((name, rows),) = value.items()
        module, _, name = name.partition(":")
        return {f"{module}:{steps[1].name}": {name: rows}}

    async def _update_in_bulk(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return self.refuse(405, "operations are posted")
        data = _parsed(request.body)
        if not isinstance(data, dict) or list(data) != [f"{MODULES[0]}:input"]:
            raise SonicPathError(f"expected {MODULES[0]}:input")
        changes = data[f"{MODULES[0]}:input"]
        if not isinstance(changes, dict) or changes.keys() - {"delete", "add"}:
            raise SonicPathError("expected delete and add")
        deletes = self._tree.named(changes.get("delete", []))
        adds = self._tree.pairs_of(changes.get("add", []))
        num_deleted, num_added = await self._tables.update_in_bulk(deletes, adds)
        counts = {"deleted_count": num_deleted, "added_count": num_added}
        return _response(200, {f"{MODULES[0]}:output": counts})


def _step(part: str) -> PathStep:
    match = _STEP.fullmatch(part)
    if match is None:
        raise KeyError(part)
    if match[2] is None:
        return PathStep(match[1], {})
    return PathStep(match[1], {_KEYS[match[1].rpartition(":")[2]]: unquote(match[2])})


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise SonicPathError("the body is not JSON") from None


def _response(status: int, content: object) -> HttpResponse:
    return HttpResponse(status, json.dumps(content).encode(), {"content-type": MEDIA_TYPE})
