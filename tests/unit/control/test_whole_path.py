"""Port map, demand, decision, change, journal, driver, read-back: against the emulator."""

import asyncio

import numpy as np
import pytest
from tests.control_regions import WHY, port_map_of, region_of

from lightloom.control.controller import RegionController
from lightloom.control.decisions import circuits_of
from lightloom.control.drivers import open_driver
from lightloom.control.emulator import Emulator, FaultKind, FixedTime
from lightloom.control.journal import Journal
from lightloom.control.report import RegionState
from lightloom.control.switch import Credentials, CrossConnect
from lightloom.schedule import Decider, Policy, Region


async def with_emulator(folder, scenario, **change):
    emulator = Emulator((12, 12), seed=1, timing=FixedTime(0.001))
    async with emulator:
        driver = open_driver(emulator.url(), credentials=Credentials("admin", "root"))
        journal = Journal(folder / "r0.sqlite", "r0")
        ports = port_map_of(4, 2, 12)
        controller = RegionController(
            region_of(**{"timeout_s": 5.0, **change}), ports, {"ocs": driver}, journal
        )
        try:
            await controller.start()
            return await scenario(controller, emulator)
        finally:
            await controller.close()
            journal.close()


def present(emulator):
    return {CrossConnect(str(a), str(b)) for a, b in emulator.matrix.circuits.items()}


def demand_of(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 10**9, size=(8, 8), dtype=np.uint64)


def test_demand_becomes_light(tmp_path):
    async def scenario(controller, emulator):
        decider = controller.decider
        for seed in range(3):
            demand = decider.fold(demand_of(seed))
            decision = decider.decide(decider.hold(controller.held), demand)
            report = await controller.apply(circuits_of(decision), WHY)
            assert report.result in {"done", "unchanged"}
            observed = controller.port_map.observe({"ocs": present(emulator)})
            assert observed.circuits == circuits_of(decision) == controller.held
        assert len(controller.journal.last()) >= 2

    asyncio.run(with_emulator(tmp_path, scenario))


def test_the_decision_is_that_of_the_simulators_decider(tmp_path):
    async def scenario(controller, _):
        region = Region(ports=2, circuit_gbps=400, eps_gbps=800, eps_nics=2)
        other = Decider(4, region, policy=Policy(when="always"), timing=0.001)
        circuits = other.start()
        for seed in range(20):
            ranks = demand_of(seed)
            servers = ranks.reshape(4, 2, 4, 2).sum(axis=(1, 3))
            np.testing.assert_array_equal(controller.decider.fold(ranks)[0], servers)
            ours = controller.decider.decide(circuits, controller.decider.fold(ranks))
            assert ours == other.decide(circuits, servers)
            circuits = ours.held

    asyncio.run(with_emulator(tmp_path, scenario))


@pytest.mark.parametrize(
    "fault", [FaultKind.DENY, FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER, FaultKind.FRAGMENT]
)
def test_faults_of_the_wire(tmp_path, fault):
    async def scenario(controller, emulator):
        decider = controller.decider
        emulator.faults.next_change(fault)
        report = await controller.apply(decider.start(), WHY)
        assert report.result == "done"
        assert controller.state is RegionState.READY
        observed = controller.port_map.observe({"ocs": present(emulator)})
        assert observed.circuits == decider.start()

    asyncio.run(with_emulator(tmp_path, scenario))
