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

#: date and time at the end of a header
_DATE = re.compile(r"\d{2,4}-\d{1,2}-\d{1,2}")
_TIME = re.compile(r"\d{1,2}:\d{2}:\d{2}")
_COMPLETION = re.compile(r"[A-Z]+")
_REPORTS = {"A", "*C", "**", "*"}
_ACKNOWLEDGMENTS = {"IP", "PF", "OK", "NA", "NG", "RL"}
_BLANK = b" \t\r\0"
# No pattern below goes back: what it has passed is never looked at again.
#: what may stand between messages: line breaks and prompts
_BETWEEN = re.compile(rb"[ \t\r\n\0<>]*")
_INDENT = re.compile(rb"[ \t\r\0]*")
#: what ends a message, a line, or begins what may contain either
_STOP = re.compile(rb'[;\n"]|/\*')
#: what ends a line, or is special in quotes and in a comment
_IN_QUOTES = re.compile(rb'[\n"\\]')
_IN_COMMENT = re.compile(rb"\n|\*/")
#: whole lines in quotes without anything special, as most of a long reply are
_ROWS = re.compile(rb'(?:[ \t\r\0]*"[^";\\\n]*"[ \t\r\0]*\n)+')
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
    continues
        Whether it is a page of a response and another one follows: ``>`` ends it.
    """

    kind: MessageKind
    sid: str = ""
    tag: str = ""
    code: str = ""
    rows: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    continues: bool = False

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
        #: the line that has not ended, and how much of it was looked at
        self._line = bytearray()
        self._scanned = 0
        self._is_indent = True
        #: what is open, quotes or a comment, and where its content begins
        self._open: re.Pattern[bytes] | None = None
        self._opened = 0
        self._lines: list[bytes] = []
        self._message_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Size of the incomplete message."""
        return self._message_bytes + len(self._line)

    def feed(self, data: bytes) -> list[Tl1Message]:
        """Take bytes and return the messages that they complete.

        The time is proportional to the bytes, whatever they are and however they are divided.

        Raises
        ------
        SwitchProtocolError
            If a line or a message is too long; the parser must not be used again.
        """
        self._line += data
        messages: list[Tl1Message] = []
        while True:
            if not self._lines and not self._scanned:
                between = _BETWEEN.match(self._line)
                assert between is not None
                del self._line[: between.end()]
            elif not self._scanned and (rows := _ROWS.match(self._line)) is not None:
                self._keep_rows(rows[0])
                del self._line[: rows.end()]
            end = self._end_of_line()
            if end < 0:
                self._check(len(self._line), self._message_bytes + len(self._line))
                return messages
            mark = self._line[end : end + 1]
            self._keep(bytes(self._line[:end]))
            del self._line[: end + 1]
            self._scanned, self._is_indent, self._open = 0, True, None
            if mark != b"\n":
                messages += self._finish(continues=mark == b">")

    def _end_of_line(self) -> int:
        """Return the index of what ends the line or the message, -1 if that has not come.

        A semicolon in quotes or in a comment ends nothing, unless the line ends before they do.
        ``<`` ends an acknowledgment and ``>`` a page, both at the beginning of a line.
        """
        line = self._line
        stop = min(len(line), self._max_line_bytes + 1)
        if self._is_indent:
            indent = _INDENT.match(line, self._scanned, stop)
            assert indent is not None
            self._scanned = indent.end()
            if self._scanned == stop:
                return -1
            self._is_indent = False
            if line[self._scanned] in b"<>":
                return self._scanned
        while True:
            # a part of a two-byte mark may still come
            match = (self._open or _STOP).search(line, self._scanned, stop)
            if match is None:
                is_half = line.endswith((b"/", b"*"), 0, stop)
                self._scanned = max(self._scanned, stop - is_half)
                return -1
            mark, self._scanned = bytes(match[0]), match.end()
            if mark == b"\n":
                semicolon = line.find(b";", self._opened, match.start()) if self._open else -1
                return match.start() if semicolon < 0 else semicolon
            if mark == b";":
                return match.start()
            if mark == b"\\":
                if self._scanned == stop:
                    self._scanned -= 1
                    return -1
                self._scanned += line[self._scanned : self._scanned + 1] != b"\n"
            elif self._open is not None:
                self._open = None
            else:
                self._open = _IN_QUOTES if mark == b'"' else _IN_COMMENT
                self._opened = self._scanned

    def _keep(self, line: bytes) -> None:
        self._check(len(line), self._message_bytes + len(line) + 1)
        line = line.strip(_BLANK)
        if line:
            self._lines.append(line)
            self._message_bytes += len(line) + 1

    def _keep_rows(self, data: bytes) -> None:
        """Keep many lines as :meth:`_keep` keeps one."""
        lines = data.split(b"\n")[:-1]
        kept = [line.strip(_BLANK) for line in lines]
        kept_bytes = sum(map(len, kept)) + len(kept)
        self._check(max(map(len, lines)), self._message_bytes + kept_bytes)
        self._lines += kept
        self._message_bytes += kept_bytes

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

    def _finish(self, *, continues: bool) -> list[Tl1Message]:
        lines = [line.decode("ascii", "backslashreplace") for line in self._lines]
        self._lines, self._message_bytes = [], 0
        return [parse_message(lines, continues=continues)] if lines else []


def parse_message(lines: list[str], *, continues: bool = False) -> Tl1Message:
    """Return the message that stripped, non-empty lines before a terminator are."""
    sid, is_header = _sid_of(lines[0])
    body = lines[1:] if is_header else lines
    if body and (head := _head_of(body[0])) is not None:
        kind, tag, code = head
        rows, words, comments = _sort_lines(body[1:])
        more = continues and kind is MessageKind.RESPONSE
        return Tl1Message(kind, sid, tag, code, rows, words, comments, more)
    return Tl1Message(MessageKind.UNKNOWN, sid, words=tuple(body))


def _sid_of(line: str) -> tuple[str, bool]:
    """Return the name that a header has, and whether the line is one."""
    name, date, time = ("", "", *line.rsplit(None, 2))[-3:]
    if not (_DATE.fullmatch(date) and _TIME.fullmatch(time)):
        return "", False
    return "" if name.replace(" ", "") == "(nil)" else name, True


def _head_of(line: str) -> tuple[MessageKind, str, str] | None:
    """Return kind, tag and code of the line that says what a message is."""
    mark, *rest = line.split(None, 1)
    text = rest[0] if rest else ""
    if mark == "M":
        tag, *code = text.rsplit(None, 1)[:2] or ("",)
        if code and _COMPLETION.fullmatch(code[0]):
            return MessageKind.RESPONSE, tag, code[0]
    words = text.split(None, 1)
    if mark in _ACKNOWLEDGMENTS and len(words) == 1:
        return MessageKind.ACKNOWLEDGMENT, text, mark
    if mark in _REPORTS and len(words) == 2:
        return MessageKind.REPORT, words[0], words[1]
    return None


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
    return re.sub(r"\\(.)", r"\1", inner) if "\\" in inner else inner


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
