"""Random changes and faults: drivers and the emulated switch agree whenever the state is known.

Circuits on the ports above ``OWNED`` belong to someone else and must never be touched.
"""

import asyncio

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.control_switches import ADMIN

from lightloom.control.drivers import open_driver
from lightloom.control.emulator import EmulatedBehavior, Emulator, FaultKind, FixedTime
from lightloom.control.emulator.calient import port_name
from lightloom.control.switch import (
    ChangeOperation,
    CircuitState,
    CrossConnect,
    SwitchChange,
    SwitchDisconnectedError,
    SwitchTimeoutError,
)

SIDE, OWNED = 8, 6
CUTS = (FaultKind.CUT_BEFORE, FaultKind.CUT_AFTER, FaultKind.POWER_LOSS)
HARMLESS = (FaultKind.SLOW, FaultKind.FRAGMENT, FaultKind.REPORT)
OTHERS = {7: 7 + SIDE, 8: 8 + SIDE}

#: a matching of some of the owned ports: egress index per ingress port, None where it is dark
WANTED = st.permutations(range(1, OWNED + 1)).flatmap(
    lambda order: st.tuples(*(st.sampled_from([None, egress]) for egress in order))
)


class Drivers(RuleBasedStateMachine):
    """One emulated switch and its driver."""

    model, moves = "polatis", True

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.is_known = True

    @initialize(seed=st.integers(0, 1000))
    def start(self, seed):
        self.emulator = Emulator(
            (SIDE, SIDE),
            model=self.model,
            seed=seed,
            timing=FixedTime(0),
            behavior=EmulatedBehavior(sid="lab ocs" if seed % 2 else ""),
        )
        self.emulator.matrix.change([], list(OTHERS.items()))
        self.runner.run(self.emulator.__aenter__())
        url = f"{self.emulator.url()}?moves={'yes' if self.moves else 'no'}"
        self.driver = open_driver(url, credentials=ADMIN)
        self.runner.run(self.driver.connect())

    def cross_connect(self, ingress, egress) -> CrossConnect:
        return CrossConnect(str(ingress), str(egress + SIDE))

    def owned(self) -> set[CrossConnect]:
        circuits = self.emulator.matrix.circuits.items()
        return {self.cross_connect(a, b - SIDE) for a, b in circuits if a <= OWNED}

    def others(self) -> set[CrossConnect]:
        return {self.cross_connect(a, b - SIDE) for a, b in OTHERS.items()}

    @precondition(lambda self: self.is_known)
    @rule(
        wanted=WANTED,
        fault=st.none() | st.sampled_from([*CUTS, *HARMLESS, FaultKind.DENY]),
    )
    def apply(self, wanted, fault):
        goal = {self.cross_connect(a, b) for a, b in enumerate(wanted, 1) if b is not None}
        before = self.owned()
        listed = self.runner.run(self.driver.read_back(ports=False)).cross_connects
        listed = {one for one in listed if one not in self.others()}
        # what was entered and not made is deleted and made again
        deletes = (listed - goal) | (listed - before)
        # both directions of a connection can only be deleted together
        crossed = {CrossConnect(one.egress, one.ingress) for one in deletes}
        together = crossed & (listed - deletes) if self.model == "calient" else set()
        creates = (goal - before) | (together & goal)
        change = SwitchChange(tuple(sorted(deletes | together)), tuple(sorted(creates)))
        if not (change.deletes or change.creates):
            fault = None  # nothing is sent that it could befall
        if fault is not None:
            self.emulator.faults.next_change(fault, seconds=0.0)
        try:
            results = self.runner.run(self.driver.apply(change))
        except (SwitchTimeoutError, SwitchDisconnectedError):
            self.is_known = False
            return
        if fault is not FaultKind.DENY:
            assert all(one.is_accepted for one in results)
            assert self.owned() == goal
        elif self.model == "polatis":
            accepted = {(one.operation, one.cross_connect) for one in results if one.is_accepted}
            gone = {one for kind, one in accepted if kind is ChangeOperation.DELETE}
            made = {one for kind, one in accepted if kind is ChangeOperation.CREATE}
            assert self.owned() == (before - gone) | made

    @precondition(lambda self: not self.is_known)
    @rule()
    def reconnect(self):
        self.runner.run(self.driver.connect())
        self.is_known = True

    @precondition(lambda self: self.is_known)
    @rule()
    def read_back(self):
        back = self.runner.run(self.driver.read_back())
        connected = {
            one for one in back.cross_connects if back.state_of(one) is CircuitState.CONNECTED
        }
        assert connected == self.owned() | self.others()

    @invariant()
    def circuits_of_others_are_untouched(self):
        if hasattr(self, "emulator"):
            assert OTHERS.items() <= self.emulator.matrix.circuits.items()

    def teardown(self):
        if hasattr(self, "driver"):
            self.runner.run(self.driver.close())
            self.runner.run(self.emulator.close())
        self.runner.close()


class DriversThatDelete(Drivers):
    """The same without relying on moves."""

    moves = False


class CalientDrivers(Drivers):
    """The same with connections that are entered and then made."""

    model = "calient"

    def cross_connect(self, ingress, egress):
        return CrossConnect(port_name(ingress), port_name(egress))


for machine in (Drivers, DriversThatDelete, CalientDrivers):
    machine.TestCase.settings = settings(
        max_examples=20,
        stateful_step_count=20,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )

TestMoves = Drivers.TestCase
TestDeletes = DriversThatDelete.TestCase
TestCalient = CalientDrivers.TestCase
