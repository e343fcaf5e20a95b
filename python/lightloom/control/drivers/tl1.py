"""Transaction Language 1 (TL1) as text: an incremental parser of what a switch sends.

A message has a header line (name of the switch, date, time), a line that says what it is, and
rows; a semicolon ends it. The kinds are those of Telcordia GR-831 and GR-833: ``M`` a response to
a command, ``A`` (and ``*C``, ``**``, ``*``) a report that nobody requested, ``IP`` and its like the
acknowledgment that a response will come later.

The parser takes bytes in any pieces and never waits for a line break after a terminator. It holds
at most one message and refuses lines and messages that are too long. What is not TL1 becomes a
message of the kind ``UNKNOWN``: over SSH a terminal may echo commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lightloom.control.switch import (
    InvalidParameterError,
    InvalidTargetError,
    PermissionRefusedError,
    SwitchBusyError,
    SwitchDeniedError,
    SwitchProtocolError,
    UnsupportedCommandError,
)

#: maximum length of a line and of a message
MAX_LINE_BYTES = 8 * 1024
MAX_MESSAGE_BYTES = 1024 * 1024
#: maximum number of lines of a message; a switch of 4096 ports needs one per port
MAX_LINES = 16 * 1024

_HEADER = re.compile(r"(?P<sid>.*?)\s*(?<!\S)\d{2,4}-\d{1,2}-\d{1,2}\s+\d{1,2}:\d{2}:\d{2}$")
_RESPONSE = re.compile(r"M\s+(?P<tag>\S.*?)\s+(?P<code>[A-Z]+)$")
_REPORT = re.compile(r"(?:A|\*C|\*\*|\*)\s+(?P<tag>\S+)\s+(?P<code>REPT\b.*|\S.*)$")
_ACKNOWLEDGMENT = re.compile(r"(?P<code>IP|PF|OK|NA|NG|RL)\s+(?P<tag>\S+)$")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_BLANK = b" \t\r\0"
#: what may stand between messages: line breaks and prompts
_BETWEEN = re.compile(rb"[ \t\r\n\0<>]*")
_MARK = re.compile(rb"[ \t\r\0]*[<>]")
_STOP = re.compile(rb'[;"]|/\*')
#: what a name may consist of without quotes
_PLAIN = re.compile(r"[A-Za-z0-9_.\-]+")


class MessageKind(StrEnum):
    """What a message is."""

    RESPONSE = "response"
    REPORT = "report"
    ACKNOWLEDGMENT = "acknowledgment"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tl1Message:
    """One message of a switch.

    Attributes
    ----------
    kind
        What it is.
    sid
        Name of the switch; empty if none is set.
    tag
        Correlation tag of the command, or the number of a report.
    code
        Completion code (``COMPLD``, ``DENY``), kind of acknowledgment, or name of the report.
    rows
        Text of the quoted lines, without quotes.
    words
        Unquoted lines; the first one of a refusal is its error code.
    comments
        Text of the lines between ``/*`` and ``*/``.
    """

    kind: MessageKind
    sid: str = ""
    tag: str = ""
    code: str = ""
    rows: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def is_completed(self) -> bool:
        """Whether the command was executed."""
        return self.kind is MessageKind.RESPONSE and self.code == "COMPLD"

    @property
    def error_code(self) -> str:
        """Code of a refusal, such as ``IDNV``."""
        return self.words[0] if self.words else self.code

    @property
    def text(self) -> str:
        """Explanation of a refusal or content of a report, as one line."""
        return "; ".join((*self.comments, *self.words[1:], *self.rows))


class Tl1Parser:
    """Splits a stream of bytes into messages.

    Parameters
    ----------
    max_line_bytes, max_message_bytes
        Bounds; a stream that exceeds one is refused.
    """

    def __init__(
        self,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._max_line_bytes = max_line_bytes
        self._max_message_bytes = max_message_bytes
        self._partial = b""
        self._lines: list[bytes] = []
        self._message_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Size of the incomplete message."""
        return self._message_bytes + len(self._partial)

    def feed(self, data: bytes) -> list[Tl1Message]:
        """Take bytes and return the messages that they complete.

        Raises
        ------
        SwitchProtocolError
            If a line or a message is too long; the parser must not be used again.
        """
        messages: list[Tl1Message] = []
        data = self._partial + data
        start, newline = 0, data.find(b"\n")
        while True:
            if not self._lines:
                start = _BETWEEN.match(data, start).end()  # type: ignore[union-attr]
            if 0 <= newline < start:
                newline = data.find(b"\n", start)
            limit = min(len(data), start + self._max_line_bytes + 1)
            is_complete = 0 <= newline < limit
            stop = newline if is_complete else limit
            end = _end_of_message(data, start, stop, is_complete=is_complete)
            if end >= 0:
                self._keep(data[start:end])
                messages += self._finish()
                start = end + 1
            elif is_complete:
                self._keep(data[start:stop])
                start = newline + 1
            else:
                self._check(stop - start, self._message_bytes + stop - start)
                self._partial = data[start:stop]
                return messages

    def _keep(self, line: bytes) -> None:
        self._check(len(line), self._message_bytes + len(line) + 1)
        line = line.strip(_BLANK)
        if line:
            self._lines.append(line)
            self._message_bytes += len(line) + 1

    def _check(self, line_bytes: int, message_bytes: int) -> None:
        if line_bytes > self._max_line_bytes:
            raise SwitchProtocolError(
                f"the switch sent a line of over {self._max_line_bytes} bytes"
            )
        if message_bytes > self._max_message_bytes:
            raise SwitchProtocolError(
                f"the switch sent a message of over {self._max_message_bytes} bytes"
            )
        if len(self._lines) > MAX_LINES:
            raise SwitchProtocolError(f"the switch sent a message of over {MAX_LINES} lines")

    def _finish(self) -> list[Tl1Message]:
        lines = [line.decode("ascii", "backslashreplace") for line in self._lines]
        self._lines, self._message_bytes = [], 0
        return [parse_message(lines)] if lines else []


def _end_of_message(data: bytes, start: int, stop: int, *, is_complete: bool) -> int:
    """Return the index of the terminator in the line from ``start`` to ``stop``, -1 if none.

    A semicolon in quotes or in a comment ends nothing, unless the line ends before they do. ``<``
    ends an acknowledgment and ``>`` is a prompt, both at the beginning of a line.
    """
    mark = _MARK.match(data, start, stop)
    if mark is not None:
        return mark.end() - 1
    index = start
    while (match := _STOP.search(data, index, stop)) is not None:
        if match[0] == b";":
            return match.start()
        closed = (_QUOTED if match[0] == b'"' else _COMMENT).match(data, match.start(), stop)
        if closed is None:
            return data.find(b";", match.end(), stop) if is_complete else -1
        index = closed.end()
    return -1


def parse_message(lines: list[str]) -> Tl1Message:
    """Return the message that stripped, non-empty lines before a terminator are."""
    header = _HEADER.match(lines[0])
    sid = header["sid"] if header else ""
    if sid.replace(" ", "") == "(nil)":
        sid = ""
    body = lines[1:] if header else lines
    if body:
        for kind, pattern in (
            (MessageKind.RESPONSE, _RESPONSE),
            (MessageKind.ACKNOWLEDGMENT, _ACKNOWLEDGMENT),
            (MessageKind.REPORT, _REPORT),
        ):
            if (match := pattern.match(body[0])) is not None:
                rows, words, comments = _sort_lines(body[1:])
                return Tl1Message(kind, sid, match["tag"], match["code"], rows, words, comments)
    return Tl1Message(MessageKind.UNKNOWN, sid, words=tuple(body))


def _sort_lines(
    lines: list[str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return rows, words and comments."""
    rows, words, comments = [], [], []
    for line in lines:
        if line.startswith('"'):
            rows.append(unquote(line))
        elif line.startswith("/*"):
            comments.append(line[2:].removesuffix("*/").strip())
        else:
            words.append(line)
    return tuple(rows), tuple(words), tuple(comments)


def unquote(text: str) -> str:
    """Return what stands between the outer quotes, with escaped characters resolved."""
    inner = text[1:-1] if len(text) > 1 and text.endswith('"') else text[1:]
    return re.sub(r"\\(.)", r"\1", inner)


def quote(text: str) -> str:
    """Return text as a TL1 value: as it is if it is a plain word, else in quotes."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


#: error codes that say what was wrong; the first letter classifies all others
_DENIALS: dict[str, type[SwitchDeniedError]] = {
    "IDNV": InvalidTargetError,
    "IIAC": InvalidTargetError,
    "IITA": InvalidTargetError,
    "IICM": UnsupportedCommandError,
    "ICNV": UnsupportedCommandError,
}
_DENIALS_BY_LETTER: dict[str, type[SwitchDeniedError]] = {
    "I": InvalidParameterError,
    "P": PermissionRefusedError,
    "S": SwitchBusyError,
    "E": UnsupportedCommandError,
}


def denial(message: Tl1Message, command: str) -> SwitchDeniedError:
    """Return the error that a response other than ``COMPLD`` stands for."""
    code = message.error_code
    if "not logged in" in message.text.lower():
        return PermissionRefusedError(code, message.text, command)
    kind = _DENIALS.get(code) or _DENIALS_BY_LETTER.get(code[:1], SwitchDeniedError)
    return kind(code, message.text, command)
