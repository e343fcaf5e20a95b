"""The token of the service: made once, readable by its owner alone, compared in constant time."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from lightloom.control.refusals import RegionFileError
from lightloom.inputs.files import read_file, shown_path

_MIN_CHARACTERS, _MAX_BYTES = 16, 4096


def read_token(path: Path, *, make: bool = False) -> str:
    """Read the token of a service.

    Parameters
    ----------
    path
        Its file, which nobody but its owner may read.
    make
        Whether to make a token if there is no file.

    Raises
    ------
    RegionFileError
        If there is none, it is too short, or others may read it.
    """
    if make and not path.exists():
        _make(path)
    text = read_file(path, "token", _MAX_BYTES, RegionFileError).decode("ascii", "replace").strip()
    if len(text) < _MIN_CHARACTERS or not text.isascii() or not text.isprintable():
        raise RegionFileError(
            f"{shown_path(path)}: expected a token of at least {_MIN_CHARACTERS} ASCII characters"
        )
    if path.stat().st_mode & 0o077:
        raise RegionFileError(f"{shown_path(path)}: others may read the token; run chmod 600 on it")
    return text


def _make(path: Path) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise RegionFileError(
            f"{shown_path(path)}: cannot make the token: {error.strerror}"
        ) from None
    with os.fdopen(handle, "w") as stream:
        stream.write(f"{secrets.token_urlsafe(32)}\n")


def is_token(presented: object, token: str) -> bool:
    """Whether what was given is the token."""
    return isinstance(presented, str) and hmac.compare_digest(presented.encode(), token.encode())
