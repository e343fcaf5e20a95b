"""What a testbed leaves in its folder: how it was made, and by which processes it is there.

The folder is its owner's alone. A lock says that some command is changing the testbed; it goes with
the command's process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, TypeAdapter

from lightloom.errors import LightloomError
from lightloom.inputs.files import shown_path
from lightloom.testbed.daemon import RECORD
from lightloom.testbed.layout import ServerLayout
from lightloom.testbed.namespaces import is_in_user
from lightloom.testbed.refusals import TestbedError

LOCK, LOG = "lock", "testbed.log"
_MARK_BYTES = 12
#: time in which another command may complete what it does
_LOCK_S = 1.0


@dataclass(frozen=True, kw_only=True)
class TestbedRecord:
    """One testbed.

    Attributes
    ----------
    mark
        Random word among the arguments of its processes, and the alias of ``lo`` in its namespaces.
    layout
        Its servers and NICs.
    settle_time, seed
        Of its circuit switch.
    link_up_s
        Time from settled circuits until NICs carry traffic.
    rootless
        Whether its namespaces belong to a user namespace.
    keeper
        Number of the process that keeps the namespaces; 0 while there is none.
    handles
        By which the keeper holds each namespace.
    numbers
        Numbers of the namespaces.
    tl1_port
        Where the circuit switch listens on the loopback address; 0 while it does not.
    is_up
        Whether it was made completely.
    switch_failed
        Whether the control of the circuit switch was let fail.
    """

    __test__ = False  # no test, whatever pytest takes its name for
    __pydantic_config__ = ConfigDict(extra="forbid")

    mark: str
    layout: ServerLayout
    settle_time: str
    seed: int
    link_up_s: float
    rootless: bool
    keeper: int = 0
    handles: Mapping[str, int] = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    tl1_port: int = 0
    is_up: bool = False
    switch_failed: bool = False

    @classmethod
    def new(
        cls,
        layout: ServerLayout,
        *,
        settle_time: str = "measured",
        seed: int = 1,
        link_up_s: float = 0.0,
        rootless: bool = False,
    ) -> Self:
        """Return the record of a testbed that is about to be made."""
        mark = f"testbed-{secrets.token_hex(_MARK_BYTES)}"
        return cls(
            mark=mark,
            layout=layout,
            settle_time=settle_time,
            seed=seed,
            link_up_s=link_up_s,
            rootless=rootless,
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the record of a folder.

        Raises
        ------
        TestbedError
            If there is none, or it is none.
        """
        path = folder / RECORD
        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except FileNotFoundError:
            raise TestbedError(
                f"no testbed is up in {shown_path(folder)}; make one: lightloom testbed up"
            ) from None
        except (OSError, ValueError, LightloomError):
            raise TestbedError(
                f"{shown_path(path)}: no record of a testbed; delete it if it is not yours"
            ) from None

    def write(self, folder: Path) -> Self:
        """Write the record, whole or not at all."""
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=RECORD, delete=False) as stream:
            json.dump(asdict(self), stream)
        os.replace(stream.name, folder / RECORD)
        return self

    def nsenter(self, place: str = "") -> list[str]:
        """Return the words that run a command in a namespace; only as its root, if none."""
        handle = self.handles[place] if place else None
        return nsenter_words(self.keeper, handle, rootless=self.rootless)

    def path_of(self, place: str) -> str:
        """Path by which a namespace is entered."""
        return f"/proc/{self.keeper}/fd/{self.handles[place]}"

    @property
    def user_path(self) -> str | None:
        """Path by which the user namespace is entered, if there is one."""
        return f"/proc/{self.keeper}/ns/user" if self.rootless else None


def nsenter_words(keeper: int, handle: int | None, *, rootless: bool) -> list[str]:
    """Return the words that run a command in a namespace of a keeper, or only as its root."""
    words = ["nsenter"]
    # a process that is there already cannot enter it again
    if rootless and not is_in_user(keeper):
        words += [f"--user=/proc/{keeper}/ns/user", "--preserve-credentials"]
    if handle is not None:
        words.append(f"--net=/proc/{keeper}/fd/{handle}")
    return [*words, "--"]


def default_folder() -> Path:
    """Where a testbed is recorded unless something else is said."""
    named = os.environ.get("LIGHTLOOM_TESTBED")
    if named:
        return Path(named)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "lightloom-testbed"
    if os.geteuid() == 0:
        return Path("/run/lightloom-testbed")
    return Path(tempfile.gettempdir()) / f"lightloom-testbed-{os.geteuid()}"


def make_folder(folder: Path) -> None:
    """Make the folder, its owner's alone, or take one that is.

    Raises
    ------
    TestbedError
        If it is no folder, belongs to somebody else, or others may write to it.
    """
    name = shown_path(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or "not a usable path").lower()
        raise TestbedError(f"{name}: cannot make this folder: {reason}") from None
    check_folder(folder)


def check_empty(folder: Path) -> None:
    """Refuse a folder that has files of somebody, and no testbed: they would be replaced.

    Raises
    ------
    TestbedError
        If there is no record of a testbed in it, and any file but the lock.
    """
    names = {path.name for path in folder.iterdir()}
    if RECORD not in names and names - {LOCK}:
        raise TestbedError(f"{shown_path(folder)}: expected an empty folder; name another (--dir)")


def check_folder(folder: Path) -> None:
    """Refuse a folder in which somebody else may have written a record."""
    name = shown_path(folder)
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise TestbedError(f"{name}: expected a folder that nobody else owns or may write to")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other commands from changing the testbed of a folder that is there.

    Raises
    ------
    TestbedError
        If another command is changing it, or has removed it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    removed = TestbedError(f"{shown_path(folder)}: this testbed was just removed; try again")
    try:
        handle = os.open(folder / LOCK, flags, 0o600)
    except FileNotFoundError:
        raise removed from None
    try:
        end = time.monotonic() + _LOCK_S
        while not _is_taken(handle):
            if time.monotonic() > end:
                raise TestbedError(
                    f"{shown_path(folder)}: another command is changing this testbed"
                )
            time.sleep(0.01)
        if not _is_there(folder / LOCK, handle):
            raise removed
        yield
    finally:
        os.close(handle)


def _is_there(path: Path, handle: int) -> bool:
    """Whether an open file is still the one of this path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _is_taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
