"""Polatis switches by SCPI over TCP port 5025 (plain text, no login), as laboratories use them.

A change is at most two commands: ``oxc:switch:connect:subtract`` for circuits whose ports both
become free, then one ``oxc:switch:connect:add`` with lists of ports, which is taken to move the
circuits of busy ports (``moves=no`` subtracts first). SCPI answers only queries: after each command
``*opc?`` says that it is done, and the error queue whether it was refused. A query that is refused
has no answer; ``*opc?`` after it shows that. Ports are numbers, ingress 1 to N, egress N + 1 to
N + M.

Never met real hardware: everything here. Commands and answers are those of public clients. Unknown:
the codes of errors, whether the error queue is one for all sessions, and whether a list is made as
a whole. SCPI reports nothing: :meth:`PolatisScpi.watch` compares readings of a second connection,
``poll_s`` apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache, partial

from lightloom.control.drivers.base import BaseDriver
from lightloom.control.drivers.changes import ChangeCommand, commands_of
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.polatis import port_statuses, sides_of
from lightloom.control.drivers.streams import ByteStream, open_tcp
from lightloom.control.switch import (
    CrossConnect,
    InvalidTargetError,
    Port,
    PortStatus,
    Readback,
    SwitchBusyError,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchFeature,
    SwitchProtocolError,
    SwitchTimeoutError,
    UnsupportedCommandError,
)

TCP_PORT = 5025
MAX_LINE_BYTES = 64 * 1024
#: most ports whose power one query may ask for, as a public client found
MAX_POWERS = 256
_LISTS = re.compile(r"\(@([0-9, ]*)\),\s*\(@([0-9, ]*)\)")
_SIZE = re.compile(r"(\d{1,5})\s*,\s*(\d{1,5})")
_ERROR = re.compile(r'([-+]?\d{1,6})\s*,\s*"([^"]*)"')
#: what stands for an empty list of circuits
_NONE = {"", "<none>", "(@),(@)"}
_FEATURES = frozenset({SwitchFeature.LISTS, SwitchFeature.POWER, SwitchFeature.EVENTS})
_DENIALS = {
    -113: UnsupportedCommandError,
    -221: SwitchBusyError,
    -222: InvalidTargetError,
    -224: InvalidTargetError,
    -240: SwitchBusyError,
    -241: UnsupportedCommandError,
}


class PolatisScpi(BaseDriver):
    """Driver of one Polatis switch by SCPI.

    Parameters
    ----------
    address
        Host and port; SCPI has no login.
    settings
        Time-outs and what the switch can do.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._stream: ByteStream | None = None
        self._received = bytearray()
        self._scanned = 0
        #: ports whose power the switch measures; None until it has been asked
        self._monitored: tuple[Port, ...] | None = None

    async def _open(self) -> SwitchDescription:
        address, limit_s = self._address, self._settings.connect_timeout_s
        self._stream = await open_tcp(address.host, address.port, limit_s)
        self._received.clear()
        self._scanned = 0
        await self._send("*cls")
        identity = (await self._query("*idn?") or "").split(",")
        vendor, model, serial, software = (*map(str.strip, identity), "", "", "", "")[:4]
        size = _SIZE.fullmatch((await self._query(":oxc:swit:size?") or "").strip("() "))
        if size is None:
            raise SwitchProtocolError("the switch said no size")
        rows, columns = int(size[1]), int(size[2])
        moves = {SwitchFeature.MOVES} if self._settings.moves else set()
        return SwitchDescription(
            vendor=vendor,
            model=model,
            serial=serial,
            size=(rows, columns),
            ports=sides_of((rows, columns)),
            features=_FEATURES | moves,
            software=software,
        )

    def _is_open(self) -> bool:
        return self._stream is not None

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits and, on request, state and power of all ports."""
        self._connected()
        circuits = _circuits(await self._query(":oxc:swit:conn:stat?"))
        return Readback(circuits, ports=await self._ports(circuits) if ports else ())

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        delete, create = partial(self._sender, "sub"), partial(self._sender, "add")
        return commands_of(change, self._settings, delete, create)

    async def close(self) -> None:
        """Close the connection."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort()
            await stream.close()

    def _sender(self, verb: str, batch: Sequence[CrossConnect]) -> Callable[[], Awaitable[object]]:
        ingress = ",".join(pair.ingress for pair in batch)
        egress = ",".join(pair.egress for pair in batch)
        return lambda: self._command(f":oxc:swit:conn:{verb} (@{ingress}),(@{egress})")

    async def _ports(self, circuits: frozenset[CrossConnect]) -> tuple[PortStatus, ...]:
        sides = self._connected().ports
        listed = f"(@{','.join(sides)})"
        states = _items(await self._query(f":oxc:swit:port:stat? {listed}"))
        closed = [port for port, state in zip(sides, states, strict=False) if state in {"D", "F"}]
        return port_statuses(sides, circuits, await self._powers(), closed)

    async def _powers(self) -> dict[Port, float]:
        """Return the power of all ports with a monitor: of both sides, of egress ports, or none."""
        (rows, _), ports = self._connected().size, tuple(self._connected().ports)
        choices = [ports, ports[rows:], ()] if self._monitored is None else [self._monitored]
        powers: dict[Port, float] = {}
        for self._monitored in choices:
            try:
                powers = await self._powers_of(self._monitored)
            except SwitchDeniedError:
                continue
            break
        return powers

    async def _powers_of(self, ports: Sequence[Port]) -> dict[Port, float]:
        powers: dict[Port, float] = {}
        for start in range(0, len(ports), MAX_POWERS):
            asked = ports[start : start + MAX_POWERS]
            items = _items(await self._query(f":pmon:pow? (@{','.join(asked)})"))
            try:
                powers |= dict(zip(asked, map(float, items), strict=True))
            except ValueError:
                raise SwitchProtocolError("the switch sent no power of each port") from None
        return powers

    async def _command(self, text: str) -> None:
        """Send a command and wait until it is done.

        Raises
        ------
        SwitchDeniedError
            If the switch refuses it.
        """
        async with self._conversation(text) as answered:
            await self._write(f"*cls\n{text}\n*opc?\n:syst:err:all?\n")
            if (await self._line()).strip() != "1":
                raise SwitchProtocolError("the switch answered a command")
            answered(await self._line())

    async def _query(self, text: str) -> str | None:
        """Return the answer to a query; None if the switch knows it and has nothing to say."""
        async with self._conversation(text) as answered:
            await self._write(f"{text}\n*opc?\n")
            answer = (await self._line()).strip()
            if answer != "1":
                if (await self._line()).strip() != "1":
                    raise SwitchProtocolError("the switch sent two answers to one query")
                return answer
            await self._write(":syst:err:all?\n")
            answered(await self._line())
        return None

    @contextlib.asynccontextmanager
    async def _conversation(self, text: str) -> AsyncIterator[Callable[[str], None]]:
        """Bound the time until all answers are there; end the connection if they are not right."""
        shown = text if len(text) <= 60 else f"{text[:57]}..."

        def check(errors: str) -> None:
            match = _ERROR.match(errors.strip())
            if match is None:
                raise SwitchProtocolError("the switch sent no list of errors")
            if code := int(match[1]):
                kind = _DENIALS.get(code, SwitchDeniedError)
                raise kind(str(code), " ".join(match[2].split())[:200], shown)

        limit_s = self._settings.reply_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                yield check
        except TimeoutError:
            await self.close()
            raise SwitchTimeoutError(f"{shown}: no answer within {limit_s:g} s") from None
        except SwitchDeniedError:
            raise
        except BaseException:
            await self.close()
            raise

    async def _send(self, text: str) -> None:
        await self._write(f"{text}\n")

    async def _write(self, text: str) -> None:
        if self._stream is None:
            raise self._not_connected()
        await self._stream.write(text.encode())

    async def _line(self) -> str:
        """Return the next line that the switch sends."""
        while (end := self._received.find(b"\n", self._scanned)) < 0:
            self._scanned = len(self._received)
            if self._scanned > MAX_LINE_BYTES:
                raise SwitchProtocolError(f"the switch sent a line of over {MAX_LINE_BYTES} bytes")
            data = await self._stream.read() if self._stream is not None else b""
            if not data:
                raise SwitchDisconnectedError("the switch closed the connection")
            self._received += data
        line = self._received[:end].decode("ascii", "backslashreplace")
        del self._received[: end + 1]
        self._scanned = 0
        return line


@lru_cache(maxsize=64)
def _circuits(answer: str | None) -> frozenset[CrossConnect]:
    """Return the circuits of two lists of ports, such as ``(@1,2),(@9,10)``; most are as before."""
    text = (answer or "").replace(" ", "")
    if text in _NONE:
        return frozenset()
    match = _LISTS.fullmatch(text)
    sides = [match[side].split(",") for side in (1, 2)] if match else [[], [""]]
    if len(sides[0]) != len(sides[1]) or not all(all(side) for side in sides):
        raise SwitchProtocolError(f"the switch sent {text[:60]!r} as connections")
    return frozenset(
        CrossConnect(str(int(ingress)), str(int(egress)))
        for ingress, egress in zip(*sides, strict=True)
    )


def _items(answer: str | None) -> list[str]:
    """Return the items of an answer such as ``(E,D,F)``."""
    text = (answer or "").strip()
    return [item.strip() for item in text.strip("()").split(",") if item.strip()]
