"""Operators: plans are applied as they were made or not at all, alone and through a service."""

import asyncio
import contextlib
import json
import sys

import numpy as np
import pytest
from tests.control_regions import emulated, served

from lightloom.control.client import ControlClient
from lightloom.control.emulator import FaultKind
from lightloom.control.example import write_example
from lightloom.control.operations import PlannedChange
from lightloom.control.operator import operator_of, serving
from lightloom.control.refusals import ControlError
from lightloom.control.token import token_for


@pytest.fixture
def region(tmp_path):
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12, when="always")
        yield path, emulator


def lit(emulator):
    return dict(emulator.matrix.circuits)


def test_a_plan_is_applied_as_it_was_made_or_not_at_all(region, control, tmp_path):
    path, emulator = region
    plan = tmp_path / "plan.json"
    assert control("plan", path, "--add", "0/0-1/0,2/0-3/0", "--json", plan)[0] == 0
    assert not lit(emulator)
    status, out, _ = control("apply", path, plan)
    assert (status, len(lit(emulator))) == (0, 4)
    assert out.splitlines()[0] == "region: add 0/0-1/0, add 2/0-3/0"
    # the same plan again, or one from before a change, is refused
    assert (
        "have changed since the plan was made; nothing was sent" in control("apply", path, plan)[2]
    )
    assert control("plan", path, "--remove", "0/0-1/0", "--json", plan)[0] == 0
    before = lit(emulator)
    emulator.matrix.change([], [(8, 24)])
    assert control("apply", path, plan)[0] == 2
    assert lit(emulator) == {**before, 8: 24}
    emulator.matrix.change([8], [])
    assert control("apply", path, plan)[0] == 0
    assert lit(emulator) == {5: 19, 7: 17}


def test_a_plan_of_another_region_or_of_nothing(region, control, tmp_path):
    path, emulator = region
    plan = tmp_path / "plan.json"
    control("plan", path, "--add", "0/0-1/0", "--json", plan)
    content = json.loads(plan.read_text())
    for change, message in (
        ({"region": "other"}, "the plan is of region 'other', not of region"),
        ({"seen": "x"}, "seen"),
        ({"wanted": ["0/0-9/0"]}, "server 9 has no NIC 0"),
        ({"extra": 1}, "unknown key 'extra'"),
    ):
        plan.write_text(json.dumps({"plan": {**content["plan"], **change}}))
        status, _, err = control("apply", path, plan)
        assert status == 2
        assert message in err.splitlines()[-1]
    plan.write_text("[]")
    assert control("apply", path, plan)[2].endswith(
        "plan.json: expected a plan of lightloom control plan --json\n"
    )
    assert not lit(emulator)


@pytest.mark.parametrize("words", [("--clear",), ("--circuits", "empty.txt"), ("--adopt",)])
def test_nothing_is_changed_where_nobody_can_be_asked(
    region, control, tmp_path, monkeypatch, words
):
    path, emulator = region
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    control("apply", path, "--add", "0/0-1/0", "--yes")
    emulator.matrix.change([], [(8, 19)])
    before = lit(emulator)
    mode = () if words == ("--adopt",) else ("--conflicts", "update")
    assert control("apply", path, *words, *mode)[0] == 2
    assert lit(emulator) == before


def test_the_answer_counts(region, control, monkeypatch):
    path, emulator = region
    asked = []

    class Terminal:
        def __init__(self, stream):
            self.stream = stream

        def isatty(self):
            return True

        def readline(self):
            return asked.pop(0)

        def __getattr__(self, name):
            return getattr(self.stream, name)

    for text, count in (("n\n", 0), ("\n", 0), ("y\n", 2)):
        asked.append(text)
        monkeypatch.setattr("sys.stdin", Terminal(sys.stdin))
        monkeypatch.setattr("sys.stderr", Terminal(sys.stderr))
        status, _, err = control("apply", path, "--add", "0/0-1/0")
        assert "Change region? 0 circuits of 0 will go dark [y/N]" in err
        assert (status, len(lit(emulator))) == (0 if count else 2, count)


def test_circuits_are_added_and_removed_one_by_one(region, control):
    path, emulator = region
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    assert control("apply", path, "--add", "0/1-2/1", "--remove", "2/0-3/0", "--yes")[0] == 0
    assert len(lit(emulator)) == 4
    for words, message in (
        (("--remove", "2/0-3/0"), "circuit 2/0-3/0 is not there"),
        (("--add", "0/0-3/0"), "NIC 0/0 ends circuit 0/0-1/0; remove that one as well"),
        (("--add", "0/0"), "expected a circuit such as 0/1-3/0"),
    ):
        status, _, err = control("apply", path, *words, "--yes")
        assert status == 2
        assert err.splitlines()[-1].endswith(message)


def test_no_mode_is_ever_raised(region, control):
    """What a stranger connects after the last reading stays in mode safe, whatever is asked."""
    path, emulator = region
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    emulator.matrix.change([1, 3], [])
    emulator.matrix.change([], [(1, 20)])  # a NIC of the region, in somebody else's hands
    assert control("plan", path, "--reapply")[0] == 2
    update = ("--add", "0/0-1/0", "--conflicts", "update")
    assert "  replace      1  1-20 of ocs" in control("plan", path, *update)[1]
    for words in (
        ("apply", path, "--reapply", "--yes"),
        ("apply", path, "--add", "0/0-1/0", "--yes"),
        ("rollback", path, "--change", 1, "--apply", "--yes"),
        ("apply", path, "--clear", "--yes"),
    ):
        control(*words)
        assert lit(emulator)[1] == 20


def test_an_operator_acts_through_the_running_service(region, control, tmp_path):
    path, emulator = region
    with served(path):
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        assert len(lit(emulator)) == 4
        plan = tmp_path / "plan.json"
        assert control("plan", path, "--remove", "0/0-1/0", "--json", plan)[0] == 0
        assert control("apply", path, plan)[0] == 0
        assert len(lit(emulator)) == 2
        assert control("rollback", path, "--apply", "--yes")[0] == 0
        assert len(lit(emulator)) == 4
        emulator.matrix.change([1], [])
        assert control("apply", path, "--reapply", "--yes")[0] == 0
        assert len(lit(emulator)) == 4
        emulator.matrix.change([1], [])
        status, out, _ = control("apply", path, "--adopt", "--yes")
        assert (status, out.splitlines()[-1]) == (0, "adopted: 1 circuit")
        status, out, _ = control("drain", path, "nic:2/0", "--why", "new transceiver")
        assert (status, out.splitlines()[0]) == (0, "excluded: NIC 2/0")
        assert 5 not in lit(emulator)
        assert control("resume", path, "nic:2/0")[0] == 0
        assert control("apply", path, "--clear", "--yes")[0] == 0
        assert control("drain", path, "nic:9/0")[0] == 2
    reasons = [line for line in control("audit", path)[1].splitlines() if "new transceiver" in line]
    assert len(reasons) == 1


@pytest.mark.parametrize("is_served", [False, True])
def test_a_drain_that_leaves_light_says_so(region, control, is_served):
    """Somebody is about to pull a fiber: what still carries light is said, and the status is 2."""
    path, emulator = region
    with served(path) if is_served else contextlib.nullcontext():
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        for _ in range(4):
            emulator.faults.next_change(FaultKind.STUCK, ports=(5,))
        status, out, err = control("drain", path, "nic:2/0")
        assert (status, lit(emulator)) == (2, {1: 15, 3: 13, 5: 19})
        assert out.splitlines()[-1] == (
            "  2/0-3/0: 5-19 of ocs was to be deleted, but the switch still has it"
        )
        assert err.splitlines()[-1] == "lightloom: not deleted: 1 circuit; see above"
        left = "  alarm: 5-19 of ocs is left of 2/0-3/0, which was made or deleted in part\n"
        assert left in control("watch", path, "--once")[1]
        # whoever asks again is not told that all is well
        again = control("drain", path, "nic:2/0")
        assert (again[0], again[1].splitlines()[-1]) == (2, out.splitlines()[-1])
        # nor is whoever changes circuits, whichever they are
        cleared = control("apply", path, "--clear", "--yes")
        assert (cleared[0], cleared[1].splitlines()[-1]) == (2, out.splitlines()[-1])
        assert cleared[2].splitlines()[-1] == (
            "lightloom: not as wanted: 1 circuit (partial); see above"
        )
        assert lit(emulator) == {5: 19}
        added = control("apply", path, "--add", "0/0-1/0", "--yes")
        assert (added[0], added[1].splitlines()[-1]) == (2, out.splitlines()[-1])
        assert lit(emulator) == {1: 15, 3: 13, 5: 19}
        assert control("resume", path, "nic:2/1")[2].endswith(
            "lightloom: nic:2/1: is in service; out of service: nic:2/0\n"
        )
        emulator.matrix.stuck.clear()
        assert (control("drain", path, "nic:2/0")[0], lit(emulator)) == (0, {1: 15, 3: 13})
        assert "alarm" not in control("watch", path, "--once")[1]


def test_where_nobody_can_be_asked_the_advice_leads_on(region, control, tmp_path):
    path, emulator = region
    control("apply", path, "--add", "0/0-1/0", "--yes")
    control("apply", path, "--clear", "--yes")
    plan = tmp_path / "back.json"
    assert control("rollback", path, "--apply")[2].endswith(
        "give --yes, or lightloom control apply a plan of lightloom control rollback --json\n"
    )
    assert control("rollback", path, "--json", plan)[0] == 0
    assert control("apply", path, plan)[0] == 0
    assert len(lit(emulator)) == 2


def test_a_paused_region_serves_no_demand(region, control):
    path, emulator = region
    demand = np.zeros((32, 32), np.uint64)
    demand[0, 31] = 10**9

    async def ask():
        async with serving(path) as operator:
            return await operator.client.circuits_for(demand)

    with served(path):
        status, out, _ = control("service", path, "--pause", "new fibers")
        assert status == 0
        assert out.splitlines()[1].endswith("new fibers")
        reply = asyncio.run(ask())
        assert not reply["ok"]
        assert reply["error"].endswith("new fibers; use the EPS")
        assert not lit(emulator)
        assert control("apply", path, "--add", "0/0-1/0", "--yes")[0] == 0
        assert control("service", path, "--go-on")[0] == 0
        assert asyncio.run(ask())["result"] == "done"
    status, _, err = control("service", path)
    assert (status, err) == (
        2, "lightloom: region: no service listens; start lightloom control serve\n"
    )  # fmt: skip


def test_drift_is_seen_under_load(region):
    """All circuits vanish while a job asks for the same ones: the next old answer says so."""
    path, emulator = region
    text = path.read_text()
    path.write_text(text + "\n[serve]\nmax_age_s = 0.05\n")
    demand = np.zeros((32, 32), np.uint64)
    demand[0, 31] = 10**9

    async def job():
        async with serving(path) as operator:
            client: ControlClient = operator.client
            assert (await client.circuits_for(demand))["result"] == "done"
            emulator.matrix.change(list(lit(emulator)), [])
            began = asyncio.get_running_loop().time()
            while True:
                reply = await client.circuits_for(demand)
                age_s = asyncio.get_running_loop().time() - began
                if reply["state"] != "ready":
                    return age_s, reply
                assert age_s < 5.0
                await asyncio.sleep(0.005)

    with served(path):
        age_s, reply = asyncio.run(job())
    assert reply["circuits"] == []
    assert age_s < 1.0


def swap_servers(path):
    """Give each of the first two servers the number of the other; return what was there."""
    ports = path.parent / "ports.csv"
    before = ports.read_text()
    head, *rows = before.splitlines()
    ports.write_text("\n".join([head, *rows[2:4], *rows[:2], *rows[4:]]) + "\n")
    return before


def test_a_plan_counts_by_its_port_map_alone(region, control, tmp_path):
    """Whatever else is skipped: the circuits of a plan are never made at other machines."""
    path, emulator = region
    plan = tmp_path / "plan.json"
    assert control("plan", path, "--add", "0/0-2/0", "--json", plan)[0] == 0
    before = swap_servers(path)
    message = "the plan was made with another port map, by which its circuits are other ones"
    for words in ((), ("--yes",)):
        status, _, err = control("apply", path, plan, *words)
        assert status == 2
        assert err.splitlines()[-1] == f"lightloom: region: {message}; nothing was sent: plan again"
    planned = PlannedChange.model_validate(json.loads(plan.read_text())["plan"])

    async def insist():
        async with operator_of(path) as operator:
            with pytest.raises(ControlError, match=message):
                await operator.apply(planned, checks=False)

    asyncio.run(insist())
    with served(path):
        asyncio.run(insist())
    assert not lit(emulator)
    (path.parent / "ports.csv").write_text(before)
    assert control("remap", path, "--apply", "--yes")[0] == 0
    assert control("apply", path, plan)[0] == 0
    assert lit(emulator) == {1: 17, 5: 13}
    # a switch that has changed since is no reason to skip what was read at it, either
    assert control("plan", path, "--remove", "0/0-2/0", "--json", plan)[0] == 0
    emulator.matrix.change([], [(8, 24)])
    status, _, err = control("apply", path, plan, "--yes")
    assert (status, lit(emulator)) == (2, {1: 17, 5: 13, 8: 24})
    assert "have changed since the plan was made" in err


CHANGES = (
    ("apply", "--add", "1/1-3/1", "--yes"),
    ("apply", "--circuits", "wanted.txt", "--yes"),
    ("apply", "--clear", "--yes"),
    ("apply", "--reapply", "--yes"),
    ("apply", "--adopt", "--yes"),
    ("rollback", "--apply", "--yes"),
    ("drain", "nic:0/0"),
    ("resume", "nic:0/0"),
)


def test_a_service_refuses_operators_by_another_port_map(region, control, tmp_path, monkeypatch):
    path, emulator = region
    ports = path.parent / "ports.csv"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wanted.txt").write_text("0/0-2/0\n")
    demand = np.zeros((32, 32), np.uint64)
    demand[0, 31] = 10**9

    async def ask_as_job():
        address = f"unix:{path.parent / 'region.sock'}"
        async with ControlClient(address, token_for(path.parent / "region.token")) as client:
            failed = await client.request("fail", parts=["nic:2/1"])
            return failed, await client.circuits_for(demand)

    def all_refused(message):
        there = lit(emulator)
        for command, *words in CHANGES:
            status, _, err = control(command, path, *words)
            assert (status, lit(emulator)) == (2, there), (command, words)
            assert len(err.splitlines()) == 1, err
            assert message in err

    with served(path):
        assert control("apply", path, "--add", "0/0-1/0", "--yes")[0] == 0
        before = swap_servers(path)
        all_refused(
            "ports.csv has changed since the last change of circuits: servers are in another "
            "order, and with them the ranks of a job; look at it, and take it up, with lightloom "
            "control remap"
        )
        # who names no circuit, and the job, go on
        assert control("service", path, "--pause", "new map")[0] == 0
        assert control("service", path, "--go-on")[0] == 0
        assert all(reply["ok"] for reply in asyncio.run(ask_as_job()))
        ports.write_text("server,nic\n")
        all_refused("ports.csv")
        ports.unlink()
        all_refused("ports.csv: no such file")
        # the map counts, not the name of its file
        (path.parent / "other.csv").write_text(before)
        text = path.read_text()
        path.write_text(text.replace("ports.csv", "other.csv"))
        assert control("apply", path, "--clear", "--yes")[0] == 0
        assert not lit(emulator)
        path.write_text(text)
        ports.write_text(before)
        for command, *words in CHANGES[:1] + CHANGES[-2:]:
            assert control(command, path, *words)[0] == 0, (command, words)
    assert lit(emulator)
