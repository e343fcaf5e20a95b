"""A region from its file to a controller that runs, and its service until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lightloom.control.controller import RegionController
from lightloom.control.drivers import open_driver
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.logs import ControlLog
from lightloom.control.map_change import MapChange
from lightloom.control.metrics import ControlMetrics
from lightloom.control.port_map import PortMap, SwitchPort
from lightloom.control.refusals import ControlError, LeaseError, RegionFileError
from lightloom.control.region_file import RegionFile, read_region, read_tables
from lightloom.control.region_light import loss_growth, note_losses, region_alarms
from lightloom.control.region_pages import loopback_server, region_pages
from lightloom.control.report import RegionState
from lightloom.control.service import ControlService
from lightloom.control.session import RegionSession
from lightloom.control.switch import SwitchDriver, SwitchError, SwitchEventKind
from lightloom.control.token import TokenFile
from lightloom.errors import InputError
from lightloom.inputs.files import shown_path

#: new objects after which the garbage collector looks at them
_COLLECT_AFTER = 5_000
#: seconds after which a switch that does not answer is tried again, at first and at most
_REACH_S, _REACH_MAX_S = 1.0, 60.0


@dataclass
class OpenRegion:
    """A region whose files are read and whose switches are not yet reached.

    Attributes
    ----------
    file_map
        The port map of the region's file; the controller counts by that of its journal.
    """

    path: Path
    file: RegionFile
    controller: RegionController
    journal: Journal
    failures: RegionFailures
    metrics: ControlMetrics
    log: ControlLog
    file_map: PortMap

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.path.parent

    @property
    def map_change(self) -> MapChange:
        """How the port map has changed since the last change of circuits."""
        return MapChange(self.controller.port_map, self.file_map)

    async def read_map(self) -> PortMap:
        """Return the port map that the files have now; the loop goes on meanwhile.

        Raises
        ------
        InputError
            If they cannot be used.
        """
        found = await asyncio.to_thread(lambda: read_tables(self.path).read_port_map(self.folder))
        self.file.check_port_map(found, self.folder)  # the fabric is that of the start
        return found

    def session(self) -> RegionSession:
        """Return what handles requests to the region, once its controller has started."""
        serve = self.file.serve
        return RegionSession(
            self.controller,
            serve.drain_timeout_s,
            self.metrics,
            self.failures,
            demand_timeout_s=serve.demand_timeout_s,
            notify=self.log,
            read_map=self.read_map,
        )


def open_region(
    path: Path, stream: TextIO | None = None, *, is_read_only: bool = False
) -> OpenRegion:
    """Read the file of a region, its port map and its journal.

    Parameters
    ----------
    path
        The file.
    stream
        Where the log goes; standard error by default.
    is_read_only
        Whether nothing is written to the journal.

    Raises
    ------
    InputError, JournalError
        If one of the files cannot be used.
    """
    file, folder = read_region(path), path.parent
    file_map = file.read_port_map(folder)
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
        is_read_only=is_read_only,
    )
    port_map = journal.port_map() or file_map
    unknown = sorted(set(port_map.switches) - set(drivers))
    if unknown:
        journal.close()
        raise RegionFileError(
            f"{shown_path(path)}: no switch {unknown[0]}, which the port map of the last change "
            "has; keep it until lightloom control remap has taken up a map without it"
        )
    controller = RegionController(file, port_map, drivers, journal, listener=log)
    failures = RegionFailures(controller)
    failures.load()
    return OpenRegion(path, file, controller, journal, failures, metrics, log, file_map)


@contextlib.asynccontextmanager
async def running(region: OpenRegion, *, remaps: bool = False) -> AsyncIterator[RegionController]:
    """Start the controller of a region, and close it in the end.

    SIGTERM cancels the task, as Ctrl-C does: a change in flight is completed all the same.

    Raises
    ------
    PortMapError
        If the port map has changed, unless that is what is to be taken up.
    """
    task = asyncio.current_task()
    assert task is not None
    _on_signals((signal.SIGTERM,), task.cancel)
    try:
        if not remaps:
            region.map_change.check_empty()
        await region.controller.start()
        yield region.controller
    finally:
        await region.controller.close()
        region.journal.close()


def _on_signals(numbers: Iterable[int], act: Callable[[], object]) -> None:
    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread has signals
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, act)


@contextlib.asynccontextmanager
async def looking_at(region: OpenRegion, *, reads: bool = True) -> AsyncIterator[RegionController]:
    """Look at a region without the lease; close the connections in the end.

    Parameters
    ----------
    region
        The region.
    reads
        Whether its switches are read at once, else by who looks.
    """
    try:
        if reads:
            await region.controller.inspect()
        yield region.controller
    finally:
        await region.controller.switches.close()
        region.journal.close()


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


async def serve(region: OpenRegion, ready: Callable[[str], None], page: str = "") -> None:
    """Serve a region until SIGTERM or Ctrl-C; a change in flight is completed.

    Parameters
    ----------
    region
        The region.
    ready
        Called with the address once clients may connect.
    page
        The page of the region (HTML), for its ``http_port``.

    Raises
    ------
    LightloomError
        If it cannot start, or the lease is lost.
    """
    settings = region.file.serve
    token_path = region.folder / (settings.token_file or f"{region.file.name}.token")
    tokens = TokenFile(token_path, make=True, hide=region.log.hide)
    web = loopback_server(settings.http_port, region.log.write)
    async with web as server, running(region):
        session = region.session()
        if settings.http_port is not None:
            server.pages |= region_pages(session, region.metrics, region.log, page)
        service = ControlService(session, settings, region.folder, tokens, region.log)
        stop = asyncio.Event()
        _on_signals((signal.SIGINT, signal.SIGTERM), stop.set)
        ready(await service.start())
        region.log.write("serving", {"address": service.address})
        tasks = [
            asyncio.create_task(_renew(region)),
            asyncio.create_task(_check(region, session)),
            asyncio.create_task(_reach(region)),
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
            tasks[0].cancel()  # until here changes in flight need the lease
        if tasks[0].done():
            tasks[0].result()


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
    """Read the switches and their ports back, whatever else is going on."""
    while True:
        observe(region, session)
        await asyncio.sleep(region.file.serve.check_s)
        await check_once(region, session)


async def _reach(region: OpenRegion) -> None:
    """Try again to reach switches that do not answer, ever more seldom."""
    controller, log = region.controller, region.log
    wait_s: dict[str, float] = {}
    due: dict[str, float] = {}
    while True:
        await asyncio.sleep(_REACH_S)
        now = asyncio.get_running_loop().time()
        for name in sorted(controller.switches.unreachable):
            if now < due.get(name, 0.0):
                continue
            try:
                is_back = await controller.reach(name)
            except (SwitchError, ControlError, InputError) as error:
                is_back = False
                log.write("check-failed", {"switch": name, "error": str(error)})
            if is_back:
                log.write("reached", {"switch": name, "state": controller.state})
            longer_s = min(2 * wait_s.get(name, _REACH_S), _REACH_MAX_S)
            wait_s[name] = _REACH_S if is_back else longer_s
            due[name] = now + wait_s[name]


async def check_once(region: OpenRegion, session: RegionSession) -> None:
    """Read back, make again what drifted if the file says so, give up NICs of failed ports."""
    controller = region.controller
    try:
        await controller.check()
        session.note_alarms(region_alarms(controller))
        note_losses(controller)
        response = await session.give_up_failed_ports()
        if response is not None:
            region.log.write("failed-ports", {"response": response.sentences()})
        if controller.state is RegionState.DRIFTED and region.file.change.on_drift == "reapply":
            why = f"drifted: {controller.drift}"
            await session.reapply(ChangeReason("service", why))
    except (SwitchError, ControlError) as error:
        region.log.write("check-failed", {"error": str(error)})


def observe(region: OpenRegion, session: RegionSession) -> None:
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
    unreachable = len(controller.switches.unreachable)
    region.metrics.observe_watch(unreachable, len(session.alarms), controller.age_s)
    region.metrics.observe_ports(controller.statuses)
    growth_db = {
        SwitchPort(placed.switch, placed.cross_connect.egress): growth
        for placed, (growth, _) in loss_growth(controller).items()
    }
    region.metrics.observe_growth(growth_db, controller.limits.max_loss_growth_db)


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
