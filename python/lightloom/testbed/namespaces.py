"""Network namespaces of Linux: made, entered, and told from those of others.

They have no names under ``/run/netns``. A process keeps them open, so that they vanish with it,
however it ends, and with them every device in them. Without root they belong to a user namespace
of their own, in which the user may do what root may.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lightloom.testbed.refusals import KernelError

Result = TypeVar("Result")
#: of sched.h
_NEW_NETWORK, _NEW_USER = 0x4000_0000, 0x1000_0000
#: ``CapEff`` of /proc/self/status: CAP_NET_ADMIN and CAP_SYS_ADMIN (capability.h)
_NEEDED_RIGHTS = (1 << 12) | (1 << 21)
#: values in a new namespace: a reply may come in by another NIC than a route says; nothing but what
#: programs send is on the cables; a sender neither probes for bandwidth nor begins slowly again,
#: as NICs of such fabrics send at line rate
_SETTINGS = {
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
}


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def is_root() -> bool:
    """Whether this process may make namespaces and devices as it is."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16) & _NEEDED_RIGHTS == _NEEDED_RIGHTS
    return False


def become_root_of_own() -> None:
    """Enter a new user namespace in which this user is root; a process of one thread only.

    Raises
    ------
    OSError
        If the kernel does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def new_network() -> int:
    """Make a network namespace; return a handle that keeps it."""
    return in_thread(_made)


def _made() -> int:
    _call("unshare", _NEW_NETWORK)
    for key, value in _SETTINGS.items():
        path = Path("/proc/sys/net") / key
        if path.exists():
            path.write_text(value)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_user(path: str) -> None:
    """Bring this process into a user namespace; it must have one thread only."""
    _enter(path, _NEW_USER)


def enter_network(path: str) -> None:
    """Bring this thread, and those that it starts from now on, into a network namespace."""
    _enter(path, _NEW_NETWORK)


def _enter(path: str, kind: int) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", handle, kind)
    finally:
        os.close(handle)


def in_thread(work: Callable[[], Result]) -> Result:
    """Call a function in a thread of its own, whose namespaces nothing else has."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def is_in_user(process: int) -> bool:
    """Whether this process is in the user namespace of another one."""
    try:
        return os.path.samefile("/proc/self/ns/user", f"/proc/{process}/ns/user")
    except OSError:
        return False


def network_of(process: int) -> int | None:
    """Number of a process's network namespace; None if that cannot be known."""
    try:
        return os.stat(f"/proc/{process}/ns/net").st_ino
    except OSError:
        return None


def why_no_namespaces(error: OSError, *, rootless: bool) -> KernelError:
    """What to say where namespaces cannot be made."""
    reason = (error.strerror or str(error)).lower()
    if rootless:
        return KernelError(
            f"this kernel gives no user namespaces to this user ({reason}): run as root (in "
            "a container: --privileged), or allow them: sysctl user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns"
        )
    return KernelError(f"this kernel gives no network namespaces ({reason}): CONFIG_NET_NS")
