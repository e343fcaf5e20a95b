"""Files that nobody but their owner may read or replace: tokens, passwords and the journal.

A file is refused where it is a symbolic link, belongs to another user, or is open to others: who
can put a link or a file there could choose the tokens, or have a file of the owner overwritten.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from lightloom.control.refusals import RegionFileError
from lightloom.inputs.files import Refusal, shown_path

_MODE = 0o600
_OTHERS = 0o077


def read_private(
    path: Path, noun: str, limit_bytes: int, error: Refusal = RegionFileError
) -> bytes:
    """Read a file that is its owner's alone.

    Parameters
    ----------
    path
        The file; no symbolic link.
    noun
        What it holds, for messages, such as ``"token"``.
    limit_bytes
        Maximum size.
    error
        Class of the error that is raised.

    Raises
    ------
    InputError
        If it is absent, a link, of another user, open to others or too large.
    """
    name = shown_path(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise error(f"{name}: no such file") from None
    except (OSError, ValueError) as problem:
        raise error(f"{name}: cannot read the {noun}: {_reason(problem)}") from None
    try:
        _check(os.fstat(handle), name, noun, error)
    except error:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as stream:
        content = stream.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise error(f"{name}: the {noun} exceeds the limit of {limit_bytes:,} bytes")
    return content


def make_private(path: Path, content: bytes, noun: str, error: Refusal = RegionFileError) -> None:
    """Write a file that is its owner's alone and was not there before.

    Raises
    ------
    InputError
        If there is something at this path, or it cannot be written.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
    except (OSError, ValueError) as problem:
        reason = _reason(problem)
        raise error(f"{shown_path(path)}: cannot make the {noun}: {reason}") from None


def keep_private(path: Path, noun: str, error: type[Exception] = RegionFileError) -> None:
    """Make a file that SQLite is about to open its owner's alone: empty if it is not there.

    A file that is there is never opened here: the locks that this process has on it would go with
    the handle. What SQLite puts beside it gets the same mode.

    Raises
    ------
    Exception
        Of the class ``error``, if it is a link or of another user.
    OSError
        If it cannot be made.
    """
    name = shown_path(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE))
    except FileExistsError:
        status = os.lstat(path)
        if status.st_mode & _OTHERS and status.st_uid == os.geteuid():
            _check_kind(status, name, error)
            os.chmod(path, _MODE)
    _check(os.lstat(path), name, noun, error)


def _check_kind(status: os.stat_result, name: str, error: type[Exception]) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise error(f"{name}: a symbolic link; name the file itself")
    if not stat.S_ISREG(status.st_mode):
        raise error(f"{name}: expected a file")


def _check(status: os.stat_result, name: str, noun: str, error: type[Exception]) -> None:
    _check_kind(status, name, error)
    if status.st_uid != os.geteuid():
        raise error(f"{name}: the {noun} belongs to user {status.st_uid}, not to who runs this")
    if status.st_mode & _OTHERS:
        raise error(f"{name}: others may read the {noun}; run chmod 600 on it")


def _reason(problem: OSError | ValueError) -> str:
    if isinstance(problem, OSError) and problem.errno == errno.ELOOP:
        return "a symbolic link; name the file itself"
    return (getattr(problem, "strerror", None) or "not a usable path").lower()
