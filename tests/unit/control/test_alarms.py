"""What is wrong with light and ports is an event, once, and so is its end."""

import asyncio

import pytest
from tests.control_regions import WHY, controlled, pairs, port_map_of
from tests.fake_switch import FakeSwitch

from lightloom.control.optics import alarms_of, published_limits
from lightloom.control.port_map import SwitchPort
from lightloom.control.region_file import OpticsSection
from lightloom.control.session import RegionSession
from lightloom.control.switch import PortState, PortStatus

LIMITS = OpticsSection().resolved()
CIRCUIT = pairs("0/0-1/0")  # 1-15 and 3-13 of a switch of 12 ports a side


def statuses(**power):
    """Ports named p1, p15 and so on, and the power at each."""
    return {
        SwitchPort("ocs", name[1:]): PortStatus(name[1:], power_dbm=dbm)
        for name, dbm in power.items()
    }


@pytest.mark.parametrize(
    ("power", "alarms"),
    [
        ({"p1": 1.0, "p15": 0.0}, {}),
        ({"p1": -50.0}, {"1-15 of ocs": "is dark (circuit 0/0-1/0)"}),
        ({"p1": 1.0, "p15": -9.0}, {"1-15 of ocs": "is lossy (circuit 0/0-1/0)"}),
        ({"p5": 25.0}, {"port 5 of ocs": "gets +25.0 dBm"}),
        ({"p12": 25.0}, {}),  # is not the region's
    ],
)
def test_what_is_an_alarm(power, alarms):
    assert LIMITS.max_input_dbm == published_limits()["max_input_dbm"].value
    assert alarms_of(CIRCUIT, port_map_of(4, 2, 12), statuses(**power), LIMITS) == alarms


def test_ports_that_failed_or_that_the_switch_warns_of():
    seen = {
        SwitchPort("ocs", "1"): PortStatus("1", state=PortState.FAILED),
        SwitchPort("ocs", "2"): PortStatus("2", alarm="loss of light"),
        SwitchPort("ocs", "11"): PortStatus("11", alarm="loss of light"),
    }
    assert alarms_of((), port_map_of(4, 2, 12), seen, LIMITS) == {
        "port 1 of ocs": "has failed",
        "port 2 of ocs": "loss of light",
    }


def test_an_alarm_is_told_once_and_so_is_its_end(tmp_path):
    events = []

    async def scenario():
        switch = FakeSwitch(12)
        async with controlled(tmp_path, switch) as (controller, _):
            session = RegionSession(
                controller, notify=lambda name, facts: events.append((name, dict(facts)))
            )
            await controller.apply(CIRCUIT, WHY)
            for dbm in (1.0, -50.0, -50.0, 1.0):
                switch.power_dbm["1"] = dbm
                await controller.check()
                ports, lit = controller.port_map, controller.observed.circuits
                session.note_alarms(alarms_of(lit, ports, controller.statuses, controller.limits))
            assert session.alarms == {}

    asyncio.run(scenario())
    assert [event for event in events if event[0].startswith("alarm")] == [
        ("alarm", {"place": "1-15 of ocs", "text": "is dark (circuit 0/0-1/0)"}),
        ("alarm-cleared", {"place": "1-15 of ocs"}),
    ]
