"""Deadlines: of a demand while a switch or a member takes its time, and members that hang.

Who is late waits for a word of the test, so that a machine with much to do changes nothing.
"""

import asyncio
import functools

import pytest
from tests.fake_switch import FakeSwitch
from tests.unit.control.test_service import HELLO, TOKEN, demand, raw
from tests.unit.control.test_service import served as served_by

from lightloom.control.client import ControlClient
from lightloom.control.refusals import RequestError
from lightloom.control.report import RegionState
from lightloom.control.switch import CrossConnect, SwitchTimeoutError
from lightloom.control.wire import encode, read_frame

#: a service whose switch has all the time it needs
served = functools.partial(served_by, timeout_s=60)


class SlowSwitch(FakeSwitch):
    """Says that it has begun a change, and makes it once it may."""

    def __init__(self):
        super().__init__(12)
        self.begun, self.may = asyncio.Event(), asyncio.Event()

    async def apply(self, change):
        self.begun.set()
        await self.may.wait()
        return await super().apply(change)


async def until(condition, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_late_demand_uses_the_eps_and_its_change_is_carried_through(tmp_path):
    async def scenario():
        switch, log = SlowSwitch(), []
        options = {"demand_timeout_s": 0.1, "notify": lambda *e: log.append(e)}
        async with (
            served(tmp_path, switch, **options) as (service, session, _),
            ControlClient(service.address, TOKEN) as client,
        ):
            reply = await client.circuits_for(demand((0, 7)))
            assert reply["error"] == (
                "r0: no circuits within 0.1 s: the change goes on; use the packet network (EPS) "
                "meanwhile"
            )
            assert reply["circuits"] == []
            # whose turn does not come is dropped
            reply = await client.circuits_for(demand((2, 5)))
            assert reply["error"] == (
                "r0: no circuits within 0.1 s: others are being changed; use the packet network "
                "(EPS)"
            )
            assert not switch.commands
            switch.may.set()
            await until(lambda: len(session.controller.held) > 0)
            await until(lambda: not session._background)
            (entry,) = session.controller.journal.last()
            assert entry.outcome.result == "done"
            reply = await client.request("status")
            assert [0, 3] in [[row[0], row[2]] for row in reply["circuits"]]
            assert len(switch.commands) == 1
            assert not session._lock.locked()
            assert log == [("late-demand", {"result": "done"})]

    asyncio.run(scenario())


def test_no_reply_lists_a_circuit_that_is_being_deleted(tmp_path):
    async def scenario():
        switch = SlowSwitch()
        switch.may.set()
        async with (
            served(tmp_path, switch) as (service, _session, _),
            ControlClient(service.address, TOKEN) as client,
            ControlClient(service.address, TOKEN) as other,
        ):
            before = (await client.circuits_for(demand((0, 7), (7, 0))))["circuits"]
            switch.may.clear()
            switch.begun.clear()
            task = asyncio.create_task(client.circuits_for(demand((2, 5), (1, 3))))
            await switch.begun.wait()
            during = (await other.request("status"))["circuits"]
            switch.may.set()
            after = (await task)["circuits"]
            gone = [row for row in before if row not in after]
            assert gone
            assert not [row for row in during if row in gone or row not in before]

    asyncio.run(scenario())


def test_the_drain_counts_within_the_deadline(tmp_path):
    async def scenario():
        may_drain = asyncio.Event()

        async def slow(name, _facts):
            if name == "drain":
                await may_drain.wait()

        async with (
            served(tmp_path, demand_timeout_s=0.1, drain_timeout_s=60) as (
                service,
                session,
                switch,
            ),
            ControlClient(service.address, TOKEN, slow) as member,
            ControlClient(service.address, TOKEN) as client,
        ):
            await member.request("join", server=3)
            reply = await client.circuits_for(demand((0, 7)))
            assert "no circuits within 0.1 s: the change goes on" in reply["error"]
            assert not switch.commands
            may_drain.set()
            await until(lambda: not session._background)
            assert len(switch.commands) == 1

    asyncio.run(scenario())


async def join(service, server):
    """A member that reads, and answers only when it is told to."""
    reader, writer = await raw(service)
    writer.write(HELLO + encode({"op": "join", "id": 1, "server": server}))
    for _ in range(2):
        await read_frame(reader, 2**20, 0)
    return reader, writer


def test_a_hung_member_is_waited_for_once_then_reported_and_removed(tmp_path):
    async def scenario():
        log = []
        async with (
            served(tmp_path, notify=lambda *event: log.append(event)) as (service, session, switch),
            ControlClient(service.address, TOKEN) as client,
        ):
            _reader, writer = await join(service, 3)
            reply = await client.circuits_for(demand((0, 7)))
            assert "server 3 has not drained within 0.2 s (member 2)" in reply["error"]
            assert ("member-hung", 2, 3) in [
                (name, facts["member"], facts["server"]) for name, facts in log
            ]
            reply = await client.circuits_for(demand((0, 7)))
            assert reply["error"] == (
                "r0: server 3 has not answered since it was last to drain (member 2); no circuit "
                "was changed"
            )
            assert [name for name, _ in log].count("member-hung") == 1
            assert [(one["number"], one["server"], one["hung"]) for one in session.members()] == [
                (1, None, False),
                (2, 3, True),
            ]
            assert not switch.commands
            with pytest.raises(RequestError, match=r"^member 9: no connection has this number$"):
                session.remove_member(9)
            session.remove_member(2)
            assert [one["number"] for one in session.members()] == [1]
            assert (await client.circuits_for(demand((0, 7))))["result"] == "done"
            writer.close()

    asyncio.run(scenario())


def test_a_member_that_answers_late_is_asked_again(tmp_path):
    async def scenario():
        async with (
            served(tmp_path, drain_timeout_s=0.1) as (service, session, _switch),
            ControlClient(service.address, TOKEN) as client,
        ):
            reader, writer = await join(service, 3)
            assert not (await client.circuits_for(demand((0, 7))))["ok"]
            fence = (await read_frame(reader, 2**20, 0)).header["fence"]
            writer.write(encode({"op": "drained", "fence": fence}))
            await until(lambda: not session.members()[1]["hung"])
            session._members._drain_timeout_s = 60.0
            task = asyncio.create_task(client.circuits_for(demand((0, 7))))
            while "fence" not in (header := (await read_frame(reader, 2**20, 0)).header):
                pass
            assert header["fence"] > fence
            writer.write(encode({"op": "drained", "fence": fence}))  # of the past: does not count
            await asyncio.sleep(0.02)
            assert not task.done()
            writer.write(encode({"op": "drained", "fence": header["fence"]}))
            assert (await task)["result"] == "done"
            writer.close()

    asyncio.run(scenario())


def test_stopping_waits_for_a_change_that_nobody_waits_for(tmp_path):
    async def scenario():
        switch = SlowSwitch()
        async with served(tmp_path, switch, demand_timeout_s=0.05) as (service, *_):
            async with ControlClient(service.address, TOKEN) as client:
                await client.circuits_for(demand((0, 7)))
            assert not switch.commands
            asyncio.get_running_loop().call_later(0.05, switch.may.set)
        assert len(switch.commands) == 1

    asyncio.run(scenario())


class CountingSwitch(FakeSwitch):
    """Counts what it is asked."""

    def __init__(self):
        super().__init__(12)
        self.asked = []

    async def read_back(self, *, ports=True):
        self.asked.append("read")
        return await super().read_back(ports=ports)

    async def apply(self, change):
        self.asked.append("change")
        return await super().apply(change)


def test_a_demand_after_a_pause_reads_once_before_its_change_and_once_after(tmp_path):
    async def scenario():
        switch = CountingSwitch()
        async with (
            served(tmp_path, switch) as (service, session, _),
            ControlClient(service.address, TOKEN) as client,
        ):
            for ends in ((0, 7), (0, 3), (0, 7)):
                session.controller.read_s -= 100.0
                switch.asked.clear()
                reply = await client.circuits_for(demand(ends))
                assert reply["result"] == "done"
                assert switch.asked == ["read", "change", "read"]

    asyncio.run(scenario())


class UnhurriedSwitch(FakeSwitch):
    """Takes longer for a reading than a switch may take to settle."""

    async def read_back(self, *, ports=True):
        await asyncio.sleep(0.12)
        return await super().read_back(ports=ports)


def test_a_switch_whose_reading_takes_long_is_read_twice_before_it_is_given_up(tmp_path):
    async def start(switch):
        async with served_by(tmp_path, switch, timeout_s=0.1) as (_service, session, _):
            return session.controller.state

    assert asyncio.run(start(UnhurriedSwitch(12))) is RegionState.READY

    class RestlessSwitch(UnhurriedSwitch):
        async def read_back(self, *, ports=True):
            self.cross_connects ^= {CrossConnect("1", "13")}
            return await super().read_back(ports=ports)

    with pytest.raises(SwitchTimeoutError, match=r"does not settle within 0\.1 s"):
        asyncio.run(start(RestlessSwitch(12)))
