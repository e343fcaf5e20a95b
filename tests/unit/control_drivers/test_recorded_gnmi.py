"""What public clients of gNMI are recorded to send and to expect holds for the emulated SONiC."""

import asyncio
import json
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import change, connected, emulate, run

grpc = pytest.importorskip("grpc")
messages = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2")
services = pytest.importorskip("pygnmi.spec.v080.gnmi_pb2_grpc")
text_format = pytest.importorskip("google.protobuf.text_format")

TABLE = tomllib.loads(Path(__file__).with_name("sonic_gnmi.toml").read_text())
CASES = TABLE["case"]
LOGIN = (("username", "admin"), ("password", "root"))
POLL = messages.SubscribeRequest(poll=messages.Poll())


def leaf_of(path):
    """Leaf and key, as ``a_side of 1A-1B``."""
    (key,) = path.elem[-2].key.values()
    return f"{path.elem[-1].name} of {key}"


async def told(call):
    """The leaves of a subscription until it is in step."""
    leaves = {}
    async for response in call:
        if response.sync_response:
            return leaves
        for update in response.update.update:
            leaves[leaf_of(update.path)] = json.loads(update.val.json_ietf_val)
    raise AssertionError("the stream ended before it was in step")


async def subscribed(stub, case, request):
    polls = case.get("polls", 0)

    async def requests():
        yield request
        for _ in range(polls):
            yield POLL
        if not case.get("ends"):
            await asyncio.Event().wait()

    call = stub.Subscribe(requests(), metadata=LOGIN)
    for _ in range(1 + polls):
        assert await told(call) == case.get("leaves", {})
    if case.get("ends"):
        assert [response async for response in call] == []
    call.cancel()


async def converse(case, stub):
    method = case["method"]
    kind = {"Get": messages.GetRequest, "Set": messages.SetRequest}
    request = text_format.Parse(case["request"], kind.get(method, messages.SubscribeRequest)())
    if method == "Subscribe":
        await subscribed(stub, case, request)
        return
    reply = await getattr(stub, method)(request, metadata=LOGIN)
    if method == "Set":
        operations = messages.UpdateResult.Operation
        assert [operations.Name(one.op) for one in reply.response] == case["operations"]
        assert reply.prefix.target == case.get("target", "")
        return
    (notification,) = reply.notification
    (update,) = notification.update
    assert notification.timestamp > 10**18
    assert notification.prefix.target == case.get("target", "")
    assert update.path == request.path[0]
    is_ietf = request.encoding == messages.Encoding.Value("JSON_IETF")
    value = update.val.json_ietf_val if is_ietf else update.val.json_val
    assert json.loads(value) == json.loads(case["value"])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case):
    async def check():
        async with emulate(model="sonic", services={"gnmi": 0}) as emulator:
            emulator.matrix.change([], [(1, 9)])
            async with grpc.aio.insecure_channel(f"127.0.0.1:{emulator.ports['gnmi']}") as channel:
                stub = services.gNMIStub(channel)
                if "code" in case:
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await converse(case, stub)
                    assert caught.value.code().name == case["code"]
                else:
                    await converse(case, stub)
            return [f"{a}A-{b - 8}B" for a, b in emulator.matrix.circuits.items()]

    assert run(check()) == case.get("circuits", ["1A-1B"])


def test_every_case_names_its_source():
    assert {case["source"] for case in CASES} == set(TABLE["sources"])
    assert len({case["name"] for case in CASES}) == len(CASES)


def test_a_stream_tells_what_has_changed_and_what_is_gone():
    request = text_format.Parse(
        'subscribe { prefix { target: "OC-YANG" } subscription { mode: ON_CHANGE path {'
        ' elem { name: "sonic-ocs:sonic-ocs" } elem { name: "OCS_CROSS_CONNECT" } } } }',
        messages.SubscribeRequest(),
    )

    async def requests():
        yield request
        await asyncio.Event().wait()

    async def check():
        async with emulate(model="sonic", services={"gnmi": 0}) as emulator:
            emulator.matrix.change([], [(1, 9)])
            async with grpc.aio.insecure_channel(f"127.0.0.1:{emulator.ports['gnmi']}") as channel:
                call = services.gNMIStub(channel).Subscribe(requests(), metadata=LOGIN)
                assert len(await told(call)) == 3
                emulator.matrix.change([1], [(2, 10)])
                update = (await anext(aiter(call))).update
                call.cancel()
                return update

    update = run(check())
    assert {leaf_of(one.path) for one in update.update} == {
        f"{leaf} of 2A-2B" for leaf in ("cross_connect_id", "a_side", "b_side")
    }
    assert {leaf_of(path).partition(" of ")[2] for path in update.delete} == {"1A-1B"}
    assert len(update.delete) == 3


def test_the_driver_names_the_target_in_every_request(monkeypatch):
    from lightloom.control.emulator.sonic_gnmi import SonicGnmiService

    targets = set()

    def recorded(name):
        method = getattr(SonicGnmiService, name)

        async def answered(self, request, context):
            targets.add((name, request.prefix.target))
            return await method(self, request, context)

        return answered

    for name in ("Get", "Set"):
        monkeypatch.setattr(SonicGnmiService, name, recorded(name))

    async def check():
        async with (
            emulate(model="sonic", services={"gnmi": 0}) as emulator,
            connected(emulator) as driver,
        ):
            await driver.apply(change("1A-1B"))
            # one that named neither would be refused, and compare readings instead
            events = driver.watch()
            coming = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.3)
            emulator.matrix.change([1], [])
            event = await coming
            await driver.close()
            return event

    event = run(check())
    assert "1A-1B" in event.text
    assert targets == {("Get", "OC-YANG"), ("Set", "OC-YANG")}
