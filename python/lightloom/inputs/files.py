"""One bounded way to open and read a file: what cannot be read becomes one clear line.

A file is looked at before it is read: only regular files are, up to a limit, so that a device, a
pipe or a huge file costs nothing.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lightloom.errors import InputError, echo

#: the name that stands for standard input
STDIN = "-"
#: limit of what a person writes: studies, scenarios, prices, fabrics
MAX_TEXT_BYTES = 1_000_000

#: what files begin with that gzip has compressed
_GZIP = b"\x1f\x8b"

#: what an address begins with; a path has one slash of its two
_URL = re.compile(r"^(https?|s3|gs|hf):/+")

#: class of the error that a reader raises
Refusal = type[InputError]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_file(path: Path, noun: str, limit_bytes: int, error: Refusal = InputError) -> BinaryIO:
    """Open a regular file of at most ``limit_bytes``.

    Parameters
    ----------
    path
        The file.
    noun
        What it is, for messages, such as ``"price list"``.
    limit_bytes
        Maximum size.
    error
        Class of the error that is raised.

    Raises
    ------
    InputError
        If it is absent, no regular file, too large or not readable.
    """
    name = shown_path(path)
    try:
        # a pipe without a writer would block
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        remote = "; download it, and give the path of the file" if is_url(name) else ""
        raise error(f"{name}: no such file{remote}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "not a usable path"
        raise error(f"{name}: cannot read the {noun}: {reason[:1].lower()}{reason[1:]}") from None
    status = os.fstat(handle)
    kind = next((words for test, words in _KINDS if test(status.st_mode)), None)
    if kind is not None or status.st_size > limit_bytes:
        os.close(handle)
        if kind is None:
            raise error(f"{name}: {status.st_size:,} bytes exceed the limit of {limit_bytes:,}")
        hint = "; '-' stands for standard input" if kind == "a pipe" else ""
        raise error(f"{name}: expected a file, got {kind}{hint}")
    return os.fdopen(handle, "rb")


def read_file(path: Path, noun: str, limit_bytes: int, error: Refusal = InputError) -> bytes:
    """Read a regular file of at most ``limit_bytes``; see :func:`open_file`."""
    with open_file(path, noun, limit_bytes, error) as stream:
        try:
            return stream.read(limit_bytes + 1)
        except OSError as problem:
            raise error(f"{shown_path(path)}: cannot read the {noun}: {problem.strerror}") from None


def read_compressed(path: Path, noun: str, limit_bytes: int, error: Refusal = InputError) -> bytes:
    """Read a file that gzip may have compressed, of at most ``limit_bytes`` in either form.

    Raises
    ------
    InputError
        As :func:`open_file`, or if it is no whole gzip file.
    """
    content = read_file(path, noun, limit_bytes, error)
    if not content.startswith(_GZIP):
        return content
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = reader.decompress(content, limit_bytes + 1)
    except zlib.error:
        raise error(f"{shown_path(path)}: not a valid gzip file") from None
    if len(plain) > limit_bytes:
        raise error(f"{shown_path(path)}: unpacked it exceeds the limit of {limit_bytes:,} bytes")
    if not reader.eof:
        raise error(f"{shown_path(path)}: the gzip file ends too early")
    return plain


def read_input(
    path: Path | str, noun: str, limit_bytes: int, error: Refusal = InputError
) -> tuple[bytes, str]:
    """Read a file, or standard input for ``-``; returns its name for messages as well.

    Raises
    ------
    InputError
        If it cannot be read or is larger than ``limit_bytes``.
    """
    if str(path) != STDIN:
        return read_file(Path(path), noun, limit_bytes, error), shown_path(path)
    if sys.stdin is None:
        raise error("standard input: is closed; give a file")
    content = sys.stdin.buffer.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise error(f"standard input: the {noun} exceeds the limit of {limit_bytes:,} bytes")
    return content, "standard input"


def is_url(text: str) -> bool:
    """Whether a name is an address of the web."""
    return _URL.match(text) is not None


def shown_path(path: Path | str) -> str:
    """A path for a message, on one line; an address has the slashes that a path lacks."""
    return echo(_URL.sub(r"\1://", str(path)), quoted=False, limit=200)


def decode(content: bytes, name: str, error: Refusal = InputError) -> str:
    """Text in UTF-8, without a byte order mark.

    Raises
    ------
    InputError
        If it is something else.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(f"{name}: not UTF-8 text") from None


def lines_of(
    stream: BinaryIO, name: str, limit_bytes: int, error: Refusal = InputError
) -> Iterator[tuple[str, bytes]]:
    """Yield ``("name, line 3", text)`` for each line that is not blank.

    Raises
    ------
    InputError
        If a line is longer than ``limit_bytes``.
    """
    number = 0
    while text := stream.readline(limit_bytes + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(text) > limit_bytes:
            raise error(f"{where}: longer than the limit of {limit_bytes:,} bytes")
        if text.strip():
            yield where, text


def first_line(text: str) -> str:
    """The first line of a text."""
    return text.splitlines()[0] if text else ""
