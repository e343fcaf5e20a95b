"""The mirrors in the kernel: what enters one port leaves another, and nothing else happens to it.

A mirror is a filter at the ingress of a port that matches every frame (u32) and redirects it to the
egress of another (mirred). Without it a port is dark: frames that enter it have no address in the
switch's namespace and end there. Each command is acknowledged by the kernel (rtnetlink(7)), so
that a mirror which was not made is noticed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping

# of linux/netlink.h and linux/rtnetlink.h
_ERROR = 2
_NEW_LINK, _NEW_FILTER, _DELETE_FILTER = 16, 44, 45
_REQUEST, _ACKNOWLEDGE, _REPLACE, _CREATE = 1, 4, 0x100, 0x400
_NESTED = 0x8000
_GROUP_LINK = 1
_IF_UP = 1
# of linux/pkt_cls.h, linux/pkt_sched.h and linux/tc_act/tc_mirred.h
_AT_INGRESS = 0xFFFF_FFF2
_KIND, _OPTIONS = 1, 2
_U32_SELECTOR, _U32_ACTIONS = 5, 7
_ACTION_KIND, _ACTION_OPTIONS = 1, 2
_MIRRED_PARAMETERS = 2
_EGRESS_REDIRECT, _STOLEN = 1, 4
_ALL_PROTOCOLS = 0x0300  # ETH_P_ALL in network order
_TERMINAL = 1
#: the only filter of a port: priority 1, table 0x800, bucket 0, item 0x800
_PRIORITY, _HANDLE = 1, 0x8000_0800

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_FILTER = struct.Struct("=B3xiIII")
#: name and flags in a ``struct ifreq``, and the request for flags of linux/sockios.h
_INTERFACE, _GET_FLAGS = struct.Struct("=16sH22x"), 0x8913


class Crossbar:
    """Redirects between ports of one network namespace.

    Parameters
    ----------
    route
        A netlink socket that was opened in the namespace, by :func:`route_socket`.
    devices
        Index of the device of each port.
    """

    def __init__(self, route: socket.socket, devices: Mapping[int, int]) -> None:
        self._route, self._devices = route, dict(devices)
        self._number = 0
        #: where what enters a port leaves
        self.lit: dict[int, int] = {}

    def show(self, lit: Mapping[int, int]) -> None:
        """Make the mirrors be these: first all that end, then all that begin.

        Raises
        ------
        OSError
            If the kernel refuses a change; those before it are made.
        """
        for port in [port for port, to in self.lit.items() if lit.get(port) != to]:
            with contextlib.suppress(FileNotFoundError):
                self._ask(_DELETE_FILTER, filter_message(self._devices[port]), 0)
            del self.lit[port]
        for port, to in lit.items():
            if port not in self.lit:
                body = filter_message(self._devices[port], self._devices[to])
                self._ask(_NEW_FILTER, body, _CREATE | _REPLACE)
                self.lit[port] = to

    def _ask(self, kind: int, body: bytes, flags: int) -> None:
        """Send a request and wait for its acknowledgment."""
        self._number += 1
        flags |= _REQUEST | _ACKNOWLEDGE
        header = _HEADER.pack(_HEADER.size + len(body), kind, flags, self._number, 0)
        self._route.send(header + body)
        for reply in messages(self._route.recv(1 << 16)):
            kind, number, content = reply
            if kind == _ERROR and number == self._number:
                problem = -int.from_bytes(content[:4], "little", signed=True)
                if problem:
                    raise OSError(problem, os.strerror(problem))
                return
        raise OSError(errno.EPROTO, "the kernel did not acknowledge a mirror")


def route_socket(*, events: bool = False) -> socket.socket:
    """Open a netlink socket of the present namespace, which may report changes of devices."""
    route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    route.bind((0, _GROUP_LINK if events else 0))
    return route


def is_device_up(name: str) -> bool:
    """Whether a device of the present namespace was set up (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        reply = fcntl.ioctl(channel, _GET_FLAGS, _INTERFACE.pack(name.encode(), 0))
    _, flags = _INTERFACE.unpack_from(reply)
    return bool(flags & _IF_UP)


def links(content: bytes) -> Iterator[tuple[int, bool]]:
    """Index of each device that changed, and whether it is up."""
    for kind, _, body in messages(content):
        if kind == _NEW_LINK and len(body) >= _LINK.size:
            _, _, index, flags, _ = _LINK.unpack_from(body)
            yield index, bool(flags & _IF_UP)


def messages(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, number and body of each message."""
    while len(content) >= _HEADER.size:
        length, kind, _, number, _ = _HEADER.unpack_from(content)
        if length < _HEADER.size:
            return
        yield kind, number, content[_HEADER.size : length]
        content = content[(length + 3) & ~3 :]


def filter_message(device: int, to: int | None = None) -> bytes:
    """Body of the message about the mirror at a device, towards another if one is made.

    Parameters
    ----------
    device
        Index of the device where frames enter.
    to
        Index of the device where they leave.
    """
    info = _PRIORITY << 16 | _ALL_PROTOCOLS
    body = _FILTER.pack(socket.AF_UNSPEC, device, _HANDLE, _AT_INGRESS, info)
    body += _attribute(_KIND, b"u32\0")
    if to is not None:
        selector = struct.pack("=BBBBHHhhI", _TERMINAL, 0, 1, 0, 0, 0, 0, 0, 0)
        key = struct.pack("=IIii", 0, 0, 0, 0)  # no bit has to be anything
        redirect = struct.pack("=IIiiiiI", 0, 0, _STOLEN, 0, 0, _EGRESS_REDIRECT, to)
        parameters = _attribute(_MIRRED_PARAMETERS, redirect)
        action = _attribute(_ACTION_KIND, b"mirred\0")
        action += _attribute(_ACTION_OPTIONS | _NESTED, parameters)
        options = _attribute(_U32_SELECTOR, selector + key)
        options += _attribute(_U32_ACTIONS | _NESTED, _attribute(1 | _NESTED, action))
        body += _attribute(_OPTIONS | _NESTED, options)
    return body


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)
