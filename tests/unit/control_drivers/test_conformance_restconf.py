"""What public sources state of RESTCONF on Polatis switches holds for the emulator."""

import asyncio
import json
import tomllib
from pathlib import Path

import pytest
from tests.control_switches import emulate

httpx = pytest.importorskip("httpx")

TABLE = tomllib.loads(Path(__file__).with_name("polatis_restconf.toml").read_text())
CASES = TABLE["case"]


async def converse(case, auth=("admin", "root")):
    """Send a case's request; return the response and the circuits afterwards."""
    async with emulate(services={"restconf": 0}) as emulator:
        emulator.matrix.change([], [(1, 9), (2, 10)])
        base = f"http://127.0.0.1:{emulator.ports['restconf']}"
        async with httpx.AsyncClient(base_url=base, auth=auth, trust_env=False) as client:
            method, path = case["request"]
            # with a slash in front: httpx would take the name of a module for a scheme
            path = path if path.startswith("/") else f"/api/data/{path}"
            headers = dict(case.get("headers", {}))
            if "repeat_with_tag" in case:
                first = await client.request(method, path)
                headers[case["repeat_with_tag"]] = first.headers["etag"]
            content = case.get("text") or ("body" in case and json.dumps(case["body"])) or None
            headers = {"content-type": "application/json"} | headers if content else headers
            emulator.switch.locked_by = case.get("locked_by", 0)
            response = await client.request(method, path, content=content, headers=headers)
        circuits = [f"{a}-{b}" for a, b in emulator.matrix.circuits.items()]
    return response, circuits


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_emulator_agrees(case):
    response, circuits = asyncio.run(converse(case))
    assert response.status_code == case["status"]
    if "json" in case:
        assert response.json() == case["json"]
        assert response.headers["content-type"] == "application/yang-data+json"
    if "keys" in case:
        (content,) = response.json().values()
        assert list(content[0] if isinstance(content, list) else content) == case["keys"]
    if "xml" in case:
        assert response.text == case["xml"]
        assert response.headers["content-type"] == "application/yang-data+xml"
    if "message" in case:
        (error,) = response.json()["ietf-restconf:errors"]["error"]
        assert error["error-message"] == case["message"]
    assert circuits == case.get("circuits", ["1-9", "2-10"])


def test_every_case_names_its_source():
    assert {case["source"] for case in CASES} == set(TABLE["sources"])
    assert len({case["name"] for case in CASES}) == len(CASES) >= 45


@pytest.mark.parametrize("auth", [None, ("admin", "wrong"), ("nobody", "root")])
def test_without_login_nothing_is_told_and_nothing_changes(auth):
    case = {"request": ["DELETE", "optical-switch:cross-connects"]}
    response, circuits = asyncio.run(converse(case, auth))
    assert response.status_code == 401
    assert circuits == ["1-9", "2-10"]
    assert "root" not in response.text
