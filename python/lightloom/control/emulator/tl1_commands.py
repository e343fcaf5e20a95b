"""TL1 commands as the emulator reads them, and the replies that it writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: maximum length of a command
MAX_COMMAND_BYTES = 64 * 1024
#: maximum number of ports that a list may name
MAX_LIST = 4096

#: what ends a command or begins quotes, and what is special in them
_STOP = re.compile(rb'[;"]')
_IN_QUOTES = re.compile(rb'["\\]')
_PART = re.compile(r'(?:[^:"]|"(?:[^"\\]|\\.)*")*')
_PORT = re.compile(r"[0-9]{1,6}")


class CommandDeniedError(Exception):
    """The command is refused.

    Parameters
    ----------
    code
        Error code, such as ``IDNV``.
    text
        Explanation.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


@dataclass(frozen=True, slots=True)
class Tl1Command:
    """One command, in parts.

    Attributes
    ----------
    verb
        In capitals, such as ``ENT-PATCH``.
    tid
        Name of the switch that it is for; empty for any.
    aid
        Access identifier.
    tag
        Correlation tag.
    general
        General block.
    blocks
        The blocks that follow it.
    """

    verb: str
    tid: str = ""
    aid: str = ""
    tag: str = ""
    general: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, str]:
        """Values of ``NAME=VALUE`` in all blocks, by name in capitals."""
        pairs = (text.partition("=") for block in self.blocks for text in block.split(","))
        return {name.strip().upper(): value.strip() for name, equals, value in pairs if equals}


@dataclass(slots=True)
class CommandReader:
    """Splits what a client sends into commands; it holds at most one incomplete command."""

    _command: bytearray = field(default_factory=bytearray)
    _scanned: int = 0
    _is_quoted: bool = False

    def feed(self, data: bytes) -> list[str]:
        """Take bytes and return the commands that they complete, without the semicolons.

        The time is proportional to the bytes, however they are divided.

        Raises
        ------
        ValueError
            If a command is too long.
        """
        self._command += data
        commands = []
        while (end := self._end()) >= 0:
            commands.append(self._command[:end].decode("ascii", "replace").strip())
            del self._command[: end + 1]
            self._scanned = 0
        if len(self._command) > MAX_COMMAND_BYTES:
            raise ValueError("the command is too long")
        return [command for command in commands if command]

    def _end(self) -> int:
        """Return the index of the semicolon that ends the command, -1 if it has not come."""
        while True:
            pattern = _IN_QUOTES if self._is_quoted else _STOP
            match = pattern.search(self._command, self._scanned)
            if match is None:
                self._scanned = len(self._command)
                return -1
            if match[0] == b"\\":
                if match.end() == len(self._command):
                    self._scanned = match.start()
                    return -1
                self._scanned = match.end() + 1
                continue
            self._scanned = match.end()
            if match[0] == b";":
                return match.start()
            self._is_quoted = not self._is_quoted


def parse_command(text: str, *, needs_tag: bool = True) -> Tl1Command:
    """Return the parts of a command.

    Parameters
    ----------
    text
        The command without its semicolon.
    needs_tag
        Whether a command without a tag is refused; else the tag is 0.

    Raises
    ------
    CommandDeniedError
        If it has no tag or cannot be divided.
    """
    parts, index = [], 0
    while True:
        match = _PART.match(text, index)
        assert match is not None
        parts.append(match[0].strip())
        index = match.end()
        if index >= len(text):
            break
        if text[index] != ":":
            raise CommandDeniedError("IICT", f"Parse error at offset {index} in command")
        index += 1
    verb, tid, aid, tag, general = (*parts, "", "", "", "")[:5]
    if not tag and not needs_tag:
        tag = "0"
    if not tag:
        raise CommandDeniedError("IICT", f"Parse error at offset {len(text)} in command")
    return Tl1Command(verb.upper(), unquoted(tid), aid, unquoted(tag), general, tuple(parts[5:]))


def unquoted(text: str) -> str:
    """Return a value without its quotes."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def ports_from(text: str) -> list[int]:
    """Return the ports of a list such as ``1&2&&5``, in which ``&&`` makes a range.

    Raises
    ------
    CommandDeniedError
        If a part is no port, or there are too many.
    """
    ports: list[int] = []
    for part in re.split(r"(?<!&)&(?!&)", text):
        first, dots, last = part.partition("&&")
        low, high = port_from(first), port_from(last) if dots else port_from(first)
        if high - low >= MAX_LIST or len(ports) >= MAX_LIST:
            raise CommandDeniedError("IIAC", "List too long")
        ports += range(low, high + 1)
    return ports


def port_from(text: str) -> int:
    """Return the number of a port.

    Raises
    ------
    CommandDeniedError
        If it is none.
    """
    text = text.strip()
    if not _PORT.fullmatch(text):
        raise CommandDeniedError("IDNV", f"Invalid OXC port: {text[:20]}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Tl1Reply:
    """A reply: its completion code and its lines."""

    code: str = "COMPLD"
    rows: tuple[str, ...] = ()
    error: str = ""
    comment: str = ""

    def render(self, tag: str, sid: str, time: str, page_rows: int = 0) -> bytes:
        """Return the text of the reply, in pages of some rows unless their number is 0."""
        lines = [f"M  {tag} {self.code}"]
        if self.error:
            lines += [f"   {self.error}", f"   /* {self.comment.replace('*/', '')} */"]
        size = page_rows or max(len(self.rows), 1)
        pages = [self.rows[start : start + size] for start in range(0, len(self.rows), size)]
        ends = ">" * (len(pages) - 1) + ";"
        return b"".join(
            render_message([*lines, *(f'   "{row}"' for row in page)], sid, time, end)
            for page, end in zip(pages or [()], ends, strict=True)
        )


def render_message(lines: list[str], sid: str, time: str, end: str = ";") -> bytes:
    """Return the text of a message with its header; ``>`` ends a page that others follow."""
    header = f"   {sid or '( nil )'} {time}"
    body = "".join(f"{line.replace(';', ',')}\r\n" for line in (header, *lines))
    return f"\r\n{body}{end}".encode("ascii", "replace")


def refusal(error: CommandDeniedError) -> Tl1Reply:
    """Return the reply that refuses a command."""
    return Tl1Reply("DENY", error=error.code, comment=error.text)
