"""SCPI of an emulated Polatis switch, as laboratories speak it on TCP port 5025.

A line has commands divided by semicolons, each a path of words in their short or long form; what
has no colon in front continues where the command before it was. Only queries are answered, those
of one line in one line. What is refused is a line of the error queue, whose codes are those of
SCPI-1999. No session logs in.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lightloom.control.emulator.device import (
    EmulatedSession,
    EmulatedSwitch,
    NoReplyError,
)
from lightloom.control.emulator.matrix import MatrixRefusalError, Refusal
from lightloom.control.emulator.tcp import TcpService

MAX_LINE_BYTES = 64 * 1024
MAX_ERRORS = 32
_READ_BYTES = 16 * 1024
_LIST = re.compile(r"\(@([0-9, ]*)\)")
_LISTS = re.compile(r"\s*\(@([0-9, ]*)\)\s*,\s*\(@([0-9, ]*)\)\s*")
#: words whose short form is not that of the rule
_SHORT = {"subtract": "sub", "disable": "disa"}
_CODES = {
    Refusal.NO_SUCH_PORT: (-222, "Data out of range"),
    Refusal.WRONG_SIDE: (-222, "Data out of range"),
    Refusal.REPEATED: (-224, "Illegal parameter value"),
    Refusal.BUSY: (-221, "Settings conflict"),
    Refusal.DISABLED: (-221, "Settings conflict"),
    Refusal.FAILED: (-240, "Hardware error"),
}
_STATES = {"enabled": "E", "disabled": "D", "failed": "F"}


class ScpiError(Exception):
    """A command is refused, with a code and a text of SCPI-1999."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(slots=True)
class LineReader:
    """Splits what a client sends into lines, in time proportional to the bytes."""

    _line: bytearray = field(default_factory=bytearray)
    _scanned: int = 0

    def feed(self, data: bytes) -> list[str]:
        """Take bytes and return the lines that they complete.

        Raises
        ------
        ValueError
            If a line is too long.
        """
        self._line += data
        lines = []
        while (end := self._line.find(b"\n", self._scanned)) >= 0:
            lines.append(self._line[:end].decode("ascii", "replace").strip())
            del self._line[: end + 1]
            self._scanned = 0
        self._scanned = len(self._line)
        if self._scanned > MAX_LINE_BYTES:
            raise ValueError("the line is too long")
        return lines


class ScpiService(TcpService):
    """Serves SCPI over TCP.

    Parameters
    ----------
    switch
        Whose circuits, sessions and faults apply.
    """

    def __init__(self, switch: EmulatedSwitch) -> None:
        super().__init__()
        self._switch = switch
        self._commands: dict[str, Callable[[str], Awaitable[str | None]]] = {
            "*idn?": self._identity,
            "*opc?": self._is_complete,
            "*stb?": self._status,
            "*wai": self._nothing,
            "oxc:switch:size?": self._size,
            "oxc:switch:connect:add": self._add,
            "oxc:switch:connect:only": self._set_all,
            "oxc:switch:connect:subtract": self._subtract,
            "oxc:switch:connect:state?": self._connections,
            "oxc:switch:connect:port?": self._peer,
            "oxc:switch:disconnect:all": self._disconnect_all,
            "oxc:switch:port:state?": self._port_states,
            "oxc:switch:port:enable": self._enable,
            "oxc:switch:port:disable": self._disable,
            "pmon:power?": self._powers,
        }
        self._changes = {name for name in self._commands if "connect" in name and "?" not in name}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one session."""
        with self._switch.admitted(EmulatedSession(writer.transport.abort)):
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines, errors = LineReader(), deque[str](maxlen=MAX_ERRORS)
        limit_s = self._switch.idle_close_s or None
        while data := await asyncio.wait_for(reader.read(_READ_BYTES), limit_s):
            for line in lines.feed(data):
                try:
                    answers, in_pieces = await self._run_line(line, errors)
                except NoReplyError:
                    await reader.read()
                    return
                if not answers:
                    continue
                answer = f"{';'.join(answers)}\r\n".encode("ascii", "replace")
                size = 1 if in_pieces else len(answer)
                for start in range(0, len(answer), size):
                    writer.write(answer[start : start + size])
                    await writer.drain()

    async def _run_line(self, line: str, errors: deque[str]) -> tuple[list[str], bool]:
        """Run the commands of a line; return the answers, and whether to send them in pieces."""
        answers: list[str] = []
        in_pieces = False
        path = ""
        for text in filter(None, map(str.strip, line.split(";"))):
            header, _, parameters = text.partition(" ")
            header = header.lower()
            if header.startswith("*"):
                name = header
            else:
                name = self._full_name(header[1:] if header.startswith(":") else path + header)
                path = name[: name.rfind(":") + 1]
            if name == "*cls":
                errors.clear()
                continue
            if name in {"system:error:all?", "system:error?", "system:error:next?"}:
                answers.append(_errors(errors, is_all=name == "system:error:all?"))
                continue
            answer, pieces = await self._run(name, parameters, errors)
            in_pieces |= pieces
            if answer is not None:
                answers.append(answer)
        return answers, in_pieces

    async def _run(self, name: str, parameters: str, errors: deque[str]) -> tuple[str | None, bool]:
        async def run() -> str | None:
            try:
                command = self._commands.get(name)
                if command is None:
                    raise ScpiError(-113, "Undefined header")
                return await command(parameters)
            except ScpiError as error:
                errors.append(f'{error.code},"{error.text}"')
            except MatrixRefusalError as error:
                code, text = _CODES[error.reason]
                errors.append(f'{code},"{text};port {error.port}"')
            return None

        async def deny() -> str | None:
            errors.append('-221,"Settings conflict;refused on demand"')
            return None

        return await self._switch.execute(run, deny, is_change=name in self._changes)

    def _full_name(self, name: str) -> str:
        """Return the long form of a path, the path itself if there is none."""
        words = name.rstrip("?").split(":")
        for path in (*self._commands, "system:error:all?", "system:error:next?", "system:error?"):
            nodes = path.rstrip("?").split(":")
            if len(nodes) == len(words) and path.endswith("?") == name.endswith("?"):
                pairs = zip(words, nodes, strict=True)
                if all(word in {node, _SHORT.get(node, _short(node))} for word, node in pairs):
                    return path
        return name

    async def _identity(self, _: str) -> str:
        identity, (rows, columns) = self._switch.identity, self._switch.matrix.size
        return f"{identity.vendor},{identity.model}-{rows}x{columns},{identity.serial}," + (
            identity.software
        )

    async def _is_complete(self, _: str) -> str:
        return "1"

    async def _status(self, _: str) -> str:
        return "0"

    async def _nothing(self, _: str) -> None:
        return None

    async def _size(self, _: str) -> str:
        return ",".join(map(str, self._switch.matrix.size))

    async def _add(self, parameters: str) -> None:
        await self._switch.change([], _pairs(parameters))

    async def _set_all(self, parameters: str) -> None:
        pairs = _pairs(parameters)
        kept = dict(pairs)
        circuits = self._switch.matrix.circuits
        await self._switch.change([port for port in circuits if port not in kept], pairs)

    async def _subtract(self, parameters: str) -> None:
        circuits = self._switch.matrix.circuits
        pairs = _pairs(parameters)
        for ingress, egress in pairs:
            for port in (ingress, egress):
                if port not in self._switch.matrix.ports:
                    raise MatrixRefusalError(Refusal.NO_SUCH_PORT, port)
            if circuits.get(ingress) != egress:
                raise ScpiError(-221, f"Settings conflict;port {ingress} has no such connection")
        await self._switch.change([ingress for ingress, _ in pairs], [])

    async def _connections(self, _: str) -> str:
        circuits = self._switch.matrix.circuits
        sides = (circuits, circuits.values())
        return ",".join(f"(@{','.join(map(str, ports))})" for ports in sides)

    async def _peer(self, parameters: str) -> str:
        text = parameters.strip()
        if not text.isdecimal() or int(text[:6]) not in self._switch.matrix.ports:
            raise ScpiError(-222, "Data out of range")
        peer = self._switch.matrix.peer_of(int(text))
        return "" if peer is None else str(peer)

    async def _disconnect_all(self, _: str) -> None:
        await self._switch.change(list(self._switch.matrix.circuits), [])

    async def _port_states(self, parameters: str) -> str:
        matrix = self._switch.matrix
        states = (
            _STATES["failed" if p in matrix.failed else "disabled"]
            if p in matrix.failed | matrix.disabled
            else _STATES["enabled"]
            for p in self._ports(parameters)
        )
        return f"({','.join(states)})"

    async def _enable(self, parameters: str) -> None:
        self._switch.set_shutters(self._ports(parameters), is_open=True)

    async def _disable(self, parameters: str) -> None:
        self._switch.set_shutters(self._ports(parameters), is_open=False)

    async def _powers(self, parameters: str) -> str:
        ports = self._ports(parameters)
        if not set(ports) <= self._switch.monitored_ports:
            raise ScpiError(-241, "Hardware missing")
        return f"({','.join(f'{self._switch.matrix.power_dbm(port):.2f}' for port in ports)})"

    def _ports(self, parameters: str) -> list[int]:
        """Return the ports of a list, all if there is none."""
        if not parameters.strip():
            return list(self._switch.matrix.ports)
        match = _LIST.fullmatch(parameters.strip())
        if match is None:
            raise ScpiError(-102, "Syntax error")
        ports = _numbers(match[1])
        if bad := [port for port in ports if port not in self._switch.matrix.ports]:
            raise ScpiError(-222, f"Data out of range;port {bad[0]}")
        return ports


def _short(word: str) -> str:
    """Return the short form of a word: four letters, or three if the fourth is a vowel."""
    if len(word) <= 4:
        return word
    return word[:3] if word[3] in "aeiou" else word[:4]


def _errors(errors: deque[str], *, is_all: bool) -> str:
    """Return the oldest error, or all of them, and forget what is returned."""
    if not errors:
        return '0,"No error"'
    if not is_all:
        return errors.popleft()
    text = ",".join(errors)
    errors.clear()
    return text


def _pairs(parameters: str) -> list[tuple[int, int]]:
    """Return the pairs of two lists, the lower port of each first."""
    match = _LISTS.fullmatch(parameters)
    if match is None:
        raise ScpiError(-102, "Syntax error")
    ingress, egress = _numbers(match[1]), _numbers(match[2])
    if len(ingress) != len(egress):
        raise ScpiError(-223, "Too much data;lists of different lengths")
    return [(min(pair), max(pair)) for pair in zip(ingress, egress, strict=True)]


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isdecimal() and len(word) <= 6 for word in words):
        raise ScpiError(-102, "Syntax error")
    return [int(word) for word in words]
