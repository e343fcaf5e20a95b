"""Any sequence of commands, faults, disturbances and restarts leaves what can be understood."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.control_regions import WHY, port_map_of, region_of
from tests.fake_switch import FakeSwitch

from lightloom.control.controller import RegionController
from lightloom.control.journal import Journal
from lightloom.control.lease import Lease
from lightloom.control.port_map import NicPair
from lightloom.control.refusals import ConflictError, StateError
from lightloom.control.report import RegionState
from lightloom.control.switch import CrossConnect, SwitchError

SERVERS, NICS, SIZE = 4, 2, 10
OTHERS = frozenset({CrossConnect("9", "19"), CrossConnect("10", "20")})
NIC = st.tuples(st.integers(0, SERVERS - 1), st.integers(0, NICS - 1))
FAULTS = ("deny", "cut-before", "cut-after", "cut-half", "late", "stuck", "half")


@st.composite
def matchings(draw):
    nics = draw(st.permutations([(s, n) for s in range(SERVERS) for n in range(NICS)]))
    count = draw(st.integers(0, len(nics) // 2))
    ends = [sorted(nics[2 * i : 2 * i + 2]) for i in range(count)]
    return frozenset(NicPair(*a, *b) for a, b in ends if a[0] != b[0])


class ControllerMachine(RuleBasedStateMachine):
    """A controller, and a switch on which others act as well."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.switch = FakeSwitch(SIZE)
        self.switch.cross_connects |= OTHERS
        self.ports = port_map_of(SERVERS, NICS, SIZE)
        self.controller = None
        self.wanted = frozenset()
        self.start()

    def start(self):
        self.journal = Journal(Path(self.folder.name) / "r0.sqlite", "r0")
        region = region_of(retries=1, timeout_s=0.05)
        lease = Lease(self.journal, "test")
        self.controller = RegionController(
            region, self.ports, {"ocs": self.switch}, self.journal, lease
        )
        self.run(self.controller.start())

    def run(self, coroutine):
        try:
            return asyncio.run(coroutine)
        except (StateError, ConflictError, SwitchError):
            return None

    @rule(wanted=matchings(), faults=st.lists(st.sampled_from(FAULTS), max_size=2))
    def apply(self, wanted, faults):
        before, sent = self.on_switch(), len(self.switch.commands)
        was_ready = self.controller.state is RegionState.READY
        # deleted by others since the switch was read: seen only when the change is read back
        vanished = self.controller.held - before.circuits
        self.switch.faults.clear()
        self.switch.faults.extend(faults)
        report = self.run(self.controller.apply(wanted, WHY))
        self.switch.faults.clear()
        if report is None:
            assert len(self.switch.commands) == sent or not was_ready
            return
        if report.result in {"done", "unchanged"}:
            assert report.after == wanted
            found = self.on_switch().circuits
            assert wanted - vanished <= found <= wanted
            assert found == wanted or self.controller.drift
        if was_ready and report.result != "unknown":
            # also of a change that failed in part
            assert self.controller.held == report.after
            if self.controller.state is RegionState.READY:
                assert report.after == self.on_switch().circuits
            else:
                assert self.controller.drift  # somebody else had acted
        if was_ready:
            stayed = before.circuits & wanted
            touched = {
                one
                for command in self.switch.commands[sent:]
                for one in (*command.deletes, *command.creates)
            }
            for circuit in stayed:
                placed = self.ports.cross_connects(circuit)
                assert not touched & {one.cross_connect for one in placed}

    @rule(victim=st.integers(0, 20))
    def somebody_deletes(self, victim):
        mine = sorted(self.switch.cross_connects - OTHERS, key=str)
        if mine:
            self.switch.cross_connects.discard(mine[victim % len(mine)])

    @rule(a=NIC, b=NIC)
    def somebody_connects(self, a, b):
        one = CrossConnect(self.ports.by_nic[a].ingress.port, self.ports.by_nic[b].egress.port)
        used = {port for each in self.switch.cross_connects for port in (each.ingress, each.egress)}
        if not used & {one.ingress, one.egress}:
            self.switch.cross_connects.add(one)

    @rule()
    def check(self):
        self.run(self.controller.check())
        observed = self.on_switch()
        if self.controller.state is RegionState.READY:
            assert observed.circuits == self.controller.held
        else:
            assert self.controller.drift

    @rule()
    def adopt(self):
        self.run(self.controller.adopt(WHY))
        assert self.controller.held == self.on_switch().circuits

    @rule()
    def reapply(self):
        held = self.controller.held
        self.run(self.controller.check())
        report = self.run(self.controller.reapply(WHY))
        if report is not None and report.result in {"done", "unchanged"}:
            assert held <= self.on_switch().circuits

    @rule()
    def crash_and_restart(self):
        self.journal.close()
        self.switch.is_connected = False
        connection = Journal(Path(self.folder.name) / "r0.sqlite", "r0")
        with connection.altering() as rows:
            rows.execute("UPDATE leases SET expires = 0")
        connection.close()
        self.start()

    @rule(fault=st.sampled_from(["cut-before", "cut-after", "cut-half"]), wanted=matchings())
    @precondition(lambda self: self.controller.state is RegionState.READY)
    def crash_during_a_change(self, fault, wanted):
        self.switch.faults.append(fault)
        self.switch.unreadable = 10**6
        self.run(self.controller.apply(wanted, WHY))
        self.switch.unreadable = 0
        self.switch.faults.clear()
        self.crash_and_restart()
        assert self.controller.held >= self.controller.held & self.on_switch().circuits

    @invariant()
    def what_is_not_owned_is_untouched(self):
        assert self.switch.cross_connects >= OTHERS
        assert not self.switch.touched & {"9", "10", "19", "20"}

    @invariant()
    def every_intent_has_an_outcome_unless_nobody_knows(self):
        if self.controller.state is not RegionState.UNKNOWN:
            assert self.journal.unfinished() == []
            if self.journal.last(1):
                assert self.journal.held() is not None

    def on_switch(self):
        return self.ports.observe({"ocs": self.switch.cross_connects})

    def teardown(self):
        self.journal.close()
        self.folder.cleanup()


def test_circuit_that_vanished_before_a_change_of_others_is_drift():
    machine = ControllerMachine()
    stays, goes = NicPair(1, 0, 2, 0), NicPair(1, 1, 2, 1)
    machine.apply(wanted=frozenset({stays, goes}), faults=[])
    machine.somebody_deletes(victim=0)
    machine.apply(wanted=frozenset({stays}), faults=[])
    assert machine.controller.state is RegionState.DRIFTED
    assert machine.controller.drift
    machine.teardown()


TestControllerMachine = ControllerMachine.TestCase
TestControllerMachine.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
