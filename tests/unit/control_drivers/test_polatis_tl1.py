"""The TL1 driver of Polatis switches against the emulator, faults included."""

import asyncio

import pytest
from tests.control_switches import (
    ADMIN,
    behavior,
    change,
    connected,
    emulate,
    pairs,
    run,
    setup,
    until,
)

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import (
    Atomicity,
    BootMode,
    BusyPolicy,
    CompletionTime,
    Fault,
    FaultKind,
    FixedTime,
)
from lightloom.control.switch import (
    CircuitState,
    Credentials,
    LoginRefusedError,
    PermissionRefusedError,
    PortSide,
    PortState,
    SwitchDisconnectedError,
    SwitchError,
    SwitchEventKind,
    SwitchFeature,
    SwitchTimeoutError,
    SwitchUnreachableError,
)
from lightloom.errors import InputError

#: after these the state of the switch is unknown
CUTS = [FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER, FaultKind.POWER_LOSS]
HARMLESS = [FaultKind.SLOW, FaultKind.FRAGMENT, FaultKind.REPORT]


def test_inventory():
    async def check():
        async with emulate(size=(8, 6), behavior=behavior(sid="lab ocs 1")) as emulator:
            driver = open_driver(emulator.url(), credentials=ADMIN)
            description = await driver.connect()
            await driver.close()
        assert (description.vendor, description.serial) == ("Polatis", "000001")
        assert (description.size, description.name) == ((8, 6), "lab ocs 1")
        assert list(description.ports) == [str(port) for port in range(1, 15)]
        assert description.ports["8"] is PortSide.INGRESS
        assert description.ports["9"] is PortSide.EGRESS
        assert SwitchFeature.MOVES in description.features

    run(check())


def test_one_command_per_change():
    async def check():
        async with setup() as (emulator, driver):
            results = await driver.apply(change("1-9 2-10 3-11"))
            assert [result.state for result in results] == [CircuitState.CONNECTED] * 3
            assert [result.cross_connect for result in results] == list(pairs("1-9 2-10 3-11"))
            assert emulator.matrix.circuits == {1: 9, 2: 10, 3: 11}
            assert emulator.faults.num_changes == 1

    run(check())


def test_moved_circuits_need_no_delete():
    async def check():
        async with setup() as (emulator, driver):
            await driver.apply(change("1-9 2-10 3-11"))
            results = await driver.apply(change("1-10 2-9", deletes="1-9 2-10"))
            assert all(result.is_accepted for result in results)
            assert emulator.faults.num_changes == 2
            assert (await driver.read_back()).cross_connects == set(pairs("1-10 2-9 3-11"))

    run(check())


def test_circuits_whose_ports_stay_empty_are_deleted():
    async def check():
        async with setup() as (emulator, driver):
            await driver.apply(change("1-9 2-10 3-11"))
            results = await driver.apply(change("1-10", deletes="1-9 3-11 2-10"))
            assert [r.state for r in results] == [None, None, None, CircuitState.CONNECTED]
            assert emulator.matrix.circuits == {1: 10}
            assert emulator.faults.num_changes == 3

    run(check())


def test_a_switch_that_does_not_move_gets_deletes():
    async def check():
        strict = behavior(busy=BusyPolicy.REFUSE)
        async with setup("?moves=no", behavior=strict) as (emulator, driver):
            await driver.apply(change("1-9 2-10"))
            results = await driver.apply(change("1-10 2-9", deletes="1-9 2-10"))
            assert all(result.is_accepted for result in results)
            assert emulator.matrix.circuits == {1: 10, 2: 9}

    run(check())


def test_an_empty_change_sends_nothing():
    async def check():
        async with setup() as (emulator, driver):
            assert await driver.apply(change()) == ()
            assert emulator.faults.num_changes == 0

    run(check())


def test_long_lists_are_divided():
    async def check():
        async with setup("?max_pairs=2") as (emulator, driver):
            await driver.apply(change("1-9 2-10 3-11 4-12 5-13"))
            assert emulator.faults.num_changes == 3
            assert len(emulator.matrix.circuits) == 5

    run(check())


def test_a_refusal_is_a_result():
    async def check():
        async with setup(faults=[Fault.parse("deny@2")]) as (emulator, driver):
            await driver.apply(change("1-9"))
            results = await driver.apply(change("2-10", deletes="1-9"))
            assert [result.state for result in results] == [CircuitState.INVALID] * 2
            assert [result.code for result in results] == ["SROF", ""]
            assert "not sent" in results[1].reason
            assert emulator.matrix.circuits == {1: 9}

    run(check())


def test_a_prefix_of_a_refused_list_is_found_by_reading_back():
    async def check():
        partly = behavior(atomicity=Atomicity.PREFIX)
        async with setup(behavior=partly) as (emulator, driver):
            emulator.matrix.failed.add(2)
            results = await driver.apply(change("1-9 2-10 3-11"))
            assert not any(result.is_accepted for result in results)
            assert "Port 2 failed" in results[0].reason
            assert (await driver.read_back()).cross_connects == set(pairs("1-9"))

    run(check())


@pytest.mark.parametrize(
    "wrong", ["1-99", "x-9", "1;DLT_PATCH::ALL:1:-9", "9-1", "1-2", "1-9 1-10"]
)
def test_bad_ports_are_never_sent(wrong):
    async def check():
        async with setup() as (emulator, driver):
            with pytest.raises(InputError):
                await driver.apply(change(wrong))
            assert emulator.faults.num_changes == 0

    run(check())


@pytest.mark.parametrize("kind", CUTS)
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(kind):
    async def check():
        async with setup() as (emulator, driver):
            emulator.faults.next_change(kind)
            with pytest.raises(SwitchDisconnectedError) as caught:
                await driver.apply(change("1-9"))
            assert caught.value.state_unknown
            with pytest.raises(SwitchDisconnectedError, match="not connected"):
                await driver.read_back()
            await driver.connect()
            circuits = pairs("1-9") if kind is FaultKind.CUT_AFTER else ()
            assert (await driver.read_back()).cross_connects == set(circuits)
            assert emulator.faults.num_changes == 1, "a change was sent twice"

    run(check())


@pytest.mark.parametrize("kind", [FaultKind.NO_REPLY, FaultKind.LATE])
def test_after_a_time_out_the_state_is_unknown_until_it_is_read_back(kind):
    async def check():
        async with setup("?reply_timeout_s=0.05") as (emulator, driver):
            emulator.faults.next_change(kind, seconds=0.1)
            with pytest.raises(SwitchTimeoutError, match=r"ENT-PATCH: no reply within 0.05 s"):
                await driver.apply(change("1-9"))
            await driver.connect()
            is_made = kind is FaultKind.NO_REPLY
            assert bool((await driver.read_back()).cross_connects) == is_made
            await asyncio.sleep(0.1)
            assert (await driver.read_back()).cross_connects == set(pairs("1-9"))
            assert emulator.faults.num_changes == 1, "a change was sent twice"

    run(check())


@pytest.mark.parametrize("kind", HARMLESS)
def test_slow_or_mixed_replies_are_understood(kind):
    async def check():
        async with setup() as (emulator, driver):
            emulator.faults.next_change(kind, seconds=0.05)
            results = await driver.apply(change("1-9"))
            assert results[0].is_accepted
            assert (await driver.read_back()).cross_connects == set(pairs("1-9"))

    run(check())


def test_a_stuck_mirror_is_found_by_reading_back():
    async def check():
        async with setup(faults=[Fault.parse("stuck:1@1")]) as (_, driver):
            results = await driver.apply(change("1-9 2-10"))
            assert all(result.is_accepted for result in results)
            assert (await driver.read_back()).cross_connects == set(pairs("2-10"))

    run(check())


def test_a_second_controller_is_found_by_reading_back():
    async def check():
        async with setup(faults=[Fault.parse("second-controller:3-12@1")]) as (_, driver):
            await driver.apply(change("1-9"))
            assert (await driver.read_back()).cross_connects == set(pairs("1-9 3-12"))

    run(check())


def test_light_and_loss_of_ports():
    async def check():
        async with setup() as (emulator, driver):
            await driver.apply(change("1-9"))
            ports = {port.name: port for port in (await driver.read_back()).ports}
            assert ports["9"].power_dbm == pytest.approx(emulator.matrix.power_dbm(9))
            assert ports["9"].loss_db == pytest.approx(emulator.matrix.loss_db(1, 9), abs=0.02)
            assert ports["1"].loss_db == ports["9"].loss_db
            assert (ports["1"].state, ports["2"].state) == (PortState.TUNED, PortState.BLOCKED)
            assert ports["10"].power_dbm == -60
            assert (await driver.read_back(ports=False)).ports == ()

    run(check())


def test_a_switch_without_monitors():
    async def check():
        async with setup(behavior=behavior(has_monitors=False)) as (_, driver):
            for _ in range(2):
                assert {port.power_dbm for port in (await driver.read_back()).ports} == {None}

    run(check())


def test_no_light_while_a_circuit_settles():
    async def check():
        early = behavior(completion=CompletionTime.ACCEPTED)
        async with setup(behavior=early, timing=FixedTime(0.1)) as (emulator, driver):
            await driver.apply(change("1-9"))
            assert emulator.matrix.is_tuning(9)
            dark = {port.name: port.power_dbm for port in (await driver.read_back()).ports}
            await asyncio.sleep(0.12)
            lit = {port.name: port.power_dbm for port in (await driver.read_back()).ports}
            assert dark["9"] == -60 < lit["9"]

    run(check())


def test_shutters():
    async def check():
        async with setup() as (_, driver):
            await driver.set_shutters(["3", "9"], is_open=False)
            closed = [port.name for port in (await driver.read_back()).ports if not port.enabled]
            assert closed == ["3", "9"]
            await driver.set_shutters(["3", "9"], is_open=True)
            assert all(port.enabled for port in (await driver.read_back()).ports)
            with pytest.raises(InputError, match="no port '77'"):
                await driver.set_shutters(["77"], is_open=True)

    run(check())


def test_reports_come_on_a_second_session():
    async def check():
        async with setup() as (emulator, driver):
            events = []

            async def watch():
                async for event in driver.watch():
                    events.append(event)  # noqa: PERF401 - they are looked at meanwhile

            watching = asyncio.create_task(watch())
            await until(lambda: len(emulator.switch.sessions) == 2)
            await asyncio.sleep(0.02)
            await driver.set_shutters(["3"], is_open=False)
            await until(lambda: events)
            assert events[0].kind is SwitchEventKind.PORT
            assert events[0].ports == ("3",)
            await driver.close()
            await watching
            await until(lambda: not emulator.switch.sessions)

    run(check())


def test_a_cut_of_the_event_session_is_an_error():
    async def check():
        async with setup() as (emulator, driver):
            watching = asyncio.ensure_future(anext(driver.watch()))
            await until(lambda: len(emulator.switch.sessions) == 2)
            await asyncio.sleep(0.02)
            emulator.switch.cut_all()
            with pytest.raises(SwitchDisconnectedError):
                await watching

    run(check())


def test_wrong_password():
    async def check():
        async with emulate() as emulator:
            driver = open_driver(emulator.url(), credentials=Credentials("admin", "hunter2"))
            with pytest.raises(
                LoginRefusedError, match=r"switch 127.0.0.1:\d+: login refused"
            ) as e:
                await driver.connect()
            assert "hunter2" not in repr(e.value)
            assert "hunter2" not in repr(Credentials("admin", "hunter2"))

    run(check())


def test_without_credentials_the_switch_refuses_commands():
    async def check():
        async with emulate() as emulator:
            with pytest.raises(PermissionRefusedError, match="Not logged in"):
                async with connected(emulator, credentials=None):
                    pass

    run(check())


def test_nothing_listens():
    async def check():
        async with emulate() as emulator:
            url = emulator.url()
        with pytest.raises(SwitchUnreachableError, match="check the address") as caught:
            await open_driver(url, credentials=ADMIN).connect()
        assert not caught.value.state_unknown

    run(check())


def test_the_session_limit():
    async def check():
        async with (
            emulate(behavior=behavior(max_sessions=1)) as emulator,
            connected(emulator),
        ):
            with pytest.raises(SwitchDisconnectedError):
                await open_driver(emulator.url(), credentials=ADMIN).connect()

    run(check())


@pytest.mark.parametrize(("keepalive_s", "is_alive"), [(0.03, True), (0, False)])
def test_keepalive_prevents_an_idle_close(keepalive_s, is_alive):
    async def check():
        strict = behavior(idle_close_s=0.25)
        async with setup(f"?keepalive_s={keepalive_s}", behavior=strict) as (_, driver):
            await asyncio.sleep(0.4)
            if is_alive:
                assert (await driver.read_back()).cross_connects == set()
            else:
                with pytest.raises(SwitchDisconnectedError):
                    await driver.read_back()

    run(check())


@pytest.mark.parametrize(("boot", "remaining"), [("dark", 0), ("restore", 1)])
def test_power_loss(boot, remaining):
    async def check():
        async with setup(behavior=behavior(boot=BootMode(boot))) as (emulator, driver):
            await driver.apply(change("1-9"))
            emulator.switch.lose_power()
            with pytest.raises(SwitchError):
                await driver.read_back()
            await driver.connect()
            assert len((await driver.read_back()).cross_connects) == remaining

    run(check())


def test_a_switch_that_starts_admits_nobody():
    async def check():
        async with setup(behavior=behavior(boot_s=0.1)) as (emulator, driver):
            emulator.switch.lose_power()
            with pytest.raises(SwitchDisconnectedError):
                await driver.connect()
            await asyncio.sleep(0.12)
            await driver.connect()

    run(check())


def test_a_canceled_command_ends_the_session():
    async def check():
        async with setup(timing=FixedTime(0.2)) as (emulator, driver):
            applying = asyncio.create_task(driver.apply(change("1-9")))
            await until(lambda: emulator.matrix.circuits)
            applying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await applying
            with pytest.raises(SwitchDisconnectedError):
                await driver.read_back()
            await driver.connect()
            assert (await driver.read_back()).cross_connects == set(pairs("1-9"))

    run(check())


def test_closing_twice_and_before_connecting():
    async def check():
        async with emulate() as emulator:
            driver = open_driver(emulator.url(), credentials=ADMIN)
            await driver.close()
            await driver.connect()
            await driver.close()
            await driver.close()
            await until(lambda: not emulator.switch.sessions)

    run(check())


def test_a_password_with_odd_characters():
    async def check():
        user = {"ad min": 'p;a:s"s\\'}
        async with (
            emulate(behavior=behavior(users=user)) as emulator,
            connected(emulator, credentials=Credentials("ad min", 'p;a:s"s\\')) as driver,
        ):
            assert (await driver.read_back()).cross_connects == set()

    run(check())


def test_attenuators_and_flaps_change_the_light():
    async def check():
        async with setup() as (emulator, driver):
            await driver.apply(change("1-9"))
            session = driver.session
            full = emulator.matrix.power_dbm(9)
            await session.command("SET-PORT-ATTEN", "9", "::MODE=ABS,LEVEL=-20")
            assert emulator.matrix.power_dbm(9) == -20
            await session.command("SET-PORT-ATTEN", "9", "::MODE=ABS,LEVEL=20")
            assert emulator.matrix.power_dbm(9) == full
            await session.command("SET-PORT-ATTEN", "9", "::MODE=REL,LEVEL=-5")
            launched = emulator.matrix.power_dbm(1)
            assert emulator.matrix.power_dbm(9) == pytest.approx(launched - 5, abs=0.01)
            await session.command("SET-PORT-ATTEN", "9", "::MODE=MAX")
            assert emulator.matrix.power_dbm(9) == -60
            await session.command("SET-PORT-ATTEN", "9", "::MODE=NONE")
            await session.command("ENT-PORT-FLAP", "1", ":50,500,1")
            await session.command("OPR-PORT-FLAP", "1")
            await until(lambda: emulator.matrix.power_dbm(9) == -60)
            await until(lambda: emulator.matrix.power_dbm(9) == full)

    run(check())
