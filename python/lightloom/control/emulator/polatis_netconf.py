"""NETCONF of an emulated Polatis switch: the few operations that clients of such switches use.

There is no well-kept library for NETCONF servers in Python, so that the framing of RFC 6242 and
``get``, ``edit-config`` and ``close-session`` of RFC 6241 and ``create-subscription`` of RFC 5277
are here, inside an SSH server. What a notification contains is a choice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import (
    EmulatedSession,
    EmulatedSwitch,
    NoReplyError,
    SessionCutError,
    SessionLimitError,
)
from lightloom.control.emulator.matrix import MatrixRefusalError, Refusal
from lightloom.control.emulator.ssh import SshService

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
EVENTS = "urn:ietf:params:xml:ns:netconf:notification:1.0"
OPTICAL_SWITCH = "http://www.polatis.com/yang/optical-switch"
POLATIS_SWITCH = "http://www.polatis.com/yang/polatis-switch"
CAPABILITIES = (
    "urn:ietf:params:netconf:base:1.0",
    "urn:ietf:params:netconf:base:1.1",
    "urn:ietf:params:netconf:capability:writable-running:1.0",
    "urn:ietf:params:netconf:capability:rollback-on-error:1.0",
    "urn:ietf:params:netconf:capability:notification:1.0",
    OPTICAL_SWITCH,
    POLATIS_SWITCH,
)
MAX_MESSAGE_BYTES = 1024 * 1024
_END = b"]]>]]>"
_CHUNK = re.compile(rb"\n#([1-9][0-9]{0,9})\n|\n##\n")
_READ_BYTES = 64 * 1024
#: longest head of a chunk: a line break, a mark, ten digits and a line break, with room to spare
_MAX_HEAD_BYTES = 16


class RpcError(Exception):
    """A request is refused with an error tag and a text."""

    def __init__(self, tag: str, text: str) -> None:
        super().__init__(text)
        self.tag, self.text = tag, text


class MessageReader:
    """Splits a stream into messages: by end marks, or by chunks once both sides can.

    The time is proportional to the bytes, however they are divided.
    """

    def __init__(self) -> None:
        self.is_chunked = False
        self._data = bytearray()
        self._scanned = 0
        self._message = bytearray()
        #: bytes that the present chunk still lacks
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes and yield the messages that they complete.

        Raises
        ------
        ValueError
            If the framing is wrong or a message too long.
        """
        self._data += data
        while (message := self._chunks() if self.is_chunked else self._marked()) is not None:
            yield message
        if len(self._data) + len(self._message) > MAX_MESSAGE_BYTES:
            raise ValueError("the message is too long")

    def _marked(self) -> bytes | None:
        end = self._data.find(_END, self._scanned)
        if end < 0:
            self._scanned = max(len(self._data) - len(_END) + 1, 0)
            return None
        message = bytes(self._data[:end])
        del self._data[: end + len(_END)]
        self._scanned = 0
        return message

    def _chunks(self) -> bytes | None:
        while True:
            if self._missing:
                taken = self._data[: self._missing]
                self._message += taken
                self._missing -= len(taken)
                del self._data[: len(taken)]
                if self._missing:
                    return None
            match = _CHUNK.match(self._data)
            if match is None:
                if len(self._data) > _MAX_HEAD_BYTES or not b"\n#".startswith(self._data[:2]):
                    raise ValueError("wrong framing")
                return None
            size = int(match[1] or 0)
            del self._data[: match.end()]
            if not size:
                message, self._message = bytes(self._message), bytearray()
                return message
            self._missing = size
            if len(self._message) + self._missing > MAX_MESSAGE_BYTES:
                raise ValueError("the chunk is too long")


def netconf_service(switch: EmulatedSwitch) -> SshService:
    """Return the service of NETCONF."""
    server = NetconfServer(switch)

    async def handle(process: Any) -> int:
        connection = process.channel.get_connection()
        session = EmulatedSession(connection.abort)
        try:
            switch.admit(session)
            await server.serve(process, session)
        except (SessionLimitError, SessionCutError, ValueError, TimeoutError):
            connection.abort()
        except NoReplyError:
            await asyncio.Event().wait()
        finally:
            switch.dismiss(session)
        return 0

    return SshService(switch, handle, subsystem="netconf")


class NetconfServer:
    """Serves sessions of one switch."""

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._etree = optional_import("lxml.etree", "the emulator's NETCONF")
        self._switch = switch

    async def serve(self, process: Any, session: EmulatedSession) -> None:
        """Serve one session until the client closes it."""
        capabilities = "".join(f"<capability>{name}</capability>" for name in CAPABILITIES)
        process.stdout.write(
            f'<hello xmlns="{BASE}"><capabilities>{capabilities}</capabilities>'
            "<session-id>1</session-id></hello>".encode()
            + _END
        )
        reader = MessageReader()
        limit_s = self._switch.idle_close_s or None
        while data := await asyncio.wait_for(process.stdin.read(_READ_BYTES), limit_s):
            for message in reader.feed(data):
                root = self._parsed(message)
                if _local(root) == "hello":
                    reader.is_chunked = b"netconf:base:1.1" in message
                elif not await self._reply(process, root, is_chunked=reader.is_chunked):
                    return
                elif any(_local(node) == "create-subscription" for node in root):
                    session.send_report = _notifier(process, is_chunked=reader.is_chunked)

    def _parsed(self, message: bytes) -> Any:
        """Return a message's element; entities are not resolved."""
        parser = self._etree.XMLParser(resolve_entities=False, no_network=True)
        try:
            return self._etree.fromstring(message.strip(), parser)
        except self._etree.XMLSyntaxError as error:
            raise ValueError("not XML") from error

    async def _reply(self, process: Any, rpc: Any, *, is_chunked: bool) -> bool:
        """Execute one request and send its reply; return whether the session continues."""
        operation = next(iter(rpc), None)
        name = "" if operation is None else _local(operation)

        async def run() -> str:
            try:
                return await self._execute(name, operation)
            except RpcError as error:
                return _error(error.tag, error.text)
            except MatrixRefusalError as error:
                is_port = error.reason in {Refusal.NO_SUCH_PORT, Refusal.WRONG_SIDE}
                text = f"Invalid OXC port: {error.port}" if is_port else str(error)
                return _error("invalid-value" if is_port else "in-use", text)

        async def deny() -> str:
            return _error("resource-denied", "Refused on demand")

        body, in_pieces = await self._switch.execute(run, deny, is_change=name == "edit-config")
        tag = escape(rpc.get("message-id", ""), {'"': "&quot;"})
        reply = f'<rpc-reply xmlns="{BASE}" message-id="{tag}">{body}</rpc-reply>'.encode()
        framed = _framed(reply, is_chunked=is_chunked)
        size = 1 if in_pieces else len(framed)
        for start in range(0, len(framed), size):
            process.stdout.write(framed[start : start + size])
        await process.stdout.drain()
        return name != "close-session"

    async def _execute(self, name: str, operation: Any) -> str:
        if name == "get":
            return f"<data>{self._data(operation)}</data>"
        if name == "edit-config":
            await self._edit(operation)
            return "<ok/>"
        if name in {"close-session", "create-subscription"}:
            return "<ok/>"
        raise RpcError("operation-not-supported", f"no operation {name[:40]}")

    async def _edit(self, operation: Any) -> None:
        """Delete and merge pairs."""
        deletes, creates = [], []
        circuits = self._switch.matrix.circuits
        for pair in (node for node in operation.iter() if _local(node) == "pair"):
            ingress = _number(pair, "ingress")
            action = pair.get(f"{{{BASE}}}operation", "merge")
            if action in {"delete", "remove"}:
                if action == "delete" and ingress not in circuits:
                    raise RpcError("data-missing", f"port {ingress} has no cross-connect")
                deletes.append(ingress)
            elif action in {"merge", "create", "replace"}:
                creates.append((ingress, _number(pair, "egress")))
            else:
                raise RpcError("bad-attribute", f"operation {action[:40]}")
        await self._switch.change(deletes, creates)

    def _data(self, operation: Any) -> str:
        """Return what the filter of a request selects."""
        wanted = {_local(node) for node in operation.iter()}
        parts = []
        matrix, identity = self._switch.matrix, self._switch.identity
        if "cross-connects" in wanted:
            pairs = (
                f"<pair><ingress>{a}</ingress><egress>{b}</egress></pair>"
                for a, b in matrix.circuits.items()
            )
            parts.append(_container("cross-connects", OPTICAL_SWITCH, "".join(pairs)))
        if "product-information" in wanted:
            rows, columns = matrix.size
            leaves = {
                "manufacturer": identity.vendor,
                "serial-number": identity.serial,
                "model-name": f"{identity.model}-{rows}x{columns}",
                "software-version": identity.software,
            }
            text = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in leaves.items())
            parts.append(_container("product-information", POLATIS_SWITCH, text))
        if "port-config" in wanted:
            entries = (
                f"<port><port-id>{port}</port-id><status>"
                f"{'DISABLED' if port in matrix.disabled else 'ENABLED'}</status></port>"
                for port in matrix.ports
            )
            parts.append(_container("port-config", POLATIS_SWITCH, "".join(entries)))
        if "opm-power" in wanted:
            entries = (
                f"<port><port-id>{port}</port-id><power>{matrix.power_dbm(port):.2f}</power></port>"
                for port in sorted(self._switch.monitored_ports)
            )
            parts.append(_container("opm-power", POLATIS_SWITCH, "".join(entries)))
        return "".join(parts)


def _framed(message: bytes, *, is_chunked: bool) -> bytes:
    return b"\n#%d\n%b\n##\n" % (len(message), message) if is_chunked else message + _END


def _notifier(process: Any, *, is_chunked: bool) -> Callable[[str], None]:
    """Return what sends a report to a session as a notification."""

    def notify(text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        event = _container("event", POLATIS_SWITCH, f"<text>{escape(text)}</text>")
        message = (
            f'<notification xmlns="{EVENTS}"><eventTime>{now}</eventTime>{event}</notification>'
        )
        process.stdout.write(_framed(message.encode(), is_chunked=is_chunked))

    return notify


def _container(name: str, namespace: str, content: str) -> str:
    return f'<{name} xmlns="{namespace}">{content}</{name}>'


def _error(tag: str, text: str) -> str:
    return (
        "<rpc-error><error-type>application</error-type>"
        f"<error-tag>{tag}</error-tag><error-severity>error</error-severity>"
        f"<error-message>{escape(text)}</error-message></rpc-error>"
    )


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _number(element: Any, name: str) -> int:
    text = next((node.text or "" for node in element if _local(node) == name), "").strip()
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise RpcError("invalid-value", f"Invalid OXC port: {text[:20]}")
    return int(text)
