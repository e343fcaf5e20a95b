"""``lightloom ocs-emulator``: an optical circuit switch without the hardware."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, json_panel
from lightloom.errors import InputError, echo
from lightloom.inputs.strict import File, Name, Number, Strict, quantity

if TYPE_CHECKING:
    from lightloom.control.emulator import Emulator, FaultScript

EXAMPLES = (
    "lightloom ocs-emulator --size 48x48 --model polatis --seed 1 --tl1-port 3082",
    "lightloom ocs-emulator --tl1-port 3082 --restconf-port 8008 --fault deny@3 --fault stuck:7@5",
    "lightloom ocs-emulator --model sonic --gnmi-port 8080 --settle-time 20ms --fault-rate 0.01",
)
NOTES = (
    "Log in as admin with the password root. A fault is KIND[:VALUE]@N, at the N-th command that "
    "changes circuits: deny, cut-before, cut-after, no-reply, late:SECONDS, slow:SECONDS, "
    "fragment, report, second-controller:IN-OUT, stuck:PORT, failed-port:PORT, power-loss."
)
#: services and the fields that set their ports
SERVICES = ("tl1", "ssh", "restconf", "restconfs", "netconf", "scpi", "snmp", "gnmi", "gnmis")
_SIZE = re.compile(r"(\d{1,4})x(\d{1,4})")
_USER = ("admin", "root")

PortNumber = Annotated[int, Field(strict=True, ge=0, le=65535)]


class EmulatorOptions(Strict):
    """The switch, its services and its faults."""

    size: Name = Field("48x48", description="Numbers of ingress and egress ports.")
    model: Literal["polatis", "calient", "sonic"] = Field(
        "polatis", description="Whose protocols and ports it has."
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = Field(
        1, description="Seed of the random numbers; the first one where several are used."
    )
    settle_time: Name = Field(
        "measured",
        description="Time until mirrors settle: measured (MixNet, Appendix C), a time, or a file "
        "with one time per line.",
    )
    completion: Literal["settled", "accepted"] = Field(
        "settled", description="When a change is acknowledged."
    )
    busy: Literal["move", "refuse"] = Field(
        "move", description="What connecting a busy port does with its circuit."
    )
    atomicity: Literal["all-or-nothing", "prefix"] = Field(
        "all-or-nothing", description="What is made of a list with a bad pair."
    )
    boot: Literal["restore", "dark"] = Field(
        "restore", description="Which circuits remain after a loss of power."
    )
    boot_time_s: Annotated[float, quantity("second"), Field(ge=0, le=3600)] = Field(
        0.0, description="Time that a restart takes."
    )
    name: str = Field("OCS", max_length=20, description="Name of the switch; empty for none.")
    max_sessions: Annotated[int, Field(strict=True, ge=0, le=10**6)] = Field(
        0, description="Number of sessions that are admitted; 0 for any number."
    )
    idle_close_s: Annotated[float, quantity("second"), Field(ge=0, le=86400)] = Field(
        0.0, description="Time without a command after which a session is closed; 0 for never."
    )
    listen: Name = Field(
        "127.0.0.1", description="Address to listen on; the default admits only this machine."
    )
    tl1_port: PortNumber | None = Field(None, description="TCP port of TL1; 0 for a free one.")
    ssh_port: PortNumber | None = Field(
        None, description="TCP port of TL1 inside SSH, or of SONiC's commands."
    )
    restconf_port: PortNumber | None = Field(None, description="TCP port of RESTCONF.")
    restconfs_port: PortNumber | None = Field(None, description="TCP port of RESTCONF over TLS.")
    netconf_port: PortNumber | None = Field(None, description="TCP port of NETCONF.")
    scpi_port: PortNumber | None = Field(None, description="TCP port of SCPI.")
    snmp_port: PortNumber | None = Field(None, description="UDP port of SNMP 2c, read only.")
    gnmi_port: PortNumber | None = Field(None, description="TCP port of gNMI.")
    gnmis_port: PortNumber | None = Field(None, description="TCP port of gNMI over TLS.")
    trust: File | None = Field(
        None, description="Folder for known_hosts and certificate.pem, which clients may trust."
    )
    fault: tuple[str, ...] = Field((), description="A fault on demand, see below; repeatable.")
    fault_rate: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0, description="Probability of a random, transient fault at every change."
    )
    run_time_s: Annotated[float, quantity("second"), Field(gt=0, le=10**9)] | None = Field(
        None, description="Time after which the emulator stops; never by default."
    )


def command() -> Command:
    """Describe the command."""
    fields = EmulatorOptions
    common = ("size", "model", "seed", "settle_time", "completion", "busy", "atomicity", "boot")
    switch = tuple(option(fields, name, common=True) for name in common)
    rare = ("boot_time_s", "name", "max_sessions", "idle_close_s")
    ports = tuple(
        option(fields, f"{name}_port", common=name in {"tl1", "restconf", "netconf", "gnmi"})
        for name in SERVICES
    )
    return Command(
        panels=(
            Panel("Switch", (*switch, *(option(fields, name) for name in rare))),
            Panel("Services", (*ports, option(fields, "listen"), option(fields, "trust"))),
            Panel(
                "Faults",
                (
                    option(fields, "fault", common=True, repeats=True, metavar="FAULT"),
                    option(fields, "fault_rate", common=True),
                    option(fields, "run_time_s"),
                ),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    outputs = checked_outputs(call)
    options = call.build(EmulatorOptions)
    emulator = _emulator(options)
    try:
        asyncio.run(_serve(emulator, options, outputs))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot listen on {options.listen}: {reason}; choose another port"
        ) from None


def _emulator(options: EmulatorOptions) -> Emulator:
    """Return the emulator that the options describe."""
    from lightloom.control.emulator import (
        Atomicity,
        BootMode,
        BusyPolicy,
        CompletionTime,
        EmulatedBehavior,
        Emulator,
    )
    from lightloom.control.emulator.timing import parse_settle_time

    size = _SIZE.fullmatch(options.size)
    if size is None:
        raise InputError(f"--size {echo(options.size)}: expected NxM, such as 48x48")
    wanted = {name: getattr(options, f"{name}_port") for name in SERVICES}
    behavior = EmulatedBehavior(
        completion=CompletionTime(options.completion),
        busy=BusyPolicy(options.busy),
        atomicity=Atomicity(options.atomicity),
        boot=BootMode(options.boot),
        boot_s=options.boot_time_s,
        users=dict([_USER]),
        max_sessions=options.max_sessions,
        idle_close_s=options.idle_close_s,
        sid=options.name,
    )
    emulator = Emulator(
        size=(int(size[1]), int(size[2])),
        model=options.model,
        seed=options.seed,
        timing=parse_settle_time(options.settle_time),
        faults=_faults(options),
        behavior=behavior,
        services={name: port for name, port in wanted.items() if port is not None} or None,
    )
    emulator.host = options.listen
    return emulator


def _faults(options: EmulatorOptions) -> FaultScript:
    from lightloom.control.emulator import Fault, FaultScript

    listed = [Fault.parse(text) for text in options.fault]
    return FaultScript(listed, rate=options.fault_rate, seed=options.seed)


async def _serve(emulator: Emulator, options: EmulatorOptions, outputs: Outputs) -> None:
    """Listen until a signal comes or the time is over."""
    import signal

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with emulator:
        if options.trust is not None:
            _write_trust(emulator, options)
        _tell(emulator, options, outputs)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), options.run_time_s)


def _tell(emulator: Emulator, options: EmulatorOptions, outputs: Outputs) -> None:
    """Say where the emulator is reached."""
    user, password = _USER
    urls = {name: emulator.url(name) for name in emulator.ports}
    outputs.say(
        f"Emulated {options.model} switch, {options.size}; user {user}, password {password}",
        *(f"  {name:<10} {url}" for name, url in urls.items()),
    )
    if not (options.listen.startswith("127.") or options.listen in {"::1", "localhost"}):
        outputs.say("Other machines may reach it: the password above protects nothing.")
    outputs.say("Stop with Ctrl-C.")
    switch = {"model": options.model, "size": options.size, "user": user, "password": password}
    outputs.write_json({**switch, "urls": urls})


def _write_trust(emulator: Emulator, options: EmulatorOptions) -> None:
    """Write what clients may trust."""
    assert options.trust is not None
    options.trust.mkdir(parents=True, exist_ok=True)
    (options.trust / "known_hosts").write_text(emulator.known_hosts())
    (options.trust / "certificate.pem").write_text(emulator.certificate)
