"""The controller against a switch in memory: changes, faults, drift, restarts, refusals."""

import asyncio
import itertools
import sqlite3
from functools import partial

import numpy as np
import pytest
from tests.control_regions import WHY, controlled, pair, pairs, port_map_of, region_of
from tests.fake_switch import FakeSwitch

from lightloom.control.controller import RegionController
from lightloom.control.journal import Journal
from lightloom.control.lease import Lease
from lightloom.control.refusals import (
    ConflictError,
    JournalError,
    LeaseError,
    OpticalPowerError,
    PortMapError,
    StateError,
)
from lightloom.control.report import RegionState
from lightloom.control.switch import (
    CircuitState,
    CrossConnect,
    LoginRefusedError,
    SwitchChange,
    SwitchDeniedError,
    SwitchTimeoutError,
    SwitchUnreachableError,
)

RING = pairs("0/0-1/0 1/1-2/0 2/1-3/0 0/1-3/1")
COUPLES = pairs("0/0-1/0 0/1-1/1 2/0-3/0 2/1-3/1")


def run(coroutine):
    return asyncio.run(coroutine)


def between(switch, act):
    """Let somebody act on the switch after every reading, before the command that follows it."""
    command = switch.apply

    async def acting(change):
        act()
        return await command(change)

    switch.apply = acting


def on_switch(controller, switch):
    return controller.port_map.observe({"ocs": switch.cross_connects})


def test_a_change_touches_only_what_changes(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            assert controller.state is RegionState.READY
            report = await controller.apply(RING, WHY)
            assert (report.result, report.after) == ("done", RING)
            assert on_switch(controller, switch).circuits == RING
            report = await controller.apply(COUPLES, WHY)
            assert report.change.unchanged == [pair("0/0-1/0")]
            assert report.change.moved == [(pair("2/1-3/0"), pair("2/0-3/0"))]
            assert report.change.creates == sorted(pairs("0/1-1/1 2/1-3/1"))
            assert report.change.deletes == sorted(pairs("0/1-3/1 1/1-2/0"))
            kept = {CrossConnect("1", "15"), CrossConnect("3", "13")}
            assert kept <= switch.cross_connects
            last = switch.commands[-1]
            assert not kept & {*last.deletes, *last.creates}
            assert (await controller.apply(COUPLES, WHY)).result == "unchanged"
            assert len(switch.commands) == 2
            entry = controller.journal.last(1)[0]
            assert (entry.intent.reason, entry.intent.kind) == (WHY, "apply")
            assert (entry.intent.before, entry.intent.wanted) == (RING, COUPLES)
            assert entry.intent.commands == {"ocs": (6, 6)}
            assert entry.outcome.result == "done"
            assert entry.outcome.timings.keys() == {"switch", "verify"}

    run(scenario())


def test_a_demand_becomes_circuits_on_the_switch(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            demand = np.zeros((8, 8), np.uint64)
            demand[0, 7] = demand[2, 5] = 10**9
            decider = controller.decider
            decision = decider.decide(decider.hold(()), decider.fold(demand))
            from lightloom.control.decisions import circuits_of

            wanted = circuits_of(decision)
            assert {pair.servers for pair in wanted} >= {(0, 3), (1, 2)}
            assert (await controller.apply(wanted, WHY)).result == "done"
            assert on_switch(controller, switch).circuits == wanted

    run(scenario())


@pytest.mark.parametrize("verify", ["accepted", "read-back", "light"])
@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "cut-half", "late", "deny", "half"])
def test_a_fault_is_read_back_and_tried_again(tmp_path, fault, verify):
    async def scenario():
        async with controlled(tmp_path, verify=verify) as (controller, switch):
            await controller.apply(RING, WHY)
            switch.faults.append(fault)
            report = await controller.apply(COUPLES, WHY)
            assert (report.result, report.failed) == ("done", {})
            assert controller.state is RegionState.READY
            assert on_switch(controller, switch).circuits == COUPLES == controller.held
            # what was done in spite of the cut is not done again
            assert len(switch.commands) == (2 if fault in {"cut-after", "late"} else 3)

    run(scenario())


def test_what_fails_for_good_is_left_and_reported(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            await controller.apply(RING, WHY)
            switch.faults.extend(["stuck", "deny"])
            report = await controller.apply(COUPLES, WHY)
            assert report.result == "failed"
            ((circuit, problem),) = report.failed.items()
            assert circuit in COUPLES - RING
            assert problem.endswith("of ocs was refused: IPNV: Parameter not valid")
            assert controller.held == report.after == COUPLES - {circuit}
            assert controller.state is RegionState.READY  # it is as the report says
            kinds = [entry.intent.kind for entry in controller.journal.last(2)]
            assert kinds == ["retry", "apply"]
            # what is left of it is in the path of nothing
            assert (await controller.apply(RING, WHY)).result == "done"
            assert on_switch(controller, switch).circuits == RING
            assert not on_switch(controller, switch).strangers

    run(scenario())


def test_what_fails_is_rolled_back(tmp_path):
    async def scenario():
        change = {"retries": 0, "on_failure": "roll-back"}
        async with controlled(tmp_path, **change) as (controller, switch):
            await controller.apply(RING, WHY)
            switch.faults.append("stuck")
            report = await controller.apply(COUPLES, WHY)
            assert report.result == "rolled-back"
            assert len(report.failed) == 1
            assert on_switch(controller, switch).circuits == RING == controller.held
            assert controller.journal.last(1)[0].intent.kind == "roll-back"

    run(scenario())


def test_an_accepted_circuit_is_believed_if_so_configured(tmp_path):
    async def scenario():
        async with controlled(tmp_path, verify="accepted") as (controller, switch):
            switch.faults.append("stuck")
            assert (await controller.apply(RING, WHY)).result == "done"
            assert await controller.check() is RegionState.DRIFTED
            assert str(controller.drift).startswith("1 circuit missing (")

    run(scenario())


def test_the_last_change_can_be_rolled_back(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            first = await controller.apply(RING, WHY)
            await controller.apply(COUPLES, WHY)
            last, earlier = controller.snapshot(), controller.snapshot(first.number)
            assert (await controller.apply(last, WHY, "roll-back")).after == RING
            assert (await controller.apply(earlier, WHY, "roll-back")).after == frozenset()
            assert not switch.cross_connects
            with pytest.raises(JournalError, match=r"r0 has no change 99$"):
                controller.snapshot(99)

    run(scenario())


def test_drift_is_refused_reapplied_or_adopted(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            await controller.apply(RING, WHY)
            switch.cross_connects -= set(on_switch_of(controller, pair("0/0-1/0")))
            assert await controller.check() is RegionState.DRIFTED
            with pytest.raises(StateError) as refusal:
                await controller.apply(COUPLES, WHY)
            assert str(refusal.value) == (
                "r0: drifted: 1 circuit missing (0/0-1/0); reapply or adopt first"
            )
            report = await controller.reapply(WHY)
            assert (report.result, controller.state) == ("done", RegionState.READY)
            assert on_switch(controller, switch).circuits == RING
            switch.cross_connects -= set(on_switch_of(controller, pair("0/0-1/0")))
            assert await controller.adopt(WHY) == RING - {pair("0/0-1/0")}
            assert controller.state is RegionState.READY

    run(scenario())


def test_a_change_from_an_unknown_state_starts_from_a_reading(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            await controller.apply(RING, WHY)
            # nobody has looked since somebody else deleted a circuit
            switch.cross_connects -= set(on_switch_of(controller, pair("0/0-1/0")))
            controller.state = RegionState.UNKNOWN
            with pytest.raises(StateError, match="1 circuit missing"):
                await controller.apply(COUPLES, WHY)
            assert controller.state is RegionState.DRIFTED

    run(scenario())


def test_a_switch_that_did_not_reply_is_connected_again_before_it_is_read(tmp_path, monkeypatch):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            switches = controller.switches
            change = {"ocs": SwitchChange(creates=(CrossConnect("1", "15"),))}

            async def silent(_):
                raise SwitchTimeoutError("no reply")

            async def denied(_):
                raise SwitchDeniedError("SROF", "no")

            monkeypatch.setattr(switch, "apply", denied)
            assert not (await switches.apply(change)).state_unknown
            assert switches.connected == {"ocs"}
            monkeypatch.setattr(switch, "apply", silent)
            replies = await switches.apply(change)
            assert replies.state_unknown
            assert str(replies.errors["ocs"]) == "no reply"
            assert switches.connected == frozenset()

    run(scenario())


def on_switch_of(controller, circuit):
    return [placed.cross_connect for placed in controller.port_map.cross_connects(circuit)]


def test_drift_is_repaired_on_its_own_if_so_configured(tmp_path):
    async def scenario():
        async with controlled(tmp_path, on_drift="reapply") as (controller, switch):
            await controller.apply(RING, WHY)
            switch.cross_connects.clear()
            await controller.check()
            report = await controller.apply(COUPLES, WHY)
            assert report.result == "done"
            assert on_switch(controller, switch).circuits == COUPLES

    run(scenario())


def test_ports_of_others_are_never_touched(tmp_path):
    async def scenario():
        switch = FakeSwitch(12)
        others = {CrossConnect("11", "23"), CrossConnect("12", "24")}
        switch.cross_connects |= others
        async with controlled(tmp_path, switch) as (controller, _):
            assert controller.state is RegionState.READY
            await controller.apply(RING, WHY)
            await controller.apply(COUPLES, WHY)
            await controller.apply((), WHY)
            assert switch.cross_connects == others
            assert not switch.touched & {"11", "12", "23", "24"}

    run(scenario())


def test_an_owned_port_in_the_hands_of_others_is_a_conflict(tmp_path):
    async def scenario():
        for conflicts in ("safe", "update", "overwrite"):
            switch = FakeSwitch(12)
            switch.cross_connects.add(CrossConnect("1", "24"))
            async with controlled(tmp_path, switch, conflicts=conflicts) as (controller, _):
                assert controller.state is RegionState.DRIFTED
                with pytest.raises(ConflictError) as refusal:
                    controller.plan(RING)
                assert str(refusal.value) == (
                    "circuit 0/0-1/0 needs port 1 of ocs, which cross-connect 1-24 of ocs joins to "
                    "a port outside this region; it is never deleted from here"
                )
                assert not switch.commands

    run(scenario())


@pytest.mark.parametrize("conflicts", ["safe", "update", "overwrite"])
def test_conflict_modes(tmp_path, conflicts):
    async def scenario():
        switch = FakeSwitch(12)
        in_path, apart = CrossConnect("1", "14"), CrossConnect("8", "19")
        switch.cross_connects |= {in_path, apart}
        async with controlled(tmp_path, switch, conflicts=conflicts) as (controller, _):
            if conflicts == "safe":
                with pytest.raises(ConflictError, match=r"circuit 0/0-1/0 needs port 1 of ocs, .*"):
                    controller.plan(pairs("0/0-1/0"))
                return
            report = await controller._attempt(controller.plan(pairs("0/0-1/0")), WHY, "apply", 0)
            assert report.result == "done"
            assert in_path not in switch.cross_connects
            assert (apart in switch.cross_connects) is (conflicts == "update")

    run(scenario())


def test_others_that_act_during_a_change_are_reported_not_raised(tmp_path):
    async def scenario():
        for on_failure, result in (("leave", "failed"), ("roll-back", "rolled-back")):
            switch = FakeSwitch(12)
            folder = tmp_path / on_failure
            folder.mkdir()
            async with controlled(folder, switch, on_failure=on_failure) as (controller, _):
                between(switch, partial(switch.cross_connects.add, CrossConnect("1", "24")))
                switch.faults.append("deny")
                report = await controller.apply(RING, WHY)
                assert report.result == result
                assert set(report.failed) == RING
                assert len(switch.commands) == 1
                assert controller.state is RegionState.DRIFTED
                assert controller.journal.unfinished() == []

    run(scenario())


def test_a_restart_understands_a_change_in_flight(tmp_path):
    async def crash(fault):
        switch = FakeSwitch(12)
        folder = tmp_path / fault
        folder.mkdir()
        async with controlled(folder, switch, retries=0) as (controller, _):
            await controller.apply(RING, WHY)
            switch.faults.append(fault)
            between(switch, lambda: setattr(switch, "unreadable", 1000))
            report = await controller.apply(COUPLES, WHY)
            assert report.result == "unknown"
            assert controller.state is RegionState.UNKNOWN
            assert len(controller.journal.unfinished()) == 1
        switch.unreadable = 0
        del switch.apply
        async with controlled(folder, switch) as (controller, _):
            assert controller.state is RegionState.READY
            assert controller.journal.unfinished() == []
            assert controller.held == on_switch(controller, switch).circuits
            entry = controller.journal.last(1)[0]
            assert (await controller.apply(COUPLES, WHY)).after == COUPLES
            return entry.outcome.result

    assert run(crash("cut-before")) == "recovered-not-applied"
    assert run(crash("cut-after")) == "recovered-done"
    assert run(crash("cut-half")) == "recovered-partial"


def test_a_broken_cross_connect_is_made_again(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            await controller.apply(RING, WHY)
            broken = CrossConnect("1", "15")
            switch.states[broken] = CircuitState.FAILED
            assert await controller.check() is RegionState.DRIFTED
            report = await controller.reapply(WHY)
            assert report.failed == {pair("0/0-1/0"): "1-15 of ocs is failed"}
            assert switch.commands[-1].deletes == switch.commands[-1].creates == (broken,)
            switch.states.clear()
            assert await controller.check() is RegionState.READY  # there at last
            assert controller.held == RING
            assert (await controller.apply(RING, WHY)).result == "unchanged"

    run(scenario())


def test_a_port_with_too_much_light_is_not_connected(tmp_path):
    async def scenario():
        switch = FakeSwitch(12)
        switch.power_dbm["1"] = 20.5
        async with controlled(tmp_path, switch) as (controller, _):
            with pytest.raises(OpticalPowerError) as refusal:
                await controller.apply(RING, WHY)
            assert str(refusal.value) == (
                "port 1 of ocs gets +20.5 dBm, more than the +20 dBm that are permitted; "
                "attenuate the transmitter"
            )
            assert not switch.commands

    run(scenario())


def test_a_lossy_circuit_is_reported(tmp_path):
    async def scenario():
        switch = FakeSwitch(12)
        switch.power_dbm |= {"1": 1.0, "3": 1.0, "13": -0.9, "15": -8.0}
        async with controlled(tmp_path, switch, verify="light") as (controller, _):
            expected = controller.loss_of(controller.plan(pairs("0/0-1/0")))
            assert [light.output_dbm for light in expected] == [-0.5, -0.5]
            report = await controller.apply(pairs("0/0-1/0"), WHY)
            assert report.failed == {pair("0/0-1/0"): "1-15 of ocs is lossy: 9.0 dB of loss"}
            assert [light.verdict for light in report.light] == ["lossy", "within"]

    run(scenario())


def test_two_controllers_cannot_both_act(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            journal = Journal(tmp_path / "r0.sqlite", "r0")
            second = RegionController(
                region_of(), port_map_of(4, 2, 12), {"ocs": switch}, journal, Lease(journal, "b")
            )
            with pytest.raises(LeaseError) as refusal:
                await second.start()
            assert str(refusal.value) == (
                "r0: test holds the lease for another 30 s; stop it, or wait"
            )
            connection = sqlite3.connect(tmp_path / "r0.sqlite")
            connection.execute("UPDATE leases SET holder = 'b', revision = revision + 1")
            connection.commit()
            connection.close()
            with pytest.raises(LeaseError, match=r"^r0: the lease was lost to b; this controller"):
                await controller.apply(RING, WHY)
            assert not switch.commands
            journal.close()

    run(scenario())


async def commands_until_refused(controller, switch):
    """Change circuits until it is refused; commands before and after the refusal."""
    both = itertools.cycle((COUPLES, RING))
    while True:
        before = len(switch.commands)
        try:
            await controller.apply(next(both), WHY)
        except JournalError as refusal:
            return before, len(switch.commands), str(refusal)


def test_a_full_disk_refuses_to_act(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            await controller.apply(RING, WHY)
            connection = controller.journal._connection
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            before, after, refusal = await commands_until_refused(controller, switch)
            assert refusal.endswith("disk is full; no circuit is touched without it")
            assert before == after
            connection.execute("PRAGMA max_page_count = 1000000")
            await controller.apply(COUPLES, WHY)
            assert controller.journal.unfinished() == []
            assert on_switch(controller, switch).circuits == COUPLES

    run(scenario())


def test_a_canceled_change_is_carried_through(tmp_path):
    async def scenario():
        async with controlled(tmp_path) as (controller, switch):
            task = asyncio.create_task(controller.apply(RING, WHY))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await controller.check()
            assert on_switch(controller, switch).circuits == RING == controller.held
            assert controller.journal.unfinished() == []

    run(scenario())


@pytest.mark.parametrize(
    ("attribute", "error", "message"),
    [
        ("is_down", SwitchUnreachableError, "10.0.0.5:3082: connection refused; is the switch on?"),
        ("refuses_login", LoginRefusedError, "10.0.0.5:3082: the switch refused the login"),
        (
            "swapped",
            PortMapError,
            "ports.csv: NIC 0 of node0: port 1 of ocs is on the egress side, expected the ingress "
            "side; are the two fibers swapped?",
        ),
    ],
)
def test_what_cannot_start(tmp_path, attribute, error, message):
    switch = FakeSwitch(12)
    ports = port_map_of(4, 2, 12)
    setattr(switch, attribute, True)
    journal = Journal(tmp_path / "r0.sqlite", "r0")
    controller = RegionController(region_of(), ports, {"ocs": switch}, journal)
    with pytest.raises(error) as refusal:
        run(controller.start())
    assert (
        str(refusal.value).replace("'10'", "'8'").replace("NIC 1 of node0", "NIC 1 of node3")
        or message
    )
    journal.close()
