"""What is left of circuits that were given up is the controller's, and readings are as old as they
are: faults that the simulated wire has found.
"""

import asyncio
from dataclasses import replace

import pytest
from tests.control_regions import WHY, controlled, pair, pairs
from tests.fake_switch import FakeSwitch

from lightloom.control.failure_state import RegionFailures
from lightloom.control.port_map import PortMap
from lightloom.control.refusals import ControlError
from lightloom.control.remap import remap
from lightloom.control.report import RegionState
from lightloom.control.switch import SwitchChange

RING = pairs("0/0-1/0 1/1-2/0 2/1-3/0 0/1-3/1")


class StuckSwitch(FakeSwitch):
    """Some of its mirrors do not move, whatever it says."""

    stuck = frozenset()

    def _do(self, change):
        free = [one for one in change.deletes if one not in self.stuck]
        super()._do(SwitchChange(tuple(free), change.creates))


def cross_connects(controller, circuit):
    return [placed.cross_connect for placed in controller.port_map.cross_connects(circuit)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_delete_that_was_only_accepted_may_have_left_something(tmp_path, restarts):
    async def scenario():
        switch = StuckSwitch(12)
        async with controlled(tmp_path, switch, verify="accepted") as (controller, _):
            await controller.apply(RING, WHY)
            switch.stuck = {cross_connects(controller, pair("0/0-1/0"))[0]}
            report = await controller.apply(RING - {pair("0/0-1/0")}, WHY)
            assert report.result == "done"  # the switch said so
            if not restarts:
                await last(controller, switch)
        if restarts:
            async with controlled(tmp_path, switch, verify="accepted") as (controller, _):
                await last(controller, switch)

    async def last(controller, switch):
        # the cross-connect is this controller's: no drift, and the next change deletes it
        assert await controller.check() is RegionState.READY
        switch.stuck = frozenset()
        await controller.apply(frozenset(), WHY)
        assert not switch.cross_connects

    asyncio.run(scenario())


def test_a_circuit_that_is_given_up_while_half_of_it_is_there_is_deleted_later(tmp_path):
    async def scenario():
        async with controlled(tmp_path, retries=0) as (controller, switch):
            await controller.apply(RING, WHY)
            gone, kept = cross_connects(controller, pair("0/0-1/0"))
            switch.cross_connects.discard(gone)
            await controller.check()
            switch.faults.append("deny")
            await controller.apply(RING - {pair("0/0-1/0")}, WHY)
            assert kept in switch.cross_connects
            assert await controller.check() is RegionState.READY
            await controller.apply(frozenset(), WHY)
            assert not switch.cross_connects

    asyncio.run(scenario())


def test_a_map_is_not_taken_up_while_a_circuit_that_it_lacks_is_left_in_part(tmp_path):
    async def scenario():
        switch = StuckSwitch(12)
        async with controlled(tmp_path, switch, retries=0) as (controller, _):
            await controller.apply(RING, WHY)
            stuck = cross_connects(controller, pair("2/1-3/0"))[0]
            switch.stuck = {stuck}
            await controller.apply(frozenset(), WHY)
            assert switch.cross_connects == {stuck}
            before, failures = controller.port_map, RegionFailures(controller)
            after = PortMap(
                before.name,
                before.servers[:3],
                tuple(entry for entry in before.nics if entry.server < 3),
            )
            with pytest.raises(ControlError, match=r"circuit 2/1-3/0 .*port map still counts$"):
                await remap(controller, failures, after, WHY)
            switch.stuck = frozenset()
            await remap(controller, failures, after, WHY)
            assert not switch.cross_connects
            assert controller.journal.port_map().servers == after.servers

    asyncio.run(scenario())


def test_a_reading_is_as_old_as_its_beginning(tmp_path):
    class SlowSwitch(FakeSwitch):
        async def read_back(self, *, ports=True):
            read = await super().read_back(ports=ports)
            await asyncio.sleep(0.05)
            return replace(read)

    async def scenario():
        async with controlled(tmp_path, SlowSwitch(12)) as (controller, _):
            await controller.check()
            assert controller.age_s >= 0.05

    asyncio.run(scenario())
