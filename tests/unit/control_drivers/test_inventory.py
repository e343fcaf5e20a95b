"""What a switch is made of: read where the protocol has it, told, and an alarm once it fails."""

import asyncio
import io
import json
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import PROTOCOLS, connected, emulate, reached, run, setup

from lightloom.cli import run_command
from lightloom.control.drivers import sonic_platform
from lightloom.control.drivers.openconfig_platform import components_of, described, equipment_of
from lightloom.control.emulator.device import SwitchIdentity
from lightloom.control.region_light import region_alarms
from lightloom.control.running import check_once, looking_at, open_region, running
from lightloom.control.session import RegionSession
from lightloom.control.switch import EquipmentStatus, SwitchDescription, SwitchProtocolError

GNMI = {"model": "sonic", "services": {"gnmi": 0}}


def component(name, kind, **state):
    """As ``openconfig-platform`` has it, modules and all."""
    state = {leaf.replace("_", "-"): value for leaf, value in state.items()}
    types = "openconfig-platform-types"
    return {"name": name, "state": {"name": name, "type": f"{types}:{kind}", **state}}


def encoded(*components, wrapped=True):
    content = {"component": list(components)}
    return json.dumps({"openconfig-platform:components": content} if wrapped else content).encode()


ACTIVE = "openconfig-platform-types:ACTIVE"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"oper_status": ACTIVE, "empty": False}, "PSU 1 ok"),
        ({"oper_status": "ACTIVE"}, "PSU 1 ok"),
        ({}, "PSU 1 ok"),  # nothing is said
        ({"oper_status": "openconfig-platform-types:INACTIVE"}, "PSU 1 is inactive"),
        ({"oper_status": "openconfig-platform-types:DISABLED"}, "PSU 1 is disabled"),
        ({"oper_status": ACTIVE, "openconfig-alarms:equipment_failure": True}, "PSU 1 has failed"),
        ({"empty": True}, "PSU 1 is not there"),
        ({"empty": True, "oper_status": "x:DISABLED"}, "PSU 1 is not there"),
    ],
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_what_is_wrong_with_a_power_supply(state, says, wrapped):
    components = components_of(
        encoded(component("PSU 1", "POWER_SUPPLY", **state), wrapped=wrapped)
    )
    (one,) = equipment_of(components)
    assert (one.kind, str(one)) == ("power supply", says)
    assert bool(one.problem) == (says.split()[-1] in {"inactive", "disabled", "failed"})


def test_only_power_supplies_and_fans_are_told_and_the_chassis_describes():
    components = components_of(
        encoded(
            component("Chassis", "CHASSIS", mfg_name="V", part_no="P", serial_no="S"),
            component("OS", "OPERATING_SYSTEM", software_version="1.2"),
            component("FAN 1", "FAN", oper_status=ACTIVE),
            component("Ethernet0", "TRANSCEIVER", oper_status="x:DISABLED"),
            {"name": "nothing is said of it"},
        )
    )
    assert equipment_of(components) == (EquipmentStatus("FAN 1", "fan"),)
    said = described(SwitchDescription("SONiC", "", "", (1, 1), {}), components)
    assert (said.vendor, said.model, said.serial, said.software) == ("V", "P", "S", "1.2")
    assert described(said, []) == said


@pytest.mark.parametrize(
    "text",
    [b"{", b"[" * 100_000, b"[1]", b'"x"', b"3", b'{"component": {"a": 1}}', b'[{"state": 1}]'],
)
def test_what_is_no_inventory_is_one_error(text):
    with pytest.raises(SwitchProtocolError):
        components_of(text)


def test_a_driver_reads_what_an_emulated_switch_is_made_of():
    pytest.importorskip("pygnmi")

    async def check():
        async with setup(**GNMI) as (emulator, driver):
            emulator.switch.identity = SwitchIdentity("V", "M", "S", "1.2")
            description = await driver.connect()
            assert (description.vendor, description.model) == ("V", "M")
            assert (description.serial, description.software) == ("S", "1.2")
            emulator.switch.equipment |= {"PSU 2": "DISABLED", "FAN 1": "empty"}
            back = await driver.read_back()
            says = [str(one) for one in back.equipment]
            assert says == [
                "PSU 1 ok",
                "PSU 2 is disabled",
                "FAN 1 is not there",
                "FAN 2 ok",
                "System Board ok",
            ]
            assert (await driver.read_back(ports=False)).equipment == ()

    run(check())


PRINTED = tomllib.loads(Path(__file__).with_name("sonic_platform.toml").read_text())


def test_what_sonics_commands_print():
    said = sonic_platform.described(
        SwitchDescription("SONiC", "", "", (1, 1), {}), PRINTED["summary"]
    )
    assert (said.model, said.serial) == ("1831800089", "H3603928")
    parts = sonic_platform.equipment_of(*(PRINTED[name] for name in ("psus", "fans", "sensors")))
    assert [str(part) for part in parts] == [
        "PSU 1 ok",
        "PSU 2 is not ok",
        "PSU 3 is not there",
        "PSU 4 is warning",
        "FanTray0-Fan0 ok",
        "FanTray0-Fan1 is not ok",
        "PSU0-Fan is not there",
        "System Board ok",
        "System Exhaust is at 71 °C",
    ]
    kinds = ["power supply"] * 4 + ["fan"] * 3 + ["temperature sensor"] * 2
    assert [part.kind for part in parts] == kinds
    for nothing in ("", "Fan Not detected\n\n", "Error! Failed to get the number of PSUs!\n"):
        assert sonic_platform.equipment_of(nothing, nothing, nothing) == ()
        assert sonic_platform.described(said, nothing).model == ""


@pytest.mark.parametrize("service", ["ssh", "restconfs"])
def test_sonic_says_it_by_its_commands_and_by_restconf(service, tmp_path):
    protocol = PROTOCOLS["cli" if service == "ssh" else "sonic-restconfs"]
    for package in protocol.packages:
        pytest.importorskip(package)

    async def check():
        async with (
            reached(protocol, tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            emulator.switch.identity = SwitchIdentity("SONiC", "M", "S", "1.2")
            description = await driver.connect()
            assert (description.model, description.serial) == ("M", "S")
            emulator.switch.equipment |= {"PSU 2": "DISABLED", "FAN 1": "empty"}
            emulator.switch.temperatures_c["System Board"] = 75.5
            back = await driver.read_back()
            word = "is not ok" if service == "ssh" else "is disabled"
            says = [str(part) for part in back.equipment]
            assert says == [
                "PSU 1 ok",
                f"PSU 2 {word}",
                "FAN 1 is not there",
                "FAN 2 ok",
                "System Board is at 75.5 °C",
            ]
            assert (await driver.read_back(ports=False)).equipment == ()

    run(check())


def test_commands_are_not_asked_for_parts_at_every_reading(tmp_path):
    pytest.importorskip("asyncssh")

    async def check():
        async with (
            reached(PROTOCOLS["cli"], tmp_path, "poll_s=60") as (emulator, query),
            connected(emulator, query) as driver,
        ):
            says = []
            for problem in ("", "DISABLED"):
                emulator.switch.equipment["PSU 2"] = problem
                says.append(str((await driver.read_back()).equipment[1]))
            await driver.connect()
            return [*says, str((await driver.read_back()).equipment[1])]

    assert run(check()) == ["PSU 2 ok", "PSU 2 ok", "PSU 2 is not ok"]


def test_commands_that_a_switch_does_not_know_say_nothing(tmp_path, monkeypatch):
    pytest.importorskip("asyncssh")

    async def check():
        async with (
            reached(PROTOCOLS["cli"], tmp_path) as (emulator, query),
            connected(emulator, query) as driver,
        ):
            monkeypatch.setattr("lightloom.control.drivers.sonic_cli.SUMMARY", "nothing")
            monkeypatch.setattr("lightloom.control.drivers.sonic_cli.EQUIPMENT", ("nothing",) * 3)
            assert (await driver.connect()).serial == ""
            assert (await driver.read_back()).equipment == ()

    run(check())


def test_a_switch_without_the_model_has_no_inventory(monkeypatch):
    pytest.importorskip("pygnmi")

    async def check():
        async with setup(**GNMI) as (emulator, driver):
            monkeypatch.setattr("lightloom.control.emulator.sonic_gnmi.platform_of", lambda _: {})
            description = await driver.connect()
            assert (description.vendor, description.model) == ("SONiC", "")
            assert (await driver.read_back()).equipment == ()
            del emulator

    run(check())


def test_pygnmis_own_client_reads_it():
    client = pytest.importorskip("pygnmi.client")
    platform = "openconfig-platform:components"

    def converse(port):
        with client.gNMIclient(
            target=("127.0.0.1", port), username="admin", password="root", insecure=True
        ) as session:
            replies = [
                session.get(path=[path], encoding="json_ietf")
                for path in (platform, f"{platform}/component[name=PSU 1]/state/oper-status")
            ]
            models = [one["name"] for one in session.capabilities()["supported_models"]]
            return models, [one["notification"][0]["update"][0]["val"] for one in replies]

    async def check():
        async with emulate(**GNMI) as emulator:
            return await asyncio.to_thread(converse, emulator.ports["gnmi"])

    models, (whole, leaf) = run(check())
    assert "openconfig-platform" in models
    names = [one["name"] for one in whole["openconfig-platform:components"]["component"]]
    assert names == ["Chassis", "OS", "PSU 1", "PSU 2", "FAN 1", "FAN 2", "System Board"]
    assert leaf == {"oper-status": ACTIVE}


@pytest.fixture
def region(tmp_path):
    """What writes the file of a region of an emulated SONiC switch."""

    def written(port):
        path = tmp_path / "region.toml"
        (tmp_path / "ports.csv").write_text(
            "server,nic,ingress,egress\nnode0,0,1A,1B\nnode1,0,2A,2B\n"
        )
        (tmp_path / "password").touch(mode=0o600)
        (tmp_path / "password").write_text("root\n")
        path.write_text(
            'name = "region"\nport_map = "ports.csv"\njournal = "region.sqlite"\n[switches.ocs]\n'
            f'url = "sonic+gnmi://127.0.0.1:{port}"\nuser = "admin"\npassword_file = "password"\n'
            "[timing]\nlink_up_s = 0\n"
        )
        return path

    return written


def test_a_power_supply_that_fails_is_an_alarm_until_it_works_again(region, capfd):
    pytest.importorskip("pygnmi")
    stream = io.StringIO()

    async def check():
        async with emulate(**GNMI) as emulator:
            path = region(emulator.ports["gnmi"])
            opened = open_region(path, stream)
            async with running(opened) as controller:
                session = RegionSession(controller, notify=opened.log)
                found = []
                for problem in ("", "DISABLED", ""):
                    emulator.switch.equipment["PSU 2"] = problem
                    await check_once(opened, session)
                    found.append(dict(session.alarms))
            emulator.switch.equipment["FAN 1"] = "INACTIVE"
            words = ["control", "watch", str(path), "--once", "--quiet"]
            assert await asyncio.to_thread(run_command, words) == 0
            async with looking_at(open_region(path, stream, is_read_only=True)) as controller:
                return found, region_alarms(controller)

    found, alarms = run(check())
    assert found == [{}, {"PSU 2 of ocs": "is disabled"}, {}]
    assert alarms == {"FAN 1 of ocs": "is inactive"}
    assert stream.getvalue().count('"event": "alarm"') == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[1:3] == [
        "  ocs: SONiC emulated 8x8, serial 000001, software lightloom",
        "    PSU 1 ok, PSU 2 ok, FAN 1 is inactive, FAN 2 ok, System Board ok",
    ]
    assert lines[-1] == "  alarm: FAN 1 of ocs is inactive"
