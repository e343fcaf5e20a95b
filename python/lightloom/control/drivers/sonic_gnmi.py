"""SONiC switches by gNMI, with or without TLS.

A change is one ``Set`` of deletes and updates below ``/sonic-ocs:sonic-ocs/OCS_CROSS_CONNECT``,
which gNMI defines to be one transaction. Reading back compares it with what the hardware reports,
in the model that the switch has. gNMI executes deletes before updates, so that a port
is free before it is used; circuits of other names on the ports of a new one are deleted by name.

The messages are those that pygnmi ships. Its client is not used: it has no deadline for a call, so
that a cut connection would never be noticed, and without a file of certificates it trusts whichever
one the switch presents.

All requests name the target ``OC-YANG``, as those of SONiC's examples do: its server refuses
subscriptions that name neither a target nor the origin ``openconfig``. A subscription only says
when to read; what is sent has several forms.

Model, serial, software, power supplies and fans are those of ``openconfig-platform``, where the
switch has it.

Never met real hardware: everything here. Paths and leaves are those of the design document of SONiC
for optical circuit switches, revision 0.5, and of its guide for developers. Unknown: the port of
the service (8080 is taken from SONiC's packet switches), whether the hardware reports before a
``Set`` returns, how a refusal looks, and whether the tables can be subscribed to on change. Where
they cannot, :meth:`SonicGnmi.watch` compares readings of a second connection, ``poll_s`` apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from lightloom.control.drivers.changes import ChangeCommand
from lightloom.control.drivers.options import DriverSettings, SwitchAddress, optional_import
from lightloom.control.drivers.polling import changes_between
from lightloom.control.drivers.sonic import CONFIG, KEY, LIST, displaced_by, entry_of, name_of
from lightloom.control.drivers.sonic_driver import SonicTreeDriver
from lightloom.control.switch import (
    CrossConnect,
    InvalidTargetError,
    LoginRefusedError,
    SwitchBusyError,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchError,
    SwitchEvent,
    SwitchProtocolError,
    SwitchTimeoutError,
    SwitchUnreachableError,
    UnsupportedCommandError,
)

TCP_PORT = 8080
#: of SONiC's examples of gNMI, for whatever a YANG module describes
TARGET = "OC-YANG"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_DENIALS = {
    "INVALID_ARGUMENT": InvalidTargetError,
    "NOT_FOUND": InvalidTargetError,
    "ALREADY_EXISTS": SwitchBusyError,
    "FAILED_PRECONDITION": SwitchBusyError,
    "ABORTED": SwitchBusyError,
    "UNIMPLEMENTED": UnsupportedCommandError,
}
_OPTIONS = [
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
]


class SonicGnmi(SonicTreeDriver):
    """Driver of one SONiC switch by gNMI.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, and the certificates that are trusted.
    is_encrypted
        Whether to use TLS.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._grpc = optional_import("grpc", "gNMI")
        self._messages = optional_import("pygnmi.spec.v080.gnmi_pb2", "gNMI")
        self._services = optional_import("pygnmi.spec.v080.gnmi_pb2_grpc", "gNMI")
        self._channel: Any = None
        self._stub: Any = None

    async def _open(self) -> SwitchDescription:
        try:
            return await super()._open()
        except SwitchDisconnectedError as error:
            raise SwitchUnreachableError(f"switch {self._address}: {error}") from None

    async def _dial(self) -> None:
        target = str(self._address)
        options = list(_OPTIONS)
        if self._settings.keepalive_s:
            options.append(("grpc.keepalive_time_ms", int(self._settings.keepalive_s * 1000)))
        if self._is_encrypted:
            credentials = self._grpc.ssl_channel_credentials(self._certificates())
            self._channel = self._grpc.aio.secure_channel(target, credentials, options)
        else:
            self._channel = self._grpc.aio.insecure_channel(target, options)
        self._stub = self._services.gNMIStub(self._channel)

    def _is_open(self) -> bool:
        return self._stub is not None

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        return [ChangeCommand(lambda: self._set(change), change.deletes, change.creates)]

    async def watch(self) -> AsyncGenerator[SwitchEvent, None]:
        """Yield what the switch reports of ports and circuits, until the driver is closed."""
        self._connected()
        try:
            async with contextlib.aclosing(self._subscribed()) as events:
                async for event in events:
                    yield event
            return
        except UnsupportedCommandError:
            readings = super().watch()
        async with contextlib.aclosing(readings) as events:
            async for event in events:
                yield event

    async def _subscribed(self) -> AsyncGenerator[SwitchEvent, None]:
        """Subscribe to the tables, and read them by another connection whenever one has changed.

        SONiC sends leaves, other servers whole tables, and both say that something has changed.
        """
        messages = self._messages
        on_change = messages.SubscriptionMode.Value("ON_CHANGE")
        paths = [self._path(names) for names in (self._model.reported, self._model.ports)]
        subscriptions = messages.SubscriptionList(
            prefix=self._prefix(),
            subscription=[messages.Subscription(path=path, mode=on_change) for path in paths],
            mode=messages.SubscriptionList.Mode.Value("STREAM"),
            encoding=messages.Encoding.Value("JSON_IETF"),
        )
        requests = iter([messages.SubscribeRequest(subscribe=subscriptions)])
        other = self._another()
        call = self._stub.Subscribe(requests, metadata=self._metadata())
        changed = asyncio.Event()
        listener = asyncio.create_task(_listen(call, changed))
        listener.add_done_callback(lambda _: changed.set())
        try:
            await other.connect()
            before = await other.read_back()
            while await changed.wait() and not listener.done():
                changed.clear()
                now = await other.read_back()
                for event in changes_between(before, now):
                    yield event
                before = now
            if self._stub is not None:
                await listener
        except self._grpc.aio.AioRpcError as failure:
            raise self._error("Subscribe", failure) from None
        finally:
            call.cancel()
            await asyncio.gather(listener, return_exceptions=True)
            await other.close()

    def _metadata(self) -> list[tuple[str, str]] | None:
        credentials = self._address.credentials
        if not credentials.user:
            return None
        return [("username", credentials.user), ("password", credentials.password)]

    async def close(self) -> None:
        """Close the connection."""
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def _set(self, change: SwitchChange) -> None:
        deletes = list(change.deletes)
        if self._settings.moves and change.creates:
            present = (await self.read_back(ports=False)).cross_connects
            deletes += displaced_by(change, present)
        messages = self._messages
        updates = []
        for pair in change.creates:
            value = messages.TypedValue(json_ietf_val=json.dumps(entry_of(pair)).encode())
            updates.append(messages.Update(path=self._entry(pair), val=value))
        removed = [self._entry(pair) for pair in deletes]
        request = messages.SetRequest(prefix=self._prefix(), delete=removed, update=updates)
        await self._call("Set", request)

    def _prefix(self) -> Any:
        """Return the prefix of all requests: SONiC asks for its target."""
        return self._messages.Path(target=TARGET)

    def _path(self, names: Sequence[str]) -> Any:
        elements = [self._messages.PathElem(name=name) for name in names]
        return self._messages.Path(elem=elements)

    def _entry(self, connect: CrossConnect) -> Any:
        path = self._path(CONFIG)
        path.elem.append(self._messages.PathElem(name=LIST, key={KEY: name_of(connect)}))
        return path

    async def _values(self, names: Sequence[str]) -> list[bytes]:
        request = self._messages.GetRequest(
            prefix=self._prefix(),
            path=[self._path(names)],
            encoding=self._messages.Encoding.Value("JSON_IETF"),
        )
        response = await self._call("Get", request)
        return [
            bytes(update.val.json_ietf_val or update.val.json_val)
            for notification in response.notification
            for update in notification.update
        ]

    async def _call(self, method: str, request: Any) -> Any:
        """Call a method with a deadline."""
        if self._stub is None:
            raise self._not_connected()
        try:
            return await getattr(self._stub, method)(
                request,
                timeout=self._settings.reply_timeout_s,
                metadata=self._metadata(),
            )
        except self._grpc.aio.AioRpcError as failure:
            error = self._error(method, failure)
        except BaseException:
            await self.close()
            raise
        if error.state_unknown:
            await self.close()
        raise error

    def _error(self, method: str, failure: Any) -> SwitchError:
        """Return the error that a status stands for."""
        code = failure.code().name
        text = " ".join(str(failure.details() or "").split())[:200]
        if code == "DEADLINE_EXCEEDED":
            limit_s = self._settings.reply_timeout_s
            return SwitchTimeoutError(f"{method}: no reply within {limit_s:g} s")
        if code in {"UNAVAILABLE", "CANCELLED"}:
            return SwitchDisconnectedError(f"{text}; check address, port and TLS")
        if code == "RESOURCE_EXHAUSTED":
            return SwitchProtocolError(f"{method}: {text}")
        if code in {"UNAUTHENTICATED", "PERMISSION_DENIED"}:
            return LoginRefusedError(f"switch {self._address}: login refused")
        return _DENIALS.get(code, SwitchDeniedError)(code, text, method)

    def _certificates(self) -> bytes | None:
        if not self._settings.ca_file:
            return None
        try:
            return Path(self._settings.ca_file).read_bytes()
        except OSError as error:
            raise SwitchUnreachableError(
                f"certificates {self._settings.ca_file}: {error.strerror}"
            ) from None


async def _listen(call: Any, changed: asyncio.Event) -> None:
    """Set an event at every response of a stream."""
    async for _ in call:
        changed.set()
