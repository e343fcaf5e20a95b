"""SONiC by RESTCONF: the driver in both published models, and what the guide's requests get."""

import pytest
from tests.control_switches import (
    ADMIN,
    behavior,
    change,
    connected,
    emulate,
    pairs,
    reached,
    run,
    unknown_until_read_back,
)
from tests.control_switches import Protocol as Spoken

from lightloom.control.drivers import open_driver
from lightloom.control.drivers.restconf import RestconfClient, RestconfReply
from lightloom.control.emulator import Fault, FaultKind
from lightloom.control.switch import (
    CircuitState,
    PortState,
    SwitchDeniedError,
    SwitchProtocolError,
    SwitchTimeoutError,
)
from lightloom.errors import InputError

httpx = pytest.importorskip("httpx")
pytest.importorskip("cryptography")
RESTCONFS = Spoken("sonic", "restconfs")
MODELS = pytest.mark.parametrize("has_state_module", [True, False], ids=["design", "guide"])


def with_driver(check, tmp_path, query="poll_s=0", *, has_state_module=True, **options):
    async def work():
        options["behavior"] = behavior(has_state_module=has_state_module)
        async with (
            reached(RESTCONFS, tmp_path, query, **options) as (emulator, url_query),
            connected(emulator, url_query) as driver,
        ):
            return await check(emulator, driver)

    return run(work())


@MODELS
def test_what_a_switch_has(tmp_path, has_state_module):
    async def check(emulator, driver):
        description = await driver.connect()
        assert (description.vendor, description.size) == ("SONiC", (8, 8))
        assert (description.model, description.serial) == ("emulated", "000001")
        emulator.switch.equipment["PSU 2"] = "DISABLED"
        emulator.matrix.change([], [(1, 9)])
        emulator.matrix.failed.add(3)
        back = await driver.read_back()
        assert back.states == {pairs("1A-1B")[0]: CircuitState.CONNECTED}
        states = {port.name: port.state for port in back.ports}
        assert (states["1A"], states["2A"], states["3A"]) == (
            PortState.TUNED,
            PortState.BLOCKED,
            PortState.FAILED,
        )
        assert [str(part) for part in back.equipment][1] == "PSU 2 is disabled"

    with_driver(check, tmp_path, has_state_module=has_state_module)


def test_what_a_switch_is_made_of_is_asked_again_after_a_restart(tmp_path):
    async def check(_emulator, driver):
        values, refused = driver._values, SwitchDeniedError("503", "starting", "GET")

        async def refuse(names):
            if "platform" in names[0]:
                raise refused
            return await values(names)

        driver._values = refuse
        assert (await driver.read_back()).equipment == ()
        driver._values = values
        await driver.connect()
        assert (await driver.read_back()).equipment[0].name == "PSU 1"

    with_driver(check, tmp_path)


@MODELS
def test_a_busy_port_is_freed_by_name_in_the_same_request(tmp_path, has_state_module):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B 2A-2B 3A-3B"))
        (result,) = await driver.apply(change("1A-2B"))
        assert result.is_accepted
        assert emulator.matrix.circuits == {1: 10, 3: 11}
        assert emulator.faults.num_changes == 2
        back = await driver.read_back(ports=False)
        # a stale entry would be there, too
        assert back.states == dict.fromkeys(pairs("1A-2B 3A-3B"), CircuitState.CONNECTED)

    with_driver(check, tmp_path, has_state_module=has_state_module)


@MODELS
def test_a_circuit_that_lost_its_ports_is_seen_and_made_anew(tmp_path, has_state_module):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B 2A-2B"))
        bulk = {"sonic-ocs:input": {"add": [row("1A-3B"), row("2A-4B")]}}
        await driver._client.request("POST", "operations/sonic-ocs:bulk-update", content=bulk)
        lost, back = pairs("1A-1B")[0], await driver.read_back(ports=False)
        # the design document has a status per side, which does not say why
        said = CircuitState.PENDING if has_state_module else CircuitState.INVALID
        assert back.state_of(lost) is said
        await driver.apply(change("1A-1B", deletes="1A-3B 2A-4B"))
        back = await driver.read_back(ports=False)
        assert back.state_of(lost) is CircuitState.CONNECTED
        assert emulator.matrix.circuits == {1: 9}

    with_driver(check, tmp_path, has_state_module=has_state_module)


def test_circuits_move_in_one_transaction(tmp_path):
    async def check(emulator, driver):
        await driver.apply(change("1A-1B 2A-2B"))
        results = await driver.apply(change("1A-2B 2A-1B", deletes="1A-1B 2A-2B"))
        assert all(result.is_accepted for result in results)
        assert emulator.matrix.circuits == {1: 10, 2: 9}
        assert emulator.faults.num_changes == 2
        assert await driver.apply(change()) == ()
        assert emulator.faults.num_changes == 2

    with_driver(check, tmp_path)


def test_a_refusal_is_a_result(tmp_path):
    async def check(_, driver):
        (result,) = await driver.apply(change("1A-1B"))
        assert (result.state, result.code) == (CircuitState.INVALID, "409")
        assert result.reason == "Refused on demand"

    with_driver(check, tmp_path, faults=[Fault.parse("deny@1")])


@pytest.mark.parametrize(("kind", "is_made"), [("cut-before", False), ("cut-after", True)])
def test_after_a_cut_the_state_is_unknown_until_it_is_read_back(tmp_path, kind, is_made):
    async def check(emulator, driver):
        await unknown_until_read_back(emulator, driver, "1A-1B", is_made)

    with_driver(check, tmp_path, faults=[Fault.parse(f"{kind}@1")])


def test_time_out(tmp_path):
    async def check(emulator, driver):
        emulator.faults.next_change(FaultKind.NO_REPLY)
        with pytest.raises(SwitchTimeoutError, match=r"bulk-update: no reply within 0.3 s"):
            await driver.apply(change("1A-1B"))
        await driver.connect()
        assert (await driver.read_back()).cross_connects == set(pairs("1A-1B"))

    with_driver(check, tmp_path, "reply_timeout_s=0.3")


REPLIES = {
    b'{"sonic-ocs:output": {"deleted_count": 0, "added_count": 1, "failed_keys": ["2A-2B"]}}': [
        CircuitState.CONNECTED,
        CircuitState.INVALID,
    ],
    b"": [CircuitState.CONNECTED] * 2,
    b"{}": [CircuitState.CONNECTED] * 2,
}


@pytest.mark.parametrize(
    "body", [*REPLIES, b"[]", b"{", b'{"sonic-ocs:output": {"failed_keys": 1}}']
)
def test_names_that_could_not_be_processed(tmp_path, monkeypatch, body):
    request = RestconfClient.request

    async def replied(self, method, path, **options):
        if method == "POST":
            return RestconfReply(200, {}, body)
        return await request(self, method, path, **options)

    async def check(_, driver):
        monkeypatch.setattr(RestconfClient, "request", replied)
        if body in REPLIES:
            results = await driver.apply(change("1A-1B 2A-2B"))
            assert [result.state for result in results] == REPLIES[body]
        else:
            with pytest.raises(SwitchProtocolError):
                await driver.apply(change("1A-1B 2A-2B"))

    with_driver(check, tmp_path)


@pytest.mark.parametrize(("status", "is_empty"), [("404", True), ("400", False), ("500", False)])
def test_only_a_table_that_is_not_there_is_empty(tmp_path, monkeypatch, status, is_empty):
    request = RestconfClient.request

    async def refused(self, method, path, **options):
        if path.endswith("OCS_CROSS_CONNECT"):
            raise SwitchDeniedError(status, "", path)
        return await request(self, method, path, **options)

    async def check(emulator, driver):
        emulator.matrix.change([], [(1, 9)])
        monkeypatch.setattr(RestconfClient, "request", refused)
        if is_empty:
            assert (await driver.read_back()).cross_connects == frozenset()
        else:
            with pytest.raises(SwitchDeniedError):
                await driver.read_back()

    with_driver(check, tmp_path)


def test_the_gnmi_driver_reads_the_guides_tables_too():
    pytest.importorskip("pygnmi")

    async def check():
        old = behavior(has_state_module=False)
        async with (
            emulate(model="sonic", services={"gnmi": 0}, behavior=old) as emulator,
            connected(emulator) as driver,
        ):
            await driver.apply(change("1A-2B"))
            back = await driver.read_back()
            assert back.states == {pairs("1A-2B")[0]: CircuitState.CONNECTED}
            assert len(back.ports) == 16

    run(check())


def row(name):
    a_side, b_side = name.split("-")
    return {"cross_connect_id": name, "a_side": a_side, "b_side": b_side}


SONIC_OCS = "data/sonic-ocs:sonic-ocs"
#: first rows of the guide's tables on its switch, 1A to 16B, 2A to 15B and so on; connectors differ
GUIDE = {
    "OCS_PORT": {"config_status": "normal", "label": "", "simplex_port_id": "1A"},
    "OCS_PORT_TABLE": {
        "connector_pin": "2",
        "connector_type": "LC UPC",
        "oper_status": "connected",
        "simplex_port_id": "1A",
        "target_simplex_port_id": "16B",
    },
    "OCS_CROSS_CONNECT": row("1A-16B"),
    "OCS_CROSS_CONNECT_TABLE": {
        "cross_connect_id": "1A-16B",
        "status": "enabled",
        "physical_path": ["1A", "panel IN 1", "panel OUT 16", "16B"],
    },
}


@pytest.mark.parametrize("table", GUIDE)
def test_tables_as_the_guide_shows_them(table):
    async def check():
        old = behavior(has_state_module=False)
        async with emulate((16, 16), model="sonic", services={"restconf": 0}, behavior=old) as it:
            it.matrix.change([], [(port, 33 - port) for port in range(1, 17)])
            base = f"http://127.0.0.1:{it.ports['restconf']}/restconf/"
            async with httpx.AsyncClient(auth=("admin", "root"), trust_env=False) as session:
                whole = await session.get(f"{base}{SONIC_OCS}/{table}")
                listed = table.removesuffix("_TABLE") + "_LIST"
                key = next(value for name, value in GUIDE[table].items() if name.endswith("_id"))
                one = await session.get(f"{base}{SONIC_OCS}/{table}/{listed}={key}")
                other = await session.get(f"{base}data/sonic-ocs-states:sonic-ocs-states")
                refused = await session.patch(f"{base}{SONIC_OCS}/OCS_PORT_TABLE", json={})
            return whole, one, other, refused, listed

    whole, one, other, refused, listed = run(check())
    assert whole.json()[f"sonic-ocs:{table}"][listed][0] == GUIDE[table]
    assert one.status_code == 200
    assert other.status_code == 404
    assert refused.status_code == 400


def test_components_as_the_management_framework_serves_them():
    async def check():
        async with emulate(model="sonic", services={"restconf": 0}) as emulator:
            base = f"http://127.0.0.1:{emulator.ports['restconf']}/restconf/data/"
            async with httpx.AsyncClient(auth=("admin", "root"), trust_env=False) as session:
                part = f"{base}openconfig-platform:components/component"
                return [
                    await session.get(f"{part}=PSU%201/state/oper-status"),
                    await session.get(f"{part}=PSU%209"),
                ]

    found, missing = run(check())
    assert found.json() == {"oper-status": "openconfig-platform-types:ACTIVE"}
    assert missing.status_code == 404


def test_its_url_has_no_plain_form():
    with pytest.raises(InputError, match=r"unknown scheme 'sonic\+restconf'"):
        open_driver("sonic+restconf://10.0.0.5", credentials=ADMIN)
