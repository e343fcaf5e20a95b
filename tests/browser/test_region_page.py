"""The page of a region that is served: live, hostile names and all, and when nobody answers."""

import asyncio
import contextlib
import io
import json
import threading
import urllib.request

import numpy as np
import pytest
from tests.browser.conftest import PATIENCE_MS
from tests.control_regions import emulated

from lightloom.control.client import ControlClient
from lightloom.control.example import write_example
from lightloom.control.running import open_region, serve
from lightloom.control.token import ClientRole, token_for
from lightloom.report.page_region import render_region

HOSTILE = "<img src=x onerror=document.title='owned'>&\"'</script><b>"


class Served:
    """A region that is served in a thread, and what clients and its switch do."""

    def __init__(self, path, emulator):
        self.path, self.emulator = path, emulator
        self.loop, self.stop = asyncio.new_event_loop(), lambda: None
        self.ready, self.thread = threading.Event(), None
        self.url = ""

    def start(self):
        region = open_region(self.path, io.StringIO())
        self.url = f"http://127.0.0.1:{region.file.serve.http_port}/"

        async def run():
            task = asyncio.current_task()
            self.stop = lambda: self.loop.call_soon_threadsafe(task.cancel)
            page = render_region(region.file.name)
            with contextlib.suppress(asyncio.CancelledError):
                await serve(region, lambda _address: self.ready.set(), page)

        self.ready.clear()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(run(),))
        self.thread.start()
        assert self.ready.wait(30)

    def end(self):
        self.stop()
        self.thread.join()

    def ask(self, op=None, body=None, **facts):
        """The reply to a request, or to a demand."""
        token = token_for(self.path.parent / "region.token", ClientRole.OPERATOR)

        async def asked():
            async with ControlClient(f"unix:{self.path.parent / 'region.sock'}", token) as client:
                if body is not None:
                    return await client.circuits_for(body, **facts)
                return await client.request(op, **facts)

        done = []
        thread = threading.Thread(target=lambda: done.append(asyncio.run(asked())))
        thread.start()
        thread.join()
        return done[0]

    def document(self):
        with urllib.request.urlopen(f"{self.url}region.json") as reply:
            return json.load(reply)


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def region(tmp_path):
    """Four servers of which one has a hostile name, with circuits by a demand."""
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12, when="always")
        ports = tmp_path / "ports.csv"
        quoted = '"' + HOSTILE.replace('"', '""') + '"'
        ports.write_text(ports.read_text().replace("node2,", f"{quoted},"))
        path.write_text(f"{path.read_text()}\n[serve]\nhttp_port = {free_port()}\ncheck_s = 0.2\n")
        served = Served(path, emulator)
        served.start()
        try:
            demand = np.zeros((32, 32), np.uint64)
            demand[:8, 16:24] = 10**8
            reply = served.ask(body=demand, job=HOSTILE, step=3, layer=5)
            assert reply["result"] == "done"
            yield served
        finally:
            served.end()
            served.loop.close()


@pytest.fixture
def visit(browser):
    """Open the page as it is served; whatever it asks another place for, or complains of, fails."""
    problems, contexts = [], []

    def opened(served, *, width=1280, scheme="light", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme,
            java_script_enabled=scripts,
        )  # fmt: skip
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request", lambda r: r.url.startswith(served.url) or problems.append(r.url)
        )  # fmt: skip
        page.goto(served.url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


def rows(page, section):
    return [row.all_inner_texts() for row in map(cells, page.locator(f"#{section} tbody tr").all())]


def cells(row):
    return row.locator("th, td")


def test_the_page_shows_circuits_demand_changes_switches_and_clients(region, visit):
    page = visit(region)
    page.locator("#circuits tbody tr").first.wait_for()
    shown, found = rows(page, "circuits"), region.document()["circuits"]
    assert {row[0] for row in shown} == {one["circuit"] for one in found}
    assert len(found) >= 2
    for row, one in zip(shown, found, strict=True):
        assert one["state"] == row[1] == "lit"
        assert row[2] == " – ".join(f"{end['server']} NIC {end['nic']}" for end in one["ends"])
        assert row[3] == ", ".join(light["cross_connect"] for light in one["light"])
        assert row[5] == "1"
        assert row[6].endswith(" dB")
    assert any(HOSTILE in row[2] for row in shown)
    assert page.title() == "region: ready"
    assert page.locator("#state").inner_text().startswith(f"region: ready; {len(found)} of ")
    said = page.locator("#demand p").first.inner_text()
    assert f"job {HOSTILE}; step 3; layer 5" in said
    assert "6.40 GB; done" in said
    assert rows(page, "demand")[0][:2] == [f"node0 – {HOSTILE}", "6.40 GB"]
    (change,) = rows(page, "changes")
    assert change[:2] == ["1", "done"]
    assert HOSTILE in change[2]
    assert rows(page, "switches")[0][:2] == ["ocs", "Polatis emulated"]
    assert page.locator("#alarms").inner_text().endswith("None.")
    assert page.locator("#warnings").inner_text() == ""


def test_it_follows_what_happens(region, visit):
    page = visit(region)
    page.locator("#circuits tbody tr").first.wait_for()
    region.ask("pause", why=HOSTILE)
    page.get_by_text("Paused").wait_for()
    assert HOSTILE in page.locator("#warnings").inner_text()
    region.ask("fail", parts=["nic:3/1"], why="new fiber")
    page.get_by_text("nic:3/1").first.wait_for()
    region.emulator.matrix.change([min(region.emulator.matrix.circuits)], [])
    page.get_by_text("1 circuit missing").wait_for()
    first = rows(page, "circuits")[0]
    assert first[1] == "missing"  # what is wrong comes first
    assert page.title() == "! region: drifted"


def test_it_says_when_the_service_does_not_answer_and_goes_on_when_it_does(region, visit):
    page = visit(region)
    page.locator("#circuits tbody tr").first.wait_for()
    count = len(rows(page, "circuits"))
    region.end()
    page.get_by_text("The service does not answer").wait_for()
    assert page.title() == "! region: does not answer"
    assert "What is shown is" in page.locator("#warnings").inner_text()
    assert len(rows(page, "circuits")) == count
    region.start()
    page.get_by_text("The service does not answer").wait_for(state="detached")
    # the journal says since when, also to a service that has begun later
    assert all(row[5] == "1" for row in rows(page, "circuits"))


def test_an_old_reading_is_called_old(region, visit):
    page = visit(region)
    page.locator("#circuits tbody tr").first.wait_for()
    document = region.document()
    aged = {**document, "age_s": 125.0, "is_old": True}
    page.route("**/region.json", lambda route: route.fulfill(json=aged))
    page.get_by_text("the switches were last read 2 min ago").wait_for()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_every_width(region, visit, width, scheme):
    page = visit(region, width=width, scheme=scheme)
    page.locator("#circuits tbody tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_it_says_what_is_needed(region, visit):
    page = visit(region, scripts=False)
    said = page.locator("noscript").inner_text()
    assert "Scripts are off." in said
    assert "lightloom control watch" in said
    page.get_by_role("link", name="region.json").click()
    assert '"circuits"' in page.content()
