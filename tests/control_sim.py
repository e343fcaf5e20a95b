"""A region as one process with one seed: controller, journal, switches, members, network, clock.

Time is simulated: every wait is over at once, and a failure is replayed by its seed. The drivers
speak to emulated switches, byte by byte, over a simulated network: commands and replies take time,
are cut, are lost, come late or after a crash; switches refuse, fall silent or lose power and
circuits; others act on them at any moment; the controller is killed at any of its commands, and
started again on the same journal; servers are moved in the port map, which the running service or
the next one takes up; members hang; clocks are set.
After TigerBeetle's simulator (VOPR).

Used by the tests (few) and by ``python -m tests.control_sim`` (many).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.simulated_network import SimulatedLoop, SimulatedNetwork

from lightloom.control.controller import RegionController
from lightloom.control.drivers import open_driver
from lightloom.control.emulator import (
    EmulatedBehavior,
    Emulator,
    FaultKind,
    FaultScript,
    FixedTime,
)
from lightloom.control.emulator.device import BootMode, CompletionTime
from lightloom.control.emulator.matrix import (
    Atomicity,
    BusyPolicy,
    MatrixRefusalError,
    OpticalMatrix,
    Refusal,
)
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.lease import Lease
from lightloom.control.map_change import MapChange
from lightloom.control.members import ServiceMember
from lightloom.control.port_map import NicPair, NicPorts, PortMap, SwitchPort
from lightloom.control.processes import this_process
from lightloom.control.refusals import ControlError, LeaseError
from lightloom.control.region_file import RegionFile
from lightloom.control.remap import remap
from lightloom.control.report import RegionState
from lightloom.control.session import RegionSession
from lightloom.control.switch import (
    CircuitResult,
    Credentials,
    CrossConnect,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchDriver,
    SwitchError,
)
from lightloom.control.token import ClientRole
from lightloom.control.wire import Frame
from lightloom.errors import InputError, LightloomError

#: a process that has ended, whose lease is free at once; that of others only in time
GONE = this_process()._replace(number=2**22 + 1)
SERVERS, NICS, PORTS = 6, 2, 10
SWITCHES = ("s0", "s1")
#: protocols of which a switch speaks one, those most often that are simulated fast
PROTOCOLS = ("tl1", "tl1", "scpi", "scpi", "restconf")
RANKS = 1
MAX_AGE_S, CHECK_S, TIMEOUT_S = 1.0, 10.0, 2.0
#: longest time between a reading and the answer that it vouches for
ANSWER_S = 0.1
#: mean time between two acts of the world, and how often it does what
ACT_S = 10.0
ACTS = {
    "delete": 20,
    "connect": 20,
    "clean up": 40,
    "halfway": 6,
    "stuck": 4,
    "free": 10,
    "silence": 8,
    "power": 4,
    "clock": 8,
    "kill": 12,
    "hang": 4,
    "map": 4,
}
#: ports of each switch that the region does not have, and what is on them
OTHERS = frozenset({CrossConnect("9", "19"), CrossConnect("10", "20")})
#: chance of a fault in a command to the network, and in a change to a switch
LINK_FAULTS, SWITCH_FAULTS = 0.02, 0.08
KINDS = (FaultKind.DENY, FaultKind.LATE, FaultKind.NO_REPLY, FaultKind.SLOW, FaultKind.REPORT)


class Killed(BaseException):
    """The process of the controller has ended."""


@dataclass
class World:
    """What the simulation knows and the controller does not."""

    seed: int
    network: SimulatedNetwork = field(init=False)
    rng: random.Random = field(init=False)
    #: seconds by which the time of day is wrong
    clock_error_s: float = 0.0
    #: how many more waits of the controller until it is killed; None never
    fuse: int | None = None
    #: how many processes the controller has had
    life: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def time_of_day(self) -> float:
        return 1e9 + self.now + self.clock_error_s

    def burn(self) -> None:
        """Come nearer to the end of the process."""
        if self.fuse is None:
            return
        self.fuse -= 1
        if self.fuse < 0:
            raise Killed


class WatchedMatrix(OpticalMatrix):
    """Optics that know who made each cross-connect, and when it went dark."""

    def watch(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        #: those that somebody else has made
        self.foreign: set[CrossConnect] = set()
        #: those of others that the controller has read since they were made
        self.known: set[CrossConnect] = set()
        self.dark_since: dict[CrossConnect, float] = {}
        #: those that the controller has deleted
        self.deleted: set[CrossConnect] = set()
        self.is_others = False
        #: whether the next command is done by half and refused
        self.fails_halfway = False

    @property
    def cross_connects(self) -> set[CrossConnect]:
        return {CrossConnect(str(a), str(b)) for a, b in self.circuits.items()}

    @contextlib.contextmanager
    def by_others(self) -> Iterator[None]:
        """What changes meanwhile is not the controller's doing."""
        self.is_others = True
        try:
            yield
        finally:
            self.is_others = False

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        """Note what comes and goes."""
        before = self.cross_connects
        try:
            yield
        finally:
            now = self.cross_connects
            gone = before - now
            stolen = gone & self.foreign & self.known
            assert self.is_others or not stolen, (
                f"{stolen} of {self.name} are somebody else's, as the controller has read"
            )
            self.foreign -= gone
            self.known -= gone
            self.dark_since |= dict.fromkeys(gone, self.world.now)
            if self.is_others:
                self.foreign |= now - before
            else:
                self.deleted |= gone

    def change(self, deletes: Iterable[int], creates: Sequence[tuple[int, int]]) -> float:
        deletes, creates, is_half = list(deletes), list(creates), False
        if not self.is_others and self.fails_halfway:
            self.fails_halfway, is_half = False, True
            deletes, creates = deletes[: (len(deletes) + 1) // 2], creates[: len(creates) // 2]
        with self._noted():
            settled_at_s = super().change(deletes, creates)
        if not self.is_others:
            self.foreign -= {CrossConnect(str(a), str(b)) for a, b in creates}
        if is_half:
            raise MatrixRefusalError(Refusal.FAILED, 1)
        return settled_at_s

    def restore(self, circuits: dict[int, int]) -> float:
        with self.by_others(), self._noted():
            return super().restore(circuits)

    # what others do

    def make(self, connect: CrossConnect) -> None:
        with self.by_others(), contextlib.suppress(MatrixRefusalError):
            ports = [port for end in connect if (port := int(end)) in self._peers]
            self.change(ports, [(int(connect.ingress), int(connect.egress))])

    def drop(self, connect: CrossConnect) -> None:
        with self.by_others():
            self.change([int(connect.ingress)], [])


class SimulatedSwitch:
    """An emulated switch, of which the seed draws protocol, behavior and faults."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, rng = world, name, world.rng
        self.protocol = rng.choice(PROTOCOLS)
        self.faults = FaultScript(rate=SWITCH_FAULTS, kinds=KINDS, seed=rng.randrange(2**32))
        busy = rng.choice(list(BusyPolicy))
        behavior = EmulatedBehavior(
            completion=rng.choice(list(CompletionTime)),
            busy=busy,
            atomicity=rng.choice(list(Atomicity)),
            boot=rng.choice(list(BootMode)),
            boot_s=rng.choice((0.0, 1.0)),
            max_sessions=rng.choice((0, 3)),
            idle_close_s=rng.choice((5.0, 60.0)),
            page_rows=rng.choice((0, 0, 3)),
        )
        self.emulator = Emulator(
            (PORTS, PORTS),
            seed=rng.randrange(2**32),
            timing=FixedTime(0.01),
            faults=self.faults,
            behavior=behavior,
            services={self.protocol: 0},
        )
        plain = self.emulator.matrix
        self.matrix = WatchedMatrix(
            plain.size, plain.settle_time, plain.now, plain.rng, plain.busy, plain.atomicity
        )
        self.matrix.watch(world, name)
        self.emulator.switch.matrix = self.matrix
        self.query = (
            f"?reply_timeout_s=0.5&connect_timeout_s=0.3&keepalive_s={rng.choice((0, 3))}"
            f"&max_pairs={rng.choice((0, 2))}"
            f"&moves={'no' if busy is BusyPolicy.REFUSE else rng.choice(('yes', 'no'))}"
        )

    async def start(self) -> None:
        await self.emulator.__aenter__()
        for connect in sorted(OTHERS):
            self.matrix.make(connect)

    def lose_power(self) -> None:
        self.emulator.switch.lose_power()
        for connect in sorted(OTHERS):
            self.matrix.make(connect)

    def silence(self, until: float) -> None:
        (port,) = self.emulator.ports.values()
        self.world.network.silence(port, until)


class WatchedDriver:
    """The driver of a process that may end; notes what the controller has read."""

    def __init__(self, switch: SimulatedSwitch) -> None:
        self._world, self._matrix, self._life = switch.world, switch.matrix, switch.world.life
        url = switch.emulator.url() + switch.query
        self._driver: SwitchDriver = open_driver(url, credentials=Credentials("admin", "root"))

    def _burn(self) -> None:
        if self._life != self._world.life:
            raise Killed
        self._world.burn()

    async def connect(self) -> SwitchDescription:
        self._burn()
        return await self._driver.connect()

    async def read_back(self, *, ports: bool = True) -> Readback:
        self._burn()
        readback = await self._driver.read_back(ports=ports)
        self._matrix.known = self._matrix.foreign & readback.cross_connects
        self._burn()
        return readback

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        self._burn()
        results = await self._driver.apply(change)
        self._burn()
        return results

    async def watch(self):
        for event in ():
            yield event

    async def close(self) -> None:
        await self._driver.close()


class _Transport:
    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        pass


class SimulatedMember:
    """A process of the job: it drains when it is told to, if it does not hang."""

    def __init__(self, world: World) -> None:
        self.world, self.session = world, None
        self.transport = _Transport()
        self.member = ServiceMember(self)  # it is its own writer
        self.hangs = self.is_dismissed = False

    def join(self, session: RegionSession, server: int) -> None:
        """Connect, or connect anew, for a server."""
        self.session, self.is_dismissed = session, False
        session.enter(self.member)
        self.member.is_hung, self.member.server = False, server

    def is_closing(self) -> bool:
        return self.is_dismissed

    def close(self) -> None:
        self.is_dismissed = True

    def write(self, data: bytes) -> None:
        if b'"drain"' not in data or self.hangs:
            return
        session = self.session
        frame = Frame({"op": "drained", "fence": self.member.fence})
        asyncio.get_running_loop().call_later(
            self.world.rng.uniform(0.0, 0.01), lambda: session.drained(self.member, frame)
        )


def map_of(names: list[str], place: dict[str, int]) -> PortMap:
    """NIC j of every server on switch j, at the ports of the server's place."""
    entries = tuple(
        NicPorts(
            server,
            nic,
            SwitchPort(SWITCHES[nic], str(place[name] + 1)),
            SwitchPort(SWITCHES[nic], str(PORTS + place[name] + 1)),
        )
        for server, name in enumerate(names)
        for nic in range(NICS)
    )
    return PortMap("ports.csv", tuple(names), entries)


class Simulation:
    """One world, its controller, and what is done to them."""

    def __init__(self, seed: int, folder: Path, loop: SimulatedLoop) -> None:
        self.world = World(seed)
        self.path = folder / "sim.sqlite"
        self.world.network = loop.network = SimulatedNetwork(
            loop, self.world.rng, on_send=self.world.burn, counts=self.world.counts
        )
        self.switches = {name: SimulatedSwitch(self.world, name) for name in SWITCHES}
        self.place = {f"node{n}": n for n in range(SERVERS)}
        self.names = sorted(self.place)
        self.members = [SimulatedMember(self.world) for _ in range(2)]
        self.controller: RegionController | None = None
        self.is_alive = False

    async def start(self) -> None:
        for switch in self.switches.values():
            await switch.start()

    async def close(self) -> None:
        for switch in self.switches.values():
            await switch.emulator.close()

    def region(self) -> RegionFile:
        rng = self.world.rng
        return RegionFile(
            name="sim",
            port_map="ports.csv",
            journal="sim.sqlite",
            switches={name: {"url": "emulator://"} for name in SWITCHES},
            job={"ranks_per_server": RANKS, "gpus_per_server": NICS},
            policy={"when": "always"},
            timing={"fixed_s": 0.02, "link_up_s": 0.0},
            change={
                "timeout_s": TIMEOUT_S,
                "retries": rng.choice((0, 1, 2)),
                "on_failure": rng.choice(("leave", "roll-back")),
                "on_drift": rng.choice(("report", "reapply")),
                "verify": rng.choice(("accepted", "read-back", "read-back")),
            },
            serve={"check_s": CHECK_S, "max_age_s": MAX_AGE_S},
        )

    def start_controller(self) -> None:
        region = self.region()
        self.journal = Journal(self.path, "sim")
        kept = self.journal.port_map()
        wanted = map_of(self.names, self.place)
        self.controller = RegionController(
            region,
            kept or wanted,
            {name: WatchedDriver(switch) for name, switch in self.switches.items()},
            self.journal,
            Lease(
                self.journal,
                "sim",
                clock=self.world.time_of_day,
                uptime=lambda: self.world.now,
                process=GONE if self.world.rng.random() < 0.8 else None,
            ),
        )
        self.failures = RegionFailures(self.controller)
        self.failures.load()
        self.file_map, self.is_alive = wanted, True

    async def life(self, until: int) -> None:
        """One life of the controller, from its start to its end or death."""
        world = self.world
        self.start_controller()
        controller = self.controller
        session = None
        try:
            await controller.start()
            world.counts["started"] += 1
            if controller.port_map.fingerprint != self.file_map.fingerprint:
                await remap(controller, self.failures, self.file_map, ChangeReason("sim"))
                world.counts["remapped"] += 1
                return
            session = RegionSession(
                controller,
                0.3,
                failures=self.failures,
                demand_timeout_s=3.0,
                read_map=self.read_map,
            )
            for number, member in enumerate(self.members):
                member.join(session, number)
            while world.counts["requests"] < until:
                await self.request(session)
        finally:
            if session is not None and session._recovering is not None:
                session._recovering.cancel()
                await asyncio.gather(session._recovering, return_exceptions=True)

    async def request(self, session: RegionSession) -> None:
        """Something happens, and then something is asked."""
        world, rng, controller = self.world, self.world.rng, self.controller
        world.burn()
        await asyncio.sleep(rng.choice((0.0, 0.001, 0.01, 0.3, 2.0)))
        world.counts["requests"] += 1
        kind = rng.choices(
            ("demand", "check", "reach", "reapply", "adopt", "fail", "repair", "renew", "remap"),
            (60, 8, 8, 8, 4, 2, 2, 4, 3),
        )[0]
        why = ChangeReason("sim")
        try:
            if kind == "demand":
                await self.demand(session)
            elif kind == "check":
                await controller.check()
            elif kind == "reach":
                for name in list(controller.switches.unreachable):
                    await controller.reach(name)
            elif kind == "reapply":
                await session.reapply(why)
            elif kind == "adopt":
                await self.adopt()
            elif kind == "fail":
                servers = len(controller.port_map.servers)
                part = f"nic:{rng.randrange(servers)}/{rng.randrange(NICS)}"
                await session._fail(self.members[0].member, Frame({"op": "fail", "parts": [part]}))
            elif kind == "repair" and self.failures.parts:
                part = str(rng.choice(sorted(self.failures.parts)))
                await session.failures.remove([part])
            elif kind == "renew":
                controller.lease.renew()
            elif kind == "remap":
                await self.remap(session)
            world.counts[kind] += 1
        except LeaseError:
            raise
        except (ControlError, SwitchError, InputError) as error:
            world.counts[f"refused: {type(error).__name__}"] += 1

    async def read_map(self) -> PortMap:
        return self.file_map

    async def remap(self, session: RegionSession) -> None:
        """An operator edits the map and takes it up, sometimes while a job asks for circuits."""
        controller = self.controller
        if self.file_map.fingerprint == controller.port_map.fingerprint:
            self.edit_map()
        maps = MapChange(controller.port_map, self.file_map)
        for switch in self.switches.values():
            switch.matrix.deleted.clear()
        asking = None
        if self.world.rng.random() < 0.5:
            asking = asyncio.create_task(self.demand(session))
        kept = [
            (matrix, connect)
            for connects in map(self.matrices, sorted(maps.kept(controller.held)))
            if all(connect in matrix.cross_connects for matrix, connect in connects)
            for matrix, connect in connects
        ]
        try:
            await self.take_up(session)
        finally:
            if asking is not None:
                await asyncio.wait({asking})
        if asking is None:
            assert not any(connect in matrix.deleted for matrix, connect in kept)
        elif not asking.cancelled() and (error := asking.exception()) is not None:
            raise error
        if controller.port_map.fingerprint == maps.before.fingerprint:
            return
        self.world.counts["remapped while serving"] += 1
        for number, member in enumerate(self.members):
            assert member.is_dismissed
            member.join(session, number)

    def matrices(self, circuit: NicPair) -> list[tuple[WatchedMatrix, CrossConnect]]:
        """Where the cross-connects of a circuit are, or would be."""
        return [
            (self.switches[placed.switch].matrix, placed.cross_connect)
            for placed in self.controller.port_map.cross_connects(circuit)
        ]

    async def take_up(self, session: RegionSession) -> None:
        operator = ServiceMember(None, client="operator", role=ClientRole.OPERATOR)
        session.enter(operator)
        target = {"kind": "remapped"}
        plan = (await session.handle(operator, Frame({"op": "plan", "target": target})))["plan"]
        checks = self.world.rng.random() < 0.5
        await session.handle(operator, Frame({"op": "apply", "plan": plan, "checks": checks}))
        session.leave(operator)

    async def adopt(self) -> None:
        """An operator says that the circuits that are there are the controller's."""
        for circuit in await self.controller.adopt(ChangeReason("sim")):
            for placed in self.controller.port_map.cross_connects(circuit):
                self.switches[placed.switch].matrix.foreign.discard(placed.cross_connect)

    async def demand(self, session: RegionSession) -> None:
        ranks = session.controller.decider.ranks
        demand = np.zeros((1, ranks, ranks), "<u8")
        for _ in range(self.world.rng.randrange(1, 8)):
            a, b = self.world.rng.sample(range(ranks), 2)
            demand[0, a, b] = 10**9
        frame = Frame({"op": "demand", "upcoming": 1}, demand.tobytes())
        try:
            reply = await session.handle(self.members[0].member, frame)
            self.world.counts[str(reply["result"])] += 1
            self.world.counts["changes"] += reply["change"] is not None
        except LightloomError:
            reply = session.fallback()
            self.world.counts["use the EPS"] += 1
        self.check_light(reply["circuits"])

    def check_light(self, circuits: list[list[int]]) -> None:
        """No circuit that has been dark for longer than the set age is called lit.

        That is promised of what was read; by ``accepted`` the switch's word is believed.
        """
        if self.controller.region.change.verify == "accepted":
            return
        for row in circuits:
            pair = next(c for c in self.controller.held if list(c) == row)
            for placed in self.controller.port_map.cross_connects(pair):
                matrix = self.switches[placed.switch].matrix
                if placed.cross_connect in matrix.cross_connects:
                    continue
                dark_s = self.world.now - matrix.dark_since[placed.cross_connect]
                assert dark_s <= MAX_AGE_S + ANSWER_S, (pair, dark_s)

    async def disturb(self) -> None:
        """Act at random moments, for ever."""
        while True:
            await asyncio.sleep(self.world.rng.expovariate(1 / ACT_S))
            self.act()

    def act(self) -> None:
        """Whatever else there is in the world."""
        world, rng = self.world, self.world.rng
        switch = self.switches[rng.choice(SWITCHES)]
        matrix = switch.matrix
        act = rng.choices(list(ACTS), ACTS.values())[0]
        world.counts[f"act: {act}"] += 1
        match act:
            case "delete":
                ours = sorted(matrix.cross_connects - matrix.foreign)
                for connect in ours[:1] and [rng.choice(ours)]:
                    matrix.drop(connect)
            case "connect":
                connect = CrossConnect(
                    str(rng.randint(1, SERVERS)), str(PORTS + rng.randint(1, PORTS - 2))
                )
                if connect not in self.claimed(switch.name):
                    matrix.make(connect)
            case "clean up":
                for connect in sorted(matrix.foreign - OTHERS):
                    matrix.drop(connect)
            case "halfway":
                matrix.fails_halfway = True
            case "stuck":
                matrix.stuck = {rng.randint(1, SERVERS)}
            case "free":
                matrix.stuck = set()
            case "silence":
                switch.silence(world.now + rng.choice((0.2, 1.5, 3.0, 60.0)))
            case "power":
                switch.lose_power()
            case "clock":
                world.clock_error_s += rng.choice((-3600.0, -20.0, 20.0, 3600.0))
            case "kill":
                world.fuse = rng.randrange(0, 60)
            case "hang":
                member = rng.choice(self.members)
                member.hangs = not member.hangs
            case "map":
                self.edit_map()
                if rng.random() < 0.5:
                    world.fuse = 0

    def claimed(self, switch: str) -> set[CrossConnect]:
        """Cross-connects that the controller holds or has tried to make: whose they are is moot."""
        controller = self.controller
        unfinished = self.journal.unfinished() if self.is_alive else []
        changing = {c for entry in unfinished for c in entry.intent.wanted}
        return {
            placed.cross_connect
            for circuit in controller.held | controller._attempted | changing
            for placed in controller.port_map.cross_connects(circuit)
            if placed.switch == switch
        }

    def edit_map(self) -> None:
        """A server goes, comes back elsewhere in the list, or gets other ports."""
        rng = self.world.rng
        free = sorted(set(range(PORTS - 2)) - set(self.place.values()))
        if free and (len(self.names) < 5 or rng.random() < 0.3):
            name = f"new{rng.randrange(10**6)}"
            self.place[name] = rng.choice(free)
            self.names.insert(rng.randrange(len(self.names) + 1), name)
        elif not free or rng.random() < 0.5:
            self.place.pop(self.names.pop(rng.randrange(len(self.names))))
        else:
            self.place[rng.choice(self.names)] = rng.choice(free)
        self.file_map = map_of(self.names, self.place)

    async def run(self, requests: int) -> Counter[str]:
        """Live and die until so many requests were made; then let all agree."""
        world = self.world
        world.network.fault_rate = LINK_FAULTS
        disturbing = asyncio.create_task(self.disturb())
        try:
            while world.counts["requests"] < requests:
                await self.live(requests)
        finally:
            disturbing.cancel()
            self.die()
        await self.end()
        return world.counts

    async def live(self, until: int) -> None:
        """Live once more."""
        world = self.world
        try:
            await self.life(until)
        except Killed:
            world.counts["killed"] += 1
        except LeaseError:
            world.counts["lease held or lost"] += 1
            await asyncio.sleep(world.rng.uniform(1.0, 40.0))
        except (ControlError, SwitchError, InputError) as error:
            world.counts[f"not started: {type(error).__name__}"] += 1
            world.counts["requests"] += 1
            await asyncio.sleep(5.0)
        self.die()

    def die(self) -> None:
        """Nothing of the process is left but its file; what was sent is still done."""
        self.world.fuse, self.is_alive = None, False
        self.world.life += 1
        self.world.network.cut_clients()
        self.journal.close()

    async def end(self) -> None:
        """Faults end; an operator starts, takes up the map, repairs drift: all agree."""
        world = self.world
        world.network.fault_rate, world.fuse = 0.0, None
        for switch in self.switches.values():
            switch.faults.set_rate(0.0)
            switch.silence(0.0)
            switch.matrix.stuck, switch.matrix.fails_halfway = set(), False
            for connect in sorted(switch.matrix.foreign - OTHERS):
                switch.matrix.drop(connect)
        await asyncio.sleep(120.0)  # also sessions that were left over are closed by then
        for _ in range(2):
            self.start_controller()
            controller = self.controller
            await controller.start()
            if controller.port_map.fingerprint != self.file_map.fingerprint:
                await remap(controller, self.failures, self.file_map, ChangeReason("sim"))
            await controller.close()
            self.journal.close()
        self.start_controller()
        controller = self.controller
        await controller.start()
        if controller.state is RegionState.DRIFTED:
            await self.adopt()
            await controller.apply(controller.held, ChangeReason("sim"))
        report = await controller.apply((), ChangeReason("sim"))
        assert not report.failed, report.failed
        assert controller.state is RegionState.READY, controller.drift
        assert self.journal.unfinished() == []
        assert self.journal.damages() == []
        assert self.journal.held() == controller.held == frozenset()
        for switch in self.switches.values():
            owned = controller.port_map.owned(switch.name)
            present = switch.matrix.cross_connects
            assert not any(owned & {*connect} for connect in present)
            assert present >= OTHERS
        await controller.close()
        self.journal.close()


def simulate(seed: int, requests: int) -> Counter[str]:
    """Run one seed; return what happened how often."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SimulatedLoop()) as loop:
        loop.set_exception_handler(lambda _loop, _context: None)  # tasks of those that were killed
        simulation = Simulation(seed, Path(folder), loop)
        try:
            loop.run_until_complete(simulation.start())
            return loop.run_until_complete(simulation.run(requests))
        except BaseException as error:
            error.add_note(
                f"replay: python -m tests.control_sim --seed {seed} --requests {requests}"
            )
            raise
        finally:
            loop.run_until_complete(simulation.close())


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one seed")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--requests", type=int, default=1000)
    arguments = parser.parse_args()
    seeds = range(arguments.seeds) if arguments.seed is None else [arguments.seed]
    counts: Counter[str] = Counter()
    began = time.perf_counter()
    for seed in seeds:
        counts += simulate(seed, arguments.requests)
    print(
        f"{len(seeds)} seeds of {arguments.requests} requests, {time.perf_counter() - began:.0f} s"
    )
    for name, count in sorted(counts.items()):
        print(f"  {name:32} {count:9,}")


if __name__ == "__main__":
    main()
