"""The connections between NICs: how one is made, and what the two ends say first.

A connection begins at a NIC of one server and ends at a NIC of another, or goes on from there to a
third, where the process that took it passes bytes on in both directions (a relay). Who connects
shows the secret of the job, and says whose stream it is; the other end answers with how many frames
of that stream it has.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lightloom.errors import InputError
from lightloom.schedule.carrying import NicHop, NicPlace

#: secret of the job, sender, receiver, what for, stream, hops that are left
_HELLO = struct.Struct("!16sIIBQB")
_PLACE = struct.Struct("!H?H")
#: kind of a frame, step, rank that it is for, where it belongs, bytes that follow
FRAME = struct.Struct("!BQIQI")
#: how many frames have come
COUNT = struct.Struct("!Q")
#: what connections and frames are for
NEW, RESUMED, PING, STOP = range(4)
DATA, PROBE = range(2)
SECRET_BYTES = 16
#: most hops of a way
_MOST_HOPS = 3
_BACKLOG = 256


@dataclass(frozen=True)
class NicAddress:
    """Where a NIC is.

    Attributes
    ----------
    address
        IP address of it alone.
    device
        Its interface, to which sockets are bound where it is named; that takes a right
        (``CAP_NET_RAW``) with kernels before 5.7.
    """

    address: str
    device: str = ""


class Port(NamedTuple):
    """Where a rank listens."""

    address: str
    number: int


class Greeting(NamedTuple):
    """What a connection begins with."""

    sender: int
    receiver: int
    purpose: int
    stream: int
    hops: tuple[NicHop, ...]


class Wires:
    """Opens connections over the NICs of a rank's server.

    Parameters
    ----------
    rank, secret
        Of the job.
    nics
        Of the rank's server.
    connect_s
        Seconds in which another server must take a connection.
    """

    def __init__(
        self, rank: int, secret: bytes, nics: Mapping[NicPlace, NicAddress], connect_s: float
    ) -> None:
        self.rank, self._secret, self._nics = rank, secret, nics
        self._connect_s = connect_s
        self._lost: set[NicPlace] = set()
        #: where each rank listens, by NIC of its server
        self.ports: Sequence[Mapping[NicPlace, Port]] = ()

    def listen(self) -> dict[NicPlace, socket.socket]:
        """Listen on every NIC that is there.

        Raises
        ------
        InputError
            If there is none.
        """
        found, problem = {}, ""
        for nic in self._nics:
            try:
                listener = self._socket(nic)
                listener.listen(_BACKLOG)
                listener.settimeout(0)
                found[nic] = listener
            except OSError as error:
                problem = f"{nic} ({self._nics[nic].address}): {error.strerror or error}"
        if not found:
            problem = problem or "none is named"
            raise InputError(f"no NIC of rank {self.rank} can be used: {problem}")
        return found

    def lose(self, nic: NicPlace) -> None:
        """Connect from a NIC no more, as if it had failed."""
        self._lost.add(nic)

    def _socket(self, nic: NicPlace) -> socket.socket:
        if nic in self._lost:
            raise OSError(f"{nic} has failed")
        where = self._nics[nic]
        opened = socket.socket(socket.AF_INET6 if ":" in where.address else socket.AF_INET)
        try:
            if where.device:
                device = where.device.encode()
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
            opened.bind((where.address, 0))
        except OSError:
            opened.close()
            raise
        return opened

    def connect(
        self, hops: tuple[NicHop, ...], greeting: Greeting, taker: int
    ) -> tuple[socket.socket, int]:
        """Connect to the rank that takes the first hop, and have it led on from there.

        Returns
        -------
        The connection, and how many frames of the stream the other end has.

        Raises
        ------
        OSError
            If there is no way.
        """
        opened = self._socket(hops[0].sender)
        try:
            opened.settimeout(self._connect_s)
            port = self.ports[taker].get(hops[0].receiver)
            if port is None:
                raise ConnectionRefusedError(f"rank {taker} does not listen at {hops[0].receiver}")
            opened.connect(port)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.sendall(self._encoded(greeting))
            answer = bytearray(COUNT.size)
            receive_whole(opened, memoryview(answer))
        except BaseException:
            cut(opened)
            raise
        return opened, COUNT.unpack(answer)[0]

    def _encoded(self, greeting: Greeting) -> bytes:
        sender, receiver, purpose, stream, hops = greeting
        head = _HELLO.pack(self._secret, sender, receiver, purpose, stream, len(hops))
        places = (_PLACE.pack(*end) for hop in hops for end in hop)
        return head + b"".join(places)

    def greeting(self, made: socket.socket) -> Greeting | None:
        """What the other end of a connection wants; None if it is not of this job."""
        head = bytearray(_HELLO.size)
        receive_whole(made, memoryview(head))
        secret, sender, receiver, purpose, stream, count = _HELLO.unpack(head)
        if secret != self._secret or count > _MOST_HOPS:
            return None
        rest = bytearray(2 * count * _PLACE.size)
        receive_whole(made, memoryview(rest))
        ends = [NicPlace(*place) for place in _PLACE.iter_unpack(rest)]
        hops = tuple(NicHop(*pair) for pair in zip(ends[::2], ends[1::2], strict=True))
        return Greeting(sender, receiver, purpose, stream, hops)


def receive_whole(made: socket.socket, view: memoryview) -> None:
    """Receive as many bytes as there is room for.

    Raises
    ------
    OSError
        If the connection ends before.
    """
    while len(view):
        count = made.recv_into(view)
        if not count:
            raise ConnectionResetError("the connection was closed")
        view = view[count:]


def end(made: socket.socket) -> None:
    """End a connection that another thread uses, who is to close it: by then its number is free."""
    with contextlib.suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.shutdown(socket.SHUT_RDWR)


def cut(made: socket.socket) -> None:
    """Close a connection at once; what the kernel still holds is not sent."""
    end(made)
    made.close()


def is_there(nic: NicAddress) -> bool:
    """Whether a NIC of this server works, as far as the kernel says."""
    if nic.device:
        try:
            with open(f"/sys/class/net/{nic.device}/operstate", encoding="ascii") as file:
                return file.read().strip() != "down"
        except OSError:
            return os.path.isdir("/sys/class/net") is False
    family = socket.AF_INET6 if ":" in nic.address else socket.AF_INET
    try:
        with socket.socket(family) as made:
            made.bind((nic.address, 0))
    except OSError:
        return False
    return True
