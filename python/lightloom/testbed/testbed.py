"""A testbed of network namespaces: made, looked at, broken on purpose, and removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from lightloom.control.emulator.timing import parse_settle_time
from lightloom.inputs.files import shown_path
from lightloom.testbed import daemon
from lightloom.testbed.daemon import RECORD
from lightloom.testbed.layout import ServerLayout, server_place
from lightloom.testbed.namespaces import (
    enter_network,
    enter_user,
    is_in_user,
    is_root,
    network_of,
)
from lightloom.testbed.parts import SWITCH, parts_of
from lightloom.testbed.probe import check_kernel, check_programs
from lightloom.testbed.record import (
    LOCK,
    LOG,
    TestbedRecord,
    check_empty,
    check_folder,
    default_folder,
    locked,
    make_folder,
)
from lightloom.testbed.refusals import KernelError, LayoutError, TestbedError
from lightloom.testbed.region import NICS, PASSWORD, PORTS, REGION, SOCKET, TOKENS, write_region
from lightloom.testbed.tools import KernelTools, NicBytes

#: what the processors of a machine carry, in sum of all NICs: a frame costs time at every device
_GBPS, _GBPS_PER_CORE = 8.0, 4.0
#: what a testbed leaves in its folder, and what a controller of it does; the record goes last
_FILES = (
    *(LOG, NICS, PASSWORD, PORTS, REGION),
    *("testbed.sqlite*", SOCKET, TOKENS, "control.log", f"{RECORD}*"),
)


class LitCircuit(NamedTuple):
    """A circuit that carries frames in both directions; ``server`` is the smaller of the two."""

    server: int
    nic: int
    peer: int
    peer_nic: int

    def __str__(self) -> str:
        return f"{self.server}/{self.nic}-{self.peer}/{self.peer_nic}"


class Testbed:
    """Servers, NICs and switches in the kernel of this machine.

    Made by :meth:`up` or found by :meth:`open`. As a context it is removed at the end.

    Attributes
    ----------
    folder
        Where it is recorded.
    layout
        Its servers and NICs.

    Examples
    --------
    Four servers, and a process in each::

        with Testbed.up(servers=4, nics=4, rate_gbps=0.4) as testbed:
            for server in range(4):
                subprocess.Popen(testbed.command(server, ["hostname"]))
    """

    __test__ = False  # no test, whatever pytest takes its name for

    def __init__(self, folder: Path, record: TestbedRecord) -> None:
        self.folder, self._record = folder, record

    @property
    def layout(self) -> ServerLayout:
        """Its servers and NICs."""
        return self._record.layout

    @property
    def region(self) -> Path:
        """File of the region, for ``lightloom control serve``."""
        return self.folder / REGION

    @property
    def tl1_port(self) -> int:
        """Where the circuit switch listens on the loopback address."""
        return self._record.tl1_port

    @property
    def is_rootless(self) -> bool:
        """Whether its namespaces belong to a user namespace."""
        return self._record.rootless

    @classmethod
    def up(  # noqa: PLR0913 - sizes, rates and switch
        cls,
        folder: Path | None = None,
        *,
        servers: int = 4,
        nics: int = 4,
        eps_nics: int = 1,
        rate_gbps: float = 0.4,
        eps_gbps: float | None = None,
        ranks_per_server: int = 1,
        settle_time: str = "measured",
        link_up_s: float = 0.0,
        seed: int = 1,
        rootless: bool | None = None,
    ) -> Testbed:
        """Make a testbed.

        Parameters
        ----------
        folder
            Where it is recorded; by default one per user.
        servers, nics, eps_nics
            Servers, NICs of each, and how many of those are at the packet switch.
        rate_gbps, eps_gbps
            Rate of a NIC at the circuit switch, and at the packet switch (the same by default).
        ranks_per_server
            Processes of a job in each server.
        settle_time
            Of the mirrors: ``measured``, a time such as ``20ms``, or a file of times.
        link_up_s
            Time from settled circuits until NICs carry traffic: real ones need seconds.
        seed
            Of the random numbers of the switch.
        rootless
            Whether a user namespace is used; by default where this process is not root.

        Raises
        ------
        LayoutError
            If sizes or rates are out of range.
        TestbedError
            If there is one in this folder, or other files, or the kernel lacks something.
        """
        layout = ServerLayout(
            servers=servers,
            nics=nics,
            eps_nics=eps_nics,
            rate_gbps=rate_gbps,
            eps_gbps=rate_gbps if eps_gbps is None else eps_gbps,
            ranks_per_server=ranks_per_server,
        )
        _check_sum(layout)
        parse_settle_time(settle_time)
        check_programs()
        folder = (folder or default_folder()).absolute()
        make_folder(folder)
        check_empty(folder)
        with locked(folder):
            _clear_crashed(folder)
            is_rootless = not is_root() if rootless is None else rootless
            record = TestbedRecord.new(
                layout,
                settle_time=settle_time,
                seed=seed,
                link_up_s=link_up_s,
                rootless=is_rootless,
            )
            testbed = cls(folder, record.write(folder))
            testbed._make_or_remove()
        return testbed

    @classmethod
    def open(cls, folder: Path | None = None) -> Testbed:
        """Return the testbed that is up.

        Raises
        ------
        TestbedError
            If there is none.
        """
        folder = (folder or default_folder()).absolute()
        check_folder(folder)
        testbed = cls(folder, TestbedRecord.read(folder))
        record = testbed._record
        if not record.is_up or not daemon.is_marked(record.keeper, record.mark):
            state = "has crashed" if record.is_up else "is not made completely"
            raise TestbedError(
                f"the testbed in {shown_path(folder)} {state}; clear it up: lightloom testbed down"
            )
        return testbed

    @classmethod
    def clear(cls, folder: Path | None = None) -> bool:
        """Remove the testbed of a folder, or what a crash has left of it; whether there was one."""
        folder = (folder or default_folder()).absolute()
        if not (folder / RECORD).exists():
            return False
        check_folder(folder)
        with locked(folder):
            cls(folder, TestbedRecord.read(folder))._remove()
        return True

    def down(self) -> None:
        """Remove it, with all processes in its servers."""
        self.clear(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()

    # processes in servers

    def command(self, server: int, words: Sequence[str]) -> list[str]:
        """Return the command that runs another one in a server."""
        return [*self._record.nsenter(server_place(self._checked(server))), *words]

    def enter(self, server: int) -> None:
        """Bring this thread, and those that it starts from now on, into a server.

        Without root the whole process goes there, which must have one thread only: call it before
        libraries are imported that start some.

        Raises
        ------
        TestbedError
            If the kernel refuses.
        """
        record = self._record
        place = record.path_of(server_place(self._checked(server)))
        try:
            if record.user_path is not None:
                # the path of the other one is not to be reached from within
                with contextlib.closing(_Handle(place)) as network:
                    if not is_in_user(record.keeper):
                        enter_user(record.user_path)
                    enter_network(network.path)
            else:
                enter_network(place)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise TestbedError(f"cannot enter server {server}: {reason}") from None

    def environment(self, server: int, local_rank: int = 0) -> dict[str, str]:
        """Return the variables that tell a rank where it is and how it meets the others."""
        layout = self.layout
        ranks = layout.ranks_per_server
        eps = next(layout.nics_of(self._checked(server)))
        first = next(layout.nics_of(0))
        return {
            "LIGHTLOOM_TESTBED": str(self.folder),
            "LIGHTLOOM_SERVER": str(server),
            "LIGHTLOOM_NICS": str(self.folder / NICS),
            "LIGHTLOOM_CONTROLLER": f"unix:{self.folder / SOCKET}",
            "LIGHTLOOM_TOKEN_FILE": str(self.folder / TOKENS),
            "RANK": str(server * ranks + local_rank),
            "WORLD_SIZE": str(layout.servers * ranks),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": first.address,
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": eps.device,
            "NCCL_SOCKET_IFNAME": eps.device,
            "TP_SOCKET_IFNAME": eps.device,
        }

    # what it does

    def counters(self) -> dict[str, NicBytes]:
        """Return what each NIC has carried since it was made, by its part, such as ``nic:2/1``."""
        return {part: state.carried for part, state in self._tools.ports().items()}

    def circuits(self) -> list[LitCircuit]:
        """Return the circuits that carry frames now."""
        layout = self.layout
        lit = self._tools.lit() if layout.optical_nics else {}
        circuits = []
        for port, to in lit.items():
            if lit.get(to) == port and port < to:
                a, b = layout.nic_at(port), layout.nic_at(to)
                circuits.append(LitCircuit(a.server, a.number, b.server, b.number))
        return sorted(circuits)

    def failed(self) -> list[str]:
        """Return the parts that were let fail, such as ``nic:2/1`` and ``switch:ocs``."""
        parts = [part for part, state in self._tools.ports().items() if not state.is_up]
        has_failed = bool(self.layout.optical_nics) and not self._controls()
        return [*parts, *([SWITCH] if has_failed else [])]

    def fail(self, part: str) -> list[str]:
        """Let a part fail: the cable of a NIC, those of a server, or the control of the switch.

        Parameters
        ----------
        part
            Such as ``nic:2/1``, ``eps:2/0``, ``server:2`` or ``switch:ocs``.

        Returns
        -------
        list of str
            All parts that have failed now.

        Raises
        ------
        LayoutError
            If there is no such part.
        """
        nics = parts_of(part, self.layout)
        with self._changing():
            if nics is None:
                self._record = replace(self._record, switch_failed=True).write(self.folder)
                daemon.kill(self._controls())
            self._tools.set_ports(nics or (), is_up=False)
        return self.failed()

    def repair(self, part: str) -> list[str]:
        """Repair a part; return those that are still failed. See :meth:`fail`."""
        nics = parts_of(part, self.layout)
        with self._changing():
            if nics is None and not self._controls():
                self._start_switch()
                self._record = replace(self._record, switch_failed=False).write(self.folder)
            self._tools.set_ports(nics or (), is_up=True)
        return self.failed()

    # how

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep other commands from changing it; its record is what they have left."""
        with locked(self.folder):
            record = TestbedRecord.read(self.folder)
            if record.mark != self._record.mark:
                raise TestbedError(
                    f"{shown_path(self.folder)}: another testbed has taken the place of this one"
                )
            self._record = record
            yield

    def _checked(self, server: int) -> int:
        if not 0 <= server < self.layout.servers:
            last = self.layout.servers - 1
            raise LayoutError(f"server {server}: expected a server from 0 to {last}")
        return server

    @property
    def _tools(self) -> KernelTools:
        return KernelTools(self._record)

    def _make_or_remove(self) -> None:
        try:
            self._make()
        except KernelError:
            self._remove()
            check_kernel(rootless=self.is_rootless)  # says what is lacking, if it finds it
            raise
        except BaseException:
            self._remove()
            raise

    def _make(self) -> None:
        record = self._record
        kind = "rootless" if record.rootless else "root"
        facts = daemon.launch(
            "lightloom.testbed.keeper",
            record.mark, str(self.folder / LOG), kind, *record.layout.places(),
        )  # fmt: skip
        record = self._record = replace(
            record,
            keeper=facts["pid"],
            handles=facts["handles"],
            numbers=tuple(facts["numbers"]),
        ).write(self.folder)
        self._tools.make()
        layout = record.layout
        if layout.optical_nics:
            self._start_switch()
            url = f"polatis+tl1://127.0.0.1:{self._record.tl1_port}"
            write_region(self.folder, layout, url, link_up_s=record.link_up_s)
        self._record = replace(self._record, is_up=True).write(self.folder)

    def _start_switch(self) -> None:
        """Start the control of the circuit switch, whose mirrors are where they are."""
        lit = ",".join(f"{port}:{to}" for port, to in self._tools.lit().items())
        facts = daemon.launch(
            "lightloom.testbed.switch",
            self._record.mark, str(self.folder), lit,
            before=self._record.nsenter() if self.is_rootless else (),
        )  # fmt: skip
        self._record = replace(self._record, tl1_port=facts["tl1_port"]).write(self.folder)

    def _is_whole(self) -> bool:
        """Whether it was made completely and its processes run, unless one was let fail."""
        record = self._record
        needs_switch = bool(record.layout.optical_nics) and not record.switch_failed
        return (
            record.is_up
            and daemon.is_marked(record.keeper, record.mark)
            and not (needs_switch and not self._controls())
        )

    def _controls(self) -> list[int]:
        """Return the process that controls the circuit switch, if it runs."""
        record = self._record
        return [process for process in daemon.marked(record.mark) if process != record.keeper]

    def _remove(self, *, keep_folder: bool = False) -> None:
        """Remove what is left of it: processes, and with them namespaces and devices; files.

        The folder stays, with its lock, for another testbed that takes its place.
        """
        # a process may have started another one while it was looked for
        while found := {*self._inside(), *daemon.marked(self._record.mark)}:
            daemon.kill(found)
        for pattern in _FILES:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        if keep_folder:
            return
        (self.folder / LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody has put something else there
            self.folder.rmdir()

    def _inside(self) -> set[int]:
        """Processes in the servers, of a keeper that may be gone."""
        numbers = set(self._record.numbers)
        inside = [process for process in daemon.processes() if network_of(process) in numbers]
        if daemon.is_marked(self._record.keeper, self._record.mark):
            return set(inside)
        return {process for process in inside if self._has_mark(process)}

    def _has_mark(self, process: int) -> bool:
        """Whether the namespace of a process is of this testbed, and none with the same number."""
        words = ["nsenter", f"--net=/proc/{process}/ns/net"]
        if self._record.rootless:
            words += [f"--user=/proc/{process}/ns/user", "--preserve-credentials"]
        words += ["ip", "link", "show", "dev", "lo"]
        return self._record.mark in daemon.run_bounded(words).stdout.split()


class _Handle:
    """An open file, by a path that holds in every namespace."""

    def __init__(self, path: str) -> None:
        self._number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.path = f"/proc/self/fd/{self._number}"

    def close(self) -> None:
        """Close it."""
        os.close(self._number)


def _check_sum(layout: ServerLayout) -> None:
    limit = max(_GBPS, _GBPS_PER_CORE * (os.cpu_count() or 1))
    if layout.sum_gbps > limit:
        raise LayoutError(
            f"{layout.servers * layout.nics} NICs with {layout.sum_gbps:g} Gb/s in sum: expected "
            f"at most {limit:g}, which the processors of this machine carry; lower --rate"
        )


def _clear_crashed(folder: Path) -> None:
    """Remove what a crash has left in a folder; refuse what is up."""
    if not (folder / RECORD).exists():
        return
    testbed = Testbed(folder, TestbedRecord.read(folder))
    if testbed._is_whole():
        raise TestbedError(
            f"a testbed is up in {shown_path(folder)}; remove it first (lightloom testbed down), "
            "or put this one elsewhere (--dir)"
        )
    testbed._remove(keep_folder=True)
