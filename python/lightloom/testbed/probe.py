"""What the kernel lacks for a testbed: each feature is tried in a namespace that nobody uses."""

from __future__ import annotations

import shutil
from typing import NamedTuple

from lightloom.testbed import daemon
from lightloom.testbed.namespaces import is_root
from lightloom.testbed.record import nsenter_words
from lightloom.testbed.refusals import KernelError, TestbedError


class _Feature(NamedTuple):
    """One line of ``ip`` or ``tc``, and what the kernel lacks if it is refused."""

    program: str
    line: str
    missing: str


_FEATURES = (
    _Feature("ip", "link add a0 type veth peer name b0", "veth pairs (module veth)"),
    _Feature("ip", "link add bridge0 type bridge", "bridges (module bridge)"),
    _Feature(
        "ip", "rule add from 10.1.0.1 lookup 100", "routing rules (CONFIG_IP_MULTIPLE_TABLES)"
    ),
    _Feature(
        "tc",
        "qdisc add dev a0 root handle 1: tbf rate 1mbit burst 70000 latency 20ms",
        "shapers (module sch_tbf)",
    ),
    _Feature("tc", "qdisc add dev a0 parent 1:1 pfifo_fast", "bands of a queue (pfifo_fast)"),
    _Feature("tc", "qdisc add dev b0 clsact", "clsact (module sch_ingress)"),
    _Feature(
        "tc",
        "filter add dev b0 ingress pref 2 protocol all u32 match u32 0 0 flowid 1:1",
        "filters (module cls_u32)",
    ),
    _Feature(
        "tc",
        "filter add dev b0 ingress pref 1 protocol all u32 match u32 0 0 "
        "action mirred egress redirect dev a0",
        "redirects (module act_mirred)",
    ),
)
_PROGRAMS = dict.fromkeys(("ip", "bridge", "tc"), "iproute2") | {"nsenter": "util-linux"}


def check_programs() -> None:
    """Refuse to go on without the programs of iproute2 and util-linux.

    Raises
    ------
    KernelError
        If one is not installed.
    """
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            raise KernelError(f"{program} is not installed; install the package {package}")


def check_kernel(*, rootless: bool | None = None) -> None:
    """Refuse to go on if the kernel lacks something, or this user a right.

    Parameters
    ----------
    rootless
        Whether a user namespace is tried; by default where this process is not root.

    Raises
    ------
    KernelError
        If something is lacking: one line with all of it.
    """
    check_programs()
    kind = "rootless" if (not is_root() if rootless is None else rootless) else "root"
    try:
        facts = daemon.launch("lightloom.testbed.keeper", "probe", "/dev/null", kind, "scratch")
    except TestbedError as error:
        raise KernelError(str(error)) from None
    keeper = facts["pid"]
    words = nsenter_words(keeper, facts["handles"]["scratch"], rootless=kind == "rootless")
    try:
        missing = [feature.missing for feature in _FEATURES if not _has(words, feature)]
    finally:
        daemon.kill([keeper])
    if missing:
        raise KernelError(f"this kernel has no {', no '.join(missing)}")


def _has(words: list[str], feature: _Feature) -> bool:
    command = [*words, feature.program, *feature.line.split()]
    return daemon.run_bounded(command).returncode == 0
