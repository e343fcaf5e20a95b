"""gNMI of an emulated SONiC switch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import (
    EmulatedSwitch,
    NoReplyError,
    SessionCutError,
)
from lightloom.control.emulator.matrix import MatrixRefusalError
from lightloom.control.emulator.sonic import SonicRefusedError, SonicTables
from lightloom.control.emulator.tls import Identity

_CONFIG = ("sonic-ocs:sonic-ocs", "OCS_CROSS_CONNECT")
_LIST = "OCS_CROSS_CONNECT_LIST"
#: how often subscribed tables are looked at
_LOOK_S = 0.02


class SonicGnmiService:
    """Serves ``Get``, ``Set``, ``Subscribe`` (on change) and ``Capabilities``.

    Parameters
    ----------
    switch
        Whose users and faults apply.
    tables
        What is read and changed.
    tls
        Key and certificate, for TLS.
    """

    def __init__(
        self, switch: EmulatedSwitch, tables: SonicTables, tls: Identity | None = None
    ) -> None:
        self._switch = switch
        self._tables = tables
        self._tls = tls
        self._grpc = optional_import("grpc", "the emulator's gNMI")
        self._messages = optional_import("pygnmi.spec.v080.gnmi_pb2", "the emulator's gNMI")
        self._services = optional_import("pygnmi.spec.v080.gnmi_pb2_grpc", "the emulator's gNMI")
        self._server: Any = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        self._server = self._grpc.aio.server()
        self._services.add_gNMIServicer_to_server(self, self._server)
        address = f"{host}:{port}"
        if self._tls is None:
            bound = self._server.add_insecure_port(address)
        else:
            credentials = self._grpc.ssl_server_credentials(
                [(self._tls.key, self._tls.certificate)]
            )
            bound = self._server.add_secure_port(address, credentials)
        await self._server.start()
        return int(bound)

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is not None:
            await self._server.stop(None)

    async def Capabilities(self, _: Any, context: Any) -> Any:  # noqa: N802
        """Return the models and encodings."""
        await self._admit(context)
        model = self._messages.ModelData(name="sonic-ocs", organization="SONiC", version="0.5")
        encoding = self._messages.Encoding.Value("JSON_IETF")
        return self._messages.CapabilityResponse(
            supported_models=[model], supported_encodings=[encoding], gNMI_version="0.8.0"
        )

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the tables below paths."""
        await self._admit(context)

        async def run() -> Any:
            notification = self._messages.Notification()
            for path in request.path:
                names = [element.name for element in path.elem]
                value = json.dumps(self._table(names)).encode()
                typed = self._messages.TypedValue(json_ietf_val=value)
                notification.update.append(self._messages.Update(path=path, val=typed))
            return self._messages.GetResponse(notification=[notification])

        return await self._execute(run, context, is_change=False)

    async def Set(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Delete and create cross-connects; all of them, or none."""
        await self._admit(context)

        async def run() -> Any:
            deletes = self._pairs([self._name(path) for path in request.delete])
            created = [*request.replace, *request.update]
            creates = self._pairs([self._name(update.path) for update in created])
            await self._tables.change(deletes, creates)
            results = [self._messages.UpdateResult(path=path, op=1) for path in request.delete]
            results += [self._messages.UpdateResult(path=path.path, op=3) for path in created]
            return self._messages.SetResponse(response=results)

        return await self._execute(run, context, is_change=True)

    async def Subscribe(self, requests: Any, context: Any) -> Any:  # noqa: N802
        """Send the tables below paths, then each of them again whenever it has changed."""
        await self._admit(context)
        request = await anext(requests)
        sent: dict[str, bytes] = {}
        while True:
            is_first, notification = not sent, self._messages.Notification()
            for item in request.subscribe.subscription:
                names = [element.name for element in item.path.elem]
                try:
                    value = json.dumps(self._table(names)).encode()
                except KeyError:
                    await context.abort(self._grpc.StatusCode.NOT_FOUND, "no such path")
                if sent.get("/".join(names)) == value:
                    continue
                typed = self._messages.TypedValue(json_ietf_val=value)
                notification.update.append(self._messages.Update(path=item.path, val=typed))
                sent["/".join(names)] = value
            if notification.update:
                yield self._messages.SubscribeResponse(update=notification)
                if is_first:
                    yield self._messages.SubscribeResponse(sync_response=True)
            await asyncio.sleep(_LOOK_S)

    async def _admit(self, context: Any) -> None:
        """Refuse the call of who is no user, and every call while the switch starts."""
        metadata = dict(context.invocation_metadata() or ())
        if not self._switch.is_up:
            await context.abort(self._grpc.StatusCode.UNAVAILABLE, "starting")
        if not self._switch.is_user(metadata.get("username", ""), metadata.get("password", "")):
            await context.abort(self._grpc.StatusCode.UNAUTHENTICATED, "unknown user")

    async def _execute(self, run: Any, context: Any, *, is_change: bool) -> Any:
        async def deny() -> Any:
            raise SonicRefusedError("refused on demand")

        codes = self._grpc.StatusCode
        try:
            reply, _ = await self._switch.execute(run, deny, is_change=is_change)
        except NoReplyError:
            await asyncio.Event().wait()
        except SessionCutError:
            await context.abort(codes.UNAVAILABLE, "connection cut")
        except (SonicRefusedError, MatrixRefusalError) as error:
            await context.abort(codes.FAILED_PRECONDITION, str(error))
        except KeyError:
            await context.abort(codes.NOT_FOUND, "no such path")
        return reply

    def _table(self, names: Sequence[str]) -> dict[str, list[dict[str, str]]]:
        """Return the table below a path; raise KeyError if there is none."""
        tables = {
            "sonic-ocs:sonic-ocs/OCS_CROSS_CONNECT": (
                "sonic-ocs:OCS_CROSS_CONNECT_LIST",
                "cross_connect_id",
                self._tables.config_rows,
            ),
            "sonic-ocs-states:sonic-ocs-states/OCS_CROSS_CONNECT": (
                "sonic-ocs-states:OCS_CROSS_CONNECT_LIST",
                "cross_connect_id",
                self._tables.status_rows,
            ),
            "sonic-ocs-states:sonic-ocs-states/OCS_PORT": (
                "sonic-ocs-states:OCS_PORT_LIST",
                "simplex_port_id",
                self._tables.port_rows,
            ),
        }
        name, key, rows = tables["/".join(names)]
        return {name: [{key: row["id"], **_without_id(row)} for row in rows()]}

    def _name(self, path: Any) -> str:
        """Return the name of the cross-connect that a path leads to."""
        elements = list(path.elem)
        names = tuple(element.name for element in elements)
        if names != (*_CONFIG, _LIST):
            raise KeyError(names)
        return str(elements[-1].key["cross_connect_id"])

    def _pairs(self, names: Sequence[str]) -> list[tuple[int, int]]:
        return self._tables.parse_pairs(",".join(names)) if names else []


def _without_id(row: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in row.items() if key != "id"}
