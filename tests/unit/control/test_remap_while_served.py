"""An edited port map is taken up by the service that runs: no light that stays is touched."""

import asyncio
import contextlib
import json
import re

import numpy as np
import pytest
from tests.control_regions import WHY, emulated, pairs, port_map_of, region_of
from tests.control_sim import GONE
from tests.fake_switch import FakeSwitch
from tests.unit.control.test_map_change import lit, rows_of, write_rows
from tests.unit.control.test_operator import served

from lightloom.cli import run_command
from lightloom.control.client import ControlClient
from lightloom.control.controller import RegionController
from lightloom.control.emulator.matrix import OpticalMatrix
from lightloom.control.example import write_example
from lightloom.control.failure_state import RegionFailures
from lightloom.control.journal import Journal
from lightloom.control.lease import Lease
from lightloom.control.port_map import PortMap, SwitchPort
from lightloom.control.refusals import ServiceError
from lightloom.control.remap import remap
from lightloom.control.report import RegionState
from lightloom.control.switch import CircuitState, CrossConnect, PortSide
from lightloom.control.token import ClientRole, token_for

#: a cross-connect of somebody else, at ports that the region does not have
FOREIGN = (12, 24)
ANEW = "the port map has changed, and with it the numbers of servers: connect anew"


@pytest.fixture
def region(tmp_path):
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12, when="always")
        emulator.matrix.change([], [FOREIGN])
        yield path, emulator


@pytest.fixture
def gone_dark(monkeypatch):
    """The ingress ports whose cross-connects have changed, for however short a time."""
    gone, change = set(), OpticalMatrix.change

    def watched(matrix, deletes, creates):
        before = dict(matrix.circuits)
        try:
            return change(matrix, deletes, creates)
        finally:
            gone.update(a for a, b in before.items() if matrix.circuits.get(a) != b)

    monkeypatch.setattr(OpticalMatrix, "change", watched)
    return gone


def client_of(path, role=ClientRole.JOB, **options):
    file = path.parent / "region.token"
    if role is ClientRole.VIEW and "viewer" not in file.read_text():
        with file.open("a") as tokens:
            tokens.write(f"viewer view {'v' * 40}\n")
    token = token_for(file, role)
    return ControlClient(f"unix:{path.parent / 'region.sock'}", token, **options)


def demand_of(client):
    """Bytes between the first and the last server."""
    demand = np.zeros((client.region["ranks"],) * 2, np.uint64)
    demand[0, -1] = 10**9
    return demand


def test_the_service_takes_up_an_edited_map(region, control, tmp_path, gone_dark):
    path, emulator = region
    with served(path):
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        assert control("drain", path, "nic:2/1", "--why", "new fiber")[0] == 0
        # node3 is gone, and a server is new at the top
        rows = [row for row in rows_of(path) if not row.startswith("node3")]
        write_rows(path, ["new,0,9,21", *rows])
        assert control("apply", path, "--clear", "--yes")[0] == 2
        status, out, _ = control("remap", path)
        assert status == 0
        assert re.fullmatch(
            r"take up .*ports.csv \([0-9a-f]{12} to [0-9a-f]{12}\)", out.split("\n")[0]
        )
        assert out.splitlines()[1:] == [
            "  node3 is gone (2 NICs)",
            "  new is new (1 NIC)",
            "  servers have other numbers, and with them the ranks of a job",
            "  delete node2/0 - node3/0 (5-19 of ocs, 7-17 of ocs)",
            "  1 circuit not touched",
        ]
        before = lit(emulator)
        status, _, err = control("remap", path, "--apply")
        assert (status, lit(emulator)) == (2, before)
        assert err.endswith("nobody can be asked here, and nothing was changed; give --yes\n")
        json_path = tmp_path / "remapped.json"
        status, out, _ = control("remap", path, "--apply", "--yes", "--json", json_path)
        assert (status, re.sub(r" in .*:", ":", out.splitlines()[-1])) == (
            0,
            "done (change 3): 1 circuit",
        )
        assert gone_dark == {5, 7}
        assert lit(emulator) == {1: 15, 3: 13, 12: 24}
        document = json.loads(json_path.read_text())
        assert (document["result"], document["after"]) == ("done", ["1/0-2/0"])
        assert document["dark"] == ["node2/0 - node3/0 (5-19 of ocs, 7-17 of ocs)"]
        # operators and jobs count by the new map, without a restart
        assert control("remap", path, "--apply", "--yes")[1].endswith("nothing to take up\n")
        assert control("resume", path, "nic:2/1")[0] == 2
        assert control("resume", path, "nic:3/1")[0] == 0
        assert control("apply", path, "--add", "0/0-3/0", "--yes")[0] == 0
        assert lit(emulator) == {1: 15, 3: 13, 9: 17, 5: 21, 12: 24}
        assert control("rollback", path, "--apply", "--yes")[0] == 0
        assert lit(emulator) == {1: 15, 3: 13, 12: 24}
    kinds = [line.split()[3] for line in control("audit", path)[1].splitlines()]
    assert kinds == ["roll-back", "apply", "remap", "remap", "apply"]
    assert control("watch", path, "--once")[0] == 0


def test_jobs_that_count_by_the_old_map_are_cut_off(region, control):
    path, emulator = region

    async def scenario():
        events, drained = [], asyncio.Event()

        async def on_event(name, _facts):
            events.append(name)
            if name == "drain":
                await drained.wait()

        async with (
            client_of(path, on_event=on_event) as member,
            client_of(path) as job,
            client_of(path, ClientRole.VIEW) as viewer,
        ):
            await member.request("join", server=3)
            remapping = asyncio.create_task(
                asyncio.to_thread(run_command, ["control", "remap", str(path), "--apply", "--yes"])
            )
            while "drain" not in events:
                await asyncio.sleep(0.01)
            # the remap has its turn: this demand waits, and is refused after it
            asking = asyncio.create_task(job.circuits_for(demand_of(job)))
            await asyncio.sleep(0.05)
            assert not asking.done()
            drained.set()
            with pytest.raises(ServiceError, match=ANEW):
                await asking
            assert await remapping == 0
            for client in (member, job, viewer):
                await asyncio.wait_for(client.closed(), 5)
                with pytest.raises(ServiceError, match=f"not connected: region: {ANEW}"):
                    await client.request("status")
            assert events == ["drain"]  # and no circuits under numbers that mean other servers
        async with client_of(path) as job:
            assert job.region["servers"] == ["new", "node0", "node1", "node2"]
            reply = await job.circuits_for(demand_of(job))
            return reply["result"], reply["circuits"]

    with served(path):
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        write_rows(path, ["new,0,9,21", *(row for row in rows_of(path) if "node3" not in row)])
        result, circuits = asyncio.run(scenario())
        assert result == "done"
        assert [0, 0] in [row[:2] for row in circuits]
        out = control("audit", path)[1]
        kinds = re.findall(r"^ +\d+  \S+ \S+  (\S+)", out, re.MULTILINE)
        assert kinds == ["apply", "remap", "remap", "apply"]  # none for the demand that waited
        assert lit(emulator)[12] == 24


def test_only_an_operator_takes_up_a_map(region, control):
    path, _ = region

    async def scenario():
        for role in (ClientRole.VIEW, ClientRole.JOB):
            async with client_of(path, role) as client:
                for op, facts in (
                    ("plan", {"target": {"kind": "remapped"}}),
                    ("apply", {"plan": {"kind": "remap"}}),
                ):
                    reply = await client.request(op, **facts)
                    assert (
                        reply["ok"],
                        "expected a token of the role operator" in reply["error"],
                    ) == (
                        False,
                        True,
                    )

    with served(path):
        assert control("apply", path, "--add", "0/0-1/0", "--yes")[0] == 0
        write_rows(path, ["new,0,9,21", *rows_of(path)])
        asyncio.run(scenario())
        assert control("apply", path, "--clear", "--yes")[0] == 2


def test_a_plan_of_a_map_is_for_that_map_alone(region, control, tmp_path):
    path, emulator = region
    plan = tmp_path / "remap.json"
    rows = rows_of(path)
    with served(path):
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        before = lit(emulator)
        write_rows(path, rows[:-2])
        assert control("remap", path, "--json", plan)[0] == 0
        write_rows(path, rows[:-1])
        status, _, err = control("apply", path, plan)
        assert (status, lit(emulator)) == (2, before)
        assert "ports.csv was edited after the plan was made; nothing was sent" in err
        write_rows(path, rows[:-2])
        assert control("apply", path, plan)[0] == 0
        assert lit(emulator) == {1: 15, 3: 13, 12: 24}
        assert "the plan was made with another port map" in control("apply", path, plan)[2]
    # and without a service
    write_rows(path, ["new,0,9,21", *rows[:-2]])
    assert control("remap", path, "--json", plan)[0] == 0
    assert control("apply", path, plan)[0] == 0
    assert control("plan", path, "--clear")[1].splitlines()[-4].endswith("1/0-2/0")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda rows: [*rows[:-1], "node3,1,99,24"], "ocs (Polatis 12x12) has no port '99'"),
        (lambda rows: [*rows, "node4,0,1,23"], "port 1 of ocs is there twice"),
        (lambda _rows: [], "ports.csv"),
    ],
)
def test_a_map_that_cannot_be_used_leaves_the_service_as_it_is(region, control, edit, message):
    path, emulator = region

    async def ask():
        async with client_of(path) as job:
            return await job.circuits_for(demand_of(job))

    with served(path):
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        before, rows = lit(emulator), rows_of(path)
        write_rows(path, edit(rows))
        status, _, err = control("remap", path, "--apply", "--yes")
        assert (status, lit(emulator)) == (2, before)
        assert message in err.splitlines()[-1]
        assert asyncio.run(ask())["ok"]
        write_rows(path, rows)
        assert control("apply", path, "--clear", "--yes")[0] == 0


def test_a_switch_that_the_service_does_not_know_needs_a_restart(region, control):
    path, emulator = region
    with served(path):
        assert control("apply", path, "--add", "0/0-1/0", "--yes")[0] == 0
        text = path.read_text()
        path.write_text(f'{text}\n[switches.new]\nurl = "{emulator.url()}"\n')
        rows = [row.split(",") for row in rows_of(path)]
        (path.parent / "ports.csv").write_text(
            "\n".join(
                [
                    "server,nic,switch,ingress,egress",
                    *(f"{a},{b},new,{c},{d}" for a, b, c, d in rows),
                ]
            )
        )
        status, _, err = control("remap", path, "--apply", "--yes")
        assert status == 2
        assert "the running service does not know the switch new; stop the service" in err
    assert lit(emulator) == {1: 15, 3: 13, 12: 24}


def test_a_server_is_drained_and_put_back_while_it_is_served(region, control):
    path, emulator = region

    async def ask():
        async with client_of(path) as job:
            return (await job.circuits_for(demand_of(job)))["circuits"]

    with served(path):
        assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
        status, out, _ = control("drain", path, "server:3", "--why", "new board")
        assert (status, "circuit 2/0-3/0 is lost; its bytes go over the EPS" in out) == (0, True)
        assert lit(emulator) == {1: 15, 3: 13, 12: 24}
        assert all(3 not in row[::2] for row in asyncio.run(ask()))
        # what is drained stays so under another number, also after a restart
        write_rows(path, ["new,0,9,21", *rows_of(path)])
        assert control("remap", path, "--apply", "--yes")[0] == 0
    with served(path):
        assert all(4 not in row[::2] for row in asyncio.run(ask()))
        assert control("resume", path, "server:4")[0] == 0
        assert any(4 in row[::2] for row in asyncio.run(ask()))
        assert lit(emulator)[12] == 24


def test_a_region_of_one_nic_and_no_part_to_drain_are_told_in_words(region, control):
    path, _ = region
    write_rows(path, rows_of(path)[:1])
    assert control("watch", path, "--once")[1].startswith("region: ready; 1 server, 1 NIC on ocs;")
    status, _, err = control("drain", path, "")
    assert (status, err) == (2, "lightloom: PARTS = (): expected at least 1 value\n")


def test_a_plan_of_an_older_version_is_to_be_made_anew(region, control, tmp_path):
    path, _ = region
    plan = tmp_path / "plan.json"
    assert control("plan", path, "--add", "0/0-1/0", "--json", plan)[0] == 0
    content = json.loads(plan.read_text())
    del content["plan"]["port_map"]
    plan.write_text(json.dumps(content))
    status, _, err = control("apply", path, plan)
    assert status == 2
    assert err.endswith(
        "plan.json: a plan of another version, without port_map; make it anew with lightloom "
        "control plan --json\n"
    )


class Killed(BaseException):
    """The process has ended."""


class MortalJournal(Journal):
    """Ends its process at one of its rows, before or after it is written."""

    #: rows until then; None for ever
    fuse, is_after = None, False

    def _append(self, *args, **options):
        if self.fuse is not None:
            self.fuse -= 1
        is_last = self.fuse is not None and self.fuse < 0
        if is_last and not self.is_after:
            raise Killed
        number = super()._append(*args, **options)
        if is_last:
            raise Killed
        return number


@contextlib.asynccontextmanager
async def life(path, switch, port_map):
    journal = MortalJournal(path, "r0")
    lease = Lease(journal, "test", process=GONE)
    port_map = journal.port_map() or port_map
    controller = RegionController(region_of(), port_map, {"ocs": switch}, journal, lease)
    failures = RegionFailures(controller)
    failures.load()
    try:
        await controller.start()
        yield controller, failures, journal
    finally:
        journal.close()


#: rows of a remap: intent and outcome of the deletion, map, intent, outcome and failures
ROWS = 6


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("row", range(ROWS + 1))
def test_a_remap_that_is_killed_at_any_row_is_understood(tmp_path, monkeypatch, row, after):
    def die(*_):
        raise Killed

    before = port_map_of(4, 2, 12)
    rows = [row for row in before.rows if row[0] != "node3"]
    wanted = PortMap.from_rows("ports.csv", ["node2", "node0", "node1"], rows)
    path, switch = tmp_path / "r0.sqlite", FakeSwitch(12)

    async def scenario():
        async with life(path, switch, before) as (controller, failures, _):
            await controller.apply(pairs("0/0-1/0 0/1-2/1 2/0-3/0"), WHY)
            await failures.add(["nic:1/1"])
        stays = {
            CrossConnect(*ends) for ends in (("1", "15"), ("3", "13"), ("2", "18"), ("6", "14"))
        }
        assert len(switch.cross_connects - stays) == 2
        async with life(path, switch, before) as (controller, failures, journal):
            journal.fuse, journal.is_after = row, after
            if row == ROWS and after:  # all rows are there, but this process does not know it
                monkeypatch.setattr(controller, "take_up", die)
            try:
                await remap(controller, failures, wanted, WHY)
                assert (row, after) == (ROWS, False)
            except Killed:
                assert (row, after) != (ROWS, False)
            assert stays <= switch.cross_connects
        async with life(path, switch, before) as (controller, failures, journal):
            assert journal.unfinished() == []
            assert controller.held <= controller.observed.circuits
            is_new = row == ROWS
            assert controller.port_map.servers == (wanted if is_new else before).servers
            assert list(map(str, failures.parts)) == ["nic:2/1" if is_new else "nic:1/1"]
            if not is_new:
                await remap(controller, failures, wanted, WHY)
            assert controller.held == pairs("0/1-1/1 1/0-2/0") == controller.observed.circuits
            assert switch.cross_connects == stays
            assert list(map(str, failures.parts)) == ["nic:2/1"]
            assert journal.damages() == []

    asyncio.run(scenario())


class DuplexSwitch(FakeSwitch):
    """A port carries both directions."""

    @property
    def sides(self):
        return {str(number + 1): PortSide.ANY for number in range(self.size)}


def test_cross_connects_of_duplex_fibers_are_the_same_in_any_order_of_servers(tmp_path):
    ports = [SwitchPort("ocs", str(number + 1)) for number in range(4)]
    rows = [(f"node{number}", 0, *port, *port) for number, port in enumerate(ports)]
    before = PortMap.from_rows("ports.csv", [row[0] for row in rows], rows)
    after = PortMap.from_rows("ports.csv", [row[0] for row in rows[::-1]], rows[::-1])

    async def scenario():
        switch = DuplexSwitch(12)
        async with life(tmp_path / "r0.sqlite", switch, before) as (controller, failures, _):
            await controller.apply(pairs("0/0-1/0"), WHY)
            sent = list(switch.commands)
            await remap(controller, failures, after, WHY)
            assert controller.held == controller.observed.circuits == pairs("2/0-3/0")
            assert controller.state is RegionState.READY
            assert (await controller.apply(pairs("2/0-3/0"), WHY)).result == "unchanged"
            assert switch.commands == sent
            # one that carries no light is the region's own all the same, not somebody else's
            switch.states[CrossConnect("1", "2")] = CircuitState.FAILED
            await controller.check()
            await remap(controller, failures, before, WHY)
            assert controller.held == pairs("0/0-1/0") == frozenset(controller.drift.missing)
            assert controller.drift.strangers == ()

    asyncio.run(scenario())
