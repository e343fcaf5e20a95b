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
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import Journal
from lightloom.control.lease import Lease
from lightloom.control.port_map import NicPorts, PortMap, SwitchPort
from lightloom.control.refusals import StateError
from lightloom.control.report import RegionState
from lightloom.control.session import RegionSession
from lightloom.control.switch import Credentials, SwitchError

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
async def on_planes(folder, switches=None):
    switches = switches or {"s0": FakeSwitch(8), "s1": FakeSwitch(8)}
    journal = Journal(folder / "r0.sqlite", "r0")
    controller = RegionController(
        region_of(), plane_map(), switches, journal, Lease(journal, "test")
    )
    RegionFailures(controller).load()
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


def spread(controller):
    """Circuits that the decider wants for equal demand between all servers."""
    decider = controller.decider
    demand = np.full((1, SERVERS, SERVERS), 10**9, np.uint64)
    return circuits_of(decider.decide(decider.hold(controller.held), demand))


def test_one_plane_fails_and_the_other_continues(tmp_path):
    async def scenario():
        async with on_planes(tmp_path) as (controller, _):
            session = RegionSession(controller)
            await controller.apply(pairs("0/0-1/0 2/1-3/1"), WHY)
            response = await session.failures.add(["switch:s1"])
            assert response.excluded.parts == "plane 1"
            assert controller.state is RegionState.READY
            assert controller.held == pairs("0/0-1/0")
            wanted = spread(controller)
            assert {pair.nic for pair in wanted} == {0}
            assert (await controller.apply(wanted, WHY)).result == "done"
            await session.failures.remove(["switch:s1"])
            # what was left on it is not the controller's any more, and is noticed
            assert controller.state is RegionState.DRIFTED
            await controller.adopt(WHY)
            assert pairs("2/1-3/1") <= controller.held

    asyncio.run(scenario())


def test_a_switch_that_does_not_answer_is_blind_and_the_other_works(tmp_path):
    async def scenario():
        async with on_planes(tmp_path) as (controller, switches):
            session = RegionSession(controller)
            await controller.apply(pairs("0/0-1/0 2/1-3/1"), WHY)
            switches["s1"].is_down = True
            assert await controller.check() is RegionState.READY
            assert list(controller.switches.unreachable) == ["s1"]
            session.failures.current()
            assert session._circuits()["circuits"] == [[0, 0, 1, 0]]
            assert session._circuits()["unreachable"] == ["s1"]
            wanted = spread(controller)
            assert {pair.nic for pair in wanted} == {0}
            assert (await controller.apply(wanted, WHY)).result == "done"
            # its circuits are left as they are, and still the controller's
            assert controller.held == wanted | pairs("2/1-3/1")
            with pytest.raises(StateError, match=r"circuit 0/1-2/1 cannot be made: s1 does not an"):
                await controller.apply(pairs("0/1-2/1"), WHY)
            assert not await controller.reach("s1")
            switches["s1"].is_down = False
            assert await controller.reach("s1")
            assert (controller.state, controller.switches.unreachable) == (RegionState.READY, {})
            assert {pair.nic for pair in spread(controller)} == {0}
            session.failures.current()
            assert {pair.nic for pair in spread(controller)} == {0, 1}

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "cut-half"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_change_on_a_switch_that_falls_silent_stays_open(tmp_path, fault, restarts):
    """Other changes are made meanwhile; when it answers again, it says what became of the first."""
    first, second = pairs("0/0-1/0 2/1-3/1"), pairs("0/0-2/0 0/1-3/1")

    async def scenario():
        async with on_planes(tmp_path) as (controller, switches):
            await controller.apply(first, WHY)
            silent = switches["s1"]
            silent.faults.append(fault)
            command = silent.apply

            async def cut(change):
                silent.unreadable = 10**6
                return await command(change)

            silent.apply = cut
            report = await controller.apply(second, WHY)
            assert report.result == "unknown"
            assert set(report.failed) == pairs("2/1-3/1 0/1-3/1")
            assert pairs("0/0-2/0") <= controller.held
            report = await controller.apply(pairs("1/0-3/0"), WHY)
            assert report.result == "done"
            assert len(controller.journal.unfinished()) == 1
            silent.unreadable, silent.apply = 0, command
            if not restarts:
                assert await controller.reach("s1")
                check(controller, switches)
        if restarts:
            silent.is_connected = False
            async with on_planes(tmp_path, switches) as (controller, _):
                check(controller, switches)

    def check(controller, switches):
        assert controller.journal.unfinished() == []
        assert controller.state is RegionState.READY
        present = {name: switch.cross_connects for name, switch in switches.items()}
        assert controller.held == controller.port_map.observe(present).circuits
        assert pairs("1/0-3/0") <= controller.held
        assert controller.journal.held() == controller.held

    asyncio.run(scenario())


def test_a_region_starts_with_what_answers(tmp_path):
    async def scenario():
        async with on_planes(tmp_path) as (controller, switches):
            await controller.apply(pairs("0/0-1/0 2/1-3/1"), WHY)
        switches["s1"].is_down = True
        async with on_planes(tmp_path, switches) as (controller, _):
            assert controller.state is RegionState.READY
            assert list(controller.switches.unreachable) == ["s1"]
            assert (await controller.apply(pairs("1/0-3/0 2/1-3/1"), WHY)).result == "done"
            await RegionFailures(controller).add(["switch:s1"])
        async with on_planes(tmp_path, switches) as (controller, _):
            assert not controller.switches.unreachable
            assert controller.held == pairs("1/0-3/0")
        switches["s0"].is_down = True
        with pytest.raises(SwitchError, match="connection refused"):
            async with on_planes(tmp_path, switches):
                pass

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
