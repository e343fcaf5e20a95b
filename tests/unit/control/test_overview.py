"""What the page of a region reads: true, without secrets, cheap, and to this machine alone."""

import asyncio
import io
import json
import sqlite3
import sys

import numpy as np
import pytest
from tests.control_regions import WHY, controlled, pairs, port_map_of
from tests.unit.control.test_loopback_http import response_to

from lightloom.control.history import ChangeHistory
from lightloom.control.journal import ChangeIntent, ChangeOutcome, ChangeReason, Journal
from lightloom.control.lease import Lease
from lightloom.control.logs import ControlLog
from lightloom.control.loopback_http import LoopbackServer, Page
from lightloom.control.metrics import ControlMetrics
from lightloom.control.overview import overview
from lightloom.control.refusals import JournalError
from lightloom.control.region_pages import region_pages
from lightloom.control.session import RegionSession, SeenDemand
from lightloom.control.switch import SwitchError


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "r0.sqlite", "r0")
    Lease(journal, "test").take()
    journal.use_map(port_map_of(4, 2, 12), 1.0)
    yield journal
    journal.close()


def change(journal, before, wanted, at, *, ends=True, after=None):
    intent = ChangeIntent("apply", WHY, pairs(before), pairs(wanted), {"ocs": (0, 1)}, 0.04)
    number = journal.begin(intent, 1, at)
    if ends:
        end(journal, number, wanted if after is None else after, at + 0.5)
    return number


def end(journal, number, after, at):
    outcome = ChangeOutcome("done", pairs(after), {"3/0-3/1": "stuck"}, {"switch": 0.25})
    journal.end(number, outcome, at)


def since(history):
    return {circuit: (one.at, one.change) for circuit, one in history.since.items()}


def test_a_circuit_is_there_since_it_was_last_made(journal):
    history = ChangeHistory(journal)
    history.refresh()
    assert history.changes == ()
    change(journal, "", "0/0-1/0 0/1-2/0", 10.0)
    change(journal, "0/0-1/0 0/1-2/0", "0/0-1/0", 20.0)
    history.refresh()
    assert since(history) == {"0/0-1/0": (10.5, 1)}
    change(journal, "0/0-1/0", "0/0-1/0 0/1-2/0", 30.0)
    # one that had vanished, and is made again
    change(journal, "0/1-2/0", "0/0-1/0 0/1-2/0", 40.0)
    history.refresh()
    assert since(history) == {"0/0-1/0": (40.5, 4), "0/1-2/0": (30.5, 3)}
    assert [one.number for one in history.changes] == [4, 3, 2, 1]
    assert [sorted(one.deleted) for one in history.changes[2:]] == [["0/1-2/0"], []]
    assert (history.changes[0].seconds, history.changes[0].reason) == (0.25, WHY)
    # another that begins now says the same
    other = ChangeHistory(journal)
    other.refresh()
    assert (other.since, other.changes) == (history.since, history.changes)


def test_a_change_that_stays_open_is_looked_at_again(journal):
    history = ChangeHistory(journal)
    first = change(journal, "", "0/0-1/0", 10.0, ends=False)
    change(journal, "", "0/1-2/0", 20.0)
    history.refresh()
    assert [one.result for one in history.changes] == ["done", "open"]
    assert since(history) == {"0/1-2/0": (20.5, 2)}
    end(journal, first, "0/0-1/0 0/1-2/0", 30.0)
    history.refresh()
    assert [one.result for one in history.changes] == ["done", "done"]
    assert since(history) == {"0/0-1/0": (30.0, 1), "0/1-2/0": (20.5, 2)}


def test_only_what_is_new_is_read_and_the_last_changes_are_kept(journal, monkeypatch):
    history, asked = ChangeHistory(journal), []
    rows_after = journal.rows_after
    monkeypatch.setattr(
        journal, "rows_after", lambda number: asked.append(number) or rows_after(number)
    )
    for number in range(30):
        change(journal, "", "", float(number))
        history.refresh()
    assert asked == list(range(30))
    assert [one.number for one in history.changes] == list(range(30, 10, -1))


def test_circuits_of_another_port_map_and_damaged_rows_are_left_out(journal, tmp_path):
    change(journal, "", "0/0-1/0", 10.0)
    journal.write_map(port_map_of(5, 2, 12), 15.0)
    change(journal, "", "0/1-2/0", 20.0)
    damaged = change(journal, "0/1-2/0", "", 30.0)
    with sqlite3.connect(tmp_path / "r0.sqlite") as connection:
        connection.execute("DROP TRIGGER outcomes_stay")
        connection.execute("UPDATE outcomes SET failed = '{' WHERE id = ?", (damaged,))
    connection.close()
    history = ChangeHistory(journal)
    history.refresh()
    assert since(history) == {"0/1-2/0": (20.5, 2)}
    assert [one.number for one in history.changes] == [2, 1]
    # and so are those of before, once a map is taken up
    journal.write_map(port_map_of(4, 2, 12), 40.0)
    change(journal, "", "0/0-1/0", 50.0)
    history.refresh()
    assert since(history) == {"0/0-1/0": (50.5, 4)}


def shown(folder, scenario, **change):
    """What is shown of a region while a scenario goes on."""

    async def run():
        async with controlled(folder, **change) as (controller, switch):
            session = RegionSession(controller)
            history = ChangeHistory(controller.journal)
            return await scenario(session, switch, lambda: overview(session, history))

    return asyncio.run(run())


def states(document):
    return {one["circuit"]: one["state"] for one in document["circuits"]}


def test_what_is_lit_missing_somebody_elses_changing_and_unknown(tmp_path):
    async def scenario(session, switch, look):
        controller = session.controller
        await controller.apply(pairs("0/0-1/0 2/0-3/0"), WHY)
        found = [look()]
        connects = {
            circuit: [one.cross_connect for one in controller.port_map.cross_connects(circuit)]
            for circuit in pairs("0/0-1/0 0/1-1/1")
        }
        switch.cross_connects -= set(connects[min(connects)])
        switch.cross_connects |= set(connects[max(connects)])
        await controller.check()
        session._changing = pairs("2/0-3/0")
        found.append(look())
        switch.is_down = True
        session._changing = frozenset()
        with pytest.raises(SwitchError):
            await controller.check()
        return [*found, look()]

    ready, drifted, unread = shown(tmp_path, scenario)
    assert states(ready) == {"0/0-1/0": "lit", "2/0-3/0": "lit"}
    assert ready["circuits"][0]["ends"] == [
        {"server": "node0", "nic": 0},
        {"server": "node1", "nic": 0},
    ]
    assert [one["cross_connect"] for one in ready["circuits"][0]["light"]] == [
        "1-15 of ocs",
        "3-13 of ocs",
    ]
    assert all(one["change"] == 1 and one["since"] <= ready["at"] for one in ready["circuits"])
    assert states(drifted) == {
        "0/0-1/0": "missing",
        "0/1-1/1": "somebody else's",
        "2/0-3/0": "changing",
    }
    assert drifted["region"]["state"] == "drifted"
    assert set(states(unread).values()) == {"unknown"}


def test_the_age_of_a_reading_is_told_and_an_old_one_called_old(tmp_path):
    async def scenario(session, _, look):
        controller, found = session.controller, []
        check_s = controller.region.serve.check_s
        for age_s in (0.0, 3 * check_s - 1, 3 * check_s + 1):
            controller.read_s = asyncio.get_running_loop().time() - age_s
            document = look()
            assert document["age_s"] == pytest.approx(age_s, abs=0.5)
            found.append(document["is_old"])
        return found

    assert shown(tmp_path, scenario) == [False, False, True]


def test_the_last_demand_is_told_with_its_busiest_pairs(tmp_path):
    async def scenario(session, _, look):
        assert look()["demand"] is None
        await session.controller.apply(pairs("0/0-1/0"), WHY)
        matrix = np.zeros((4, 4), np.uint64)
        matrix[0, 1], matrix[1, 0], matrix[2, 3] = 70, 5, 50
        session.demand = SeenDemand(1.0, ChangeReason("job", "for x", "moe"), 2, "held", matrix)
        return look()["demand"]

    assert shown(tmp_path, scenario) == {
        "at": 1.0,
        "who": "job",
        "why": "for x",
        "job": "moe",
        "step": None,
        "layer": None,
        "all_to_alls": 2,
        "result": "held",
        "bytes": 125,
        "pairs": [
            {"servers": ["node0", "node1"], "bytes": 75, "circuits": 1},
            {"servers": ["node2", "node3"], "bytes": 50, "circuits": 0},
        ],
    }


class UnreadableJournal:
    def rows_after(self, _number):
        raise JournalError("r0.sqlite: cannot read the journal: disk I/O error")


def test_a_journal_that_cannot_be_read_is_told_and_the_rest_is_shown(tmp_path):
    async def scenario(session, *_):
        await session.controller.apply(pairs("0/0-1/0"), WHY)
        return overview(session, ChangeHistory(UnreadableJournal()))

    document = shown(tmp_path, scenario)
    assert document["journal_problem"].endswith("disk I/O error")
    assert states(document) == {"0/0-1/0": "lit"}
    assert document["circuits"][0]["since"] is None


def test_no_secret_is_on_a_page_and_a_document_is_made_once_a_second(tmp_path):
    stream = io.StringIO()
    log = ControlLog(stream, "r0", ["hunter2"])

    async def scenario(session, _, __):
        await session.controller.apply(pairs("0/0-1/0"), ChangeReason("me", "login hunter2"))
        session.note_alarms({"port hunter2": "said hunter2"})
        session.operators.paused = "hunter2"
        pages = region_pages(session, ControlMetrics("r0"), log, "<p>page</p>")
        document = pages["/region.json"]()
        assert pages["/region.json"]() is document
        assert pages["/"]() == Page("text/html; charset=utf-8", b"<p>page</p>")
        return document

    kind, content = shown(tmp_path, scenario)
    assert kind == "application/json"
    assert b"hunter2" not in content
    assert json.loads(content)["changes"][0]["why"] == "login [hidden]"


def test_without_a_library_that_counts_there_are_no_metrics_and_the_log_says_so(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    stream = io.StringIO()

    async def scenario(session, _, __):
        return region_pages(session, ControlMetrics("r0"), ControlLog(stream, "r0"))

    assert shown(tmp_path, scenario).keys() == {"/region.json"}
    assert "install prometheus-client" in stream.getvalue()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"", 200),
        (b"Host: 127.0.0.1:9464\r\n", 200),
        (b"host:LOCALHOST\r\n", 200),
        (b"Host: [::1]:9464\r\n", 200),
        (b"Host: attacker.example:9464\r\n", 421),
        (b"Host: localhost.attacker.example\r\n", 421),
        (b"Host: localhost\r\nHost: attacker.example\r\n", 421),
        (b"Host: 127.0.0.1:9464.attacker.example\r\n", 421),
        (b"Host : attacker.example\r\n", 421),
    ],
)
def test_a_name_that_leads_to_this_machine_reads_nothing(host, status):
    async def scenario():
        server = LoopbackServer({"/": lambda: Page("text/html", b"<p>")})
        port = await server.start(0)
        try:
            return await response_to(port, b"GET / HTTP/1.1\r\n" + host + b"\r\n")
        finally:
            await server.close()

    answer = asyncio.run(scenario())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Access-Control" not in answer
    if status == 200:
        assert b"connect-src 'self'; frame-ancestors 'none'" in answer
        assert b"Cache-Control: no-store" in answer


def test_a_page_that_cannot_be_made_ends_no_service():
    events = []

    def broken():
        raise KeyError("x")

    async def scenario():
        server = LoopbackServer({"/": broken}, notify=lambda name, _facts: events.append(name))
        port = await server.start(0)
        try:
            return [await response_to(port, b"GET / HTTP/1.1\r\n\r\n") for _ in range(2)]
        finally:
            await server.close()

    for answer in asyncio.run(scenario()):
        assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert b"KeyError" not in answer
    assert events == ["internal-error"] * 2
