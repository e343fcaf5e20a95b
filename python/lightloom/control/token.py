"""The tokens of the service: one for each client, with a role, in a file that is read again.

A line is ``NAME ROLE TOKEN``; what begins with ``#`` is left out. A file of one word is the token
of one client of the role ``job``. The file belongs to its owner alone; tokens are compared in
constant time, each with what was shown, and are in no representation of an object.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from lightloom.control.private_files import make_private, read_private
from lightloom.control.refusals import RegionFileError
from lightloom.errors import echo, expected_one_of
from lightloom.inputs.files import shown_path

#: characters of a token, which fits the first frame of a connection
_MIN_CHARACTERS, _MAX_CHARACTERS = 16, 512
_MAX_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LINE = "expected NAME ROLE TOKEN"


class ClientRole(IntEnum):
    """What a client may do; each may do what those before it may."""

    VIEW = 1
    JOB = 2
    OPERATOR = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class ClientToken:
    """A client of the service.

    Attributes
    ----------
    name
        Under which its requests are journaled.
    role
        What it may do.
    text
        What it shows.
    """

    name: str
    role: ClientRole
    text: str = field(repr=False)


class TokenFile:
    """The tokens of a service; what is written to the file counts from the next look on.

    Parameters
    ----------
    path
        The file.
    make
        Whether to make it if it is not there, with a client ``job`` and a client ``operator``.
    hide
        Called with the texts of tokens whenever they are read, so that no log has them.

    Raises
    ------
    RegionFileError
        If it cannot be used.
    """

    def __init__(
        self, path: Path, *, make: bool = False, hide: Callable[[list[str]], None] | None = None
    ) -> None:
        self.path, self._hide = path, hide or (lambda _texts: None)
        if make and not os.path.lexists(path):
            _make(path)
        self._stamp = _stamp(path)
        self.tokens = self._read()
        #: why the file as it is now cannot be used; empty if it can
        self.problem = ""

    def refresh(self) -> bool:
        """Read the file again if it has changed; whether it had, and could be used.

        As long as it cannot be used, the tokens that were read before count, and ``problem`` says
        what is wrong with it.
        """
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return False
        try:
            self.tokens = self._read()
        except RegionFileError as error:
            self.problem = str(error)
            return False
        self._stamp, self.problem = stamp, ""
        return True

    def _read(self) -> tuple[ClientToken, ...]:
        tokens = read_tokens(self.path)
        self._hide([token.text for token in tokens])
        return tokens

    def identify(self, shown: object) -> ClientToken | None:
        """Return the client whose token was shown; None if it is nobody's."""
        if not isinstance(shown, str):
            return None
        digest = _digest(shown)
        client = None
        for token in self.tokens:
            if hmac.compare_digest(digest, _digest(token.text)):
                client = token
        return client


def read_tokens(path: Path) -> tuple[ClientToken, ...]:
    """Read the tokens of a service.

    Parameters
    ----------
    path
        Their file, which nobody but its owner may read.

    Raises
    ------
    RegionFileError
        If there is none, others may read it, or a line is wrong.
    """
    name = shown_path(path)
    text = read_private(path, "token", _MAX_BYTES).decode("ascii", "replace")
    lines = [
        (number, line.split())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) == 1 and len(lines[0][1]) == 1:
        lines = [(lines[0][0], ["job", str(ClientRole.JOB), *lines[0][1]])]
    tokens = tuple(_token(f"{name}, line {number}", words) for number, words in lines)
    if not tokens:
        raise RegionFileError(f"{name}: no token; {_LINE}")
    for kind in ("name", "text"):
        values = [getattr(token, kind) for token in tokens]
        if len(set(values)) < len(values):
            what = "name" if kind == "name" else "token"
            raise RegionFileError(f"{name}: two clients have the same {what}")
    return tokens


def token_for(path: Path, role: ClientRole = ClientRole.JOB) -> str:
    """Return the token of the first client in a file that has a role, for use as this client.

    Raises
    ------
    RegionFileError
        If the file cannot be used, or nobody in it has the role.
    """
    for token in read_tokens(path):
        if token.role is role:
            return token.text
    raise RegionFileError(
        f"{shown_path(path)}: no client of the role {role}; add a line NAME {role} TOKEN"
    )


def _token(where: str, words: Sequence[str]) -> ClientToken:
    if len(words) != 3:
        raise RegionFileError(f"{where}: {_LINE}, got {len(words)} words")
    name, role, text = words
    if _NAME.fullmatch(name) is None:
        raise RegionFileError(
            f"{where}: {echo(name)}: expected a name of letters, digits, '.', '_' and '-'"
        )
    roles = {str(member): member for member in ClientRole}
    if role not in roles:
        raise RegionFileError(f"{where}: role {echo(role)}: {expected_one_of(role, roles)}")
    is_of_size = _MIN_CHARACTERS <= len(text) <= _MAX_CHARACTERS
    if not is_of_size or not text.isascii() or not text.isprintable():
        raise RegionFileError(
            f"{where}: expected a token of {_MIN_CHARACTERS} to {_MAX_CHARACTERS} ASCII characters"
        )
    return ClientToken(name, roles[role], text)


def _make(path: Path) -> None:
    lines = [
        f"{role} {role} {secrets.token_urlsafe(32)}\n"
        for role in (ClientRole.JOB, ClientRole.OPERATOR)
    ]
    make_private(path, "".join(lines).encode(), "token")


def _stamp(path: Path) -> tuple[int, ...]:
    """What differs whenever the file was replaced or written."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _digest(text: str) -> bytes:
    """A token as bytes of one length, so that the time of a comparison says nothing of it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
