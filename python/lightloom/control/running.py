"""A region from its file to a controller that runs, and its service until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lightloom.control.connections import user_name
from lightloom.control.controller import RegionController
from lightloom.control.drivers import open_driver
from lightloom.control.failures import failed_ports
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.logs import ControlLog
from lightloom.control.metrics import ControlMetrics
from lightloom.control.refusals import ControlError, LeaseError
from lightloom.control.region_file import RegionFile, read_region
from lightloom.control.service import ControlService
from lightloom.control.session import RegionSession
from lightloom.control.switch import SwitchDriver, SwitchError, SwitchEventKind
from lightloom.control.token import TokenFile

#: power of a port without light is below this; see ``failed_ports``
_NO_LIGHT_DBM = float("-inf")
#: new objects after which the garbage collector looks at them
_COLLECT_AFTER = 5_000


@dataclass
class OpenRegion:
    """A region whose files are read and whose switches are not yet reached."""

    file: RegionFile
    folder: Path
    controller: RegionController
    journal: Journal
    metrics: ControlMetrics
    log: ControlLog


def open_region(path: Path, stream: TextIO | None = None) -> OpenRegion:
    """Read the file of a region, its port map and its journal.

    Parameters
    ----------
    path
        The file.
    stream
        Where the log goes; standard error by default.

    Raises
    ------
    InputError, JournalError
        If one of the files cannot be used.
    """
    file, folder = read_region(path), path.parent
    port_map = file.read_port_map(folder)
    secrets: list[str] = []
    drivers: dict[str, SwitchDriver] = {}
    for name, section in file.switches.items():
        credentials = section.credentials(folder)
        secrets.append(credentials.password)
        drivers[name] = open_driver(section.address(folder), credentials=credentials)
    metrics = ControlMetrics(file.name)
    log = ControlLog(stream or sys.stderr, file.name, secrets, metrics)
    journal = Journal(
        folder / file.journal,
        file.name,
        durability=file.durability,
        keep_changes=file.keep_changes,
    )
    controller = RegionController(file, port_map, drivers, journal, listener=log)
    return OpenRegion(file, folder, controller, journal, metrics, log)


@contextlib.asynccontextmanager
async def running(region: OpenRegion) -> AsyncIterator[RegionController]:
    """Start the controller of a region, and close it in the end.

    SIGTERM cancels the task, as Ctrl-C does: a change in flight is completed all the same.
    """
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread has signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await region.controller.start()
        yield region.controller
    finally:
        await region.controller.close()
        region.journal.close()


@contextlib.asynccontextmanager
async def looking_at(region: OpenRegion) -> AsyncIterator[RegionController]:
    """Read the switches of a region back without the lease; close the connections in the end."""
    try:
        await region.controller.inspect()
        yield region.controller
    finally:
        await region.controller.switches.close()
        region.journal.close()


def reason_of(text: str) -> ChangeReason:
    """Return the reason of a change by the user who runs this process, as the system says."""
    return ChangeReason(user_name(os.getuid()), text)


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Keep pauses of the garbage collector short, in a process that does nothing but serve.

    A full collection of all that a process has loaded takes some 60 ms, longer than a switch.
    What is there now is left out of further ones, and they are made less often.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def serve(region: OpenRegion, ready: Callable[[str], None]) -> None:
    """Serve a region until SIGTERM or Ctrl-C; a change in flight is completed.

    Parameters
    ----------
    region
        The region.
    ready
        Called with the address once clients may connect.

    Raises
    ------
    LightloomError
        If it cannot start, or the lease is lost.
    """
    settings = region.file.serve
    token_path = region.folder / (settings.token_file or f"{region.file.name}.token")
    tokens = TokenFile(token_path, make=True, hide=region.log.hide)
    async with region.metrics.served(settings.metrics_port), running(region) as controller:
        session = RegionSession(
            controller,
            settings.drain_timeout_s,
            region.metrics,
            demand_timeout_s=settings.demand_timeout_s,
            notify=region.log,
        )
        await session.failures.load()
        service = ControlService(session, settings, region.folder, tokens, region.log)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        ready(await service.start())
        region.log.write("serving", {"address": service.address})
        tasks = [
            asyncio.create_task(_renew(region)),
            asyncio.create_task(_check(region, session)),
            *(asyncio.create_task(_watch(region, session, name)) for name in region.file.switches),
        ]
        stopped = asyncio.create_task(stop.wait())
        try:
            with short_collections():
                await asyncio.wait([tasks[0], stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks[1:], stopped):
                task.cancel()
            await service.close()
            region.log.write("stopped", {})
        if tasks[0].done():
            tasks[0].result()
        tasks[0].cancel()


async def _renew(region: OpenRegion) -> None:
    """Renew the lease; ends with an error once it is lost."""
    lease = region.controller.lease
    while True:
        await asyncio.sleep(region.file.lease_s / 3)
        try:
            lease.renew()
        except LeaseError:
            raise
        except ControlError as error:
            region.log.write("lease-not-renewed", {"error": str(error)})


async def _check(region: OpenRegion, session: RegionSession) -> None:
    """Read the switches back whenever no request has come for a while."""
    every = region.file.serve.check_s
    while True:
        observe(region)
        await asyncio.sleep(every or 1.0)
        if every and time.monotonic() - session.last_request_s >= every:
            await check_once(region, session)


async def check_once(region: OpenRegion, session: RegionSession) -> None:
    """Read back, and give up NICs whose ports the switch reports as failed."""
    controller = region.controller
    try:
        await controller.check()
        broken = failed_ports(controller.port_map, controller.statuses, _NO_LIGHT_DBM)
        new = [str(part) for part in broken if part not in session.failures.parts]
        if new:
            response = await session.failures.add(new)
            region.log.write("failed-ports", {"response": response.sentences()})
    except (SwitchError, ControlError) as error:
        region.log.write("check-failed", {"error": str(error)})


def observe(region: OpenRegion) -> None:
    """Bring the metrics of the region up to date."""
    controller = region.controller
    drift, number = controller.drift, len(controller.held)
    circuits = {
        "connected": number - len(drift.missing),
        "missing": len(drift.missing),
        "extra": len(drift.extra),
        "failed": len(controller.observed.broken),
    }
    lease = (controller.lease.is_held, controller.lease.revision)
    region.metrics.observe_region(controller.state, drift, circuits, lease)
    region.metrics.observe_ports(controller.statuses)


async def _watch(region: OpenRegion, session: RegionSession, name: str) -> None:
    """Log what a switch reports on its own, and read back after it."""
    while True:
        try:
            async for event in region.controller.switches.watch(name):
                region.log.write("report", {"switch": name, "kind": event.kind, "text": event.text})
                if event.kind is not SwitchEventKind.OTHER:
                    await check_once(region, session)
        except SwitchError as error:
            region.log.write("watch-failed", {"switch": name, "error": str(error)})
        await asyncio.sleep(region.file.change.timeout_s)
