"""NETCONF of an emulated Polatis switch, as strict as its published models and RFC 6241.

There is no well-kept library for NETCONF servers in Python, so that the framing of RFC 6242, the
operations of RFC 6241 that every server has, and ``create-subscription`` of RFC 5277 are here,
inside an SSH server. Neither a candidate nor a startup configuration is advertised, and both are
refused, as are XPath filters.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import (
    EmulatedSession,
    EmulatedSwitch,
    NoReplyError,
)
from lightloom.control.emulator.matrix import MatrixRefusalError, Refusal
from lightloom.control.emulator.polatis_edit import BASE, RpcError, edit_of
from lightloom.control.emulator.polatis_model import (
    MODULES,
    OPTICAL_SWITCH,
    POLATIS_SWITCH,
    ModelContainer,
    PolatisModel,
    Row,
)
from lightloom.control.emulator.ssh import SshService
from lightloom.control.emulator.subtree import elements, local, namespace, select, text

EVENTS = "urn:ietf:params:xml:ns:netconf:notification:1.0"
_BASE_1_0 = "urn:ietf:params:netconf:base:1.0"
_BASE_1_1 = "urn:ietf:params:netconf:base:1.1"
_CAPABILITY = "urn:ietf:params:netconf:capability"
_PROTOCOLS = (
    _BASE_1_0,
    _BASE_1_1,
    f"{_CAPABILITY}:writable-running:1.0",
    f"{_CAPABILITY}:rollback-on-error:1.0",
    f"{_CAPABILITY}:notification:1.0",
)
MAX_MESSAGE_BYTES = 1024 * 1024
_END = b"]]>]]>"
_CHUNK = re.compile(rb"\n#([1-9][0-9]{0,9})\n|\n##\n")
_READ_BYTES = 64 * 1024
#: longest head of a chunk: a line break, a mark, ten digits and a line break, with room to spare
_MAX_HEAD_BYTES = 16


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
        session = EmulatedSession(process.channel.get_connection().abort)
        with switch.admitted(session):
            try:
                await server.serve(process, session)
            except NoReplyError:
                await asyncio.Event().wait()
        return 0

    return SshService(switch, handle, subsystem="netconf")


@dataclass(slots=True)
class _NetconfSession:
    """One session: its number, its channel, and what has been agreed on."""

    number: int
    process: Any
    emulated: EmulatedSession
    reader: MessageReader
    is_greeted: bool = False
    is_closed: bool = False

    def send(self, message: str, *, in_pieces: bool = False) -> None:
        """Send a message in the framing that both sides can."""
        data = message.encode()
        if self.reader.is_chunked:
            data = b"\n#%d\n%b\n##\n" % (len(data), data)
        else:
            data += _END
        size = 1 if in_pieces else len(data)
        for start in range(0, len(data), size):
            self.process.stdout.write(data[start : start + size])


class NetconfServer:
    """Serves sessions of one switch."""

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._etree = optional_import("lxml.etree", "the emulator's NETCONF")
        self._switch = switch
        self._model = PolatisModel(switch)
        self._numbers = itertools.count(1)
        self._sessions: dict[int, _NetconfSession] = {}
        self._operations: dict[str, Callable[[Element, _NetconfSession], Awaitable[str]]] = {
            "get": self._get,
            "get-config": self._get_config,
            "edit-config": self._edit_config,
            "copy-config": self._copy_config,
            "delete-config": self._delete_config,
            "lock": self._lock,
            "unlock": self._unlock,
            "close-session": self._close_session,
            "kill-session": self._kill_session,
        }

    def hello(self, number: int) -> str:
        """Return the greeting of a session."""
        modules = (
            f"{MODULES[name]}?module={name}&revision={revision}"
            for name, revision in self._model.revisions().items()
        )
        capabilities = "".join(
            f"<capability>{escape(name)}</capability>" for name in (*_PROTOCOLS, *modules)
        )
        return (
            f'<hello xmlns="{BASE}"><capabilities>{capabilities}</capabilities>'
            f"<session-id>{number}</session-id></hello>"
        )

    async def serve(self, process: Any, emulated: EmulatedSession) -> None:
        """Serve one session until either side ends it."""
        session = _NetconfSession(next(self._numbers), process, emulated, MessageReader())
        self._sessions[session.number] = session
        try:
            session.send(self.hello(session.number))
            limit_s = self._switch.idle_close_s or None
            while data := await asyncio.wait_for(process.stdin.read(_READ_BYTES), limit_s):
                for message in session.reader.feed(data):
                    await self._take(self._parsed(message), session)
                    if session.is_closed:
                        return
        finally:
            del self._sessions[session.number]
            if self._switch.locked_by == session.number:
                self._switch.locked_by = 0

    async def _take(self, root: Element, session: _NetconfSession) -> None:
        """Take a greeting or a request."""
        if local(root) == "hello" and not session.is_greeted:
            agreed = {text(node) for node in root.iter() if local(node) == "capability"}
            if not agreed & {_BASE_1_0, _BASE_1_1}:
                raise ValueError("no version in common")
            session.is_greeted, session.reader.is_chunked = True, _BASE_1_1 in agreed
            return
        if local(root) != "rpc" or not session.is_greeted:
            raise ValueError("no request")
        await self._reply(root, session)

    def _parsed(self, message: bytes) -> Element:
        """Return a message's element; entities are not resolved."""
        parser = self._etree.XMLParser(resolve_entities=False, no_network=True)
        try:
            root: Element = self._etree.fromstring(message.strip(), parser)
        except self._etree.XMLSyntaxError as error:
            raise ValueError("not XML") from error
        return root

    async def _reply(self, rpc: Element, session: _NetconfSession) -> None:
        """Execute one request and send its reply."""
        operation = next(iter(elements(rpc)), None)

        async def run() -> str:
            try:
                return await self._execute(rpc, operation, session)
            except RpcError as error:
                return _error(error)
            except MatrixRefusalError as error:
                is_port = error.reason in {Refusal.NO_SUCH_PORT, Refusal.WRONG_SIDE}
                message = f"Invalid OXC port: {error.port}" if is_port else str(error)
                return _error(RpcError("invalid-value" if is_port else "in-use", message))

        async def deny() -> str:
            return _error(RpcError("resource-denied", "Refused on demand"))

        name = "" if operation is None else local(operation)
        is_change = name in {"edit-config", "copy-config"}
        body, in_pieces = await self._switch.execute(run, deny, is_change=is_change)
        attributes = "".join(
            f' {key}="{escape(value, {chr(34): "&quot;"})}"'
            for key, value in rpc.attrib.items()
            if not key.startswith("{")
        )
        reply = f'<rpc-reply xmlns="{BASE}"{attributes}>{body}</rpc-reply>'
        session.send(reply, in_pieces=in_pieces)
        await session.process.stdout.drain()

    async def _execute(
        self, rpc: Element, operation: Element | None, session: _NetconfSession
    ) -> str:
        if rpc.get("message-id") is None:
            info = {"bad-attribute": "message-id", "bad-element": "rpc"}
            raise RpcError("missing-attribute", "no message-id", **info)
        if operation is None:
            raise RpcError("missing-element", "no operation")
        name, space = local(operation), namespace(operation)
        if name == "port-set-state" and space == MODULES[OPTICAL_SWITCH]:
            self._set_ports(operation)
            return "<ok/>"
        if name == "create-subscription" and space == EVENTS:
            return self._subscribe(session)
        if name not in self._operations or space not in {"", BASE}:
            raise RpcError("operation-not-supported", f"no operation {name[:40]}")
        return await self._operations[name](operation, session)

    async def _get(self, operation: Element, _: _NetconfSession) -> str:
        return self._data(operation, list(self._model.containers().values()))

    async def _get_config(self, operation: Element, _: _NetconfSession) -> str:
        _check_running(operation, "source")
        containers = self._model.containers().values()
        configured = [part.configured() for part in containers if not part.is_state]
        return self._data(operation, configured)

    async def _edit_config(self, operation: Element, session: _NetconfSession) -> str:
        _check_running(operation, "target")
        self._check_lock(session)
        edit = edit_of(operation, self._model)
        await self._switch.change(edit.deletes, edit.creates)
        return "<ok/>"

    async def _copy_config(self, operation: Element, session: _NetconfSession) -> str:
        _check_running(operation, "target")
        self._check_lock(session)
        sources = [child for child in elements(operation) if local(child) == "source"]
        if not sources or [local(child) for child in elements(sources[0])] != ["config"]:
            raise RpcError("invalid-value", "the source is no config")
        edit = edit_of(sources[0], self._model, is_replaced=True)
        await self._switch.change(edit.deletes, edit.creates)
        return "<ok/>"

    async def _delete_config(self, _: Element, __: _NetconfSession) -> str:
        raise RpcError("invalid-value", "the running configuration cannot be deleted")

    async def _lock(self, operation: Element, session: _NetconfSession) -> str:
        _check_running(operation, "target")
        holder = self._switch.locked_by
        if holder:
            info = {"session-id": str(holder)}
            raise RpcError("lock-denied", f"session {holder} holds the lock", **info)
        self._switch.locked_by = session.number
        return "<ok/>"

    async def _unlock(self, operation: Element, session: _NetconfSession) -> str:
        _check_running(operation, "target")
        if self._switch.locked_by != session.number:
            raise RpcError("operation-failed", "this session does not hold the lock")
        self._switch.locked_by = 0
        return "<ok/>"

    async def _close_session(self, _: Element, session: _NetconfSession) -> str:
        session.is_closed = True
        return "<ok/>"

    async def _kill_session(self, operation: Element, session: _NetconfSession) -> str:
        numbers = [text(child) for child in elements(operation) if local(child) == "session-id"]
        other = next(
            (peer for peer in self._sessions.values() if [str(peer.number)] == numbers),
            session,
        )
        if other is session:
            raise RpcError("invalid-value", "no other session of this number")
        if self._switch.locked_by == other.number:
            self._switch.locked_by = 0
        other.emulated.cut()
        return "<ok/>"

    def _subscribe(self, session: _NetconfSession) -> str:
        if session.emulated.send_report is not None:
            raise RpcError("operation-failed", "this session has a subscription")
        session.emulated.send_report = lambda report: session.send(_notification(report))
        return "<ok/>"

    def _set_ports(self, operation: Element) -> None:
        """Open and close shutters."""
        ports: dict[str, list[int]] = {"port-enab": [], "port-disab": []}
        for leaf in elements(operation):
            if local(leaf) not in ports or namespace(leaf) != namespace(operation):
                raise RpcError("unknown-element", f"no element {local(leaf)[:40]}")
            if not text(leaf).isdecimal() or int(text(leaf)[:6]) not in self._switch.matrix.ports:
                raise RpcError("invalid-value", f"Invalid OXC port: {text(leaf)[:20]}")
            ports[local(leaf)].append(int(text(leaf)))
        self._model.set_ports(*ports.values())

    def _check_lock(self, session: _NetconfSession) -> None:
        if self._switch.locked_by not in {0, session.number}:
            raise RpcError("in-use", f"session {self._switch.locked_by} holds the lock")

    def _data(self, operation: Element, containers: list[ModelContainer]) -> str:
        """Return what the filter of a request selects."""
        tree = self._etree.Element("data")
        for container in containers:
            self._append(tree, container)
        filters = [child for child in elements(operation) if local(child) == "filter"]
        selected = list(tree)
        if filters:
            if filters[0].get("type", "subtree") != "subtree":
                info = {"bad-attribute": "type", "bad-element": "filter"}
                raise RpcError("bad-attribute", "only subtree filters are offered", **info)
            selected = select(tree, filters[0])
        return f"<data>{''.join(self._etree.tostring(part).decode() for part in selected)}</data>"

    def _append(self, tree: Element, container: ModelContainer) -> None:
        """Add a container that is not empty to a tree."""
        if not container.rows:
            return
        space = container.namespace
        node = self._etree.SubElement(tree, f"{{{space}}}{container.name}", nsmap={None: space})
        for row in container.rows:
            entry = node
            if container.entry:
                entry = self._etree.SubElement(node, f"{{{space}}}{container.entry}")
            self._fill(entry, row, space)

    def _fill(self, node: Element, row: Row, space: str) -> None:
        for name, value in row.items():
            leaf = self._etree.SubElement(node, f"{{{space}}}{name}")
            if isinstance(value, str | int):
                leaf.text = str(value)
            else:
                self._fill(leaf, value, space)


def _check_running(operation: Element, role: str) -> None:
    """Check that a request is about the running configuration, the only one."""
    named = [child for child in elements(operation) if local(child) == role]
    stores = [local(child) for child in elements(named[0])] if named else []
    if not stores:
        raise RpcError("missing-element", f"no {role}", **{"bad-element": role})
    if stores != ["running"]:
        message = f"the {stores[0][:40]} configuration is not advertised"
        raise RpcError("unknown-element", message, **{"bad-element": stores[0]})


def _notification(report: str) -> str:
    """Return a report as the notification ``system-error`` of the module ``polatis-switch``."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    leaves = (
        "<error-code>0</error-code><switch-status>OPERATIONAL</switch-status>"
        f"<message>{escape(report)}</message>"
    )
    event = f'<system-error xmlns="{MODULES[POLATIS_SWITCH]}">{leaves}</system-error>'
    return f'<notification xmlns="{EVENTS}"><eventTime>{now}</eventTime>{event}</notification>'


def _error(error: RpcError) -> str:
    info = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in error.info.items())
    info = f"<error-info>{info}</error-info>" if info else ""
    return (
        "<rpc-error><error-type>application</error-type>"
        f"<error-tag>{error.tag}</error-tag><error-severity>error</error-severity>"
        f"<error-message>{escape(error.message)}</error-message>{info}</rpc-error>"
    )
