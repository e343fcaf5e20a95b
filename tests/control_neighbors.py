"""A controller in mode ``safe`` among others: what is theirs stays, and nothing dark is called lit.

Somebody else makes and deletes cross-connects over the switch's own protocol; the switch loses
power and starts dark; links go half open; the time of day jumps; servers move in the port map while
the region is served; all of it over real sockets. Part of ``python -m tests.control_soak``.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.control_regions import port_map_of, region_of

from lightloom.control.controller import RegionController
from lightloom.control.drivers import open_driver
from lightloom.control.emulator import (
    BootMode,
    EmulatedBehavior,
    Emulator,
    FaultKind,
    FaultScript,
    FixedTime,
)
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.lease import Lease
from lightloom.control.members import ServiceMember
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.refusals import ControlError
from lightloom.control.remap import remap
from lightloom.control.report import RegionState
from lightloom.control.session import RegionSession
from lightloom.control.switch import Credentials, CrossConnect, SwitchChange, SwitchError
from lightloom.control.wire import Frame

SERVERS, NICS, SIZE = 6, 2, 16
LOGIN = Credentials("admin", "root")
WHY = ChangeReason("soak")
KINDS = (
    FaultKind.DENY,
    FaultKind.CUT_BEFORE,
    FaultKind.CUT_AFTER,
    FaultKind.SLOW,
    FaultKind.NO_REPLY,
    FaultKind.FRAGMENT,
    FaultKind.REPORT,
)
#: age of a reading above which a reply needs another, and seconds that it may take beside it
MAX_AGE_S, ANSWER_S = 0.02, 0.2


class Relay:
    """Passes bytes on between a controller and a switch, until its links are frozen."""

    def __init__(self, port: int) -> None:
        self._port, self._tasks = port, set[asyncio.Task[None]]()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks = tuple(self._tasks)
        self.freeze()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def freeze(self) -> None:
        """Pass nothing on any more, and tell nobody."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def _accept(self, reader, writer) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, there[1]]
        for source, sink in ((reader, there[1]), (there[0], writer)):
            self._tasks.add(asyncio.create_task(self._pass_on(source, sink)))

    async def _pass_on(self, source, sink) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                sink.write(data)
            sink.close()


class Neighborhood:
    """One region, its switch, and the others."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng, self.counts = random.Random(seed), Counter[str]()
        self.journal = Journal(folder / "neighbors.sqlite", "r0")
        self.faults = FaultScript((), rate=0.1, kinds=KINDS, seed=seed)
        behavior = EmulatedBehavior(boot=BootMode.DARK)
        self.emulator = Emulator(
            (SIZE, SIZE), seed=seed, timing=FixedTime(0.0), faults=self.faults, behavior=behavior
        )
        #: cross-connects of somebody else
        self.foreign: dict[int, int] = {}
        self.dark_since: dict[tuple[int, int], float] = {}
        self.clock_error_s = 0.0
        self.map = port_map_of(SERVERS, NICS, SIZE)

    async def run(self, changes: int) -> Counter[str]:
        """Make so many changes; then let all agree."""
        async with self.emulator, Relay(*self.emulator.ports.values()) as self.relay:
            self.other = open_driver(self.emulator.url(), credentials=LOGIN)
            await self.connect({13: 29, 14: 30, 15: 31})
            while self.counts["changes"] < changes:
                await self.serve(changes)
            await self.end()
        self.journal.close()
        return self.counts

    @contextlib.asynccontextmanager
    async def controller(self):
        url = f"polatis+tl1://127.0.0.1:{self.relay.port}?reply_timeout_s=0.1&connect_timeout_s=0.5"
        region = region_of(timeout_s=2.0, retries=1)
        serve = region.serve.model_copy(update={"max_age_s": MAX_AGE_S})
        region = region.model_copy(update={"serve": serve})
        lease = Lease(self.journal, "soak", clock=lambda: time.time() + self.clock_error_s)
        driver = open_driver(url, credentials=LOGIN)
        port_map = self.journal.port_map() or self.map
        controller = RegionController(region, port_map, {"ocs": driver}, self.journal, lease)
        await controller.start()
        try:
            yield controller
        finally:
            await controller.close()

    async def serve(self, changes: int) -> None:
        """Serve until the port map is edited, or a switch's state stays unknown."""
        try:
            async with self.controller() as controller:
                if controller.port_map.fingerprint != self.map.fingerprint:
                    await self.remap(controller)
                    self.counts["map taken up"] += 1
                    return
                self.session = RegionSession(controller)
                while self.counts["changes"] < changes and self.rng.random() > 0.01:
                    await self.disturb()
                    await self.change(controller)
                    self.check_foreign()
                    await self.check_light()
                self.edit_map()
        except (ControlError, SwitchError) as error:
            self.counts[f"not served: {type(error).__name__}"] += 1
            await self.leave_free()

    async def remap(self, controller: RegionController) -> None:
        failures = RegionFailures(controller)
        failures.load()
        await remap(controller, failures, self.map, WHY)

    async def change(self, controller: RegionController) -> None:
        """Change to random circuits, or repair what has drifted."""
        self.counts["changes"] += 1
        nics = [(entry.server, entry.nic) for entry in self.map.nics]
        self.rng.shuffle(nics)
        pairs = [sorted(ends) for ends in zip(nics[::2], nics[1::2], strict=False)]
        wanted = frozenset(NicPair(*a, *b) for a, b in pairs if a[0] != b[0])
        try:
            if controller.state is not RegionState.READY:
                await controller.reapply(WHY)
            self.counts[(await controller.apply(wanted, WHY)).result] += 1
        except (ControlError, SwitchError) as error:
            self.counts[f"refused: {type(error).__name__}"] += 1
            if self.rng.random() < 0.3:
                await self.leave_free()

    async def disturb(self) -> None:
        """Do what others do, or what happens to switches, links and clocks."""
        draw, circuits = self.rng.random(), dict(self.emulator.matrix.circuits)
        if draw < 0.03:
            a, b = self.rng.randint(1, SERVERS * NICS), SIZE + self.rng.randint(1, SERVERS * NICS)
            if circuits.get(a) != b:
                await self.connect({a: b})
        elif draw < 0.05 and (ours := circuits.keys() - self.foreign.keys()):
            await self.disconnect(self.rng.choice(sorted(ours)))
        elif draw < 0.06:
            self.emulator.switch.lose_power()
            foreign, self.foreign = self.foreign, {}
            self.note(circuits)
            await self.connect(foreign)
            self.counts["power lost"] += 1
        elif draw < 0.08:
            self.relay.freeze()
            self.counts["half open"] += 1
        elif draw < 0.10:
            self.clock_error_s = self.rng.choice((-3600.0, 0.0, 3600.0))
            self.counts["clock set"] += 1

    async def theirs(self, deletes: list[tuple[int, int]], creates: dict[int, int]) -> None:
        """Somebody else changes circuits over the protocol, until it is done."""
        before = dict(self.emulator.matrix.circuits)
        change = SwitchChange(
            *(
                tuple(CrossConnect(str(a), str(b)) for a, b in pairs)
                for pairs in (deletes, creates.items())
            )
        )
        self.faults.set_rate(0.0)
        await self.other.connect()
        await self.other.apply(change)
        await self.other.close()
        self.faults.set_rate(0.1)
        self.note(before)

    async def connect(self, circuits: dict[int, int]) -> None:
        await self.theirs([], circuits)
        self.foreign = {
            a: b
            for a, b in (self.foreign | circuits).items()
            if self.emulator.matrix.circuits.get(a) == b
        }
        self.counts["connected by others"] += 1

    async def disconnect(self, port: int) -> None:
        await self.theirs([(port, self.emulator.matrix.circuits[port])], {})
        self.foreign.pop(port, None)
        self.counts["deleted by others"] += 1

    async def leave_free(self) -> None:
        """Others take what is theirs off the ports of the region."""
        for port in [port for port in self.foreign if port <= SERVERS * NICS]:
            await self.disconnect(port)

    def note(self, before: dict[int, int]) -> None:
        now = self.emulator.matrix.circuits
        gone = [(a, b) for a, b in before.items() if now.get(a) != b]
        self.dark_since |= dict.fromkeys(gone, time.monotonic())

    def check_foreign(self) -> None:
        present = self.emulator.matrix.circuits
        missing = {a: b for a, b in self.foreign.items() if present.get(a) != b}
        assert not missing, f"deleted in mode safe: {missing}"

    async def check_light(self) -> None:
        """No reply calls a circuit lit that has been dark for too long."""
        await asyncio.sleep(self.rng.choice((0.0, 0.0, MAX_AGE_S)))
        reply = await self.session.handle(ServiceMember(None), Frame({"op": "status"}))
        present = self.emulator.matrix.circuits
        for circuit in reply["circuits"]:
            for placed in self.map.cross_connects(NicPair(*circuit)):
                a, b = map(int, placed.cross_connect)
                if present.get(a) != b:
                    dark_s = time.monotonic() - self.dark_since[a, b]
                    assert dark_s < MAX_AGE_S + ANSWER_S, (circuit, dark_s)
        self.counts["circuits called lit"] += len(reply["circuits"])

    def edit_map(self) -> None:
        """Two servers change places, or one goes or comes back."""
        every = port_map_of(SERVERS, NICS, SIZE)
        order = self.rng.sample(range(SERVERS), self.rng.choice((SERVERS - 1, SERVERS)))
        nics = tuple(
            replace(entry, server=number)
            for number, server in enumerate(order)
            for entry in every.nics
            if entry.server == server
        )
        self.map = PortMap("ports.csv", tuple(every.servers[server] for server in order), nics)

    async def end(self) -> None:
        """Faults end; the map is taken up, drift repaired, all circuits deleted: all agree."""
        self.faults.set_rate(0.0)
        await self.leave_free()
        for _ in range(2):
            async with self.controller() as controller:
                if controller.port_map.fingerprint != self.map.fingerprint:
                    await self.remap(controller)
        async with self.controller() as controller:
            await controller.reapply(WHY)
            report = await controller.apply(frozenset(), WHY)
            assert not report.failed
            assert controller.state is RegionState.READY, controller.drift
        assert dict(self.emulator.matrix.circuits) == self.foreign
        assert self.journal.unfinished() == []
