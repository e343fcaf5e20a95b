"""A region as one process with one seed: controller, journal, switches, members, network, clock.

Time is simulated: every wait is over at once, and a failure is replayed by its seed. Switches are
in memory, behind the protocol of drivers; commands and replies take time, are lost, come late or
after a crash; switches fall silent or lose power and circuits; others act on them; ports fail;
the controller is killed at any of its waits, and started again on the same journal; servers are
moved in the port map; members hang; clocks are set. After TigerBeetle's simulator (VOPR).

Used by the tests (few) and by ``python -m tests.control_sim`` (many).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import selectors
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lightloom.control.controller import RegionController
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.lease import Lease
from lightloom.control.members import ServiceMember
from lightloom.control.port_map import NicPorts, PortMap, SwitchPort
from lightloom.control.processes import this_process
from lightloom.control.refusals import ControlError, LeaseError
from lightloom.control.region_file import RegionFile
from lightloom.control.remap import remap
from lightloom.control.report import RegionState
from lightloom.control.session import RegionSession
from lightloom.control.switch import (
    ChangeOperation,
    CircuitResult,
    CircuitState,
    CrossConnect,
    PortSide,
    PortStatus,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchError,
    SwitchTimeoutError,
    SwitchUnreachableError,
)
from lightloom.control.wire import Frame
from lightloom.errors import InputError, LightloomError

#: a process that has ended, whose lease is free at once; that of others only in time
GONE = this_process()._replace(number=2**22 + 1)
SERVERS, NICS, PORTS = 6, 2, 10
SWITCHES = ("s0", "s1")
RANKS = 1
MAX_AGE_S, CHECK_S, TIMEOUT_S = 1.0, 10.0, 2.0
#: longest time between a reading and the answer that it vouches for
ANSWER_S = 0.2
#: ports of each switch that the region does not have, and what is on them
OTHERS = frozenset({CrossConnect("9", "19"), CrossConnect("10", "20")})


class _Idle(selectors.SelectSelector):
    """Nothing is ever waited for: the clock is set forward instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        assert timeout is not None, "every task waits for another"
        self.now += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only in waits."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now


class Killed(BaseException):
    """The process of the controller has ended."""


@dataclass
class World:
    """What the simulation knows and the controller does not."""

    seed: int
    rng: random.Random = field(init=False)
    #: chance of a fault of each kind in a command
    fault_rate: float = 0.15
    #: seconds by which the time of day is wrong
    clock_error_s: float = 0.0
    #: how many more waits of the controller until it is killed; None never
    fuse: int | None = None
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


class SimulatedSwitch:
    """A switch that holds cross-connects, and knows who made each, and when it went dark."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.cross_connects: set[CrossConnect] = set(OTHERS)
        #: those that somebody else has made
        self.foreign: set[CrossConnect] = set(OTHERS)
        #: those of others that the controller has read since they were made
        self.known: set[CrossConnect] = set()
        self.dark_since: dict[CrossConnect, float] = {}
        self.silent_until = 0.0
        self.failed_ports: set[str] = set()
        self.is_connected = False
        self.late: list[tuple[float, SwitchChange]] = []

    # what the world does

    def make(self, connect: CrossConnect, *, foreign: bool) -> None:
        for other in list(self.cross_connects):
            if other.ingress == connect.ingress or other.egress == connect.egress:
                self.drop(other, foreign=foreign)
        self.cross_connects.add(connect)
        self.dark_since.pop(connect, None)
        (self.foreign.add if foreign else self.foreign.discard)(connect)

    def drop(self, connect: CrossConnect, *, foreign: bool) -> None:
        if connect not in self.cross_connects:
            return
        if not foreign:
            assert connect not in self.foreign or connect not in self.known, (
                f"{connect} of {self.name} is somebody else's, as the controller has read"
            )
        self.cross_connects.discard(connect)
        self.foreign.discard(connect)
        self.known.discard(connect)
        self.dark_since[connect] = self.world.now

    def lose_power(self) -> None:
        for connect in list(self.cross_connects):
            self.drop(connect, foreign=True)
        for connect in OTHERS:
            self.make(connect, foreign=True)
        self.is_connected = False

    # the protocol of drivers

    async def _wait(self, seconds: float) -> None:
        self.world.burn()
        await asyncio.sleep(seconds)
        self.world.burn()

    async def _answer(self) -> None:
        """The time until a reply, or until nobody waits for it any more."""
        await self._wait(self.world.rng.uniform(0.0005, 0.003))
        self._settle()
        if self.world.now < self.silent_until:
            self.is_connected = False
            await self._wait(0.5)
            raise SwitchTimeoutError(f"{self.name}: no reply within 0.5 s")

    def _settle(self) -> None:
        due = [change for at, change in self.late if at <= self.world.now]
        self.late = [(at, change) for at, change in self.late if at > self.world.now]
        for change in due:
            self._do(change)

    async def connect(self) -> SwitchDescription:
        await self._wait(0.002)
        if self.world.now < self.silent_until:
            await self._wait(0.3)
            raise SwitchUnreachableError(f"{self.name}: no connection within 0.3 s")
        self.is_connected = True
        sides = {
            str(n + 1): (PortSide.INGRESS, PortSide.EGRESS)[n // PORTS] for n in range(2 * PORTS)
        }
        return SwitchDescription("Simulated", "S-1", self.name, (PORTS, PORTS), sides)

    async def read_back(self, *, ports: bool = True) -> Readback:
        self._check()
        await self._answer()
        read = frozenset(self.cross_connects)
        self.known = set(self.foreign & read)
        states = tuple(
            PortStatus(port, PortSide.ANY, power_dbm=float("-inf")) for port in self.failed_ports
        )
        await self._wait(self.world.rng.uniform(0.0005, 0.002))
        return Readback(read, {}, states if ports else ())

    def _check(self) -> None:
        if not self.is_connected:
            raise SwitchDisconnectedError(f"{self.name}: the connection was cut")

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        self._check()
        rng = self.world.rng
        await self._answer()
        fault = rng.random() < self.world.fault_rate and rng.choice(
            ("deny", "half", "stuck", "cut-before", "cut-after", "cut-half", "late")
        )
        half = SwitchChange(
            change.deletes[: (len(change.deletes) + 1) // 2],
            change.creates[: len(change.creates) // 2],
        )
        if fault:
            self.world.counts[f"fault: {fault}"] += 1
        if fault == "late":
            self.late.append((self.world.now + rng.uniform(0.0, 0.04), change))
        elif fault in ("half", "cut-half"):
            self._do(half)
        elif fault == "stuck":
            self._do(SwitchChange(change.deletes, change.creates[1:]))
        elif fault not in ("deny", "cut-before"):
            self._do(change)
        if fault and fault.startswith(("cut", "late")):
            self.is_connected = False
            raise SwitchDisconnectedError(f"{self.name}: the connection was cut")
        await self._wait(rng.uniform(0.005, 0.02))
        state = CircuitState.INVALID if fault in ("deny", "half") else None
        return (
            *(CircuitResult(cross, ChangeOperation.DELETE, state) for cross in change.deletes),
            *(
                CircuitResult(cross, ChangeOperation.CREATE, state or CircuitState.CONNECTED)
                for cross in change.creates
            ),
        )

    def _do(self, change: SwitchChange) -> None:
        for connect in change.deletes:
            self.drop(connect, foreign=False)
        for connect in change.creates:
            self.make(connect, foreign=False)

    async def watch(self):
        for event in ():
            yield event

    async def close(self) -> None:
        self.is_connected = False


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
        self.hangs = False

    def is_closing(self) -> bool:
        return False

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

    def __init__(self, seed: int, folder: Path) -> None:
        self.world = World(seed)
        self.path = folder / "sim.sqlite"
        self.switches = {name: SimulatedSwitch(self.world, name) for name in SWITCHES}
        self.place = {f"node{n}": n for n in range(SERVERS)}
        self.names = sorted(self.place)
        self.members = [SimulatedMember(self.world) for _ in range(2)]
        self.controller: RegionController | None = None

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
            self.switches,
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
        self.file_map = wanted

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
                await remap(controller, self.file_map, ChangeReason("sim"))
                world.counts["remapped"] += 1
                return
            session = RegionSession(controller, 0.3, failures=self.failures, demand_timeout_s=3.0)
            for number, member in enumerate(self.members):
                member.session, member.member.is_hung = session, False
                member.member.server = number
                session.enter(member.member)
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
        self.disturb()
        await asyncio.sleep(rng.choice((0.0, 0.001, 0.01, 0.3, 2.0)))
        world.counts["requests"] += 1
        kind = rng.choices(
            ("demand", "check", "reach", "reapply", "adopt", "fail", "repair", "renew"),
            (60, 8, 8, 8, 4, 2, 2, 4),
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
                part = f"nic:{rng.randrange(len(self.names))}/{rng.randrange(NICS)}"
                await session._fail(self.members[0].member, Frame({"op": "fail", "parts": [part]}))
            elif kind == "repair" and self.failures.parts:
                part = str(rng.choice(sorted(self.failures.parts)))
                await session.failures.remove([part])
            elif kind == "renew":
                controller.lease.renew()
            world.counts[kind] += 1
        except LeaseError:
            raise
        except (ControlError, SwitchError, InputError) as error:
            world.counts[f"refused: {type(error).__name__}"] += 1

    async def adopt(self) -> None:
        """An operator says that the circuits that are there are the controller's."""
        for circuit in await self.controller.adopt(ChangeReason("sim")):
            for placed in self.controller.port_map.cross_connects(circuit):
                self.switches[placed.switch].foreign.discard(placed.cross_connect)

    async def demand(self, session: RegionSession) -> None:
        ranks = session.controller.decider.ranks
        demand = np.zeros((1, ranks, ranks), "<u8")
        for _ in range(self.world.rng.randrange(1, 8)):
            a, b = self.world.rng.sample(range(ranks), 2)
            demand[0, a, b] = 10**9
        asked = self.world.now
        frame = Frame({"op": "demand", "upcoming": 1}, demand.tobytes())
        try:
            reply = await session.handle(self.members[0].member, frame)
            self.world.counts[str(reply["result"])] += 1
            self.world.counts["changes"] += reply["change"] is not None
        except LightloomError:
            reply = session.fallback()
            self.world.counts["use the EPS"] += 1
        self.check_light(reply["circuits"], asked)

    def check_light(self, circuits: list[list[int]], asked: float) -> None:
        """No circuit that has been dark for longer than the set age is called lit.

        That is promised of what was read; by ``accepted`` the switch's word is believed.
        """
        if self.controller.region.change.verify == "accepted":
            return
        for row in circuits:
            pair = next(c for c in self.controller.held if list(c) == row)
            for placed in self.controller.port_map.cross_connects(pair):
                switch = self.switches[placed.switch]
                if placed.cross_connect in switch.cross_connects:
                    continue
                dark_s = self.world.now - switch.dark_since[placed.cross_connect]
                assert dark_s <= MAX_AGE_S + max(self.world.now - asked, ANSWER_S), (pair, dark_s)

    def disturb(self) -> None:
        """Whatever else there is in the world."""
        world, rng = self.world, self.world.rng
        switch = self.switches[rng.choice(SWITCHES)]
        draw = rng.random()
        if draw < 0.02:
            ours = sorted(switch.cross_connects - switch.foreign)
            if ours:
                switch.drop(rng.choice(ours), foreign=True)
                world.counts["deleted by others"] += 1
        elif draw < 0.04:
            ends = str(rng.randint(1, SERVERS)), str(PORTS + rng.randint(1, PORTS - 2))
            connect = CrossConnect(*ends)
            if connect not in self.claimed(switch.name):
                switch.make(connect, foreign=True)
                world.counts["connected by others"] += 1
        elif draw < 0.07:
            # others clean up what they made
            theirs = sorted(switch.foreign - OTHERS)
            for connect in theirs:
                switch.drop(connect, foreign=True)
        elif draw < 0.08:
            switch.silent_until = world.now + rng.choice((0.2, 3.0, 60.0))
            world.counts["silent"] += 1
        elif draw < 0.085:
            switch.lose_power()
            world.counts["power lost"] += 1
        elif draw < 0.095:
            world.clock_error_s += rng.choice((-3600.0, -20.0, 20.0, 3600.0))
            world.counts["clock set"] += 1
        elif draw < 0.105:
            world.fuse = rng.randrange(0, 40)
        elif draw < 0.11:
            member = rng.choice(self.members)
            member.hangs = not member.hangs
        elif draw < 0.113:
            self.edit_map()
            world.fuse = 0
            world.counts["map edited"] += 1

    def claimed(self, switch: str) -> set[CrossConnect]:
        """Cross-connects that the controller holds or has tried to make: whose they are is moot."""
        controller = self.controller
        changing = {c for entry in self.journal.unfinished() for c in entry.intent.wanted}
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
        if len(self.names) < 5 or rng.random() < 0.3:
            name = f"new{rng.randrange(10**6)}"
            self.place[name] = rng.choice(free)
            self.names.insert(rng.randrange(len(self.names) + 1), name)
        elif not free or rng.random() < 0.5:
            self.place.pop(self.names.pop(rng.randrange(len(self.names))))
        else:
            self.place[rng.choice(self.names)] = rng.choice(free)

    async def run(self, requests: int) -> Counter[str]:
        """Live and die until so many requests were made; then let all agree."""
        world = self.world
        while world.counts["requests"] < requests:
            try:
                await self.life(requests)
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
        await self.end()
        return world.counts

    def die(self) -> None:
        """Nothing of the process is left but its file; what was sent is still done."""
        self.world.fuse = None
        for switch in self.switches.values():
            switch.is_connected = False
        self.journal.close()

    async def end(self) -> None:
        """Faults end; an operator starts, takes up the map, repairs drift: all agree."""
        world = self.world
        world.fault_rate, world.fuse = 0.0, None
        for switch in self.switches.values():
            switch.silent_until = 0.0
            for connect in sorted(switch.foreign - OTHERS):
                switch.drop(connect, foreign=True)
        await asyncio.sleep(60.0)
        for _ in range(2):
            self.start_controller()
            controller = self.controller
            await controller.start()
            if controller.port_map.fingerprint != self.file_map.fingerprint:
                await remap(controller, self.file_map, ChangeReason("sim"))
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
            assert not any(owned & {*connect} for connect in switch.cross_connects)
            assert switch.cross_connects >= OTHERS
        await controller.close()
        self.journal.close()


def simulate(seed: int, requests: int) -> Counter[str]:
    """Run one seed; return what happened how often."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(SimulatedLoop()) as loop:
        loop.set_exception_handler(lambda _loop, _context: None)  # tasks of those that were killed
        simulation = Simulation(seed, Path(folder))
        try:
            return loop.run_until_complete(simulation.run(requests))
        except BaseException as error:
            error.add_note(
                f"replay: python -m tests.control_sim --seed {seed} --requests {requests}"
            )
            raise


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
