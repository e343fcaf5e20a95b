"""The emulator: one emulated switch and the services that listen for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from lightloom.control.connections import tcp_address
from lightloom.control.emulator.calient import CalientDialect
from lightloom.control.emulator.device import (
    BootMode,
    CompletionTime,
    EmulatedSwitch,
    SwitchIdentity,
)
from lightloom.control.emulator.faults import Fault, FaultScript
from lightloom.control.emulator.http import HttpService
from lightloom.control.emulator.matrix import Atomicity, BusyPolicy, OpticalMatrix
from lightloom.control.emulator.polatis import PolatisDialect
from lightloom.control.emulator.polatis_model import NEWEST_REVISION
from lightloom.control.emulator.polatis_netconf import netconf_service
from lightloom.control.emulator.polatis_restconf import PolatisRestconfApplication
from lightloom.control.emulator.polatis_scpi import ScpiService
from lightloom.control.emulator.snmp import SnmpService
from lightloom.control.emulator.sonic import SonicTables
from lightloom.control.emulator.sonic_cli import sonic_cli_service
from lightloom.control.emulator.sonic_gnmi import SonicGnmiService
from lightloom.control.emulator.sonic_restconf import SonicRestconfApplication
from lightloom.control.emulator.ssh import SshService
from lightloom.control.emulator.timing import MeasuredTime, SettleTime
from lightloom.control.emulator.tl1_server import Tl1Server
from lightloom.control.emulator.tl1_services import TcpTl1Service, ssh_tl1_service
from lightloom.control.emulator.tls import Identity, self_signed
from lightloom.errors import InputError, expected_one_of

MAX_SIDE = 4096


@dataclass(frozen=True, kw_only=True)
class EmulatedBehavior:
    """What an emulated switch does where real ones differ, or where no source says.

    Attributes
    ----------
    completion
        When a change is completed.
    busy
        What connecting a busy port does.
    atomicity
        What a list with a bad pair does.
    boot, boot_s
        Which circuits it has after a restart, and how long that takes.
    users
        Passwords by user name.
    max_sessions
        How many sessions are admitted; 0 for any number.
    idle_close_s
        Time without a command after which a session is closed; 0 for never.
    sid
        Name that the operator gave it; empty for none.
    has_monitors
        Whether the power of every port is measured.
    yang_revision
        Revision of the YANG module ``optical-switch`` of NETCONF and RESTCONF.
    page_rows
        Rows of a page of a TL1 reply; 0 for one page.
    has_plain_ports
        Whether a Calient switch numbers its ports, 1 to N; else their names are dotted.
    has_state_module
        Whether a SONiC switch reports in a module of its own, as its design document has it; else
        in tables of the module of its configuration, as its guide for developers has it.
    """

    completion: CompletionTime = CompletionTime.SETTLED
    busy: BusyPolicy = BusyPolicy.MOVE
    atomicity: Atomicity = Atomicity.ALL_OR_NOTHING
    boot: BootMode = BootMode.RESTORE
    boot_s: float = 0.0
    users: Mapping[str, str] = field(default_factory=lambda: {"admin": "root"}, repr=False)
    max_sessions: int = 0
    idle_close_s: float = 0.0
    sid: str = "OCS"
    has_monitors: bool = True
    yang_revision: str = NEWEST_REVISION
    page_rows: int = 0
    has_plain_ports: bool = False
    has_state_module: bool = True


class Service(Protocol):
    """A protocol by which an emulated switch is reached."""

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        ...

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        ...


class Emulator:
    """An emulated optical circuit switch that listens while its context is open.

    Parameters
    ----------
    size
        Numbers of ingress and egress ports.
    model
        ``polatis``, ``calient`` or ``sonic``.
    seed
        Of settle times, losses, powers and random faults.
    timing
        How long mirrors take to settle; by default as measured on a real switch.
    faults
        What goes wrong: a script, or a list of faults.
    behavior
        What it does where real switches differ.
    services
        TCP port of each service, 0 for a free one; by default the model's first service.

    Examples
    --------
    >>> import asyncio
    >>> from lightloom.control.emulator import Emulator
    >>> async def main():
    ...     async with Emulator(size=(8, 8), seed=1) as emulator:
    ...         return sorted(emulator.ports)
    >>> asyncio.run(main())
    ['tl1']
    """

    def __init__(
        self,
        size: tuple[int, int] = (48, 48),
        *,
        model: str = "polatis",
        seed: int = 0,
        timing: SettleTime | None = None,
        faults: FaultScript | Iterable[Fault] = (),
        behavior: EmulatedBehavior | None = None,
        services: Mapping[str, int] | None = None,
    ) -> None:
        if not all(1 <= side <= MAX_SIDE for side in size):
            raise InputError(f"size {size[0]}x{size[1]}: expected 1 to {MAX_SIDE} ports per side")
        offered = MODELS.get(model)
        if offered is None:
            raise InputError(f"switch model '{model}': {expected_one_of(model, MODELS)}")
        services = {next(iter(offered)): 0} if services is None else services
        if unknown := [name for name in services if name not in offered]:
            raise InputError(f"service of {model}: {expected_one_of(unknown[0], offered)}")
        self._model, self._wanted = model, dict(services)
        if not isinstance(faults, FaultScript):
            faults = FaultScript(faults, seed=seed)
        self.switch = _switch(size, model, seed, timing or MeasuredTime(), faults, behavior)
        self._running: list[Service] = []
        #: address to listen on; only this machine reaches the default
        self.host = "127.0.0.1"
        #: certificate of the services with TLS, in PEM form
        self.certificate = ""
        #: TCP port of every service, while it listens
        self.ports: dict[str, int] = {}

    @property
    def matrix(self) -> OpticalMatrix:
        """Ports, circuits and light."""
        return self.switch.matrix

    @property
    def faults(self) -> FaultScript:
        """What goes wrong and when."""
        return self.switch.faults

    def url(self, service: str = "") -> str:
        """Return the URL by which a driver reaches a service."""
        service = service or next(iter(self.ports))
        return f"{MODELS[self._model][service]}://{tcp_address(self.host, self.ports[service])}"

    def known_hosts(self) -> str:
        """Return the lines of a ``known_hosts`` file for the services that run inside SSH."""
        services = zip(self.ports.values(), self._running, strict=True)
        return "".join(
            service.known_host(self.host, port)
            for port, service in services
            if isinstance(service, SshService)
        )

    async def __aenter__(self) -> Self:
        self.matrix.now = asyncio.get_running_loop().time
        try:
            tls = None
            if _WITH_TLS & self._wanted.keys():
                tls = self_signed(self.host)
                self.certificate = tls.certificate.decode()
            makers = _services(self._model, self.switch, tls)
            for name, port in self._wanted.items():
                service = makers[name]()
                self._running.append(service)
                self.ports[name] = await service.start(self.host, port)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        await self.switch.close()
        while self._running:
            await self._running.pop().close()
        self.ports.clear()


#: services of each model, and the scheme of the URL by which a driver reaches each
MODELS: dict[str, dict[str, str]] = {
    "polatis": {
        "tl1": "polatis+tl1",
        "ssh": "polatis+ssh",
        "restconf": "polatis+restconf",
        "restconfs": "polatis+restconfs",
        "netconf": "polatis+netconf",
        "scpi": "polatis+scpi",
        # no driver speaks it: monitoring reads it
        "snmp": "snmp",
    },
    "calient": {"tl1": "calient+tl1"},
    "sonic": {
        "ssh": "sonic+ssh",
        "gnmi": "sonic+gnmi",
        "gnmis": "sonic+gnmis",
        "restconfs": "sonic+restconfs",
        # no driver speaks it without TLS: for other clients
        "restconf": "http",
        "snmp": "snmp",
    },
}


def _switch(
    size: tuple[int, int],
    model: str,
    seed: int,
    timing: SettleTime,
    faults: FaultScript,
    behavior: EmulatedBehavior | None,
) -> EmulatedSwitch:
    """Return the switch of an emulator."""
    behavior = behavior or EmulatedBehavior()
    rng = random.Random(f"switch {seed}")
    matrix = OpticalMatrix(
        size=size,
        settle_time=timing,
        now=lambda: 0.0,
        rng=rng,
        busy=behavior.busy,
        atomicity=behavior.atomicity,
    )
    return EmulatedSwitch(
        matrix=matrix,
        faults=faults,
        users=dict(behavior.users),
        identity=SwitchIdentity(vendor=_VENDORS[model], serial=f"{seed % 1_000_000:06d}"),
        completion=behavior.completion,
        boot=behavior.boot,
        boot_s=behavior.boot_s,
        max_sessions=behavior.max_sessions,
        idle_close_s=behavior.idle_close_s,
        sid=behavior.sid,
        yang_revision=behavior.yang_revision,
        page_rows=behavior.page_rows,
        has_plain_ports=behavior.has_plain_ports,
        has_state_module=behavior.has_state_module,
        monitored_ports=frozenset(matrix.ports if behavior.has_monitors else ()),
    )


ServiceMakers = dict[str, Callable[[], Service]]
_WITH_TLS = {"restconfs", "gnmis"}
_VENDORS = {"polatis": "Polatis", "calient": "CALIENT", "sonic": "SONiC"}


def _services(model: str, switch: EmulatedSwitch, tls: Identity | None) -> ServiceMakers:
    """Return what makes each service of a switch, by name."""

    def tl1(prompt: bytes = b"") -> Tl1Server:
        return Tl1Server(switch, PolatisDialect(switch), prompt)

    tables = SonicTables(switch)
    makers: dict[str, ServiceMakers] = {
        "polatis": {
            "tl1": lambda: TcpTl1Service(tl1()),
            "ssh": lambda: ssh_tl1_service(switch, tl1(prompt=b"\r\n>")),
            "restconf": lambda: HttpService(switch, PolatisRestconfApplication(switch)),
            "restconfs": lambda: HttpService(switch, PolatisRestconfApplication(switch), tls),
            "netconf": lambda: netconf_service(switch),
            "scpi": lambda: ScpiService(switch),
            "snmp": lambda: SnmpService(switch),
        },
        "calient": {"tl1": lambda: TcpTl1Service(Tl1Server(switch, CalientDialect(switch)))},
        "sonic": {
            "ssh": lambda: sonic_cli_service(switch, tables),
            "gnmi": lambda: SonicGnmiService(switch, tables),
            "gnmis": lambda: SonicGnmiService(switch, tables, tls),
            "restconf": lambda: HttpService(switch, SonicRestconfApplication(switch, tables)),
            "restconfs": lambda: HttpService(switch, SonicRestconfApplication(switch, tables), tls),
            "snmp": lambda: SnmpService(switch),
        },
    }
    return makers[model]
