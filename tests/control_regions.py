"""Regions of the tests: a fake switch, a port map of a few servers, a controller."""

from __future__ import annotations

import asyncio
import io
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tests.fake_switch import FakeSwitch

from lightloom.control.controller import RegionController
from lightloom.control.emulator import Emulator, FixedTime
from lightloom.control.journal import ChangeReason, Journal
from lightloom.control.lease import Lease
from lightloom.control.port_map import NicPair, NicPorts, PortMap, SwitchPort
from lightloom.control.region_file import RegionFile
from lightloom.control.running import open_region, serve

WHY = ChangeReason("test", "because", "job-1", 3, 5)


def port_map_of(servers: int, nics: int, size: int, switch: str = "ocs") -> PortMap:
    """NIC j of server i at ingress port i * nics + j + 1, and as far into the egress ports."""
    entries = tuple(
        NicPorts(
            server,
            nic,
            SwitchPort(switch, str(server * nics + nic + 1)),
            SwitchPort(switch, str(size + server * nics + nic + 1)),
        )
        for server in range(servers)
        for nic in range(nics)
    )
    return PortMap("ports.csv", tuple(f"node{n}" for n in range(servers)), entries)


def region_of(**change) -> RegionFile:
    return RegionFile(
        name="r0",
        port_map="ports.csv",
        journal="r0.sqlite",
        switches={"ocs": {"url": "emulator://"}},
        job={"ranks_per_server": 2, "gpus_per_server": 2},
        policy={"when": "always"},
        timing={"fixed_s": 0.001, "link_up_s": 0.0},
        change={"timeout_s": 0.1, **change},
    )


@asynccontextmanager
async def controlled(folder: Path, switch: FakeSwitch | None = None, **change):
    """A started controller of four servers of two NICs, and its switch."""
    switch = switch or FakeSwitch(12)
    journal = Journal(folder / "r0.sqlite", "r0")
    controller = RegionController(
        region_of(**change),
        port_map_of(4, 2, switch.size),
        {"ocs": switch},
        journal,
        Lease(journal, "test"),
    )
    try:
        await controller.start()
        yield controller, switch
    finally:
        await controller.close()
        journal.close()


def pair(text: str) -> NicPair:
    """``0/1-2/0`` as a circuit."""
    a, b = (end.split("/") for end in text.split("-"))
    return NicPair(int(a[0]), int(a[1]), int(b[0]), int(b[1]))


def pairs(text: str) -> frozenset[NicPair]:
    return frozenset(pair(one) for one in text.split())


@contextmanager
def emulated(size=12, settle_s=0.001):
    """An emulator that listens in a thread with an event loop."""
    emulator = Emulator((size, size), seed=1, timing=FixedTime(settle_s))
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run():
        async with emulator:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    started.wait()
    try:
        yield emulator
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@contextmanager
def served(path):
    """A service of the region in a thread; it ends with the block."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stopped = []

    async def run():
        task = asyncio.current_task()
        stopped.append(lambda: loop.call_soon_threadsafe(task.cancel))
        region = open_region(path, io.StringIO())
        with suppress(asyncio.CancelledError):
            await serve(region, lambda _address: ready.set())

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        stopped[0]()
        thread.join()
        loop.close()
