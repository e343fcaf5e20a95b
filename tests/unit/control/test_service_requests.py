"""Every request gets one answer with its number: whatever type a field has, whatever breaks."""

import asyncio
import itertools
import json
import struct

import pytest
from tests.unit.control.test_service import HELLO, OPERATOR, TOKEN, demand, raw, served

from lightloom.control.client import ControlClient
from lightloom.control.wire import encode, read_frame

#: one of each JSON type, and what has broken parsers before
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    2**53 + 1,
    10**18,
    1.5,
    -0.0,
    "",
    "word",
    "x" * 300,
    "\x1b[2J\n\u202e",
    "\ud800",
    [],
    [[]],
    [None],
    ["nic:0/0"],
    [1e300],
    {},
    {"a": [1]},
)
FIELDS = {
    "demand": ("job", "step", "layer", "upcoming", "hidden_s", "who", "unknown"),
    "join": ("server", "unknown"),
    "fail": ("parts", "unknown"),
    "repair": ("parts", "unknown"),
    "status": ("unknown",),
    "plan": ("target", "conflicts", "unknown"),
    "apply": ("plan", "checks", "unknown"),
    "pause": ("why", "unknown"),
    "continue": ("unknown",),
    "clients": ("unknown",),
    "remove": ("number", "unknown"),
}


def frame_of(text, body=b""):
    return struct.pack(">II", len(text), len(body)) + text + body


async def conversation(folder, frames):
    """Send frames one after the other; return the answer to each, and the session's faults."""
    faults, answers = [], []
    async with served(folder, notify=lambda name, facts: faults.append((name, facts))) as (
        service,
        *_,
    ):
        reader, writer = await raw(service)
        writer.write(encode({"op": "hello", "token": OPERATOR}))
        await read_frame(reader, 2**20, 0)
        for frame in frames:
            writer.write(frame)
            async with asyncio.timeout(5):
                while "event" in (header := (await read_frame(reader, 2**20, 0)).header):
                    if header["event"] == "drain":  # it has joined
                        writer.write(encode({"op": "drained", "fence": header["fence"]}))
            answers.append(header)
        writer.close()
    return answers, faults


def test_any_type_in_any_field_is_answered(tmp_path):
    body = demand((0, 7)).tobytes()
    headers = [
        {"op": op, "id": number, name: value}
        for number, (op, name, value) in enumerate(
            (op, name, value) for op, names in FIELDS.items() for name in names for value in VALUES
        )
    ]
    frames = [encode(one, body if one["op"] == "demand" else b"") for one in headers]
    answers, faults = asyncio.run(conversation(tmp_path, frames))
    assert [answer["id"] for answer in answers] == [one["id"] for one in headers]
    assert not [name for name, _ in faults if name == "internal-error"]
    for header, answer in zip(headers, answers, strict=True):
        assert answer["ok"] or ("\n" not in answer["error"] and answer["error"].isprintable())
        assert answer["ok"] or answer["error"], header
        assert not (answer["ok"] and "unknown" in header)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_any_type_as_op_or_id_is_answered(tmp_path, value):
    frames = [
        encode({"op": value, "id": 1}),
        encode({"op": "status", "id": value}),
        encode({"id": value}),
        encode({"op": "drained", "fence": value, "problem": value, "id": 4, "x": 1}),
        encode({"op": "status", "id": 5}),
    ]
    answers, faults = asyncio.run(conversation(tmp_path, frames))
    assert [answer["ok"] for answer in answers] == [False, answers[1]["ok"], False, False, True]
    is_number = not isinstance(value, bool) and isinstance(value, int)
    is_good = is_number or (isinstance(value, str) and len(value) <= 200)
    assert answers[1]["ok"] == (is_good or value is None)
    assert [answer["id"] for answer in answers] == [1, *[value if is_good else None] * 2, 4, 5]
    assert answers[0]["error"].startswith("op ")
    assert not [name for name, _ in faults if name == "internal-error"]


@pytest.mark.parametrize("number", ["1e999", "-1e999", '"' + "\\ud800" * 3 + '"', "[1e999]"])
def test_numbers_and_texts_that_json_cannot_send_back(tmp_path, number):
    text = f'{{"op": "status", "id": {number}}}'.encode()
    answers, faults = asyncio.run(conversation(tmp_path, [frame_of(text)]))
    assert answers[0]["ok"] == number.startswith('"')
    assert not [name for name, _ in faults if name == "internal-error"]


def test_a_fault_of_the_service_is_answered_and_logged(tmp_path):
    async def scenario():
        log = []
        async with served(tmp_path, notify=lambda *event: log.append(event)) as (
            service,
            session,
            _switch,
        ):

            async def broken(*_):
                return {}["secret detail"]

            async def odd(*_):
                return {"value": object()}

            async def full(*_):
                raise OSError(28, "No space left on device")

            async with ControlClient(service.address, TOKEN) as client:
                for handler in (broken, odd, full):
                    session._status = handler
                    reply = await client.request("status")
                    assert reply["error"] == "internal error of the service; see its log"
                    assert reply["circuits"] == []
                session.fallback = {}.__getitem__
                reply = await client.request("nonsense")
                assert reply["error"].startswith("op 'nonsense'")
                assert (await client.circuits_for(demand((0, 7))))["result"] == "done"
        names = [name for name, _ in log]
        assert names.count("internal-error") == 4
        assert "KeyError: 'secret detail'" in log[0][1]["trace"]

    asyncio.run(scenario())


def test_random_frames_never_silence_the_service(tmp_path):
    """Frames that are cut, or have a bit turned, end a connection at most."""
    good = encode({"op": "demand", "id": 1, "step": 3}, demand((0, 7)).tobytes())
    cases = [good[:length] for length in range(0, 60, 7)]
    for place, bit in itertools.product(range(0, 44, 3), (0, 5)):
        turned = bytearray(good)
        turned[place] ^= 1 << bit
        cases.append(bytes(turned))

    async def scenario():
        log = []
        async with served(tmp_path, notify=lambda *event: log.append(event)) as (service, *_):

            async def one(case):
                reader, writer = await raw(service)
                writer.write(HELLO + case)
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 5)
                writer.close()

            await asyncio.gather(*map(one, cases))
            async with ControlClient(service.address, TOKEN) as client:
                assert (await client.request("status"))["ok"]
        assert not [name for name, _ in log if name == "internal-error"]

    asyncio.run(scenario())


def test_the_frames_of_these_tests_are_json():
    assert json.loads(encode({"id": "\ud800"})[8:]) == {"id": "\ud800"}


def test_a_number_of_many_digits_ends_the_connection_with_one_answer(tmp_path):
    frame = frame_of(b'{"op": "status", "id": 1' + b"0" * 80 + b"}")
    (answer,), _ = asyncio.run(conversation(tmp_path, [frame]))
    assert (answer["ok"], answer["id"]) == (False, None)
    assert answer["error"].startswith("header: not valid JSON: ")


PLAN = {
    "region": "r0",
    "kind": "apply",
    "wanted": ["0/0-1/0"],
    "why": "w",
    "conflicts": "safe",
    "port_map": "0" * 64,
    "seen": "0" * 64,
}
TARGETS = (
    {"kind": "exactly", "circuits": ["0/0-1/0"], "name": "x"},
    {"kind": "edited", "add": ["0/0-1/0"], "remove": []},
    {"kind": "demanded"},
    {"kind": "before", "change": 1},
)


def test_any_type_inside_a_target_or_a_plan_is_answered(tmp_path):
    inside = [("apply", "plan", PLAN), *(("plan", "target", target) for target in TARGETS)]
    values = (*VALUES, ["0/0-0/0"], ["9/9-1/0"], ["\x1b[2J"], ["0/0-1/0"] * 3, "adopt")
    headers = [
        {"op": op, "id": number, name: {**record, key: value}}
        for number, (op, name, record, key, value) in enumerate(
            (op, name, record, key, value)
            for op, name, record in inside
            for key in (*record, "unknown")
            for value in values
        )
    ]
    answers, faults = asyncio.run(conversation(tmp_path, [encode(one) for one in headers]))
    assert [answer["id"] for answer in answers] == [one["id"] for one in headers]
    assert not [facts["trace"] for name, facts in faults if name == "internal-error"]
    assert all(answer["ok"] or answer["error"].isprintable() for answer in answers)
