"""Traffic between servers, for the self-test: run in a server, prints what it has measured.

``receive-tcp ADDRESS PORT``, ``send-tcp FROM TO PORT SECONDS``, ``receive-udp ADDRESS PORT
SECONDS``, ``send-udp FROM TO PORT SECONDS``: receivers say ``ready`` first. Numbered datagrams show
what was lost and for how long nothing came.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import time

_PIECE = bytes(1 << 18)
_DATAGRAM_BYTES = 1400
_BUFFER_BYTES = 1 << 17
_CONNECT_S = 10.0
_NUMBER = struct.Struct(">Q")


def receive_tcp(address: str, port: str) -> dict[str, float]:
    """Receive one stream; how much came, and how long it took."""
    with socket.create_server((address, int(port))) as server:
        server.settimeout(_CONNECT_S)
        print("ready", flush=True)
        connection, _ = server.accept()
    received, begun = 0, time.monotonic()
    buffer = bytearray(1 << 20)
    with connection:
        while size := connection.recv_into(buffer):
            received += size
    return {"bytes": received, "seconds": time.monotonic() - begun}


def send_tcp(own: str, to: str, port: str, seconds: str) -> dict[str, float]:
    """Send for a time, from the NIC that has an address."""
    with socket.create_connection((to, int(port)), _CONNECT_S, (own, 0)) as connection:
        sent, end = 0, time.monotonic() + float(seconds)
        while time.monotonic() < end:
            sent += connection.send(_PIECE)
    return {"bytes": sent}


def receive_udp(address: str, port: str, seconds: str) -> dict[str, float]:
    """Receive numbered datagrams for a time; how many, when the first, and longest without any."""
    received, first, last, longest_s, highest = 0, 0.0, 0.0, 0.0, -1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
        receiver.bind((address, int(port)))
        receiver.settimeout(0.05)
        print("ready", flush=True)
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                content = receiver.recv(2048)
                now = time.monotonic()
                if received:
                    longest_s = max(longest_s, now - last)
                else:
                    first = now
                received, last = received + 1, now
                highest = max(highest, _NUMBER.unpack_from(content)[0])
    facts = {"frames": received, "highest": highest, "longest_gap_s": longest_s}
    return {**facts, "first_s": first}


def send_udp(own: str, to: str, port: str, seconds: str) -> dict[str, float]:
    """Send numbered datagrams for a time, as fast as the NIC takes them; how many."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        # less than the queue of the shaper holds: the sender waits, and the shaper drops nothing
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        sender.bind((own, 0))
        sent, end = 0, time.monotonic() + float(seconds)
        rest = bytes(_DATAGRAM_BYTES - _NUMBER.size)
        while time.monotonic() < end:
            sender.sendto(_NUMBER.pack(sent) + rest, (to, int(port)))
            sent += 1
    return {"frames": sent}


_WORK = {
    "receive-tcp": receive_tcp,
    "send-tcp": send_tcp,
    "receive-udp": receive_udp,
    "send-udp": send_udp,
}

if __name__ == "__main__":
    print(json.dumps(_WORK[sys.argv[1]](*sys.argv[2:])))  # type: ignore[operator]
