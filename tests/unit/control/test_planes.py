"""Several switches per region: planes, a switch that fails as a whole, and many regions at once."""

import asyncio
import contextlib

import numpy as np
import pytest
from tests.control_regions import WHY, pairs, port_map_of, region_of
from tests.fake_switch import FakeSwitch

from lightloom.control.controller import RegionController
from lightloom.control.decisions import circuits_of
from lightloom.control.drivers import open_driver
from lightloom.control.emulator import Emulator, MeasuredTime
from lightloom.control.journal import Journal
from lightloom.control.lease import Lease
from lightloom.control.port_map import NicPorts, PortMap, SwitchPort
from lightloom.control.report import RegionState
from lightloom.control.session import RegionSession
from lightloom.control.switch import Credentials

SERVERS = 4


def plane_map():
    """NIC j of each server on switch sj, at the same ports of both."""
    entries = tuple(
        NicPorts(
            server,
            nic,
            SwitchPort(f"s{nic}", str(server + 1)),
            SwitchPort(f"s{nic}", str(server + 9)),
        )
        for server in range(SERVERS)
        for nic in range(2)
    )
    return PortMap("ports.csv", tuple("abcd"), entries)


@contextlib.asynccontextmanager
async def on_planes(folder):
    switches = {"s0": FakeSwitch(8), "s1": FakeSwitch(8)}
    journal = Journal(folder / "r0.sqlite", "r0")
    controller = RegionController(
        region_of(), plane_map(), switches, journal, Lease(journal, "test")
    )
    try:
        await controller.start()
        yield controller, switches
    finally:
        await controller.close()
        journal.close()


def test_a_change_goes_to_all_its_planes(tmp_path):
    async def scenario():
        async with on_planes(tmp_path) as (controller, switches):
            wanted = pairs("0/0-1/0 2/0-3/0 0/1-2/1")
            assert (await controller.apply(wanted, WHY)).result == "done"
            assert len(switches["s0"].cross_connects) == 4
            assert len(switches["s1"].cross_connects) == 2
            switches["s1"].faults.append("cut-after")
            report = await controller.apply(pairs("0/0-1/0 1/1-3/1"), WHY)
            assert report.result == "done"
            assert len(switches["s0"].commands) == 2

    asyncio.run(scenario())


def test_one_plane_fails_and_the_other_continues(tmp_path):
    async def scenario():
        async with on_planes(tmp_path) as (controller, switches):
            session = RegionSession(controller)
            await controller.apply(pairs("0/0-1/0 2/1-3/1"), WHY)
            switches["s1"].is_down = True
            with pytest.raises(Exception, match=r"connection refused|the connection was cut"):
                await controller.check()
            assert controller.state is RegionState.UNKNOWN
            assert session.failures.unreachable() == ["switch:s1"]
            response = await session.failures.add(["switch:s1"])
            assert response.excluded.parts == "plane 1"
            assert controller.state is RegionState.READY
            assert controller.held == pairs("0/0-1/0")
            decider = controller.decider
            demand = np.full((1, SERVERS, SERVERS), 10**9, np.uint64)
            decision = decider.decide(decider.hold(controller.held), demand)
            assert {pair.nic for pair in circuits_of(decision)} == {0}
            assert (await controller.apply(circuits_of(decision), WHY)).result == "done"
            switches["s1"].is_down = False
            await session.failures.remove(["switch:s1"])
            # what was left on it is not the controller's any more, and is noticed
            assert controller.state is RegionState.DRIFTED
            await controller.adopt(WHY)
            assert pairs("2/1-3/1") <= controller.held

    asyncio.run(scenario())


def test_the_service_gives_up_a_plane_on_its_own(tmp_path):
    async def scenario():
        async with on_planes(tmp_path) as (controller, switches):
            session = RegionSession(controller)
            await controller.apply(pairs("0/0-1/0 2/1-3/1"), WHY)
            switches["s1"].is_down = True
            with contextlib.suppress(Exception):
                await controller.check()
            session._recover_later()
            await session._recovering
            assert [str(part) for part in session.failures.parts] == ["switch:s1"]
            assert controller.state is RegionState.READY

    asyncio.run(scenario())


def test_sixty_four_regions_on_one_machine(tmp_path):
    """One controller per region and no global one; 48 ports each."""

    async def region(number, journal):
        async with Emulator((48, 48), seed=number, timing=MeasuredTime(0.01)) as emulator:
            driver = open_driver(emulator.url(), credentials=Credentials("admin", "root"))
            controller = RegionController(
                region_of(timeout_s=60.0), port_map_of(8, 6, 48), {"ocs": driver}, journal
            )
            await controller.start()
            rng = np.random.default_rng(number)
            decider = controller.decider
            for _ in range(2):
                demand = rng.integers(0, 10**9, size=(16, 16), dtype=np.uint64)
                decision = decider.decide(decider.hold(controller.held), decider.fold(demand))
                report = await controller.apply(circuits_of(decision), WHY)
                assert report.result in {"done", "unchanged"}
            assert len(emulator.matrix.circuits) == 2 * len(controller.held) > 0
            await controller.close()

    async def all_regions():
        journals = [Journal(tmp_path / "all.sqlite", f"region {n}") for n in range(64)]
        await asyncio.gather(*(region(n, journal) for n, journal in enumerate(journals)))
        assert [len(journal.last()) >= 1 for journal in journals] == [True] * 64
        for journal in journals:
            journal.close()

    asyncio.run(all_regions())
