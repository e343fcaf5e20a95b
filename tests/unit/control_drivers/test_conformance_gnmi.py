"""What public clients send a SONiC switch by gNMI and RESTCONF, and expect, holds for the emulator.

Sources: pygnmi (``create_gnmi_path.py`` puts a module in the origin of a path), the design document
of SONiC for optical circuit switches (revision 0.5), and its guide for developers (the cases of
``bulk-update``, the wrapped bodies of RESTCONF).
"""

import asyncio
import json

import pytest
from tests.control_switches import emulate, run

grpc = pytest.importorskip("grpc")
client = pytest.importorskip("pygnmi.client")
httpx = pytest.importorskip("httpx")

CIRCUITS = "sonic-ocs:sonic-ocs/OCS_CROSS_CONNECT"
ENTRY = CIRCUITS + "/OCS_CROSS_CONNECT_LIST[cross_connect_id={}]"


def row(name):
    a_side, b_side = name.split("-")
    return {"cross_connect_id": name, "a_side": a_side, "b_side": b_side}


def with_pygnmi(work, circuits=()):
    """Run blocking work with pygnmi's own client, and return what it returns and the circuits."""

    def converse(port):
        target = ("127.0.0.1", port)
        with client.gNMIclient(
            target=target, username="admin", password="root", insecure=True
        ) as session:
            return work(session)

    async def check():
        async with emulate(model="sonic", services={"gnmi": 0}) as emulator:
            emulator.matrix.change([], circuits)
            result = await asyncio.to_thread(converse, emulator.ports["gnmi"])
            return result, [f"{a}A-{b - 8}B" for a, b in emulator.matrix.circuits.items()]

    return run(check())


def value_of(reply):
    (notification,) = reply["notification"]
    (update,) = notification["update"]
    return update["val"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (CIRCUITS, {"sonic-ocs:OCS_CROSS_CONNECT_LIST": [row("1A-1B"), row("2A-2B")]}),
        (f"/{CIRCUITS}", {"sonic-ocs:OCS_CROSS_CONNECT_LIST": [row("1A-1B"), row("2A-2B")]}),
        (ENTRY.format("2A-2B"), {"sonic-ocs:OCS_CROSS_CONNECT_LIST": [row("2A-2B")]}),
        (ENTRY.format("2A-2B") + "/b_side", {"sonic-ocs:b_side": "2B"}),
        # without a module: the container has the name of one
        ("/" + ENTRY.format("1A-1B").partition(":")[2] + "/a_side", {"sonic-ocs:a_side": "1A"}),
        (
            "sonic-ocs-states:sonic-ocs-states/OCS_CROSS_CONNECT/"
            "OCS_CROSS_CONNECT_LIST[cross_connect_id=1A-1B]/a_side_status",
            {"sonic-ocs-states:a_side_status": "tuned"},
        ),
        (
            "sonic-ocs:sonic-ocs/OCS_PORT/OCS_PORT_LIST[simplex_port_id=1A]",
            {
                "sonic-ocs:OCS_PORT_LIST": [
                    {"simplex_port_id": "1A", "label": "", "state": "normal"}
                ]
            },
        ),
    ],
)
@pytest.mark.parametrize("encoding", ["json", "json_ietf"])
def test_pygnmi_reads(path, value, encoding):
    reply, _ = with_pygnmi(
        lambda session: session.get(path=[path], encoding=encoding), [(1, 9), (2, 10)]
    )
    assert value_of(reply) == value


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("sonic-ocs:sonic-ocs/NO_TABLE", "NOT_FOUND"),
        ("openconfig-ocs:sonic-ocs/OCS_CROSS_CONNECT", "INVALID_ARGUMENT"),
        ("sonic-ocs-states:sonic-ocs/OCS_CROSS_CONNECT", "NOT_FOUND"),
        (ENTRY.format("7A-7B"), "NOT_FOUND"),
        (CIRCUITS + "/OCS_CROSS_CONNECT_LIST[name=1A-1B]", "NOT_FOUND"),
    ],
)
def test_paths_that_lead_nowhere(path, code):
    def work(session):
        with pytest.raises(client.gNMIException) as caught:
            session.get(path=[path])
        return caught.value.orig_exc.code().name

    assert with_pygnmi(work)[0] == code


ENTRIES = {"OCS_CROSS_CONNECT_LIST": [row("3A-3B"), row("4A-4B")]}


@pytest.mark.parametrize(
    ("path", "value", "made"),
    [
        (ENTRY.format("3A-3B"), row("3A-3B"), ["3A-3B"]),
        (ENTRY.format("3A-3B"), {"sonic-ocs:OCS_CROSS_CONNECT_LIST": [row("3A-3B")]}, ["3A-3B"]),
        (CIRCUITS, ENTRIES, ["3A-3B", "4A-4B"]),
        (CIRCUITS, {"sonic-ocs:OCS_CROSS_CONNECT": ENTRIES}, ["3A-3B", "4A-4B"]),
        (CIRCUITS + "/OCS_CROSS_CONNECT_LIST", ENTRIES, ["3A-3B", "4A-4B"]),
    ],
)
def test_pygnmi_adds(path, value, made):
    _, circuits = with_pygnmi(lambda session: session.set(update=[(path, value)]), [(1, 9)])
    assert circuits == ["1A-1B", *made]


def test_pygnmi_deletes_replaces_and_updates_in_one_request():
    def work(session):
        return session.set(
            delete=[ENTRY.format("1A-1B")],
            replace=[(ENTRY.format("1A-2B"), row("1A-2B"))],
            update=[(ENTRY.format("2A-1B"), row("2A-1B"))],
        )

    reply, circuits = with_pygnmi(work, [(1, 9)])
    assert circuits == ["1A-2B", "2A-1B"]
    assert [result["op"] for result in reply["response"]] == ["DELETE", "REPLACE", "UPDATE"]


def test_replacing_the_table_deletes_the_others():
    _, circuits = with_pygnmi(lambda s: s.set(replace=[(CIRCUITS, ENTRIES)]), [(1, 9), (2, 10)])
    assert circuits == ["3A-3B", "4A-4B"]


def test_a_path_may_be_divided_by_a_prefix():
    def work(session):
        return session.set(
            prefix=CIRCUITS, delete=["OCS_CROSS_CONNECT_LIST[cross_connect_id=1A-1B]"]
        )

    assert with_pygnmi(work, [(1, 9), (2, 10)])[1] == ["2A-2B"]


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        (ENTRY.format("3A-3B"), row("3A-4B"), "INVALID_ARGUMENT"),
        (ENTRY.format("3A-3B"), {"a_side": "3A", "b_side": "3B"}, "INVALID_ARGUMENT"),
        (ENTRY.format("3A-3B"), row("3A-3B") | {"speed": "1"}, "INVALID_ARGUMENT"),
        (ENTRY.format("3A-3B"), row("3A-3B") | {"b_side": "4B"}, "INVALID_ARGUMENT"),
        (ENTRY.format("99A-1B"), row("99A-1B"), "INVALID_ARGUMENT"),
        (CIRCUITS, [1], "INVALID_ARGUMENT"),
        ("sonic-ocs:sonic-ocs/OCS_PORT", {"OCS_PORT_LIST": []}, "INVALID_ARGUMENT"),
        (
            "sonic-ocs-states:sonic-ocs-states/OCS_CROSS_CONNECT",
            {"OCS_CROSS_CONNECT_LIST": [row("3A-3B")]},
            "INVALID_ARGUMENT",
        ),
        # SAI: 1A-1B is removed before 1A-2B is made
        (ENTRY.format("1A-2B"), row("1A-2B"), "FAILED_PRECONDITION"),
    ],
)
def test_values_are_checked_and_nothing_is_made(path, value, code):
    def work(session):
        with pytest.raises(client.gNMIException) as caught:
            session.set(update=[(path, value), (ENTRY.format("5A-5B"), row("5A-5B"))])
        return caught.value.orig_exc.code().name

    assert with_pygnmi(work, [(1, 9)]) == (code, ["1A-1B"])


def converse(requests, circuits=((1, 16), (2, 15), (3, 14))):
    """Send requests by RESTCONF; return the last response, the circuits, and what is configured."""

    async def check():
        async with emulate(model="sonic", services={"restconf": 0}) as emulator:
            emulator.matrix.change([], list(circuits))
            base = f"http://127.0.0.1:{emulator.ports['restconf']}/restconf/"
            auth = ("admin", "root")
            async with httpx.AsyncClient(auth=auth, trust_env=False) as session:
                for method, path, *body in requests:
                    headers = {"content-type": "application/yang-data+json"} if body else {}
                    content = json.dumps(*body) if body else None
                    response = await session.request(
                        method, base + path, content=content, headers=headers
                    )
                listed = await session.get(f"{base}data/{CIRCUITS}")
            made = [f"{a}A-{b - 8}B" for a, b in emulator.matrix.circuits.items()]
        rows = listed.json()["sonic-ocs:OCS_CROSS_CONNECT"]["OCS_CROSS_CONNECT_LIST"]
        return response, made, [entry["cross_connect_id"] for entry in rows]

    return run(check())


def bulk(add=(), delete=()):
    given = ({"delete": list(delete)} if delete else {}) | (
        {"add": [row(name) for name in add]} if add else {}
    )
    return ("POST", "operations/sonic-ocs:bulk-update", {"sonic-ocs:input": given})


#: the cases of the guide, on a switch of 8 by 8 with 1A-8B, 2A-7B and 3A-6B: what is requested,
#: what is counted, what is made, and what stays configured without being made
BULK_CASES = {
    "new keys, no conflict": (
        bulk(["4A-4B", "5A-3B"]),
        (0, 2),
        "1A-8B 2A-7B 3A-6B 4A-4B 5A-3B",
        "",
    ),
    "delete only": (bulk(delete=["1A-8B", "2A-7B", "8A-8B"]), (2, 0), "3A-6B", ""),
    "deletes free the ports of additions": (
        bulk(["1A-1B", "2A-8B"], ["1A-8B", "2A-7B"]),
        (2, 2),
        "1A-1B 2A-8B 3A-6B",
        "",
    ),
    "two that need busy ports": (
        bulk(["1A-1B", "2A-2B"]),
        (0, 2),
        "1A-1B 2A-2B 3A-6B",
        "1A-8B 2A-7B",
    ),
    "one that needs a busy port": (bulk(["1A-1B"]), (0, 1), "1A-8B 2A-7B 3A-6B", "1A-1B"),
    "existing keys": (bulk(["1A-8B", "2A-7B"]), (0, 2), "1A-8B 2A-7B 3A-6B", ""),
    "the same key deleted and added": (bulk(["1A-8B"], ["1A-8B"]), (1, 1), "1A-8B 2A-7B 3A-6B", ""),
}


@pytest.mark.parametrize("case", BULK_CASES)
def test_bulk_update(case):
    request, counts, made, invalid = BULK_CASES[case]
    response, circuits, configured = converse([request])
    deleted, added = counts
    assert response.json() == {"sonic-ocs:output": {"deleted_count": deleted, "added_count": added}}
    assert circuits == made.split()
    assert sorted(configured) == sorted([*made.split(), *invalid.split()])


def test_what_is_invalid_stays_so_until_it_is_deleted():
    lost = bulk(["1A-1B", "2A-2B"])
    _, circuits, _ = converse([lost, bulk(["1A-8B"])])
    assert "1A-8B" not in circuits
    restored = bulk(["1A-8B", "2A-7B"], ["1A-1B", "2A-2B", "1A-8B", "2A-7B"])
    _, circuits, configured = converse([lost, restored])
    assert circuits == ["1A-8B", "2A-7B", "3A-6B"]
    assert sorted(configured) == circuits


@pytest.mark.parametrize(
    "body",
    [
        {"input": {}},
        {"sonic-ocs:input": {"insert": []}},
        {"sonic-ocs:input": {"add": [{"cross_connect_id": "4A-4B"}]}},
        {"sonic-ocs:input": {"delete": ["1A-8B"], "add": [row("4A-99B")]}},
        {"sonic-ocs:input": {"delete": ["1A-8B"], "add": [row("4A-4B") | {"a_side": "5A"}]}},
        {"sonic-ocs:input": {"delete": "1A-8B"}},
        {"sonic-ocs:input": {"delete": ["1A..3A-6B..8B"]}},
    ],
)
def test_a_bulk_update_that_is_wrong_does_nothing(body):
    response, circuits, _ = converse([("POST", "operations/sonic-ocs:bulk-update", body)])
    assert response.status_code == 400
    assert circuits == ["1A-8B", "2A-7B", "3A-6B"]


def test_the_wrapped_body_of_a_patch_and_a_delete_by_key():
    body = {"sonic-ocs:OCS_CROSS_CONNECT": {"OCS_CROSS_CONNECT_LIST": [row("8A-5B")]}}
    key = f"data/{CIRCUITS}/OCS_CROSS_CONNECT_LIST=1A-8B"
    response, circuits, _ = converse([("PATCH", f"data/{CIRCUITS}", body), ("DELETE", key)])
    assert response.status_code == 204
    assert circuits == ["2A-7B", "3A-6B", "8A-5B"]
    assert converse([("DELETE", key), ("DELETE", key)])[0].status_code == 404
