"""A tour of the controller: eight servers on an emulated switch, step by step.

Everything is real but the switch: the driver speaks TL1 over TCP to an emulator in this process,
and the journal is a file.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lightloom.control.controller import RegionController
from lightloom.control.decisions import circuits_of
from lightloom.control.emulator import Emulator, FaultKind
from lightloom.control.example import write_example
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import ChangeReason, JournalEntry
from lightloom.control.refusals import ControlError
from lightloom.control.report import ChangeReport
from lightloom.control.running import OpenRegion, open_region, running
from lightloom.units import show_things, show_time

_SERVERS, _NICS, _PORTS = 8, 4, 48
#: bytes that each rank sends to each, and those of the pairs that send much
_LITTLE, _MUCH = 10**6, 4 * 10**8

Say = Callable[[str], None]


async def tour(say: Say, seed: int = 1) -> list[JournalEntry]:
    """Run the tour; return its changes, oldest first.

    Parameters
    ----------
    say
        Called with each line.
    seed
        Of the emulated switch.
    """
    with _folder() as folder:
        async with Emulator((_PORTS, _PORTS), seed=seed) as emulator:
            say(f"1. A switch. An emulated Polatis with {_PORTS}x{_PORTS} ports: {emulator.url()}")
            path = write_example(
                folder, emulator.url(), servers=_SERVERS, nics=_NICS, size=_PORTS, name="tour"
            )
            region = open_region(path, io.StringIO())
            say(
                f"2. A port map. {_SERVERS} servers with {_NICS} optical NICs each: "
                f"{2 * _SERVERS * _NICS} ports are ours, the other "
                f"{2 * (_PORTS - _SERVERS * _NICS)} are never touched."
            )
            async with running(region) as controller:
                say(f"   Connected and read back: the region is {controller.state}.")
                await _first_change(say, controller)
                await _second_change(say, controller)
                await _stuck_mirror(say, controller, emulator)
                await _cut(say, controller, emulator)
                await _drift(say, controller, emulator)
                await _failed_nic(say, controller)
                return _journal(say, region)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lightloom-") as name:
        yield Path(name)


def _demand(controller: RegionController, distance: int) -> npt.NDArray[np.uint64]:
    """Demand in which every server sends much to the one ``distance`` further on."""
    ranks = controller.decider.ranks
    n = ranks // _SERVERS
    demand = np.full((ranks, ranks), _LITTLE, np.uint64)
    for server in range(_SERVERS):
        peer = (server + distance) % _SERVERS
        demand[server * n : (server + 1) * n, peer * n : (peer + 1) * n] = _MUCH
    return demand


async def _decide(
    controller: RegionController, distance: int, layer: int
) -> tuple[ChangeReport, str]:
    decider = controller.decider
    demand = decider.fold(_demand(controller, distance))
    decision = decider.decide(decider.hold(controller.held), demand)
    reason = ChangeReason("tour", str(decision), "tour", 1, layer)
    return await controller.apply(circuits_of(decision), reason), str(decision)


async def _first_change(say: Say, controller: RegionController) -> None:
    report, why = await _decide(controller, 1, 1)
    say("3. A demand. Layer 1 is about to send much from every server to the next one.")
    say(f"   {why}")
    _say_report(say, report)


async def _second_change(say: Say, controller: RegionController) -> None:
    report, why = await _decide(controller, 3, 2)
    say("4. Another layer, another demand. Only what must move goes dark.")
    say(f"   {why}")
    _say_report(say, report)


def _say_report(say: Say, report: ChangeReport) -> None:
    change = report.change
    say(
        f"   Change {report.number}: +{len(change.creates)} -{len(change.deletes)} "
        f"moved {len(change.moved)}, unchanged {len(change.unchanged)}: {report.result} in "
        f"{show_time(sum(report.timings.values()))} ({show_time(change.expected_s)} expected, link "
        "bring-up left out); read back and equal."
    )


async def _stuck_mirror(say: Say, controller: RegionController, emulator: Emulator) -> None:
    say(
        "5. Something breaks. The mirror of port 1 no longer moves, though the switch says it does."
    )
    emulator.faults.next_change(FaultKind.STUCK, ports=(1,))
    report, _ = await _decide(controller, 2, 3)
    for circuit, problem in report.failed.items():
        say(f"   {circuit}: {problem}")
    say(
        f"   {report.result}: {show_things(len(report.after), 'circuit')} up; the bytes of the "
        f"{len(report.failed)} others go over the EPS."
    )
    emulator.matrix.stuck.clear()


async def _cut(say: Say, controller: RegionController, emulator: Emulator) -> None:
    say("6. The connection is cut after a command: was it executed? Nobody knows.")
    emulator.faults.next_change(FaultKind.CUT_AFTER)
    report, _ = await _decide(controller, 1, 4)
    say(
        f"   Nothing is sent twice. The controller connected again and read back: {report.result}, "
        f"{show_things(len(report.after), 'circuit')}, the region is {controller.state}."
    )


async def _drift(say: Say, controller: RegionController, emulator: Emulator) -> None:
    circuit = min(controller.held)
    placed = controller.port_map.cross_connects(circuit)
    emulator.matrix.change([int(connect.cross_connect.ingress) for connect in placed], [])
    await controller.check()
    say(f"7. Somebody deletes circuit {circuit} at the switch: the region has {controller.state}.")
    try:
        await _decide(controller, 2, 5)
    except ControlError as error:
        say(f"   A change is refused: {error}")
    report = await controller.reapply(ChangeReason("tour", "repair"))
    say(f"   Reapplied: {report.result}; the region is {controller.state}.")


async def _failed_nic(say: Say, controller: RegionController) -> None:
    failures = RegionFailures(controller)
    response = await failures.add(["nic:2/1", "eps:5/0", "eps:5/1"])
    say("8. NIC 1 of server 2 fails, and both EPS NICs of server 5.")
    for sentence in response.sentences():
        say(f"   {sentence}")
    report, _ = await _decide(controller, 1, 6)
    avoided = all((2, 1) not in (circuit[:2], circuit[2:]) for circuit in report.after)
    assert avoided
    say(f"   New circuits without that NIC: {len(report.after)}.")


def _journal(say: Say, region: OpenRegion) -> list[JournalEntry]:
    entries = region.journal.last(100)[::-1]
    say(f"9. The journal has {len(entries)} changes, each with who, why, before and after:")
    for entry in entries:
        result = "open" if entry.outcome is None else entry.outcome.result
        layer = "" if entry.intent.reason.layer is None else f"layer {entry.intent.reason.layer}"
        say(f"   {entry.id:3} {entry.intent.kind:9} {result:9} {layer}".rstrip())
    return entries
