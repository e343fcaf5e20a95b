"""Polatis switches by NETCONF (RFC 6241) over SSH port 830, through ncclient.

A change is one ``edit-config`` of the running configuration that deletes and merges pairs, and
rolls back on an error if the switch can; with ``moves=no``, one that deletes and then one that
merges. Ports are numbers, ingress 1 to N, egress N + 1 to N + M. ncclient blocks, so that its calls
run in one thread per driver; after a time-out its session is closed and a late reply goes nowhere.

Everything is in the YANG module ``optical-switch``, whose revision the switch states as a
capability: before 2017-08-04 a circuit is called ``pairs`` and ports are below ``ports``. Modules
and rules are those that the ONOS project publishes (models/polatis, drivers/polatis/netconf), and
what public clients of laboratories send.

Never met real hardware: everything here. Unknown: whether merging moves the circuits of busy ports
(``moves=no`` deletes first), and whether a change is made as a whole. Where the switch does not say
that it sends notifications, :meth:`PolatisNetconf.watch` compares readings of a second session,
``poll_s`` apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from xml.etree.ElementTree import Element

from lightloom.control.drivers.base import BaseDriver
from lightloom.control.drivers.changes import (
    ChangeCommand,
    creates_in_batches,
    split_deletes,
)
from lightloom.control.drivers.options import DriverSettings, SwitchAddress, optional_import
from lightloom.control.drivers.polatis import description_of, is_closed, port_statuses
from lightloom.control.drivers.streams import unreachable
from lightloom.control.switch import (
    CrossConnect,
    InvalidTargetError,
    LoginRefusedError,
    Port,
    Readback,
    SwitchBusyError,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchEvent,
    SwitchEventKind,
    SwitchFeature,
    SwitchProtocolError,
    SwitchTimeoutError,
)

TCP_PORT = 830
NETCONF = "urn:ietf:params:xml:ns:netconf:base:1.0"
OPTICAL_SWITCH = "http://www.polatis.com/yang/optical-switch"
#: first revision of its module in which circuits and ports have their present names
PRESENT_NAMES = "2017-08-04"
_REVISION = re.compile(r"[?&]revision=(\d{4}-\d{2}-\d{2})(?:&|$)")
_ROLLBACK = ":rollback-on-error"
_NOTIFICATION = ":notification"
#: seconds for which a thread waits for a notification
_TAKE_S = 0.5
_PORT_IN_TEXT = re.compile(r"\bport\W{0,2}(\d{1,6})\b", re.IGNORECASE)
_DENIALS = {
    "invalid-value": InvalidTargetError,
    "data-missing": InvalidTargetError,
    "in-use": SwitchBusyError,
    "data-exists": SwitchBusyError,
    "lock-denied": SwitchBusyError,
    "resource-denied": SwitchBusyError,
}

Value = TypeVar("Value")

# the traceback of a connection that fails goes to standard error unless someone listens
logging.getLogger("ncclient").addHandler(logging.NullHandler())


class PolatisNetconf(BaseDriver):
    """Driver of one Polatis switch by NETCONF.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, what the switch can do, and accepted host keys.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._ncclient = optional_import("ncclient.manager", "NETCONF")
        self._transport = optional_import("ncclient.transport.errors", "NETCONF")
        self._rpc = optional_import("ncclient.operations", "NETCONF")
        self._manager: Any = None
        self._thread: ThreadPoolExecutor | None = None
        self._socket: socket.socket | None = None
        self._has_old_names = False

    async def _open(self) -> SwitchDescription:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="netconf")
        self._manager = await self._call(self._log_in)
        self._has_old_names = _has_old_names(self._manager.server_capabilities)
        product = await self._get("product-information")
        ports = await self._get(*self._ports_path())
        values = {_local(leaf): _text(leaf) for part in product for leaf in part}
        num_ports = len({_leaf(port, "port-id") for port in ports})
        features = {SwitchFeature.LISTS, SwitchFeature.POWER, SwitchFeature.EVENTS}
        return description_of(values, num_ports, features, moves=self._settings.moves)

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits and, on request, status and power of all ports."""
        description = self._connected()
        circuits = frozenset(
            CrossConnect(_port(pair, "ingress"), _port(pair, "egress"))
            for pair in await self._get("cross-connects", self._pair_name())
        )
        if not ports:
            return Readback(circuits)
        configured = await self._get(*self._ports_path())
        status = "port-status" if self._has_old_names else "status"
        closed = [_port(row, "port-id") for row in configured if is_closed(_leaf(row, status))]
        measured = configured if self._has_old_names else await self._get("opm-power", "port")
        powers = {
            _port(port, "port-id"): _number(port, "power")
            for port in measured
            if _leaf(port, "power")
        }
        return Readback(circuits, ports=port_statuses(description.ports, circuits, powers, closed))

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        commanded, implied = split_deletes(change, moves=self._settings.moves)
        commands = []
        if commanded and not (self._settings.moves and change.creates):
            # a request names a pair once: what is deleted and made anew takes two
            commands.append(ChangeCommand(self._editor(commanded, ()), commanded))
            commanded = ()
        for batch, moved in creates_in_batches(change, implied, self._settings.max_pairs):
            deletes, commanded = commanded, ()
            commands.append(ChangeCommand(self._editor(deletes, batch), (*deletes, *moved), batch))
        return commands

    async def watch(self) -> AsyncGenerator[SwitchEvent, None]:
        """Yield notifications of a second session, or what differs between readings of it."""
        self._connected()
        if _NOTIFICATION in self._manager.server_capabilities:
            source = PolatisNetconf(self._address, self._settings)._notifications(self._is_open)
        else:
            source = super().watch()
        async with contextlib.aclosing(source) as events:
            async for event in events:
                yield event

    def _pair_name(self) -> str:
        return "pairs" if self._has_old_names else "pair"

    def _ports_path(self) -> tuple[str, str]:
        return ("ports" if self._has_old_names else "port-config", "port")

    def _is_open(self) -> bool:
        return self._manager is not None

    async def _notifications(
        self, is_wanted: Callable[[], bool]
    ) -> AsyncGenerator[SwitchEvent, None]:
        """Connect, subscribe, and yield notifications; their form is not documented."""
        try:
            await self.connect()
            await self._call(self._manager.create_subscription)
            while is_wanted():
                taken = await self._call(lambda: self._manager.take_notification(timeout=_TAKE_S))
                if taken is not None:
                    yield _event(taken.notification_ele)
                elif not await self._call(lambda: self._manager.connected):
                    raise SwitchDisconnectedError("the connection to the switch is cut")
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the session."""
        manager, self._manager = self._manager, None
        thread, self._thread = self._thread, None
        connection, self._socket = self._socket, None
        if thread is None:
            return
        if manager is None and connection is not None:
            # paramiko waits 15 s for the first line of a dead switch, and a process for its threads
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if manager is not None:
            # paramiko's transport first: closing politely could wait for a dead switch
            with contextlib.suppress(Exception):
                await asyncio.get_running_loop().run_in_executor(None, manager._session.close)
        thread.shutdown(wait=False, cancel_futures=True)

    def _log_in(self) -> Any:
        """Connect; called in the thread, which may outlive whoever waits for it."""
        thread = self._thread
        manager = self._logged_in()
        if thread is None or thread is not self._thread:
            manager._session.close()
        return manager

    def _logged_in(self) -> Any:
        address, settings = self._address, self._settings
        host_key: dict[str, Any] = {}
        if settings.known_hosts:
            host_key = {"hostkey_b64": _host_key(settings.known_hosts, address)}
        try:
            self._socket = socket.create_connection(
                (address.host, address.port), settings.connect_timeout_s
            )
            return self._ncclient.connect_ssh(
                address.host,
                sock=self._socket,
                port=address.port,
                username=address.credentials.user,
                password=address.credentials.password,
                timeout=settings.connect_timeout_s,
                allow_agent=False,
                look_for_keys=False,
                hostkey_verify=True,
                manager_params={"timeout": settings.reply_timeout_s},
                **host_key,
            )
        except self._transport.AuthenticationError:
            raise LoginRefusedError(f"switch {address}: login refused") from None
        except self._transport.SSHUnknownHostError:
            reason = "its SSH host key is not in known_hosts"
            raise unreachable(address.host, address.port, reason) from None
        except (self._transport.TransportError, self._rpc.OperationError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no session"
            raise unreachable(address.host, address.port, reason) from None

    def _editor(
        self, deletes: Iterable[CrossConnect], creates: Iterable[CrossConnect]
    ) -> Callable[[], Any]:
        name = self._pair_name()
        pairs = [
            *(_pair(name, pair, "delete") for pair in deletes),
            *(_pair(name, pair, "merge") for pair in creates),
        ]
        config = (
            f'<config xmlns="{NETCONF}" xmlns:nc="{NETCONF}">'
            f'<cross-connects xmlns="{OPTICAL_SWITCH}">{"".join(pairs)}</cross-connects></config>'
        )

        def edit() -> None:
            capable = _ROLLBACK in self._manager.server_capabilities
            option = "rollback-on-error" if capable else None
            self._manager.edit_config(target="running", config=config, error_option=option)

        return lambda: self._call(edit)

    async def _get(self, container: str, entry: str = "") -> list[Element]:
        """Return the entries of a list of the module, or the container itself."""
        inner = f"<{entry}/>" if entry else ""
        filter_ = f'<{container} xmlns="{OPTICAL_SWITCH}">{inner}</{container}>'
        reply = await self._call(lambda: self._manager.get(("subtree", filter_)))
        if reply.data_ele is None:
            raise SwitchProtocolError("the switch sent a reply without data")
        containers = reply.data_ele.findall(f"{{{OPTICAL_SWITCH}}}{container}")
        if not entry:
            return list(containers)
        return [row for node in containers for row in node.findall(f"{{{OPTICAL_SWITCH}}}{entry}")]

    async def _call(self, work: Callable[[], Value]) -> Value:
        """Run blocking work in the thread; convert its errors."""
        if self._thread is None or (self._manager is None and work != self._log_in):
            raise self._not_connected()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except self._rpc.RPCError as error:
            kind = _DENIALS.get(error.tag, SwitchDeniedError)
            message = " ".join(str(error.message or "").split())[:200]
            raise kind(str(error.tag or "rpc-error"), message, "edit-config") from None
        except self._rpc.TimeoutExpiredError:
            await self.close()
            limit_s = self._settings.reply_timeout_s
            raise SwitchTimeoutError(f"NETCONF: no reply within {limit_s:g} s") from None
        except (self._transport.TransportError, OSError, EOFError):
            await self.close()
            raise SwitchDisconnectedError("the connection to the switch is cut") from None
        except asyncio.CancelledError:
            await self.close()
            raise


def _pair(name: str, connect: CrossConnect, operation: str) -> str:
    return (
        f'<{name} nc:operation="{operation}">'
        f"<ingress>{connect.ingress}</ingress><egress>{connect.egress}</egress></{name}>"
    )


def _has_old_names(capabilities: Iterable[str]) -> bool:
    """Whether the revision of the module that the capabilities state is an old one."""
    for capability in capabilities:
        namespace, _, query = str(capability).partition("?")
        revision = _REVISION.search(f"?{query}")
        if namespace == OPTICAL_SWITCH and revision is not None:
            return revision[1] < PRESENT_NAMES
    return False


def _local(element: Element) -> str:
    """Return an element's name without its namespace; comments have none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: Element) -> str:
    return (element.text or "").strip()


def _leaf(element: Element, name: str) -> str:
    """Return the text of a leaf at any depth, empty if there is none."""
    return next((_text(node) for node in element.iter() if _local(node) == name), "")


def _port(element: Element, name: str) -> Port:
    text = _leaf(element, name)
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise SwitchProtocolError(f"the switch sent {text[:20]!r} as {name}")
    return str(int(text))


def _number(element: Element, name: str) -> float:
    try:
        return float(_leaf(element, name))
    except ValueError:
        raise SwitchProtocolError(f"the switch sent no number as {name}") from None


def _event(notification: Element) -> SwitchEvent:
    """Return what a notification says, as the text of its elements."""
    content = [node for node in notification if _local(node) != "eventTime"]
    words = [text for node in content for part in node.itertext() if (text := part.strip())]
    name = " ".join(_local(node) for node in content)
    text = f"{name}: {' '.join(words)}"[:200]
    ports = tuple(_PORT_IN_TEXT.findall(text))
    if not ports:
        leaves = [node for part in content for node in part.iter() if _local(node) == "port-id"]
        ports = tuple(_text(leaf)[:6] for leaf in leaves)
    if "alarm" in name.lower():
        return SwitchEvent(SwitchEventKind.ALARM, text, ports)
    return SwitchEvent(SwitchEventKind.PORT if ports else SwitchEventKind.OTHER, text, ports)


def _host_key(path: str, address: SwitchAddress) -> str:
    """Return the key that a file of accepted host keys has for a switch."""
    paramiko = optional_import("paramiko", "NETCONF")
    try:
        keys = paramiko.HostKeys(path)
    except OSError as error:
        raise unreachable(address.host, address.port, f"{path}: {error.strerror}") from None
    for name in (f"[{address.host}]:{address.port}", address.host):
        for key in (keys.lookup(name) or {}).values():
            return str(key.get_base64())
    raise unreachable(address.host, address.port, "its SSH host key is not in known_hosts")
