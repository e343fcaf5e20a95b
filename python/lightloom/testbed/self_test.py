"""Does this machine's testbed do what it should? Measured on one that is made for it and removed.

Rates of one circuit, of the packet switch and of all circuits at a time; that a dark port loses
everything, that no frame reaches a third port, that a circuit loses nothing; and for how long ports
are dark while mirrors move.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from lightloom.testbed.layout import ServerNic
from lightloom.testbed.refusals import TestbedError
from lightloom.testbed.testbed import Testbed

#: two NICs that are joined, or send to each other
Ends: TypeAlias = tuple[ServerNic, ServerNic]
#: of a stream: what of a shaped rate it has to reach, headers included, and may exceed it by
_LEAST, _MOST = 0.9, 1.02
#: of each of all streams at one time, which share the processors
_LEAST_OF_ALL = 0.8
#: time of one stream, and of the frames around a reconfiguration
_TRIES = 3
_STREAM_S, _FRAMES_S, _MOVING_S = 0.5, 0.3, 1.0
#: how well the time without frames is known: a process that measures may have to wait for its turn
_SLACK_S = 0.02
_TCP_PORT, _UDP_PORT = 5201, 5202
_END_S = 20.0
_TL1_BYTES = 1 << 16
#: completion code of a reply, which ends with a semicolon
_REPLY = re.compile(rb"\nM +\d+ (\w+)[^;]*;")


class SelfTestCheck(NamedTuple):
    """One thing that was measured.

    Attributes
    ----------
    name
        What.
    measured, unit
        How much.
    expected
        What it should be, as text.
    is_met
        Whether it is.
    """

    name: str
    measured: float
    unit: str
    expected: str
    is_met: bool


class MeasuredStream(NamedTuple):
    """What a sender sent and its receiver has received."""

    sent: dict[str, float]
    received: dict[str, float]

    @property
    def gbps(self) -> float:
        """Rate of a TCP stream, without headers."""
        return self.received["bytes"] * 8 / self.received["seconds"] / 1e9


class SwitchSession:
    """Commands to the circuit switch of a testbed, as a controller gives them (TL1)."""

    def __init__(self, testbed: Testbed) -> None:
        self._connection = socket.create_connection(("127.0.0.1", testbed.tl1_port), _END_S)
        self._layout = testbed.layout
        try:
            self.tell("ACT-USER::admin:1::root;")
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> SwitchSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def connect(self, *circuits: Ends) -> None:
        """Join NICs in both directions, and return when the mirrors have settled."""
        ports = [
            (self._layout.ingress_of(a), self._layout.ports + self._layout.ingress_of(b))
            for pair in circuits
            for a, b in (pair, pair[::-1])
        ]
        ingress, egress = ("&".join(map(str, side)) for side in zip(*ports, strict=True))
        self.tell(f"ENT-PATCH::{ingress},{egress}:2:;")

    def clear(self) -> None:
        """Delete all circuits."""
        self.tell("DLT-PATCH::ALL:3:;")

    def tell(self, command: str) -> None:
        """Send a command, and return when it is completed.

        Raises
        ------
        TestbedError
            If it is refused.
        """
        self._connection.sendall(command.encode())
        reply = b""
        # reports of the switch may come before the reply
        while (answer := _REPLY.search(reply)) is None:
            piece = self._connection.recv(_TL1_BYTES)
            if not piece:
                raise TestbedError("the circuit switch has closed the connection")
            reply += piece
        if answer[1] != b"COMPLD":
            raise TestbedError(f"the circuit switch refuses {command}")


def self_test(testbed: Testbed) -> Iterator[SelfTestCheck]:
    """Measure a testbed that nobody else uses; yield each result as it is there.

    Parameters
    ----------
    testbed
        One whose circuits may be changed.
    """
    ends = [next(testbed.layout.nics_of(server)) for server in (0, 1)]
    yield _rate(testbed, "TCP over the packet switch", [(ends[0], ends[1])], _LEAST)
    if not testbed.layout.optical_nics:
        return
    first, second = optical_nic(testbed, 0), optical_nic(testbed, 1)
    with SwitchSession(testbed) as switch:
        yield from _rates(testbed, switch)
        switch.clear()
        yield _dark(testbed, first, second)
        switch.connect((first, second))
        yield from _lit(testbed, first, second)
        yield from _moving(testbed, switch)


def _rates(testbed: Testbed, switch: SwitchSession) -> Iterator[SelfTestCheck]:
    first, second = optical_nic(testbed, 0), optical_nic(testbed, 1)
    switch.connect((first, second))
    yield _rate(testbed, "TCP over one circuit", [(first, second)], _LEAST)
    pairs = all_pairs(testbed)
    switch.connect(*pairs)
    yield _rate(testbed, f"slowest of {len(pairs)} circuits at a time", pairs, _LEAST_OF_ALL)


def all_pairs(testbed: Testbed) -> list[Ends]:
    """Return circuits of all optical NICs, of neighbors; the last of odd servers has none."""
    layout = testbed.layout
    return [
        (optical_nic(testbed, server, number), optical_nic(testbed, server + 1, number))
        for server in range(0, layout.servers - 1, 2)
        for number in range(layout.optical_nics)
    ]


def _rate(testbed: Testbed, name: str, pairs: Sequence[Ends], least: float) -> SelfTestCheck:
    """Measure the slowest of streams at one time.

    Other work of the machine can only make them slower, so that the best of several tries counts.
    """
    shaped, measured = pairs[0][0].rate_gbps, 0.0
    for _ in range(_TRIES):
        slowest = min(stream.gbps for stream in streams(testbed, pairs))
        measured = max(measured, slowest)
        if measured >= least * shaped:
            break
    text = f"{least * shaped * 1e3:g} to {_MOST * shaped * 1e3:g}"
    is_met = least * shaped <= measured <= _MOST * shaped
    return SelfTestCheck(name, measured * 1e3, "Mb/s", text, is_met)


def _dark(testbed: Testbed, first: ServerNic, second: ServerNic) -> SelfTestCheck:
    with frames_between(testbed, first, second, _FRAMES_S) as frames:
        pass
    received = frames[0].received["frames"]
    return SelfTestCheck(
        f"received of {frames[0].sent['frames']:.0f} frames into a dark port",
        received, "frames", "0", received == 0 < frames[0].sent["frames"],
    )  # fmt: skip


def _lit(testbed: Testbed, first: ServerNic, second: ServerNic) -> Iterator[SelfTestCheck]:
    before = testbed.counters()
    with frames_between(testbed, first, second, _FRAMES_S) as frames:
        pass
    after = testbed.counters()
    # as the ports count them: a process that is slow to receive is no fault of the circuit
    sent = after[first.part].sent_frames - before[first.part].sent_frames
    received = after[second.part].received_frames - before[second.part].received_frames
    has_come = received > 0 and frames[0].received["frames"] > 0
    name = f"lost of {sent:.0f} frames over a circuit"
    yield SelfTestCheck(name, sent - received, "frames", "0", sent == received and has_come)
    strays = sum(
        after[part].received_frames - before[part].received_frames
        for part in after
        if part not in {first.part, second.part}
    )
    yield SelfTestCheck("frames at NICs that are not its ends", strays, "frames", "0", strays == 0)


def _moving(testbed: Testbed, switch: SwitchSession) -> Iterator[SelfTestCheck]:
    """Move one end of a circuit while frames come, and back: how long nothing came."""
    first, second = optical_nic(testbed, 0), optical_nic(testbed, 1)
    others = [nic for nic in testbed.layout.all_nics() if nic.is_optical and nic.server != 0]
    if others[-1] == second:
        return  # two servers with one NIC each: there is nowhere to go
    for _ in range(_TRIES):
        switch.connect((first, second))
        with frames_between(testbed, first, second, _MOVING_S) as frames:
            time.sleep(_FRAMES_S)
            begun = time.monotonic()
            switch.connect((first, others[-1]))
            switch.connect((first, second))
            away_s = time.monotonic() - begun
        dark_s = frames[0].received["longest_gap_s"]
        if abs(dark_s - away_s) <= _SLACK_S:
            break
    yield SelfTestCheck(
        "without frames while a circuit moves away and back",
        dark_s * 1e3, "ms",
        f"{(away_s - _SLACK_S) * 1e3:.0f} to {(away_s + _SLACK_S) * 1e3:.0f}",
        abs(dark_s - away_s) <= _SLACK_S,
    )  # fmt: skip


def optical_nic(testbed: Testbed, server: int, number: int = 0) -> ServerNic:
    """Return a NIC of a server at the circuit switch."""
    nics = [nic for nic in testbed.layout.nics_of(server) if nic.is_optical]
    return nics[number]


def streams(
    testbed: Testbed, pairs: Sequence[Ends], seconds: float = _STREAM_S
) -> list[MeasuredStream]:
    """Send TCP streams between NICs, all at a time."""
    with contextlib.ExitStack() as stack:
        receivers = [
            (a, b, stack.enter_context(_process(testbed, b.server, "receive-tcp", b, _TCP_PORT)))
            for a, b in pairs
        ]
        for _, _, receiver in receivers:
            _wait(receiver)
        senders = [
            stack.enter_context(
                _process(testbed, a.server, "send-tcp", a, b.address, _TCP_PORT, seconds)
            )
            for a, b, _ in receivers
        ]
        return [
            MeasuredStream(_result(sender), _result(receiver))
            for sender, (_, _, receiver) in zip(senders, receivers, strict=True)
        ]


@contextlib.contextmanager
def frames_between(
    testbed: Testbed, a: ServerNic, b: ServerNic, seconds: float
) -> Iterator[list[MeasuredStream]]:
    """Send numbered frames while the context is open, and then for the rest of the time."""
    found: list[MeasuredStream] = []
    receive = _process(testbed, b.server, "receive-udp", b, _UDP_PORT, seconds + 0.5)
    with receive as receiver:
        _wait(receiver)
        send = _process(testbed, a.server, "send-udp", a, b.address, _UDP_PORT, seconds)
        with send as sender:
            yield found
            found.append(MeasuredStream(_result(sender), _result(receiver)))


@contextlib.contextmanager
def _process(
    testbed: Testbed, server: int, work: str, nic: ServerNic, *arguments: object
) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-P", "-m", "lightloom.testbed.traffic", work, nic.address]
    command = testbed.command(server, [*words, *map(str, arguments)])
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait(receiver: subprocess.Popen[str]) -> None:
    assert receiver.stdout is not None
    is_there, _, _ = select.select([receiver.stdout], [], [], _END_S)
    if not is_there:
        raise TestbedError(f"a receiver did not start within {_END_S:g} s")
    if receiver.stdout.readline() != "ready\n":
        raise TestbedError(f"a receiver did not start: {_last_line(receiver)}")


def _result(process: subprocess.Popen[str]) -> dict[str, float]:
    output, error = process.communicate(timeout=_END_S)
    if process.returncode != 0:
        lines = error.strip().splitlines() or ["no reason"]
        raise TestbedError(f"no traffic came through: {lines[-1]}")
    result: dict[str, Any] = json.loads(output)
    return result


def _last_line(process: subprocess.Popen[str]) -> str:
    _, error = process.communicate(timeout=_END_S)
    lines = error.strip().splitlines() or ["no reason"]
    return lines[-1]
